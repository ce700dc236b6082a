"""Deep stacks: `Repeat` runs n layers of one kind, as a loop or as a `lax.scan`; `remat` recomputes a layer.

Both run a child by its pure form, so buffers, dropout and captured values are right inside any transformation.
"""

import copy
from collections.abc import Callable
from typing import Any

import jax

from funcnet import tree
from funcnet.nn.container import _Numbered
from funcnet.nn.module import Module, _Call, _write_state
from funcnet.nn.parameter import Buffer, Parameter

__all__ = ["Repeat", "remat"]


def _pure(bound: Module, description: Module, method: str | None = None) -> Callable[..., Any]:
    """`(params, state, rng, args, kwargs) -> (out, state, captured)`: the bound module's own call, in pure form."""
    frame = bound._bound_frame("apply")
    call = frame.call

    def run(params: Any, state: Any, rng: Any, args: Any, kwargs: Any) -> Any:
        inner = _Call(call.training, rng, call.hooks, frame.name, call.capture)
        return description._run(params, state, args, kwargs, inner, method)

    return run


def _take(bound: Module, old_state: Any, result: tuple[Any, Any, dict[str, Any]]) -> Any:
    """Takes what a pure run gave back into the bound module, and gives its output."""
    out, state, captured = result
    if state is not old_state and jax.tree.leaves(state):
        _write_state(bound, state)
    bound._bound_frame("apply").call.captured.update(captured)
    return out


def remat(layer: Module, policy: Any = None) -> Module:
    """The layer, recomputed in the backward pass in place of keeping its activations. Its names stay as they are.

    Args:
        layer: a description; a changed copy of it comes back, with the same parts.
        policy: one of `jax.checkpoint_policies`, or None: nothing is kept.

    Example:
        >>> from funcnet import nn
        >>> layer = nn.remat(nn.Linear(2, 2))
        >>> [name for name, _ in layer.named_parameters()]
        ['weight', 'bias']

    Reference: https://docs.jax.dev/en/latest/gradient-checkpointing.html
    """
    kind = type(layer)

    def forward(self: Module, *args: Any, **kwargs: Any) -> Any:
        frame = self._bound_frame("remat")
        plain = copy.copy(frame.description)
        plain.__class__ = kind
        rng = None if frame.call.rng is None else self.make_rng()
        leaves, structure = jax.tree.flatten((args, kwargs))
        arrays = {i: leaf for i, leaf in enumerate(leaves) if isinstance(leaf, jax.Array)}

        def run(params: Any, state: Any, rng: Any, arrays: dict[int, Any]) -> Any:
            given = jax.tree.unflatten(structure, [arrays.get(i, leaf) for i, leaf in enumerate(leaves)])
            return _pure(self, plain, "forward")(params, state, rng, *given)

        state = self._values(Buffer)
        return _take(self, state, jax.checkpoint(run, policy=policy)(self._values(Parameter), state, rng, arrays))

    changed = copy.copy(layer)
    changed.__class__ = type(kind.__name__, (kind,), {"forward": forward, "__module__": kind.__module__})
    return changed


class Repeat(_Numbered):
    """n layers of one kind, each with its own start, run one after the other.

    ``forward(x, *args, **kwargs)`` gives each layer the output of the one before as its first argument, and the same
    further arguments.

    Args:
        layer: the description that is repeated; every layer is a deep copy of it.
        n: how many.
        scan: False: a loop; the leaves live under "0", "1", …: the fastest step. True: the leaves are stored stacked
            under "*" and run by `lax.scan`, so that compile time does not grow with n.

    Differs from torch: there, a ModuleList and a loop. state_dict reads "0.…", "1.…" in both forms, and layer i
    starts, and drops, the same in both.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from funcnet import nn
        >>> net = nn.Repeat(nn.Linear(4, 4), 3, scan=True)
        >>> params, state = net.init(jax.random.key(0))
        >>> params["*"]["weight"].shape, list(net.state_dict(params, state))[2]
        ((3, 4, 4), '1.weight')
        >>> net.unstack(params)["2"]["weight"].shape
        (4, 4)
    """

    merges_equal_rows = True

    def __init__(self, layer: Module, n: int, scan: bool = False):
        super().__init__()
        if n < 1:
            raise ValueError(f"Repeat: expected at least 1 layer, got n={n}.")
        self.n, self.scan = n, scan
        if scan:
            setattr(self, tree.STACKED, layer)
        else:
            self._set(copy.deepcopy(layer) for _ in range(n))

    def __len__(self) -> int:
        return self.n

    def forward(self, x: Any, *args: Any, **kwargs: Any) -> Any:
        has_rng = self._bound_frame("forward").call.rng is not None
        keys = jax.random.split(self.make_rng(), self.n) if has_rng else None
        if self.scan:
            return self._scan(x, args, kwargs, keys)
        for i, layer in enumerate(self):
            run = _pure(layer, layer._description())
            state = layer._values(Buffer)
            key = None if keys is None else keys[i]
            x = _take(layer, state, run(layer._values(Parameter), state, key, (x, *args), kwargs))
        return x

    def _scan(self, x: Any, args: Any, kwargs: Any, keys: Any) -> Any:
        layer = vars(self)[tree.STACKED]
        run = _pure(layer, layer._description())

        def body(x: Any, one: Any) -> Any:
            params, state, key = one
            out, state, captured = run(params, state, key, (x, *args), kwargs)
            return out, (state, captured)

        state = layer._values(Buffer)
        x, (new_state, captured) = jax.lax.scan(body, x, (layer._values(Parameter), state, keys))
        return _take(layer, state, (x, new_state, captured))
