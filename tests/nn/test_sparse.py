"""Embeddings: the padding row, max_norm, from_pretrained."""

import jax
import jax.numpy as jnp
import numpy as np
import torch

from funcnet import nn
from tests.layers.near import near

KEY = jax.random.key(0)


def test_embedding_padding_row_starts_at_zero_and_is_read_as_it_stands():
    layer = nn.Embedding(5, 3, padding_idx=-1)
    params, state = layer.init(KEY)
    assert not params["weight"][4].any() and params["weight"][:4].all()
    filled = {"weight": params["weight"].at[4].set(2)}
    assert layer.apply(filled, state, jnp.array([4]))[0].tolist() == [[2, 2, 2]]


def test_embedding_with_max_norm_reads_what_torch_reads():
    torch.manual_seed(0)
    theirs = torch.nn.Embedding(6, 4, max_norm=1.0)
    layer = nn.Embedding(6, 4, max_norm=1.0)
    assert repr(layer) == repr(theirs)
    params, state = layer.load_state_dict(theirs.state_dict())
    ids = np.array([[0, 3], [3, 5]])
    near(layer.apply(params, state, ids)[0], theirs(torch.tensor(ids)).detach().numpy(), 3e-7, "rows")


def test_embedding_from_pretrained_is_frozen_unless_told():
    table = np.arange(6, dtype=np.float32).reshape(3, 2)
    frozen, free = nn.Embedding.from_pretrained(table), nn.Embedding.from_pretrained(table, freeze=False)
    for layer, moves in ((frozen, False), (free, True)):
        params, state = layer.init(KEY)
        assert np.array_equal(params["weight"], table)
        gradient = jax.grad(lambda p, layer=layer, state=state: layer.apply(p, state, jnp.array([1]))[0].sum())(params)
        assert bool(gradient["weight"].any()) is moves
