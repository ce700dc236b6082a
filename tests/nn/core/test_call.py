"""What one `apply` carries along: named scopes by module; errors that name the module are in test_module.py."""

import re
from pathlib import Path

import jax
import jax.numpy as jnp
import pytest

from funcnet import nn
from funcnet.nn.core.absent import PORTING, advice

KEY = jax.random.key(0)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc, self.norm = nn.Linear(4, 4), nn.LayerNorm(4)

    def forward(self, x):
        return x + self.norm(self.fc(x))


class Net(nn.Module):
    def __init__(self, **how):
        super().__init__()
        self.encoder = nn.Module()
        self.encoder.layer = nn.Repeat(Block(), 2, **how) if how else nn.ModuleList(Block() for _ in range(2))
        self.again = self.encoder.layer

    def forward(self, x):
        if isinstance(self.encoder.layer, nn.Repeat):
            return self.encoder.layer(x)
        for layer in self.encoder.layer:
            x = layer(x)
        return x


def scopes(function, *args):
    """The named scopes of the operations of a lowered function."""
    text = jax.jit(function).lower(*args).as_text(debug_info=True)
    return {name.partition("/")[2].rpartition("/")[0] for name in re.findall(r'loc\("([^"]*)"', text) if "/" in name}


def lowered(net):
    params, state = net.init(KEY)
    return scopes(lambda params, x: net.apply(params, state, x)[0], params, jnp.ones((2, 4)))


def test_operations_are_named_by_the_dotted_names_of_modules():
    found = lowered(Net())
    assert {"encoder.layer.0/fc", "encoder.layer.1/fc", "encoder.layer.0/norm"} <= found


def test_the_layers_of_a_repeat_are_named():
    assert {"encoder.layer/0/fc", "encoder.layer/1/fc", "encoder.layer/0/norm"} <= lowered(Net(scan=False))
    net = Net(scan=True)
    params, state = net.init(KEY)
    text = jax.jit(net.apply).lower(params, state, jnp.ones((2, 4))).compile().as_text()
    assert re.search(r'op_name="[^"]*/encoder\.layer/while/body/[^"]*\*/fc/', text)


def test_gradients_and_recomputation_keep_the_names():
    net = nn.Sequential(nn.remat(Block()), nn.Linear(4, 1))
    params, state = net.init(KEY)
    found = scopes(jax.grad(lambda params, x: net.apply(params, state, x)[0].sum()), params, jnp.ones((2, 4)))
    assert any("transpose(jvp(1))" in name for name in found)
    assert any(name.startswith("transpose(jvp(0))") and name.endswith("fc") for name in found)


def test_a_module_that_is_called_from_elsewhere_has_its_whole_name():
    class Elsewhere(nn.Module):
        def __init__(self):
            super().__init__()
            self.embeddings, self.head = nn.Sequential(nn.Linear(4, 4)), nn.Module()
            self.head.borrowed = self.embeddings

        def forward(self, x):
            return self.head.borrowed(x)

    assert "embeddings/0" in lowered(Elsewhere())


def test_names_are_metadata():
    """The traced program has the same operations, whatever the modules are called."""
    programs = set()
    for name in ("first", "second"):
        net = nn.Sequential({name: nn.Linear(4, 4)})
        params, state = net.init(KEY)
        program = jax.make_jaxpr(lambda params, x: net.apply(params, state, x)[0])(params, jnp.ones((2, 4)))  # noqa: B023
        programs.add(str(program))
    assert len(programs) == 1


def test_the_persistent_cache_does_not_see_names(tmp_path):
    """Two nets that differ in names alone share a compiled program."""
    settings = {
        "jax_compilation_cache_dir": str(tmp_path),
        "jax_persistent_cache_min_compile_time_secs": 0.0,
        "jax_persistent_cache_min_entry_size_bytes": -1,
    }
    before = {name: getattr(jax.config, name) for name in settings}
    weight, x = jnp.ones((4, 4)), jnp.ones((2, 4))

    def files(name):
        net = nn.Sequential({name: nn.Linear(4, 4, bias=False)})

        def run(weight, x):
            return net.apply({name: {"weight": weight}}, {name: {}}, x)[0]

        jax.jit(run)(weight, x).block_until_ready()
        return {file.name for file in tmp_path.iterdir() if "run" in file.name and file.name.endswith("-cache")}

    try:
        for name, value in settings.items():
            jax.config.update(name, value)
        jax.experimental.compilation_cache.compilation_cache.reset_cache()
        first = files("first")
        assert len(first) == 1 and files("second") == first
    finally:
        for name, value in before.items():
            jax.config.update(name, value)
        jax.experimental.compilation_cache.compilation_cache.reset_cache()


@pytest.mark.parametrize(
    "code",
    [
        "x.permute(1, 0, 2)",
        "x.view(2, -1)",
        "x.size(0)",
        "x.transpose(0, 1)",
        "x.contiguous()",
        "x.masked_fill_(x > 0, 0)",
        "x.sum(dim=1)",
        "x.mean(1, keepdim=True)",
        "x.sum(1, True)",
        "x.max(1, True)",
        "x.flatten(1)",
        "x.repeat(2, 1, 1)",
        "x.squeeze(1)",
        "x.__setitem__(0, 1)",
        "jnp.cat([x, x])",
        "jnp.zeros(2, 3)",
        "jnp.split(x, 2, 1)",
        "torch.exp(x)",
        "torch.cat([x, x])",
    ],
)
@pytest.mark.parametrize("jit", [False, True])
def test_torchs_spelling_on_an_array_names_the_page(code, jit):
    torch = pytest.importorskip("torch")

    class Net(nn.Module):
        def forward(self, x):
            return eval(code, {"x": x, "jnp": jnp, "torch": torch})

    apply = nn.Sequential(Net()).apply
    with pytest.raises((AttributeError, NotImplementedError, TypeError, ValueError)) as refused:
        (jax.jit(apply) if jit else apply)({"0": {}}, {"0": {}}, jnp.ones((2, 3, 4)))
    assert refused.value.__notes__.count(PORTING) == 1 and "in module 0 (Net)" in refused.value.__notes__
    assert (Path(__file__).parents[3] / PORTING.split()[0]).exists()


def test_other_errors_do_not_name_it():
    for error in (AttributeError("'Net' object has no attribute 'x'", name="x", obj=nn.Module()), ValueError("no")):
        assert advice(error) == []
