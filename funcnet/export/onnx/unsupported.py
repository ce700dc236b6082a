"""The table of what ONNX does not support, with the reasons, for error messages and docs/export.md."""

from funcnet.export.unsupported import Unsupported

__all__ = [
    "BASE_DILATION",
    "BATCH_GROUPS",
    "CASTS",
    "GATHERED_SLICES",
    "INITIAL_VALUE",
    "MANY_DIMENSIONS",
    "MANY_KEYS",
    "OTHER_REDUCTIONS",
    "OTHER_WINDOWS",
    "PARTS_OF_ROWS",
    "ROUNDED_BITS",
    "SCATTERED_SLICES",
    "UNSUPPORTED",
]

_STABLEHLO = "Export to StableHLO, or compute it outside the function."
GATHERED_SLICES = Unsupported(
    ("gather",),
    "ONNX reads single entries or whole rows at computed places.",
    "Use jax.lax.dynamic_slice, or index single entries.",
    use="of several slices at computed places",
)
SCATTERED_SLICES = Unsupported(
    ("scatter", "scatter_add", "scatter_mul", "scatter_min", "scatter_max"),
    "ONNX writes single entries or whole rows at computed places.",
    "Write single entries, or use jax.lax.dynamic_update_slice.",
    use="of several slices at computed places",
)
PARTS_OF_ROWS = Unsupported(
    SCATTERED_SLICES.primitives, SCATTERED_SLICES.reason, "Write whole rows.", use="of parts of rows"
)
MANY_KEYS = Unsupported(
    ("sort",), "ONNX sorts with TopK, which has one key.", "Sort by one key.", use="by several keys"
)
MANY_DIMENSIONS = Unsupported(
    ("reduce_window", "reduce_window_sum", "reduce_window_max"),
    "ONNX Runtime has pooling over at most three dimensions.",
    "Use windows over at most 3 dimensions.",
    use="over more than three dimensions",
)
BASE_DILATION = Unsupported(
    MANY_DIMENSIONS.primitives,
    "Pooling in ONNX has no gaps between the entries of its input.",
    "Use windows over entries that lie side by side.",
    use="with `base_dilation`",
)
OTHER_WINDOWS = Unsupported(
    ("reduce_window",),
    "ONNX has no window with a function of your own.",
    "Use nn.functional's pooling.",
    use="of another function than add or max",
)
INITIAL_VALUE = Unsupported(
    ("reduce_window",),
    "It depends on JAX's platform whether the padding has the first number too.",
    "Use 0 as the first number.",
    use="as a sum, with padding and a first number",
)
OTHER_REDUCTIONS = Unsupported(
    ("reduce",),
    "ONNX has no reduction with a function of your own.",
    "Use jnp.sum, prod, max or min.",
    use="of another function than add, mul, max or min",
)
BATCH_GROUPS = Unsupported(
    ("conv_general_dilated",),
    "ONNX's Conv has groups of channels only.",
    "Use a convolution with feature groups.",
    use="with batch groups",
)
CASTS = Unsupported(
    ("convert_element_type",),
    "In ONNX Runtime, these dtypes of 8 bits have no infinities, and uint64 has no Where.",
    "Use another dtype.",
    use="to floats of 8 bits other than float8_e4m3fn, or from a float to uint64",
)
ROUNDED_BITS = Unsupported(
    ("reduce_precision",),
    "ONNX has no operator that reads the bits of a float.",
    "Use bfloat16's 8 and 7 bits.",
    use="to another number of bits than bfloat16's",
)
UNSUPPORTED = (
    GATHERED_SLICES,
    SCATTERED_SLICES,
    PARTS_OF_ROWS,
    MANY_KEYS,
    MANY_DIMENSIONS,
    BASE_DILATION,
    OTHER_WINDOWS,
    INITIAL_VALUE,
    OTHER_REDUCTIONS,
    BATCH_GROUPS,
    CASTS,
    ROUNDED_BITS,
    Unsupported(
        ("cumprod", "cummax", "cummin", "cumlogsumexp"),
        "CumSum is ONNX's only cumulative operator.",
        "Use jnp.cumsum, or a loop with jax.lax.scan.",
    ),
    Unsupported(
        (
            *("erf_inv", "lgamma", "digamma", "polygamma", "igamma", "igammac", "zeta", "regularized_incomplete_beta"),
            *("bessel_i0e", "bessel_i1e"),
        ),
        "ONNX has no operator for this function.",
        _STABLEHLO,
    ),
    Unsupported(
        ("nextafter", "clz", "population_count", "bitcast_convert_type"),
        "ONNX has no operator that reads the bits of a number.",
        _STABLEHLO,
    ),
    Unsupported(("reduce_window_min",), "ONNX has no pooling by the minimum.", "Use the maximum of the negated array."),
    Unsupported(
        ("reduce_xor",),
        "ONNX reduces by sum, product, maximum and minimum only.",
        "For booleans, use jnp.sum(x) % 2 == 1.",
    ),
    Unsupported(
        ("complex", "real", "imag", "conj", "fft"),
        "ONNX's operators take no complex numbers.",
        "Multiply by the matrix of the transform, with real and imaginary parts in separate arrays.",
    ),
    Unsupported(
        ("select_and_scatter", "select_and_scatter_add", "select_and_gather_add", "igamma_grad_a"),
        "They are parts of gradients, and an export is for inference.",
        "Export the function without its gradient.",
    ),
    Unsupported(
        (
            *("cholesky", "lu", "qr", "svd", "eig", "eigh", "schur", "hessenberg", "householder_product"),
            *("triangular_solve", "tridiagonal", "tridiagonal_solve"),
        ),
        "ONNX has no linear algebra but products and determinants.",
        "Compute the result before the export, and close over it.",
    ),
    Unsupported(
        ("shard_map", "psum", "pmax", "pmin", "ppermute", "all_gather", "all_to_all", "axis_index"),
        "An ONNX graph runs on one device.",
        "Export the function of one device.",
    ),
)
