"""Compare feature extraction with transformers on torch: sentences per second, differences and compilations.

    python scripts/benchmarks/features.py --sentences 10000

The model is MiniLM (`all-MiniLM-L6-v2`); the features are means over the tokens of the last layer; the texts are 10,000
sentences of BBC articles, truncated to 128 tokens. Both libraries process the same blocks of texts, and take turns in
going first. transformers runs with the usual optimizations: its fast tokenizer, `inference_mode`, and batches of 32
texts that are sorted by length and padded to the longest. The script prints the ratio of the times (above 1: funcnet is
faster) with its quartiles over the blocks, the largest difference of the features, and the number of programs that were
compiled after the start.

Needs the extra `test`, and the real texts of tests/real_data.txt.
"""

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path

import jax
import numpy as np
import torch
import transformers

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from funcnet.tasks.features import FeatureExtractor
from funcnet.text import split_sentences
from tests import real_data

LONGEST = 128


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--sentences", type=int, default=10_000)
    parser.add_argument("--blocks", type=int, default=10)
    parser.add_argument("--batch-tokens", type=int)
    options = parser.parse_args()
    texts = sentences(options.sentences)
    path = real_data.minilm()
    extract = FeatureExtractor(path, max_length=LONGEST, tokens=options.batch_tokens)
    theirs = make_torch(path)
    extract.run.compile(extract.model)
    compiled: list[float] = []
    jax.monitoring.register_event_duration_secs_listener(
        lambda event, seconds, **_: compiled.append(seconds) if "backend_compile_duration" in event else None
    )
    blocks = [texts[start :: options.blocks] for start in range(options.blocks)]
    taken: dict[str, list[float]] = {"funcnet": [], "transformers": []}
    worst = 0.0
    theirs(blocks[0][:64])
    extract.array(blocks[0][:64])
    for number, block in enumerate(blocks):
        both = [("funcnet", extract.array), ("transformers", theirs)]
        found = {}
        for name, run in both[:: 1 if number % 2 else -1]:
            began = time.perf_counter()
            found[name] = run(block)
            taken[name].append(time.perf_counter() - began)
        worst = max(worst, float(np.abs(found["funcnet"] - found["transformers"]).max()))
    for name, seconds in taken.items():
        print(f"{name:14s} {len(texts) / sum(seconds):8.1f} sentences/s")
    ratios = np.array(taken["transformers"]) / np.array(taken["funcnet"])
    low, middle, high = np.percentile(ratios, [25, 50, 75])
    print(f"ratio          {middle:8.2f} ({low:.2f} to {high:.2f} over {len(blocks)} blocks)")
    print(f"compiled after the start: {len(compiled)}; largest difference {worst:.1e}")


def sentences(count: int) -> list[str]:
    """Sentences of BBC articles, in random order."""
    found: list[str] = []
    for file in sorted(real_data.bbc().rglob("*.txt")):
        found += split_sentences(file.read_text("utf-8", errors="replace"))
    chosen = np.random.default_rng(0).permutation(len(found))[:count]
    return [found[index] for index in chosen]


def make_torch(path: Path) -> Callable[[list[str]], np.ndarray]:
    """A function from texts to features (N, D), as in sentence-transformers."""
    model = transformers.BertModel.from_pretrained(path, add_pooling_layer=False).eval()
    tokenizer = transformers.BertTokenizerFast.from_pretrained(path)

    def run(texts: list[str]) -> np.ndarray:
        ids = tokenizer(texts, truncation=True, max_length=LONGEST)["input_ids"]
        order = sorted(range(len(ids)), key=lambda index: -len(ids[index]))
        out = np.zeros((len(texts), model.config.hidden_size), np.float32)
        for start in range(0, len(order), 32):
            some = order[start : start + 32]
            batch = tokenizer.pad({"input_ids": [ids[index] for index in some]}, return_tensors="pt")
            with torch.inference_mode():
                hidden = model(**batch).last_hidden_state
            shown = batch["attention_mask"][:, :, None]
            out[some] = ((hidden * shown).sum(1) / shown.sum(1)).numpy()
        return out

    return run


if __name__ == "__main__":
    main()
