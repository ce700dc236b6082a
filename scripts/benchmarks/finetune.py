"""Compare fine-tuning with transformers on torch: accuracy by seed, and the time of a step, on real texts.

    python scripts/benchmarks/finetune.py --results finetune.json            # everything: hours on two cores
    python scripts/benchmarks/finetune.py --results finetune.json --datasets bbc --seeds 0 --who funcnet

The model is MiniLM (`all-MiniLM-L6-v2`). The data are BBC articles (without exact duplicates; a fifth is held out) and
Reuters R8 (its public split). `bbc-1` to `bbc-4` hold out the other fifths of the articles: the accuracy on one fifth
depends on five or ten ambiguous articles, and that of tf-idf varies from 0.970 to 0.995. `bbc-quarter` is the usual
split of scikit-learn, where tf-idf has the published accuracy of 0.987.

Each (dataset, who, seed) is computed once and kept in the file of results. If the script is killed, it continues where
it stopped, also within a run. transformers has the same recipe and the same batches in the same order: AdamW with the
same parameter groups, warm-up and decay, and clipping at 1. tf-idf with logistic regression has the same split.

Needs the extra `test`, and the real texts of tests/real_data.txt.
"""

import argparse
import csv
import json
import statistics
import sys
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from funcnet.files import read_json, write_json
from funcnet.heads.reading.examples import TextExample
from funcnet.settings import compose
from funcnet.tasks.finetuning.data import read_data, split
from funcnet.tasks.finetuning.settings import FinetuningSettings
from tests import real_data

RECIPES = {
    "bbc": {"seq_len": 256, "epochs": 2.0, "learning_rate": 1.5e-4, "batch_size": 16},
    "r8": {"seq_len": 128, "epochs": 3.0, "learning_rate": 2e-4, "batch_size": 32},
}
FIFTHS = ("bbc", "bbc-1", "bbc-2", "bbc-3", "bbc-4")  # together, they test every article once
QUARTER = "bbc-quarter"  # the usual split of scikit-learn; tf-idf has its published accuracy there
FLOORS = {"bbc": 0.987, "r8": 0.970}  # published accuracies of tf-idf with logistic regression


def main() -> None:
    """Compute the results that are missing in the file, and print all results."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--results", type=Path, required=True)
    parser.add_argument("--work", type=Path, help="folder for data and runs; the default is next to the results")
    parser.add_argument("--datasets", nargs="+", default=["bbc", "r8"], choices=[*FIFTHS, QUARTER, "r8"])
    parser.add_argument("--who", nargs="+", default=["tfidf", "funcnet", "transformers", "step"])
    parser.add_argument(
        "--seeds",
        nargs="+",
        type=int,
        default=[0, 1, 2],
        help="seeds of funcnet; transformers, which takes longer, has only the first one",
    )
    parser.add_argument("--seq-len", type=int)
    parser.add_argument("--epochs", type=float)
    parser.add_argument("--rate", type=float)
    parser.add_argument("--long-texts", choices=["cut", "parts"], help="as `funcnet finetune`")
    parser.add_argument("--precision", choices=["float32", "bfloat16"], help="type of matrix products")
    options = parser.parse_args()
    work = options.work or options.results.with_suffix("")
    work.mkdir(parents=True, exist_ok=True)
    for dataset in options.datasets:
        given = {"seq_len": options.seq_len, "epochs": options.epochs, "learning_rate": options.rate}
        given |= {"precision": options.precision, "long_texts": options.long_texts}
        recipe = RECIPES[dataset.split("-")[0]] | {name: value for name, value in given.items() if value is not None}
        files = write_data(dataset, work)
        for who in options.who:
            for seed in {"funcnet": options.seeds, "transformers": options.seeds[:1]}.get(who, [0]):
                key = f"{dataset} {who} seed {seed} {json.dumps(recipe)}" if who != "tfidf" else f"{dataset} tfidf"
                results = read_json(options.results) or {}
                if key not in results:
                    print(f"== {key}", flush=True)
                    found = UNITS[who](dataset, files, recipe, seed, work)
                    results = read_json(options.results) or {}  # another process may have added to it
                    write_json(options.results, results | {key: found})
    show(read_json(options.results) or {})


def write_data(dataset: str, work: Path) -> tuple[Path, Path]:
    """(training file, test file) as CSV."""
    files = work / f"{dataset}-train.csv", work / f"{dataset}-test.csv"
    if not all(file.exists() for file in files):
        for file, rows in zip(
            files, (reuters("train"), reuters("test")) if dataset == "r8" else bbc(dataset), strict=True
        ):
            with open(file, "w", encoding="utf-8", newline="") as out:
                writer = csv.writer(out)
                writer.writerow(["text", "label"])
                writer.writerows(rows)
    return files


def bbc(dataset: str) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
    """(training rows, test rows) of the articles without duplicates; the test rows are a fifth or a quarter."""
    found: dict[str, str] = {}
    for file in sorted(real_data.bbc().rglob("*.txt")):
        found.setdefault(" ".join(file.read_text("utf-8", errors="replace").split()), file.parent.name)
    if dataset == QUARTER:
        from sklearn.model_selection import train_test_split

        rows = list(found.items())
        return tuple(train_test_split(rows, stratify=[label for _, label in rows], random_state=42))
    parts = split([TextExample(text, None, label, "") for text, label in found.items()], 0.2, seed=0)
    train, test = ([(example.text, example.label) for example in part] for part in parts)
    if fifth := FIFTHS.index(dataset):
        others = [row for place, row in enumerate(train) if place % 4 != fifth - 1]
        train, test = others + test, train[fifth - 1 :: 4]
    return train, test


def reuters(part: str) -> list[tuple[str, str]]:
    """(text, class) of one of R8's public parts."""
    lines = real_data.reuters(part).read_text("utf-8").split("\n")[3:]
    rows = [line.split("\t") for line in lines if line]
    return [(text, label) for label, text in rows]


def tfidf(dataset: str, files: tuple[Path, Path], recipe: dict, seed: int, work: Path) -> dict:
    """The accuracy of tf-idf with logistic regression on the same split."""
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression

    (train, labels), (test, expected) = (read(file) for file in files)
    vectorizer = TfidfVectorizer(sublinear_tf=True)
    model = LogisticRegression(C=10, max_iter=1000).fit(vectorizer.fit_transform(train), labels)
    guessed = model.predict(vectorizer.transform(test))
    return {"accuracy": float(np.mean(guessed == np.array(expected))), "floor": FLOORS[dataset.split("-")[0]]}


def read(file: Path) -> tuple[list[str], list[str]]:
    """(texts, labels)."""
    with open(file, encoding="utf-8", newline="") as lines:
        rows = list(csv.reader(lines))[1:]
    return [row[0] for row in rows], [row[1] for row in rows]


def configuration(files: tuple[Path, Path], recipe: dict, seed: int, out: Path) -> FinetuningSettings:
    """The settings of a run without validation, which tests the last model."""
    resume = (out / "run.json").exists()
    files_of = {"model": real_data.minilm(), "train": files[0], "test": files[1], "out": out}
    return compose(FinetuningSettings, task="classify", **files_of, resume=resume, split=0.0, seed=seed, **recipe)


def funcnet(dataset: str, files: tuple[Path, Path], recipe: dict, seed: int, work: Path) -> dict:
    """Fine-tune with funcnet, with one seed."""
    from funcnet.tasks.finetuning.task import finetune

    name = "-".join(str(value) for value in recipe.values())
    out = work / f"{dataset}-{name}-seed-{seed}"
    began = time.perf_counter()
    code = finetune(configuration(files, recipe, seed, out))
    if code:
        raise SystemExit(code)
    values = read_json(out / "eval.json")
    return {
        "accuracy": values["test_accuracy"],
        "f1_macro": values["test_f1_macro"],
        "seconds": time.perf_counter() - began,
    }


def transformers(dataset: str, files: tuple[Path, Path], recipe: dict, seed: int, work: Path) -> dict:
    """Fine-tune with transformers, with the same recipe and batches."""
    import torch

    data, model, optimizer, schedule, train, test = peer(files, recipe, seed, work)
    steps, began, seconds = round(recipe["epochs"] * len(train)), time.perf_counter(), 0.0
    batches = train.batches()
    for step in range(steps):
        begin = time.perf_counter()
        loss = torch_step(model, optimizer, schedule, next(batches), recipe)
        seconds += time.perf_counter() - begin
        if step % 10 == 0:
            print(f"step {step}/{steps}  loss {loss:.3f}", flush=True)
    model.eval()
    outputs: list = [None] * len(data.test.rows)
    with torch.no_grad():
        for chosen, batch in zip(test.batch_sampler.plan(0), test.epoch(0), strict=True):
            logits = model(**tensors(batch)).logits.numpy()
            for place, row in enumerate(chosen):
                outputs[row] = logits[place]
    examples = data.test.examples
    rows = data.test.rows
    scores = data.head.scores(examples, data.head.answers(examples, rows.details, rows.counts, outputs))
    return {
        "accuracy": scores["accuracy"],
        "f1_macro": scores["f1_macro"],
        "seconds": time.perf_counter() - began,
        "seconds_a_step": seconds / steps,
    }


def peer(files: tuple[Path, Path], recipe: dict, seed: int, work: Path):
    """(data, torch model, optimizer, schedule, training batches, test batches)."""
    import torch
    from transformers import BertForSequenceClassification, get_linear_schedule_with_warmup

    from funcnet.tasks.finetuning.batches import make_loader

    data = read_data(configuration(files, recipe, seed, work / "none"))
    torch.manual_seed(seed)
    classes = len(data.head.labels)
    model = BertForSequenceClassification.from_pretrained(real_data.minilm(), num_labels=classes)
    plain = [p for name, p in model.named_parameters() if name.endswith("bias") or "LayerNorm" in name]
    decayed = [p for name, p in model.named_parameters() if not (name.endswith("bias") or "LayerNorm" in name)]
    groups = [{"params": decayed, "weight_decay": 0.01}, {"params": plain, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=recipe["learning_rate"], eps=1e-6)
    options = {"batch_size": recipe["batch_size"], "lengths": data.lengths, "pad_id": 0}
    train = make_loader(data.train.rows, seed=seed, **options)
    steps = round(recipe["epochs"] * len(train))
    schedule = get_linear_schedule_with_warmup(optimizer, round(0.1 * steps), steps)
    return data, model, optimizer, schedule, train, make_loader(data.test.rows, **options)


def tensors(batch: dict) -> dict:
    """The arguments of the model."""
    import torch

    names = ("input_ids", "token_type_ids", "attention_mask")
    return {name: torch.from_numpy(batch[name].astype(np.int64)) for name in names}


def torch_step(model, optimizer, schedule, batch: dict, recipe: dict) -> float:
    """Make one update; return the loss."""
    import torch

    model.train()
    with torch.autocast("cpu", torch.bfloat16, enabled=recipe.get("precision") == "bfloat16"):
        loss = model(**tensors(batch), labels=torch.from_numpy(batch["labels"].astype(np.int64))).loss
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    schedule.step()
    optimizer.zero_grad()
    return float(loss.detach())


def step(dataset: str, files: tuple[Path, Path], recipe: dict, seed: int, work: Path) -> dict:
    """Measure an update with the longest rows; funcnet and torch take turns."""
    import jax

    from funcnet.parallel import make_layout, parallelize
    from funcnet.tasks.finetuning.task import FinetuningTask
    from funcnet.train import FLOAT32, Context, Interruption, create, make_step

    data, model, optimizer, schedule, train, _ = peer(files, recipe, seed, work)
    with Interruption() as stop:
        layout = make_layout({"data": 1})
        task = FinetuningTask(configuration(files, recipe, seed, work / "none"), Context(layout, FLOAT32, stop))
        state = layout.place(create(*task.init(seed), task.optimizer, trainable=task.trainable))
        update = make_step(
            task.objective, task.counts, task.optimizer, schedule=task.schedule, trainable=task.trainable
        )
        update = parallelize(update, layout, state=state, donate=True)
        key = layout.place(jax.random.key(seed))
        batch = next(one for one in train.epoch(0) if one["input_ids"].shape[1] == data.lengths[-1])
        times: dict[str, list[float]] = {"funcnet": [], "transformers": []}
        for turn in range(9):
            begin = time.perf_counter()
            state, metrics = update(state, layout.shard(batch), key)
            jax.block_until_ready((state, metrics))
            middle = time.perf_counter()
            torch_step(model, optimizer, schedule, batch, recipe)
            end = time.perf_counter()
            if turn:  # the first compiles
                times["funcnet"].append(middle - begin)
                times["transformers"].append(end - middle)
    ratio = statistics.median(b / a for a, b in zip(*times.values(), strict=True))
    seconds = {f"{who}_seconds": statistics.median(values) for who, values in times.items()}
    return {"times_as_fast": ratio, **seconds, "tokens": int(batch["attention_mask"].sum())}


def show(results: dict) -> None:
    """Print every result, mean and standard deviation over the seeds, and the mean over the five fifths of BBC."""
    seeds: dict[str, list[float]] = {}
    for key, values in sorted(results.items()):
        print(key, json.dumps({name: round(value, 4) for name, value in values.items()}))
        if " seed " in key and "accuracy" in values:
            seeds.setdefault(key.split(" seed ")[0] + key[key.index("{") - 1 :], []).append(values["accuracy"])
    for key, values in seeds.items():
        spread = statistics.stdev(values) if len(values) > 1 else 0.0
        print(f"{key}: mean of {len(values)} seeds {statistics.mean(values):.4f}, spread {spread:.4f}")
    for what in (key.removeprefix("bbc ") for key in results if key.startswith("bbc ") and " step " not in key):
        if all(f"{fifth} {what}" in results for fifth in FIFTHS):
            parts = [results[f"{fifth} {what}"]["accuracy"] for fifth in FIFTHS]
            print(f"bbc, every fifth held out once: {what}: mean {statistics.mean(parts):.4f}")


UNITS = {"tfidf": tfidf, "funcnet": funcnet, "transformers": transformers, "step": step}

if __name__ == "__main__":
    main()
