"""Integers, labels, mixed precision, masks and NumPy's float64."""

from tests.mistakes import raises, same, silent, warns

__all__ = ["MISTAKES"]

MISTAKES = [
    raises("run(nn.Linear(4, 2), ids(3, 4))", r"F\.linear.*input.*float32.*bfloat16.*int32", "raises"),
    raises("run(nn.Linear(4, 2), bools(3, 4))", r"F\.linear.*input.*float32.*bfloat16.*bool", "raises"),
    silent("run(nn.Linear(4, 2), double(3, 4))", "without x64, JAX converts float64 to float32", "raises"),
    raises('run(nn.Linear(4, 2), cast(x(3, 4), "float16"))', r"F\.linear.*float32", "raises"),
    raises('run(nn.Linear(4, 2), cast(x(3, 4), "bfloat16"))', r"F\.linear.*bfloat16.*float32.*float32", "raises"),
    silent("run(nn.Linear(4, 2), [[1.0, 2.0, 3.0, 4.0]])", "a list of numbers is converted to an array", "raises"),
    raises("run(nn.Linear(4, 2), 1.0)", r"F\.linear.*input.*\(\*, 4\).*\(\)", "raises"),
    raises("run(nn.Linear(4, 2), None)", r"F\.linear.*input.*NoneType", "raises"),
    raises('run(nn.Linear(4, 2), "text")', r"F\.linear.*input.*str", "raises"),
    raises("run(nn.Linear(4, 2), [x(4), x(4)])", r"F\.linear.*input.*list", "raises"),
    raises("run(nn.Linear(4, 2), (x(3, 4), x(3, 4)))", r"F\.linear.*input.*tuple", "raises"),
    raises('run(nn.Linear(4, 2), {"x": x(3, 4)})', r"F\.linear.*input.*dict", "raises"),
    raises("run(nn.Conv2d(3, 8, 3), ids(1, 3, 8, 8))", r"F\.conv2d.*input.*float32.*bfloat16.*int32", "raises"),
    raises('run(nn.Conv2d(3, 8, 3), cast(ids(1, 3, 8, 8), "uint8"))', r"F\.conv2d.*input.*float32.*bfloat16", "raises"),
    raises(
        'run(nn.Conv2d(3, 8, 3), cast(x(1, 3, 8, 8), "bfloat16"))', r"F\.conv2d.*bfloat16.*float32.*float32", "raises"
    ),
    raises("run(nn.BatchNorm2d(3), ids(2, 3, 4, 4))", r"F\.batch_norm.*input.*float32.*bfloat16.*int32", "raises"),
    raises("run(nn.LayerNorm(4), ids(2, 4))", r"F\.layer_norm.*input.*float32.*bfloat16.*int32", "raises"),
    same('run(nn.LayerNorm(4), cast(x(2, 4), "bfloat16"))'),
    raises("run(nn.Embedding(10, 4), x(2, 3))", r"F\.embedding.*ids.*int32.*float32", "raises"),
    raises("run(nn.Embedding(10, 4), bools(2, 3))", r"F\.embedding.*ids.*int32.*bool", "raises"),
    silent("run(nn.Embedding(10, 4), [0, 1])", "a list of numbers is converted to an array", "raises"),
    silent("run(nn.Embedding(10, 4), 3)", "a number is converted to an array", "raises"),
    raises("run(nn.EmbeddingBag(10, 4), x(2, 3))", r"F\.embedding_bag.*ids.*int32.*float32", "raises"),
    raises("run(nn.LSTM(4, 8), ids(5, 2, 4))", r"LSTM.*input.*float32.*bfloat16.*int32", "raises"),
    raises('run(nn.LSTM(4, 8), cast(x(5, 2, 4), "bfloat16"))', r"F\.lstm.*bfloat16.*h_0.*bfloat16.*c_0", "raises"),
    raises(
        "run(nn.MultiheadAttention(8, 2), ids(5, 2, 8), ids(5, 2, 8), ids(5, 2, 8))",
        r"F\.multi_head_attention_forward.*query.*float32.*bfloat16.*int32",
        "raises",
    ),
    raises(
        "run(nn.MultiheadAttention(8, 2), x(5, 2, 8), x(5, 2, 8), x(5, 2, 8), attn_mask=ids(5, 5))",
        r"F\.multi_head_attention_forward.*attn_mask.*bool.*float32.*int32",
        "raises",
    ),
    raises(
        "run(nn.MultiheadAttention(8, 2), x(5, 2, 8), x(5, 2, 8), x(5, 2, 8), key_padding_mask=ids(2, 5))",
        r"F\.multi_head_attention_forward.*key_padding_mask.*bool.*float32.*int32",
        "raises",
    ),
    raises(
        "F.scaled_dot_product_attention(x(2, 5, 8), x(2, 5, 8), x(2, 5, 8), attn_mask=ids(5, 5))",
        r"F\.scaled_dot_product_attention.*attn_mask.*bool.*float32.*int32",
        "raises",
    ),
    raises(
        'F.scaled_dot_product_attention(x(2, 5, 8), cast(x(2, 5, 8), "bfloat16"), x(2, 5, 8))',
        r"F\.scaled_dot_product_attention.*float32.*bfloat16.*float32",
        "raises",
    ),
    raises("F.cross_entropy(x(4, 3), x(4))", r"F\.cross_entropy.*target.*\(4, 3\).*\(4,\)", "raises"),
    silent('F.cross_entropy(x(4, 3), cast(ids(4), "int32"))', "int32 is JAX's default integer", "raises"),
    raises("F.cross_entropy(x(4, 3), bools(4))", r"F\.cross_entropy.*target.*int32.*bool", "raises"),
    raises("F.cross_entropy(ids(4, 3), ids(4))", r"F\.cross_entropy.*input.*float32.*bfloat16.*int32", "raises"),
    raises("F.cross_entropy(x(4, 3), ids(4, 3))", r"F\.cross_entropy.*target.*\(4,\).*\(4, 3\)", "raises"),
    raises("F.nll_loss(x(4, 3), x(4))", r"F\.nll_loss.*target.*int32.*float32", "raises"),
    raises("F.mse_loss(x(4), ids(4))", r"F\.mse_loss.*target.*float32.*bfloat16.*int32", "silent"),
    raises("F.mse_loss(ids(4), ids(4))", r"F\.mse_loss.*input.*float32.*bfloat16.*int32", "raises"),
    raises("F.mse_loss(x(4), bools(4))", r"F\.mse_loss.*target.*float32.*bfloat16.*bool", "silent"),
    raises("F.l1_loss(ids(4), ids(4))", r"F\.l1_loss.*input.*float32.*bfloat16.*int32", "raises"),
    warns("F.mse_loss(x(4), 0.5)", r"F\.mse_loss.*target.*\(\).*\(4,\)", "raises"),
    raises(
        "F.binary_cross_entropy(x(4) * 0 + 0.5, ids(4) % 2)",
        r"F\.binary_cross_entropy.*target.*float32.*bfloat16.*int32",
        "raises",
    ),
    raises(
        'F.binary_cross_entropy(x(4), cast(bools(4), "float32"))',
        r"F\.binary_cross_entropy.*input.*0.*1.*0\.5.*0\.25",
        "raises",
    ),
    raises(
        "F.binary_cross_entropy_with_logits(x(4), ids(4) % 2)",
        r"F\.binary_cross_entropy_with_logits.*target.*float32.*bfloat16.*int32",
        "raises",
    ),
]
