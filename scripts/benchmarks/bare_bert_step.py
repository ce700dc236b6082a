"""The baseline of the benchmarks: a BERT pretraining step in bare jax.numpy, optimized by hand for CPUs.

It does not import funcnet. Parameters are nested dicts with Hugging Face's names and torch's (out, in) weights; the
decoder is tied to the word embeddings. The losses are masked words and next sentence. The optimizer is BERT's AdamW
(without bias correction) after clipping by the global norm.

    python scripts/benchmarks/bare_bert_step.py --steps 10

These variants are not faster (CPU time of a step relative to this file; BERT-mini, 32 x 128, 2 cores): weights stored
as (in, out) 1.14; layers in a scan 1.14; masks by `jax.random.bernoulli` 1.20; `jax.nn.gelu` 1.03; QKV in one matmul,
a hand-written LayerNorm gradient, explicit (B, H, T, D) layouts or one flat parameter vector 0.99 to 1.02. Huge pages
in malloc (`GLIBC_TUNABLES=glibc.malloc.hugetlb=1`) give 0.82: XLA allocates its temporary buffer at every step, which
takes 157,000 page faults with pages of 4 KB.

Letters: B batch, T sequence, D width, H heads, K width of a head, S masked slots, V vocabulary.
"""

import argparse
import dataclasses
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

Tree = dict[str, Any]


@dataclasses.dataclass(frozen=True)
class Config:
    """BERT-mini and its training. `learning_rate` is a number or a function of the step (from 0)."""

    layers: int = 4
    width: int = 256
    heads: int = 4
    intermediate: int = 1024
    vocabulary: int = 8192
    positions: int = 512
    batch: int = 32
    length: int = 128
    masked: int = 20
    dropout: float = 0.1
    attention_dropout: float = 0.1
    learning_rate: float | Callable[[jax.Array], jax.Array] = 1e-4
    betas: tuple[float, float] = (0.9, 0.999)
    epsilon: float = 1e-6
    weight_decay: float = 0.01
    clip: float = 1.0
    seed: int = 0


def make_step(config: Config) -> tuple[Tree, Tree, Callable]:
    """The initial parameters and the step of a training run.

    Returns:
        (params, opt_state, step), where `step(params, opt_state, batch, key) -> (params, opt_state, metrics)` is
        compiled and donates its first two arguments. The metrics are scalars: loss, mlm_loss, nsp_loss.
    """
    params = initial_params(config)

    def step(params: Tree, opt_state: Tree, batch: Tree, key: jax.Array) -> tuple[Tree, Tree, Tree]:
        (_, metrics), gradients = jax.value_and_grad(losses, has_aux=True)(params, batch, key, config)
        return *adamw(params, gradients, opt_state, config), metrics

    return params, initial_opt_state(params), jax.jit(step, donate_argnums=(0, 1))


def make_batch(config: Config, seed: int = 0) -> Tree:
    """A batch of random tokens without padding.

    input_ids, token_type_ids int32 (B, T); attention_mask bool (B, T); masked_positions, masked_labels int32 (B, S);
    masked_weights float32 (B, S); next_sentence_labels int32 (B,).
    """
    rng = np.random.default_rng(seed)
    rows, slots = (config.batch, config.length), (config.batch, config.masked)
    positions = np.stack([rng.choice(config.length, config.masked, replace=False) for _ in range(config.batch)])
    return {
        "input_ids": jnp.asarray(rng.integers(0, config.vocabulary, rows), jnp.int32),
        "token_type_ids": jnp.asarray(np.arange(config.length) > rng.integers(20, 100, (config.batch, 1)), jnp.int32),
        "attention_mask": jnp.ones(rows, bool),
        "masked_positions": jnp.asarray(np.sort(positions, 1), jnp.int32),
        "masked_labels": jnp.asarray(rng.integers(0, config.vocabulary, slots), jnp.int32),
        "masked_weights": jnp.ones(slots, jnp.float32),
        "next_sentence_labels": jnp.asarray(rng.integers(0, 2, config.batch), jnp.int32),
    }


# ------------------------------------------------------------------------------------------------------ parameters


def initial_params(config: Config) -> Tree:
    """Truncated normal 0.02, zero biases, LayerNorm with ones and zeros; nested by Hugging Face's names."""
    rng = np.random.default_rng(config.seed)

    def normal(*shape: int) -> jax.Array:
        draw = rng.standard_normal(shape)
        while (outside := np.abs(draw) > 2).any():
            draw[outside] = rng.standard_normal(outside.sum())
        return jnp.asarray(0.02 * draw, jnp.float32)

    def linear(inputs: int, outputs: int) -> Tree:
        return {"weight": normal(outputs, inputs), "bias": jnp.zeros(outputs, jnp.float32)}

    def norm() -> Tree:
        return {"weight": jnp.ones(width, jnp.float32), "bias": jnp.zeros(width, jnp.float32)}

    def layer() -> Tree:
        return {
            "attention": {
                "self": {name: linear(width, width) for name in ("query", "key", "value")},
                "output": {"dense": linear(width, width), "LayerNorm": norm()},
            },
            "intermediate": {"dense": linear(width, config.intermediate)},
            "output": {"dense": linear(config.intermediate, width), "LayerNorm": norm()},
        }

    width = config.width
    return {
        "bert": {
            "embeddings": {
                "word_embeddings": {"weight": normal(config.vocabulary, width)},
                "position_embeddings": {"weight": normal(config.positions, width)},
                "token_type_embeddings": {"weight": normal(2, width)},
                "LayerNorm": norm(),
            },
            "encoder": {"layer": {str(i): layer() for i in range(config.layers)}},
            "pooler": {"dense": linear(width, width)},
        },
        "cls": {
            "predictions": {
                "bias": jnp.zeros(config.vocabulary, jnp.float32),
                "transform": {"dense": linear(width, width), "LayerNorm": norm()},
            },
            "seq_relationship": linear(width, 2),
        },
    }


# ----------------------------------------------------------------------------------------------------------- model


def linear(p: Tree, x: jax.Array) -> jax.Array:
    return x @ p["weight"].T + p["bias"]


def layer_norm(p: Tree, x: jax.Array) -> jax.Array:
    centred = x - x.mean(-1, keepdims=True)
    variance = (centred * centred).mean(-1, keepdims=True)
    return centred * lax.rsqrt(variance + 1e-12) * p["weight"] + p["bias"]


@jax.custom_jvp
def gelu(x: jax.Array) -> jax.Array:
    """x times the normal distribution function, by erf, with an explicit derivative."""
    return 0.5 * x * (1 + lax.erf(x * 0.5**0.5))


@gelu.defjvp
def _gelu_jvp(primals: tuple, tangents: tuple) -> tuple:
    (x,), (dx,) = primals, tangents
    x_again = lax.optimization_barrier(x)  # the backward pass recomputes erf instead of reading it from memory
    probability = 0.5 * (1 + lax.erf(x_again * 0.5**0.5))
    density = jnp.exp(-0.5 * x_again * x_again) * (2 * np.pi) ** -0.5
    return gelu(x), (probability + x_again * density) * dx


def dropout(x: jax.Array, key: jax.Array, rate: float) -> jax.Array:
    """Keep an entry with probability 1 - rate, by a hash of (key, flat position) that XLA fuses into its use."""
    if rate == 0:
        return x

    def mix(bits: jax.Array) -> jax.Array:
        bits = (bits ^ (bits >> 16)) * np.uint32(0x7FEB352D)
        bits = (bits ^ (bits >> 15)) * np.uint32(0x846CA68B)
        return bits ^ (bits >> 16)

    words = jax.random.key_data(key)
    position = jnp.full(x.shape, np.uint32(0x9E3779B9))
    for axis in range(x.ndim):
        stride = np.uint32(np.prod(x.shape[axis + 1 :], dtype=np.uint32))
        position += lax.broadcasted_iota(jnp.uint32, x.shape, axis) * stride
    keep = mix(mix(position ^ words[0]) + words[1]) >= np.uint32(round(rate * 2**32))
    return jnp.where(keep, x * (1 / (1 - rate)), 0.0)


def attention(p: Tree, x: jax.Array, bias: jax.Array, key: jax.Array, config: Config) -> jax.Array:
    heads = (*x.shape[:2], config.heads, -1)
    query, key_, value = (linear(p["self"][name], x).reshape(heads) for name in ("query", "key", "value"))  # B,T,H,K
    query = query * query.shape[-1] ** -0.5
    weights = jax.nn.softmax(jnp.einsum("bqhk,bthk->bhqt", query, key_) + bias, axis=-1)
    weights = dropout(weights, key, config.attention_dropout)
    mixed = jnp.einsum("bhqt,bthk->bqhk", weights, value)
    return linear(p["output"]["dense"], mixed.reshape(x.shape))


def encoder_layer(p: Tree, x: jax.Array, bias: jax.Array, keys: jax.Array, config: Config) -> jax.Array:
    attended = attention(p["attention"], x, bias, keys[0], config)
    x = layer_norm(p["attention"]["output"]["LayerNorm"], x + dropout(attended, keys[1], config.dropout))
    hidden = linear(p["output"]["dense"], gelu(linear(p["intermediate"]["dense"], x)))
    return layer_norm(p["output"]["LayerNorm"], x + dropout(hidden, keys[2], config.dropout))


def logits(params: Tree, batch: Tree, key: jax.Array, config: Config) -> tuple[jax.Array, jax.Array]:
    """(masked words' logits (B, S, V), next-sentence logits (B, 2))."""
    bert, heads = params["bert"], params["cls"]
    table = bert["embeddings"]["word_embeddings"]["weight"]
    keys = jax.random.split(key, 1 + 3 * config.layers)

    x = table[batch["input_ids"]] + bert["embeddings"]["position_embeddings"]["weight"][: config.length]
    x = x + bert["embeddings"]["token_type_embeddings"]["weight"][batch["token_type_ids"]]
    x = dropout(layer_norm(bert["embeddings"]["LayerNorm"], x), keys[0], config.dropout)
    bias = jnp.where(batch["attention_mask"][:, None, None, :], 0.0, -1e9)
    for i in range(config.layers):
        x = encoder_layer(bert["encoder"]["layer"][str(i)], x, bias, keys[1 + 3 * i : 4 + 3 * i], config)

    masked = jnp.take_along_axis(x, batch["masked_positions"][:, :, None], axis=1)  # B,S,D
    transform = heads["predictions"]["transform"]
    masked = layer_norm(transform["LayerNorm"], gelu(linear(transform["dense"], masked)))
    words = masked @ table.T + heads["predictions"]["bias"]
    pooled = jnp.tanh(linear(bert["pooler"]["dense"], x[:, 0]))
    return words, linear(heads["seq_relationship"], pooled)


def cross_entropy(logits: jax.Array, labels: jax.Array) -> jax.Array:
    picked = jnp.take_along_axis(logits, labels[..., None], axis=-1)[..., 0]
    return jax.nn.logsumexp(logits, axis=-1) - picked


def losses(params: Tree, batch: Tree, key: jax.Array, config: Config) -> tuple[jax.Array, Tree]:
    """(sum of both losses, losses by name). Each loss is a mean over its targets."""
    words, next_sentence = logits(params, batch, key, config)
    weights = batch["masked_weights"]
    mlm = (cross_entropy(words, batch["masked_labels"]) * weights).sum() / jnp.maximum(weights.sum(), 1.0)
    nsp = cross_entropy(next_sentence, batch["next_sentence_labels"]).mean()
    return mlm + nsp, {"loss": mlm + nsp, "mlm_loss": mlm, "nsp_loss": nsp}


# ------------------------------------------------------------------------------------------------------- optimizer


def initial_opt_state(params: Tree) -> Tree:
    return {
        "step": jnp.zeros((), jnp.int32),
        "mean": jax.tree.map(jnp.zeros_like, params),
        "square": jax.tree.map(jnp.zeros_like, params),
    }


def adamw(params: Tree, gradients: Tree, opt_state: Tree, config: Config) -> tuple[Tree, Tree]:
    """BERT's AdamW: clipping by the global norm, no bias correction, weight decay only for matrices."""
    norm = jnp.sqrt(sum((g * g).sum() for g in jax.tree.leaves(gradients)))
    scale = jnp.minimum(1.0, config.clip / (norm + 1e-6))
    first, second = config.betas
    rate = config.learning_rate
    rate = rate(opt_state["step"]) if callable(rate) else rate

    def new_mean(mean: jax.Array, g: jax.Array) -> jax.Array:
        return first * mean + (1 - first) * (scale * g)

    def new_square(square: jax.Array, g: jax.Array) -> jax.Array:
        return second * square + (1 - second) * jnp.square(scale * g)

    def new_param(p: jax.Array, mean: jax.Array, square: jax.Array) -> jax.Array:
        decay = config.weight_decay if p.ndim > 1 else 0.0
        return p - rate * (mean / (jnp.sqrt(square) + config.epsilon) + decay * p)

    mean = jax.tree.map(new_mean, opt_state["mean"], gradients)
    square = jax.tree.map(new_square, opt_state["square"], gradients)
    params = jax.tree.map(new_param, params, mean, square)
    return params, {"step": opt_state["step"] + 1, "mean": mean, "square": square}


# ------------------------------------------------------------------------------------------------------------ timing


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--steps", type=int, default=10)
    config = Config()
    params, opt_state, step = make_step(config)
    batch, key = make_batch(config), jax.random.key(0)
    seconds = []
    for i in range(parser.parse_args().steps + 1):
        start = time.perf_counter()
        params, opt_state, metrics = step(params, opt_state, batch, jax.random.fold_in(key, i))
        jax.block_until_ready((params, metrics))
        seconds.append(time.perf_counter() - start)
        print(f"step {i}  loss {metrics['loss']:.4f}  {seconds[-1] * 1e3:.0f} ms")
    best = min(seconds[1:])
    print(f"best {best * 1e3:.1f} ms, {config.batch * config.length / best:,.0f} tokens/s (first step: compiling)")


if __name__ == "__main__":
    main()
