"""weight_norm, spectral_norm and orthogonal (`orthogonal.py`), as in torch/nn/utils/parametrizations.py.

Letters: `h, w` are the numbers of rows and columns of a weight that is flattened to a matrix.
"""

import math
from typing import Any

import jax
import jax.numpy as jnp
from jax.typing import DTypeLike

from funcnet import functional as F
from funcnet.functional import checks
from funcnet.nn.conv_transpose import ConvTranspose1d, ConvTranspose2d, ConvTranspose3d
from funcnet.nn.core.module_tree import Node
from funcnet.nn.core.parameter import Buffer
from funcnet.nn.module.module import Module
from funcnet.nn.utils.orthogonal import orthogonal
from funcnet.nn.utils.parametrize import parametrizable, register_parametrization

__all__ = ["orthogonal", "spectral_norm", "weight_norm"]

# -------------------------------------------------------------------------------------------------- weight norm


def weight_norm(module: Module, name: str = "weight", dim: int | None = 0) -> Module:
    """Parametrize a weight as `w = g · v / ‖v‖`. The magnitude g and the direction v are learned separately.

    Args:
        module: the description, which is changed in place and returned.
        name: name of the parameter.
        dim: the one dimension over which the norm is not computed. If `dim` is None or -1, there is one norm for the
            entire weight, as in torch.

    Params: `parametrizations.<name>.original0` (g) and `original1` (v). Checkpoints with `<name>_g` and `<name>_v` can
        be loaded.

    Raises:
        ValueError: if there is no such parameter, or it has no dimension `dim`.

    Example:
        >>> from funcnet import nn
        >>> layer = nn.utils.parametrizations.weight_norm(nn.Linear(20, 40))
        >>> layer
        ParametrizedLinear(
          in_features=20, out_features=40, bias=True
          (parametrizations): ModuleDict(
            (weight): ParametrizationList(
              (0): _WeightNorm()
            )
          )
        )
        >>> [name for name, _ in layer.named_parameters()]
        ['bias', 'parametrizations.weight.original0', 'parametrizations.weight.original1']

    Reference: Salimans & Kingma, 2016, "Weight Normalization".
    """
    ndim = parametrizable("parametrizations.weight_norm", module, name).ndim
    module = register_parametrization(module, name, _WeightNorm(norm_dim(dim, ndim)), unsafe=True)
    return _reads(module, name, {"_g": "original0", "_v": "original1"})


class _WeightNorm(Module):
    def __init__(self, dim: int):
        super().__init__()
        self.dim = dim

    def forward(self, weight_g: jax.Array, weight_v: jax.Array) -> jax.Array:
        return weight_of(weight_g, weight_v, self.dim)

    def right_inverse(self, weight: jax.Array) -> tuple[jax.Array, jax.Array]:
        return norm_except_dim(weight, self.dim), weight


def norm_dim(dim: int | None, ndim: int) -> int:
    """Return -1 if `dim` is None or -1 (one norm for the entire weight), else `dim` counted from the front.

    Raises:
        ValueError: if the weight has no dimension `dim`.
    """
    if dim is None or dim == -1:
        return -1
    if not -ndim <= dim < ndim:
        raise ValueError(f"weight_norm: dim is out of range; expected {-ndim} to {ndim - 1}, got {dim}.")
    return dim % ndim


def norm_except_dim(v: jax.Array, dim: int) -> jax.Array:
    """Return the norm of v over all dimensions except `dim`. These dimensions have size 1 in the result. If `dim` is
    -1, return the norm of all entries.
    """
    wide = _wide(v)
    axes = tuple(i for i in range(v.ndim) if i != dim) if dim != -1 else None
    return jnp.sqrt(jnp.sum(wide * wide, axes, keepdims=dim != -1)).astype(v.dtype)


def weight_of(g: jax.Array, v: jax.Array, dim: int) -> jax.Array:
    """Return the normalised weight v · (g / ‖v‖), which is computed in at least float32."""
    wide = _wide(v)
    return (wide * (_wide(g) / norm_except_dim(wide, dim))).astype(v.dtype)


# ------------------------------------------------------------------------------------------------ spectral norm


def spectral_norm(
    module: Module, name: str = "weight", n_power_iterations: int = 1, eps: float = 1e-12, dim: int | None = None
) -> Module:
    """Divide a weight W by its largest singular value, `W / σ(W)`. Power iteration estimates σ as uᵀ W v.

    In training, every call of the module makes `n_power_iterations` steps ``u ← W v / ‖W v‖, v ← Wᵀ u / ‖Wᵀ u‖`` and
    stores u and v in the state. In eval mode, a call makes no steps of power iteration. The gradient treats u and v as
    constants. The initial u and v are random vectors to which 15 steps with the initial weight have been applied. A
    one-dimensional weight is divided by its norm and has no u and v.

    Args:
        module: the description, which is changed in place and returned.
        name: name of the parameter.
        n_power_iterations: number of steps per call in training.
        eps: lower bound on each norm, to avoid division by zero.
        dim: dimension of the weight that belongs to the outputs of the layer. This dimension becomes the rows of W as a
            matrix (h, w). The default is 1 for transposed convolutions, else 0.

    Params: `parametrizations.<name>.original`.
    State: `parametrizations.<name>.0._u` (h,) and `._v` (w,). Checkpoints with `<name>_orig`,
    `<name>_u` and `<name>_v` can be loaded.

    Raises:
        ValueError: if there is no such parameter or dimension, or `n_power_iterations` is not positive.

    Differs from torch: the steps are made at every call of the module. In torch, the steps are made at every access of
    the weight. A module that runs twice in one `apply` makes the steps twice, as in torch. Checkpoints with the old
    names `<name>_orig`, `<name>_u` and `<name>_v` can be loaded too.

    Example:
        >>> import numpy as np
        >>> from funcnet import nn
        >>> layer = nn.utils.parametrizations.spectral_norm(nn.Linear(20, 40, bias=False))
        >>> params, state = layer.init(jax.random.key(0))
        >>> weight, _ = layer.apply(params, state, jnp.eye(20))
        >>> bool(abs(jnp.linalg.norm(weight, 2) - 1) < 0.05)
        True

    Reference: Miyato et al., 2018, "Spectral Normalization for Generative Adversarial Networks".
    """
    weight = parametrizable("parametrizations.spectral_norm", module, name)
    if dim is None:
        dim = rows_dim(module)
    register_parametrization(module, name, _SpectralNorm(weight, n_power_iterations, dim, eps))
    return _reads(module, name, {"_orig": "original", "_u": "0._u", "_v": "0._v"} if weight.ndim > 1 else {})


def rows_dim(module: Module) -> int:
    """Return the dimension of a layer's weight that belongs to the outputs of the layer."""
    return 1 if isinstance(module, (ConvTranspose1d, ConvTranspose2d, ConvTranspose3d)) else 0


def row_axis(dim: int, ndim: int) -> int:
    """Return the dimension `dim` of the weight, which may be negative, counted from the front. Raise ValueError if
    there is no such dimension.
    """
    if not -ndim <= dim < ndim:
        raise ValueError(f"spectral_norm: dim is out of range; expected {-ndim} to {ndim - 1}, got {dim}.")
    return dim % ndim


class _SpectralNorm(Module):
    _u: Any
    _v: Any

    def __init__(self, weight: Any, n_power_iterations: int = 1, dim: int = 0, eps: float = 1e-12):
        super().__init__()
        check_steps(n_power_iterations)
        self.dim, self.eps, self.n_power_iterations = row_axis(dim, weight.ndim), eps, n_power_iterations
        if weight.ndim > 1:
            rows = weight.shape[self.dim]
            self.register_buffer("_u", Buffer(rows, unit_vector, dtype=weight.dtype))
            self.register_buffer("_v", Buffer(math.prod(weight.shape) // max(rows, 1), unit_vector, dtype=weight.dtype))

    def forward(self, weight: jax.Array) -> jax.Array:
        if weight.ndim == 1:
            return F.normalize(weight, dim=0, eps=self.eps)
        if self.training:
            self._step(weight, self.n_power_iterations)
        return divided_by_sigma(weight, self._u, self._v, self.dim)

    def right_inverse(self, value: jax.Array) -> jax.Array:
        return value

    def begin(self, weight: jax.Array) -> None:
        if weight.ndim > 1:
            self._step(weight, 15)

    def _step(self, weight: jax.Array, steps: int) -> None:
        matrix = jax.lax.stop_gradient(as_matrix(weight, self.dim))

        def step(_: int | jax.Array, vectors: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
            u = F.normalize(matrix @ vectors[1], dim=0, eps=self.eps)
            return u, F.normalize(matrix.T @ u, dim=0, eps=self.eps)

        vectors = _wide(self._u), _wide(self._v)
        u, v = step(0, vectors) if steps == 1 else jax.lax.fori_loop(0, steps, step, vectors)
        self._u, self._v = u.astype(weight.dtype), v.astype(weight.dtype)


def check_steps(n_power_iterations: int) -> None:
    """Raise ValueError unless the number of power iterations is positive."""
    if n_power_iterations <= 0:
        raise ValueError(
            f"spectral_norm: n_power_iterations is too small; expected a positive number, got {n_power_iterations}."
        )


def as_matrix(weight: jax.Array, dim: int) -> jax.Array:
    """Return the weight as a matrix (h, w) in at least float32. Dimension `dim` of the weight becomes the rows."""
    moved = jnp.moveaxis(_wide(weight), dim, 0)
    return moved.reshape(moved.shape[0], math.prod(moved.shape[1:]))


def divided_by_sigma(weight: jax.Array, u: jax.Array, v: jax.Array, dim: int) -> jax.Array:
    """Return W / (uᵀ W v), where u and v are constants."""
    u, v = jax.lax.stop_gradient((_wide(u), _wide(v)))
    sigma = u @ (as_matrix(weight, dim) @ v)
    return (_wide(weight) / sigma).astype(weight.dtype)


def unit_vector(key: jax.Array, shape: tuple[int, ...], dtype: DTypeLike) -> jax.Array:
    """Initialise a vector with random numbers, and divide it by its norm."""
    return F.normalize(jax.random.normal(key, shape, dtype), dim=0)


# ------------------------------------------------------------------------------------------------------ helpers


class _OldNames:
    """A load pre-hook that renames the entries of a state_dict from torch's older normalisation (such as `fc.weight_g`)
    to those of the parametrization.
    """

    def __init__(self, tensor_name: str, beneath: dict[str, str]):
        self.tensor_name, self.beneath = tensor_name, beneath

    def __call__(self, module: Node, sd: dict[str, Any], prefix: str, *rest: object) -> None:
        old = {f"{prefix}{self.tensor_name}{suffix}": name for suffix, name in self.beneath.items()}
        if all(name in sd for name in old):
            for name, new in old.items():
                sd[f"{prefix}parametrizations.{self.tensor_name}.{new}"] = sd.pop(name)


def _reads(module: Module, name: str, beneath: dict[str, str]) -> Module:
    if beneath and len(module.parametrizations[name]) == 1:
        getattr(module, name).old_names = module.register_load_state_dict_pre_hook(_OldNames(name, beneath))
    return module


def _wide(x: jax.Array) -> jax.Array:
    """Return the array `x`, cast to at least float32."""
    return x.astype(checks.wide_dtype(x))
