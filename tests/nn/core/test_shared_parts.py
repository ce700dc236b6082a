"""Which net a shared part lives in: noted when it is assigned, and nowhere else."""

import copy
import gc
import pickle

import jax

from funcnet import nn
from funcnet.nn.core.shared_parts import homes

KEY = jax.random.key(0)


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.embeddings, self.decoder = nn.Embedding(5, 3), nn.Linear(3, 5)
        self.decoder.weight = self.embeddings.weight


def test_a_shared_leaf_has_a_home_and_others_have_none():
    net = Tied()
    assert homes(net.decoder.weight) == ["'embeddings.weight' (in Tied)"] and homes(net.decoder.bias) == []
    whole = nn.Sequential(net)
    assert homes(net.decoder.weight) == ["'0.embeddings.weight' (in Sequential)"]
    del whole
    gc.collect()
    assert homes(net.decoder.weight) == ["'embeddings.weight' (in Tied)"]


def test_a_module_under_two_names_shares_its_leaves():
    net = nn.Module()
    net.one = nn.Linear(2, 2)
    net.two = net.one
    assert homes(net.two.weight) == ["'one.weight' (in Module)"]


def test_copies_and_pickles_have_homes_of_their_own():
    net = Tied()
    for made in (copy.deepcopy(net), pickle.loads(pickle.dumps(net))):
        assert made.decoder.weight is not net.decoder.weight
        assert homes(made.decoder.weight) == ["'embeddings.weight' (in Tied)"]
    part = copy.deepcopy(net.decoder)
    assert homes(part.weight) == []


def test_what_is_replaced_is_shared_no_longer():
    net = Tied()
    old = net.decoder.weight
    net.decoder.weight = nn.Parameter((5, 3), nn.init.zeros())
    assert homes(old) == homes(net.decoder.weight) == []


def test_it_keeps_no_net_alive():
    net = Tied()
    leaf = net.decoder.weight
    del net
    gc.collect()
    assert homes(leaf) == []
