"""Tensors that are sparse, quantized or nested.

A sparse tensor becomes a dense array with the same values, because a `jax.Array` has no sparse layout. Products with
the dense array have the same values too.
"""

from funcnet.porting.rule_engine.rule import rule

__all__ = ["ROWS"]

_DENSE = "The array is dense. Its values are those of the sparse tensor."
_EAGER = "The size of the result depends on the data."
_INDICES = "Write jnp.nonzero of the dense array."
_BUILD = "Write a dense array: jnp.zeros(size, values.dtype).at[tuple(indices)].add(values)."
_QUANTIZED = (
    "Write the integers and their scale as arrays: q = jnp.clip(jnp.round(x / scale) + zero_point, -128, 127)"
    ".astype(jnp.int8), and (q - zero_point) * scale."
)

_SPARSE = (
    rule("Tensor.to_sparse(input, sparse_dim=None)", "input", when="sparse_dim.is_given or True", kind="semantic",
         note=_DENSE),
    *(
        rule(f"Tensor.{name}(input)", "input", kind="semantic", note=_DENSE)
        for name in ("to_sparse_coo", "to_sparse_csr", "to_sparse_csc", "to_dense", "coalesce")
    ),
    *(
        rule(f"Tensor.{name}(input, blocksize)", "input", when="blocksize.is_given", kind="semantic", note=_DENSE)
        for name in ("to_sparse_bsr", "to_sparse_bsc")
    ),
    rule("Tensor.is_coalesced(input)", "True", when="input.is_given", result="bool", note=_DENSE),
    rule("Tensor.sparse_dim(input)", "input.ndim", result="int", note=_DENSE),
    rule("Tensor.dense_dim(input)", "0", when="input.is_given", result="int", note=_DENSE),
    rule("Tensor.indices(input)", "jnp.stack(jnp.nonzero(input))", level="eager only", note=_EAGER),
    rule("Tensor.sparse_mask(input, mask)", "jnp.where(mask != 0, input, 0)", kind="semantic", note=_DENSE),
    *(
        rule(f"Tensor.{name}(input)", kind="register", note=_INDICES)
        for name in ("crow_indices", "col_indices", "ccol_indices", "row_indices")
    ),
    *(
        rule(f"torch.{name}(input)", kind="register", note=_INDICES)
        for name in ("indices_copy", "values_copy", "crow_indices_copy", "col_indices_copy", "ccol_indices_copy",
                     "row_indices_copy")
    ),
    *(
        rule(f"torch.{name}", kind="register", note=_BUILD)
        for name in ("sparse_coo_tensor", "sparse_csr_tensor", "sparse_csc_tensor", "sparse_bsr_tensor",
                     "sparse_bsc_tensor", "sparse_compressed_tensor")
    ),
    *(
        rule(f"Tensor.{name}", kind="register", note="Arrays do not change in place. " + _BUILD)
        for name in ("sparse_resize_", "sparse_resize_and_clear_", "resize_as_sparse_")
    ),
    rule("torch.resize_as_sparse_", kind="register", note="Arrays do not change in place. " + _BUILD),
    rule("torch.sparse.mm(sparse, dense)", "sparse @ dense", kind="semantic", note=_DENSE),
    rule("torch.sparse.mm(sparse, dense, reduce)", "sparse @ dense", when="reduce.equals('sum')", kind="semantic",
         note=_DENSE),
    *(rule(f"torch.{name}(input, mat2)", "input @ mat2", kind="semantic", note=_DENSE)
      for name in ("smm", "spmm", "dsmm", "hsmm", "hspmm")),
    rule("Tensor.smm(input, mat2)", "input @ mat2", kind="semantic", note=_DENSE),
    *(
        row
        for name in ("torch.sparse.addmm", "torch.sspaddmm", "Tensor.sspaddmm", "torch.saddmm")
        for row in (
            rule(f"{name}(mat, mat1, mat2, *, beta=1.0, alpha=1.0)", "mat + mat1 @ mat2", kind="semantic", note=_DENSE),
            rule(f"{name}(mat, mat1, mat2, *, beta=1.0, alpha=1.0)", "beta * mat + alpha * (mat1 @ mat2)",
                 kind="semantic", note=_DENSE),
        )
    ),
    rule("torch.sparse.sampled_addmm(input, mat1, mat2, *, beta=1.0, alpha=1.0)",
         "jnp.where(input != 0, beta * input + alpha * (mat1 @ mat2), 0)", kind="semantic", note=_DENSE),
    rule("torch.sparse.sum(input, dim=None, dtype=None)", "input.sum(axis=dim, dtype=dtype)", kind="semantic",
         note=_DENSE),
    *(
        rule(f"torch.sparse.{name}(input, dim, *, dtype=None)", kind="register",
             note=f"Write jax.nn.{name} with where=mask. Entries that are not stored do not count.")
        for name in ("softmax", "log_softmax")
    ),
    rule("torch.sparse.*", kind="register", note="Write it with a dense array, or with jax.experimental.sparse."),
    rule("torch.nested.*", kind="register", note="Write an array that is padded to one length, and a mask."),
    rule("torch.masked.*", kind="register", note="Write an array and a mask, with the where argument of jax.numpy."),
    rule("Tensor.to_padded_tensor", kind="register", note="Write an array that is padded to one length, and a mask."),
    rule("Tensor.to_mkldnn(input)", "input"),
)  # fmt: skip

_INTEGERS = (
    *(
        rule(f"both.{name}", kind="register", note=_QUANTIZED)
        for name in ("dequantize", "int_repr", "q_scale", "q_zero_point", "q_per_channel_scales",
                     "q_per_channel_zero_points", "q_per_channel_axis")
    ),
    rule("Tensor.qscheme", kind="register", note=_QUANTIZED),
    *(
        rule(f"torch.{name}", kind="register", note=_QUANTIZED)
        for name in ("quantize_per_tensor", "quantize_per_tensor_dynamic", "quantize_per_channel", "empty_quantized",
                     "choose_qparams_optimized", "qscheme", "qint8", "quint8", "qint32", "quint4x2", "quint2x4",
                     "per_tensor_affine", "per_tensor_symmetric", "per_channel_affine", "per_channel_symmetric",
                     "per_channel_affine_float_qparams", "quantized_batch_norm", "quantized_gru_cell",
                     "quantized_lstm_cell", "quantized_rnn_relu_cell", "quantized_rnn_tanh_cell",
                     "quantized_max_pool1d",
                     "quantized_max_pool2d", "quantized_max_pool3d", "ao.*", "quantization.*")
    ),
    *(
        rule(f"torch.{name}", kind="register",
             note="Write x + jax.lax.stop_gradient(y - x), where y is the rounded x: (jnp.clip(jnp.round(x / scale) + "
             "zero_point, low, high) - zero_point) * scale.")
        for name in ("fake_quantize_per_tensor_affine", "fake_quantize_per_channel_affine",
                     "fused_moving_avg_obs_fake_quant")
    ),
    *(
        rule(f"torch.fbgemm_{name}", kind="register", note="Write x @ weight.mT with the weight as floats.")
        for name in ("linear_fp16_weight", "linear_fp16_weight_fp32_activation", "linear_int8_weight",
                     "linear_int8_weight_fp32_activation", "linear_quantize_weight", "pack_gemm_matrix_fp16",
                     "pack_quantized_matrix")
    ),
    # Dtypes with few bits that JAX has too. Those that it lacks follow below.
    *(rule(f"torch.{name}", f"jnp.{name}", result="dtype")
      for name in ("int2", "int4", "uint2", "uint4", "float8_e8m0fnu")),
    rule("torch.float4_e2m1fn_x2", "jnp.float4_e2m1fn", result="dtype", note="torch packs two numbers into a byte."),
    *(
        rule(f"torch.{name}", kind="register", note="JAX has no such dtype. Use the next wider one.")
        for name in ("int1", "int3", "int5", "int6", "int7", "uint1", "uint3", "uint5", "uint6", "uint7", "bit",
                     "bits8",
                     "bits16", "bits1x8", "bits2x4", "bits4x2", "chalf", "complex32")
    ),
)  # fmt: skip

ROWS = (*_SPARSE, *_INTEGERS)
