"""Random-weight BERT against transformers: values and the gradient of every parameter, with padding, in eval mode."""

import contextlib
import dataclasses
import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
import transformers

from funcnet import tree
from funcnet.models import bert
from tests.compare import furthest, relative
from tests.models.transformers_bert import make_reference

# float32's tolerances are the issue's; float64 shows that what is left in float32 is rounding and nothing else.
PRECISIONS = {"float32": (torch.float32, 1e-5, 1e-4), "float64": (torch.float64, 1e-12, 1e-11)}


@contextlib.contextmanager
def precision(name):
    with jax.enable_x64(name == "float64"):
        yield PRECISIONS[name]


def ours_from(theirs, cls=bert.BertForPreTraining, **changes):
    """Our model with the weights and the dtype of transformers' one."""
    config = dataclasses.replace(bert.BertConfig.from_dict(theirs.config.to_dict()), **changes)
    model = cls(config)
    start = tree.cast(model.init(jax.random.key(0)), str(theirs.dtype).removeprefix("torch."))
    return model, *model.load_state_dict(theirs.state_dict(), into=start)


def gradients_of(theirs, batch, cotangents):
    """{name: gradient} in transformers, ties under their first name."""
    out = theirs(**{name: torch.tensor(array, dtype=torch.long) for name, array in batch.items()})
    loss = sum((o * torch.tensor(c, dtype=o.dtype)).sum() for o, c in zip(out[:2], cotangents, strict=True))
    loss.backward()
    return out[:2], {name: parameter.grad.numpy() for name, parameter in theirs.named_parameters()}


@pytest.mark.parametrize("name", PRECISIONS)
@pytest.mark.parametrize("scan", [False, True], ids=["loop", "scan"])
def test_values_and_every_gradient(name, scan, batch, sizes):
    with precision(name) as (dtype, value_tolerance, gradient_tolerance):
        theirs = make_reference(sizes, dtype=dtype)
        model, params, state = ours_from(theirs, scan_layers=scan)
        random = np.random.default_rng(1)
        cotangents = [random.normal(size=(3, 20, 97)), random.normal(size=(3, 2))]

        def loss(params):
            out, _ = model.apply(params, state, **batch)
            return sum((o * jnp.asarray(c, o.dtype)).sum() for o, c in zip(out, cotangents, strict=True)), out

        gradients, out = jax.jit(jax.grad(loss, has_aux=True))(params)
        expected, expected_gradients = gradients_of(theirs, batch, cotangents)
        expected = [o.detach().numpy() for o in expected]
        for ours, other in zip(out, expected, strict=True):
            assert ours.dtype == other.dtype
            assert relative(ours, other, expected) < value_tolerance
        gradients = tree.flatten(model.unstack(gradients))
        distance, worst = furthest(gradients, expected_gradients)
        assert distance < gradient_tolerance, worst


@pytest.mark.parametrize(
    "options", [{"hidden_act": "gelu_new"}, {"hidden_act": "relu"}, {"hidden_act": "silu"}], ids=str
)
def test_other_activations(options, batch, sizes):
    theirs = make_reference(sizes, **options)
    model, params, state = ours_from(theirs)
    (ours, _), _ = model.apply(params, state, **batch)
    other = theirs(**{n: torch.tensor(a, dtype=torch.long) for n, a in batch.items()})[0].detach().numpy()
    assert relative(ours, other, [other]) < 1e-5


def test_defaults_of_the_arguments(batch, sizes):
    """Without mask, types and positions: everything is shown, of the first sentence, at 0, 1, …."""
    theirs = make_reference(sizes, transformers.BertModel)
    model, params, state = ours_from(theirs, bert.BertModel)
    ids = torch.tensor(batch["input_ids"], dtype=torch.long)
    with torch.no_grad():
        expected = theirs(ids)
    (sequence, pooled), _ = model.apply(params, state, batch["input_ids"])
    assert relative(sequence, expected[0].numpy(), [expected[0].numpy()]) < 1e-5
    assert relative(pooled, expected[1].numpy(), [expected[1].numpy()]) < 1e-5

    positions = np.arange(20)[::-1].copy()
    with torch.no_grad():
        expected = theirs(ids, position_ids=torch.tensor(positions)[None])[0].numpy()
    for given in (positions, np.tile(positions, (3, 1))):
        (sequence, _), _ = model.apply(params, state, batch["input_ids"], position_ids=given)
        assert relative(sequence, expected, [expected]) < 1e-5


@pytest.mark.slow
def test_masks_of_every_kind_agree(batch, sizes):
    theirs = make_reference(sizes, transformers.BertModel)
    model, params, state = ours_from(theirs, bert.BertModel)
    ids, mask = batch["input_ids"], batch["attention_mask"]
    (expected, _), _ = model.apply(params, state, ids, mask)
    for other in (
        mask.astype(bool),
        jnp.asarray(mask) > 0,
        mask.astype(np.float32),
        np.repeat(mask[:, None], 20, axis=1),
    ):
        (sequence, _), _ = model.apply(params, state, ids, other)
        np.testing.assert_array_equal(sequence, expected)
    nothing = np.array(mask)
    nothing[2] = 0  # a sequence with every key hidden: transformers attends to all alike
    with torch.no_grad():
        expected = theirs(torch.tensor(ids, dtype=torch.long), torch.tensor(nothing))[0].numpy()
    (sequence, _), _ = model.apply(params, state, ids, nothing)
    assert relative(sequence, expected, [expected]) < 1e-5
    gradient = jax.grad(lambda p: model.apply(p, state, ids, nothing)[0][0].sum())(params)
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(gradient))


def test_names_shapes_and_ties_are_transformers(sizes):
    theirs = make_reference(sizes)
    model, params, state = ours_from(theirs)
    sd, expected = model.state_dict(params, state), theirs.state_dict()
    assert list(sd) == list(expected)
    assert {n: a.shape for n, a in sd.items()} == {n: tuple(t.shape) for n, t in expected.items()}
    assert [name for name, _ in model.named_parameters(params)] == [name for name, _ in theirs.named_parameters()]
    assert sd["cls.predictions.decoder.weight"] is sd["bert.embeddings.word_embeddings.weight"]
    assert sd["cls.predictions.decoder.bias"] is sd["cls.predictions.bias"]
    assert sorted(params["cls"]["predictions"]) == ["bias", "decoder", "transform"]
    assert params["cls"]["predictions"]["decoder"] == {}


def test_config_has_transformers_names_and_defaults():
    theirs = transformers.BertConfig().to_dict()
    ours = dataclasses.asdict(bert.BertConfig())
    assert ours.pop("scan_layers") is False and ours.pop("vocab_padding") == 0
    assert ours.pop("attention_block_size") is None and ours.pop("context_parallel") == "ring"
    assert ours.pop("num_labels") == transformers.BertConfig().num_labels
    assert ours == {name: theirs[name] for name in ours}
    assert bert.BertConfig().label2id == transformers.BertConfig().label2id


def test_config_makes_the_way_to_transformers_and_back(tmp_path, sizes):
    config = bert.BertConfig(
        **sizes,
        hidden_act="gelu_new",
        pad_token_id=3,
        scan_layers=True,
        position_embedding_type="relative_key",
        classifier_dropout=0.25,
        num_labels=3,
        id2label={0: "no", 1: "perhaps", 2: "yes"},
        problem_type="single_label_classification",
    )
    (tmp_path / "config.json").write_text(json.dumps(config.to_dict("BertForPreTraining")))
    theirs = transformers.BertConfig.from_pretrained(tmp_path)
    assert theirs.hidden_act == "gelu_new" and theirs.pad_token_id == 3
    assert theirs.architectures == ["BertForPreTraining"]
    assert theirs.num_labels == 3 and theirs.id2label == config.id2label and theirs.label2id == config.label2id
    assert theirs.classifier_dropout == 0.25 and theirs.problem_type == "single_label_classification"
    theirs.save_pretrained(tmp_path)
    assert bert.BertConfig.load(tmp_path) == bert.BertConfig.load(tmp_path / "config.json") == config
