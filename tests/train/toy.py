"""A task without a model of this package: a classifier of tokens and rows, with dropout, ragged counts and a buffer.

Letters: B rows, T tokens, D features.
"""

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import lax

from funcnet import parallel, train

B, T, D, CLASSES = 16, 6, 8, 5


def start(seed=0):
    rng = np.random.default_rng(seed)
    layer = lambda i, o: {"weight": rng.normal(size=(i, o)).astype(np.float32) * 0.3, "bias": np.zeros(o, np.float32)}
    params = {"body": layer(D, 32), "tokens": layer(32, CLASSES), "rows": layer(32, 2)}
    return params, {"norm": {"running_mean": np.zeros(D, np.float32), "count": np.int32(0)}}


def batch_at(step, rows=B):
    """A batch in which some rows, and with 8 devices one whole device, have no tokens that count."""
    rng = np.random.default_rng([7, step])
    x = rng.normal(size=(rows, T, D)).astype(np.float32)
    lengths = rng.integers(0, T + 1, rows)
    lengths[2:4] = 0
    labels = np.where(np.arange(T) < lengths[:, None], (x[..., 0] > 0) + 2 * (x[..., 1] > 0), -1)
    return {"x": x, "labels": labels.astype(np.int32), "row_labels": (x[:, 0, 2] > 0).astype(np.int32)}


def batches(start_step, rows=B):
    while True:
        yield batch_at(start_step, rows)
        start_step += 1


def size(batch):
    return int((batch["labels"] >= 0).sum())


def counts(batch):
    return {"tokens": (batch["labels"] >= 0).sum(), "rows": jnp.array(batch["row_labels"].size, jnp.int32)}


def make_objective(rate=0.0, axis_name=None):
    """Make the objective; with an `axis_name`, it synchronises the buffer as SyncBatchNorm does."""

    def objective(params, state, batch, *, training, rng):
        x = batch["x"].astype(params["body"]["weight"].dtype)
        hidden = jnp.tanh(x @ params["body"]["weight"] + params["body"]["bias"])
        if training and rate:
            hidden = jnp.where(jax.random.bernoulli(rng, 1 - rate, hidden.shape), hidden / (1 - rate), 0)
        head = lambda h, p: (h @ p["weight"] + p["bias"]).astype(jnp.float32)
        tokens = _cross_entropy(head(hidden, params["tokens"]), batch["labels"])
        rows = _cross_entropy(head(hidden.mean(1), params["rows"]), batch["row_labels"])
        if training:
            mean = batch["x"].mean((0, 1))
            mean = mean if axis_name is None else lax.pmean(mean, axis_name)
            norm = state["norm"]
            state = {"norm": {"running_mean": 0.9 * norm["running_mean"] + 0.1 * mean, "count": norm["count"] + 1}}
        return {"tokens": tokens, "rows": rows}, state

    return objective


def _cross_entropy(logits, labels):
    kept = labels >= 0
    losses = optax.softmax_cross_entropy_with_integer_labels(logits, jnp.maximum(labels, 0))
    return {"loss": jnp.where(kept, losses, 0.0).sum(), "accuracy": ((logits.argmax(-1) == labels) & kept).sum()}


def run(kind="jit", devices=1, steps=20, *, rate=0.0, optimizer=None, rows=B, from_state=None, layout=None, **options):
    """(final state, [metrics of each step])"""
    layout = layout or parallel.make_layout({"data": devices}, kind=kind)
    optimizer = optimizer or optax.sgd(0.5)
    synced = options.get("buffers", "synced") == "synced"
    objective = make_objective(rate, layout.axis_name if synced else None)
    step = parallel.parallelize(train.make_step(objective, counts, optimizer, **options), layout, donate=True)
    state = from_state or train.create(*start(), optimizer, trainable=options.get("trainable", "**"))
    state, key, history = layout.place(state), layout.place(jax.random.key(1)), []
    for number in range(int(state.step), steps):
        state, metrics = step(state, layout.shard(batch_at(number, rows)), key)
        history.append({name: float(value) for name, value in metrics.items()})
    return state, history
