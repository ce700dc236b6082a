"""Measure the compile time of BERT's training step by number of layers: with `scan_layers`, it does not grow.

    python scripts/benchmarks/compile_time.py --rounds 3

It compiles forward pass, backward pass and BERT's AdamW with 2 and with 24 layers, a small width (compile time does not
depend on it) and dropout 0.1. It prints the seconds to trace and to compile, the best of all rounds, and the ratio of
24 layers to 2. The target with `scan_layers` is at most 1.5. With `--loop`, it also measures the default form, a loop,
which runs faster and compiles more slowly.
"""

import argparse
import time

import jax
import jax.numpy as jnp
import optax

from funcnet import functional as F
from funcnet import optim
from funcnet.models import bert

BATCH, LENGTH, SLOTS = 4, 32, 4


def seconds(layers: int, scan: bool) -> tuple[float, float]:
    """(seconds to trace, seconds to compile), without caches."""
    config = bert.BertConfig.preset("tiny", num_hidden_layers=layers, vocab_size=512, scan_layers=scan)
    model, optimizer = bert.BertForPreTraining(config), optim.bert_adamw(1e-4)

    def step(params, state, opt_state, batch, key):
        def loss(params):
            (words, follows), new_state = model.apply(params, state, **batch["inputs"], training=True, rng=key)
            mlm = F.cross_entropy(words.reshape(-1, words.shape[-1]), batch["words"].reshape(-1))
            return mlm + F.cross_entropy(follows, batch["follows"]), new_state

        (value, new_state), gradients = jax.value_and_grad(loss, has_aux=True)(params)
        updates, opt_state = optimizer.update(gradients, opt_state, params)
        return optax.apply_updates(params, updates), new_state, opt_state, value

    ids = jax.ShapeDtypeStruct((BATCH, LENGTH), jnp.int32)
    slots = jax.ShapeDtypeStruct((BATCH, SLOTS), jnp.int32)
    inputs = {"input_ids": ids, "attention_mask": ids, "token_type_ids": ids, "masked_positions": slots}
    batch = {"inputs": inputs, "words": slots, "follows": jax.ShapeDtypeStruct((BATCH,), jnp.int32)}
    key = jax.eval_shape(jax.random.key, 0)
    params, state = jax.eval_shape(model.init, key)
    opt_state = jax.eval_shape(optimizer.init, params)

    jax.clear_caches()
    start = time.perf_counter()
    lowered = jax.jit(step, donate_argnums=(0, 2)).lower(params, state, opt_state, batch, key)
    traced = time.perf_counter()
    lowered.compile()
    return traced - start, time.perf_counter() - traced


def ratio(scan: bool, rounds: int) -> float:
    """The ratio of the times for 24 layers and for 2, each the best of all rounds."""
    few, many = (min((seconds(layers, scan) for _ in range(rounds)), key=sum) for layers in (2, 24))
    name = "scan_layers" if scan else "loop"
    for layers, (trace, compiling) in ((2, few), (24, many)):
        print(f"{name:12} {layers:2} layers: trace {trace:5.2f} s, compile {compiling:5.2f} s")
    result = sum(many) / sum(few)
    print(f"{name:12} 24 layers / 2 layers: {result:.2f}")
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3, help="number of compilations of each; the best one counts")
    parser.add_argument("--loop", action="store_true", help="measure the loop too")
    arguments = parser.parse_args()
    jax.config.update("jax_enable_compilation_cache", False)
    ratio(True, arguments.rounds)
    if arguments.loop:
        ratio(False, arguments.rounds)


if __name__ == "__main__":
    main()
