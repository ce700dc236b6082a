"""Matrix products of every small size, and of sizes around the blocks, against double precision."""

import itertools

import jax.numpy as jnp
import numpy as np
import pytest

from funcnet.export.wasm.module import to_wasm
from funcnet.export.wasm.rules import RULES
from funcnet.export.wasm.trace import trace
from funcnet.loops.index import Index
from funcnet.loops.matmul import narrow, stride

SMALL = [(m, k, n) for m, k, n in itertools.product((1, 2, 3, 4, 5), (1, 3, 4), (1, 7, 8, 9))]
LARGE = [(130, 257, 17), (3, 700, 40), (257, 5, 8), (128, 256, 16)]
# a, b and the result: as they are, or transposed
LAYOUTS = ["mk,kn->mn", "km,kn->mn", "mk,nk->mn", "km,nk->nm"]
SPECIAL = ["bmk,bkn->bmn", "mbk,bnk->bmn", "bkm,kbn->nbm", "abmk,abnk->abmn", "akmc,nakc->mn", "bm,bn->bmn", "k,kn->n"]


def arrays(spec: str, **sizes: int) -> list[np.ndarray]:
    sizes = {"a": 2, "b": 3, "c": 5, "m": 6, "k": 11, "n": 9} | sizes
    random = np.random.default_rng(len(spec))
    names = spec.split("->")[0].split(",")
    return [random.normal(size=[sizes[letter] for letter in one]).astype(np.float32) for one in names]


CASES = [("mk,kn->mn", dict(zip("mkn", size, strict=True))) for size in SMALL + LARGE]
CASES += [(spec, dict(zip("mkn", size, strict=True))) for spec in LAYOUTS[1:] for size in [(5, 6, 7), *LARGE]]
CASES += [(spec, {}) for spec in SPECIAL]


@pytest.mark.parametrize("constant", ["no constant", "the right one", "the left one"])
def test_products(constant):
    given = [arrays(spec, **sizes) for spec, sizes in CASES]
    place = {"the left one": 0, "the right one": 1}.get(constant)
    constants = [pair[place] if place is not None else None for pair in given]
    inputs = [[x for i, x in enumerate(pair) if i != place] for pair in given]

    def every(inputs):
        out = []
        for (spec, _), pair, one in zip(CASES, inputs, constants, strict=True):
            operands = list(pair)
            if place is not None:
                operands.insert(place, one)
            out.append(jnp.einsum(spec, *operands))
        return out

    ours = to_wasm(every, inputs).runner()(*[x for pair in inputs for x in pair])
    for (spec, sizes), (a, b), c in zip(CASES, given, ours, strict=True):
        truth = np.einsum(spec, a.astype(np.float64), b.astype(np.float64))
        bound = np.einsum(spec, np.abs(a).astype(np.float64), np.abs(b).astype(np.float64))
        assert c.shape == truth.shape
        assert np.max(np.abs(c - truth) / bound) < 5e-7, (spec, sizes)


INTEGER_CASES = CASES[::7] + [(spec, {}) for spec in SPECIAL]
DTYPES = [("int8", "int8"), ("int8", "int16"), ("uint8", "int8"), ("int16", "int16")]


@pytest.mark.parametrize("constant", ["no constant", "the right one", "the left one"])
def test_products_of_integers(constant):
    """Sums are those of 64-bit integers, or wrap as int32 does."""
    random, given = np.random.default_rng(0), []
    for place, (spec, sizes) in enumerate(INTEGER_CASES):
        pair = []
        for dtype, array in zip(DTYPES[place % 4], arrays(spec, **sizes), strict=True):
            limits = np.iinfo(dtype)
            some = random.integers(limits.min, limits.max + 1, array.shape)
            pair.append(np.where(random.uniform(size=array.shape) < 0.5, limits.min, some).astype(dtype))
        given.append(pair)
    kept = {"the left one": 0, "the right one": 1}.get(constant)
    inputs = [[x for i, x in enumerate(pair) if i != kept] for pair in given]

    def every(inputs):
        out = []
        for (spec, _), pair, rest in zip(INTEGER_CASES, given, inputs, strict=True):
            given_now = iter(rest)
            a, b = (one if i == kept else next(given_now) for i, one in enumerate(pair))
            out.append(jnp.einsum(spec, jnp.asarray(a).astype(jnp.int32), jnp.asarray(b).astype(jnp.int32)))
        return out

    export = to_wasm(every, inputs)
    ours = export.runner()(*[x for pair in inputs for x in pair])
    for (spec, _), (a, b), c in zip(INTEGER_CASES, given, ours, strict=True):
        truth = np.einsum(spec, a.astype(np.int64), b.astype(np.int64)).astype(np.int32)
        np.testing.assert_array_equal(c, truth, str((spec, a.dtype, b.dtype)))


def test_narrow():
    """The type below a conversion is seen through what only moves numbers, and through nothing else."""

    def function(x):
        wide = x.astype(jnp.int32).reshape(2, 3).T
        return wide @ wide[:2].T.astype(jnp.int32), wide.astype(jnp.uint32), wide + 1

    block = trace(function, [np.zeros(6, np.uint8)], RULES)
    found = [narrow(block.inputs[0]), *map(narrow, block.outputs)]
    assert found == [np.int16, None, None, None]
    (product,) = [one for one in block.operations if one.name == "dot"]
    assert [narrow(value) for value in product.operands] == [np.int16, np.int16]


def test_relaxed_simd(tmp_path):
    """The difference stays that of roundings, and the same function without it has other instructions."""
    a, b = arrays("mk,kn->mn", m=13, k=700, n=19)
    plain, relaxed = (to_wasm(lambda a: a @ b, a, relaxed_simd=which) for which in (False, True))
    assert relaxed.check.largest < 1e-6 and relaxed.wasm != plain.wasm
    truth = a.astype(np.float64) @ b.astype(np.float64)
    bound = np.abs(a).astype(np.float64) @ np.abs(b).astype(np.float64)
    assert np.max(np.abs(relaxed.runner()(a)[0] - truth) / bound) < 5e-7


def test_stride():
    i, j = Index.variable("i"), Index.variable("j")
    sizes = {"i": 3, "j": 5}
    assert stride(i * 10 + j * 2, ["i", "j"], sizes) == 2
    assert stride(i * 11 + j * 2, ["i", "j"], sizes) is None
    assert stride(i + 7, [], sizes) == 0
