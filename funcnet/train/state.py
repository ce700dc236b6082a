"""The train state: all arrays that a training step takes and returns, in one pytree."""

from typing import Any

import flax.struct
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.typing import ArrayLike

from funcnet import tree
from funcnet.arguments import mapping, number, patterns, transformation
from funcnet.optim import swa_utils
from funcnet.train.storable import storable_leaves
from funcnet.tree import PyTree

__all__ = ["TrainState", "create", "storable_start"]


@flax.struct.dataclass
class TrainState:
    """All arrays that a training step takes and returns. Functions and settings are not part of the state.

    Attributes:
        params: nested dict of the parameters, trainable and frozen.
        state: nested dict of the model's buffers.
        opt_state: state of the optimizer, for the trainable parameters only.
        step: int32 scalar, the number of steps made, including the skipped ones.
        skipped: int32 scalar, the number of steps that were skipped because the loss or the gradient was not finite.
        ema: `swa_utils.AveragedModel` with the exponential moving average of the weights, or None.
        extra: the user's own values, any pytree of arrays, or None. See `make_step`.
    """

    params: Any
    state: Any
    opt_state: Any
    step: jax.Array
    ema: Any = None
    extra: Any = None
    skipped: Any = 0


def create(
    params: tree.Tree,
    state: tree.Tree,
    optimizer: optax.GradientTransformation,
    *,
    trainable: tree.Patterns = "**",
    ema: float | None = None,
    extra: PyTree = None,
) -> TrainState:
    """Return the train state before the first step.

    Args:
        params: parameters from `Module.init`.
        state: buffers from `Module.init`.
        optimizer: any optax transformation.
        trainable: patterns for the names of the trainable parameters. Pass the same patterns to `make_step`. The
            optimizer has no state for parameters that no pattern matches.
        ema: decay rate of the moving average of the weights, such as 0.999. None keeps no average.
        extra: initial values of `TrainState.extra`.

    Returns:
        A `TrainState` with `step` 0.

    Raises:
        TypeError: if an argument has the wrong type, or a leaf is neither an array nor a number, so that a checkpoint
            cannot store it.
        ValueError: if a pattern matches no parameter, `ema` is not in [0, 1], two leaves have the same name, or an
            integer does not fit the dtype that JAX uses.

    Example:
        >>> made = create({"fc": {"weight": jnp.ones(2)}}, {}, optax.sgd(0.1))
        >>> made.step
        Array(0, dtype=int32)
    """
    where = "train.create"
    mapping(where, "params", params, "a nested dict of arrays, as net.init returns it")
    mapping(where, "state", state, "a nested dict of arrays, as net.init returns it")
    transformation(where, "optimizer", optimizer)
    patterns(where, "trainable", trainable)
    if ema is not None:
        number(where, "ema", ema, 0, 1)
    params, state, own = storable_start(params, state, extra)
    chosen, _ = tree.partition(params, trainable, where=f"{where}: trainable")
    average = None if ema is None else swa_utils.AveragedModel.create(params, state, swa_utils.get_ema_avg_fn(ema))
    opt_state = {"opt_state": optimizer.init(chosen)}
    storable_leaves(opt_state, where)
    zero = jnp.zeros((), jnp.int32)
    return TrainState(params, state, _as_on_device(opt_state)["opt_state"], zero, average, own, zero)


def storable_start(params: tree.Tree, state: tree.Tree, extra: PyTree = None) -> tuple[tree.Tree, tree.Tree, Any]:
    """Return (params, state, extra) with the dtypes that the leaves have on a device. Numpy arrays in params and state
    stay on the host.

    Raises:
        TypeError, ValueError: if a checkpoint cannot store the leaves; see `create`.

    Example:
        >>> storable_start({"w": np.ones(2, np.float32)}, {})[0]["w"]
        array([1., 1.], dtype=float32)
    """
    given = {"params": params, "state": state} | ({} if extra is None else {"extra": extra})
    storable_leaves(given, "train.create")
    given = _as_on_device(given)
    return given["params"], given["state"], jax.tree.map(jnp.asarray, given.get("extra"))


def _as_on_device(given: PyTree) -> Any:
    """Return a tree whose leaves have the dtypes that they have on a device, and that a checkpoint therefore restores.

    Numpy arrays stay on the host. The weak type of a Python number is dropped. A checkpoint cannot store it, so a
    resumed run would compute in another dtype.
    """

    def one(path: tuple[Any, ...], leaf: ArrayLike) -> Any:
        if isinstance(leaf, jax.Array):
            return jnp.asarray(leaf, leaf.dtype) if getattr(leaf, "weak_type", False) else leaf
        array = np.asarray(leaf)
        dtype = array.dtype.newbyteorder("=")  # JAX has only this byte order
        narrow = array.astype(jax.dtypes.canonicalize_dtype(dtype), copy=False)
        changed = narrow != array if narrow.dtype != array.dtype and np.issubdtype(array.dtype, np.integer) else []
        if np.any(changed):
            name = jax.tree_util.keystr(path, simple=True, separator=".")
            raise ValueError(
                f"train.create: {name!r} has a number that is too large; expected integers that fit {narrow.dtype}, "
                f"got {array[changed].flat[0]}. Enable x64: jax.config.update('jax_enable_x64', True)."
            )
        return narrow

    leaves, structure = jax.tree_util.tree_flatten_with_path(given)
    new = [one(path, leaf) for path, leaf in leaves]
    is_same = all(leaf is before for leaf, (_, before) in zip(new, leaves, strict=True))
    return given if is_same else jax.tree.unflatten(structure, new)  # which would sort the keys of dicts
