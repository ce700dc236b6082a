"""Losses of numbers against numbers, and of distributions against samples."""

import jax

from funcnet import functional as F
from funcnet.nn.loss_base import Loss

__all__ = ["GaussianNLLLoss", "HuberLoss", "KLDivLoss", "L1Loss", "MSELoss", "PoissonNLLLoss", "SmoothL1Loss"]


class L1Loss(Loss):
    """|input - target|.

    Args:
        size_average, reduce: see the head of loss.py.
        reduction: 'mean' divides by the number of elements.

    Call: (*) and (*) -> (), or (*) with 'none'.

    Example:
        >>> import jax.numpy as jnp
        >>> from funcnet import nn
        >>> nn.L1Loss().apply({}, {}, jnp.array([1.0, 3.0]), jnp.array([1.0, 1.0]))[0]
        Array(1., dtype=float32)

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.L1Loss.html
    """

    def forward(self, input: jax.Array, target: jax.Array) -> jax.Array:
        return F.l1_loss(input, target, reduction=self.reduction)


class MSELoss(Loss):
    """(input - target)².

    Args:
        size_average, reduce: see the head of loss.py.
        reduction: 'mean' divides by the number of elements.

    Call: (*) and (*) -> (), or (*) with 'none'.

    Example:
        >>> import jax.numpy as jnp
        >>> from funcnet import nn
        >>> nn.MSELoss().apply({}, {}, jnp.array([1.0, 3.0]), jnp.array([1.0, 1.0]))[0]
        Array(2., dtype=float32)

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.MSELoss.html
    """

    def forward(self, input: jax.Array, target: jax.Array) -> jax.Array:
        return F.mse_loss(input, target, reduction=self.reduction)


class SmoothL1Loss(Loss):
    """(input - target)² / 2β where they differ by less than β, else |input - target| - β/2.

    Args:
        size_average, reduce: see the head of loss.py.
        reduction: 'mean', 'sum' or 'none'.
        beta: β, at least 0; 0 is `L1Loss`.

    Call: (*) and (*) -> (), or (*) with 'none'.

    Example:
        >>> import jax.numpy as jnp
        >>> from funcnet import nn
        >>> nn.SmoothL1Loss().apply({}, {}, jnp.array([1.0, 4.0]), jnp.array([1.0, 1.0]))[0]
        Array(1.25, dtype=float32)

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.SmoothL1Loss.html
    """

    def __init__(
        self,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
        beta: float = 1.0,
    ):
        super().__init__(size_average, reduce, reduction)
        self.beta = beta

    def forward(self, input: jax.Array, target: jax.Array) -> jax.Array:
        return F.smooth_l1_loss(input, target, beta=self.beta, reduction=self.reduction)


class HuberLoss(Loss):
    """(input - target)² / 2 where they differ by at most δ, else δ (|input - target| - δ/2).

    Args:
        reduction: 'mean', 'sum' or 'none'.
        delta: δ, positive.

    Call: (*) and (*) -> (), or (*) with 'none'.

    Example:
        >>> import jax.numpy as jnp
        >>> from funcnet import nn
        >>> nn.HuberLoss(delta=2.0).apply({}, {}, jnp.array([1.0, 4.0]), jnp.array([1.0, 1.0]))[0]
        Array(2., dtype=float32)

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.HuberLoss.html
    """

    def __init__(self, reduction: str = "mean", delta: float = 1.0):
        if not isinstance(delta, float | int):
            raise TypeError(f"HuberLoss: delta is not a number; expected float or int, got {type(delta).__name__}.")
        super().__init__(reduction=reduction)
        self.delta = delta

    def forward(self, input: jax.Array, target: jax.Array) -> jax.Array:
        return F.huber_loss(input, target, delta=self.delta, reduction=self.reduction)


class KLDivLoss(Loss):
    """target · (log target - input), the terms of the Kullback-Leibler divergence; the input holds log-probabilities.

    Args:
        size_average, reduce: see the head of loss.py.
        reduction: 'batchmean' (the divergence), 'mean' (over all elements, with a warning), 'sum' or 'none'.
        log_target: whether the target holds log-probabilities too.

    Call: (*) and (*) -> (), or (*) with 'none'.

    Example:
        >>> import jax.numpy as jnp
        >>> from funcnet import nn
        >>> loss = nn.KLDivLoss(reduction="batchmean")
        >>> loss.apply({}, {}, jnp.log(jnp.array([[0.5, 0.5]])), jnp.array([[1.0, 0.0]]))[0].round(3)
        Array(0.693, dtype=float32)

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.KLDivLoss.html
    """

    def __init__(
        self,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
        log_target: bool = False,
    ):
        batchmean = reduction == "batchmean" and size_average is None and reduce is None
        super().__init__(size_average, reduce, "sum" if batchmean else reduction)
        self.reduction = "batchmean" if batchmean else self.reduction
        self.log_target = log_target

    def forward(self, input: jax.Array, target: jax.Array) -> jax.Array:
        return F.kl_div(input, target, log_target=self.log_target, reduction=self.reduction)


class PoissonNLLLoss(Loss):
    """exp(input) - target · input: -log of a Poisson distribution at the target, without its constant.

    Args:
        log_input: whether the input holds logarithms of rates; else the loss is input - target · log(input + eps).
        full: adds Stirling's approximation of the constant.
        size_average: see the head of loss.py.
        eps: keeps log(input) finite at 0.
        reduce: see the head of loss.py.
        reduction: 'mean', 'sum' or 'none'.

    Call: (*) and (*) -> (), or (*) with 'none'.

    Example:
        >>> import jax.numpy as jnp
        >>> from funcnet import nn
        >>> nn.PoissonNLLLoss().apply({}, {}, jnp.zeros(2), jnp.array([1, 4]))[0]
        Array(1., dtype=float32)

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.PoissonNLLLoss.html
    """

    def __init__(
        self,
        log_input: bool = True,
        full: bool = False,
        size_average: bool | None = None,
        eps: float = 1e-8,
        reduce: bool | None = None,
        reduction: str = "mean",
    ):
        super().__init__(size_average, reduce, reduction)
        self.log_input, self.full, self.eps = log_input, full, eps

    def forward(self, log_input: jax.Array, target: jax.Array) -> jax.Array:
        return F.poisson_nll_loss(
            log_input, target, log_input=self.log_input, full=self.full, eps=self.eps, reduction=self.reduction
        )


class GaussianNLLLoss(Loss):
    """(log var + (input - target)² / var) / 2: -log of a normal distribution at the target, without its constant.

    Args:
        full: adds the constant.
        eps: the least variance.
        reduction: 'mean', 'sum' or 'none'.

    Call: (*, D), (*, D) and variances (*, D), (*, 1), (*) or a number -> (), or (*, D) with 'none'.

    Example:
        >>> import jax.numpy as jnp
        >>> from funcnet import nn
        >>> nn.GaussianNLLLoss().apply({}, {}, jnp.array([1.0, 3.0]), jnp.zeros(2), jnp.ones(2))[0]
        Array(2.5, dtype=float32)

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.GaussianNLLLoss.html
    """

    def __init__(self, *, full: bool = False, eps: float = 1e-6, reduction: str = "mean"):
        super().__init__(None, None, reduction)
        self.full, self.eps = full, eps

    def forward(self, input: jax.Array, target: jax.Array, var: jax.Array | float) -> jax.Array:
        return F.gaussian_nll_loss(input, target, var, full=self.full, eps=self.eps, reduction=self.reduction)
