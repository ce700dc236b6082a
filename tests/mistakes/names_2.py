"""Misspelt and missing names, reserved names, patterns and attributes."""

from tests.mistakes import raises

__all__ = ["MISTAKES"]

MISTAKES = [
    raises('nn.Sequential(nn.Linear(4, 2)).get_submodule("fc")', r"Sequential.*'fc'", "raises"),
    raises('nn.Linear(4, 2).get_parameter("weights")', r"Linear.*'weights'", "raises"),
    raises('nn.Linear(4, 2).register_buffer("a.b", x(2))', r"'a\.b'", "raises"),
    raises('nn.Linear(4, 2).register_buffer("weight", x(2))', r"'weight'", "raises"),
    raises(
        'nn.Linear(4, 2).register_parameter("scale", x(2))',
        r"Linear\.scale.*expected a Parameter or None, got ArrayImpl\.",
        "raises",
    ),
    raises(
        'nn.Linear(4, 2).add_module("fc", x(2))', r"Linear\.fc.*expected a Module or None, got ArrayImpl\.", "raises"
    ),
    raises('Net("self.init = nn.Linear(4, 2)", "return x")', r"'init'"),
    raises('Net("self.apply = nn.Linear(4, 2)", "return x")', r"'apply'"),
    raises('run(Net("self.fc = nn.Linear(4, 2)", "return self.fc1(x)"), x(3, 4))', r"'Net'.*'fc1'", "raises"),
    raises(
        'run(Net("self.layers = [nn.Linear(4, 2)]", "return self.layers[0](x)"), x(3, 4))',
        r"Linear.*a description holds no arrays and cannot be called directly",
        "silent",
    ),
    raises(
        "run(Net(\"self.layers = {'a': nn.Linear(4, 2)}\", \"return self.layers['a'](x)\"), x(3, 4))",
        r"Linear.*a description holds no arrays and cannot be called directly",
        "silent",
    ),
    raises(
        'run(Net("self.weight = [nn.Parameter(x(2))]", "return x * self.weight[0]"), x(3, 2))',
        r"Net\.weight.*init.*list",
        "silent",
    ),
    raises(
        'Net("self.fc = nn.Linear(4, 2)\\nself.fc = x(2)", "return x")',
        r"Net\.fc.*expected a Module or None, got ArrayImpl",
        "raises",
    ),
    raises(
        'Net("self.fc = nn.Linear(4, 2)\\nself.fc.weight = x(2, 4)", "return x")',
        r"Linear\.weight.*expected a Parameter or None, got ArrayImpl",
        "raises",
    ),
    raises('Net("self.fc = tnn.Linear(4, 2)", "return x")', r"Net\.fc.*funcnet\.nn"),
    raises(
        "nn.Sequential(tnn.Linear(4, 2))", r"Sequential.*an entry is not a module; expected a Module or None, got Lin"
    ),
    raises("nn.ModuleList([tnn.Linear(4, 2)])", r"ModuleList\.0.*expected a Module or None, got torch's own Linear"),
    raises('Net("self.w = tnn.Parameter(torch.ones(2))", "return x")', r"Net\.w.*funcnet\.nn"),
    raises("nn.Parameter(2, 3)", r"Parameter.*init.*\(key, shape, dtype\).*3"),
    raises('nn.Parameter((2, 3), "normal")', r"Parameter.*init.*\(key, shape, dtype\).*'normal'"),
    raises("nn.Parameter()", r"Parameter\.__init__.*\(\).*1.*'data'"),
    raises('Net("self.w = nn.Parameter((2, 3))", "return x").init(key)', r"init.*'w'"),
    raises(
        'Net("self.w = nn.Parameter((2, 3), nn.init.normal_)", "return x").init(key)',
        r"init\.normal_.*expected the description of a parameter, got PRNGKeyArray",
    ),
    raises(("class A(nn.Module): pass\nrun(A(), x(2))"), r"A.*does not define forward"),
    raises(("class A(nn.Module): foward = lambda self, x: x\nrun(A(), x(2))"), r"A.*does not define forward"),
    raises('tree.partition(started(nn.Sequential(nn.Linear(4, 2)))[0], "fc")', r"tree\.partition.*pattern.*'fc'"),
    raises(
        'tree.partition(started(nn.Sequential(nn.Linear(4, 2)))[0], "*.wieght")',
        r"tree\.partition.*pattern.*'\*\.wieght'",
    ),
    raises('tree.partition(started(nn.Sequential(nn.Linear(4, 2)))[0], "bias")', r"tree\.partition.*pattern.*'bias'"),
    raises(
        'tree.partition(started(nn.Sequential(nn.Linear(4, 2)))[0], r".*bias")', r"tree\.partition.*pattern.*'\.\*bias'"
    ),
    raises(
        'tree.partition(started(nn.Sequential(nn.Linear(4, 2)))[0], "0/bias")', r"tree\.partition.*pattern.*'0/bias'"
    ),
    raises(
        'tree.partition(started(nn.Sequential(nn.Linear(4, 2)))[0], lambda name: "bias" in name)',
        r"tree\.select.*'encoder\.\*\.weight'",
    ),
    raises("tree.partition(started(nn.Sequential(nn.Linear(4, 2)))[0], 0)", r"tree\.select.*'encoder\.\*\.weight'"),
    raises(
        'tree.partition(nn.Sequential(nn.Linear(4, 2)), "0")',
        r"tree.*nested dicts are needed; expected params or state as init re",
    ),
    raises('tree.mask(started(nn.Linear(4, 2))[0], ["bias", "norm"])', r"tree\.mask.*pattern.*'norm'"),
    raises('tree.merge({"a": 1}, {"a": 2})', r"tree\.merge.*'a'"),
    raises("started(nn.Linear(4, 2))[0].weight", r"'dict'.*'weight'"),
    raises("funcnet.Linear(4, 2)", r"'funcnet'.*'Linear'"),
    raises("nn.no_grad()", r"nn\.no_grad"),
    raises("nn.DataParallel(nn.Linear(4, 2))", r"nn\.DataParallel"),
    raises("nn.parallel.DistributedDataParallel(nn.Linear(4, 2))", r"nn\.parallel"),
    raises("nn.Linear(4, 2).zero_grad()", r"Linear\.zero_grad.*jax\.grad"),
    raises("nn.Linear(4, 2).share_memory()", r"Linear\.share_memory"),
    raises("nn.Linear(4, 2).weights()", r"'Linear'.*'weights'"),
    raises("list(nn.Linear(4, 2).parameters(True))", r"Linear.*dict.*bool"),
    raises("nn.utils.clip_grad_norm_(nn.Linear(4, 2).parameters(), 1.0)", r"nn\.utils\.clip_grad_norm_"),
    raises("nn.utils.clip_grads_with_norm_(started(nn.Linear(4, 2))[0], 1.0)", r"nn\.utils\.clip_grads_with_norm_"),
    raises(
        ('net = nn.Linear(4, 2)\nnn.init.kaiming_normal_(net.weight, nonlinearity="gelu")\nnet.init(key)'),
        r"nonlinearity.*'gelu'",
    ),
    raises(
        ('net = nn.Linear(4, 2)\nnn.init.kaiming_normal_(net.weight, mode="fan")\nnet.init(key)'),
        r"kaiming_normal_.*'fan_out'.*'fan'",
    ),
    raises(
        ("net = nn.Linear(4, 2)\nnn.init.xavier_uniform_(net.bias)\nnet.init(key)"),
        r"xavier_uniform_.*2 dimensions.*\(2,\)",
    ),
]
