"""Functions that torch has under two names, such as `torch.conv1d` and `torch.nn.functional.conv1d`.

For both names, the rules write the function of `funcnet.functional`, which ported files import as `F`.
"""

from funcnet.porting.rule_engine.rule import Rule, rule

__all__ = ["ROWS"]

_STATISTICS = (
    "F.{0} returns (output, running_mean, running_var). Assign the last two to the buffers, as in "
    "self.running_mean = running_mean."
)
_TRIPLE = "No function returns the mean and the reciprocal of the deviation too. Compute them with tl.var_mean."

# Functions that have the same signature in both places.
_SAME = (
    "adaptive_avg_pool1d(input, output_size)",
    "avg_pool1d(input, kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True)",
    "bilinear(input1, input2, weight, bias=None)",
    "celu(input, alpha=1.0)",
    "channel_shuffle(input, groups)",
    "conv_tbc(input, weight, bias, pad=0)",
    "cosine_similarity(x1, x2, dim=1, eps=1e-08)",
    *(f"conv{n}d(input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1)" for n in (1, 2, 3)),
    *(
        f"conv_transpose{n}d(input, weight, bias=None, stride=1, padding=0, output_padding=0, groups=1, dilation=1)"
        for n in (1, 2, 3)
    ),
    "group_norm(input, num_groups, weight=None, bias=None, eps=1e-05)",
    "layer_norm(input, normalized_shape, weight=None, bias=None, eps=1e-05)",
    *(f"max_pool{n}d(input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False)" for n in (1, 2, 3)),
    "native_channel_shuffle(input, groups)",
    "pairwise_distance(x1, x2, p=2.0, eps=1e-06, keepdim=False)",
    "pdist(input, p=2.0)",
    "pixel_shuffle(input, upscale_factor)",
    "pixel_unshuffle(input, downscale_factor)",
    "rms_norm(input, normalized_shape, weight=None, eps=None)",
    "selu(input)",
    "threshold(input, threshold, value)",
    *(
        f"{cell}(input, hx, w_ih, w_hh, b_ih=None, b_hh=None)"
        for cell in ("gru_cell", "rnn_relu_cell", "rnn_tanh_cell")
    ),
)

# These functions of torch take the reduction as a number. Its documented default is 1, but torch uses 0.
_REDUCTIONS = {0: "none", 1: "mean", 2: "sum"}
_LOSSES = (
    ("binary_cross_entropy_with_logits(input, target, weight=None, pos_weight=None, reduction=0)",
     "pos_weight=pos_weight"),
    ("cosine_embedding_loss(input1, input2, target, margin=0.0, reduction=0)", ""),
    ("ctc_loss(log_probs, targets, input_lengths, target_lengths, blank=0, reduction=0, zero_infinity=False)",
     "zero_infinity=zero_infinity"),
    ("hinge_embedding_loss(input, target, margin=1.0, reduction=0)", ""),
    ("kl_div(input, target, reduction=0, *, log_target=False)", "log_target=log_target"),
    ("margin_ranking_loss(input1, input2, target, margin=0.0, reduction=0)", ""),
    ("poisson_nll_loss(input, target, log_input, full, eps, reduction)", "eps=eps"),
    ("triplet_margin_loss(anchor, positive, negative, margin=1.0, p=2.0, eps=1e-06, swap=False, reduction=0)", ""),
)  # fmt: skip


def _names(signature: str) -> list[str]:
    """Return the parameter names in the text of a signature."""
    parts = signature.partition("(")[2].removesuffix(")").split(", ")
    return [part.partition("=")[0] for part in parts if part != "*"]


def _call(signature: str) -> str:
    """Return a call of a function of `F` that passes on all parameters of a signature, those with defaults by name."""
    parts = signature.partition("(")[2].removesuffix(")").split(", ")
    given = [f"{part.partition('=')[0]}={part.partition('=')[0]}" if "=" in part else part for part in parts]
    return f"F.{signature.partition('(')[0]}({', '.join(given)})"


def _loss(signature: str, by_name: str, number: int, word: str) -> tuple[Rule, ...]:
    positional = [n for n in _names(signature) if n != "reduction" and f"{n}={n}" not in by_name]
    further = [by_name] if by_name else []
    given = ", ".join([*positional, *further, *([f"reduction='{word}'"] if number != 1 else [])])
    name = signature.partition("(")[0]
    return rule(f"torch.{signature}", f"F.{name}({given})", when=f"reduction.equals({number})")


_SAVED = "running_mean, running_var"
_NORMS = tuple(
    row
    for name, flag in (("batch_norm", "training"), ("instance_norm", "use_input_stats"))
    for signature in (f"torch.{name}(input, weight, bias, {_SAVED}, {flag}, momentum, eps, cudnn_enabled)",)
    for call in (f"F.{name}(input, {_SAVED}, weight, bias, {flag}, momentum, eps)",)
    for row in (
        rule(signature, f"{call}[0]", when=f"running_mean.is_only('none') or {flag}.equals(False)", kind="semantic"),
        rule(signature, kind="register", note=_STATISTICS.format(name)),
    )
)

_RECURRENT = tuple(
    row
    for name in ("gru", "rnn_relu", "rnn_tanh", "lstm")
    for row in (
        rule(
            f"torch.{name}(input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first)",
            f"F.{name}(input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first, rng=rng)",
            when="params.is_only('list', 'tuple')",
            kind="structural",
            result="tuple",
        ),
        rule(
            f"torch.{name}(data, batch_sizes, hx, params, has_biases, num_layers, dropout, train, bidirectional)",
            kind="register",
            note=f"F.{name} takes a padded batch and lengths=.",
        ),
    )
)

_DROPOUT = tuple(
    rule(f"torch.{name}(input, p, train)", f"F.{ours}(input, p, train, rng=rng)", kind="structural")
    for name, ours in (
        ("dropout", "dropout"),
        ("alpha_dropout", "alpha_dropout"),
        ("feature_alpha_dropout", "feature_alpha_dropout"),
    )
)

_MODES = (
    "F.grid_sample(input, grid, ('bilinear', 'nearest', 'bicubic')[interpolation_mode], "
    "('zeros', 'border', 'reflection')[padding_mode], align_corners)"
)

_OTHERS = (
    rule("both.relu(input)", "F.relu(input)"),
    rule("both.prelu(input, weight)", "F.prelu(input, weight)"),
    rule("both.hardshrink(input, lambd=0.5)", "F.hardshrink(input, lambd)"),
    rule("both.softmax(input, dim, dtype=None)", "F.softmax(input, dim, dtype=dtype)"),
    rule("both.log_softmax(input, dim, dtype=None)", "F.log_softmax(input, dim, dtype=dtype)"),
    rule("torch.lstm_cell(input, hx, w_ih, w_hh, b_ih=None, b_hh=None)",
         "F.lstm_cell(input, hx, w_ih, w_hh, b_ih=b_ih, b_hh=b_hh)", result="tuple"),
    rule("torch.rrelu(input, lower=0.125, upper=0.3333333333333333, training=False)",
         "F.rrelu(input, lower=lower, upper=upper, training=training, rng=rng)", kind="structural"),
    rule("torch.feature_dropout(input, p, train)", "F.dropout1d(input, p, train, rng=rng)", when="input.ndim == 3",
         kind="structural"),
    rule("torch.feature_dropout(input, p, train)", "F.dropout2d(input, p, train, rng=rng)", when="input.ndim == 4",
         kind="structural"),
    rule("torch.feature_dropout(input, p, train)", "F.dropout3d(input, p, train, rng=rng)", when="input.ndim == 5",
         kind="structural"),
    rule("torch.adaptive_max_pool1d(input, output_size)",
         "F.adaptive_max_pool1d(input, output_size, return_indices=True)", result="tuple"),
    rule("torch.max_pool1d_with_indices(input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False)",
         "F.max_pool1d(input, kernel_size, stride=stride, padding=padding, dilation=dilation, ceil_mode=ceil_mode, "
         "return_indices=True)", result="tuple"),
    rule("torch.embedding(weight, indices, padding_idx=-1, scale_grad_by_freq=False, sparse=False)",
         "F.embedding(indices, weight, scale_grad_by_freq=scale_grad_by_freq, sparse=sparse)",
         when="padding_idx.equals(-1)"),
    rule("torch.embedding(weight, indices, padding_idx=-1, scale_grad_by_freq=False, sparse=False)",
         "F.embedding(indices, weight, padding_idx, scale_grad_by_freq=scale_grad_by_freq, sparse=sparse)"),
    rule("torch.embedding_bag(weight, indices, offsets, scale_grad_by_freq=False, mode=0, sparse=False)",
         kind="register", note="Write F.embedding_bag(indices, weight, offsets, mode=...)."),
    rule("torch.grid_sampler(input, grid, interpolation_mode, padding_mode, align_corners)", _MODES),
    rule("torch.grid_sampler_2d(input, grid, interpolation_mode, padding_mode, align_corners)", _MODES),
    rule("torch.grid_sampler_3d(input, grid, interpolation_mode, padding_mode, align_corners)", _MODES),
    rule("torch.affine_grid_generator(theta, shape, align_corners)", "F.affine_grid(theta, shape, align_corners)"),
    rule("torch.native_dropout(input, p, train)", kind="register",
         note="Draw the mask with jax.random.bernoulli and multiply by it."),
    rule("torch.native_layer_norm(input, normalized_shape, weight, bias, eps)", kind="register", note=_TRIPLE),
    rule("torch.native_group_norm(input, weight, bias, N, C, HxW, group, eps)", kind="register", note=_TRIPLE),
    rule("torch.native_batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps)",
         kind="register", note=_TRIPLE),
)  # fmt: skip

ROWS = (
    *(rule(f"torch.{signature}", _call(signature)) for signature in _SAME),
    *(_loss(signature, by_name, *one) for signature, by_name in _LOSSES for one in _REDUCTIONS.items()),
    *_NORMS,
    *_RECURRENT,
    *_DROPOUT,
    *_OTHERS,
)
