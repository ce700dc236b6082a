"""Plans of recurrent layers and cells.

Letters: `T steps, B batch, H hidden size`.

Reference: aten/src/ATen/native/RNN.cpp of torch, and mkldnn/RNN.cpp, which computes an LSTM in float32 on CPU.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from funcnet.operators.graph.function_plans.normalization import dropped
from funcnet.operators.graph.function_plans.single_operations import Plan
from funcnet.operators.graph.torch_operations.composite_operations import contiguous, linear, matmul
from funcnet.operators.graph.torch_operations.tape import Results, Tape, TapeValue

__all__ = ["RECURRENT"]

State = tuple[TapeValue, ...]
Step = Callable[..., State]


def _lstm(tape: Tape, x: TapeValue | Callable[[], TapeValue], state: State, weights: Sequence[Any]) -> State:
    """One step: h, c. `weights` are those of the state, the bias of the state, and the projection."""
    h, c = state
    hidden = linear(tape, h, weights[0], weights[1])
    gates = tape.run("add.Tensor", hidden, x() if callable(x) else x, alpha=1)
    i, f, g, o = tape.run("unsafe_split.Tensor", gates, split_size=gates.shape[1] // 4, dim=1)
    i, f = tape.run("sigmoid", i), tape.run("sigmoid", f)
    g, o = tape.run("tanh", g), tape.run("sigmoid", o)
    kept = tape.run("mul.Tensor", f, c)
    c = tape.run("add.Tensor", kept, tape.run("mul.Tensor", i, g), alpha=1)
    h = tape.run("mul.Tensor", o, tape.run("tanh", c))
    if len(weights) > 2 and weights[2] is not None:
        h = matmul(tape, h, tape.run("t", weights[2]))
    return h, c


def _gru(tape: Tape, x: TapeValue | Callable[[], TapeValue], state: State, weights: Sequence[Any]) -> State:
    x = x() if callable(x) else x
    size = x.shape[1] // 3
    r, z, n = tape.run("unsafe_split.Tensor", x, split_size=size, dim=1)
    hidden = linear(tape, state[0], weights[0], weights[1])
    h_r, h_z, h_n = tape.run("unsafe_split.Tensor", hidden, split_size=size, dim=1)
    reset = tape.run("sigmoid", tape.run("add.Tensor", h_r, r, alpha=1))
    update = tape.run("sigmoid", tape.run("add.Tensor", h_z, z, alpha=1))
    new = tape.run("tanh", tape.run("add.Tensor", n, tape.run("mul.Tensor", h_n, reset), alpha=1))
    apart = tape.run("sub.Tensor", state[0], new, alpha=1)
    return (tape.run("add.Tensor", tape.run("mul.Tensor", apart, update), new, alpha=1),)


def _simple(activation: str) -> Step:
    def step(tape: Tape, x: TapeValue | Callable[[], TapeValue], state: State, weights: Sequence[Any]) -> State:
        hidden = linear(tape, state[0], weights[0], weights[1])
        total = tape.run("add.Tensor", hidden, x() if callable(x) else x, alpha=1)
        return (tape.run(activation, total),)

    return step


STEPS: dict[str, Step] = {
    "lstm": _lstm,
    "gru": _gru,
    "rnn_tanh": _simple("tanh"),
    "rnn_relu": _simple("relu"),
}


def _cell(name: str) -> Plan:
    def plan(
        tape: Tape,
        result: Results,
        function: Callable[..., Any],
        input: TapeValue,
        hx: Any,
        **given: Any,
    ) -> Any:
        state = tuple(hx) if name == "lstm" else (hx,)
        inputs = lambda: linear(tape, input, given["w_ih"], given["b_ih"])
        found = STEPS[name](tape, inputs, state, (given["w_hh"], given["b_hh"]))
        return found if name == "lstm" else found[0]

    return plan


def _layer(
    tape: Tape, name: str, x: TapeValue, state: State, weights: Sequence[Any], reverse: bool
) -> tuple[TapeValue, State]:
    """Run one direction of a layer: the products with the inputs of all steps at once, then step by step."""
    w_ih, w_hh, b_ih, b_hh, projection = weights
    inputs = list(tape.run("unbind.int", linear(tape, x, w_ih, b_ih), dim=0))
    outputs = []
    for one in reversed(inputs) if reverse else inputs:
        state = STEPS[name](tape, one, state, (w_hh, b_hh, projection))
        outputs.append(state[0])
    return tape.run("stack", outputs[::-1] if reverse else outputs, dim=0), state


def _fused(
    tape: Tape, x: TapeValue, state: State, weights: Sequence[Any], reverse: bool, settings: dict[str, Any]
) -> tuple[TapeValue, State]:
    """Run one direction of an LSTM as one operation of oneDNN."""
    w_ih, w_hh, b_ih, b_hh, _ = weights
    bare = [None if one is None else TapeValue(one.array) for one in weights]
    start = tuple(TapeValue(one.array) for one in state)
    output, (h, c) = _layer(Tape(), "lstm", TapeValue(x.array), start, bare, reverse)
    b_ih = TapeValue(np.zeros_like(w_ih.array)) if b_ih is None else b_ih
    b_hh = TapeValue(np.zeros_like(w_hh.array)) if b_hh is None else b_hh
    if not settings["has_biases"]:
        b_ih, b_hh = TapeValue(np.zeros_like(w_ih.array)), TapeValue(np.zeros_like(w_hh.array))
    out = (output.array, h.array, c.array)
    found = tape.run("mkldnn_rnn_layer", x, w_ih, w_hh, b_ih, b_hh, *state, out=out, reverse=reverse, **settings)
    return found[0], tuple(found[1:])


def _layers(name: str) -> Plan:
    def plan(
        tape: Tape,
        result: Results,
        function: Callable[..., Any],
        input: TapeValue,
        hx: Any,
        params: Sequence[TapeValue],
        has_biases: bool,
        num_layers: int,
        dropout: Any,
        train: bool,
        bidirectional: bool,
        batch_first: bool,
        **_: object,
    ) -> Any:
        x = tape.run("transpose.int", input, dim0=0, dim1=1) if batch_first else input
        directions = 2 if bidirectional else 1
        per = len(params) // (num_layers * directions)
        sets = [_weights(params[n : n + per], has_biases) for n in range(0, len(params), per)]
        is_fused = name == "lstm" and sets[0][4] is None and x.dtype in (np.float32,) and x.array.size > 0
        states = _states(tape, hx if name == "lstm" else (hx,), is_fused)
        settings = {
            "batch_sizes": (),
            "mode": 2,
            "hidden_size": sets[0][1].shape[1],
            "num_layers": num_layers,
            "has_biases": has_biases,
            "bidirectional": bidirectional,
            "batch_first": batch_first,
            "train": train,
        }
        if is_fused:
            x = contiguous(tape, x)
        last: list[State] = []
        for layer in range(num_layers):
            outputs = []
            for direction in range(directions):
                place = layer * directions + direction
                if is_fused:
                    y, state = _fused(tape, x, states(place), sets[place], direction == 1, settings)
                else:
                    y, state = _layer(tape, name, x, states(place), sets[place], direction == 1)
                outputs.append(y)
                last.append(state)
            x = tape.run("cat", outputs, dim=2) if bidirectional else outputs[0]
            rate = float(getattr(dropout, "array", dropout))
            if rate > 0 and train and layer < num_layers - 1:
                x = dropped(tape, None, x, rate, np.ones(x.shape, x.dtype))
        columns = list(zip(*last, strict=True))
        stacked = [tape.run("stack", list(one), dim=0) for one in (columns if is_fused else columns[::-1])]
        columns = stacked if is_fused else stacked[::-1]
        output = tape.run("transpose.int", x, dim0=0, dim1=1) if batch_first else x
        return (output, *columns)

    return plan


def _weights(given: Sequence[TapeValue], has_biases: bool) -> list[Any]:
    """Return w_ih, w_hh, b_ih, b_hh and the projection, None where there is none."""
    rest = list(given[4 if has_biases else 2 :])
    biases = list(given[2:4]) if has_biases else [None, None]
    return [*given[:2], *biases, rest[0] if rest else None]


def _states(tape: Tape, given: Sequence[TapeValue], is_fused: bool) -> Callable[[int], State]:
    """Return a function that takes the number of a layer and returns the initial state of the layer."""
    if is_fused:
        return lambda place: tuple(tape.run("select.int", one, dim=0, index=place) for one in given)
    parts = [tape.run("unbind.int", one, dim=0) for one in given]
    return lambda place: tuple(one[place] for one in parts)


RECURRENT: dict[str, Plan] = {
    **{name: _layers(name) for name in STEPS},
    **{f"{name}_cell": _cell(name) for name in ("lstm", "gru", "rnn_tanh", "rnn_relu")},
}
