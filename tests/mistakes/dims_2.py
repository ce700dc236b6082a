"""Wrong ranks, channel counts, swapped axes and shapes of labels."""

from tests.mistakes import raises, same, silent, warns

__all__ = ["MISTAKES"]

MISTAKES = [
    raises(
        "nn.MultiheadAttention(10, 3)", r"MultiheadAttention.*embed_dim.*num_heads.*embed_dim=10.*num_heads=3", "raises"
    ),
    raises(
        "run(nn.MultiheadAttention(8, 2), x(5, 2, 6), x(5, 2, 6), x(5, 2, 6))",
        r"F\.multi_head_attention_forward.*8.*2.*\(5, 2, 6\)",
        "raises",
    ),
    raises(
        "run(nn.MultiheadAttention(8, 2), x(5, 2, 8), x(5, 3, 8), x(5, 3, 8))",
        r"F\.multi_head_attention_forward.*\(5, 2, 8\).*\(5, 3, 8\).*\(5, 3, 8\)",
        "raises",
    ),
    raises(
        ("run(nn.MultiheadAttention(8, 2), x(5, 2, 8), x(5, 2, 8), x(5, 2, 8), key_padding_mask=bools(5, 2))"),
        r"F\.multi_head_attention_forward.*key_padding_mask.*\(2, 5\).*\(5, 2\)",
        "raises",
    ),
    raises(
        "run(nn.MultiheadAttention(8, 2), x(5, 2, 8), x(5, 2, 8), x(5, 2, 8), attn_mask=bools(2, 5))",
        r"F\.multi_head_attention_forward.*attn_mask.*\(5, 5\).*\(2, 5\)",
        "raises",
    ),
    raises(
        "F.scaled_dot_product_attention(x(2, 4, 5, 8), x(2, 4, 5, 6), x(2, 4, 5, 6))",
        r"F\.scaled_dot_product_attention.*query.*\(\*, S, 8\).*\(2, 4, 5, 6\)",
        "raises",
    ),
    raises(
        "F.scaled_dot_product_attention(x(2, 4, 5, 8), x(2, 4, 6, 8), x(2, 4, 7, 8))",
        r"F\.scaled_dot_product_attention.*key.*\(\*, 6, V\).*\(2, 4, 7, 8\)",
        "silent",
    ),
    raises(
        "F.scaled_dot_product_attention(x(2, 4, 5, 8), x(2, 2, 5, 8), x(2, 2, 5, 8))",
        r"F\.scaled_dot_product_attention.*1.*\(2, 4, 5, 8\).*\(2, 2, 5, 8\).*\(2, 2, 5, 8\)",
        "raises",
    ),
    raises(
        ("F.scaled_dot_product_attention(x(2, 4, 5, 8), x(2, 4, 5, 8), x(2, 4, 5, 8), attn_mask=bools(5, 4))"),
        r"F\.scaled_dot_product_attention.*attn_mask.*\(2, 4, 5, 5\).*\(5, 4\)",
        "raises",
    ),
    raises(
        (
            "F.scaled_dot_product_attention(x(2, 4, 5, 8), x(2, 4, 5, 8), x(2, 4, 5, 8), attn_mask=bools(5, "
            "5), is_causal=True)"
        ),
        r"F\.scaled_dot_product_attention.*is_causal=True.*attn_mask.*attn_mask=None.*\(5, 5\)",
        "silent",
    ),
    raises(
        "run(nn.TransformerEncoderLayer(8, 2, 16), x(5, 2, 6))",
        r"F\.multi_head_attention_forward.*8.*2.*\(5, 2, 6\)",
        "raises",
    ),
    raises(
        "run(nn.TransformerEncoderLayer(8, 2, 16), x(5, 2, 8), src_key_padding_mask=bools(5, 2))",
        r"F\.multi_head_attention_forward.*key_padding_mask.*\(2, 5\).*\(5, 2\)",
        "raises",
    ),
    raises("F.cross_entropy(x(4, 3), ids(4, 1))", r"F\.cross_entropy.*target.*\(4,\).*\(4, 1\)", "raises"),
    raises("F.cross_entropy(x(4, 3), ids(5))", r"F\.cross_entropy.*target.*\(4,\).*\(5,\)", "raises"),
    raises("F.cross_entropy(x(4, 3), ids(4) + 1)", r"F\.cross_entropy.*target.*0.*2.*1.*3", "raises"),
    raises("F.cross_entropy(x(2, 5, 3), ids(2, 5))", r"F\.cross_entropy.*target.*\(2, 3\).*\(2, 5\)", "raises"),
    raises("F.cross_entropy(x(4, 3), x(4, 2))", r"F\.cross_entropy.*target.*\(4, 3\).*\(4, 2\)", "raises"),
    raises("F.cross_entropy(x(4, 3), ids(4), weight=x(2))", r"F\.cross_entropy.*weight.*\(3,\).*\(2,\)", "raises"),
    raises("F.nll_loss(x(4, 3), ids(4, 3))", r"F\.nll_loss.*target.*\(4,\).*\(4, 3\)", "raises"),
    warns("F.mse_loss(x(4, 1), x(4))", r"F\.mse_loss.*target.*\(4,\).*\(4, 1\)", "silent"),
    warns("F.l1_loss(x(4, 1), x(4))", r"F\.l1_loss.*target.*\(4,\).*\(4, 1\)", "silent"),
    warns("F.smooth_l1_loss(x(4, 1), x(4))", r"F\.smooth_l1_loss.*target.*\(4,\).*\(4, 1\)", "silent"),
    raises("F.mse_loss(x(4, 3), x(5, 3))", r"F\.mse_loss.*target.*\(4, 3\).*\(5, 3\)", "raises"),
    raises(
        "F.binary_cross_entropy_with_logits(x(4, 1), x(4))",
        r"F\.binary_cross_entropy_with_logits.*target.*\(4, 1\).*\(4,\)",
        "raises",
    ),
    raises(
        "F.binary_cross_entropy(x(4, 1) * 0 + 0.5, x(4))",
        r"F\.binary_cross_entropy.*target.*\(4, 1\).*\(4,\)",
        "raises",
    ),
    warns("F.huber_loss(x(4, 1), x(4))", r"F\.huber_loss.*target.*\(4,\).*\(4, 1\)", "silent"),
    warns("F.kl_div(x(4, 3), x(3))", r"F\.kl_div.*'mean'", "silent"),
    same("F.poisson_nll_loss(x(4, 1), x(4))"),
    raises("F.cosine_similarity(x(4, 3), x(4, 2))", r"F\.cosine_similarity.*1.*\(4, 3\).*\(4, 2\)", "raises"),
    raises("F.pairwise_distance(x(4, 3), x(4, 2))", r"F\.pairwise_distance.*1.*\(4, 3\).*\(4, 2\)", "raises"),
    raises("F.margin_ranking_loss(x(4), x(4), x(4, 1))", r"F\.margin_ranking_loss.*\(4,\).*\(4, 1\)", "raises"),
    raises("F.triplet_margin_loss(x(4, 3), x(4, 3), x(3))", r"F\.triplet_margin_loss.*\(4, 3\).*\(3,\)", "raises"),
    raises(
        "F.ctc_loss(x(2, 5, 4), ids(2, 3) + 1, ids(2) + 5, ids(2) + 1)",
        r"F\.ctc_loss.*input_lengths.*\(5,\).*\(2,\)",
        "raises",
    ),
    warns("F.softmax(x(4, 3))", r"F\.softmax.*dim.*\(4, 3\)", "silent"),
    raises("F.softmax(x(4, 3), dim=2)", r"F\.softmax.*dim.*2.*1.*2", "raises"),
    warns("F.log_softmax(x(4, 3))", r"F\.log_softmax.*dim.*\(4, 3\)", "silent"),
    raises("F.pad(x(2, 3), (1, 1, 1))", r"F\.pad.*pad.*2.*\(1, 1, 1\)", "raises"),
    same('F.pad(x(2, 3), (1, 1), mode="reflect")'),
    raises('F.pad(x(1, 1, 4, 4), (5, 5, 5, 5), mode="reflect")', r"F\.pad.*pad.*'reflect'.*3.*4.*\(5, 5\)", "raises"),
    raises("F.one_hot(ids(4), 2)", r"F\.one_hot.*tensor.*0.*1.*0.*2", "raises"),
    raises("F.glu(x(4, 3))", r"F\.glu.*1.*\(4, 3\)", "raises"),
    raises("F.linear(x(2, 3), x(3, 4))", r"F\.linear.*input.*\(\*, 4\).*\(2, 3\)", "raises"),
    raises("run(nn.Flatten(), x(4))", r"Flatten.*dimension.*1.*0.*1.*\(4,\)", "raises"),
    raises("run(nn.Unflatten(1, (2, 2)), x(2, 5))", r"Unflatten.*1.*5.*\(2, 2\)", "raises"),
    raises("run(nn.PReLU(3), x(2, 4, 5))", r"F\.prelu.*weight.*4.*1.*\(3,\).*\(2, 4, 5\)", "raises"),
    raises(
        "run(nn.Sequential(nn.Conv2d(1, 4, 3), nn.Flatten(), nn.Linear(100, 10)), x(2, 1, 8, 8))",
        r"F\.linear.*input.*\(\*, 100\).*\(2, 144\)",
        "raises",
    ),
    raises(
        "run(nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(16, 2)), x(3, 4))",
        r"F\.linear.*input.*\(\*, 16\).*\(3, 8\)",
        "raises",
    ),
    raises("run(nn.Sequential(nn.LSTM(4, 8), nn.Linear(8, 2)), x(5, 2, 4))", r"F\.linear.*input.*tuple", "raises"),
    raises(
        "F.grid_sample(x(1, 1, 4, 4), x(1, 2, 4, 4))",
        r"F\.grid_sample.*grid.*\(1, 1, 4, 4\).*\(1, h, w, 2\).*\(1, 2, 4, 4\)",
        "raises",
    ),
    silent("F.layer_norm(x(2, 3), 3)", "an int is accepted for a single dimension", "raises"),
    raises("F.batch_norm(x(2, 3), x(3))", r"batch_norm.*\(\).*1.*'running_var'", "raises"),
    raises("F.embedding(x(10, 4), ids(2))", r"F\.embedding.*input.*float32.*int32", "raises"),
    raises("F.fold(x(1, 8, 9), (4, 4), (3, 3))", r"F\.fold.*9.*kernel_size.*\(3, 3\).*8", "raises"),
    raises(
        "nn.utils.rnn.pad_sequence([x(3, 2), x(4, 3)])",
        r"pad_sequence.*sequences.*\(length, \*\).*\(3, 2\).*\(4, 3\)",
        "raises",
    ),
    raises("nn.utils.rnn.pack_padded_sequence(x(5, 2, 3), [3, 5])", r"pack_padded_sequence.*lengths.*3.*5", "raises"),
    raises(
        "nn.utils.rnn.pack_padded_sequence(x(5, 2, 3), [6, 5])", r"pack_padded_sequence.*lengths.*2.*1.*5.*6", "silent"
    ),
]
