"""The table of shardings: layers share a line only if nothing but their numbers differs."""

import jax
import numpy as np
import pytest
from jax.sharding import PartitionSpec

from funcnet import parallel, tree


def report(shapes, rules=None):
    """{name in the table: number of parameters} for parameters {name: shape} on a mesh fsdp=2."""
    params = tree.unflatten({name: np.zeros(shape, np.float32) for name, shape in shapes.items()})
    layout = parallel.make_layout("fsdp=2", rules={name: PartitionSpec("fsdp") for name in rules or []})
    text = parallel.sharding_report(params, layout.shardings(params))
    lines = [line.split() for line in text.splitlines()[2:-2]]
    assert sum(int(line[1]) for line in lines) == len(shapes) == int(text.splitlines()[-1].split()[1])
    held = sum(leaf.addressable_shards[0].data.nbytes for leaf in jax.tree.leaves(layout.place(params)))
    assert sum(int(line[-1].replace(",", "")) for line in lines) == held
    return {line[0]: int(line[1]) for line in lines}


def layers(numbers, **parts):
    return {f"h.{number}.{name.replace('_', '.')}": shape for number in numbers for name, shape in parts.items()}


@pytest.mark.parametrize(
    ("shapes", "rules", "expected"),
    [
        ({"mlp.0.w": (8, 8), "mlp.3.w": (8, 8)}, [], {"mlp.0.w": 1, "mlp.3.w": 1}),
        (layers(range(3), mlp_0_w=(8, 4), mlp_3_w=(4, 8)), [], {"h.*.mlp.0.w": 3, "h.*.mlp.3.w": 3}),
        (layers(range(12), w=(8,)), [], {"h.*.w": 12}),
        ({"0.w": (2, 8), "1.w": (8, 8), "2.w": (8, 8), "4.w": (8, 2)}, [], {"0.w": 1, "1-2.w": 2, "4.w": 1}),
        (layers(range(11), w=(8,)) | {"h.10.b": (8,)}, [], {"h.0-9.w": 10, "h.10.w": 1, "h.10.b": 1}),
        (layers(range(4), w=(8, 8)), ["h.0.w"], {"h.0.w": 1, "h.1-3.w": 3}),
        (layers(range(4), w=(8, 8)), ["h.*.w"], {"h.*.w": 4}),
        (layers([0, 1], block_0_w=(4,), block_1_w=(4,)), [], {"h.*.block.*.w": 4}),
        (layers([0], block_0_w=(4,)) | layers([1], block_0_w=(8,)), [], {"h.0.block.0.w": 1, "h.1.block.0.w": 1}),
        ({"list.0": (4,), "list.1": (4,)}, [], {"list.0": 1, "list.1": 1}),
        ({"h.*.0.w": (3, 4), "h.*.2.w": (3, 4)}, [], {"h.*.0.w": 1, "h.*.2.w": 1}),
    ],
    ids=[
        *("two of one size", "blocks", "a dozen", "part of a sequence", "a longer last one", "a rule for one"),
        *("a rule for all", "stacks in stacks", "different stages", "leaves", "stored stacked"),
    ],
)
def test_layers_share_a_line_only_if_they_are_equal(shapes, rules, expected):
    assert report(shapes, rules) == expected
