"""Packed rows: every example once and whole, and the loss and gradients that each has alone."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from funcnet import tree
from funcnet.data import Joined
from funcnet.models import bert
from funcnet.settings import compose
from funcnet.tasks.pretraining.objective import counts, make_objective
from funcnet.tasks.pretraining_data import DataSettings, Masking, PretrainingDataset, build, open_data
from funcnet.tasks.pretraining_data.packing import PackedDataset, most_examples, number_of_rows, share_rows
from tests.compare import furthest
from tests.tasks.command import write_short_documents

T = 64


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Sixty documents of a few short sentences, two passes."""
    folder = tmp_path_factory.mktemp("packing")
    corpus = write_short_documents(folder / "corpus.txt")
    settings = compose(DataSettings, corpus=(corpus,), seq_len=(T,), passes=2, vocab_size=60, held_out=0)
    build(folder / "data", settings)
    return open_data(folder / "data")


@given(lengths=st.lists(st.integers(5, T), max_size=80), seed=st.integers(0, 2**32))
def test_rows_are_never_too_full_and_hardly_too_many(lengths, seed):
    lengths = np.array(lengths, np.int64)
    rows = share_rows(lengths, T, np.random.default_rng(seed))
    assert sorted(set(rows.tolist())) == list(range(len(set(rows.tolist()))))
    used, held = np.bincount(rows, lengths), np.bincount(rows)
    assert (used <= T).all() and (held <= most_examples(T)).all()
    smallest = np.array([lengths[rows == row].min() for row in range(len(used))])
    room = (used[:, None] + smallest <= T) & (held[:, None] + held <= most_examples(T)) & ~np.eye(len(used), dtype=bool)
    assert not (room & (held[:, None] == 1) & (held == 1)).any(), "two that are alone would fit together"


@given(sizes=st.lists(st.integers(2, 61), min_size=1, max_size=40), seed=st.integers(0, 99))
def test_the_slots_hold_all_hidden_words_of_any_row(sizes, seed):
    """Whatever lies in a row; pairs of two words hide one of two, the largest share."""
    sizes = np.array([*sizes, *[2] * 12])
    row = share_rows(sizes + 3, T, np.random.default_rng(seed))
    order = np.argsort(row, kind="stable")
    columns = {"a_start": 0 * sizes, "b_start": 0 * sizes, "a_length": 0 * sizes + 1, "b_length": sizes[order] - 1}
    columns |= {"is_random_next": sizes % 2, "row": row[order]}
    pairs = {name: Joined([values]) for name, values in columns.items()}
    hide = Masking(mask_id=4, never=(0, 1, 2, 3, 4), vocab_size=90, max_predictions=10)
    tokens = Joined([np.arange(5, 70)])
    examples = PretrainingDataset(tokens, [pairs], T, hide, cls_id=2, sep_id=3, pad_id=0, seed=seed)
    packed = PackedDataset(examples)
    batch, alone = packed[np.arange(len(packed))], examples[np.arange(len(examples))]
    for name in ("masked_weights", "attention_mask"):
        assert batch[name].sum() == alone[name].sum()


def test_an_epoch_has_every_example_once_and_whole(data):
    packed = data.packed()
    for epoch in (0, 3):
        batch = packed.at_epoch(epoch)[np.arange(len(packed))]
        examples = packed.examples.at_epoch(epoch)[np.arange(len(packed.examples.pairs[epoch % 2]["row"]))]
        place = 0
        for row in range(len(packed)):
            taken = batch["masked_weights"][row] == 1
            places, ids = batch["masked_positions"][row][taken], batch["masked_ids"][row][taken]
            for number in range(1, batch["sequence_ids"][row].max() + 1):
                here = np.flatnonzero(batch["sequence_ids"][row] == number)
                real = examples["attention_mask"][place] == 1
                assert (np.diff(here) == 1).all() and batch["pooled_positions"][row, number - 1] == here[0]
                for name in ("input_ids", "token_type_ids", "attention_mask"):
                    np.testing.assert_array_equal(batch[name][row, here], examples[name][place][real])
                np.testing.assert_array_equal(batch["position_ids"][row, here], np.arange(len(here)))
                used = examples["masked_weights"][place] == 1
                inside = np.isin(places, here)
                expected = examples["masked_positions"][place][used] + here[0]
                np.testing.assert_array_equal(places[inside], expected)
                np.testing.assert_array_equal(ids[inside], examples["masked_ids"][place][used])
                assert batch["next_sentence_label"][row, number - 1] == examples["next_sentence_label"][place]
                place += 1
            assert (batch["next_sentence_label"][row, number:] == -100).all()
        assert place == len(examples["input_ids"])
    assert place > 1.5 * len(packed), "that is what it is for"
    sizes = [number_of_rows(np.asarray(pairs["row"])) for pairs in packed.examples.pairs]
    assert sizes == [len(packed)] * 2
    statistics = data.statistics["train"]
    assert statistics["packed_padding_share"] < 0.15 < 0.4 < statistics["padding_share"]


@pytest.mark.slow
def test_the_loss_is_that_of_a_row_for_each(data):
    """Sums and gradients, in float64, packed and a row each. (test_bert_packing: and of what is unpadded.)"""
    packed = data.packed()
    batch = packed[np.arange(3)]
    number = int((batch["next_sentence_label"] != -100).sum())
    config = bert.BertConfig(
        vocab_size=data.tokenizer.get_vocab_size(),
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=T,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
    with jax.enable_x64(True):
        net = bert.BertForPreTraining(config)
        params, state = jax.jit(net.init)(jax.random.key(0))
        params = tree.cast(params, jnp.float64)
        objective = make_objective(net)

        @jax.jit
        def losses(params, batch):
            totals = counts(batch)

            def loss(params):
                sums, _ = objective(params, state, batch, training=False, rng=None)
                return sum(terms["loss"] for terms in sums.values()), {name: sums[name]["loss"] for name in sums}

            gradient, sums = jax.grad(loss, has_aux=True)(params)
            return gradient, (sums, totals)

        found = losses(params, batch)
        examples = packed.examples[np.arange(number)]
        alone = losses(params, examples)
    distance, worst = furthest(tree.flatten(found[0]), tree.flatten(alone[0]))
    assert distance < 1e-10, worst
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-12), found[1], alone[1])
    assert number > 4


def test_batches_follow_from_their_step(data):
    loader = data.train_batches(4, packed=True)
    later = next(loader.batches(7))
    batches = list(data.train_batches(4, packed=True).batches(0, 8))
    assert [batch["input_ids"].shape for batch in batches] == [(4, T)] * 8
    np.testing.assert_array_equal(later["input_ids"], batches[7]["input_ids"])
    with pytest.raises(ValueError, match=r"smaller than one batch; expected at least 500 .*, got \d+ packed rows"):
        data.train_batches(500, packed=True)
