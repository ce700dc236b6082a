"""Keras's `Sequential`."""

import itertools
import re
from collections.abc import Iterable, Sequence
from typing import Any

import jax
import optax

from funcnet import nn
from funcnet.sklearn.keras.constraints import limited, penalised
from funcnet.sklearn.keras.layers import Dense, Layer, Shape
from funcnet.sklearn.keras.optimizers import optimizer_of

__all__ = ["Sequential"]


class Sequential:
    """A list of layers. The net is made when the shape of the data is known.

    Args:
        layers: the layers.
        name: not used.

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
        self, optimizer: Any = "rmsprop", loss: Any = None, metrics: Sequence[Any] | None = None, **_: Any
    ) -> None:
        """Set the optimizer and the loss.

        Args:
            optimizer: name of an optimizer, an optimizer of `funcnet.sklearn.keras` or its class, or an optax
                transformation.
            loss: name of a loss, or a function `loss(y_true, y_pred)`.
            metrics: not used: scikit-learn's `scoring` measures.
        """
        self.optimizer, self.loss = optimizer, loss

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
        penalties = {(name, one): penalty for name, layer in named for one, penalty in layer.penalties().items()}
        limits = {(name, one): limit for name, layer in named for one, limit in layer.limits().items()}
        parts = [optimizer_of(self.optimizer)]
        parts = [penalised(penalties), *parts] if penalties else parts
        return optax.chain(*parts, limited(limits)) if limits else optax.chain(*parts)

    def _named(self) -> Iterable[tuple[str, Layer]]:
        """Yield the layers with Keras's names: dense, dense_1, dropout, …"""
        taken: set[str] = set()
        for layer in self.layers:
            name = layer.name or re.sub(r"(?<!^)(?=[A-Z])", "_", type(layer).__name__).lower()
            free = (
                one for one in itertools.chain([name], (f"{name}_{i}" for i in itertools.count(1))) if one not in taken
            )
            taken.add(chosen := next(free))
            yield chosen, layer

    def _modules(self, shape: Shape) -> Iterable[tuple[str, nn.Module]]:
        for place, (name, layer) in enumerate(self._named()):
            if place == 0 and layer.expected() not in (None, tuple(shape)):
                raise ValueError(
                    f"{type(layer).__name__}: the shape of the data differs; expected rows of shape "
                    f"{layer.expected()}, got {tuple(shape)}."
                )
            module = layer.module(shape)
            if module is not None:
                yield name, module
            shape = layer.shape(shape)


class _Chain(nn.Module):
    def __init__(self, modules: dict[str, nn.Module]):
        super().__init__()
        for name, module in modules.items():
            self.add_module(name, module)

    def forward(self, x: jax.Array) -> jax.Array:
        for layer in self.children():
            x = layer(x)
        return x
