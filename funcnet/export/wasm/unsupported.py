"""The table of what a WebAssembly module does not support, with the reasons, for error messages and docs/export.md."""

from funcnet.export.unsupported import Unsupported

__all__ = ["BATCH_GROUPS", "DTYPES", "OTHER_SIZES", "ROUNDED_BITS", "UNSUPPORTED"]

_STABLEHLO = "Export to StableHLO, or compute it outside the function."
DTYPES = Unsupported(
    (),
    "The kernels compute with floats and integers of 32 bits, and read integers of 8 and 16 bits.",
    "Convert the array.",
    use="arrays of float16, bfloat16, float64, 64-bit integers and complex numbers",
)
BATCH_GROUPS = Unsupported(
    ("conv_general_dilated",),
    "Only gradients of convolutions need batch groups.",
    "Export the function without its gradient.",
    use="with batch groups",
)
ROUNDED_BITS = Unsupported(
    ("reduce_precision",),
    "The kernels compute with float32 only.",
    "Export the function without the rounding.",
    use="to fewer bits than float32's",
)
OTHER_SIZES = Unsupported(
    ("bitcast_convert_type",),
    "A kernel computes each element of a result from one element of each operand.",
    "Convert to a dtype of the same size.",
    use="between dtypes of different sizes",
)
UNSUPPORTED = (
    DTYPES,
    BATCH_GROUPS,
    ROUNDED_BITS,
    OTHER_SIZES,
    Unsupported(
        (
            *("lgamma", "digamma", "polygamma", "igamma", "igammac", "zeta", "regularized_incomplete_beta"),
            *("bessel_i0e", "bessel_i1e"),
        ),
        "A module links no mathematical library, and funcnet's own does not have this function.",
        _STABLEHLO,
    ),
    Unsupported(
        ("cumlogsumexp",),
        "Cumulative kernels compute sums, products, maxima and minima only.",
        "Use jnp.cumsum, or a loop with jax.lax.scan.",
    ),
    Unsupported(
        ("reduce", "reduce_window"),
        "These primitives contain a program, and a kernel combines elements by a known operation only.",
        "Use jnp.sum, prod, max or min, or nn.functional's pooling.",
    ),
    Unsupported(
        ("complex", "real", "imag", "conj", "fft"),
        "The kernels have no complex numbers.",
        "Multiply by the matrix of the transform, with real and imaginary parts in separate arrays.",
    ),
    Unsupported(
        ("select_and_scatter", "select_and_scatter_add", "select_and_gather_add", "igamma_grad_a"),
        "They are parts of gradients, and an export is for inference.",
        "Export the function without its gradient.",
    ),
    Unsupported(
        ("cholesky", "lu", "qr", "svd", "eig", "eigh", "schur", "hessenberg", "householder_product"),
        "JAX calls LAPACK for it, and a module links no library.",
        "Compute the factor before the export, and close over it.",
    ),
    Unsupported(
        ("triangular_solve", "tridiagonal", "tridiagonal_solve"),
        "JAX calls LAPACK for it, and a module links no library.",
        "Compute the inverse before the export, and close over it.",
    ),
    Unsupported(
        ("custom_call", "ffi_call"),
        "A module links no other code.",
        "Write the function with operations of jax.lax.",
    ),
    Unsupported(
        ("shard_map", "psum", "pmax", "pmin", "ppermute", "all_gather", "all_to_all", "axis_index"),
        "A module runs on one device.",
        "Export the function of one device.",
    ),
)
