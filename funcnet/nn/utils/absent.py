"""The names in torch.nn.utils that `funcnet.nn.utils` lacks, with the texts of the AttributeErrors for them.

Each text says why the name is absent and what to use instead.
"""

__all__ = ["ABSENT", "ABSENT_PARAMETRIZE", "ABSENT_PRUNE"]

_PURE = "Arrays do not change in place. Use"
_LAYOUT = "An array has no memory format, because XLA chooses its layout. Use the layer as it is."

ABSENT: dict[str, str] = {
    "clip_grad_norm_": f"{_PURE} nn.utils.clip_grad_norm, which returns the gradients and the norm.",
    "clip_grad_value_": f"{_PURE} nn.utils.clip_grad_value, which returns the gradients.",
    "clip_grads_with_norm_": f"{_PURE} nn.utils.clip_grads_with_norm, which returns the gradients.",
    "convert_conv2d_weight_memory_format": _LAYOUT,
    "convert_conv3d_weight_memory_format": _LAYOUT,
    "memory_format": _LAYOUT,
    "skip_init": "A constructor neither allocates nor initialises arrays. Use the constructor, then load_state_dict.",
    "init": "Its only function is skip_init, and a constructor allocates no arrays. Use the constructor.",
    "stateless": "Every net is called with its arrays. Use nn.Module.apply: net.apply(params, state, x).",
}

ABSENT_PARAMETRIZE: dict[str, str] = {
    "cached": "A parametrized weight is already computed only once per call of its module. Leave it out.",
    "transfer_parametrizations_and_params": "A copy of a description includes its parametrizations. Use copy.deepcopy.",
    "type_before_parametrizations": "A module keeps its class when it is parametrized. Use type(module).",
}

ABSENT_PRUNE: dict[str, str] = {
    "PruningContainer": "The mask in the state combines all prunings. Call one pruning function after another.",
}
