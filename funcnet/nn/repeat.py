"""The module `Repeat`, which runs n layers of the same kind in sequence, in a Python loop or in a `lax.scan`.

Each layer runs as a pure function. Buffer updates, dropout keys and captured values are therefore correct inside
`lax.scan` and other JAX transformations.
"""

import copy
from collections.abc import Callable
from typing import Any

import jax

from funcnet import random, tree
from funcnet.nn.container import Numbered
from funcnet.nn.core.call import Frame, Taps
from funcnet.nn.core.module_tree import Node, children, frame_of, join, values
from funcnet.nn.core.pure_calls import pure_run, take
from funcnet.nn.module.module import Module
from funcnet.operators.varying_axes import vary_like
from funcnet.tree import PyTree

__all__ = ["Repeat"]


class Repeat(Numbered):
    """A sequence of n layers of the same kind, each with its own parameters and initial values.

    ``forward(x, *args, **kwargs)`` passes x to the first layer, and the output of each layer to the next layer. All
    layers receive the same `args` and `kwargs`.

    Args:
        layer: the description to repeat. Every layer is a deep copy of this description.
        n: number of layers.
        scan: if False, run the layers in a Python loop, and store the params and state of the layers under "0", "1", ….
            The loop gives the fastest training steps. If True, run the layers with `lax.scan`, and store the params and
            state of all layers under "*", as stacked arrays. With `lax.scan`, the compile time does not grow with n.

    Differs from torch: torch has no Repeat, and its models loop over a ModuleList instead. Both values of `scan` give
        the same initial values, the same dropout masks and the same state_dict, whose keys begin with "0.", "1.", ….

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
    repeats = True

    def __init__(self, layer: Module, n: int, scan: bool = False):
        super().__init__()
        if n < 1:
            raise ValueError(f"Repeat: expected at least 1 layer, got n={n}.")
        self.scan = scan
        if scan:
            self._length = n
            self.add_module(tree.STACKED, copy.deepcopy(layer))
        else:
            self.extend(copy.deepcopy(layer) for _ in range(n))

    @property
    def n(self) -> int:
        """Number of layers."""
        return self._length if self.scan else len(children(self))

    def __len__(self) -> int:
        return self.n

    def require_singles(self) -> None:
        """Raise ValueError if the layers are stacked (`scan=True`), because stacked layers share one description."""
        if self.scan:
            raise ValueError(
                "Repeat: the layers of a stacked Repeat share one description and cannot be selected, iterated over "
                "or changed individually. Build the Repeat with scan=False, and convert the parameters with "
                "net.unstack(params)."
            )

    def add_module(self, name: str, module: Node | None) -> None:
        if name != tree.STACKED:
            self.require_singles()
        super().add_module(name, module)

    def forward(self, x: PyTree, *args: Any, **kwargs: Any) -> Any:
        call = frame_of(self).call
        keys = None if call.rng is None else self._keys()
        if self.scan:
            return self._scan(x, args, kwargs, keys, call.taps)
        for i, layer in enumerate(self):
            params, state = values(layer)
            key = None if keys is None else keys[i]
            x = take(layer, state, pure_run(layer)(params, state, key, call.taps, (x, *args), kwargs))
        return x

    def _keys(self) -> jax.Array:
        """Return a random key for each layer, derived from the name of the layer and the number of its earlier runs.
        The key of a layer is the same if only a slice of the Repeat runs.
        """
        frame = frame_of(self)
        frame.same_trace("randomness")
        if self.scan:
            draw = next(frame_of(getattr(self, tree.STACKED)).draws)
            names = [f"{join(frame.path, str(i))}#{draw}" for i in range(self.n)]
        else:
            frames = [frame_of(layer) for layer in self]
            names = [f"{inner.path}#{next(inner.draws)}" for inner in frames]
        return random.keys_for_names(frame.call.rng, names)

    def _scan(
        self, x: PyTree, args: tuple[Any, ...], kwargs: dict[str, Any], keys: jax.Array | None, taps: Taps
    ) -> Any:
        layer = getattr(self, tree.STACKED)
        beneath = frame_of(layer).name
        taps = {key: tap for key, tap in taps.items() if f"{key[0]}.".startswith(f"{beneath}.")}

        def run(x: PyTree, one: tuple[Any, ...]) -> Any:
            params, state, key, taps = one
            return pure_run(layer)(params, state, key, taps, (x, *args), kwargs)

        def body(x: PyTree, one: tuple[Any, ...]) -> Any:
            out, state, captured = run(x, one)
            _same_form(frame_of(layer), x, out)
            return out, (state, captured)

        params, state = values(layer)
        layers = (params, state, keys, taps)
        given, _ = tree.arrays_of((args, kwargs, layers))
        if any(vary_like(a, *given) is not a for a in jax.tree.leaves(x)):  # only in a shard_map
            x = _as_it_varies(lambda x: run(x, jax.tree.map(lambda a: a[0], layers))[0], x)
        x, (new_state, captured) = jax.lax.scan(body, x, layers, self.n)
        return take(layer, state, (x, new_state, captured))


def _as_it_varies(run: Callable[[Any], Any], x: PyTree) -> Any:
    """Return `x`, marked as varying over each mesh axis over which the output of repeated runs varies. The carry of the
    `lax.scan` then has the same type in every step.
    """
    while True:
        out = jax.eval_shape(run, x)
        if _structure(out) != _structure(x):
            return x
        before, x = x, jax.tree.map(vary_like, x, out)
        if all(a is b for a, b in zip(jax.tree.leaves(before), jax.tree.leaves(x), strict=True)):
            return x


def _same_form(frame: Frame, given: PyTree, out: PyTree) -> None:
    """Raise ValueError if the output `out` of a layer differs from its input `given` in structure, shape, dtype or
    varying mesh axes. The next layer of a `lax.scan` needs an input of the same form.
    """
    pairs = zip(jax.tree.leaves(given), jax.tree.leaves(out), strict=False)
    alike = all(jax.typeof(a).weak_type or str(jax.typeof(a)) == str(jax.typeof(b)) for a, b in pairs)
    if _structure(given) != _structure(out) or not alike:
        forms = [jax.tree.map(lambda a: str(jax.typeof(a)), x) for x in (given, out)]
        raise ValueError(
            f"{frame.where()}: the output of a layer of a stacked Repeat does not fit the next layer; expected "
            f"{forms[0]}, got {forms[1]}. Make each layer keep the shape, dtype and varying mesh axes of its input, or "
            "use nn.Repeat(…, scan=False)."
        )


def _structure(values: PyTree) -> Any:
    return jax.tree.structure(values)
