"""Misspelt and missing names, reserved names, patterns and attributes."""

from tests.mistakes import raises, silent, warns

__all__ = ["MISTAKES"]

MISTAKES = [
    raises("nn.Linear(4, 2, bais=False)", r"Linear\.__init__.*\(\).*'bais'", "raises"),
    raises("nn.Linear(in_feature=4, out_features=2)", r"Linear\.__init__.*\(\).*'in_feature'", "raises"),
    raises('nn.Linear(4, 2, device="cuda")', r"Linear.*layers.*'cuda'"),
    raises("nn.Conv2d(3, 8, kernel=3)", r"Convolution\.__init__.*\(\).*'kernel'", "raises"),
    raises("nn.Conv2d(3, 8, 3, pad=1)", r"Convolution\.__init__.*\(\).*'pad'", "raises"),
    raises("nn.Conv2D(3, 8, 3)", r"'funcnet\.nn'.*'Conv2D'", "raises"),
    raises("nn.Relu()", r"'funcnet\.nn'.*'Relu'", "raises"),
    raises("nn.Dense(4)", r"'funcnet\.nn'.*'Dense'", "raises"),
    raises("nn.BatchNorm(4)", r"'funcnet\.nn'.*'BatchNorm'", "raises"),
    raises("nn.LayerNorm(4, epsilon=1e-5)", r"LayerNorm\.__init__.*\(\).*'epsilon'", "raises"),
    raises("nn.Dropout(rate=0.5)", r"_Dropout\.__init__.*\(\).*'rate'", "raises"),
    raises("nn.Softmax(axis=1)", r"_AlongDim\.__init__.*\(\).*'axis'", "raises"),
    raises("nn.LSTM(4, 8, batch_firts=True)", r"LSTM\.__init__.*\(\).*'batch_firts'", "raises"),
    raises("nn.LSTM(4)", r"LSTM\.__init__.*\(\).*1.*'hidden_size'", "raises"),
    warns("nn.LSTM(4, 8, dropout=0.1)", r"LSTM.*dropout=0\.1.*num_layers=1", "silent"),
    raises("nn.Embedding(10, 4, padding_index=0)", r"Embedding\.__init__.*\(\).*'padding_index'", "raises"),
    raises("nn.MultiheadAttention(8, num_head=2)", r"MultiheadAttention\.__init__.*\(\).*'num_head'", "raises"),
    raises(
        "nn.TransformerEncoder(nn.TransformerEncoderLayer, 2)",
        r"ModuleList\.0.*expected a Module or None, got type\.",
        "raises",
    ),
    raises(
        "nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2), num_layer=2)",
        r"TransformerEncoder\.__init__.*\(\).*'num_layer'",
        "raises",
    ),
    raises(
        'nn.TransformerEncoderLayer(8, 2, activation="swish")',
        r"TransformerEncoderLayer.*activation.*'relu'.*'gelu'.*'swish'",
        "raises",
    ),
    raises("F.relu_(x(3))", r"F\.relu_", "silent"),
    raises("F.ReLU(x(3))", r"'funcnet\.functional'.*'ReLU'", "raises"),
    raises("F.sigmod(x(3))", r"'funcnet\.functional'.*'sigmod'", "raises"),
    raises("F.softmax(x(3), axis=0)", r"\(\).*'axis'", "raises"),
    raises("F.concat([x(3), x(3)])", r"'funcnet\.functional'.*'concat'", "raises"),
    raises("F.cat([x(3), x(3)])", r"'funcnet\.functional'.*'cat'", "raises"),
    raises("F.crossentropy(x(4, 3), ids(4))", r"'funcnet\.functional'.*'crossentropy'", "raises"),
    raises(
        "F.cross_entropy(x(4, 3), ids(4), label_smoothing=1.5)",
        r"F\.cross_entropy.*label_smoothing.*0.*1.*1\.5",
        "raises",
    ),
    raises("F.cross_entropy(x(4, 3), ids(4), ignore_idx=0)", r"cross_entropy.*\(\).*'ignore_idx'", "raises"),
    raises("F.interpolate(x(1, 1, 4, 4), scale=2)", r"\(\).*'scale'", "raises"),
    raises("F.gelu(x(3), approximate=True)", r"F\.gelu.*approximate.*'none'.*'tanh'", "raises"),
    raises('F.gelu(x(3), approximate="tan")', r"F\.gelu.*approximate.*'none'.*'tanh'.*'tan'", "raises"),
    raises(
        'F.pad(x(2, 3), (1, 1), mode="edge")', r"F\.pad.*mode.*'constant'.*'reflect'.*'replicate'.*'circular'", "raises"
    ),
    raises(
        "nn.init.normal_(nn.Linear(4, 2))",
        r"init\.normal_.*expected the description of a parameter, got Linear",
        "raises",
    ),
    raises("nn.init.normal_(x(2))", r"init\.normal_.*expected the description of a parameter, got ArrayImpl"),
    raises("nn.Linear(4, 2).weight.grad", r"'Parameter'.*'grad'"),
    raises("nn.Linear(4, 2).weight.numpy()", r"'Parameter'.*'numpy'"),
    silent("nn.Linear(4, 2).weight.detach()", "constructors copy a description: `self.w.detach().clone()`"),
    raises("nn.Linear(4, 2).wieght", r"'Linear'.*'wieght'"),
    raises("nn.Sequential(nn.Linear(4, 2)).fc", r"'Sequential'.*'fc'", "raises"),
    raises("nn.Sequential(nn.Linear(4, 2))[1]", r"Sequential.*index.*1.*1", "raises"),
    raises(
        "nn.Sequential(nn.Linear(4, 2), F.relu)",
        r"Sequential.*an entry is not a module; expected a Module or None, got fun",
        "raises",
    ),
    raises(
        "nn.Sequential(nn.Linear(4, 2), nn.ReLU)",
        r"Sequential.*an entry is not a module; expected a Module or None, got typ",
        "raises",
    ),
    raises("nn.Sequential([nn.Linear(4, 2)])", r"Sequential.*list", "raises"),
    raises(
        "nn.ModuleList(nn.Linear(4, 2))", r"ModuleList\.extend.*expected an iterable of modules, got Linear\.", "raises"
    ),
    raises(
        "nn.ModuleList([nn.Linear(4, 2), F.relu])",
        r"ModuleList\.1.*expected a Module or None, got function\.",
        "raises",
    ),
    raises('nn.ModuleDict({"a.b": nn.Linear(4, 2)})', r"'a\.b'", "raises"),
    raises('nn.ModuleDict({"keys": nn.Linear(4, 2)})', r"'keys'", "raises"),
    raises("run(nn.ModuleList([nn.Linear(4, 2)]), x(3, 4))", r"ModuleList.*does not define forward", "raises"),
]
