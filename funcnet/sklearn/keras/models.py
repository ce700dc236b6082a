"""Keras's `Sequential`."""

import collections
from collections.abc import Callable, Iterable
from typing import Any

import jax
import optax

from funcnet import nn
from funcnet.sklearn.keras.constraints import constrained, regularized
from funcnet.sklearn.keras.layers import Dense, Layer, MaskedLayer, Shape, snake_case
from funcnet.sklearn.keras.optimizers import optimizer_of

__all__ = ["Sequential"]


class Sequential:
    """A list of layers. The net is made when the shape of the data is known.

    Args:
        layers: the layers.
        name: ignored.

    Example:
        >>> model = Sequential([Dense(12, activation="relu"), Dense(1, activation="sigmoid")])
        >>> model.compile(loss="binary_crossentropy", optimizer="adam")
        >>> params, state = model.net((8,)).init(jax.random.key(0))
        >>> params["dense_1"]["kernel"].shape
        (12, 1)

    Reference: keras.Sequential.
    """

    def __init__(self, layers: Iterable[Layer] | None = None, name: str | None = None):
        self.layers: list[Layer] = []
        self.optimizer: Any = None
        self.loss: Any = None
        for layer in layers or ():
            self.add(layer)

    def add(self, layer: Layer) -> None:
        """Add a layer at the end.

        Raises:
            TypeError: if it is not one of the layers of `funcnet.sklearn.keras`.
        """
        if not isinstance(layer, Layer):
            raise TypeError(
                "Sequential: cannot use this layer; expected a layer of funcnet.sklearn.keras, got "
                f"{type(layer).__module__}.{type(layer).__name__}. For any other net, use Classifier or Regressor."
            )
        self.layers.append(layer)

    def compile(
        self,
        optimizer: Any = "rmsprop",
        loss: str | Callable[..., Any] | None = None,
        metrics: Any = None,
        *,
        weighted_metrics: Any = None,
        run_eagerly: bool = False,
        steps_per_execution: int = 1,
        jit_compile: bool | str = "auto",
    ) -> None:
        """Set the optimizer and the loss.

        Args:
            optimizer: name of an optimizer, an optimizer of `funcnet.sklearn.keras` or its class, or an optax
                transformation.
            loss: name of a loss, or a function `loss(y_true, y_pred)`.
            metrics, weighted_metrics: ignored: use scikit-learn's `scoring`.
            run_eagerly, steps_per_execution, jit_compile: ignored: an epoch is one compiled program.
        """
        self.optimizer, self.loss = optimizer, loss

    def summary(self) -> None:
        """Print the names and kinds of the layers.

        Example:
            >>> Sequential([Dense(12), Dense(1)]).summary()
            dense: Dense
            dense_1: Dense
        """
        for name, layer in self._named():
            print(f"{name}: {type(layer).__name__}")

    def net(self, shape: Shape) -> nn.Module:
        """Return the net for rows of a shape.

        Args:
            shape: shape of a row, without the batch.

        Raises:
            ValueError: if a layer expects another shape.
        """
        return _Chain(dict(self._modules(shape)))

    def transformation(self) -> optax.GradientTransformation:
        """Return the optimizer, with the penalties and the limits of the layers.

        Raises:
            ValueError: if the optimizer is unknown.
        """
        named = [(name, layer) for name, layer in self._named() if isinstance(layer, Dense)]
        regularizers = {(name, one): found for name, layer in named for one, found in layer.regularizers().items()}
        constraints = {(name, one): found for name, layer in named for one, found in layer.constraints().items()}
        parts = [optimizer_of(self.optimizer)]
        parts = [regularized(regularizers), *parts] if regularizers else parts
        return optax.chain(*parts, constrained(constraints)) if constraints else optax.chain(*parts)

    def _named(self) -> Iterable[tuple[str, Layer]]:
        """Yield the layers with Keras's names: dense, dense_1, dropout, …

        Raises:
            ValueError: if two layers have the same name.
        """
        counts: collections.Counter[str] = collections.Counter()
        taken: set[str] = set()
        for layer in self.layers:
            kind = snake_case(type(layer).__name__)
            name = layer.name or (f"{kind}_{counts[kind]}" if counts[kind] else kind)
            counts[kind] += not layer.name
            if name in taken:
                raise ValueError(f"Sequential: two layers have the same name; expected different names, got {name!r}.")
            taken.add(name)
            yield name, layer

    def _modules(self, shape: Shape) -> Iterable[tuple[str, nn.Module]]:
        for name, layer in self._named():
            expected = layer.expected()
            if expected is not None and (
                len(expected) != len(shape)
                or any(one not in (None, size) for one, size in zip(expected, shape, strict=True))
            ):
                raise ValueError(
                    f"{type(layer).__name__}: the rows have the wrong shape; expected {expected}, as the layer "
                    f"{name!r} declares, got {tuple(shape)}."
                )
            module = layer.module(shape)
            if module is not None:
                yield name, module
            shape = layer.shape(shape)


class _Chain(nn.Module):
    """The layers one after the other.

    Args:
        modules: the layers by name.

    Call: (B, …) -> (B, …). `mask` (B,) marks the rows that count for BatchNorm.
    """

    def __init__(self, modules: dict[str, nn.Module]):
        super().__init__()
        for name, module in modules.items():
            self.add_module(name, module)

    def forward(self, x: jax.Array, mask: jax.Array | None = None) -> jax.Array:
        for layer in self.children():
            x = layer(x, mask) if isinstance(layer, MaskedLayer) else layer(x)
        return x
