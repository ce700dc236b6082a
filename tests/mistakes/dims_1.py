"""Wrong ranks, channel counts, swapped axes and shapes of labels."""

from tests.mistakes import raises, same

__all__ = ["MISTAKES"]

MISTAKES = [
    raises("run(nn.Linear(4, 2), x(3, 5))", r"F\.linear.*input.*\(\*, 4\).*\(3, 5\)", "raises"),
    raises("run(nn.Linear(4, 2), x())", r"F\.linear.*input.*\(\*, 4\).*\(\)", "raises"),
    raises("nn.Linear(4)", r"Linear\.__init__.*\(\).*1.*'out_features'", "raises"),
    raises("nn.Linear(0.5, 2)", r"Parameter.*\(a tuple of ints\).*\(2, 0\.5\)", "raises"),
    raises("nn.Linear(-1, 2)", r"Parameter.*0.*\(2, \-1\)", "raises"),
    raises(
        "run(nn.Bilinear(3, 4, 2), x(5, 4), x(5, 3))", r"F\.bilinear.*\(5, 3\).*\(5, 4\).*\(5, 4\).*\(5, 3\)", "raises"
    ),
    raises("run(nn.Conv2d(3, 8, 3), x(2, 8, 8, 3))", r"F\.conv2d.*input.*3.*8", "raises"),
    raises("run(nn.Conv2d(3, 8, 3), x(2, 3, 8))", r"F\.conv2d.*input.*3.*2", "raises"),
    raises("run(nn.Conv2d(1, 8, 3), x(8, 8))", r"F\.conv2d.*input.*4.*\(batch, channel, \*spatial\).*3.*0", "raises"),
    raises(
        "run(nn.Conv2d(3, 8, 3), x(1, 2, 3, 8, 8))",
        r"F\.conv2d.*input.*4.*\(batch, channel, \*spatial\).*3.*0",
        "raises",
    ),
    raises("run(nn.Conv2d(3, 8, 9), x(1, 3, 5, 5))", r"F\.conv2d.*9.*5.*\(1, 3, 5, 5\)", "raises"),
    raises("nn.Conv2d(3, 8, 3, groups=2)", r"Conv2d.*in_channels.*3.*groups=2", "raises"),
    raises("nn.Conv2d(4, 7, 3, groups=2)", r"Conv2d.*out_channels.*7.*groups=2", "raises"),
    raises('nn.Conv2d(3, 8, 3, stride=2, padding="same")', r"Conv2d.*'same'.*1.*\(2, 2\)", "raises"),
    raises("nn.Conv2d(3, 8, (3, 3, 3))", r"Conv2d.*kernel_size.*2.*\(3, 3, 3\)", "silent"),
    raises('nn.Conv2d(3, 8, 3, padding="SAME")', r"Conv2d.*'same'.*'valid'.*'SAME'", "raises"),
    raises(
        'nn.Conv2d(3, 8, 3, padding_mode="reflection")',
        r"Conv2d.*padding_mode.*\('zeros', 'reflect', 'replicate', 'circular'\).*'reflection'",
        "raises",
    ),
    raises("run(nn.Conv2d(3, 8, 3, stride=0), x(1, 3, 5, 5))", r"F\.conv2d.*stride.*1.*\(0, 0\)", "raises"),
    raises("run(nn.Conv1d(16, 8, 3), x(2, 10, 16))", r"F\.conv1d.*input.*16.*10", "raises"),
    raises("run(nn.Conv3d(3, 8, 3), x(2, 3, 8, 8))", r"F\.conv3d.*input.*3.*2", "raises"),
    raises(
        "run(nn.ConvTranspose2d(3, 8, 3, stride=2, output_padding=2), x(1, 3, 5, 5))",
        r"F\.conv_transpose2d.*output_padding.*\(2, 2\).*\(1, 1\).*\(2, 2\)",
        "raises",
    ),
    raises("run(nn.ConvTranspose2d(3, 8, 3), x(1, 8, 5, 5))", r"F\.conv_transpose2d.*input.*3.*8", "raises"),
    raises(
        "run(nn.ConvTranspose2d(3, 8, 3, stride=2), x(1, 3, 5, 5), output_size=[20, 20])",
        r"ConvTranspose2d.*output_size.*\(11, 11\).*\(12, 12\).*\(20, 20\)",
        "raises",
    ),
    raises("run(nn.BatchNorm2d(3), x(2, 8, 8, 3))", r"BatchNorm2d.*3.*1.*8.*\(2, 8, 8, 3\)", "raises"),
    raises("run(nn.BatchNorm2d(3), x(2, 3))", r"BatchNorm2d.*\(2, 3\)", "raises"),
    raises("run(nn.BatchNorm1d(3), x(2, 3, 4, 4))", r"BatchNorm1d.*\(2, 3, 4, 4\)", "raises"),
    raises("run(nn.BatchNorm1d(3), x(3))", r"BatchNorm1d.*\(3,\)", "raises"),
    raises(
        "run(nn.LayerNorm(8), x(2, 8, 4))", r"F\.layer_norm.*input.*normalized_shape.*\(\*, 8\).*\(2, 8, 4\)", "raises"
    ),
    raises(
        "run(nn.LayerNorm((4, 8)), x(2, 8, 4))",
        r"F\.layer_norm.*input.*normalized_shape.*\(\*, 4, 8\).*\(2, 8, 4\)",
        "raises",
    ),
    raises("run(nn.GroupNorm(4, 8), x(2, 4, 3, 3))", r"F\.group_norm.*weight.*\(4,\).*\(8,\)", "raises"),
    raises("nn.GroupNorm(3, 8)", r"GroupNorm.*num_channels.*num_groups.*8.*3", "raises"),
    raises(
        "run(nn.InstanceNorm2d(3, affine=True), x(2, 4, 5, 5))", r"InstanceNorm2d.*3.*1.*4.*\(2, 4, 5, 5\)", "raises"
    ),
    raises("run(nn.InstanceNorm1d(3), x(2, 3, 1), training=True)", r"F\.instance_norm.*1.*\(2, 3, 1\)", "raises"),
    raises("run(nn.MaxPool2d(2), x(8, 8))", r"F\.max_pool2d.*input.*4.*\(batch, channel, \*spatial\).*3.*0", "raises"),
    raises("run(nn.MaxPool2d(2, padding=2), x(1, 3, 8, 8))", r"F\.max_pool2d.*padding.*\(2, 2\).*\(2, 2\)", "raises"),
    raises("run(nn.MaxPool2d(9), x(1, 3, 4, 4))", r"F\.max_pool2d.*1.*0.*\(1, 3, 4, 4\)", "raises"),
    same("run(nn.AvgPool2d(2), x(2, 3, 8))"),
    raises(
        "run(nn.AdaptiveAvgPool2d((1, 1, 1)), x(2, 3, 8, 8))",
        r"F\.adaptive_avg_pool2d.*output_size.*2.*0.*\(1, 1, 1\)",
        "raises",
    ),
    raises(
        'run(nn.Upsample(scale_factor=2, mode="bilinear"), x(2, 3, 8))',
        r"F\.interpolate.*mode.*'bilinear'.*\(batch, channel, \*spatial\).*2.*\(2, 3, 8\)",
        "raises",
    ),
    raises(
        "run(nn.Upsample(size=4, scale_factor=2), x(2, 3, 8))",
        r"F\.interpolate.*scale_factor.*size=4.*scale_factor=2\.0",
        "raises",
    ),
    raises("F.interpolate(x(2, 3, 8, 8))", r"F\.interpolate.*scale_factor.*size=None.*scale_factor=None", "raises"),
    raises(
        'F.interpolate(x(2, 3, 8, 8), scale_factor=2, mode="cubic")',
        (
            r"F\.interpolate.*mode.*\('nearest', 'nearest\-exact', 'area', 'linear', 'bilinear', 'trilinear', "
            r"'bicubic', 'lanczos'\).*'cubic'"
        ),
        "raises",
    ),
    raises(
        "run(nn.PixelShuffle(2), x(1, 6, 4, 4))", r"F\.pixel_shuffle.*upscale_factor.*4.*6.*\(1, 6, 4, 4\)", "raises"
    ),
    raises("run(nn.Embedding(10, 4), ids(2, 3) + 9)", r"F\.embedding.*ids.*0.*9.*9.*11", "raises"),
    raises("run(nn.Embedding(10, 4), ids(2, 3) - 1)", r"F\.embedding.*ids.*0.*9.*1.*1", "raises"),
    raises("nn.Embedding(10, 4, padding_idx=10)", r"Embedding.*padding_idx.*num_embeddings.*10.*9", "raises"),
    raises("run(nn.LSTM(4, 8), x(5, 2, 3))", r"F\.lstm.*input.*w_ih.*input_size.*4.*\(5, 2, 3\)", "raises"),
    raises("run(nn.LSTM(4, 8), x(5, 2, 1, 4))", r"LSTM.*input.*3.*2.*\(5, 2, 1, 4\)", "raises"),
    raises("run(nn.LSTM(4, 8), x(5, 2, 4), (x(2, 8), x(2, 8)))", r"LSTM.*h_0.*3.*\(2, 8\)", "raises"),
    raises("run(nn.LSTM(4, 8), x(5, 2, 4), x(1, 2, 8))", r"LSTM.*hx.*\(h, c\)", "raises"),
    raises(
        "run(nn.LSTM(4, 8), x(2, 5, 4), (x(1, 2, 8), x(1, 2, 8)))", r"F\.lstm.*h_0.*\(1, 5, 8\).*\(1, 2, 8\)", "raises"
    ),
    raises("run(nn.GRU(4, 8), x(5, 2, 4), (x(1, 2, 8), x(1, 2, 8)))", r"GRU.*h_0.*tuple", "raises"),
    raises(
        "run(nn.GRU(4, 8, bidirectional=True), x(5, 2, 4), x(1, 2, 8))",
        r"F\.gru.*h_0.*\(2, 2, 8\).*\(1, 2, 8\)",
        "raises",
    ),
    raises(
        "run(nn.LSTMCell(4, 8), x(2, 5))", r"F\.lstm_cell.*input.*w_ih.*\(batch, input_size = 4\).*\(2, 5\)", "raises"
    ),
    raises("run(nn.GRUCell(4, 8), x(2, 4), x(3, 8))", r"F\.gru_cell.*hidden0.*\(2, 8\).*\(3, 8\)", "raises"),
]
