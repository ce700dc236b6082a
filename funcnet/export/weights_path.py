"""The path of the weights that are stored beside an exported file."""

from pathlib import Path

__all__ = ["weights_beside"]


def weights_beside(where: str, path: Path, suffix: str) -> Path:
    """Return the path of the weights, which is the path of the exported file with another suffix.

    Args:
        where: name of the caller, for messages.
        path: path of the exported file.
        suffix: suffix of the weights.

    Raises:
        ValueError: if the exported file itself has this suffix, so that the two files would have the same path.

    Example:
        >>> weights_beside("save", Path("net.onnx"), ".safetensors").name
        'net.safetensors'
        >>> weights_beside("save", Path("net.safetensors"), ".safetensors")
        Traceback (most recent call last):
        ValueError: save: the path is that of the weights; expected another suffix than .safetensors, got \
net.safetensors. The weights are written beside the file, under the same name with this suffix.
    """
    if path.name.lower().endswith(suffix):  # some file systems ignore case
        raise ValueError(
            f"{where}: the path is that of the weights; expected another suffix than {suffix}, got {path}. The weights "
            "are written beside the file, under the same name with this suffix."
        )
    return path.with_suffix(suffix)
