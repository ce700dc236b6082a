import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from funcnet.data import ArrayDataset, DataLoader, pad_batch, prefetch_to_device
from funcnet.parallel import make_layout


def test_the_last_batch_is_filled_and_the_step_compiles_once():
    layout = make_layout({"data": 8})
    loader = DataLoader(ArrayDataset({"x": np.arange(21.0)}), 6)
    traced = []

    @jax.jit
    def total(batch, mask):
        traced.append(mask.shape)
        return jnp.where(mask, batch["x"], 0).sum()

    with prefetch_to_device(loader, layout) as batches:
        found = list(batches)
    assert sum(float(total(batch, mask)) for batch, mask in found) == np.arange(21).sum()
    assert traced == [(8,)]  # 6 rows, rounded up to the 8 devices
    assert len(found[0][0]["x"].sharding.device_set) == 8
    assert [int(mask.sum()) for _, mask in found] == [6, 6, 6, 3]


def test_the_position_is_that_of_the_batch_in_use_not_of_those_ahead():
    loader = DataLoader(np.arange(40), 4, shuffle=True, seed=3, num_workers=2)
    with prefetch_to_device(loader, depth=3) as batches:
        seen = [next(batches)[0].tolist() for _ in range(4)]
        position = batches.state_dict()
    assert position["examples"] == 16
    again = DataLoader(np.arange(40), 4, shuffle=True, seed=3)
    again.load_state_dict(position)
    assert sorted([*itertools.chain(*seen, *(batch.tolist() for batch in again))]) == list(range(40))


@pytest.mark.parametrize(
    ("batch", "message"),
    [
        ({"x": np.ones(2), "y": np.ones(3)}, r"differ in their first dimension; expected one size, got \[2, 3\]"),
        (np.ones(5), "expected 1 to 4 rows, got 5"),
        ({"x": "text"}, "got no array"),
    ],
)
def test_a_batch_that_cannot_be_filled(batch, message):
    with pytest.raises(ValueError, match=f"pad_batch: .*{message}"):
        pad_batch(batch, 4)


def test_an_unknown_size_is_said():
    with pytest.raises(ValueError, match="the number of rows is unknown; expected batch_size"):
        prefetch_to_device([np.ones(3)])
    with prefetch_to_device([np.ones(3)], batch_size=4) as batches:
        assert [mask.tolist() for _, mask in batches] == [[True, True, True, False]]
