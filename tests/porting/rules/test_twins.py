"""Rules of functions that torch also has in torch.nn.functional, against torch."""

import pytest
import torch

from funcnet.porting.rewriting.rewriter import port_expression

from .exceptions_pointwise import REGISTERED
from .op_samples import FORMS, agree, check, outcome

NAMES = (
    "softmax", "softmax/with_dtype", "log_softmax", "log_softmax/with_dtype", "grid_sampler_2d",
    pytest.param("grid_sampler_3d", marks=pytest.mark.slow),
)  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", NAMES)
def test_samples_of_the_database(name, form):
    agree(name, form)


@pytest.mark.parametrize("name", REGISTERED)
def test_what_is_registered(name):
    for form in FORMS:
        seen = outcome(name, form)
        assert not seen.failures and len(seen.undecided) == seen.samples


def drawn(*shape):
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(0), requires_grad=True)


TENSORS = {
    "x": drawn(2, 4, 9), "y": drawn(2, 4, 9).detach().flip(0).requires_grad_(), "u": drawn(2, 4, 6, 6),
    "v": drawn(2, 4, 4, 4, 4), "w": drawn(6, 4, 3), "t": drawn(4, 3, 3), "b": drawn(6), "f": drawn(4),
    "k": drawn(6, 4, 3, 3),
    "K": drawn(6, 4, 2, 2, 2), "p": drawn(2, 4, 9).sigmoid().detach(), "l": torch.tensor([1, -1]), "q": drawn(2, 5),
    "h": drawn(2, 3), "r": drawn(2, 3).detach().flip(0).requires_grad_(), "W": drawn(9, 5), "U": drawn(9, 3),
    "B": drawn(9),
    "i": torch.tensor([[0, 2, 5], [1, 1, 4]]), "m": drawn(4).detach(), "s": drawn(4).detach().exp(),
    "R": drawn(3, 5), "S": drawn(3, 3), "C": drawn(3), "o": drawn(5, 2, 5), "H": drawn(1, 2, 3), "L": drawn(12, 5),
    "M": drawn(12, 3), "N": drawn(12),
}  # fmt: skip

CALLS = [
    "torch.conv1d(x, w, b, stride=2, padding=1)", "torch.conv1d(x, w, padding='same')", "torch.conv2d(u, k, b, 1, 1)",
    "torch.conv3d(v, K)", "torch.conv_transpose1d(x, t, stride=2, output_padding=1)",
    "torch.conv_tbc(o, R.t()[None], C, 0)",
    "torch.layer_norm(x, (9,))", "torch.layer_norm(x, [4, 9], eps=0.1, cudnn_enable=False)", "torch.rms_norm(x, (9,))",
    "torch.group_norm(x, 2, f, f, 1e-3)", "torch.batch_norm(x, f, f, m, s, False, 0.1, 1e-5, True)",
    "torch.batch_norm(x, None, None, None, None, True, 0.1, 1e-5, False)",
    "torch.instance_norm(x, f, f, None, None, True, 0.1, 1e-5, False)", "torch.relu(x)", "x.relu()", "torch.selu(x)",
    "torch.celu(x, 0.5)", "torch.threshold(x, 0.1, 2.0)", "torch.prelu(x, f)", "x.prelu(f)", "torch.hardshrink(x, 0.3)",
    "x.hardshrink()", "x.softmax(1)", "torch.softmax(x, dim=-1)", "x.log_softmax(-1)", "torch.log_softmax(x, 0)",
    "torch.max_pool1d(x, 3)", "torch.max_pool2d(u, (2, 3), stride=1, padding=1)", "torch.max_pool3d(v, 2)",
    "torch.avg_pool1d(x, 3, ceil_mode=True)", "torch.adaptive_avg_pool1d(x, 4)", "torch.adaptive_max_pool1d(x, 4)",
    "torch.max_pool1d_with_indices(x, 3, 2)", "torch.embedding(b[:, None], i)", "torch.embedding(b[:, None], i, 1)",
    "torch.cosine_similarity(x, y, dim=2)", "torch.pairwise_distance(h, r)", "torch.pdist(x[0], 1.0)",
    "torch.pixel_shuffle(u, 2)", "torch.pixel_unshuffle(u, 3)", "torch.channel_shuffle(u, 2)",
    "torch.bilinear(h, r, S[None], C[:1])",
    "torch.native_channel_shuffle(u.detach(), 2)", "torch.grid_sampler(u, u[:, :2].permute(0, 2, 3, 1), 1, 1, True)",
    "torch.affine_grid_generator(x[:, :2, :3], [2, 3, 4, 5], False)",
    *(f"torch.{name}, reduction={number})" for number in (0, 1, 2) for name in (
        "binary_cross_entropy_with_logits(x, p", "binary_cross_entropy_with_logits(x, p, p, pos_weight=p",
        "cosine_embedding_loss(h, r, l, 0.1", "hinge_embedding_loss(h, l[:, None].expand(2, 3), 2.0", "kl_div(x, p",
        "kl_div(x, y, log_target=True", "margin_ranking_loss(h[:, 0], r[:, 0], l",
        "triplet_margin_loss(h, r, r * r, swap=True")),
    *(f"torch.poisson_nll_loss(x, p, True, False, 1e-8, {number})" for number in (0, 1, 2)),
    "torch.cosine_embedding_loss(h, r, l)", "torch.hinge_embedding_loss(h, l[:, None].expand(2, 3))",
    "torch.binary_cross_entropy_with_logits(x, p)", "torch.margin_ranking_loss(h[:, 0], r[:, 0], l)",
    "torch.triplet_margin_loss(h, r, r * r)",
    "torch.ctc_loss(o.log_softmax(-1), i[:, :2] % 4 + 1, [5, 5], [2, 1])", "torch.kl_div(x, p)",
    "torch.gru_cell(q, h, W, U, B, B)", "torch.rnn_tanh_cell(q, h, R, S, C, C)", "torch.rnn_relu_cell(q, h, R, S)",
    "torch.lstm_cell(q, [h, r], L, M, N, N)", "torch.gru(o, H, [W, U, B, B], True, 1, 0.0, False, False, False)",
    "torch.rnn_tanh(o, H, [R, S], False, 1, 0.0, False, False, False)",
    "torch.lstm(o, (H, H), (L, M, N, N), True, 1, 0.0, False, False, False)",
    "torch.dropout(x, 0.5, True)", "torch.alpha_dropout(x, 0.5, True)", "torch.feature_dropout(x, 0.5, True)",
    "torch.feature_alpha_dropout(u, 0.5, True)", "torch.rrelu(x, training=True)", "torch.rrelu(x)",
]  # fmt: skip


@pytest.mark.parametrize("text", CALLS)
def test_calls(text):
    assert check(text, {name: value for name, value in TENSORS.items() if name in text.replace("torch", "")}) is None


def test_batch_norm_in_training_is_registered():
    text = "torch.batch_norm(x, None, None, m, s, True, 0.1, 1e-5, False)"
    _, undecided = port_expression(text, {})
    assert [one.level for one in undecided] == ["blocks"]


def test_names_without_a_call():
    assert port_expression("torch.relu", {})[0] == "F.relu"
    assert port_expression("torch.layer_norm", {})[0] == "F.layer_norm"
