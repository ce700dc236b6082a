"""Items of tensors that are set, with every kind of index, against torch."""

import pytest

from ..ported import check, module, port_text

HEAD = "y = x[:, :, None] * torch.ones(5)\ni = torch.tensor([0, 2])\nk = 1\n"  # of shape (3, 4, 5)

BEFORE = "def parts(x):\n    return x[0, 0], 3, x[1, 1] * 2"

EQUAL = {
    "ints": "y[1] = x[0, 0]\ny[1, 2] = 1.0\ny[-1, -1, 0] = k\ny[k, k + 1] += 2\ny[0, 0, 0] /= x[0, 0] + 3",
    "slices": "y[:, 0] = 2\ny[..., 1] += x\ny[-1, :, 1:3] *= x[0, 1:3]\ny[0:2, ::2, k:] = 3\ny[slice(0, 2)] *= 2",
    "new axes": "y[None, 0, 0] = 1.5\ny[..., None, 0] = 2.5",
    "arrays": "y[i] = 1.0\ny[i, i] = x[:2, :1]\ny[i[:, None], i] = 4.0\ny[:, i, 0] = x[:, :2]\ny[i, 1] += 2",
    "arrays apart from an int": "y[0, :, i] = x[0, :, None]\ny[i, :, 1] = x[i]\ny[1, :, i] += x[0, :, None]",
    "lists": "y[[0, 1]] = 1.0\ny[0, [1, 2]] = x[:2, :1]\ny[[-1]] += 1\ny[0, :, [1, 2]] = x[0, :, None]",
    "a mask and a number": "y[y > 0] = 0\ny[y < -1] = -1.0\ny[y == 0] += 1\ny[~(y > 0)] *= 2",
    "a mask of rows": "m = x[:, 0] > 0\ny[m] = 0.5\ny[m] = x[0, :, None]\ny[m] += 1",
    "a mask of rows, and one row for all": "m = y.sum(-1) > 0\ny[m] += x[0, :1]\ny[m] -= y[1, :1]\ny[m] = y[0, :1] + 1",
    "a mask beside others": "m = x[0] > 0\ny[:, m] = 0\ny[0, m] = 2.0\ny[m[:3], 0] = 3.0\ny[:, m] = x[0, 0]",
    "items of items": "y[0][1] = 8.0\ny[1][:, 2] += x[0].mean()\ny[1:, 0][0] = 3.3",
    "a tuple": "ix = (0, slice(None), 1)\ny[ix] = 5.5\nixs = (0, slice(None), i)\ny[ixs] = x[0, :, None]",
    "chained targets": "z = x * 1\ny[0, 0] = z[0, 0] = k\ny = y + z[:, :, None]",
    "among several targets": "new_y = 3\ny[0, 0], k, y[1, 1] = parts(x)\ny = y + k * x[:, :, None] * new_y",
    "integers": "n = torch.zeros(3, 4, dtype=torch.long)\nn[n == 0] = 2\ny = y * n[:, :, None]",
    "booleans": "b = x > 0\nb[b] = False\ny = y + b[:, :, None]",
}  # fmt: skip


@pytest.mark.parametrize("name", EQUAL)
def test_equal(name, tmp_path):
    source = module(f"{HEAD}{EQUAL[name]}\nreturn y", before=BEFORE)
    eager = {"eager only"} if name.startswith("a mask of rows") else set()  # without a run, the shapes are not known
    check(tmp_path, source, "torch.randn(3, 4)", without=eager, training=(False,))


def test_lists_of_python_stay(tmp_path):
    lines = "xs = list(x)\nxs[0] = xs[1]\nxs[-1] = xs[-1] * 2\nxs += [x[0]]\nreturn torch.stack(xs[::-1])"
    with_run, _ = check(tmp_path, module(lines), training=(False,))
    assert "xs[0] = xs[1]" in with_run.text


@pytest.mark.parametrize(
    ("line", "written"),
    [
        ("y[0] = 1", "y = y.at[0].set(1)"),
        ("y[:, 0] += x[:, 0]", "y = y.at[:, 0].add(x[:, 0])"),
        ("y[y > 0] = 0.0", "y = jnp.where(y > 0, 0.0, y)"),
        ("y[y > 0] += 1", "y = jnp.where(y > 0, y + 1, y)"),
        ("y[[0, 1]] = 1.0", "y = y.at[np.array([0, 1])].set(1.0)"),
    ],
)
def test_written(line, written, tmp_path):
    ported = port_text(tmp_path, module(f"y = x * 1\n{line}\nreturn y"), "Net()", "torch.randn(2, 3)")
    assert f"        {written}\n" in ported.text and not ported.entries


def test_a_mask_of_rows_does_not_broadcast_over_columns(tmp_path):
    """(3,) against (3, 3): jnp.where would take the mask for columns."""
    check(tmp_path, module("y = x * 1\ny[x[:, 0] > 0] = 0.0\nreturn y"), "torch.randn(3, 3)", training=(False,))


@pytest.mark.parametrize(
    "line",
    [
        "y[0], y[1] = x[1], x[0]",
        "y[0], z = parts(y)[:2]",
        "y[0], z, y[1] = parts(y)",
        "y[0], z = x[1], x[0]",
        "y[0] = y[1] = x.sum(0)",
        "y[self.place()] //= 2",
    ],
)
def test_not_decided(line, tmp_path):
    text = module(f"y = x * 1\n{line}\nreturn y", before=BEFORE, more="def place(self):\n    return 0")
    assert port_text(tmp_path, text, "Net()", "torch.randn(2, 3)").levels == {"blocks"}
