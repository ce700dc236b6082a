"""Regression losses, and losses between predicted distributions and targets."""

import jax

from funcnet import functional as F
from funcnet.nn.loss_base import Loss

__all__ = ["GaussianNLLLoss", "HuberLoss", "KLDivLoss", "L1Loss", "MSELoss", "PoissonNLLLoss", "SmoothL1Loss"]


class L1Loss(Loss):
    """Absolute error `|input - target|`.

    Args:
        size_average, reduce: deprecated; use `reduction`.
        reduction: 'mean', 'sum' or 'none'. 'mean' divides the sum of the losses by the number of elements.

    Call: input (*) and target (*) -> (), or (*) with reduction='none'.

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
    """Squared error `(input - target)²`.

    Args:
        size_average, reduce: deprecated; use `reduction`.
        reduction: 'mean', 'sum' or 'none'. 'mean' divides the sum of the losses by the number of elements.

    Call: input (*) and target (*) -> (), or (*) with reduction='none'.

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
    """Squared error for small differences and absolute error for large ones.

    The loss is `(input - target)² / (2β)` if `|input - target| < β`, and `|input - target| - β/2` otherwise.

    Args:
        size_average, reduce: deprecated; use `reduction`.
        reduction: 'mean', 'sum' or 'none'.
        beta: threshold β between the two formulas, at least 0. With β = 0, the loss equals `L1Loss`.

    Call: input (*) and target (*) -> (), or (*) with reduction='none'.

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
    """Huber loss, a squared error for small differences and a linear error for large ones.

    The loss is `(input - target)² / 2` if `|input - target| ≤ δ`, and `δ (|input - target| - δ/2)` otherwise.

    Args:
        reduction: 'mean', 'sum' or 'none'.
        delta: threshold δ between the two formulas, greater than 0.

    Call: input (*) and target (*) -> (), or (*) with reduction='none'.

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
    """Kullback-Leibler divergence, which computes `target · (log target - input)` for each element. The input holds
    log-probabilities.

    Args:
        size_average, reduce: deprecated; use `reduction`.
        reduction: 'batchmean', 'mean', 'sum' or 'none'. 'batchmean' divides the sum by the batch size, which gives the
            mean divergence of an example. 'mean' divides the sum by the number of elements, which does not give a
            divergence, and emits a warning.
        log_target: if True, the target holds log-probabilities too.

    Call: input (*) and target (*) -> (), or (*) with reduction='none'.

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
    """Negative log-likelihood `exp(input) - target · input` of a Poisson distribution, without the term `log(target!)`.

    Args:
        log_input: if True, the input holds the logarithms of the Poisson rates. If False, the input holds the rates,
            and the loss is `input - target · log(input + eps)`.
        full: if True, add Stirling's approximation of `log(target!)` for targets above 1.
        size_average: deprecated; use `reduction`.
        eps: small constant that keeps `log(input + eps)` finite at an input of 0.
        reduce: deprecated; use `reduction`.
        reduction: 'mean', 'sum' or 'none'.

    Call: input (*) and target (*) -> (), or (*) with reduction='none'.

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
    """Negative log-likelihood of a normal distribution.

    The loss is `(log var + (input - target)² / var) / 2`, without the constant `log(2π) / 2`.

    Args:
        full: if True, add the constant `log(2π) / 2`.
        eps: lower bound on the variance.
        reduction: 'mean', 'sum' or 'none'.

    Call: means (*, D), targets (*, D), and variances (*, D), (*, 1), (*) or a number -> (), or (*, D) with
        reduction='none'.

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
