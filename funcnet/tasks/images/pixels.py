"""Reads an image file of any mode of Pillow. Letters: H height, W width."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image, TiffImagePlugin

from funcnet.train import RunError

__all__ = ["read_pixels"]

# Largest values of the modes with more than 8 bits. A range that depends on the pixels of an image would scale the
# images of one folder differently.
LARGEST = {"I": 2**16 - 1, "F": 1}


def read_pixels(file: Path, size: int) -> NDArray[np.float32]:
    """Read an image file, and resize the image to a height and width of `size` pixels.

    Every mode of Pillow is converted to RGB, and its range is scaled to 0 to 1. Transparency is dropped. The range of
    grey images with integers of more than 8 bits (modes `I`, `I;16`, `I;16B`, …) is 0 to 65,535, or 0 to 4,095 in a
    TIFF of 12 bits. The range of floats (`F`) is 0 to 1.

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
    largest = LARGEST.get(image.mode.partition(";")[0])
    if largest is None:
        # Palettes with transparency and premultiplied alpha have no direct conversion to RGB.
        between = {"P": "RGBA", "PA": "RGBA", "La": "LA", "RGBa": "RGBA"}.get(image.mode, image.mode)
        return image.convert(between).convert("RGB")
    is_inverted = False
    if isinstance(image, TiffImagePlugin.TiffImageFile) and image.mode != "F":
        is_inverted = image.tag_v2.get(TiffImagePlugin.PHOTOMETRIC_INTERPRETATION) == 0  # Pillow inverts only 8 bits
        bits = image.tag_v2.get(TiffImagePlugin.BITSPERSAMPLE, (16,))[0]
        largest = min(largest, 2**bits - 1)  # Pillow does not scale 12 bits
    pixels = np.asarray(image)
    low, high = pixels.min(), pixels.max()
    if not 0 <= low <= high <= largest:  # nor is NaN in range
        raise RunError(
            f"train-images: {file} has pixels out of range; expected 0 to {largest:,} in an image of mode "
            f"{image.mode}, got {low:.10g} to {high:.10g}. Scale the pixels, or save the image with 8 or 16 bits."
        )
    shares = pixels / largest
    return Image.fromarray((1 - shares if is_inverted else shares).astype(np.float32))
