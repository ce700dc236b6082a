"""One description in both libraries, trained side by side in float64: losses, gradients, buffers, state_dicts."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import torch

from funcnet import nn

TOLERANCE = 1e-11  # float64 on both sides


def double(library: Any) -> dict[str, Any]:
    """The argument that makes a layer of float64."""
    return {"dtype": jnp.float64 if library is nn else torch.float64}


def close(ours: Any, theirs: Any, what: str = "", tolerance: float = TOLERANCE) -> None:
    theirs = theirs.detach().numpy() if isinstance(theirs, torch.Tensor) else np.asarray(theirs)
    scale = max(np.abs(theirs).max(initial=0), 1.0)
    assert tuple(ours.shape) == theirs.shape, what
    np.testing.assert_allclose(np.asarray(ours), theirs, rtol=tolerance, atol=tolerance * scale, err_msg=what)


def first(out: Any) -> Any:
    """The output, of layers that give states beside it."""
    return out[0] if isinstance(out, tuple) else out


def same_state_dict(net: Any, params: Any, state: Any, theirs: Any, tolerance: float = TOLERANCE) -> None:
    ours, expected = net.state_dict(params, state), theirs.state_dict()
    assert list(ours) == list(expected)
    for name, value in expected.items():
        close(ours[name], value, name, tolerance)


def train_alike(make: Callable[[Any], Any], x: np.ndarray, steps: int = 3, rate: float = 0.1) -> tuple[Any, Any, Any]:
    """Trains ours and torch's from torch's weights; gives our (net, params, state) after it."""
    torch.manual_seed(0)
    theirs, net = make(torch.nn), make(nn)
    assert repr(net) == repr(theirs)
    assert [name for name, _ in net.named_parameters()] == [name for name, _ in theirs.named_parameters()]
    with jax.enable_x64(True):
        params, state = net.load_state_dict(theirs.state_dict())
        inputs = jnp.asarray(x)

        @jax.jit
        def step(params: Any, state: Any) -> Any:
            def loss(params: Any) -> Any:
                out, new = net.apply(params, state, inputs, training=True)
                return jnp.sum(jnp.sin(first(out) + 0.3)), new

            (value, new), gradient = jax.value_and_grad(loss, has_aux=True)(params)
            return jax.tree.map(lambda p, g: p - rate * g, params, gradient), new, gradient, value

        optimizer = torch.optim.SGD(theirs.parameters(), rate)
        tensor = torch.tensor(x)
        for _ in range(steps):
            optimizer.zero_grad()
            with torch.nn.utils.parametrize.cached():  # torch's recurrent layers read their weights several times
                expected = torch.sum(torch.sin(first(theirs(tensor)) + 0.3))
            expected.backward()
            params_before = params
            params, state, gradient, value = step(params, state)
            close(value, expected, "loss")
            for (name, ours), (_, parameter) in zip(
                net.named_parameters(gradient), theirs.named_parameters(), strict=True
            ):
                close(ours, torch.zeros_like(parameter) if parameter.grad is None else parameter.grad, name)
            optimizer.step()
            assert jax.tree.structure(params) == jax.tree.structure(params_before)
        same_state_dict(net, params, state, theirs)
        theirs.eval()
        out, after = net.apply(params, state, inputs)
        close(first(out), first(theirs(tensor)), "in eval")
        jax.tree.map(np.testing.assert_array_equal, after, state)  # eval moves nothing
        fresh = make(torch.nn)
        fresh.load_state_dict({n: torch.tensor(np.asarray(v)) for n, v in net.state_dict(params, state).items()})
        close(first(out), first(fresh.eval()(tensor)), "torch with our state_dict")
    return net, params, state
