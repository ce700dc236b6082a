"""A causal language model on characters, as a task: `python -m tests.train.character_model --out DIR`."""

import dataclasses
import sys

import jax
import jax.numpy as jnp
import numpy as np
import tyro

from funcnet import functional as F
from funcnet import nn, optim, weights
from funcnet.data import ArrayDataset, DataLoader, Prefetcher
from funcnet.parallel import parallelize
from funcnet.train import Cadence, Conclusion, LoaderBatches, Panel, Task, evaluate, make_eval_step, run_task
from funcnet.train.setting_groups import CheckpointSettings, DeviceSettings, LoopSettings, RunSettings

TEXT = "it was the best of times, it was the worst of times, it was the age of wisdom. " * 40
CHARACTERS, LENGTH = sorted(set(TEXT)), 32


@dataclasses.dataclass(frozen=True)
class Settings:
    run: RunSettings
    steps: int = 12
    loop: LoopSettings = LoopSettings(batch_size=16, log_every=1)
    checkpoint: CheckpointSettings = CheckpointSettings(evaluate_every=4, save_every=2)
    device: DeviceSettings = DeviceSettings()


class CharacterModel(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.embedding, self.head = nn.Embedding(len(CHARACTERS), width), nn.Linear(width, len(CHARACTERS))
        self.position = nn.Parameter((LENGTH, width), nn.init.normal(std=0.02))
        self.layer = nn.TransformerEncoderLayer(width, 2, 32, dropout=0.1, batch_first=True)

    def forward(self, ids):
        mask = nn.Transformer.generate_square_subsequent_mask(LENGTH)
        return self.head(self.layer(self.embedding(ids) + self.position, src_mask=mask))


class CharacterTask(Task):
    name, unit, shown = "character model", "characters", {"loss": "loss", "right": "next_accuracy"}

    def __init__(self, settings, context):
        ids = np.array([CHARACTERS.index(c) for c in TEXT], np.int32)
        rows = np.stack([ids[start : start + LENGTH + 1] for start in range(0, len(ids) - LENGTH, 7)])
        held, rows = ArrayDataset({"ids": rows[:16]}), ArrayDataset({"ids": rows[16:]})
        self.net, self.context, self.held_out = CharacterModel(), context, held
        self.loader = DataLoader(rows, settings.loop.batch_size, shuffle=True, seed=settings.run.seed, drop_last=True)
        every = settings.checkpoint
        self.cadence = Cadence(settings.steps, settings.loop.log_every, every.evaluate_every, every.save_every)
        self.schedule = optim.warmup_linear_decay(0.01, 2, settings.steps)
        self.optimizer = optim.bert_adamw(self.schedule, no_decay="**.bias")

    def init(self, seed):
        return self.net.init(jax.random.key(seed))

    def counts(self, batch):
        return {"next": jnp.float32(batch["ids"][:, 1:].size)}

    def objective(self, params, state, batch, *, training, rng):
        logits, state = self.net.apply(params, state, batch["ids"][:, :-1], training=training, rng=rng)
        labels, logits = batch["ids"][:, 1:].reshape(-1), logits.reshape(-1, len(CHARACTERS))
        right = jnp.sum((logits.argmax(-1).astype(labels.dtype) == labels).astype(jnp.float32))
        return {"next": {"loss": F.cross_entropy(logits, labels, reduction="sum"), "accuracy": right}}, state

    def batches(self, seed):
        return LoaderBatches(self.loader)

    def size(self, batch):
        return batch["ids"][:, 1:].size

    def evaluator(self):
        layout = self.context.layout
        step = parallelize(make_eval_step(self.objective, self.counts), layout)

        def on_held_out(state):
            with Prefetcher(DataLoader(self.held_out, 16).epoch(), transfer=layout.shard) as batches:
                return evaluate(step, (state.params, state.state), batches)

        return on_held_out

    def save(self, folder, params, state):
        weights.save(folder / "model.safetensors", self.net.state_dict(params, state))

    def conclude(self, ended):
        return Conclusion({"loss": ended.rows[-1]["eval_loss"]}, [Panel("Loss", "nats", {"t": "loss"})], "LM", "")


if __name__ == "__main__":
    settings = tyro.cli(Settings, config=(tyro.conf.OmitArgPrefixes,))
    sys.exit(run_task(CharacterTask, settings, where="character_model"))
