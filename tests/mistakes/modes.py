"""Training and eval mode, keys, dropout, BatchNorm, calls and hooks."""

from tests.mistakes import raises, same, silent, warns

__all__ = ["MISTAKES"]

MISTAKES = [
    raises("nn.Linear(4, 2).train()", r"Linear\.train.*a description has no mode", "silent"),
    raises("nn.Linear(4, 2).eval()", r"Linear\.eval.*a description has no mode", "silent"),
    silent("nn.Linear(4, 2).cuda()", "a description has no arrays, and jax.device_put moves those of params"),
    silent('nn.Linear(4, 2).to("cuda")', "a description has no arrays, and jax.device_put moves those of params"),
    raises(
        ('net = nn.Linear(4, 2)\nsetattr(net, "training", True)'), r"Linear\.training.*The mode is an argument of apply"
    ),
    warns(
        ("net = nn.Dropout(0.5)\nnet(x(3))"), r"a description was called like a function, which runs it in eval mode"
    ),
    raises(
        ("p, s = started(nn.Dropout(0.5))\nnn.Dropout(0.5).apply(p, s, x(3), training=True)"),
        r"the root \(Dropout\).*the module needs randomness",
    ),
    raises(
        (
            "net = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5))\n"
            "p, s = started(net)\n"
            "net.apply(p, s, x(3, 4), training=True)"
        ),
        r"1 \(Dropout\).*the module needs randomness",
    ),
    raises(
        "run(nn.Dropout(0.5), x(3), training=True, rng=0)",
        r"Dropout\.apply.*rng has the wrong type; expected a key, got int",
    ),
    raises(
        "run(nn.Dropout(0.5), x(3), training=True, rng=np.random.default_rng(0))",
        r"Dropout\.apply.*rng has the wrong type; expected a key, got Generator",
    ),
    raises("run(nn.Dropout(0.5), x(3), training=True, rng=jax.random.split(key))", r"Dropout\.apply.*rng.*\(2,\)"),
    raises("run(nn.Dropout(0.5), x(3), training=True, rng=x(2))", r"Dropout\.apply.*rng.*float32.*\(2,\)"),
    raises("run(nn.Dropout(0.5), x(3), training=True, rng=jax.random.PRNGKey(0))", r"random\.dropout_mask.*\(2,\)"),
    raises("run(nn.Linear(4, 2), x(3, 4), train=True)", r"Linear\.apply.*'train'.*\(input\).*'train'"),
    raises(
        "run(nn.Linear(4, 2), x(3, 4), is_training=True)", r"Linear\.apply.*'is_training'.*\(input\).*'is_training'"
    ),
    raises("run(nn.Linear(4, 2), x(3, 4), traning=True)", r"Linear\.apply.*'traning'.*\(input\).*'traning'"),
    raises('run(nn.Linear(4, 2), x(3, 4), training="train")', r"Linear\.apply.*training.*bool.*bool.*'train'"),
    raises("run(nn.Linear(4, 2), x(3, 4), training=1)", r"Linear\.apply.*training.*bool.*bool.*1"),
    raises("run(nn.Linear(4, 2), x(3, 4), training=None)", r"Linear\.apply.*training.*bool.*bool"),
    raises(
        'run(nn.Sequential(nn.Linear(4, 2)), x(3, 4), training={"fc": True})',
        r"Sequential\.apply\(training=…\).*pattern.*'fc'",
    ),
    raises(
        'run(nn.Sequential(nn.Linear(4, 2)), x(3, 4), training={"0": "train"})',
        r"Sequential\.apply.*training.*bool.*bool.*'0'.*'train'",
    ),
    raises(
        'run(nn.Sequential(nn.Linear(4, 2)), x(3, 4), training=["0"])', r"Sequential\.apply.*training.*bool.*bool.*'0'"
    ),
    raises(
        ("net = nn.Dropout(0.5)\njax.jit(net.apply)({}, {}, x(3), training=True, rng=key)"),
        r"Dropout\.apply.*training.*bool.*bool.*\(bool\[\]\)",
    ),
    raises("nn.Linear(4, 2).init(0)", r"Linear\.init.*rng has the wrong type; expected a key, got int"),
    raises("nn.Linear(4, 2).init()", r"Module\.init.*\(\).*1.*'rng'"),
    raises("nn.Linear(4, 2).init(x(2))", r"Linear\.init.*rng.*float32.*\(2,\)"),
    raises("nn.Linear(4, 2).init(jax.random.split(key))", r"Linear\.init.*rng.*\(2,\)"),
    raises(
        "nn.Linear(4, 2).init(torch.Generator())",
        r"Linear\.init.*rng has the wrong type; expected a key, got Generator",
    ),
    raises("nn.Dropout(1.5)", r"Dropout.*probability.*0.*1.*1\.5", "raises"),
    raises("nn.Dropout(-0.1)", r"Dropout.*probability.*0.*1.*0\.1", "raises"),
    same("run(nn.Dropout(0.5, True), x(4))"),
    raises("F.dropout(x(4))", r"F\.dropout.*rng=None"),
    raises(
        "F.dropout(x(4), 0.5, rng=0)",
        r"random\.dropout_mask.*expected one typed key, got int of dtype None and shape None",
    ),
    raises("F.dropout(x(4), 2.0)", r"F\.dropout.*p.*0.*1.*2\.0", "raises"),
    same("F.dropout(x(4), training=False)"),
    raises('F.dropout(x(4), training="no", rng=key)', r"F\.dropout.*training.*'no'"),
    same("F.dropout2d(x(3, 4), training=False)"),
    raises("F.rrelu(x(4), training=True)", r"F\.rrelu.*rng=None"),
    raises("F.gumbel_softmax(x(2, 4))", r"F\.gumbel_softmax.*rng=None"),
    raises('run(Net("", "return F.dropout(x, 0.5)"), x(4))', r"F\.dropout.*rng=None"),
    raises(
        'run(Net("", "return F.dropout(x, 0.5, rng=self.make_rng())"), x(4), rng=None)',
        r"the root \(Net\).*the module needs randomness",
    ),
    raises('run(Net("", "return F.dropout(x, 0.5, self.training)"), x(4), training=True)', r"F\.dropout.*rng=None"),
    raises("run(nn.BatchNorm1d(3), x(1, 3), training=True)", r"F\.batch_norm.*1.*\(1, 3\)", "raises"),
    raises("run(nn.BatchNorm2d(3), x(1, 3, 1, 1), training=True)", r"F\.batch_norm.*1.*\(1, 3, 1, 1\)", "raises"),
    raises("run(nn.GroupNorm(1, 1), x(1, 1), training=True)", r"F\.group_norm.*1.*\(1, 1\).*1", "raises"),
    raises("F.batch_norm(x(1, 3), x(3), x(3), training=True)", r"F\.batch_norm.*1.*\(1, 3\)", "raises"),
    raises(
        ("p, s = started(nn.BatchNorm1d(3))\ny = nn.BatchNorm1d(3).apply(p, s, x(4, 3))\ny.shape"),
        r"\(output, state\).*net\.apply.*\(params, state, x\)",
    ),
    raises(
        ("p, s = started(nn.BatchNorm1d(3))\ny = nn.BatchNorm1d(3).apply(p, s, x(4, 3))\ny * 2"),
        r"\(output, state\).*net\.apply.*\(params, state, x\)",
    ),
    raises(
        ("p, s = started(nn.BatchNorm1d(3))\ny = nn.BatchNorm1d(3).apply(p, s, x(4, 3))\nF.relu(y)"),
        r"\(output, state\).*net\.apply.*\(params, state, x\)",
    ),
    raises(
        ("p, s = started(nn.BatchNorm1d(3))\nnn.BatchNorm1d(3).apply(p, {}, x(4, 3))"),
        r"the root \(BatchNorm1d\).*state.*'running_mean'",
    ),
    raises(
        ("p, s = started(nn.BatchNorm1d(3))\nnn.BatchNorm1d(3).apply(s, p, x(4, 3))"),
        r"the root \(BatchNorm1d\).*params.*'weight'",
    ),
    raises(("p, s = started(nn.BatchNorm1d(3))\nnn.BatchNorm1d(3).apply(p, x(4, 3))"), r"BatchNorm1d\.apply.*dict"),
    raises(("p, s = started(nn.BatchNorm1d(3))\nnn.BatchNorm1d(3).apply(x(4, 3))"), r"BatchNorm1d\.apply.*NoneType"),
    raises(
        ("p, s = started(nn.BatchNorm1d(3))\nnn.BatchNorm1d(3).apply((p, s), x(4, 3))"), r"BatchNorm1d\.apply.*tuple"
    ),
    raises("nn.BatchNorm1d(3).apply(started(nn.BatchNorm1d(3)), x(4, 3))", r"BatchNorm1d\.apply.*tuple"),
    raises("nn.Linear(4, 2)(x(3, 4))", r"Linear.*a description holds no arrays and cannot be called directly"),
    raises(
        "nn.Sequential(nn.ReLU(), nn.Linear(4, 2))(x(3, 4))",
        r"Sequential.*a description holds no arrays and cannot be called directly",
    ),
    raises("nn.Linear(4, 2).forward(x(3, 4))", r"\(\(2, 4\), dtype=float32\)"),
    raises(
        ("net = nn.Sequential(nn.Linear(4, 2))\nnet[0](x(3, 4))"),
        r"Linear.*a description holds no arrays and cannot be called directly",
    ),
    same("run(Net('self.register_forward_hook(lambda m, i, o: o * 2)', 'return x'), x(3))"),
    raises("nn.Linear(4, 2).register_backward_hook(lambda m, i, o: None)", r"Linear\.register_backward_hook"),
    raises(
        (
            "h = nn.Hooks()\n"
            'h.register_forward_hook("fc", lambda m, i, o: None)\n'
            "run(nn.Sequential(nn.Linear(4, 2)), x(3, 4), hooks=h)"
        ),
        r"Sequential\.apply\(hooks=…\).*pattern.*'fc'",
    ),
    raises(('h = nn.Hooks()\nh.register_forward_hook("0", "print")'), r"Hooks.*str"),
    raises(
        (
            "h = nn.Hooks()\n"
            'h.register_full_backward_hook("0", lambda m, gi, go: x(2))\n'
            "jax.grad(lambda v: run(nn.Sequential(nn.Linear(4, 2)), v, hooks=h).sum())(x(3, 4))"
        ),
        r"0 \(Linear\).*full.*'<lambda>'.*'0'.*grad_input.*\(3, 4\)",
    ),
    raises("run(nn.Linear(4, 2), x(3, 4), hooks=lambda m, i, o: o)", r"Linear\.apply.*hooks.*nn\.Hooks"),
    raises(
        'run(Net("", "self.eval()\\nreturn x"), x(4))',
        r"the root \(Net\).*forward changed the training mode, and this change would be lost",
    ),
    raises(
        'run(Net("", "self.train(False)\\nreturn x"), x(4))',
        r"the root \(Net\).*forward changed the training mode, and this change would be lost",
    ),
    raises('run(Net("", "self.training = False\\nreturn x"), x(4))', r"the root \(Net\).*forward.*'training'"),
    raises('nn.capture(nn.Sequential(nn.Linear(4, 2)), "fc")', r"nn\.capture.*pattern.*'fc'"),
    raises(
        'nn.capture(nn.Sequential(nn.Linear(4, 2)), "fc")({"0": {}}, {"0": {}}, x(3, 4))', r"nn\.capture.*pattern.*'fc'"
    ),
    raises('run(nn.Sequential(nn.Linear(4, 2)), x(3, 4), method="encode")', r"Sequential\.apply.*'encode'"),
    raises("run(nn.Linear(4, 2), x(3, 4), x(3, 4))", r"Linear\.forward.*\(\).*2.*3"),
    raises("run(nn.Linear(4, 2))", r"Linear\.forward.*\(\).*1.*'input'", "raises"),
    raises(("net = nn.MSELoss()\nnet(x(3), x(3), training=True)"), r"MSELoss\.forward.*\(\).*'training'"),
]
