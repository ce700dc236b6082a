"""Identity, Linear, Bilinear and LazyLinear, as in torch/nn/modules/linear.py."""

import math
from typing import Any

import jax
from jax.typing import DTypeLike

from funcnet import functional as F
from funcnet.nn import init
from funcnet.nn.core import abstract_run
from funcnet.nn.core.parameter import Parameter
from funcnet.nn.module.module import Module
from funcnet.nn.module.sharding import rules

__all__ = ["Bilinear", "Identity", "LazyLinear", "Linear"]


class Identity(Module):
    """Returns its input. The constructor of Identity ignores all its arguments.

    Example:
        >>> from funcnet import nn
        >>> nn.Identity(54, unused=True)
        Identity()

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.Identity.html
    """

    def __init__(self, *args: object, **kwargs: object):
        super().__init__()

    def forward(self, input: jax.Array) -> jax.Array:
        return input


class Linear(Module):
    """Applies the affine map `y = x Wᵀ + b`.

    Args:
        in_features: size of the input's last dimension.
        out_features: size of the output's last dimension.
        bias: if True, add the learnable bias b.
        dtype: dtype of the params; float32 by default.

    Params: weight (out_features, in_features) and bias (out_features,), both drawn from U(±1/√in_features).
    Call: (…, in_features) -> (…, out_features).

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from funcnet import nn
        >>> layer = nn.Linear(3, 5)
        >>> params, state = layer.init(jax.random.key(0))
        >>> layer.apply(params, state, jnp.ones((2, 3)))[0].shape
        (2, 5)

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.Linear.html
    """

    sharding_rules = rules({"weight": ("tensor", "fsdp"), "bias": ("tensor",)})
    weight: Any
    bias: Any

    def __init__(self, in_features: int, out_features: int, bias: bool = True, *, dtype: DTypeLike | None = None):
        super().__init__()
        self.in_features, self.out_features = in_features, out_features
        self.weight = Parameter((out_features, in_features), dtype=dtype)
        self.register_parameter("bias", Parameter(out_features, dtype=dtype) if bias else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            bound = 1 / math.sqrt(self.in_features) if self.in_features > 0 else 0.0
            init.uniform_(self.bias, -bound, bound)

    def forward(self, input: jax.Array) -> jax.Array:
        return F.linear(input, self.weight, self.bias)

    def extra_repr(self) -> str:
        return f"in_features={self.in_features}, out_features={self.out_features}, bias={self.bias is not None}"


class Bilinear(Module):
    """Applies `y_o = x1ᵀ A_o x2 + b_o` for each output feature o.

    Args:
        in1_features: size of the first input's last dimension.
        in2_features: size of the second input's last dimension.
        out_features: size of the output's last dimension.
        bias: if True, add the learnable bias b.
        dtype: dtype of the params; float32 by default.

    Params: weight (out_features, in1_features, in2_features) and bias (out_features,), both drawn from
        U(±1/√in1_features).
    Call: (…, in1_features) and (…, in2_features) -> (…, out_features).

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from funcnet import nn
        >>> layer = nn.Bilinear(3, 4, 5)
        >>> params, state = layer.init(jax.random.key(0))
        >>> layer.apply(params, state, jnp.ones((2, 3)), jnp.ones((2, 4)))[0].shape
        (2, 5)

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.Bilinear.html
    """

    weight: Any
    bias: Any

    def __init__(
        self,
        in1_features: int,
        in2_features: int,
        out_features: int,
        bias: bool = True,
        *,
        dtype: DTypeLike | None = None,
    ):
        super().__init__()
        if in1_features <= 0:
            raise ValueError(f"Bilinear: in1_features must be > 0, got {in1_features}.")
        self.in1_features, self.in2_features, self.out_features = in1_features, in2_features, out_features
        self.weight = Parameter((out_features, in1_features, in2_features), dtype=dtype)
        self.register_parameter("bias", Parameter(out_features, dtype=dtype) if bias else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        bound = 1 / math.sqrt(self.in1_features)
        init.uniform_(self.weight, -bound, bound)
        if self.bias is not None:
            init.uniform_(self.bias, -bound, bound)

    def forward(self, input1: jax.Array, input2: jax.Array) -> jax.Array:
        return F.bilinear(input1, input2, self.weight, self.bias)

    def extra_repr(self) -> str:
        return (
            f"in1_features={self.in1_features}, in2_features={self.in2_features}, "
            f"out_features={self.out_features}, bias={self.bias is not None}"
        )


class LazyLinear(Linear):
    """A Linear that infers in_features from the last dimension of the example input given to `init`.

    Args:
        out_features: size of the output's last dimension.
        bias: if True, add the learnable bias b.
        dtype: dtype of the params; float32 by default.

    Params: as in `Linear`, with shapes that `init(rng, *example_inputs)` infers from an example input.
    Call: (…, in_features) -> (…, out_features).

    Differs from torch: the layer stays a LazyLinear, because running a description does not change it.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from funcnet import nn
        >>> layer = nn.LazyLinear(5)
        >>> params, state = layer.init(jax.random.key(0), jnp.ones((2, 3)))
        >>> params["weight"].shape
        (5, 3)

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.LazyLinear.html
    """

    def __init__(self, out_features: int, bias: bool = True, *, dtype: DTypeLike | None = None):
        super().__init__(0, out_features, bias, dtype=dtype)
        self.weight = Parameter(None, self.weight.init, dtype=dtype)
        if bias:
            self.bias = Parameter(None, abstract_run.init_bias, dtype=dtype)

    def lazy_shapes(self, input: jax.Array) -> dict[str, tuple[int, ...]]:
        fan_in = input.shape[-1]
        return {
            "weight": (self.out_features, fan_in),
            "bias": abstract_run.BiasShape((self.out_features,), fan_in),
        }
