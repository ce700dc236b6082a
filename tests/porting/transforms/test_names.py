"""Names and attributes: dtypes, constants, classes, and functions that are passed on."""

import pytest

from funcnet.porting.expression_facts.fact import UNKNOWN, Fact
from funcnet.porting.rewriting.rewriter import port_expression

from ..ported import check, module, port_text


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("torch.float32", "jnp.float32"),
        ("torch.bool", "bool"),
        ("torch.pi", "jnp.pi"),
        ("torch.tanh", "jnp.tanh"),
        ("torch.add", "lambda input, other: input + other"),
        ("nn.ReLU", "nn.ReLU"),
        ("torch.nn.modules.conv.Conv2d", "nn.Conv2d"),
        ("F.gelu", "F.gelu"),
        ("torch.nn.functional.gelu", "F.gelu"),
        ("x.T", "x.T"),
        ("x.data", "jax.lax.stop_gradient(x)"),
        ("x.dtype.is_floating_point", "jnp.issubdtype(x.dtype, jnp.floating)"),
        ("torch.finfo(x.dtype).min", "float(jnp.finfo(x.dtype).min)"),
        ("u.T", "u.T"),
        ("[torch.relu, torch.sigmoid]", "[F.relu, jax.nn.sigmoid]"),
    ],
)
def test_written(text, written):
    ported, undecided = port_expression(text, {"x": Fact(frozenset({"tensor"}), "float32", (2, 3)), "u": UNKNOWN})
    assert ported == written and not undecided


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("u.data", "whether .data is the attribute of a tensor"),
        ("x.grad", "jax.grad returns the gradients"),
        ("getattr(torch, name)", "torch itself is passed on"),
        ("torch.nn.DataParallel", "funcnet has no torch.nn.DataParallel"),
        ("torch.cuda.Stream", "Leave it out"),
    ],
)
def test_register(text, why):
    _, undecided = port_expression(text, {"x": Fact(frozenset({"tensor"})), "u": UNKNOWN, "name": UNKNOWN})
    assert any(why in f"{one.why} {one.write}" for one in undecided if one.level == "blocks")


def test_functions_that_are_passed_on(tmp_path):
    before = """
    ACT = {"tanh": torch.tanh, "sig": torch.sigmoid}

    def applied(f, *args, **kwargs):
        return f(*args, **kwargs)
    """
    forward = """
    table = {"relu": torch.relu, "gelu": F.gelu, "silu": F.silu}
    other = getattr(F, self.name)
    return [table[k](x) for k in sorted(table)], other(x), self.act(x), self.f(x), applied(torch.exp, x), self.op(x, x)
    """
    init = "self.name = 'gelu'\nself.act = ACT['sig']\nself.f = lambda t: torch.exp(t)\nself.op = torch.add"
    check(tmp_path, module(forward, init, before=before), training=(False,))


def test_names_that_are_imported_keep_their_spelling(tmp_path):
    before = "from torch.nn import Linear, functional as func\nfrom torch import einsum, float32 as f32"
    text = module(
        "return einsum('bi,bi->b', self.l(x), x).to(f32) + func.relu(x).sum()", "self.l = Linear(3, 3)", before=before
    )
    with_run, _ = check(tmp_path, text, training=(False,))
    assert "from funcnet.nn import Linear\n" in with_run.text and "self.l = Linear(3, 3)" in with_run.text


def test_a_local_name_hides_a_module(tmp_path):
    ported = port_text(tmp_path, module("F = x * 2\nreturn F.sum(1)"))
    assert "return F.sum(axis=1)" in ported.text and not ported.entries


def test_attributes_of_modules_of_torch_by_their_names(tmp_path):
    before = "compiling = getattr(torch.compiler, 'is_compiling', None) or getattr(torch._dynamo, 'is_compiling', None)"
    check(tmp_path, module("return x if compiling() else x * 2", before=before), training=(False,))


def test_bases_of_layers(tmp_path):
    before = "from torch.nn.modules.batchnorm import _BatchNorm"
    init = """
    self.norm = nn.BatchNorm2d(3)
    self.act = nn.modules.ReLU()
    for m in (self.norm, nn.Conv2d(3, 3, 1)):
        if isinstance(m, (_BatchNorm, nn.modules.batchnorm._BatchNorm)):
            nn.init.constant_(m.weight, 3.0)
        elif isinstance(m, nn.modules.conv._ConvNd):
            self.count = m.kernel_size[0]
    """
    check(
        tmp_path, module("return self.act(self.norm(x)) * self.count", init, before=before), "torch.randn(2, 3, 4, 4)"
    )


def test_which_parameters_are_trained(tmp_path):
    more = "def freeze(self):\n    for p in self.parameters():\n        p.requires_grad = False"
    ported, _ = check(tmp_path, module("return self.l(x)", "self.l = nn.Linear(3, 3)", more=more), training=(False,))
    assert "p.requires_grad = False" in ported.text


def test_annotations_of_torchscript(tmp_path):
    text = module("return x").replace("nn.Module):", "nn.Module):\n    size: torch.jit.Final[int]", 1)
    ported, _ = check(tmp_path, text, training=(False,))
    assert "size: int" in ported.text


def test_helpers_of_layers_and_contexts_as_values(tmp_path):
    before = """
    import contextlib
    from functools import partial
    from torch.amp import autocast
    from torch.nn.modules.utils import _pair
    """
    lines = """
    context = partial(autocast, "cpu", enabled=False) if x.dim() == 2 else contextlib.nullcontext
    with context():
        x = x * _pair(3)[1] + sum(_pair((1, 2)))
    return x
    """
    check(tmp_path, module(lines, before=before), training=(False,))


def test_functions_that_older_versions_of_torch_lack(tmp_path):
    before = """
    if "sinc" in dir(torch):
        sinc = torch.sinc
    else:
        def sinc(x):
            return torch.where(x == 0, torch.tensor(1.0), torch.sin(x) / x)
    if not hasattr(torch, "hypot"):
        raise ImportError("torch is too old")
    """
    ported, _ = check(tmp_path, module("return sinc(x)", before=before), training=(False,))
    assert "jnp.sinc" in ported.text and not ported.entries


def test_a_method_of_a_tensor_by_its_name(tmp_path):
    ported = port_text(tmp_path, module("return getattr(x, 'std')(1)"), "Net()", "torch.randn(2, 3)")
    assert [one.level for one in ported.entries] == ["blocks"] and "called by its name" in ported.entries[0].why


def test_torch_in_place_of_numpy(tmp_path):
    before = "import numpy as np"
    body = "lib = np if isinstance(x, np.ndarray) else torch\nreturn lib.isnan(x).sum(1) + lib.sum(x)"
    ported = port_text(tmp_path, module(body, before=before), "Net()", "torch.randn(2, 3)")
    assert "else jnp\n" in ported.text and not ported.entries
