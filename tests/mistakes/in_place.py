"""Assignments in forward, changes in place, buffers and methods of torch's tensors."""

from tests.mistakes import raises, same, silent, warns

__all__ = ["MISTAKES"]

MISTAKES = [
    same('run(Net("", "self.h = x * 2\\nreturn self.h"), x(3))'),
    raises(
        'net = Net("", "if first:\\n    self.h = x\\nreturn self.h", "x, first")\n'
        "net.apply({}, {}, x(3), True)\nnet.apply({}, {}, x(3), False)",
        r"'h'.*register_buffer",
    ),
    warns('run(Net("self.h = None", "self.h = x\\nreturn x"), x(3))', r"the root \(Net\).*forward set 'h'", "silent"),
    warns(
        'run(Net("self.count = 0", "self.count += 1\\nreturn x"), x(3))',
        r"the root \(Net\).*forward.*'count'",
        "silent",
    ),
    warns(
        'run(Net("self.seen = []", "self.seen.append(x)\\nreturn x"), x(3))',
        r"the root \(Net\).*forward.*'seen'.*list",
        "silent",
    ),
    warns(
        'run(Net("self.seen = {}", "self.seen[\'x\'] = x\\nreturn x"), x(3))',
        r"the root \(Net\).*forward.*'seen'.*dict",
        "silent",
    ),
    warns(
        'run(Net("self.seen = set()", "self.seen.add(\'x\')\\nreturn x"), x(3))',
        r"the root \(Net\).*forward.*'seen'",
        "silent",
    ),
    warns(
        'run(Net("self.seen = [[]]", "self.seen[0].append(x)\\nreturn x"), x(3))',
        r"the root \(Net\).*forward.*'seen'.*list",
    ),
    raises(
        'run(Net("", "x[0] = 1.0\\nreturn x"), x(3))',
        r"JAX arrays are immutable and do not support in\-place item as",
        "silent",
    ),
    raises(
        'run(Net("", "x[0] += 1.0\\nreturn x"), x(3))',
        r"JAX arrays are immutable and do not support in\-place item as",
        "silent",
    ),
    raises(
        'run(Net("", "x[x < 0] = 0.0\\nreturn x"), x(3))',
        r"JAX arrays are immutable and do not support in\-place item as",
        "silent",
    ),
    same('run(Net("", "x += 1\\nreturn x"), x(3))'),
    raises(
        'run(Net("", "x.add_(1)\\nreturn x"), x(3))',
        r"'jaxlib\._jax\.ArrayImpl'.*'add_'.*Arrays do not change in place\. Assign th",
        "silent",
    ),
    raises(
        'run(Net("", "x.mul_(2)\\nreturn x"), x(3))',
        r"'jaxlib\._jax\.ArrayImpl'.*'mul_'.*Arrays do not change in place\. Assign th",
        "silent",
    ),
    raises(
        'run(Net("", "x.zero_()\\nreturn x"), x(3))',
        r"'jaxlib\._jax\.ArrayImpl'.*'zero_'.*Arrays do not change in place\. Assign th",
        "silent",
    ),
    raises(
        'run(Net("", "return x.view(-1)"), x(3, 2))', r"'\-1'.*An array's x\.view\(dtype\) changes the dty", "silent"
    ),
    raises(
        'run(Net("", "return x.view(3, 2)"), x(3, 2))',
        r"array\.view.*\(\).*An array's x\.view\(dtype\) changes the dty",
        "silent",
    ),
    raises(
        'run(Net("", "return x.permute(1, 0)"), x(3, 2))',
        r"'jaxlib\._jax\.ArrayImpl'.*'permute'.*Use x\.transpose\(0, 2, 1\), with all dimen",
        "silent",
    ),
    raises(
        'run(Net("", "return x.unsqueeze(0)"), x(3, 2))',
        r"'jaxlib\._jax\.ArrayImpl'.*'unsqueeze'.*Use jnp\.expand_dims\(x, axis\) or x\[:, Non",
        "silent",
    ),
    raises('run(Net("", "return x.size(0)"), x(3, 2))', r"'int'.*An array's x\.size and x\.ndim are numbers", "silent"),
    raises('run(Net("", "return x.size()"), x(3, 2))', r"'int'.*An array's x\.size and x\.ndim are numbers", "silent"),
    silent(
        'run(Net("", "return x.transpose(0, 1)"), x(3, 2))', "JAX's own method, which a module cannot see", "silent"
    ),
    raises(
        'run(Net("", "return x.transpose(1, 2)"), x(4, 3, 2))',
        r"\(1, 2\).*\(4, 3, 2\).*x\.transpose takes all dimensions\. For to",
        "silent",
    ),
    raises(
        'run(Net("", "return x.mean(dim=1)"), x(3, 2))',
        r"\(\).*'dim'.*Methods of arrays have NumPy's names: ax",
        "silent",
    ),
    raises(
        'run(Net("", "return x.sum(1, keepdim=True)"), x(3, 2))',
        r"\(\).*'keepdim'.*Methods of arrays have NumPy's names: ke",
        "silent",
    ),
    raises(
        'run(Net("", "return x.float()"), x(3, 2))',
        r"'jaxlib\._jax\.ArrayImpl'.*'float'.*Use x\.astype\(jnp\.float32\)\.",
        "silent",
    ),
    raises(
        'run(Net("", "return x.to(\'cpu\')"), x(3, 2))',
        r"'jaxlib\._jax\.ArrayImpl'.*'to'.*To change the dtype, use x\.astype\(dtype\)\. To c",
        "silent",
    ),
    silent('run(Net("", "return x.max(1)[0]"), x(3, 2))', "JAX's own method, which a module cannot see", "silent"),
    raises('run(Net("", "values, indices = x.max(1)\\nreturn values"), x(3, 2))', r"\(expected 2\)", "silent"),
    raises(
        'run(Net("", "return x.detach()"), x(3, 2))',
        r"'jaxlib\._jax\.ArrayImpl'.*'detach'.*Use jax\.lax\.stop_gradient\(x\)\.",
        "silent",
    ),
    raises(
        'run(Net("", "return x.flatten(1)"), x(3, 2, 2))',
        r"'order'.*1.*x\.flatten takes no dimensions\. For torch's",
        "silent",
    ),
    silent('run(Net("", "return x.repeat(2, 1)"), x(3, 2))', "JAX's own method, which a module cannot see", "silent"),
    raises(
        'run(Net("", "return x.expand(3, 2)"), x(3, 1))',
        r"'jaxlib\._jax\.ArrayImpl'.*'expand'.*Use jnp\.broadcast_to\(x, shape\)\.",
        "silent",
    ),
    raises(
        'run(Net("", "return x.chunk(2, 1)"), x(3, 2))',
        r"'jaxlib\._jax\.ArrayImpl'.*'chunk'.*Use jnp\.split\(x, sections, axis\)\.",
        "silent",
    ),
    raises('run(Net("", "return x.squeeze(0)"), x(3, 2))', r"\(3, 2\).*\(0,\)", "silent"),
    raises('run(Net("", "return x.numel()"), x(3, 2))', r"'jaxlib\._jax\.ArrayImpl'.*'numel'.*Use x\.size\.", "silent"),
    raises(
        'run(Net("", "return x.contiguous()"), x(3, 2))',
        r"'jaxlib\._jax\.ArrayImpl'.*'contiguous'.*Leave the call out\.",
        "silent",
    ),
    silent('run(Net("", "return x.std()"), x(3))', "JAX's own method, which a module cannot see", "silent"),
    raises(
        ('run(Net("self.fc = nn.Linear(2, 2)", "self.fc.weight = self.fc.weight * 2\\nreturn self.fc(x)"), x(3, 2))'),
        r"fc \(Linear\).*forward.*'weight'",
        "raises",
    ),
    raises(
        'run(Net("self.fc = nn.Linear(2, 2)", "self.fc.weight.data = x\\nreturn self.fc(x)"), x(3, 2))',
        r"fc \(Linear\).*self.*'weight'.*array\.data.*weight\.data.*'weight'",
        "raises",
    ),
    raises(
        'run(Net("self.fc = nn.Linear(2, 2)", "self.fc.weight.data *= 2\\nreturn self.fc(x)"), x(3, 2))',
        r"'jaxlib\._jax\.ArrayImpl'.*'data'.*Replace the entry in params outside of f",
        "silent",
    ),
    raises(
        'run(Net("self.fc = nn.Linear(2, 2)", "self.fc = nn.Linear(2, 3)\\nreturn self.fc(x)"), x(3, 2))',
        r"the root \(Net\).*forward.*'fc'.*which is a part",
        "silent",
    ),
    raises(
        'run(Net("", "return nn.Linear(2, 3)(x)"), x(3, 2))',
        r"Linear.*a description holds no arrays and cannot be called directly",
        "silent",
    ),
    raises(
        'run(Net("", "self.fc = nn.Linear(2, 3)\\nreturn self.fc(x)"), x(3, 2))',
        r"the root \(Net\).*forward.*'fc'.*__init__",
        "silent",
    ),
    raises(
        'run(Net("self.fc = nn.Linear(2, 2)", "del self.fc\\nreturn x"), x(3, 2))',
        r"the root \(Net\).*forward.*'fc'",
        "silent",
    ),
    same('run(Net("", "self.register_buffer(\'n\', x * 2)\\nreturn self.n"), x(3))'),
    raises('run(Net("", "self.w = nn.Parameter(x)\\nreturn x"), x(3))', r"the root \(Net\).*forward.*'w'", "silent"),
    raises(
        'run(Net("self.register_buffer(\'n\', x(2))", "self.n = x\\nreturn x"), x(3))',
        r"the root \(Net\).*'n'.*\(2,\).*\(3,\)",
        "silent",
    ),
    same('run(Net("self.register_buffer(\'n\', x(3))", "self.n = x\\nreturn self.n"), x(3))'),
    same('run(Net("self.register_buffer(\'n\', x(3))", "self.n += x\\nreturn self.n"), x(3))'),
    raises(
        'run(Net("self.register_buffer(\'n\', x(3))", "self.n.add_(x)\\nreturn self.n"), x(3))',
        r"'jaxlib\._jax\.ArrayImpl'.*'add_'.*Arrays do not change in place\. Assign th",
        "silent",
    ),
    raises(
        'run(Net("self.register_buffer(\'n\', x(3))", "self.n[0] = 1\\nreturn self.n"), x(3))',
        r"JAX arrays are immutable and do not support in\-place item as",
        "silent",
    ),
    raises(
        'run(Net("self.register_buffer(\'n\', x(3))", "self.n.copy_(x)\\nreturn self.n"), x(3))',
        r"'jaxlib\._jax\.ArrayImpl'.*'copy_'.*Arrays do not change in place\. Assign th",
        "silent",
    ),
    raises(
        'run(Net("self.register_buffer(\'n\', ids(3))", "self.n = x\\nreturn self.n"), x(3))',
        r"the root \(Net\).*'n'.*int32.*float32",
    ),
    raises(
        "run(Net(\"self.register_buffer('n', x(3))\", \"self.n = 'text'\\nreturn x\"), x(3))",
        r"the root \(Net\).*'n'.*str",
    ),
    raises(
        'run(Net("self.register_buffer(\'n\', x(3))", "self.n = None\\nreturn x"), x(3))',
        r"the root \(Net\).*'n'.*NoneType",
    ),
    raises(
        ('run(Net("self.fc = nn.Linear(2, 2)", "nn.init.zeros_(self.fc.weight)\\nreturn self.fc(x)"), x(3, 2))'),
        r"init\.zeros_.*expected the description of a parameter, got ArrayImpl",
    ),
    raises(
        'run(Net("self.fc = nn.Linear(2, 2)", "return self.fc.apply({}, {}, x)"), x(3, 2))',
        r"the root \(Linear\).*params.*'weight'",
    ),
    raises(
        'run(Net("self.fc = nn.Linear(2, 2)", "return self.state_dict()"), x(3, 2))',
        r"Module\.state_dict.*\(\).*2.*'params'",
    ),
    same("run(nn.ReLU(inplace=True), x(3))"),
    same("F.relu(x(3), inplace=True)"),
    same("F.dropout(x(3), 0.5, False, True)"),
    raises(
        ('p, s = started(nn.Linear(2, 2))\np["weight"][0] = 0.0\np'),
        r"JAX arrays are immutable and do not support in\-place item as",
    ),
    raises(('p, s = started(nn.Linear(2, 2))\np["weight"].grad'), r"'jaxlib\._jax\.ArrayImpl'.*'grad'"),
    raises(("p, s = started(nn.Linear(2, 2))\np.weight"), r"'dict'.*'weight'"),
    raises(
        ('p, s = started(nn.Linear(2, 2))\np["weight"] = x(3, 2)\nnn.Linear(2, 2).apply(p, s, x(4, 2))'),
        r"the root \(Linear\).*params.*'weight'.*\(2, 2\).*\(3, 2\)",
    ),
    raises(
        ('p, s = started(nn.Linear(2, 2))\ndel p["bias"]\nnn.Linear(2, 2).apply(p, s, x(4, 2))'),
        r"the root \(Linear\).*params.*'bias'",
    ),
    raises(
        ('p, s = started(nn.Linear(2, 2))\np["extra"] = x(2)\nnn.Linear(2, 2).apply(p, s, x(4, 2))'),
        r"the root \(Linear\).*params.*'extra'",
    ),
    raises(
        ('p, s = started(nn.Linear(2, 2))\np["weight"] = None\nnn.Linear(2, 2).apply(p, s, x(4, 2))[0]'),
        r"the root \(Linear\).*params.*'weight'",
    ),
    raises(("net = nn.Linear(2, 2)\nnet.bias.data.zeros_()\nnet"), r"'Parameter'.*'zeros_'"),
    raises(("net = nn.Linear(2, 2)\nnet.bias.copy_(x(3))\nnet.init(key)"), r"Parameter.*\(2,\).*\(3,\)"),
]
