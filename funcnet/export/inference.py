"""The inference of a module as a pure function of arrays, which every form of export takes."""

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from funcnet import tree
from funcnet.tree import Params, PyTree, State

if TYPE_CHECKING:
    from funcnet import nn

__all__ = ["inference_of"]


def inference_of(
    net: "nn.Module", params: Params, state: State, *, method: str | None = None, **settings: Any
) -> Callable[..., Any]:
    """Return the inference of a module as a function that closes over the module's weights and buffers.

    Args:
        net: the module.
        params, state: parameters and buffers of the module.
        method: method that is called instead of `forward`.
        **settings: keyword arguments for every call, such as `output_hidden_states=True`. The values of these arguments
            must not be arrays.

    Returns:
        A function that takes the positional arguments of `forward` and returns the output of `forward`. The function
        raises ValueError if the module needs a random key, or changes a buffer, because an exported function cannot
        keep the new value.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from funcnet import nn
        >>> net = nn.Sequential(nn.Linear(3, 2), nn.Dropout(0.1))
        >>> run = inference_of(net, *net.init(jax.random.key(0)))
        >>> run(jnp.ones((4, 3))).shape
        (4, 2)
    """

    def run(*inputs: PyTree) -> Any:
        out, new = net.apply(params, state, *inputs, training=False, method=method, **settings)
        if new is not state:
            after = tree.flatten(new)
            changed = [name for name, value in tree.flatten(state).items() if after[name] is not value]
            if changed:
                layer, _, buffer = changed[0].rpartition(".")
                raise ValueError(
                    f"export: {layer or type(net).__name__} updates its buffer {buffer!r} at inference; expected a "
                    f"module that keeps its buffers, got {len(changed)} changed ones ({', '.join(changed[:8])}). "
                    "Update them in training only: if self.training."
                )
        return out

    # the names of the exported inputs are those of the parameters of `forward`
    run.__signature__ = inspect.signature(getattr(net, method or "forward"))  # type: ignore[attr-defined]
    return run
