"""Reads an image file of any mode of Pillow. Letters: H height, W width."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from funcnet.train import RunError

__all__ = ["read_pixels"]

# Largest values of the modes with more than 8 bits. 32-bit integers and floats have no fixed range, so the first one
# that contains all pixels of the image is used.
RANGES: dict[str, tuple[int, ...]] = {"I": (2**16 - 1, 2**31 - 1), "F": (1, 2**8 - 1, 2**16 - 1)}


def read_pixels(file: Path, size: int) -> NDArray[np.float32]:
    """Read an image file, and resize the image to a height and width of `size` pixels.

    Every mode of Pillow is converted to RGB, and its range is scaled to 0 to 1. Transparency is dropped. Grey images of
    16 bits (modes `I;16`, `I;16B`, …) have a range of 0 to 65,535. The range of 32-bit integers (`I`) is 0 to 65,535,
    or 0 to 2**31 - 1 if a pixel is above 65,535. The range of floats (`F`) is 0 to 1, 0 to 255 or 0 to 65,535, the
    smallest that contains all pixels.

    Args:
        file: path of the image.
        size: H and W.

    Returns:
        (3, H, W), values from 0 to 1.

    Raises:
        RunError: if Pillow cannot read the file, or a pixel is out of range. The message names the file.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     file = Path(folder, "x.png")
        ...     Image.fromarray(np.array([[0, 13_107], [65_535, 0]], np.uint16)).save(file)
        ...     print(read_pixels(file, 2)[0])
        [[0.  0.2]
         [1.  0. ]]
    """
    try:
        with Image.open(file) as image:
            resized = _converted(image, file).resize((size, size), Image.Resampling.BILINEAR)
    except RunError:
        raise
    except Exception as error:  # Pillow's readers raise errors of many types for damaged files
        got = "one that is too large" if isinstance(error, Image.DecompressionBombError) else "a damaged file"
        raise RunError(f"train-images: {file} cannot be read; expected an image, got {got} ({error}).") from error
    pixels = np.asarray(resized)
    if pixels.ndim == 2:
        return np.repeat(pixels[None], 3, axis=0)
    return pixels.astype(np.float32).transpose(2, 0, 1) / np.float32(255)


def _converted(image: Image.Image, file: Path) -> Image.Image:
    """Return an image of mode RGB, or of mode F with values from 0 to 1."""
    kind = image.mode.partition(";")[0]
    if kind not in RANGES:
        # Palettes with transparency and premultiplied alpha have no direct conversion to RGB.
        between = {"P": "RGBA", "PA": "RGBA", "La": "LA", "RGBa": "RGBA"}.get(image.mode, image.mode)
        return image.convert(between).convert("RGB")
    pixels = np.asarray(image)
    low, high = pixels.min(), pixels.max()
    ranges = RANGES["I"][:1] if ";" in image.mode else RANGES[kind]
    top = next((most for most in ranges if high <= most), None)
    if top is None or not low >= 0:  # NaN is not
        raise RunError(
            f"train-images: {file} has pixels out of range; expected 0 to {ranges[-1]:,} in an image of mode "
            f"{image.mode}, got {low:g} to {high:g}. Save the image with 8 or 16 bits."
        )
    return Image.fromarray((pixels / top).astype(np.float32))
