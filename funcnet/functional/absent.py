"""The names of torch.nn.functional that `funcnet.functional` lacks. The dictionary `ABSENT` maps each missing name to a
text that says why the name is missing and what to use instead. Accessing a missing name, as in `F.relu_`, raises an
AttributeError with the text of this name.
"""

import sys
from collections.abc import Callable
from typing import NoReturn

__all__ = ["ABSENT", "refusal"]

_IN_PLACE = "Arrays cannot be changed in place. Use F.{} and keep its result."
_INDICES = "The same function also returns the indices. Use F.{}(..., return_indices=True)."
_DISPATCH = "It is part of torch's dispatch to Tensor subclasses. Leave it out, because arrays have no subclasses."
_TORCHSCRIPT = "It exists only for TorchScript's types. Use tuple or int."
_DOCUMENTATION = "It is a text for torch's own documentation. Leave it out."
_SCALED = "It selects one of torch's kernels for 8-bit floats. Use jax.nn.scaled_matmul."
_TYPING = "It is only imported by torch.nn.functional. Import it from typing or collections.abc."
_MODES = "It only lists the modes of F.grid_sample. Pass the mode as a string, as its docstring shows."

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
    "boolean_dispatch": "It serves TorchScript, where a return type cannot depend on an argument. Use an if.",
    "assert_int_or_pair": _TORCHSCRIPT,
    **{f"BroadcastingList{n}": _TORCHSCRIPT for n in (1, 2, 3)},
    "grouped_mm": "It wraps one of torch's CUDA kernels. Use jax.lax.ragged_dot.",
    "scaled_grouped_mm": "It wraps one of torch's CUDA kernels. Use jax.lax.ragged_dot on scaled arrays.",
    "scaled_mm": "It wraps one of torch's CUDA kernels. Use jax.nn.scaled_matmul.",
    "ScalingType": _SCALED,
    "SwizzleType": _SCALED,
    "GRID_SAMPLE_INTERPOLATION_MODES": _MODES,
    "GRID_SAMPLE_PADDING_MODES": _MODES,
    "reproducibility_notes": _DOCUMENTATION,
    "sparse_support_notes": _DOCUMENTATION,
    "tf32_notes": _DOCUMENTATION,
    "Tensor": "funcnet uses arrays instead of tensors. Use jax.Array.",
    "DType": "funcnet uses NumPy's dtypes instead of torch's. Use jax.numpy.dtype.",
    "grad": "JAX differentiates any function. Use jax.vjp on the convolution, such as F.conv2d.",
    "Callable": _TYPING,
    "Optional": _TYPING,
    "TYPE_CHECKING": _TYPING,
}


def refusal(where: str, module: str, absent: dict[str, str]) -> Callable[[str], NoReturn]:
    """Return a module's `__getattr__`, a function that always raises an AttributeError. If the dictionary `absent`
    contains the requested name, the error message includes the text of this name. `where` is the short name of the
    module in the message, such as "F".
    """

    def refuse(name: str) -> NoReturn:
        text = f"module {module!r} has no attribute {name!r}"
        if name in absent:
            text = f"{where}.{name} does not exist here. {absent[name]}"
        raise AttributeError(text, name=name, obj=sys.modules[module])

    return refuse
