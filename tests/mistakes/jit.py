"""Values, shapes and options under jit, changes after it, and transformations."""

from tests.mistakes import raises, silent, warns

__all__ = ["MISTAKES"]

MISTAKES = [
    raises(('f = jax.jit(lambda v: run(Net("", "return x if x.sum() > 0 else -x"), v))\nf(x(3))'), r"bool.*1"),
    raises('jax.jit(lambda v: run(Net("", "return x * float(x.sum())"), v))(x(3))', r"float32"),
    raises('jax.jit(lambda v: run(Net("", "return x.sum().item()"), v))(x(3))', r"float32.*\(\).*jax\.Array.*1"),
    raises('jax.jit(lambda v: run(Net("", "return x[x > 0]"), v))(x(3))', r"bool.*3.*docs\.jax\.dev.*errors\.html"),
    raises(
        'jax.jit(lambda v: run(Net("", "import numpy as np\\nreturn np.asarray(x)"), v))(x(3))',
        r"numpy\.ndarray.*__array__.*\(\).*float32",
    ),
    raises("jax.jit(lambda v, n: run(nn.Linear(4, 2), v[:n]))(x(3, 4), 2)", r"Slice entries must be static integers"),
    raises("jax.jit(lambda v, n: F.one_hot(v, n))(ids(3), 3)", r"bool.*1"),
    raises("jax.jit(F.one_hot)(ids(3))", r"F\.one_hot.*num_classes.*1"),
    raises("jax.jit(F.dropout)(x(3), 0.5, True, rng=key)", r"bool.*dropout\.py"),
    silent("jax.jit(lambda v, p: F.dropout(v, p, rng=key))(x(3), 0.5)", "a rate may be traced"),
    raises("jax.jit(F.softmax)(x(3), 0)", r"bool.*softmax\.py"),
    raises(
        'jax.jit(F.cross_entropy, static_argnames="reduction")(x(4, 3), ids(4), reduction="avg")',
        r"F\.cross_entropy.*reduction.*'none'.*'mean'.*'sum'.*'avg'",
    ),
    raises('jax.jit(F.cross_entropy)(x(4, 3), ids(4), reduction="sum")', r"cross_entropy"),
    raises(
        "nn.checked(nn.Embedding(3, 4))(*started(nn.Embedding(3, 4)), ids(3) + 5)",
        r"the root \(Embedding\).*ids.*0.*2.*5.*7",
    ),
    raises("jax.jit(lambda k: F.max_pool2d(x(1, 1, 4, 4), k))(2)", r"__index__.*\(\).*int32.*1"),
    raises("jax.jit(lambda n: F.interpolate(x(1, 1, 4, 4), size=n))(2)", r"__index__.*\(\).*int32.*1"),
    raises("jax.jit(lambda n: nn.Linear(n, 2))(4)", r"Parameter.*\(a tuple of ints\)"),
    raises(
        "jax.jit(lambda n: nn.utils.rnn.pack_padded_sequence(x(5, 2, 3), n))(ids(2))",
        r"pack_padded_sequence.*lengths.*int32.*2",
    ),
    raises("jax.jit(nn.Linear(4, 2))(x(3, 4))", r"Linear.*a description holds no arrays and cannot be called directly"),
    raises("jax.jit(nn.Linear(4, 2).apply)(x(3, 4))", r"Linear\.apply.*NoneType"),
    raises(
        ("net = nn.Linear(4, 2)\np, s = started(net)\njax.jit(net.apply)(p, s, x(3, 4), training=True)"),
        r"Linear\.apply.*training.*bool.*bool.*\(bool\[\]\)",
    ),
    raises(
        ("net = nn.Linear(4, 2)\np, s = started(net)\njax.jit(net.apply)(net, p, s, x(3, 4))"),
        r"Module\.apply.*\(in_features=4, out_features=2, bias=True\)",
    ),
    warns(
        (
            "net = nn.Sequential(nn.Linear(4, 4), nn.Tanh())\n"
            "p, s = started(net)\n"
            "f = jax.jit(net.apply)\n"
            "f(p, s, x(3, 4))\n"
            'exec("net[1] = nn.ReLU()")\n'
            "f(p, s, x(3, 4))[0]"
        ),
        r"Sequential.*'1'.*jax\.jit",
    ),
    warns(
        (
            "net = nn.Linear(4, 2)\n"
            "p, s = started(net)\n"
            "f = jax.jit(net.apply)\n"
            "f(p, s, x(3, 4))\n"
            "net.weight.requires_grad_(False)\n"
            "f(p, s, x(3, 4))[0]"
        ),
        r"Parameter.*'requires_grad'.*jax\.jit",
    ),
    warns(
        (
            "net = nn.Dropout(0.5)\n"
            "f = jax.jit(functools.partial(net.apply, training=True))\n"
            "f({}, {}, x(3), rng=key)\n"
            'setattr(net, "p", 0.9)\n'
            "f({}, {}, x(3), rng=key)[0]"
        ),
        r"Dropout.*'p'.*jax\.jit",
    ),
    raises(
        (
            'net = Net("self.d = nn.Dropout(0.5)", "import jax\\nreturn jax.lax.scan(lambda c, _: (self.d(c), '
            'None), x, length=3)[0]")\n'
            "net.apply({}, {}, x(3, 4), training=True, rng=key)"
        ),
        r"d \(Dropout\).*randomness.*\(lax\.scan, vmap, jit, jax\.checkpoint, …\)",
    ),
    raises(
        (
            'net = Net("self.d = nn.Dropout(0.5)", "import jax\\nreturn jax.vmap(self.d)(x)")\n'
            'net.apply({"d": {}}, {"d": {}}, x(3, 4), training=True, rng=key)'
        ),
        r"d \(Dropout\).*randomness.*\(lax\.scan, vmap, jit, jax\.checkpoint, …\)",
    ),
    raises(
        (
            'net = Net("self.b = nn.BatchNorm1d(4)", "import jax\\nreturn jax.jit(self.b)(x)")\n'
            "p, s = started(net)\n"
            "net.apply(p, s, x(3, 4), training=True)"
        ),
        r"b \(BatchNorm1d\).*'running_mean'.*\(lax\.scan, vmap, jit, jax\.checkpoint, …\)",
    ),
    raises(
        (
            'net = Net("self.b = nn.BatchNorm1d(4)", "import jax\\nreturn jax.checkpoint(self.b)(x)")\n'
            "p, s = started(net)\n"
            "net.apply(p, s, x(3, 4), training=True)"
        ),
        r"b \(BatchNorm1d\).*'running_mean'.*\(lax\.scan, vmap, jit, jax\.checkpoint, …\)",
    ),
    warns(
        ('net = Net("self.seen = []", "self.seen.append(x)\\nreturn x")\njax.jit(net.apply)({}, {}, x(3))[0]'),
        r"the root \(Net\).*forward.*'seen'.*list",
    ),
    raises(
        'net = Net("", "if first:\\n    self.h = x\\nreturn self.h", "x, first")\n'
        "run = jax.jit(net.apply, static_argnums=3)\nrun({}, {}, x(3), True)\nrun({}, {}, x(3), False)",
        r"'h'.*register_buffer",
    ),
    raises(
        ('net = Net("", "return x if mode == \'a\' else -x", "x, mode")\njax.jit(net.apply)({}, {}, x(3), "a")'),
        r"Module\.apply.*\(\)",
    ),
    raises(
        ('net = Net("", "return x if flag else -x", "x, flag")\njax.jit(net.apply)({}, {}, x(3), True)'),
        r"bool.*module\.py",
    ),
    raises(
        ('net = Net("", "return F.dropout(x, 0.5, training)", "x, training")\nnet.apply({}, {}, x(3), training=True)'),
        r"Net\.apply.*forward.*'training'.*1",
    ),
    raises(
        ('net = Net("", "return x", "x, rng=None")\nnet.apply({}, {}, x(3), rng=key)'), r"Net\.apply.*forward.*'rng'.*1"
    ),
    raises(
        ("net = nn.Linear(4, 2)\np, s = started(net)\njax.grad(lambda p: net.apply(p, s, x(3, 4)))(p)"),
        r"Gradient only defined for scalar\-output functions",
    ),
    raises(
        ("net = nn.Linear(4, 2)\np, s = started(net)\njax.grad(lambda p: net.apply(p, s, x(3, 4)), has_aux=True)(p)"),
        r"Gradient only defined for scalar\-output functions",
    ),
    raises(
        ("net = nn.Linear(4, 2)\np, s = started(net)\njax.grad(lambda p: net.apply(p, s, x(3, 4))[0])(p)"),
        r"Gradient only defined for scalar\-output functions",
    ),
    raises(
        ("net = nn.BatchNorm1d(4)\np, s = started(net)\njax.grad(lambda s: net.apply(p, s, x(3, 4))[0].sum())(s)"),
        r"\(input dtype that is a sub\-dtype of np\.inexact\).*int32",
    ),
    raises(
        (
            "net = nn.BatchNorm1d(4)\n"
            "p, s = started(net)\n"
            "jax.vmap(lambda v: net.apply(p, s, v, training=True)[0])(x(5, 4))"
        ),
        r"BatchNorm1d.*\(4,\)",
    ),
    raises(("net = nn.Linear(4, 2)\njax.jit(net.init)(0)"), r"Linear\.init.*rng.*int32.*\(\)"),
    raises(
        (
            "nn.Repeat(nn.Linear(4, 3), 3, scan=True).init(key) and run(nn.Repeat(nn.Linear(4, 3), 3, "
            "scan=True), x(2, 4))"
        ),
        r"\* \(Linear\).*float32.*2.*4.*float32",
    ),
    raises("nn.Repeat(nn.Linear, 3)", r"Repeat\.0.*expected a Module or None, got type\."),
    raises("nn.Repeat(nn.Linear(4, 4), 0)", r"Repeat.*1.*n=0"),
    raises("nn.remat(nn.Linear)", r"nn\.remat.*layer.*nn\.Linear.*\(2, 2\)"),
    raises("nn.remat(lambda x: x)", r"nn\.remat.*layer.*nn\.Linear.*\(2, 2\)"),
    raises("nn.LazyLinear(2).init(key)", r"init.*'weight'"),
    raises(
        ("p, s = nn.LazyLinear(2).init(key, x(3, 4))\nnn.LazyLinear(2).apply(p, s, x(3, 5))"),
        r"F\.linear.*input.*\(\*, 4\).*\(3, 5\)",
    ),
]
