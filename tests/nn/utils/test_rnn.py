"""Padding and packing against torch's: data, layout, order; what a packed batch is to JAX; refusals."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn.utils import rnn as torch_rnn

from funcnet import tree
from funcnet.nn.utils import rnn


def sequences(lengths, *shape, kind=np.float32):
    return [np.random.default_rng(i).integers(1, 9, (n, *shape)).astype(kind) for i, n in enumerate(lengths)]


def tensors(arrays):
    return [torch.tensor(a) for a in arrays]


def same(ours, theirs):
    """Equal arrays of one dtype (JAX without x64 keeps int64 as int32)."""
    assert np.array_equal(ours, theirs.numpy()), (ours, theirs)
    assert np.asarray(ours).dtype == theirs.numpy().dtype


def same_packed(ours, theirs):
    assert type(ours)._fields == type(theirs)._fields
    same(ours.data, theirs.data)
    for a, b in zip(ours[1:], theirs[1:], strict=True):
        assert a is b is None or np.array_equal(a, b.numpy())
        assert a is None or a.dtype == np.int64


@pytest.mark.slow
@given(
    lengths=st.lists(st.integers(1, 5), min_size=1, max_size=6),
    width=st.sampled_from([(), (2,), (2, 1)]),
    sorted_first=st.booleans(),
    batch_first=st.booleans(),
    more=st.sampled_from([None, 0, 2]),
    value=st.sampled_from([0.0, -1.5]),
    left=st.booleans(),
)
def test_hypothesis_packing_and_padding(lengths, width, sorted_first, batch_first, more, value, left):
    there_and_back(lengths, width, sorted_first, batch_first, more, value, left)


@pytest.mark.parametrize("sorted_first", [False, True])
def test_packing_and_padding(sorted_first):
    there_and_back([2, 4, 1, 4], (2,), sorted_first, not sorted_first, 1, -1.5, sorted_first)


def there_and_back(lengths, width, sorted_first, batch_first, more, value, left):
    """All functions on numpy's arrays."""
    lengths = sorted(lengths, reverse=True) if sorted_first else lengths
    ours = sequences(lengths, *width)
    theirs = tensors(ours)
    side = "left" if left else "right"
    same(rnn.pad_sequence(ours, batch_first, value, side), torch_rnn.pad_sequence(theirs, batch_first, value, side))
    packed, expected = (lib.pack_sequence(s, sorted_first) for lib, s in ((rnn, ours), (torch_rnn, theirs)))
    same_packed(packed, expected)
    padded = torch_rnn.pad_sequence(theirs, batch_first)
    same_packed(rnn.pack_padded_sequence(padded.numpy(), lengths, batch_first, sorted_first), expected)
    total = None if more is None else max(lengths) + more
    packed = packed._replace(data=np.asarray(packed.data))
    got, got_lengths = rnn.pad_packed_sequence(packed, batch_first, value, total)
    want, want_lengths = torch_rnn.pad_packed_sequence(expected, batch_first, value, total)
    same(got, want)
    same(got_lengths, want_lengths)
    for a, b in zip(rnn.unpack_sequence(packed), ours, strict=True):
        assert np.array_equal(a, b)
    for a, b in zip(rnn.unpad_sequence(padded.numpy(), lengths, batch_first), ours, strict=True):
        assert np.array_equal(a, b)


def test_jax_arrays_and_gradients_pass_through():
    lengths = [1, 3, 2]
    arrays = [jnp.asarray(a) for a in sequences(lengths, 2)]
    weights = np.arange(18.0, dtype=np.float32).reshape(3, 3, 2)

    @jax.jit
    def run(arrays):
        packed = rnn.pack_sequence(arrays, enforce_sorted=False)
        padded, known = rnn.pad_packed_sequence(packed, batch_first=True, padding_value=7.0)
        assert known.tolist() == lengths  # known here too
        return (padded * weights).sum(), (packed, rnn.unpack_sequence(packed))

    (_, (packed, back)), gradients = jax.value_and_grad(run, has_aux=True)(arrays)
    same_packed(packed, torch_rnn.pack_sequence(tensors(map(np.asarray, arrays)), enforce_sorted=False))
    for sequence, array, gradient, weight in zip(back, arrays, gradients, weights, strict=True):
        assert np.array_equal(sequence, array)
        assert np.array_equal(gradient, weight[: len(array)])


def test_sequences_of_equal_length_keep_their_order():
    """torch's own sort does not, past 16 of them; padded again they are the same."""
    ours = rnn.pack_padded_sequence(np.arange(40.0)[None], [1] * 40, enforce_sorted=False)
    assert ours.sorted_indices.tolist() == list(range(40))


@pytest.mark.parametrize("kind", [np.int32, np.float16, bool])
def test_other_dtypes(kind):
    ours = sequences([2, 1], kind=kind)
    same(rnn.pad_sequence(ours, padding_value=3.7), torch_rnn.pad_sequence(tensors(ours), padding_value=3.7))
    packed = rnn.pack_sequence([jnp.asarray(a) for a in ours])
    theirs = torch_rnn.pack_sequence(tensors(ours))
    for value in (0.0, 3.7):
        same(rnn.pad_packed_sequence(packed, False, value)[0], torch_rnn.pad_packed_sequence(theirs, False, value)[0])


def test_empty_sequences_pad_to_nothing_or_to_padding():
    empty, full = np.ones((0, 2), np.float32), np.ones((2, 2), np.float32)
    same(rnn.pad_sequence([full, empty]), torch_rnn.pad_sequence(tensors([full, empty])))
    assert rnn.pad_sequence([empty, empty]).shape == (0, 2, 2)


def test_only_the_data_is_a_leaf():
    """So gradients, casts and maps reach it and the layout stays."""
    packed = rnn.pack_sequence(sequences([1, 2], 3), enforce_sorted=False)
    leaves = jax.tree_util.tree_leaves_with_path(packed)
    assert [jax.tree_util.keystr(path) for path, _ in leaves] == [".data"]
    doubled = jax.tree.map(lambda a: a * 2, packed)
    assert isinstance(doubled, rnn.PackedSequence) and np.array_equal(doubled.data, packed.data * 2)
    assert tree.cast(packed, "bfloat16").data.dtype == jnp.bfloat16
    assert jax.tree.structure(packed) == jax.tree.structure(doubled)
    assert jax.tree.structure(packed) != jax.tree.structure(rnn.pack_sequence(sequences([2, 1], 3)))
    assert hash(jax.tree.structure(packed)) == hash(jax.tree.structure(doubled))


def test_a_packed_sequence_made_by_hand():
    packed = rnn.pack_sequence(sequences([1, 2], 3), enforce_sorted=False)
    again = rnn.PackedSequence(packed.data, jnp.asarray(packed.batch_sizes), packed.sorted_indices.tolist())
    old = rnn.PackedSequence((packed.data, packed.batch_sizes))
    for a, b in zip(packed, again, strict=True):
        assert np.array_equal(a, b)
    assert old.sorted_indices is None and np.array_equal(old.batch_sizes, packed.batch_sizes)


@pytest.mark.parametrize("kind", [np.array, jnp.array, jax.jit(jnp.asarray)])
def test_invert_permutation(kind):
    got = rnn.invert_permutation(kind([2, 0, 1]))
    assert got.tolist() == torch_rnn.invert_permutation(torch.tensor([2, 0, 1])).tolist()
    assert rnn.invert_permutation(None) is None


X = np.ones((4, 3, 2), np.float32)
DATA = np.ones((3, 2), np.float32)
TWO = [np.ones((2, 3), np.float32), np.ones((2, 4), np.float32)]
traced = lambda function: lambda: jax.jit(function)(jnp.array([4, 2, 1]))
REFUSALS = [
    (
        lambda: rnn.pack_padded_sequence(X, [4, 2, 0]),
        ValueError,
        r"lengths do not fit the input; .* each from 1 to 4, got \[4, 2",
    ),
    (
        lambda: rnn.pack_padded_sequence(X, [4, 2]),
        ValueError,
        r"lengths do not fit the input; expected 3 lengths.* got \[4, 2\]",
    ),
    (
        lambda: rnn.pack_padded_sequence(X, [5, 2, 1]),
        ValueError,
        r"lengths do not fit the input; .* each from 1 to 4, got \[5",
    ),
    (
        lambda: rnn.pack_padded_sequence(X, [2, 3, 1]),
        ValueError,
        "lengths are not sorted; .* enforce_sorted=False",
    ),
    (lambda: rnn.pack_padded_sequence(X, [2.0, 1, 1]), TypeError, "lengths must hold integers"),
    (
        lambda: rnn.pack_padded_sequence(X[0, 0], [2]),
        ValueError,
        "input has the wrong shape; expected non-empty time and batch",
    ),
    (
        lambda: rnn.pack_padded_sequence(X[:, :0], []),
        ValueError,
        "input has the wrong shape; expected non-empty time and batch",
    ),
    (
        traced(lambda lengths: rnn.pack_padded_sequence(X, lengths)),
        TypeError,
        r"lengths are traced; .* Pack outside jit, pass a list, or keep .* pass lengths=",
    ),
    (traced(lambda lengths: rnn.unpad_sequence(X, lengths)), TypeError, "unpad_sequence: lengths are traced"),
    (traced(lambda sizes: rnn.PackedSequence(X[:, 0], sizes)), TypeError, "batch_sizes are traced"),
    (lambda: rnn.PackedSequence(DATA), TypeError, "PackedSequence: batch_sizes is missing"),
    (
        lambda: rnn.PackedSequence(DATA, [1, 2]),
        ValueError,
        r"batch_sizes are invalid; .* in decreasing order, got \[1, 2\]",
    ),
    (lambda: rnn.PackedSequence(DATA, []), ValueError, "batch_sizes are invalid; expected positive numbers"),
    (lambda: rnn.PackedSequence(DATA, [2, 2]), ValueError, r"data does not fit batch_sizes; expected 4 steps"),
    (
        lambda: rnn.PackedSequence(DATA, [2, 1], [0, 2]),
        ValueError,
        "sorted_indices are not a permutation; expected the index of each of the 2",
    ),
    (lambda: rnn.PackedSequence(DATA, [2, 1], [0, 1], [0]), ValueError, "unsorted_indices are not a permutation"),
    (lambda: rnn.pad_packed_sequence(X), TypeError, "pad_packed_sequence: expected a PackedSequence, got ndarray"),
    (lambda: rnn.unpack_sequence(X), TypeError, "unpack_sequence: expected a PackedSequence, got ndarray"),
    (
        lambda: rnn.pad_packed_sequence(rnn.PackedSequence(DATA, [2, 1]), total_length=1),
        ValueError,
        "total_length is too small; expected at least the longest length, 2, got 1",
    ),
    (
        lambda: rnn.pad_sequence([]),
        ValueError,
        "pad_sequence: the sequences do not fit together; expected at least one",
    ),
    (lambda: rnn.pad_sequence(3), TypeError, "pad_sequence: expected a list of sequences, got int"),
    (lambda: rnn.pad_sequence(TWO), ValueError, r"sequences do not fit together; .* got shapes \[\(2, 3\), \(2, 4\)\]"),
    (lambda: rnn.pad_sequence([np.float32(1)]), ValueError, r"sequences do not fit together; .* got shapes \[\(\)\]"),
    (lambda: rnn.pad_sequence([DATA, DATA.astype(np.float16)]), TypeError, "pad_sequence: the dtypes differ"),
    (lambda: rnn.pad_sequence([DATA], padding_side="up"), ValueError, "padding_side is unknown; .* got 'up'"),
    (lambda: rnn.pack_sequence([DATA[:1], DATA]), ValueError, "lengths are not sorted"),
    (lambda: rnn.pack_sequence([]), ValueError, "pack_sequence: the sequences do not fit together"),
    (
        lambda: rnn.unpad_sequence(X, [4, 2]),
        ValueError,
        "unpad_sequence: lengths do not fit the input; expected 3 lengths",
    ),
    (
        lambda: rnn.unpad_sequence(X, [4, 2, 9]),
        ValueError,
        r"lengths do not fit the input; .* each from 0 to 4, got \[4, 2, 9\]",
    ),
    (lambda: rnn.unpad_sequence(X[0, 0], [1]), ValueError, r"expected time and batch dimensions, got \(2,\)"),
]


@pytest.mark.parametrize(("refused", "error", "text"), REFUSALS, ids=[text for *_, text in REFUSALS])
def test_refusals_say_why(refused, error, text):
    with pytest.raises(error, match=text):
        refused()
