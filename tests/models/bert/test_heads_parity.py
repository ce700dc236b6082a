"""Every head and both relative positions against transformers: loss, logits, states, attentions, every gradient."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
import transformers

from funcnet import tree
from funcnet.models import bert
from tests.compare import furthest, relative
from tests.models.bert.test_parity import ours_from, precision
from tests.models.transformers_bert import make_reference

WORDS = np.where(np.arange(20) % 3 == 1, np.arange(60).reshape(3, 20), -100)  # labels of masked words, the rest is left
SEVERAL = np.array([[1.0, 0, 1, 0], [0, 0, 0, 1], [1, 1, 1, 1]])
# head: (options of the config, labels)
HEADS = {
    "BertForPreTraining": ({}, {"labels": WORDS, "next_sentence_label": np.array([0, 1, -100])}),
    "BertForMaskedLM": ({}, {"labels": WORDS}),
    "BertForNextSentencePrediction": ({}, {"labels": np.array([1, 0, 1])}),
    "BertForSequenceClassification": ({"num_labels": 5}, {"labels": np.array([4, 0, 2])}),
    "BertForSequenceClassification, a number": ({"num_labels": 1}, {"labels": np.array([0.5, -2.0, 1.5])}),
    "BertForSequenceClassification, numbers": (
        {"num_labels": 4, "problem_type": "regression"},
        {"labels": SEVERAL - 0.3},
    ),
    "BertForSequenceClassification, several": ({"num_labels": 4}, {"labels": SEVERAL}),
    "BertForMultipleChoice": ({"classifier_dropout": 0.3}, {"labels": np.array([2])}),
    "BertForTokenClassification": ({"num_labels": 7}, {"labels": np.where(WORDS < 0, -100, WORDS % 7)}),
    "BertForQuestionAnswering": ({}, {"start_positions": np.array([3, 0, 20]), "end_positions": np.array([9, 1, 3])}),
}


def to_torch(values, dtype):
    return {n: torch.tensor(a, dtype=dtype if a.dtype.kind == "f" else torch.long) for n, a in values.items()}


def inputs_of(head, batch):
    """The three sequences as one question with three choices, or as they are."""
    return {name: array[None] for name, array in batch.items()} if "MultipleChoice" in head else batch


def compare_with_transformers(theirs, inputs, labels, scan, tolerances):
    """Everything that the two give, and the gradient of every parameter."""
    model, params, state = ours_from(theirs, getattr(bert, type(theirs).__name__), scan_layers=scan)
    asked = {"output_attentions": True, "output_hidden_states": True}
    expected = theirs(**to_torch(inputs | labels, theirs.dtype), **asked, return_dict=False)
    expected[0].backward()
    dtype = jnp.dtype(str(theirs.dtype).removeprefix("torch."))
    labels = {name: jnp.asarray(a, dtype if a.dtype.kind == "f" else None) for name, a in labels.items()}

    def loss(params):
        out, _ = model.apply(params, state, **inputs, **labels, **asked)
        return out[0], out

    gradients, out = jax.jit(jax.grad(loss, has_aux=True))(params)
    values, deep = tolerances
    layers = theirs.config.num_hidden_layers
    assert len(out) == len(expected) and [len(x) for x in out[-2:]] == [layers + 1, layers]
    for ours, reference in zip(jax.tree.leaves(out), jax.tree.leaves(expected), strict=True):
        reference = reference.detach().numpy()
        assert ours.dtype == reference.dtype and relative(ours, reference, [reference]) < values
    expected = {name: p.grad.numpy() for name, p in theirs.named_parameters() if p.grad is not None}
    gradients = tree.flatten(model.unstack(gradients))
    for name in set(gradients) - set(expected):  # what torch did not reach: the position table beside relative ones
        assert not gradients.pop(name).any(), name
    # A bias that moves all scores of a softmax alike (of places, of choices) has no gradient: all of it is rounding.
    largest = max(np.abs(array).max() for array in expected.values())
    noise = 8 * np.finfo(reference.dtype).eps * largest
    for name in [name for name, array in expected.items() if np.abs(array).max() <= noise]:
        assert np.abs(gradients.pop(name)).max() <= noise, name
        del expected[name]
    distance, worst = furthest(gradients, expected)
    assert distance < deep, worst


@pytest.mark.slow
@pytest.mark.parametrize(
    ("head", "name", "scan"),
    [
        *((head, name, False) for head in HEADS for name in ("float32", "float64")),
        # the stack is the encoder's: a head with a pooler, one without, and one of other dimensions will do
        *((f"BertFor{head}", "float32", True) for head in ("PreTraining", "QuestionAnswering", "MultipleChoice")),
    ],
)
def test_heads(head, name, scan, sizes, batch):
    options, labels = HEADS[head]
    with precision(name) as (dtype, *tolerances):
        sizes["num_hidden_layers"] = 2
        theirs = make_reference(sizes, getattr(transformers, head.split(",")[0]), dtype, **options)
        compare_with_transformers(theirs, inputs_of(head, batch), labels, scan, tolerances)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["float32", "float64"])
@pytest.mark.parametrize("kind", ["relative_key", "relative_key_query"])
def test_relative_positions(kind, name, sizes, batch):
    with precision(name) as (dtype, *tolerances):
        theirs = make_reference(sizes, transformers.BertForMaskedLM, dtype, position_embedding_type=kind)
        compare_with_transformers(theirs, batch, {"labels": WORDS}, name == "float64", tolerances)


@pytest.mark.parametrize(
    ("head", "kind"),
    [
        *((head, "absolute") for head in HEADS),
        *(("BertForMaskedLM", f"relative_{kind}") for kind in ("key", "key_query")),
    ],
)
def test_names_loss_and_logits(head, kind, sizes, batch):
    """The same names and shapes; without labels and flags the logits alone, as an array where there is one."""
    options, labels = HEADS[head]
    sizes["num_hidden_layers"] = 1
    cls = getattr(transformers, head.split(",")[0])
    theirs = make_reference(sizes, cls, position_embedding_type=kind, **options)
    model, params, state = ours_from(theirs, getattr(bert, cls.__name__))
    shapes = {name: tuple(tensor.shape) for name, tensor in theirs.state_dict().items()}
    assert {name: array.shape for name, array in model.state_dict(params, state).items()} == shapes
    assert list(model.state_dict(params, state)) == list(shapes)
    inputs = inputs_of(head, batch)
    with torch.no_grad():
        expected = theirs(**to_torch(inputs | labels, torch.float32), return_dict=False)
    labels = {name: jnp.asarray(array, "f4" if array.dtype.kind == "f" else "i4") for name, array in labels.items()}
    out, _ = jax.jit(model.apply)(params, state, **inputs, **labels)
    assert len(out) == len(expected)
    for ours, reference in zip(out, expected, strict=True):
        assert relative(ours, reference.numpy(), [reference.numpy()]) < 1e-5
    bare, _ = jax.eval_shape(model.apply, params, state, **inputs)
    assert jax.tree.map(lambda a: a.shape, bare) == (out[1].shape if len(out) == 2 else (out[1].shape, out[2].shape))


@pytest.mark.slow
def test_the_models_output_with_flags(sizes, batch):
    theirs = make_reference(sizes, transformers.BertModel)
    model, params, state = ours_from(theirs, bert.BertModel)
    for flags in ({"output_attentions": True}, {"output_hidden_states": True}):
        with torch.no_grad():
            expected = theirs(**to_torch(batch, None), **flags, return_dict=False)
        out, _ = model.apply(params, state, **batch, **flags)
        assert len(out) == len(expected) == 3
        for ours, reference in zip(jax.tree.leaves(out), jax.tree.leaves(expected), strict=True):
            assert relative(ours, reference.numpy(), [reference.numpy()]) < 1e-5


@pytest.mark.slow
def test_attention_after_dropout_is_what_comes_out_in_training(sizes, batch):
    """As in transformers; and asking for it changes no draw, in the loop and in the scan."""
    config = bert.BertConfig(**sizes, attention_probs_dropout_prob=0.5)
    for scan in (False, True):
        model = bert.BertModel(dataclasses.replace(config, scan_layers=scan))
        params, state = model.init(jax.random.key(0))
        run = lambda model=model, params=params, state=state, **flags: model.apply(
            params, state, **batch, training=True, rng=jax.random.key(1), **flags
        )[0]
        sequence, _, states, weights = run(output_attentions=True, output_hidden_states=True)
        np.testing.assert_allclose(sequence, run()[0], rtol=1e-5, atol=1e-6)
        np.testing.assert_array_equal(sequence, states[-1])
        assert 0.4 < (np.asarray(weights[0][0]) == 0).mean() < 0.6
