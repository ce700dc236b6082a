"""A fine-tuned model on files: `predict` gives its answers, `evaluate` measures them."""

import csv
import dataclasses
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TextIO

import jax

from funcnet.files import replacing, write_json
from funcnet.heads.buckets import Bucketed
from funcnet.parallel import make_layout
from funcnet.tasks.finetuning import directory
from funcnet.tasks.finetuning.batches import bucket_lengths
from funcnet.tasks.finetuning.rows import encode_rows, mean_loss
from funcnet.text import special_ids
from funcnet.train import compilation_cache

__all__ = ["evaluate", "predict", "write_figures", "write_predictions"]


def predict(
    path: str | Path,
    file: str | Path,
    *,
    batch_size: int = 32,
    labelled: bool = False,
    null_threshold: float | None = None,
) -> tuple[list[dict[str, Any]], dict[str, float]]:
    """The answers of the model in a directory to a file's examples.

    Args:
        path: a run of `funcnet finetune`, or a directory of Hugging Face with a fine-tuned BERT.
        file: in the form that the model was trained on, with or without labels; for texts also plain lines (`.txt`),
            which a model that tags words splits into words and signs.
        batch_size: rows at a time.
        labelled: whether to read labels and measure.
        null_threshold: for questions: how much higher than the best answer "no answer" must score to be given, such as
            the `best_f1_thresh` of `evaluate`; None: as it was trained, never for a directory of Hugging Face.

    Returns:
        (a dict for each example, in order, the figures; empty without labels). The dicts hold

        - classify, pairs: label, probability, probabilities {label: p}; labels: labels, probabilities;
        - regress: value, for a model with several numbers values; choice: choice, text, probabilities;
        - tokens: tokens, tags, and entities {type, first, last, text} where the tags are those of entities;
        - answer: id, answer, start, n_best, and no_answer, the score of "no answer" minus the best answer's.

    Raises:
        FileNotFoundError: the directory or the file is not there.
        ValueError: no fine-tuned BERT, or something in the file is wrong: names file, line and column; `batch_size` is
            below 1; `null_threshold` for another task; `labelled` for a model that gives several numbers a text.
    """
    if batch_size < 1:
        raise ValueError(f"predict: --batch-size; expected at least 1, got {batch_size}.")
    model = directory.load(path)
    if null_threshold is not None:
        model = dataclasses.replace(model, head=model.head.with_null_threshold(null_threshold))
    head = model.head
    if labelled:
        head.require_measurable(model.net.config, path)
    examples = head.read(Path(file), labelled=labelled)
    rows = encode_rows(head, examples, model.tokenizer, model.seq_len, labelled=labelled)
    if cut := head.describe_cut(rows.truncated, model.seq_len):
        print(f"{cut}.", file=sys.stderr)
    layout = make_layout({"data": 1} if jax.default_backend() == "cpu" else None)
    compilation_cache.enable()
    run = Bucketed(
        head.forward(model.net, model.tokenizer),
        longest=model.seq_len,
        pad_id=special_ids(model.tokenizer)["[PAD]"],
        lengths=bucket_lengths(rows.lengths, model.seq_len),
        sizes=[-(-batch_size // layout.batch_parts) * layout.batch_parts],
        shard=layout.shard,
    )
    outputs = run(layout.place((model.params, model.state)), rows.sequences)
    answers = head.answers(examples, rows.details, rows.counts, outputs)
    predictions = [{**head.shown(example), **one} for example, one in zip(examples, answers, strict=True)]
    if not labelled:
        return predictions, {}
    figures = head.scores(examples, answers)
    return predictions, {"loss": mean_loss(head, outputs, rows), **figures, "examples": len(examples)}


def evaluate(
    path: str | Path, file: str | Path, *, batch_size: int = 32, null_threshold: float | None = None
) -> dict[str, float]:
    """The figures of the model in a directory on a labelled file; see `predict`.

    Returns:
        loss, examples, and: accuracy, f1_macro, matthews and of two classes f1; of labels f1_micro; pearson,
        spearman, mse; of entities precision, recall, f1; of questions exact and f1 in percent.
    """
    return predict(path, file, batch_size=batch_size, labelled=True, null_threshold=null_threshold)[1]


def write_predictions(predictions: Sequence[Mapping[str, Any]], out: Path | None) -> None:
    """Writes JSON lines, or with the suffix `.csv` a table; to standard output where `out` is None.

    In a table the probabilities of classes are columns of their own; other lists and objects are JSON in a cell.

    Raises:
        OSError: the file cannot be written; it is as it was.
    """
    if out is None:
        _write_lines(predictions, sys.stdout)
        return
    with replacing(out) as part, open(part, "w", encoding="utf-8", newline="") as file:
        if out.suffix.lower() == ".csv":
            _write_table(predictions, file)
        else:
            _write_lines(predictions, file)


def write_figures(figures: Mapping[str, float], out: Path | None) -> None:
    """Prints the figures as JSON, and writes them where a file is named."""
    print(json.dumps(figures, indent=2))
    if out is not None:
        write_json(out, figures)


def _write_lines(predictions: Sequence[Mapping[str, Any]], file: TextIO) -> None:
    for prediction in predictions:
        file.write(json.dumps(prediction, ensure_ascii=False) + "\n")


def _write_table(predictions: Sequence[Mapping[str, Any]], file: TextIO) -> None:
    rows = []
    for prediction in predictions:
        row: dict[str, Any] = {}
        for name, value in prediction.items():
            if name == "probabilities" and isinstance(value, dict):
                row |= {f"probability of {label}": chance for label, chance in value.items()}
            else:
                row[name] = json.dumps(value, ensure_ascii=False) if isinstance(value, dict | list) else value
        rows.append(row)
    writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
