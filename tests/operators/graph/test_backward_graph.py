"""The graph as text, as Graphviz, and as a picture."""

import xml.etree.ElementTree as xml

import jax.numpy as jnp

from funcnet import functional as F
from funcnet.operators.graph import backward

GRAPH = backward(lambda params, x: F.softmax(x @ params["w"][0], -1))({"w": jnp.ones((1, 3, 2))}, jnp.ones((4, 3)))


def test_text():
    assert str(GRAPH).splitlines() == [
        "0  SoftmaxBackward0  float32[4,2]    -> 1",
        "1  MmBackward0       float32[4,2]    -> 2, 3",
        "2  AccumulateGrad    float32[4,3]    x",
        "3  SelectBackward0   float32[3,2]    -> 4",
        "4  AccumulateGrad    float32[1,3,2]  params['w']",
    ] or str(GRAPH).splitlines()[3].startswith("3  SqueezeBackward")
    assert repr(GRAPH) == "<backward graph of 5 nodes>" and len(GRAPH) == 5


def test_marks():
    text = str(backward(lambda x: jnp.split(x, 2)[1] * 2 + jnp.sinc(jnp.cumsum(x[:2])))(jnp.ones(4)))
    assert ":1" in text and "-" in text


def test_dot():
    text = GRAPH.dot()
    assert text.startswith("digraph backward {") and text.endswith("}")
    assert "n1 -> n2" in text and r"AccumulateGrad params['w']\nfloat32[1,3,2]" in text


def test_picture():
    root = xml.fromstring(GRAPH.svg())
    boxes = [one for one in root if one.tag.endswith("rect")]
    assert len(boxes) == len(GRAPH)
    places = [(float(one.get("x")), float(one.get("y"))) for one in boxes]
    assert len(set(places)) == len(places)
    assert places[0][1] < places[1][1] < places[2][1]
    assert "<svg" in GRAPH._repr_html_()
