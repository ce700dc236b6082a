"""docs/porting.md is true: both sides of every line are run and compared; and complete: no model file needs more."""

import functools
import importlib
import re
import warnings
from collections.abc import Iterable
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

import funcnet
from funcnet import functional as F
from funcnet import nn, tree, weights
from tests.porting_files import PAGE, Line, lines, model_files, named, names_in, needed

TEXT = PAGE.read_text("utf-8")
LINES = list(lines(TEXT))
TRAPS, ERRORS, CORNERS = "Silent traps", "Errors in torch, values in JAX", "Gradients at corners"
COMPARED = [line for line in LINES if line.section not in (ERRORS, CORNERS)]
FLOATS = ("x", "y", "p", "a", "s", "v", "w", "h", "z")


def of(section: str) -> list[Line]:
    return [line for line in LINES if line.section == section]


def every(some: list[Line]) -> pytest.MarkDecorator:
    names = (line.cells[0].partition("`, ")[0].strip("`") for line in some)
    rows = [pytest.param(line, id=name) for line, name in zip(some, names, strict=True)]
    return pytest.mark.parametrize("line", rows)


@pytest.fixture(autouse=True)
def as_users_have_it():
    with jax.numpy_dtype_promotion("standard"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


# ------------------------------------------------------------------------------------------------------ running a line


def values(seed: int) -> dict[str, np.ndarray]:
    """The arrays that the page names, as its head describes them."""
    rng = np.random.default_rng(seed)
    root, shape = rng.normal(size=(4, 4)), (2, 3, 4)
    drawn = {
        **{name: rng.normal(size=shape) for name in "xyh"},
        "p": rng.uniform(0.05, 0.95, shape),
        "a": rng.normal(size=(4, 6)),
        "s": root @ root.T + 4 * np.eye(4),
        "v": rng.normal(size=4),
        "w": rng.normal(size=4),
        "z": np.zeros(3),
    }
    integers = {
        "n": rng.integers(1, 10, shape),
        "i": rng.normal(size=shape).argsort(1),
        "j": rng.integers(0, 3, 3),
        "e": np.array([2, 4, 6]),
    }
    return {k: x.astype(np.float32) for k, x in drawn.items()} | integers | {"m": rng.random(shape) < 0.5}


def run(code: str, names: dict) -> object:
    """The value of an expression; of a statement, that of `x` afterwards."""
    names = dict(names)
    try:
        return eval(code, names)
    except SyntaxError:
        exec(code, names)
        return names["x"]


def torch_names(seed: int) -> dict[str, torch.Tensor]:
    given = {k: torch.from_numpy(x.copy()) for k, x in values(seed).items()}
    return given | {"h": given["h"].bfloat16()}


def in_torch(code: str, seed: int) -> tuple[object, dict[str, np.ndarray]]:
    """The value, and the gradients of its weighted sum."""
    given = torch_names(seed)
    sources = {k: given[k].requires_grad_() for k in FLOATS}
    value = run(code, {"torch": torch, "np": np} | given | {k: x * 1 for k, x in sources.items()})
    outputs = [out for out in flat(value) if differentiable(out) and out.requires_grad]
    if not outputs:
        return value, {}
    weights = [torch.from_numpy(weight(out.shape)).to(out.dtype) for out in outputs]
    try:
        found = torch.autograd.grad(outputs, list(sources.values()), weights, allow_unused=True)
    except RuntimeError as error:
        assert "derivative" in str(error) and "is not implemented" in str(error)
        return value, {}
    return value, {k: g.float().numpy() for k, g in zip(sources, found, strict=True) if g is not None}


def jax_names(seed: int) -> dict[str, jax.Array]:
    given = {k: jnp.asarray(x) for k, x in values(seed).items()}
    return given | {"h": given["h"].astype(jnp.bfloat16), "key": jax.random.key(seed)}


LIBRARIES = {"jax": jax, "jnp": jnp, "np": np, "F": F, "nn": nn, "tree": tree, "weights": weights}


def in_jax(code: str, seed: int) -> tuple[object, dict[str, np.ndarray]]:
    given = jax_names(seed)
    value = run(code, LIBRARIES | given)
    if not any(differentiable(out) for out in flat(value)):
        return value, {}

    def outputs(sources):
        return [out for out in flat(run(code, LIBRARIES | given | sources)) if differentiable(out)]

    used = [k for k in FLOATS if re.search(rf"\b{k}\b", code)]
    found, pull = jax.vjp(outputs, {k: given[k] for k in used})
    (gradients,) = pull([jnp.asarray(weight(out.shape), out.dtype) for out in found])
    return value, {k: np.asarray(g, np.float32) for k, g in gradients.items()}


def weight(shape) -> np.ndarray:
    """What each entry of an output counts in the sum whose gradients are compared."""
    return np.cos(np.arange(np.prod(shape)), dtype=np.float32).reshape(tuple(shape))


def differentiable(value: object) -> bool:
    if isinstance(value, torch.Tensor):
        return value.is_floating_point()
    return isinstance(value, jax.Array) and jnp.issubdtype(value.dtype, jnp.floating)


def flat(value: object) -> list:
    return [leaf for item in value for leaf in flat(item)] if isinstance(value, tuple | list) else [value]


def plain(value: object) -> tuple[np.ndarray, str]:
    """An array and the name of its dtype, 64 bits as 32."""
    if isinstance(value, torch.dtype):
        return np.array(0), str(value).removeprefix("torch.")
    if isinstance(value, np.dtype):
        return np.array(0), value.name
    name = str(value.dtype).removeprefix("torch.") if hasattr(value, "dtype") else np.asarray(value).dtype.name
    if isinstance(value, torch.Tensor):
        value = value.detach().resolve_conj()
        value = value.float() if value.dtype == torch.bfloat16 else value
    array = np.asarray(value)
    return array.astype(np.float32) if name == "bfloat16" else array, name.replace("64", "32")


def same(theirs: object, ours: object, only_shapes: bool = False) -> None:
    theirs, ours = flat(theirs), flat(ours)
    assert len(theirs) == len(ours), f"{len(theirs)} values in torch, {len(ours)} here"
    for (one, its_dtype), (other, our_dtype) in zip(map(plain, theirs), map(plain, ours), strict=True):
        assert one.shape == other.shape and its_dtype == our_dtype, (one.shape, its_dtype, other.shape, our_dtype)
        if not only_shapes:
            np.testing.assert_allclose(other, one, rtol=1e-5, atol=2e-6)  # a few roundings of float32


def same_gradients(theirs: dict, ours: dict, names: Iterable[str], loose: float = 0) -> None:
    for name in names:
        one, other = theirs.get(name, np.float32(0)), ours.get(name, np.float32(0))
        np.testing.assert_allclose(other, np.broadcast_to(one, np.shape(other)), rtol=loose, atol=loose, err_msg=name)


# -------------------------------------------------------------------------------------------------------------- tests
@every([line for line in COMPARED if line.mark != "†"])
def test_both_sides_are_equal(line):
    (here,) = line.code(3 if line.section == TRAPS else 1)
    for seed in range(2):
        ours, our_gradients = in_jax(here, seed)
        for code in line.code(0):
            theirs, their_gradients = in_torch(code, seed)
            same(theirs, ours, only_shapes=line.mark == "‡")
            if not line.mark:
                loose = 1e-2 if re.search(r"\bh\b", code) else 2e-5  # bfloat16; sums of a few products
                same_gradients(their_gradients, our_gradients, [k for k in FLOATS if k != "z"], loose)


@every(of(TRAPS))
def test_a_trap_runs_and_is_another_value(line):
    for code in line.code(0):
        with pytest.raises(AssertionError):
            same(in_torch(code, 0)[0], run(line.code(1)[0], LIBRARIES | jax_names(0)))


ARGUMENTS = "x; x, 1; x, y; a; a, 1; a, 0, 1; a, 2, 1; s, s; v, 2; v, w; n; n, 2; n, e; m; 4, 4"
# Uninitialised; sums, products and dtypes of integers, which the page has below the table; defaults of rare functions.
NO_TRAP = {"empty", "empty_like", "prod", "result_type", "heaviside", "histogram", "histogramdd", "unravel_index"}
ALIKE = {"nanmedian": "median", "triu_indices": "tril_indices"}


@pytest.mark.slow
def test_no_other_name_of_both_is_a_silent_trap():
    """Every method and function that torch and JAX have under one name, with the arguments that both take."""
    methods = {f".{name}" for name in {*dir(torch.Tensor)} & {*dir(jax.Array)}}
    functions = {name for name in {*dir(torch)} & {*dir(jnp)} if callable(getattr(jnp, name))}
    theirs, ours = (names(0) for names in (torch_names, jax_names))
    found = set()
    for name in sorted(methods | functions - {"save", "load", "set_printoptions"}):
        if re.match(r"\.?_|.*_$", name):
            continue
        for arguments in ARGUMENTS.split("; "):
            first, _, rest = arguments.partition(", ")
            call = f"{first}{name}({rest})" if name[0] == "." else f"LIBRARY.{name}({arguments})"
            try:
                one = run(call, {"LIBRARY": torch} | theirs)
                other = run(call, {"LIBRARY": jnp} | ours)
            except Exception:  # an error is not silent
                continue
            try:
                same(one, other)
            except AssertionError:
                found.add(name.strip("."))
    on_the_page = {name for line in of(TRAPS) for name in re.findall(r"\.(\w+)\(", line.cells[1])}
    assert {ALIKE.get(name, name) for name in found - NO_TRAP} <= on_the_page
    assert {"max", "std", "split", "equal", "transpose", "repeat", "nonzero", "meshgrid"} <= found


@every(of(ERRORS))
def test_jax_returns_a_value_where_torch_raises_an_error(line):
    with pytest.raises((IndexError, RuntimeError)):
        in_torch(line.code(0)[0], 0)
    jax.block_until_ready(run(line.code(1)[0], LIBRARIES | jax_names(0)))


@every(of(CORNERS))
def test_the_gradient_at_a_corner(line):
    theirs, trap, ours = in_torch(line.code(0)[0], 0), in_jax(line.code(1)[0], 0), in_jax(line.code(3)[0], 0)
    same(theirs[0], trap[0])
    same(theirs[0], ours[0])
    same_gradients(theirs[1], ours[1], "z")
    with pytest.raises(AssertionError):
        same_gradients(theirs[1], trap[1], "z")
    if re.fullmatch(r"[\d.]+, ([\d.]+|NaN)", line.cells[2]):
        written = [float(number) for number in line.cells[2].split(", ")]
        np.testing.assert_allclose([theirs[1]["z"][0], trap[1]["z"][0]], written, rtol=1e-6)


@every([line for line in COMPARED if line.mark != "†"])
def test_the_note_says_what_does_not_run_under_jit(line):
    code = line.code(3 if line.section == TRAPS else 1)[0]
    says_no = any("Not under `jit`" in cell for cell in line.cells)
    try:
        jax.make_jaxpr(lambda given: (run(code, LIBRARIES | given), None)[1])(jax_names(0))
    except jax.errors.JAXTypeError:
        assert says_no
    except jax.errors.JAXIndexError:
        assert says_no
    else:
        assert not says_no


def test_the_lines_that_are_not_run_are_counted():
    marks = [line.mark for line in LINES]
    assert (marks.count("†"), marks.count("‡")) == (40, 16)
    assert len(LINES) == 362


def test_names_on_the_page_exist():
    importlib.import_module("jax.experimental.checkify")
    roots = LIBRARIES | {"net": nn.Module(), "hooks": nn.Hooks(), "funcnet": funcnet}
    right = "\n".join("|".join(line.cells[1:]) for line in LINES)
    found = set(re.findall(rf"(?<![\w.])({'|'.join(roots)})((?:\.\w+)+)", right))
    assert len(found) > 100
    for root, path in found:
        functools.reduce(getattr, path[1:].split("."), roots[root])


@pytest.mark.slow
def test_the_page_has_every_name_that_model_files_use():
    """Of transformers, which is installed; `python -m tests.porting DIR` looks at the others too."""
    found, there = needed(model_files()), named(TEXT)
    assert len(found) > 150 and found["torch.cat"] > 20 and found[".view"] > 20
    assert not {name: n for name, n in found.items() if name not in there}


def test_names_are_found_by_syntax():
    code = "import math, torch\nfrom torch import tanh as t\nt(x.view(2).T)\ntorch.linalg.inv(math.exp(1))\n'a'.split()"
    assert names_in(code) == {"torch.tanh", ".view", ".T", "torch.linalg.inv"}


def test_the_page_can_be_found():
    root = Path(PAGE).parents[1]
    for page in ("README.md", "docs/architecture.md"):
        assert "porting.md" in (root / page).read_text("utf-8")
