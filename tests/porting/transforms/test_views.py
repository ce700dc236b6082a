"""Ported functions that change views in place, against the same functions run by torch."""

import importlib.util
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

from funcnet.porting.port import ported_files
from funcnet.porting.reading.slicing import slice_of
from funcnet.porting.reading.sources import read
from funcnet.porting.running.recording import record
from tests.porting import made_up
from tests.porting.transforms.view_refusals import REFUSED
from tests.porting.transforms.view_sources import NAMES, SOURCE


def ported(folder, source, names):
    """The torch module and the port of the functions, which a model calls one after the other. The port's text too."""
    calls = "".join(f"        found.append({name}(x.clone()))\n" for name in names)
    net = f"\n\nclass Net(nn.Module):\n    def forward(self, x):\n        found = []\n{calls}        return found\n"
    path = made_up.write(folder, {"net.py": source + net}) / "net.py"
    recording = record(path, "Net", "Net()", "torch.randn(4, 6)")
    (result,) = ported_files(slice_of(read(path), "Net"), recording)
    (folder / "port").mkdir()
    (folder / "port" / "net.py").write_text(result.text)
    return _loaded(path, "theirs"), _loaded(folder / "port" / "net.py", "ours"), result


def _loaded(path, name):
    spec = importlib.util.spec_from_file_location(f"views_{name}", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def modules(tmp_path_factory):
    return ported(tmp_path_factory.mktemp("views"), SOURCE, NAMES)


def body(result, name):
    """The ported text of one function."""
    return result.text.split(f"def {name}(")[1].split("\ndef ")[0].split("\nclass ")[0]


@pytest.mark.parametrize("name", NAMES)
def test_values(modules, name):
    theirs, ours, result = modules
    x = np.random.default_rng(0).normal(size=(4, 6)).astype(np.float32)
    want = getattr(theirs, name)(torch.tensor(x))
    got = jax.jit(getattr(ours, name))(jnp.asarray(x))
    _same(got, want)
    assert [one.text for one in result.entries if one.level == "blocks"] == []


def _same(got, want):
    got, want = (list(one) if isinstance(one, tuple | list) else [one] for one in (got, want))
    assert len(got) == len(want)
    for a, b in zip(got, want, strict=True):
        np.testing.assert_allclose(a, np.asarray(b), rtol=1e-5, atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["row_items", "transposed", "swept", "overlapping", "two_arguments"])
def test_gradients(modules, name):
    theirs, ours, _ = modules
    x = np.random.default_rng(1).normal(size=(4, 6)).astype(np.float32)

    def first(found):
        return found[0] if isinstance(found, tuple) else found

    given = torch.tensor(x, requires_grad=True)
    first(getattr(theirs, name)(given * 1)).square().sum().backward()
    got = jax.grad(lambda x: (first(getattr(ours, name)(x)) ** 2).sum())(jnp.asarray(x))
    np.testing.assert_allclose(got, given.grad.numpy(), rtol=1e-5, atol=1e-5)


def test_the_plain_form_where_it_is_enough(modules):
    _, _, result = modules
    for name in ("row_augmented", "row_method", "rows_in_a_loop", "two_rows", "alias", "two_steps", "in_a_branch"):
        assert "tl." not in body(result, name), name
    assert "row += 1\n    x = x.at[0].set(row)\n" in body(result, "row_augmented")
    assert "y += 1\n    x = y\n" in body(result, "alias")
    assert "y -= 1\n        x = x.at[0].set(y)\n" in body(result, "in_a_branch")  # which the run did not reach


def test_positions_where_they_are_needed(modules):
    _, _, result = modules
    assert "y = tl.positions(x).reshape(2, 2, 6)" in body(result, "reshaped")
    assert "x = tl.write(x, y[:, 1], tl.read(x, y[:, 1]) + tl.read(x, y[:, 0]))" in body(result, "reshaped")


def test_functions_that_change_their_arguments(modules):
    _, _, result = modules
    assert "return target" in body(result, "add_to")
    assert "y = add_to(y, 3.0)" in body(result, "called")
    assert "total, y = scaled(y, 2.0)" in body(result, "called_with_value")
    assert "_, y = scaled(y, 3.0)" in body(result, "called_with_value")
    assert "y, z = swaps(y, z)" in body(result, "two_arguments")
    assert "y = Box.fill(y)" in body(result, "static_method")
    found = body(result, "called_in_an_expression")
    assert "result_2, y = scaled(y, 2.0)\n    first = result_2[..., None] + y[0]\n" in found


def test_ordinary_code_stays(modules):
    _, _, result = modules
    for name in ("ordinary", "rebound", "cloned", "not_read_again", "items_of_a_tuple"):
        text = body(result, name)
        assert "tl." not in text and ".at[" not in text, name
    assert "out += x\n    return out" in body(result, "ordinary")


@pytest.mark.parametrize("title", REFUSED)
def test_refused(tmp_path, title):
    source, line = REFUSED[title]
    _, _, result = ported(tmp_path, "import torch\nfrom torch import nn\n" + source, ["f"])
    found = [one for one in result.entries if one.level == "blocks"]
    assert [one.text for one in found] == [line], result.text
    assert "in place" in found[0].why or "changes its arguments" in found[0].why
