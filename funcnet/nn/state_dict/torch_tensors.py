"""Conversion of torch's tensors without importing torch."""

from typing import Any

__all__ = ["to_numpy"]


def to_numpy(where: str, name: str, value: Any) -> Any:
    """Convert a torch tensor to a NumPy array without importing torch. A value that is not a torch tensor is returned
    unchanged.
    """
    if not hasattr(value, "detach"):
        return value
    try:
        value = value.detach().cpu().resolve_conj().resolve_neg()
        narrow = value.is_floating_point() and value.element_size() < 4  # numpy has no bfloat16 and no float8
        return (value.float() if narrow else value).numpy()
    except (TypeError, RuntimeError) as error:
        raise ValueError(
            f"{where}: {name!r} has no equivalent in NumPy; expected a dense tensor with values, got {value.dtype}, "
            f"{getattr(value, 'layout', '')} on {value.device} ({str(error)[:80]}). Convert it first, "
            "for example with x.to_dense() or x.dequantize()."
        ) from None
