"""Rules of what surrounds a model, of sparse tensors, and of torch's internal names."""

import importlib
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

from funcnet.porting.expression_facts.fact import Fact, fact_of
from funcnet.porting.rewriting.rewriter import port_expression

from .op_samples import ENVIRONMENT, check

DIRECT = (
    "torch.vmap(torch.sum)(x)", "torch.vmap(torch.sum, in_dims=1)(x)", "torch.func.vmap(torch.dot)(x, x)",
    "torch.func.grad(torch.sum)(x)", "torch.func.jacrev(torch.sin)(v)", "torch.func.jacfwd(torch.sin)(v)",
    "torch.func.hessian(lambda t: torch.sum(t**3))(v)",
    "torch.func.vjp(torch.sin, v)[0]", "torch.func.jvp(torch.sin, (v,), (v,))",
    "torch.autograd.functional.jacobian(torch.sin, v)",
    "torch.sym_max(x.shape[0], 2)", "torch.sym_min(x.shape[0], 2)", "torch.sym_int(2.5)", "torch.sym_float(x.shape[1])",
    "torch.sym_not(False)", "torch.sym_ite(True, 1, 2)", "torch.sym_sqrt(4)", "torch.sym_sum([1, x.shape[0]])",
    "torch.utils._pytree.tree_leaves([x, {'a': v}])", "torch.utils._pytree.tree_map(torch.sin, {'a': v, 'b': (x,)})",
    "torch.is_vulkan_available()", "torch.overrides.has_torch_function((x,))", "torch.overrides.is_tensor_like(x)",
    "torch.jit.wait(torch.jit.fork(torch.sin, x))", "x.is_pinned()", "x.to_sparse().to_dense()",
    "x.to_sparse().coalesce().to_dense()", "x.to_sparse().sparse_dim()", "x.to_sparse().dense_dim()",
    "torch.sparse.mm(x.to_sparse(), x.T)", "torch.sparse.addmm(s, x.to_sparse(), x.T, beta=0.5)",
    "torch.sparse.sum(h.to_sparse())", "torch.view_as_complex_copy(k)", "torch.view_as_real_copy(z)",
)  # fmt: skip

REGISTERED = {
    "torch.distributions.VonMises(x, x)": "np.random.Generator.vonmises",
    "torch.distributions.Normal(x, x)": "jax.random.normal",
    "torch.distributions.Normal": "jax.random.normal",
    "torch.distributions.kl_divergence(x, x)": "jax.scipy.stats",
    "torch.cuda.get_device_name(0)": "jax.devices",
    "torch.autograd.grad(x, x)": "jax.grad",
    "torch.distributed.all_reduce(x)": "jax.lax.psum",
    "torch.quantize_per_tensor(x, 0.1, 0, torch.qint8)": "jnp.round",
    "torch.load('a.pt')": "weights.load",
    "torch.hub.load('a', 'b')": "weights.load",
    "torch.sparse_coo_tensor(x, x)": "dense",
    "torch.linalg.ldl_factor(x)": "LDL",
    "torch.special.airy_ai(x)": "JAX has no such function",
    "torch.utils.data.DataLoader(x)": "funcnet.data",
    "torch.cudnn_convolution(x, x)": "F.conv2d",
    "torch.no_grad()": "stop_gradient",
    "torch.fx.symbolic_trace(x)": "jaxpr",
    "torch.int3": "no such dtype",
    "x.int_repr()": "scale",
}


def _tensors() -> dict[str, torch.Tensor]:
    torch.manual_seed(0)
    x, s, v = (torch.randn(*shape, dtype=torch.float64) for shape in ((3, 4), (3, 3), (4,)))
    smooth = {name: tensor.requires_grad_() for name, tensor in {"x": x, "s": s, "v": v}.items()}
    return {
        **smooth,
        "h": torch.eye(3, dtype=torch.float64),
        "k": torch.rand(3, 2, dtype=torch.float64),
        "z": torch.randn(3, dtype=torch.complex128),
    }


@pytest.mark.parametrize("text", DIRECT)
def test_call(text):
    names = compile(text, "", "eval").co_names
    assert check(text, {name: tensor for name, tensor in _tensors().items() if name in names}) is None


@pytest.mark.parametrize("text", REGISTERED)
def test_register_says_what_to_write(text):
    _, undecided = port_expression(text, {"x": Fact(frozenset({"tensor"}), "float32", (2, 3))})
    assert undecided and all(one.level == "blocks" for one in undecided)
    assert any(REGISTERED[text] in one.why for one in undecided), undecided


def test_indices_of_a_sparse_tensor():
    heads = torch.tensor([[0.0, 1.0], [1.0, 1.0]])
    text, undecided = port_expression("heads.indices().T", {"heads": fact_of(heads)})
    assert text == "jnp.stack(jnp.nonzero(heads)).T" and [one.level for one in undecided] == ["eager only"]
    ours = eval(text, {**ENVIRONMENT, "heads": jnp.asarray(heads.numpy())})
    np.testing.assert_array_equal(ours, heads.to_sparse().indices().T)


def test_branch_on_an_array_becomes_cond():
    text, undecided = port_expression("torch.cond(x.sum() > 0, f, g, (x,))", {"x": fact_of(torch.ones(2))})
    assert (text, undecided) == ("jax.lax.cond(x.sum() > 0, f, g, x)", [])


def test_the_advice_for_geometric_distributions():
    _, undecided = port_expression("torch.distributions.Geometric(0.25)", {})
    advice = undecided[0].why
    sample, density = (f"jax.{one.split(' for ')[0]}" for one in advice.split("jax.")[1:])
    torchs, p = torch.distributions.Geometric(0.25), 0.25
    names = {"jax": jax, "key": jax.random.key(0), "p": jnp.full(20_000, p), "x": jnp.arange(5.0)}
    drawn = eval(sample, names)
    assert int(drawn.min()) == 0 and abs(float(drawn.mean()) - float(torchs.mean)) < 0.1
    np.testing.assert_allclose(eval(density, {**names, "p": p}), torchs.log_prob(torch.arange(5.0)), rtol=1e-5)


def test_the_functions_that_the_advice_for_distributions_names_exist():
    for name in torch.distributions.__all__:
        _, undecided = port_expression(f"torch.distributions.{name}", {})
        for found in re.findall(r"jax\.(?:random|scipy\.stats)\.\w+", undecided[0].why) if undecided else ():
            module, _, function = found.rpartition(".")
            assert hasattr(importlib.import_module(module), function), (name, found)
