"""Functions of torch that have no simple equivalent in jax.numpy: `import funcnet.torchlike as tl`.

They are plain functions of JAX arrays with torch's names, arguments, results and gradients. Use one of these functions
if jax.numpy has no such function (`tl.scatter_reduce`, `tl.stft`), if jax.numpy's function of the same name has
different rules (`tl.split`, `tl.median`), or if its gradient at a corner is different (`tl.abs` at 0, `tl.clamp` at its
bounds, `tl.norm` and `tl.std` at 0). If an expression of jax.numpy does the same, write that expression instead:
`jnp.concatenate`, `x.reshape`, `jnp.where`, `jnp.tile`.

Results are new arrays and never views. Indices are int64 if x64 is enabled in JAX (`jax.enable_x64`), and int32
otherwise. Under `jit`, indices that are out of range raise no error. The functions of torch.nn.functional are in
`funcnet.functional`.

Example:
    >>> import jax.numpy as jnp
    >>> import funcnet.torchlike as tl
    >>> values, indices = tl.topk(jnp.array([3.0, 1.0, 2.0]), 2)
    >>> values.tolist(), indices.tolist()
    ([3.0, 2.0], [0, 2])
"""

from funcnet.torchlike import linalg, windows
from funcnet.torchlike.arithmetic import abs, clamp, div
from funcnet.torchlike.autograd import autograd_function
from funcnet.torchlike.casting import to
from funcnet.torchlike.counting import cartesian_prod, combinations, histc
from funcnet.torchlike.decompositions import lu_unpack
from funcnet.torchlike.decompositions import svd_of_torch as svd
from funcnet.torchlike.items import get_item, set_item
from funcnet.torchlike.linear_algebra import cdist, cross, norm, renorm
from funcnet.torchlike.lowrank import pca_lowrank, svd_lowrank
from funcnet.torchlike.moments import std, std_mean, var, var_mean
from funcnet.torchlike.noise import normal, poisson, rand_like, randn_like
from funcnet.torchlike.norms import logdet
from funcnet.torchlike.placing import (
    as_strided_scatter,
    diagonal_scatter,
    index_put,
    index_reduce,
    index_select,
    masked_select,
    put,
    select_scatter,
    slice_scatter,
)
from funcnet.torchlike.pointwise import angle, atan2, copysign, digamma, i0, lerp, polygamma, xlogy
from funcnet.torchlike.python_side import no_context, ntuple
from funcnet.torchlike.random import bernoulli, multinomial
from funcnet.torchlike.reduction import ValuesAndIndices, max, median, min, mode
from funcnet.torchlike.reflections import geqrf, ormqr
from funcnet.torchlike.scattering import (
    gather,
    index_add,
    index_copy,
    index_fill,
    masked_fill,
    masked_scatter,
    scatter,
    scatter_add,
    scatter_reduce,
)
from funcnet.torchlike.shaping import (
    as_strided,
    diag_embed,
    expand,
    flatten,
    squeeze,
    unflatten,
    unfold,
    view_as_complex,
    view_as_real,
)
from funcnet.torchlike.solving import cholesky_inverse, cholesky_solve, triangular_solve
from funcnet.torchlike.sorting import cummax, cummin, kthvalue, searchsorted, sort, topk
from funcnet.torchlike.spectral import istft, stft
from funcnet.torchlike.splitting import chunk, split, tensor_split
from funcnet.torchlike.summaries import (
    MinAndMax,
    aminmax,
    axes,
    cumulative_trapezoid,
    gradient,
    logcumsumexp,
    nanmedian,
    sum_to_size,
    unique_consecutive,
)
from funcnet.torchlike.viewing import positions, read, write

__all__ = [
    "MinAndMax",
    "ValuesAndIndices",
    "abs",
    "aminmax",
    "angle",
    "as_strided",
    "as_strided_scatter",
    "atan2",
    "autograd_function",
    "axes",
    "bernoulli",
    "cartesian_prod",
    "cdist",
    "cholesky_inverse",
    "cholesky_solve",
    "chunk",
    "clamp",
    "combinations",
    "copysign",
    "cross",
    "cummax",
    "cummin",
    "cumulative_trapezoid",
    "diag_embed",
    "diagonal_scatter",
    "digamma",
    "div",
    "expand",
    "flatten",
    "gather",
    "geqrf",
    "get_item",
    "gradient",
    "histc",
    "i0",
    "index_add",
    "index_copy",
    "index_fill",
    "index_put",
    "index_reduce",
    "index_select",
    "istft",
    "kthvalue",
    "lerp",
    "linalg",
    "logcumsumexp",
    "logdet",
    "lu_unpack",
    "masked_fill",
    "masked_scatter",
    "masked_select",
    "max",
    "median",
    "min",
    "mode",
    "multinomial",
    "nanmedian",
    "no_context",
    "norm",
    "normal",
    "ntuple",
    "ormqr",
    "pca_lowrank",
    "poisson",
    "polygamma",
    "positions",
    "put",
    "rand_like",
    "randn_like",
    "read",
    "renorm",
    "scatter",
    "scatter_add",
    "scatter_reduce",
    "searchsorted",
    "select_scatter",
    "set_item",
    "slice_scatter",
    "sort",
    "split",
    "squeeze",
    "std",
    "std_mean",
    "stft",
    "sum_to_size",
    "svd",
    "svd_lowrank",
    "tensor_split",
    "to",
    "topk",
    "triangular_solve",
    "unflatten",
    "unfold",
    "unique_consecutive",
    "var",
    "var_mean",
    "view_as_complex",
    "view_as_real",
    "windows",
    "write",
    "xlogy",
]
