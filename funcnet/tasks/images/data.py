"""Labelled images from scikit-learn's digits, from idx files, or from folders of image files.

Letters: B batch, C channels, H height, W width.
"""

import concurrent.futures
import dataclasses
import gzip
import os
import zlib
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from funcnet.data import ArrayDataset, Dataset
from funcnet.data.dataset import BatchedDataset
from funcnet.data.padded import padded_batches
from funcnet.files import bytes_digest
from funcnet.parallel import is_first
from funcnet.tasks.images.pixels import read_pixels
from funcnet.train import RunError

__all__ = ["ImageFolder", "LabelledImages", "open_images", "padded_images", "read_idx"]

SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".tif", ".tiff", ".webp", ".ppm", ".pgm")
IDX = [(f"{part}-images-idx3-ubyte", f"{part}-labels-idx1-ubyte") for part in ("train", "t10k")]


@dataclasses.dataclass(frozen=True)
class LabelledImages:
    """Training and test images, standardised. A batch has `image` (B, C, H, W) float32 and `label` (B,) int32.

    Attributes:
        classes: names of the classes, in the order of the labels.
        size: height, H. The width is the same, except for images from idx files.
        mean, deviation: mean and standard deviation of the training images before standardisation. For a
            folder of image files, both are estimated from at most 1,000 images.
        digest: SHA-256 digest of the images. For a folder of image files, it is the digest of the names, sizes and
            labels of the files.
    """

    train: Dataset
    test: Dataset
    classes: tuple[str, ...]
    channels: int
    size: int
    mean: float
    deviation: float
    digest: str


def open_images(data: Path | None, image_size: int = 64) -> LabelledImages:
    """Open the training and test images: a folder of images or idx files (see `ImageSettings.data`), or scikit-learn's
    digits.

    The images of a folder are resized to a height and width of `image_size` pixels. Hidden files and folders are left
    out. A missing or empty folder, a damaged file, a class that occurs only in the test images, parts with names other
    than train/ and test/ (or val/), and a missing scikit-learn raise a `RunError`.

    >>> found = open_images(None)
    >>> len(found.train), len(found.test), found.train[np.arange(2)]["image"].shape
    (1437, 360, (2, 1, 8, 8))
    """
    if data is None:
        return _arrays(*_digits(), classes=tuple(map(str, range(10))))
    if not data.is_dir():
        raise RunError(f"train-images: --data {data} is not a folder; expected a folder of images.")
    if any((data / name).exists() or (data / f"{name}.gz").exists() for pair in IDX for name in pair):
        arrays = [read_idx(data / name) for pair in IDX for name in pair]
        trained, tested = (set(map(str, labels.ravel().tolist())) for labels in (arrays[1], arrays[3]))
        _require_trained(f"{data}", trained, tested)
        return _arrays(*arrays, classes=tuple(str(number) for number in range(int(arrays[1].max()) + 1)))
    return _folder(data, image_size)


class ImageFolder(BatchedDataset):
    """A dataset of image files with labels. Several threads read the files when the dataset is indexed.

    Images of every mode of Pillow are read and resized to a height and width of `size` pixels (see `read_pixels`).
    `transform` is applied to the images (B, 3, H, W), float32 values from 0 to 1. A file that is not an image raises a
    `RunError`, which names the file.
    """

    def __init__(
        self,
        files: Sequence[Path],
        labels: Sequence[int],
        size: int,
        transform: Callable[[NDArray[np.float32]], NDArray[np.float32]] = lambda images: images,
    ):
        self.files, self.labels, self.size, self.transform = list(files), np.asarray(labels, np.int32), size, transform

    def __len__(self) -> int:
        return len(self.files)

    def __getitems__(self, indices: Sequence[int]) -> dict[str, NDArray[Any]]:
        """Return the batch that contains the images at these indices."""
        with concurrent.futures.ThreadPoolExecutor(min(8, os.cpu_count() or 1)) as pool:  # Pillow releases the GIL
            read = lambda index: read_pixels(self.files[index], self.size)
            images = np.stack(list(pool.map(read, indices)))
        return {"image": self.transform(images), "label": self.labels[np.asarray(indices)]}


def read_idx(path: Path) -> NDArray[np.uint8]:
    """Read an idx file of unsigned bytes. The file contains the magic number 0x000008, the rank, the sizes and the
    values.

    If `path` (without .gz) does not exist, the compressed file with the suffix .gz is read. A missing or damaged file
    raises a `RunError`.
    """
    compressed = path.with_name(f"{path.name}.gz")
    if not path.exists() and not compressed.exists():
        raise RunError(
            f"train-images: --data {path.parent} is incomplete; expected {path.name} or {compressed.name} next to "
            "the other idx files, got neither."
        )
    try:
        content = path.read_bytes() if path.exists() else gzip.decompress(compressed.read_bytes())
        sizes = np.frombuffer(content, ">i4", content[3], offset=4)
        return np.frombuffer(content, np.uint8, offset=4 + 4 * len(sizes)).reshape(sizes)
    except (ValueError, IndexError, EOFError, OSError, zlib.error) as error:
        raise RunError(f"train-images: {path} cannot be read; expected an idx file of bytes, got '{error}'.") from error


def padded_images(
    dataset: Dataset, batch_size: int, own: NDArray[np.int64] | None = None
) -> Iterator[dict[str, NDArray[Any]]]:
    """Yield all images of a dataset once, in batches of equal shape. The last batch is filled up with copies of an
    image, whose label is -1. With `own`, each batch has only these rows.
    """
    for batch, mask in padded_batches(dataset, batch_size, own):
        yield {**batch, "label": np.where(mask, batch["label"], -1)}


def _digits() -> tuple[NDArray[Any], ...]:
    """Return scikit-learn's digits. Always the same fifth of the images is used as test images."""
    try:
        from sklearn.datasets import load_digits
    except ImportError:
        raise RunError(
            "train-images: scikit-learn, which provides the default images, is not installed. Install it with "
            "`pip install scikit-learn`, or pass --data."
        ) from None
    found = load_digits()
    is_test = _every_fifth(len(found.target))
    return tuple(a[chosen] for chosen in is_test for a in (found.images, found.target))


def _every_fifth(count: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Divide indices of images into (training indices, test indices) at random, but in the same way in each call."""
    order = np.random.default_rng(0).permutation(count)
    is_test = np.arange(count) % 5 == 0
    return order[~is_test], order[is_test]


def _arrays(
    train_images: NDArray[Any],
    train_labels: NDArray[Any],
    test_images: NDArray[Any],
    test_labels: NDArray[Any],
    *,
    classes: tuple[str, ...],
) -> LabelledImages:
    """Make datasets of grey images (N, H, W) in memory."""
    mean, deviation = train_images.mean(dtype=np.float64), train_images.std(dtype=np.float64)

    def dataset(images: NDArray[Any], labels: NDArray[Any]) -> ArrayDataset:
        images = ((images - mean) / deviation).astype(np.float32)
        return ArrayDataset({"image": images[:, None], "label": labels.astype(np.int32)})

    train, test = dataset(train_images, train_labels), dataset(test_images, test_labels)
    arrays = (array for part in (train, test) for array in part.columns.values())
    digest = bytes_digest(b"".join(bytes.fromhex(bytes_digest(array.tobytes())) for array in arrays))
    size = train_images.shape[1]
    return LabelledImages(train, test, classes, 1, size, float(mean), float(deviation), digest)


def _folder(data: Path, image_size: int) -> LabelledImages:
    """Open a folder that has a subfolder per class, as for torchvision's ImageFolder, or that is divided into train/
    and test/ (or val/).
    """
    tests = [data / name for name in ("test", "val") if (data / name).is_dir()]
    is_divided = bool(tests) and (data / "train").is_dir()
    roots = [data / "train", tests[0]] if is_divided else [data]
    classes = _classes(roots[0])
    if is_divided and len(tests) > 1 and is_first():
        print(f"train-images: the evaluation reads {tests[0]}. The images in {tests[1]} are not used.")
    if len(classes) < 2:
        raise RunError(
            f"train-images: --data {roots[0]} has too few classes; expected at least two subfolders with images, one "
            f"per class, got {', '.join(classes) or 'none'}. The suffixes of images are {', '.join(SUFFIXES)}."
        )
    if is_divided:
        _require_trained(f"{data}", classes, _classes(tests[0]))
    else:
        _require_undivided(data, classes)
    found = [[(file, label) for label, name in enumerate(classes) for file in _images(r / name)] for r in roots]
    if is_divided:
        train, test = found
        if not test:
            raise RunError(
                f"train-images: --data {tests[0]} has no images; expected subfolders with images, one per class, got "
                "none."
            )
    else:
        train, test = ([found[0][index] for index in part] for part in _every_fifth(len(found[0])))
        names = ({classes[label] for _, label in part} for part in (train, test))
        _require_trained(f"{data}, divided at random into training and test images,", *names)
    listed = [f"{file.relative_to(data)} {_bytes(file)} {label}" for part in (train, test) for file, label in part]
    plain = _dataset(train, image_size)
    sample = plain[np.linspace(0, len(plain) - 1, min(len(plain), 1000)).astype(np.int64)]["image"]
    mean, deviation = sample.mean(dtype=np.float64), sample.std(dtype=np.float64)

    def standardised(images: NDArray[np.float32]) -> NDArray[np.float32]:
        return ((images - mean) / deviation).astype(np.float32)

    datasets = [_dataset(part, image_size, standardised) for part in (train, test)]
    digest = bytes_digest("\n".join(listed).encode())
    return LabelledImages(datasets[0], datasets[1], classes, 3, image_size, float(mean), float(deviation), digest)


def _dataset(part: Sequence[tuple[Path, int]], size: int, *transform: Callable[..., Any]) -> ImageFolder:
    return ImageFolder([file for file, _ in part], [label for _, label in part], size, *transform)


def _classes(folder: Path) -> tuple[str, ...]:
    """Return the names of the subfolders with images."""
    folders = [one for one in folder.iterdir() if one.is_dir() and not _is_hidden(one.name)]
    return tuple(sorted(one.name for one in folders if _images(one)))


def _images(folder: Path) -> list[Path]:
    """Return the image files in a folder and its subfolders, without hidden ones."""
    if not folder.is_dir():
        return []
    found = (file for file in folder.rglob("*") if file.suffix.lower() in SUFFIXES and not file.is_dir())
    return sorted(file for file in found if not any(map(_is_hidden, file.relative_to(folder).parts)))


def _bytes(file: Path) -> int:
    """Return the size of a file."""
    try:
        return file.stat().st_size
    except OSError as error:
        raise RunError(
            f"train-images: {file} cannot be read; expected an image, got '{error.strerror}'. If it is a symbolic "
            "link, its target may be missing."
        ) from error


def _is_hidden(name: str) -> bool:
    return name.startswith(".")


def _require_undivided(data: Path, classes: Sequence[str]) -> None:
    """Raise a RunError if the subfolders are parts with the same classes, such as train/ and valid/."""
    for name in classes:
        others = [other for other in classes if other != name]
        inside = set(_classes(data / name)) if name.casefold() in ("train", "training") else set()
        if all(inside.intersection(_classes(data / other)) for other in others):
            raise RunError(
                f"train-images: --data {data} has the same subfolders in {', '.join(classes)}; expected the parts "
                f"train and test (or val), or a subfolder per class, got {name} and {', '.join(others)}. Rename the "
                f"folders to train and test; if {name} is a class, give it another name."
            )


def _require_trained(where: str, trained: Collection[str], tested: Collection[str]) -> None:
    """Raise a RunError if a class occurs only in the test images."""
    unseen = sorted(set(tested) - set(trained))
    if unseen:
        raise RunError(
            f"train-images: --data {where} has test images of classes without training images; expected only the "
            f"classes {', '.join(sorted(trained))}, got {', '.join(unseen)}. Add training images, or remove these test "
            "images."
        )
