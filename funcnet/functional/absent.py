"""The names of torch.nn.functional that `funcnet.functional` lacks: why, and what to use. `F.relu_` raises this
text."""

import sys
from collections.abc import Callable
from typing import NoReturn

__all__ = ["ABSENT", "refusal"]

_IN_PLACE = "Arrays do not change in place. Use F.{} and keep its result."
_INDICES = "One function gives both. Use F.{}(..., return_indices=True)."
_DISPATCH = "It serves torch's dispatch to Tensor subclasses, which arrays have none of. Leave it out."
_TORCHSCRIPT = "It serves TorchScript's types. Use tuple or int."
_DOCUMENTATION = "It is a piece of torch's documentation. Leave it out."
_SCALED = "It chooses a kernel of torch's for 8-bit floats. Use jax.nn.scaled_matmul."
_TYPING = "torch.nn.functional only imports it. Import it from typing or collections.abc."
_MODES = "It only lists what F.grid_sample takes, which its docstring names. Write the string."

ABSENT: dict[str, str] = {
    **{
        f"{name}_": _IN_PLACE.format(name)
        for name in ("celu", "elu", "hardtanh", "leaky_relu", "relu", "rrelu", "selu")
    },
    "threshold_": _IN_PLACE.format("threshold"),
    **{f"max_pool{n}d_with_indices": _INDICES.format(f"max_pool{n}d") for n in (1, 2, 3)},
    **{f"adaptive_max_pool{n}d_with_indices": _INDICES.format(f"adaptive_max_pool{n}d") for n in (1, 2, 3)},
    **{f"fractional_max_pool{n}d_with_indices": _INDICES.format(f"fractional_max_pool{n}d") for n in (2, 3)},
    "has_torch_function": _DISPATCH,
    "has_torch_function_unary": _DISPATCH,
    "has_torch_function_variadic": _DISPATCH,
    "handle_torch_function": _DISPATCH,
    "boolean_dispatch": "It serves TorchScript, which has no return type that depends on an argument. Use an if.",
    "assert_int_or_pair": _TORCHSCRIPT,
    **{f"BroadcastingList{n}": _TORCHSCRIPT for n in (1, 2, 3)},
    "grouped_mm": "It is one kernel of torch's for CUDA. Use jax.lax.ragged_dot.",
    "scaled_grouped_mm": "It is one kernel of torch's for CUDA. Use jax.lax.ragged_dot on scaled arrays.",
    "scaled_mm": "It is one kernel of torch's for CUDA. Use jax.nn.scaled_matmul.",
    "ScalingType": _SCALED,
    "SwizzleType": _SCALED,
    "GRID_SAMPLE_INTERPOLATION_MODES": _MODES,
    "GRID_SAMPLE_PADDING_MODES": _MODES,
    "reproducibility_notes": _DOCUMENTATION,
    "sparse_support_notes": _DOCUMENTATION,
    "tf32_notes": _DOCUMENTATION,
    "Tensor": "There are arrays in place of tensors. Use jax.Array.",
    "DType": "There are NumPy's dtypes in place of torch's. Use jax.numpy.dtype.",
    "grad": "JAX differentiates functions. Use jax.vjp of F.conv2d or whatever it is.",
    "Callable": _TYPING,
    "Optional": _TYPING,
    "TYPE_CHECKING": _TYPING,
}


def refusal(where: str, module: str, absent: dict[str, str]) -> Callable[[str], NoReturn]:
    """The `__getattr__` of a module that lacks the names in a table; its AttributeError repeats the table's text."""

    def refuse(name: str) -> NoReturn:
        text = f"module {module!r} has no attribute {name!r}"
        if name in absent:
            text = f"{where}.{name} does not exist here. {absent[name]}"
        raise AttributeError(text, name=name, obj=sys.modules[module])

    return refuse
