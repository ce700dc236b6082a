"""Losses, optimizers, schedules, freezing and clipping."""

from tests.mistakes import raises, same, warns

__all__ = ["MISTAKES"]

MISTAKES = [
    raises(
        'optim.bert_adamw(1e-3, no_decay=["norm"]).init(started(nn.Linear(4, 2))[0])',
        r"optim\.bert_adamw.*no_decay.*'norm'",
    ),
    raises(
        (
            "optim.from_torch(torch.optim.Adam(tnn.Linear(4, 2).parameters()), nn.Linear(4, 2), "
            "optax.adam(1e-3).init(started(nn.Linear(4, 2))[0]))"
        ),
        r"optim\.from_torch.*state_dict.*dict.*'param_groups'.*'state'",
    ),
    raises(
        ('optim.from_torch({"state": {}}, nn.Linear(4, 2), optax.adam(1e-3).init(started(nn.Linear(4, 2))[0]))'),
        r"optim\.from_torch.*state_dict.*dict.*'param_groups'.*'state'",
    ),
    raises(
        (
            "optim.from_torch(torch.optim.Adam(tnn.Linear(4, 2).parameters(), amsgrad=True).state_dict(), "
            "nn.Linear(4, 2), optax.adam(1e-3).init(started(nn.Linear(4, 2))[0]))"
        ),
        r"optim\.from_torch.*amsgrad=False",
    ),
    raises("optim.Adam(nn.Linear(4, 2).parameters(), lr=1e-3)", r"'funcnet\.optim'.*'Adam'"),
    raises("optim.SGD", r"'funcnet\.optim'.*'SGD'"),
    raises("optim.lr_scheduler", r"'funcnet\.optim'.*'lr_scheduler'"),
    raises("torch.optim.Adam(nn.Linear(4, 2).parameters())", r"funcnet\.nn\.core\.parameter\.Parameter"),
    raises(
        "optim.warmup_linear_decay(1e-3, 100, 10)",
        r"optim\.warmup_linear_decay.*0.*warmup_steps.*total_steps.*total_steps",
    ),
    raises(
        "optim.warmup_linear_decay(1e-3, -1, 10)",
        r"optim\.warmup_linear_decay.*0.*warmup_steps.*total_steps.*total_steps",
    ),
    raises("optim.bert_schedule(1e-3, 10, 0)", r"optim\.bert_schedule.*0.*warmup_steps.*total_steps.*total_steps"),
    raises("optim.clip_by_global_norm(-1.0)", r"optim\.clip_by_global_norm.*max_norm.*0.*1\.0"),
    raises(
        ("optim.lamb(1e-3).update(started(nn.Linear(4, 2))[0], optim.lamb(1e-3).init(started(nn.Linear(4, 2))[0]))"),
        r"optim\.lamb.*no_decay.*'\*\*\.LayerNorm'",
    ),
    raises(
        (
            "optim.bert_adamw(1e-3).update(started(nn.Linear(4, 2))[0], "
            "optim.bert_adamw(1e-3).init(started(nn.Linear(4, 2))[0]))"
        ),
        r"optim\.bert_adamw.*no_decay.*'\*\*\.LayerNorm'",
    ),
    raises("optim.swa_utils.get_ema_avg_fn(1.5)", r"swa_utils\.get_ema_avg_fn.*decay.*0.*1.*1\.5"),
    raises(
        'F.cross_entropy(x(4, 3), ids(4), reduction="avg")',
        r"F\.cross_entropy.*reduction.*'none'.*'mean'.*'sum'.*'avg'",
        "raises",
    ),
    warns('F.cross_entropy(x(4, 3), ids(4), None, "sum")', r"F\.cross_entropy.*size_average.*'mean'", "silent"),
    raises(
        'F.mse_loss(x(4), x(4), reduction="batchmean")',
        r"F\.mse_loss.*reduction.*'none'.*'mean'.*'sum'.*'batchmean'",
        "raises",
    ),
    raises("F.mse_loss(x(4), x(4), reduction=None)", r"F\.mse_loss.*reduction.*'none'.*'mean'.*'sum'", "raises"),
    warns("F.mse_loss(x(4), x(4), size_average=False)", r"F\.mse_loss.*size_average.*'sum'", "silent"),
    raises(
        'nn.CrossEntropyLoss(reduction="avg")', r"CrossEntropyLoss.*reduction.*'none'.*'mean'.*'sum'.*'avg'", "silent"
    ),
    raises(
        'nn.CrossEntropyLoss(reduction="avg")(x(4, 3), ids(4))',
        r"CrossEntropyLoss.*reduction.*'none'.*'mean'.*'sum'.*'avg'",
        "raises",
    ),
    raises("nn.CrossEntropyLoss()(x(4, 3))", r"CrossEntropyLoss\.forward.*\(\).*1.*'target'", "raises"),
    raises("nn.CrossEntropyLoss(x(4, 3), ids(4))", r"CrossEntropyLoss.*size_average.*bool", "raises"),
    raises("nn.MSELoss(x(4), x(4))", r"MSELoss.*size_average.*bool", "raises"),
    raises("nn.CrossEntropyLoss(weight=[1.0, 2.0, 3.0])(x(4, 3), ids(4))", r"CrossEntropyLoss\.weight.*list", "raises"),
    raises(
        'nn.CrossEntropyLoss(ignore_index="pad")(x(4, 3), ids(4))', r"F\.cross_entropy.*ignore_index.*'pad'", "raises"
    ),
    same("F.cross_entropy(x(4, 3), ids(4) * 0 - 100)"),
    same("F.cross_entropy(x(4, 3), ids(4) - 1, ignore_index=-1)"),
    raises("F.cross_entropy(x(4, 3), ids(4) - 1)", r"F\.cross_entropy.*target.*0.*2.*1.*1", "raises"),
    same("F.cross_entropy(F.softmax(x(4, 3), dim=1), ids(4))"),
    raises("F.cross_entropy(ids(4), x(4, 3))", r"F\.cross_entropy.*input.*float32.*bfloat16.*int32", "raises"),
    same("F.nll_loss(x(4, 3), ids(4))"),
    raises("F.binary_cross_entropy(x(4) * 3, x(4))", r"F\.binary_cross_entropy.*input.*0.*1.*1\.5.*0\.75", "raises"),
    same("F.binary_cross_entropy_with_logits(x(4), x(4) * 9)"),
    warns("F.kl_div(x(2, 3), x(2, 3))", r"F\.kl_div.*'mean'", "silent"),
    raises(
        'F.kl_div(x(2, 3), x(2, 3), reduction="avg")', r"F\.kl_div.*reduction.*'none'.*'mean'.*'sum'.*'avg'", "raises"
    ),
    raises("F.smooth_l1_loss(x(4), x(4) + 1, beta=-1.0)", r"F\.smooth_l1_loss.*beta.*0.*1\.0", "raises"),
    raises("F.huber_loss(x(4), x(4), delta=0.0)", r"F\.huber_loss.*delta.*0.*0\.0", "raises"),
    raises(
        "F.triplet_margin_loss(x(4, 3), x(4, 3), x(4, 3), margin=-1.0)",
        r"F\.triplet_margin_loss.*margin.*0.*1\.0",
        "raises",
    ),
    raises(
        "F.cosine_embedding_loss(x(4, 3), x(4, 3), x(4, 3))",
        r"F\.cosine_embedding_loss.*\(batch, width\).*\(batch,\).*\(width,\).*\(\)",
        "raises",
    ),
    raises(
        'F.poisson_nll_loss(x(4), x(4), log_input=False, reduction="x")',
        r"F\.poisson_nll_loss.*reduction.*'none'.*'mean'.*'sum'.*'x'",
        "raises",
    ),
    raises("F.ctc_loss(x(5, 2, 4), ids(2, 3), [5, 5], [4, 3])", r"F\.ctc_loss.*target_lengths.*0.*3.*3", "raises"),
    raises("F.ctc_loss(x(5, 2, 4), ids(2, 3) + 1, [5, 5], [3, 3], blank=4)", r"F\.ctc_loss.*blank.*0.*3.*4", "raises"),
    raises(
        "F.multilabel_margin_loss(x(4, 3), x(4, 3))", r"F\.multilabel_margin_loss.*target.*int32.*float32", "raises"
    ),
    raises("F.soft_margin_loss(x(4), x(4, 1))", r"F\.soft_margin_loss.*target.*\(4,\).*\(4, 1\)", "raises"),
    raises('nn.Linear(4, 2).requires_grad_("no").weight.requires_grad', r"Parameter.*requires_grad.*bool.*'no'"),
    raises(
        ("net = nn.Linear(4, 2)\nnet.partition(net)"),
        r"tree.*nested dicts are needed; expected params or state as init re",
    ),
    raises(("net = nn.Linear(4, 2)\nnet.partition({})"), r"Linear\.partition.*'bias'.*'weight'"),
    raises(("net = nn.Linear(4, 2)\nnet.partition(net.init(key))"), r"tree.*nested.*tuple"),
    raises(('net = nn.Linear(4, 2)\nnet.reinit(key, net.init(key)[0], "fc")'), r"Linear\.reinit.*pattern.*'fc'"),
    raises(("loss = F.mse_loss(x(3), x(3))\nloss.backward()"), r"'jaxlib\._jax\.ArrayImpl'.*'backward'"),
    raises("nn.utils.clip_grad_norm(nn.Linear(4, 2), 1.0)", r"optim.*jax\.grad"),
    raises("nn.utils.clip_grad_norm(nn.Linear(4, 2).parameters(), 1.0)", r"optim.*jax\.grad", "silent"),
]
