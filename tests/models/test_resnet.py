"""ResNet beyond parity: its start, other normalisations, its errors."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from funcnet import nn
from funcnet.models import resnet


@pytest.mark.slow
def test_the_start_is_torchvisions():
    model = resnet.resnet18(num_classes=10)
    sd = model.state_dict(*jax.jit(model.init)(jax.random.key(0)))
    for name, array in sd.items():
        if ".bn" in name or name.startswith("bn") or "downsample.1" in name:
            expected = {"weight": 1, "running_var": 1}.get(name.rpartition(".")[2], 0)
            assert (np.asarray(array) == expected).all(), name
        elif "conv" in name or "downsample.0" in name:
            out, _, *kernel = array.shape
            assert np.std(array) == pytest.approx((2 / (out * np.prod(kernel))) ** 0.5, rel=0.05), name
    assert np.abs(sd["fc.weight"]).max() <= 512**-0.5

    for block, last in ((resnet.BasicBlock, "bn2"), (resnet.Bottleneck, "bn3")):
        model = resnet.ResNet(block, [1, 1, 1, 1], zero_init_residual=True, in_channels=1, small_images=True)
        first = jax.jit(model.layer1.init)(jax.random.key(0))[0]["0"]
        assert (first[last]["weight"] == 0).all() and (first["bn1"]["weight"] == 1).all()
        assert model.conv1.weight.shape == (64, 1, 3, 3)


def test_other_normalisations_and_wrong_arguments():
    net = resnet.ResNet(resnet.BasicBlock, [1, 1, 1, 1], 3, norm_layer=lambda c: nn.GroupNorm(8, c), small_images=True)
    params, state = jax.jit(net.init)(jax.random.key(0))
    out = jax.eval_shape(lambda x: net.apply(params, state, x, training=True)[0], jnp.ones((2, 3, 8, 8)))
    assert out.shape == (2, 3)
    with pytest.raises(ValueError, match=r"expected 4 numbers of blocks, one per stage, got 3 numbers"):
        resnet.ResNet(resnet.BasicBlock, [2, 2, 2])
