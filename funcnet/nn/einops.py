"""Rearrange, Reduce and EinMix, as in einops/layers/torch.py.

einops is not a dependency of funcnet, so `funcnet.nn` does not import `funcnet.nn.einops`. Import it explicitly:

    from funcnet.nn.einops import EinMix, Rearrange, Reduce

The functions of einops (`rearrange`, `repeat`, `reduce`, `einsum`, `pack`, `unpack`) work on JAX arrays as they are.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from funcnet.nn import init
from funcnet.nn.core.parameter import Parameter
from funcnet.nn.module.module import Module

try:
    import einops
    import einops.layers._einmix as einmix
    from einops.layers import RearrangeMixin, ReduceMixin
except ImportError:
    raise ImportError("funcnet.nn.einops: einops is not installed. Install it with `pip install einops`.") from None

__all__ = ["EinMix", "Rearrange", "Reduce"]

_EinmixMixin: Any = einmix._EinmixMixin


class _Printed(Module):
    """Base class of layers whose `repr` shows the arguments of the constructor, as in einops."""

    def extra_repr(self) -> str:
        return repr(self).removeprefix(f"{type(self).__name__}(").removesuffix(")")


class Rearrange(RearrangeMixin, _Printed):
    """Reorders, splits and merges dimensions, like `einops.rearrange(input, pattern, **axes_lengths)`.

    Args:
        pattern: pattern of einops, such as "b c h w -> b (c h w)".
        **axes_lengths: sizes of the axes that the shape of the input does not determine.

    Call: an array with the dimensions left of `->` in the pattern -> an array with the dimensions right of it.

    Raises:
        einops.EinopsError: if the pattern is invalid, or the input does not fit the pattern.

    Example:
        >>> import jax.numpy as jnp
        >>> from funcnet.nn.einops import Rearrange
        >>> Rearrange("b c (h p) -> b h (p c)", p=2)(jnp.ones((2, 3, 8))).shape
        (2, 4, 6)

    Reference: https://einops.rocks/api/rearrange/
    """

    def forward(self, input: jax.Array) -> jax.Array:
        return einops.rearrange(input, self.pattern, **self.axes_lengths)


class Reduce(ReduceMixin, _Printed):
    """Reorders and reduces dimensions, like `einops.reduce(input, pattern, reduction, **axes_lengths)`.

    Args:
        pattern: pattern of einops, such as "b c (h h2) (w w2) -> b c h w".
        reduction: one of "min", "max", "sum", "mean", "prod", "any" and "all".
        **axes_lengths: sizes of the axes that the shape of the input does not determine.

    Call: an array with the dimensions left of `->` in the pattern -> an array with the dimensions right of it.

    Raises:
        einops.EinopsError: if the pattern is invalid, or the input does not fit the pattern.

    Example:
        >>> import jax.numpy as jnp
        >>> from funcnet.nn.einops import Reduce
        >>> Reduce("b c (h h2) -> b c h", "max", h2=2)(jnp.arange(8.0).reshape(1, 2, 4))
        Array([[[1., 3.],
                [5., 7.]]], dtype=float32)

    Reference: https://einops.rocks/api/reduce/
    """

    def forward(self, input: jax.Array) -> jax.Array:
        return einops.reduce(input, self.pattern, self.reduction, **self.axes_lengths)


class EinMix(_EinmixMixin, _Printed):
    """Multiplies the input by a learnable weight in an einsum, and adds a bias. The pattern may also split and merge
    dimensions.

    Args:
        pattern: the dimensions of the input and of the output, such as "b c (h p) -> b h d".
        weight_shape: the dimensions of the weight, such as "c p d".
        bias_shape: the dimensions of the bias, each of which is also a dimension of the output. None means no bias.
        **axes_lengths: sizes of all dimensions of the weight and the bias.

    Params: weight, with the dimensions of `weight_shape`, drawn from U(±√(3 / n)); bias, drawn from U(±√(1 / n)), with
        the output's dimensions, of size 1 if they are not in `bias_shape`. n is the number of products that are summed
        for one element of the output.
    Call: an array with the dimensions left of `->` in the pattern -> an array with the dimensions right of it.

    Raises:
        einops.EinopsError: if pattern, weight_shape and bias_shape do not fit each other, or the size of an axis is
            missing.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from funcnet.nn.einops import EinMix
        >>> layer = EinMix("b c (h p) -> b h d", "c p d", "d", c=3, p=2, d=5)
        >>> params, state = layer.init(jax.random.key(0))
        >>> params["weight"].shape, layer.apply(params, state, jnp.ones((2, 3, 8)))[0].shape
        ((3, 2, 5), (2, 4, 5))

    Reference: https://einops.rocks/3-einmix-layer/
    """

    def _create_parameters(
        self, weight_shape: Sequence[int], weight_bound: float, bias_shape: Sequence[int] | None, bias_bound: float
    ) -> None:
        self.weight = Parameter(tuple(weight_shape), init.uniform(-weight_bound, weight_bound))
        bias = None if bias_shape is None else Parameter(tuple(bias_shape), init.uniform(-bias_bound, bias_bound))
        self.register_parameter("bias", bias)

    def _create_rearrange_layers(
        self, before: str | None, before_sizes: Mapping[str, int], after: str | None, after_sizes: Mapping[str, int]
    ) -> None:
        self.pre_rearrange = None if before is None else Rearrange(before, **before_sizes)
        self.post_rearrange = None if after is None else Rearrange(after, **after_sizes)

    def forward(self, input: jax.Array) -> jax.Array:
        if self.pre_rearrange is not None:
            input = self.pre_rearrange(input)
        result = jnp.einsum(self.einsum_pattern, input, self.weight)
        if self.bias is not None:
            result = result + self.bias
        return result if self.post_rearrange is None else self.post_rearrange(result)
