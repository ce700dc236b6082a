"""Dropout and its variants, as in torch/nn/modules/dropout.py.

In training, a dropout layer draws a fresh key from the `rng` of `apply`. In eval, a dropout layer returns its input and
needs no `rng`. Inside `jit` or `vmap`, a net may be made with a traced probability, for example to train with several
rates at once.
Letters: `B batch, C channels, L length, D depth, H height, W width`. (*) means any shape.
"""

from collections.abc import Callable

import jax

from funcnet import functional as F
from funcnet.functional import checks
from funcnet.nn.module.module import Module
from funcnet.random import Rate

__all__ = ["AlphaDropout", "Dropout", "Dropout1d", "Dropout2d", "Dropout3d", "FeatureAlphaDropout"]


class _Dropout(Module):
    def __init__(self, p: Rate = 0.5, inplace: bool = False):
        super().__init__()
        self.p, self.inplace = checks.probability(type(self).__name__, "p", p), inplace

    def _drop(self, drop: Callable[..., jax.Array], input: jax.Array) -> jax.Array:
        # The numbers 0 and 1 are not random, so they need no key.
        rng = self.make_rng() if self.training and checks.draws(self.p) else None
        return drop(input, self.p, self.training, rng=rng)

    def extra_repr(self) -> str:
        return f"p={self.p}, inplace={self.inplace}"


class Dropout(_Dropout):
    """In training, zeroes each element with probability p and divides the others by 1 - p.

    Args:
        p: probability of zeroing an element, in [0, 1].
        inplace: accepted for compatibility with torch but without effect, because arrays never change in place.

    Call: (*) -> (*).

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from funcnet import nn
        >>> layer = nn.Dropout(0.5)
        >>> y, _ = layer.apply({}, {}, jnp.ones(1000), training=True, rng=jax.random.key(0))
        >>> sorted(set(y.tolist()))
        [0.0, 2.0]

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.Dropout.html
    """

    def forward(self, input: jax.Array) -> jax.Array:
        return self._drop(F.dropout, input)


class Dropout1d(_Dropout):
    """In training, zeroes each channel of (B, C, L) or (C, L) with probability p and divides the others by 1 - p.

    Args:
        p: probability of zeroing a channel, in [0, 1].
        inplace: accepted for compatibility with torch but without effect, because arrays never change in place.

    Call: (B, C, L) -> (B, C, L), or (C, L) -> (C, L).

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from funcnet import nn
        >>> nn.Dropout1d(0.5).apply({}, {}, jnp.ones((2, 3, 4)), training=True, rng=jax.random.key(0))[0].shape
        (2, 3, 4)

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.Dropout1d.html
    """

    def forward(self, input: jax.Array) -> jax.Array:
        return self._drop(F.dropout1d, input)


class Dropout2d(_Dropout):
    """In training, zeroes each channel of (B, C, H, W) with probability p and divides the others by 1 - p.

    Args:
        p: probability of zeroing a channel, in [0, 1].
        inplace: accepted for compatibility with torch but without effect, because arrays never change in place.

    Call: (B, C, H, W) -> (B, C, H, W). As in torch, a 3D input is taken as (B, C, L), not as (C, H, W).

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from funcnet import nn
        >>> nn.Dropout2d(0.5).apply({}, {}, jnp.ones((2, 3, 4, 4)), training=True, rng=jax.random.key(0))[0].shape
        (2, 3, 4, 4)

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.Dropout2d.html
    """

    def forward(self, input: jax.Array) -> jax.Array:
        return self._drop(F.dropout2d, input)


class Dropout3d(_Dropout):
    """In training, zeroes each channel of (B, C, D, H, W) with probability p and divides the others by 1 - p.

    Args:
        p: probability of zeroing a channel, in [0, 1].
        inplace: accepted for compatibility with torch but without effect, because arrays never change in place.

    Call: (B, C, D, H, W) or (C, D, H, W) -> the same shape.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from funcnet import nn
        >>> nn.Dropout3d(0.5).apply({}, {}, jnp.ones((2, 3, 4, 4, 4)), training=True, rng=jax.random.key(0))[0].shape
        (2, 3, 4, 4, 4)

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.Dropout3d.html
    """

    def forward(self, input: jax.Array) -> jax.Array:
        return self._drop(F.dropout3d, input)


class AlphaDropout(_Dropout):
    """Dropout for networks with SELU. Dropped elements are set to the lower limit of SELU, -1.758. An affine map of all
    elements then restores the mean 0 and the variance 1.

    Args:
        p: probability of dropping an element, in [0, 1].
        inplace: accepted for compatibility with torch but without effect, because arrays never change in place.

    Call: (*) -> (*).

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from funcnet import nn
        >>> x = jax.random.normal(jax.random.key(0), (4000,))
        >>> y, _ = nn.AlphaDropout(0.2).apply({}, {}, x, training=True, rng=jax.random.key(1))
        >>> bool(abs(y.std() - 1) < 0.1)
        True

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.AlphaDropout.html
    """

    def forward(self, input: jax.Array) -> jax.Array:
        return self._drop(F.alpha_dropout, input)


class FeatureAlphaDropout(_Dropout):
    """Drops entire channels in the way in which `AlphaDropout` drops elements. The channels are dimension 1 of the
    input (B, C, *).

    Args:
        p: probability of dropping a channel, in [0, 1].
        inplace: accepted for compatibility with torch but without effect, because arrays never change in place.

    Call: (B, C, *) -> (B, C, *).

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from funcnet import nn
        >>> layer = nn.FeatureAlphaDropout(0.5)
        >>> layer.apply({}, {}, jnp.ones((2, 3, 4)), training=True, rng=jax.random.key(0))[0].shape
        (2, 3, 4)

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.FeatureAlphaDropout.html
    """

    def forward(self, input: jax.Array) -> jax.Array:
        return self._drop(F.feature_alpha_dropout, input)
