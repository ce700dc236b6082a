"""The train state before the first step, of which each device computes and stores only its own part."""

import dataclasses
import functools
from typing import Any

import jax

from funcnet.parallel import Layout, ShardedInit
from funcnet.train.state import TrainState, create, storable_start
from funcnet.train.task_interface import Task
from funcnet.tree import Params, PyTree, State

__all__ = ["Start"]


class Start:
    """Makes the train state of a task before its first step. All seeds share the compiled programs.

    If the net starts from random values (`Task.initializer`), each device draws only its part; see
    `parallel.ShardedInit`. Otherwise, the initial values of the task are sharded leaf by leaf. The state of the
    optimizer and the moving average are computed by a second program, so that they need no memory while the first one
    draws the parameters.

    Args:
        task: the task.
        layout: the layout of the run, with the rules of the task's net.

    Example:
        >>> import optax
        >>> from funcnet import nn, parallel
        >>> task = Task()
        >>> task.net, task.optimizer = nn.Linear(64, 1024), optax.adam(1e-3)
        >>> start = Start(task, parallel.make_layout("fsdp=8").for_net(task.net))
        >>> start(0).opt_state[0].mu["weight"].addressable_shards[0].data.shape
        (1024, 8)
        >>> start.shapes(0).params["weight"].shape
        (1024, 64)
    """

    def __init__(self, task: Task, layout: Layout):
        self.task, self.layout = task, layout
        self._completing: Any = None

    def __call__(self, seed: int) -> TrainState:
        """Return the train state before step 0, placed on the devices.

        Args:
            seed: the seed of the training.

        Raises:
            TypeError, ValueError: see `create`.
        """
        params, buffers = self.task.init(seed) if self._draw is None else self._draw(jax.random.key(seed))
        params, buffers, extra = storable_start(params, buffers, self.task.extra(seed))
        model = [params, buffers]
        del params, buffers  # their memory is free when the model has been placed
        try:
            shapes = self._shapes(model, extra)
        except jax.errors.JAXTypeError:  # the optimizer reads the values of the parameters
            return self.layout.place(self._create(model, extra))
        shardings = self.layout.shardings(shapes)
        if self._draw is None:
            model = self.layout.place(model, [shardings.params, shardings.state])
        state: TrainState = self._complete(shardings)(model)
        return dataclasses.replace(state, extra=self.layout.place(extra, shardings.extra))

    def shapes(self, seed: int) -> TrainState:
        """Return the train state with `jax.ShapeDtypeStruct`s as leaves. If each device draws its part of the net,
        nothing is computed.

        Args:
            seed: the seed of the training.
        """
        draw, key = self._draw, jax.random.key(seed)
        model = self.task.init(seed) if draw is None else jax.eval_shape(draw.init, key)
        try:
            return self._shapes(model, self.task.extra(seed))
        except jax.errors.JAXTypeError:
            state = self(seed)
            return jax.eval_shape(lambda: state)

    def lower(self, seed: int) -> list[jax.stages.Lowered]:
        """Return the programs that a call runs, in their order. `memory_analysis()` of a compiled program tells the
        memory that a device needs.

        Args:
            seed: the seed of the training.
        """
        shapes = self.shapes(seed)
        shardings = self.layout.shardings(shapes)
        placed = lambda leaf, sharding: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=sharding)
        model = [jax.tree.map(placed, getattr(shapes, name), getattr(shardings, name)) for name in ("params", "state")]
        draw = [] if self._draw is None else self._draw.lower(jax.random.key(seed))
        return [*draw, self._complete(shardings).lower(model)]

    @functools.cached_property
    def _draw(self) -> ShardedInit | None:
        initializer = self.task.initializer()
        return None if initializer is None else ShardedInit(initializer, self.layout)

    def _complete(self, shardings: TrainState) -> Any:
        """Return the compiled function that computes a train state without `extra` from [params, state]."""
        if self._completing is None:
            out = dataclasses.replace(shardings, extra=None)
            self._completing = jax.jit(self._create, out_shardings=out, donate_argnums=0)
        return self._completing

    def _shapes(self, model: tuple[Params, State] | list[Any], extra: PyTree) -> TrainState:
        return jax.eval_shape(lambda model: self._create(model, extra), list(model))

    def _create(self, model: tuple[Params, State] | list[Any], extra: PyTree = None) -> TrainState:
        task = self.task
        params, buffers = model
        return create(params, buffers, task.optimizer, trainable=task.trainable, ema=task.ema, extra=extra)
