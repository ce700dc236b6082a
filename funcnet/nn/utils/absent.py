"""What torch.nn.utils has and `funcnet.nn.utils` does not, why, and what to use: the text of the AttributeErrors."""

__all__ = ["ABSENT", "ABSENT_PARAMETRIZE", "ABSENT_PRUNE"]

_PURE = "Arrays do not change in place. Use"
_LAYOUT = "An array has no memory format, for XLA lays it out itself. Use the layer as it is."

ABSENT: dict[str, str] = {
    "clip_grad_norm_": f"{_PURE} nn.utils.clip_grad_norm, which gives the gradients and the norm.",
    "clip_grad_value_": f"{_PURE} nn.utils.clip_grad_value, which gives the gradients.",
    "clip_grads_with_norm_": f"{_PURE} nn.utils.clip_grads_with_norm, which gives the gradients.",
    "convert_conv2d_weight_memory_format": _LAYOUT,
    "convert_conv3d_weight_memory_format": _LAYOUT,
    "memory_format": _LAYOUT,
    "skip_init": "A description allocates nothing and draws nothing. Use the constructor, then load_state_dict.",
    "init": "Its one function is skip_init, and a description allocates nothing. Use the constructor.",
    "stateless": "Every module is called with its arrays. Use nn.Module.apply: net.apply(params, state, x).",
}

ABSENT_PARAMETRIZE: dict[str, str] = {
    "cached": "A parametrized weight is computed once for each call of its module. Use forward as it is.",
    "transfer_parametrizations_and_params": "Descriptions are copied with all they have. Use copy.deepcopy.",
    "type_before_parametrizations": "The class of a module stays when it is parametrized. Use type(module).",
}

ABSENT_PRUNE: dict[str, str] = {
    "PruningContainer": "The mask in the state is what all prunings have left. Use one function after the other.",
}
