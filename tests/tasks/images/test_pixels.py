"""Every mode of Pillow is read with its range scaled to 0 to 1; a file that Pillow refuses is named."""

import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from PIL import Image, ImageCms

from funcnet.tasks.images.data import open_images
from funcnet.tasks.images.pixels import read_pixels
from funcnet.train import RunError

COLOURS = Image.fromarray(np.random.default_rng(0).integers(0, 256, (6, 6, 4), np.uint8), "RGBA")
TO_LAB = ImageCms.buildTransform(ImageCms.createProfile("sRGB"), ImageCms.createProfile("LAB"), "RGB", "LAB")
TO_RGB = ImageCms.buildTransform(ImageCms.createProfile("LAB"), ImageCms.createProfile("sRGB"), "LAB", "RGB")
FORMATS = {  # mode of at most 8 bits a channel -> a format that keeps it, or "" for those of Pillow alone
    "1": "png",
    "L": "png",
    "LA": "png",
    "P": "png",
    "RGB": "bmp",
    "RGBA": "png",
    "CMYK": "jpg",
    "YCbCr": "tiff",
    "PA": "tiff",
    "LAB": "tiff",
    "HSV": "",
    "RGBX": "",
    "La": "",
    "RGBa": "",
}
GREY = {"I;16": "png", "I;16B": "tiff", "I;16L": "", "I;16N": "", "I": "tiff"}


def opened(image, suffix, tmp_path, monkeypatch):
    """The file of an image, which `read_pixels` opens in the mode of the image."""
    file = tmp_path / f"x.{suffix or 'png'}"
    if suffix:
        image.save(file)
        with Image.open(file) as found:
            assert found.mode == image.mode
    else:
        monkeypatch.setattr(Image, "open", lambda path: image)
    return file


@pytest.mark.every_row
@pytest.mark.parametrize("mode", FORMATS)
def test_modes_of_8_bits(mode, tmp_path, monkeypatch):
    through = {"La": "LA", "LAB": "RGB"}.get(mode, "RGBA")
    image = COLOURS.convert(through)
    image = ImageCms.applyTransform(image, TO_LAB) if mode == "LAB" else image.convert(mode)
    file = opened(image, FORMATS[mode], tmp_path, monkeypatch)
    if FORMATS[mode]:
        image = Image.open(file)  # JPEG changes pixels
    expected = ImageCms.applyTransform(image, TO_RGB) if mode == "LAB" else image.convert(through).convert("RGB")
    found = read_pixels(file, 6)
    assert found.shape == (3, 6, 6) and found.dtype == np.float32
    np.testing.assert_allclose(found.transpose(1, 2, 0), np.asarray(expected) / 255, atol=1e-6)
    assert len(np.unique(found)) > 30 or mode == "1"


def test_a_palette_with_transparency(tmp_path, recwarn):
    image = COLOURS.convert("RGB").quantize(8)
    image.save(tmp_path / "x.png", transparency=bytes(range(8)))
    expected = np.asarray(image.convert("RGB")) / 255
    np.testing.assert_allclose(read_pixels(tmp_path / "x.png", 6).transpose(1, 2, 0), expected, atol=1e-6)
    assert not recwarn.list


@pytest.mark.every_row
@pytest.mark.parametrize("mode", GREY)
def test_grey_images_of_16_bits(mode, tmp_path, monkeypatch):
    """They had two values, 0 and 1."""
    values = np.random.default_rng(0).integers(0, 2**16, (6, 6))
    values[0, :2] = 0, 2**16 - 1
    image = Image.fromarray(values.astype(np.int32 if mode == "I" else np.uint16))
    if mode.startswith("I;16"):
        image = Image.frombytes(mode, (6, 6), values.astype(">u2" if mode == "I;16B" else "<u2").tobytes())
    found = read_pixels(opened(image, GREY[mode], tmp_path, monkeypatch), 6)
    np.testing.assert_allclose(found, np.stack([values / (2**16 - 1)] * 3), atol=1e-6)


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16])
def test_a_tiff_whose_zero_is_white(dtype, tmp_path):
    """Pillow inverts 8 bits when it saves and reads them, and leaves 16 bits as they are."""
    most = np.iinfo(dtype).max
    values = np.linspace(0, most, 36).astype(dtype).reshape(6, 6)
    stored = values if dtype == np.uint8 else most - values
    Image.fromarray(stored).save(tmp_path / "x.tif", tiffinfo={262: 0})
    found = read_pixels(tmp_path / "x.tif", 6)
    np.testing.assert_allclose(found, np.stack([values / most] * 3), atol=1e-6)


@pytest.mark.parametrize("size", [2, 4, 10])
@pytest.mark.parametrize("most", [4095, 1000])
def test_a_tiff_of_12_bits(size, most, tmp_path):
    values = np.random.default_rng(size).integers(0, most + 1, (size, size)).astype(">u2")
    values[0, 0] = most
    packed = np.packbits(np.unpackbits(values.reshape(-1, 1).view(np.uint8), axis=1)[:, 4:]).tobytes()
    # Width, height, bits per sample, no compression, black is 0, one strip: its offset, samples, rows and bytes.
    tags = {256: size, 257: size, 258: 12, 259: 1, 262: 1, 273: 122, 277: 1, 278: size, 279: len(packed)}
    entries = b"".join(struct.pack("<HHII", tag, 4, 1, value) for tag, value in tags.items())
    header = struct.pack("<2sHIH", b"II", 42, 8, len(tags)) + entries + bytes(4)
    assert len(header) == tags[273]
    (tmp_path / "x.tif").write_bytes(header + packed)
    np.testing.assert_array_equal(np.asarray(Image.open(tmp_path / "x.tif")), values)
    np.testing.assert_allclose(read_pixels(tmp_path / "x.tif", size), np.stack([values / 4095] * 3), atol=1e-6)


@pytest.mark.parametrize(
    ("values", "most"),
    [
        (np.int32([0, 1, 65_535]), 65_535),
        (np.int32([0, 1, 2]), 65_535),
        (np.float32([0, 0.25, 1]), 1),
    ],
)
def test_modes_without_a_range_of_their_own(values, most, tmp_path):
    Image.fromarray(np.stack([values] * 3)).save(tmp_path / "x.tiff")
    np.testing.assert_allclose(read_pixels(tmp_path / "x.tiff", 3)[0], np.stack([values / most] * 3), atol=1e-6)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (np.int32([0, -1]), "expected 0 to 65,535 in an image of mode I, got -1 to 0. Scale the pixels"),
        (np.int32([0, 70_000]), "expected 0 to 65,535 in an image of mode I, got 0 to 70000"),
        (np.float32([0, 255]), "expected 0 to 1 in an image of mode F, got 0 to 255"),
        (np.float32([0, -0.5]), "expected 0 to 1 in an image of mode F, got -0.5 to 0"),
        (np.float32([0, 1.0000001]), "expected 0 to 1 in an image of mode F, got 0 to 1.0000001"),
        (np.float32([-1e-9, 1]), "expected 0 to 1 in an image of mode F, got -9.99999\\d*e-10 to 1. Scale"),
        (np.int32([0, 2**31 - 1]), "expected 0 to 65,535 in an image of mode I, got 0 to 2147483647"),
        (np.float32([0, np.nan]), "expected 0 to 1 in an image of mode F, got nan to nan"),
    ],
)
def test_pixels_out_of_range_are_refused(values, message, tmp_path):
    Image.fromarray(np.stack([values] * 2)).save(tmp_path / "x.tiff")
    with pytest.raises(RunError, match=rf"x\.tiff has pixels out of range; {message}"):
        read_pixels(tmp_path / "x.tiff", 2)


@given(
    st.sampled_from([("I;16", np.uint16), ("L", np.uint8), ("1", np.bool_), ("RGB", np.uint8), ("LA", np.uint8)]),
    st.data(),
)
def test_pixels_are_within_a_step_of_their_mode(tmp_path_factory, kind, data):
    mode, dtype = kind
    shape = {"RGB": (4, 4, 3), "LA": (4, 4, 2)}.get(mode, (4, 4))
    values = data.draw(arrays.arrays(dtype, shape))
    file = tmp_path_factory.mktemp("images") / "x.png"
    Image.fromarray(values).save(file)
    with Image.open(file) as image:
        assert image.mode == mode
    most = np.iinfo(dtype).max if dtype != np.bool_ else 1
    expected = values[..., :1] if mode == "LA" else values if mode == "RGB" else values[..., None]
    found = read_pixels(file, 4).transpose(1, 2, 0)
    assert np.abs(found - expected / most).max() < 1 / most / 2


DAMAGED = {
    "empty": b"",
    "text": b"no image",
    "cut": "png",
    "header": b"\x89PNG\r\n\x1a\n" + b"\xff" * 40,
    "tiff": b"II*\0\x08\0\0\0\xff\xff" + b"\x01" * 60,
    "gif": b"GIF89a" + b"\x01" * 5,
    "bmp": b"BM" + b"\xfe" * 60,
    "webp": b"RIFF\x10\0\0\0WEBPVP8 " + b"\x01" * 8,
}


@pytest.mark.parametrize("damage", DAMAGED)
def test_a_file_that_pillow_refuses_is_named(damage, tmp_path):
    file = tmp_path / "x.png"
    COLOURS.save(file)
    file.write_bytes(file.read_bytes()[:-40] if damage == "cut" else DAMAGED[damage])
    with pytest.raises(RunError, match=r"x\.png cannot be read; expected an image, got a damaged file"):
        read_pixels(file, 4)


def test_an_image_that_is_too_large_is_named(tmp_path, monkeypatch):
    COLOURS.save(tmp_path / "x.png")
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 10)
    with pytest.raises(RunError, match=r"x\.png cannot be read; expected an image, got one that is too large"):
        read_pixels(tmp_path / "x.png", 4)


def test_a_folder_of_grey_images_of_16_bits(tmp_path):
    for label, name in enumerate(("a", "b")):
        (tmp_path / name).mkdir()
        for number in range(5):
            Image.fromarray(np.arange(64, dtype=np.uint16).reshape(8, 8) * 300 + 9000 * label).save(
                tmp_path / name / f"{number}.png"
            )
    images = open_images(tmp_path, 8).train[np.arange(8)]["image"]
    assert all(len(np.unique(image)) == 64 for image in images)
