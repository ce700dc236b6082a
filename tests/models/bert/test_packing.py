"""Several sequences in one row: each gets what it gets alone, and none sees another."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from funcnet import tree
from funcnet.models import bert
from tests.compare import furthest, relative

# Two rows of 20 places: the lengths of the sequences in each; two places are padding.
ROWS = [(7, 4, 7), (4, 7, 7)]
P = 3


def packed(random):
    """The batch; documents are numbered from 0 in each row, padding is -1."""
    document = np.full((2, 20), -1)
    for row, lengths in enumerate(ROWS):
        document[row, : sum(lengths)] = np.repeat(np.arange(P), lengths)
    starts = np.array([[0, *np.cumsum(lengths)[:-1]] for lengths in ROWS])
    own = document[:, :, None] == document[:, None, :]
    positions = np.arange(20) - np.take_along_axis(starts, np.maximum(document, 0), 1)
    shown = document >= 0
    return {
        "input_ids": np.where(shown, random.integers(5, 97, (2, 20)), 0),
        "token_type_ids": np.where(shown, random.integers(0, 2, (2, 20)), 0),
        "attention_mask": own & shown[:, None, :],
        "position_ids": np.where(shown, positions, 0),
        "pooled_positions": starts,
        "labels": np.where(shown & (random.random((2, 20)) < 0.4), random.integers(5, 97, (2, 20)), -100),
        "next_sentence_label": random.integers(0, 2, (2, P)),
    }


def alone(batch):
    """Each sequence as a batch of its own, unpadded, in order."""
    for row, lengths in enumerate(ROWS):
        for number, (start, length) in enumerate(zip(batch["pooled_positions"][row], lengths, strict=True)):
            cut = {
                n: batch[n][row : row + 1, start : start + length] for n in ("input_ids", "token_type_ids", "labels")
            }
            yield cut | {"next_sentence_label": batch["next_sentence_label"][row : row + 1, number]}


def started(sizes, **options):
    model = bert.BertForPreTraining(bert.BertConfig(**sizes, **options))
    params, state = model.init(jax.random.key(0))
    leaves, structure = jax.tree.flatten(params)
    keys = jax.random.split(jax.random.key(1), len(leaves))
    noisy = [
        np.asarray(a) + 0.1 * np.asarray(jax.random.normal(key, a.shape)) for a, key in zip(leaves, keys, strict=True)
    ]
    return model, jax.tree.unflatten(structure, noisy), state


def sums(model, state):
    """(params, batch) -> (loss summed over all that counts, (logits of the words, of the next sentence)), gradients."""

    def loss(params, batch):
        given = {name: array for name, array in batch.items() if "label" not in name}
        (words, follows), _ = model.apply(params, state, **given)
        total = bert.losses.cross_entropy(words, batch["labels"]).sum
        total = total + bert.losses.cross_entropy(follows, batch["next_sentence_label"]).sum
        return total, (words, follows)

    return jax.jit(jax.value_and_grad(loss, has_aux=True))


def compare(model, params, state, tolerance, zero=()):
    """Logits and gradients of every sequence, packed and alone; not the gradients that are `zero` by mathematics."""
    batch, run, total = packed(np.random.default_rng(0)), sums(model, state), None
    (_, (words, follows)), gradients = run(params, batch)
    for place, one in enumerate(alone(batch)):
        (_, (own_words, own_follows)), own = run(params, one)
        row, number = divmod(place, P)
        start = batch["pooled_positions"][row, number]
        assert relative(words[row : row + 1, start : start + own_words.shape[1]], own_words, [own_words]) < tolerance
        assert relative(follows[row, number], own_follows[0], [own_follows]) < tolerance
        total = own if total is None else jax.tree.map(jnp.add, total, own)
    ours, expected = (
        {name: g for name, g in tree.flatten(grads).items() if not name.endswith(tuple(zero))}
        for grads in (gradients, total)
    )
    distance, worst = furthest(ours, expected)
    assert distance < tolerance, worst


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["absolute", "relative_key_query"])
def test_packed_is_unpadded(sizes, kind):
    """Logits and gradients of every sequence; in float64, where what is left is rounding: far within 1e-6."""
    with jax.enable_x64(True):
        model, params, state = started(sizes | {"num_hidden_layers": 2}, position_embedding_type=kind)
        compare(model, tree.cast(params, jnp.float64), state, 1e-11)


def test_packed_is_unpadded_in_float32(sizes):
    """A key's bias moves all scores of a query alike: what float32 finds for its gradient is rounding."""
    compare(*started(sizes | {"num_hidden_layers": 1}), 1e-6, zero=["key.bias"])


@pytest.mark.parametrize("scan", [False, True], ids=["loop", "scan"])
def test_another_document_changes_no_bit(sizes, scan):
    """Document 0 of both rows has other words; all that belongs to documents 1 and 2 is the same, gradients too."""
    random = np.random.default_rng(0)
    batch = packed(random)
    first = np.arange(20) < np.array(ROWS)[:, :1]
    batch["labels"] = np.where(first, -100, batch["labels"])
    batch["next_sentence_label"][:, 0] = -100
    other = batch | {"input_ids": np.where(first, random.integers(5, 97, (2, 20)), batch["input_ids"])}
    assert (other["input_ids"] != batch["input_ids"]).sum() > 8
    model, params, state = started(sizes | {"num_hidden_layers": 2})
    if scan:
        model = bert.BertForPreTraining(scanned(model.config))
        params, state = model.stack(params), model.stack(state)
    run = sums(model, state)
    (_, (words, follows)), gradients = run(params, batch)
    (_, (other_words, other_follows)), other_gradients = run(params, other)
    assert (np.asarray(words)[first] != np.asarray(other_words)[first]).mean() > 0.9
    rest = ~first & batch["attention_mask"].any(-1)  # padding sees nothing, and so looks at all alike
    np.testing.assert_array_equal(np.asarray(words)[rest], np.asarray(other_words)[rest])
    np.testing.assert_array_equal(follows[:, 1:], other_follows[:, 1:])
    jax.tree.map(np.testing.assert_array_equal, gradients, other_gradients)


def scanned(config):
    return bert.BertConfig.from_dict(config.to_dict() | {"scan_layers": True})
