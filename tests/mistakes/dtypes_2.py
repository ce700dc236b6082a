"""Integers, labels, mixed precision, masks and NumPy's float64."""

from tests.mistakes import raises, same, silent

__all__ = ["MISTAKES"]

MISTAKES = [
    raises(
        "F.binary_cross_entropy_with_logits(x(4), bools(4))",
        r"F\.binary_cross_entropy_with_logits.*target.*float32.*bfloat16.*bool",
        "raises",
    ),
    same("F.binary_cross_entropy_with_logits(x(4), x(4), pos_weight=ids(4))"),
    raises(
        'F.kl_div(x(4, 3), ids(4, 3), reduction="batchmean")', r"F\.kl_div.*target.*float32.*bfloat16.*int32", "raises"
    ),
    raises("F.smooth_l1_loss(x(4), ids(4))", r"F\.smooth_l1_loss.*target.*float32.*bfloat16.*int32", "silent"),
    raises('F.huber_loss(cast(x(4), "bfloat16"), x(4))', r"F\.huber_loss.*bfloat16.*float32", "silent"),
    same("F.margin_ranking_loss(x(4), x(4), ids(4))"),
    same("F.hinge_embedding_loss(x(4), ids(4))"),
    raises("F.multi_margin_loss(x(4, 3), x(4))", r"F\.multi_margin_loss.*target.*int32.*float32", "raises"),
    raises("F.one_hot(x(4))", r"F\.one_hot.*tensor.*int32.*float32", "raises"),
    raises("F.one_hot(bools(4))", r"F\.one_hot.*tensor.*int32.*bool", "raises"),
    raises("F.relu(bools(4))", r"F\.relu.*input.*float32.*int32.*bool", "raises"),
    raises("F.gelu(ids(4))", r"F\.gelu.*input.*float32.*bfloat16.*int32", "raises"),
    same("F.sigmoid(ids(4))"),
    raises("F.softmax(ids(4), dim=0)", r"F\.softmax.*input.*float32.*bfloat16.*int32", "raises"),
    raises("F.softmax(bools(4), dim=0)", r"F\.softmax.*input.*float32.*bfloat16.*bool", "raises"),
    raises("F.log_softmax(ids(4), dim=0)", r"F\.log_softmax.*input.*float32.*bfloat16.*int32", "raises"),
    raises("F.dropout(ids(4), 0.5, True)", r"F\.dropout.*input.*float32.*bfloat16.*int32", "raises"),
    raises("F.normalize(ids(2, 4))", r"F\.normalize.*input.*float32.*bfloat16.*int32", "raises"),
    raises("F.max_pool2d(ids(1, 1, 4, 4), 2)", r"F\.max_pool2d.*input.*float32.*bfloat16.*int32", "silent"),
    raises("F.avg_pool2d(ids(1, 1, 4, 4), 2)", r"F\.avg_pool2d.*input.*float32.*bfloat16.*int32", "silent"),
    raises(
        "F.interpolate(ids(1, 1, 4, 4), scale_factor=2)", r"F\.interpolate.*input.*float32.*bfloat16.*int32", "raises"
    ),
    raises(
        'F.interpolate(ids(1, 1, 4, 4), scale_factor=2, mode="bilinear")',
        r"F\.interpolate.*input.*float32.*bfloat16.*int32",
        "raises",
    ),
    same("F.pad(ids(2, 3), (1, 1), value=0.5)"),
    same("F.pad(bools(2, 3), (1, 1))"),
    raises("F.layer_norm(ids(2, 4), (4,))", r"F\.layer_norm.*input.*float32.*bfloat16.*int32", "raises"),
    raises(
        "F.cosine_similarity(ids(2, 4), ids(2, 4))", r"F\.cosine_similarity.*x1.*float32.*bfloat16.*int32", "raises"
    ),
    raises("F.linear(ids(2, 4), ids(3, 4))", r"F\.linear.*input.*float32.*bfloat16.*int32", "silent"),
    raises("F.bilinear(ids(2, 4), x(2, 3), x(5, 4, 3))", r"F\.bilinear.*input1.*float32.*bfloat16.*int32", "raises"),
    raises("F.prelu(ids(4), x(1))", r"F\.prelu.*input.*float32.*bfloat16.*int32", "raises"),
    raises("F.conv1d(x(1, 2, 4), ids(3, 2, 1))", r"F\.conv1d.*float32.*int32", "raises"),
    raises(
        "F.grid_sample(ids(1, 1, 4, 4), x(1, 2, 2, 2))", r"F\.grid_sample.*input.*float32.*bfloat16.*int32", "raises"
    ),
    raises("F.ctc_loss(x(5, 2, 4), x(2, 3), ids(2) + 5, ids(2) + 1)", r"F\.ctc_loss.*input_lengths.*0.*5.*5", "raises"),
    silent('nn.Linear(4, 2, dtype="float32")', "a dtype may be given by its name, as in NumPy", "raises"),
    raises("nn.Linear(4, 2, dtype=torch.float16)", r"Parameter.*dtype.*jnp\.float32.*torch\.float16"),
    raises("nn.Linear(4, 2, dtype=jnp.int32)", r"Parameter.*'jax\.numpy\.int32'.*nn\.Buffer.*requires_grad=False"),
    silent("nn.Linear(4, 2).half()", "the leaves of a description have a dtype", "silent"),
    raises("nn.Linear(4, 2).to(jnp.int32)", r"Linear.*int32"),
    silent("run(nn.Linear(4, 2), torch.ones(3, 4))", "tensors are converted, with the same values", ""),
    silent("F.relu(torch.ones(3))", "tensors are converted, with the same values", ""),
    raises("tree.cast(nn.Linear(4, 2), jnp.bfloat16)", r"tree\.cast.*expected arrays, such as params, got Linear\."),
    raises('tree.cast({"w": x(2)}, "bfloat")', r"tree\.cast.*dtype.*jnp\.bfloat16.*'bfloat'"),
    raises('tree.cast({"w": x(2)}, torch.float16)', r"tree\.cast.*dtype.*jnp\.bfloat16.*torch\.float16"),
    raises('tree.cast({"w": x(2)}, jnp.int32)', r"tree\.cast.*dtype.*jnp\.bfloat16.*'jax\.numpy\.int32'"),
    raises(
        ("p, s = started(nn.Linear(4, 2))\nnn.Linear(4, 2).apply(tree.cast(p, jnp.bfloat16), s, x(3, 4))"),
        r"F\.linear.*float32.*bfloat16.*bfloat16",
    ),
    raises(
        ("p, s = started(nn.Linear(4, 2))\njax.grad(lambda p: nn.Linear(4, 2).apply(p, s, ids(3, 4))[0].sum())(p)"),
        r"F\.linear.*input.*float32.*bfloat16.*int32",
    ),
]
