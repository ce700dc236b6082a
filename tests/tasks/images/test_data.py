"""Labelled images: digits, idx files, folders of image files."""

import gzip
import re
import shutil

import numpy as np
import pytest
from PIL import Image

from funcnet.tasks.images.data import ImageFolder, open_images, padded_images, read_idx
from funcnet.train import RunError


def test_idx_files_are_read_packed_or_not_and_broken_ones_refused(tmp_path):
    images = np.arange(24, dtype=np.uint8).reshape(2, 3, 4)
    content = bytes([0, 0, 8, 3]) + np.array(images.shape, ">i4").tobytes() + images.tobytes()
    (tmp_path / "plain").write_bytes(content)
    (tmp_path / "packed.gz").write_bytes(gzip.compress(content))
    for name in ("plain", "packed"):
        np.testing.assert_array_equal(read_idx(tmp_path / name), images)
    (tmp_path / "short").write_bytes(content[:-1])
    (tmp_path / "torn.gz").write_bytes(gzip.compress(content)[:-9])
    (tmp_path / "empty").write_bytes(b"")
    (tmp_path / "bits.gz").write_bytes(gzip.compress(content)[:12] + b"\xff" * 20)
    (tmp_path / "folder").mkdir()
    for name in ("short", "torn", "empty", "bits", "folder"):
        with pytest.raises(RunError, match=r"cannot be read; expected an idx file of bytes, got '"):
            read_idx(tmp_path / name)


def test_the_digits_are_divided_once_and_standardised():
    found = open_images(None)
    train, test = found.train, found.test
    assert (len(train), len(test)) == (1437, 360)
    assert train.columns["image"].shape == (1437, 1, 8, 8) and train.columns["image"].dtype == np.float32
    assert abs(train.columns["image"].mean()) < 1e-5 and abs(train.columns["image"].std() - 1) < 1e-5
    batches = list(padded_images(test, 64))
    assert {len(batch["label"]) for batch in batches} == {64}
    assert sum((batch["label"] >= 0).sum() for batch in batches) == 360


@pytest.fixture
def folder(tmp_path):
    """Three classes of ten pictures; each class has its own colour."""
    random = np.random.default_rng(0)
    for label, name in enumerate(("cat", "dog", "owl")):
        (tmp_path / name).mkdir()
        for number in range(10):
            pixels = random.integers(0, 60, (20, 30, 3), np.uint8)
            pixels[..., label] += 150
            Image.fromarray(pixels).save(tmp_path / name / f"{number}.png")
    return tmp_path


def test_a_folder_of_classes_is_divided_or_read_as_it_is_divided(folder):
    found = open_images(folder, 16)
    assert (found.classes, len(found.train), len(found.test)) == (("cat", "dog", "owl"), 24, 6)
    batch = found.train[np.arange(24)]
    assert batch["image"].shape == (24, 3, 16, 16) and batch["image"].dtype == np.float32
    assert abs(batch["image"].mean()) < 1e-4 and abs(batch["image"].std() - 1) < 1e-4
    assert (batch["image"].mean((2, 3)).argmax(1) == batch["label"]).all()
    for part in ("train", "val"):
        (folder / part).mkdir()
    for name in found.classes:
        (folder / name).rename(folder / "train" / name)
        (folder / "val" / name).mkdir()
        (folder / "train" / name / "0.png").rename(folder / "val" / name / "0.png")
    found = open_images(folder, 16)
    assert (len(found.train), len(found.test)) == (27, 3)


def test_hidden_folders_and_files_are_left_out(folder):
    for hidden in (".ipynb_checkpoints", "cat/.thumbnails", ".git"):
        (folder / hidden).mkdir()
        (folder / hidden / "0.png").write_bytes((folder / "dog/0.png").read_bytes())
    (folder / "cat/._0.png").write_bytes(b"\0\5\x16\7 of a Macintosh")
    (folder / "cat/folder.png").mkdir()
    found = open_images(folder, 8)
    assert found.classes == ("cat", "dog", "owl") and len(found.train) + len(found.test) == 30
    assert np.isfinite(found.train[np.arange(24)]["image"]).all()


@pytest.mark.parametrize("test", ["test", "val"])
def test_classes_that_only_the_test_folder_has_are_refused(folder, test):
    for part in ("train", test):
        (folder / part).mkdir()
    for name in ("cat", "dog"):
        (folder / name).rename(folder / "train" / name)
    with pytest.raises(
        RunError, match=rf"{test} has no images; expected subfolders with images, one per class, got no"
    ):
        open_images(folder, 8)
    (folder / "owl").rename(folder / test / "owl")
    message = r"test images of classes without training images; expected only the classes cat, dog, got owl\. Add"
    with pytest.raises(RunError, match=message):
        open_images(folder, 8)
    (folder / test / "owl").rename(folder / test / "cat")
    found = open_images(folder, 8)  # a class without test images is not wrong
    assert found.classes == ("cat", "dog") and (found.test[np.arange(10)]["label"] == 0).all()


def test_the_folder_that_is_not_read_beside_the_test_images_is_named(folder, capsys):
    for part in ("train", "test", "val"):
        (folder / part).mkdir()
    for name in ("cat", "dog"):
        for part in ("train", "test", "val"):
            shutil.copytree(folder / name, folder / part / name)
        shutil.rmtree(folder / name)
    shutil.rmtree(folder / "owl")
    assert len(open_images(folder, 4).test) == 20
    assert f"the evaluation reads {folder / 'test'}. The images in {folder / 'val'} are not" in capsys.readouterr().out


@pytest.mark.parametrize("many", range(1, 13))
@pytest.mark.parametrize("few", [1, 2])
def test_a_class_without_training_images_is_refused_in_an_undivided_folder(many, few, folder):
    for number in range(10, many):
        shutil.copy(folder / "cat/0.png", folder / f"cat/{number}.png")
    for name, count in (("cat", many), ("dog", few), ("owl", 0)):
        for number in range(count, 10):
            (folder / name / f"{number}.png").unlink()
    try:
        found = open_images(folder, 4)
    except RunError as error:
        assert re.search(r"divided at random .*, has test images of classes without training", str(error))
    else:
        assert set(found.test.labels) <= set(found.train.labels) and len(found.train) + len(found.test) == many + few


@pytest.mark.parametrize(
    "names", ["train valid", "train Test", "Train test", "TRAIN dev", "training validation Test", "train holdout"]
)
def test_parts_of_other_names_are_no_classes(names, folder):
    first, *others = names.split()
    for name in names.split():
        for label in ("cat", "dog") if name == first else ("dog",):
            shutil.copytree(folder / label, folder / name / label)
    for label in ("cat", "dog", "owl"):
        shutil.rmtree(folder / label)
    message = rf"expected the parts train and test \(or val\), or .*, got {first} and {', '.join(sorted(others))}\. "
    with pytest.raises(RunError, match=message):
        open_images(folder, 4)
    (folder / first).rename(folder / "express")
    assert len(open_images(folder, 4).classes) == 1 + len(others)


@pytest.mark.parametrize("inside", ["", "steam", "steam/old"])
def test_train_may_be_a_class(inside, folder):
    shutil.copytree(folder / "owl", folder / "train" / inside, dirs_exist_ok=True)
    assert open_images(folder, 4).classes == ("cat", "dog", "owl", "train")


@pytest.mark.parametrize("target", ["missing.png", "z.png", "../missing/x.png", "0.png/x.png", "/missing"])
@pytest.mark.parametrize("part", [".", "train"])
def test_a_broken_link_is_named(target, part, folder):
    for copy in ("train", "val"):
        for name in ("cat", "dog") if part == "train" else ():
            shutil.copytree(folder / name, folder / copy / name)
    (folder / part / "cat/z.png").symlink_to(target)
    with pytest.raises(RunError, match=r"cat/z\.png cannot be read; expected an image, got '.*'\. If it is a symbolic"):
        open_images(folder, 4)


def test_a_broken_image_is_named(folder):
    (folder / "cat" / "0.png").write_bytes(b"no image")
    with pytest.raises(RunError, match=r"cat/0.png cannot be read; expected an image, got a damaged file"):
        ImageFolder([folder / "cat" / "0.png"], [0], 8)[np.arange(1)]


def test_idx_files_in_a_folder(tmp_path):
    random = np.random.default_rng(0)
    for part, count in (("train", 12), ("t10k", 4)):
        images, labels = random.integers(0, 256, (count, 8, 8), np.uint8), np.arange(count, dtype=np.uint8) % 4
        for name, array in ((f"{part}-images-idx3-ubyte", images), (f"{part}-labels-idx1-ubyte", labels)):
            content = bytes([0, 0, 8, array.ndim]) + np.array(array.shape, ">i4").tobytes() + array.tobytes()
            (tmp_path / f"{name}.gz").write_bytes(gzip.compress(content))
    found = open_images(tmp_path)
    assert (found.classes, found.channels, found.size) == (("0", "1", "2", "3"), 1, 8)
    assert (len(found.train), len(found.test)) == (12, 4)
    labels = bytes([0, 0, 8, 1, 0, 0, 0, 4, 0, 1, 2, 9])
    (tmp_path / "t10k-labels-idx1-ubyte").write_bytes(labels)
    with pytest.raises(RunError, match=r"expected only the classes 0, 1, 2, 3, got 9"):
        open_images(tmp_path)
    (tmp_path / "train-labels-idx1-ubyte.gz").unlink()
    with pytest.raises(RunError, match=r"expected train-labels-idx1-ubyte or train-labels-idx1-ubyte.gz next to"):
        open_images(tmp_path)
