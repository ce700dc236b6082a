"""State dicts, files, and torch's objects."""

from tests.mistakes import raises

__all__ = ["MISTAKES"]

MISTAKES = [
    raises(("net = nn.Linear(4, 2)\nnet.load_state_dict(tnn.Linear(4, 2))"), r"Linear\.load_state_dict.*sd.*dict"),
    raises(
        ("net = nn.Linear(4, 2)\nnet.load_state_dict(tnn.Linear(4, 3).state_dict())"),
        r"Linear\.load_state_dict.*sd.*\(2, 4\).*\(3, 4\).*\(2,\).*\(3,\)",
    ),
    raises(
        ("net = nn.Linear(4, 2)\nnet.load_state_dict(tnn.Linear(4, 2, bias=False).state_dict())"),
        r"Linear\.load_state_dict.*sd.*strict=False.*\(params, state\)",
    ),
    raises(
        ("net = nn.Linear(4, 2, bias=False)\nnet.load_state_dict(tnn.Linear(4, 2).state_dict())"),
        r"Linear\.load_state_dict.*sd.*strict=False.*\(params, state\)",
    ),
    raises(
        (
            "net = nn.Sequential(nn.Linear(4, 2))\n"
            'net.load_state_dict({"module." + k: v for k, v in tnn.Sequential(tnn.Linear(4, '
            "2)).state_dict().items()})"
        ),
        r"Sequential\.load_state_dict.*sd.*0\.weight.*0\.bias.*module\.0\.weight.*\(near 0\.weight\)",
    ),
    raises(
        (
            "net = nn.Sequential(nn.Linear(4, 2))\n"
            'net.load_state_dict({"model." + k: v for k, v in tnn.Sequential(tnn.Linear(4, '
            "2)).state_dict().items()})"
        ),
        r"Sequential\.load_state_dict.*sd.*0\.weight.*0\.bias.*model\.0\.weight.*\(near 0\.weight\)",
    ),
    raises(
        (
            "net = nn.Sequential(nn.Linear(4, 2))\n"
            'net.load_state_dict({"_orig_mod." + k: v for k, v in tnn.Sequential(tnn.Linear(4, '
            "2)).state_dict().items()})"
        ),
        r"Sequential\.load_state_dict.*sd.*0\.weight.*0\.bias.*_orig_mod\.0\.weight.*\(near 0\.weight\)",
    ),
    raises(
        (
            "net = nn.Sequential(nn.Linear(4, 2))\n"
            'net.load_state_dict({"state_dict": tnn.Sequential(tnn.Linear(4, 2)).state_dict()})'
        ),
        r"Sequential\.load_state_dict.*sd.*0\.weight.*0\.bias.*state_dict.*'state_dict'",
    ),
    raises(
        (
            "net = nn.Sequential(nn.Linear(4, 2))\n"
            'net.load_state_dict({"model": tnn.Sequential(tnn.Linear(4, 2)).state_dict(), "epoch": 3})'
        ),
        r"Sequential\.load_state_dict.*sd.*0\.weight.*0\.bias.*'model'",
    ),
    raises(
        ('net = nn.Sequential(nn.Linear(4, 2))\nnet.load_state_dict({"0": {"weight": x(2, 4), "bias": x(2)}})'),
        r"Sequential\.load_state_dict.*sd.*0\.weight.*0\.bias.*0",
    ),
    raises(
        ("net = nn.Sequential(nn.Linear(4, 2))\nnet.load_state_dict(net.init(key))"),
        r"Sequential\.load_state_dict.*sd.*dict.*tuple",
    ),
    raises(
        ("net = nn.Sequential(nn.Linear(4, 2))\nnet.load_state_dict(net.init(key)[0])"),
        r"Sequential\.load_state_dict.*sd.*0\.weight.*0\.bias.*0",
    ),
    raises(('net = nn.Linear(4, 2)\nnet.load_state_dict("model.pt")'), r"Linear\.load_state_dict.*sd.*dict.*str"),
    raises(("net = nn.Linear(4, 2)\nnet.load_state_dict(None)"), r"Linear\.load_state_dict.*sd.*dict.*NoneType"),
    raises(("net = nn.Linear(4, 2)\nnet.load_state_dict([x(2, 4), x(2)])"), r"Linear\.load_state_dict.*sd.*dict.*list"),
    raises(
        ('net = nn.Linear(4, 2)\nnet.load_state_dict({"weight": x(4, 2), "bias": x(2)})'),
        r"Linear\.load_state_dict.*sd.*\(2, 4\).*\(4, 2\).*strict=False",
    ),
    raises(
        ('net = nn.Linear(4, 2)\nnet.load_state_dict({"weight": "w", "bias": x(2)})'),
        r"Linear\.load_state_dict.*sd.*\(2, 4\).*str.*strict=False",
    ),
    raises(
        ('net = nn.Linear(4, 2)\nnet.load_state_dict({"weight": None, "bias": x(2)})'),
        r"Linear\.load_state_dict.*sd.*\(2, 4\).*NoneType.*strict=False",
    ),
    raises(
        ('net = nn.Linear(4, 2)\nnet.load_state_dict({"weight": x(2, 4)}, strict=False)'),
        r"Linear\.load_state_dict.*sd lacks bias",
    ),
    raises(
        ('net = nn.Linear(4, 2)\nnet.load_state_dict({"weights": x(2, 4), "bias": x(2)}, strict=False)'),
        r"Linear\.load_state_dict.*sd lacks weight",
    ),
    raises(
        ('net = nn.Linear(4, 2)\nnet.load_state_dict({"weight": x(2, 4)}, strict=False, into=net.init(key)[0])'),
        r"Linear\.load_state_dict.*into.*\(params, state\).*dict",
    ),
    raises(
        ('net = nn.Linear(4, 2)\nnet.load_state_dict({"weight": x(2, 3)}, strict=False, into=net.init(key))'),
        r"Linear\.load_state_dict.*sd.*\(2, 4\).*\(2, 3\).*strict=False",
    ),
    raises(
        ('net = nn.Linear(4, 2)\nnet.load_state_dict({"weight": x(2, 4), "bias": x(2)}, assign=True)'),
        r"Module\.load_state_dict.*\(\).*'assign'",
    ),
    raises(
        ('net = nn.Linear(4, 2)\nnet.load_state_dict({"weight": x(2, 4), "bias": x(2)})\nnet(x(3, 4))'),
        r"Linear.*a description holds no arrays and cannot be called directly",
    ),
    raises(
        ('net = nn.Linear(4, 2)\np = net.load_state_dict({"weight": x(2, 4), "bias": x(2)})\nnet.apply(p, x(3, 4))'),
        r"Linear\.apply.*tuple",
    ),
    raises(
        ('net = nn.BatchNorm1d(3)\nnet.load_state_dict({"weight": x(3), "bias": x(3)})'),
        r"BatchNorm1d\.load_state_dict.*sd.*running_mean.*running_var.*strict=False.*\(params, state\)",
    ),
    raises(("net = nn.Linear(4, 2)\nnet.state_dict()"), r"Module\.state_dict.*\(\).*2.*'params'"),
    raises(("net = nn.Linear(4, 2)\nnet.state_dict(net.init(key))"), r"Module\.state_dict.*\(\).*1.*'state'"),
    raises(("net = nn.Linear(4, 2)\nnet.state_dict(net.init(key)[0])"), r"Module\.state_dict.*\(\).*1.*'state'"),
    raises(("net = nn.BatchNorm1d(4)\nnet.state_dict(net.init(key)[0])"), r"Module\.state_dict.*\(\).*1.*'state'"),
    raises(
        ("net = nn.BatchNorm1d(4)\nnet.state_dict(net.init(key)[0], {})"),
        r"the root \(BatchNorm1d\).*state.*'running_mean'",
    ),
    raises(('net = nn.Linear(4, 2)\nnet.state_dict({"weight": x(2, 4)}, {})'), r"the root \(Linear\).*params.*'bias'"),
    raises('weights.load(folder / "model.pt")', r"weights\.load.*model\.pt"),
    raises(
        ('(folder / "m.pt").write_text("hello")\nweights.load(folder / "m.pt")'),
        r"weights\.load.*m\.pt.*'\.pt'.*torch\.save.*1\.6",
    ),
    raises(
        ('(folder / "m.pt").write_text("")\nweights.load(folder / "m.pt")'),
        r"weights\.load.*m\.pt.*'\.pt'.*torch\.save.*1\.6",
    ),
    raises(
        ('(folder / "m.safetensors").write_text("hello")\nweights.load(folder / "m.safetensors")'),
        r"weights\.load.*m\.safetensors.*'\.safetensors'",
    ),
    raises(
        (
            '(folder / "m.pt").write_text("version https://git-lfs.github.com/spec/v1\\noid sha256:0\\nsize '
            '1\\n")\n'
            'weights.load(folder / "m.pt")'
        ),
        r"weights\.load.*m\.pt.*'\.pt'.*torch\.save.*1\.6",
    ),
    raises(
        (
            '(folder / "m.safetensors").write_text("<!DOCTYPE html><html></html>")\n'
            'weights.load(folder / "m.safetensors")'
        ),
        r"weights\.load.*m\.safetensors.*'\.safetensors'",
    ),
    raises(
        ('torch.save(tnn.Linear(4, 2), folder / "m.pt")\nweights.load(folder / "m.pt")'),
        r"weights\.load.*m\.pt.*2.*'torch\.nn\.modules\.linear\.Linear'",
    ),
    raises(
        ('torch.save({"f": print}, folder / "m.pt")\nweights.load(folder / "m.pt")'),
        r"weights\.load.*m\.pt.*13.*'builtins\.print'",
    ),
    raises(
        ('(folder / "m.pkl").write_bytes(pickle.dumps({"w": 1}))\nweights.load(folder / "m.pkl")'),
        r"weights\.load.*'m\.pkl'.*'\.pkl'",
    ),
    raises(
        ('(folder / "m.npz").write_bytes(b"")\nweights.load(folder / "m.npz")'), r"weights\.load.*'m\.npz'.*'\.npz'"
    ),
    raises(('(folder / "m.h5").write_bytes(b"")\nweights.load(folder / "m.h5")'), r"weights\.load.*'m\.h5'.*'\.h5'"),
    raises(
        ('torch.save(tnn.Linear(4, 2).state_dict(), folder / "m.safetensors")\nweights.load(folder / "m.safetensors")'),
        r"weights\.load.*m\.safetensors.*'\.safetensors'.*torch\.save",
    ),
    raises(
        (
            'torch.save(tnn.Linear(4, 2).state_dict(), folder / "m.pt")\n'
            '(folder / "m.pt").write_bytes((folder / "m.pt").read_bytes()[:300])\n'
            'weights.load(folder / "m.pt")'
        ),
        r"weights\.load.*m\.pt.*list.*'File is not a zip file'",
    ),
    raises(
        ('torch.jit.save(torch.jit.script(tnn.Linear(4, 2)), folder / "m.pt")\nweights.load(folder / "m.pt")'),
        r"weights\.load.*m\.pt.*\(torch\.jit\.save\).*torch\.save",
    ),
    raises('weights.save(folder / "m.pt", nn.Linear(4, 2))', r"weights\.save.*tree.*dict"),
    raises('weights.save(folder / "m.safetensors", nn.Linear(4, 2))', r"weights\.save.*tree.*dict"),
    raises('weights.save(nn.Linear(4, 2).init(key)[0], folder / "m.pt")', r"weights\.save.*path.*dict"),
    raises('weights.save(folder / "m", {"w": x(2)})', r"weights\.save.*'m'"),
    raises('weights.save(folder / "m.npz", {"w": x(2)})', r"weights\.save.*'m\.npz'.*'\.npz'"),
    raises('weights.save(folder / "no" / "m.pt", {"w": x(2)})', r"weights\.save.*folder.*does not exist"),
    raises('weights.save(folder / "m.safetensors", {"w": x(2), "epoch": 3})', r"weights\.save.*'epoch'"),
    raises('weights.save(folder / "m.pt", {"w": lambda: 1})', r"'w'"),
    raises('weights.save(folder / "m.safetensors", [x(2)])', r"weights\.save.*tree.*dict.*list"),
    raises(
        ("nn.Sequential(nn.Linear(4, 2)).load_state_dict(tnn.Sequential(tnn.ReLU(), tnn.Linear(4, 2)).state_dict())"),
        r"Sequential\.load_state_dict.*sd.*0\.weight.*0\.bias.*1\.weight.*\(near 0\.weight\)",
    ),
    raises(
        "funcnet.compare(nn.Linear(4, 2), tnn.Linear(4, 2), *started(nn.Linear(4, 2)), x(3, 4))",
        r"funcnet\.compare.*torch\.nn\.Module",
    ),
]
