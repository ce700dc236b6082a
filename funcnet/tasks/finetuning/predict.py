"""Runs a fine-tuned model on files: `predict` returns its answers, and `evaluate` computes their metrics."""

import csv
import dataclasses
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TextIO

import jax

from funcnet.data import bucket_lengths
from funcnet.files import replacing, write_json
from funcnet.heads.buckets import Bucketed
from funcnet.parallel import make_layout
from funcnet.tasks.finetuning import directory
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
    """Predict the answers for the examples in a file.

    Args:
        path: output directory of `funcnet finetune`, or a Hugging Face directory with a fine-tuned BERT.
        file: examples in the format of the training file, with or without labels. A file of texts can also have one
            text per line (`.txt`). A model that tags words splits each line into words and punctuation.
        batch_size: number of rows per batch.
        labelled: whether to read labels and compute metrics.
        null_threshold: for the task answer, the margin by which the score of "no answer" must exceed that of the best
            answer. A good value is the metric `best_f1_thresh` that `evaluate` returns. The default is the value found
            in training. A Hugging Face directory has no such value, so "no answer" is never predicted by default.

    Returns:
        predictions: one dict per example, in order. The keys of a prediction depend on the task.

            - classify and pairs: label, probability, probabilities {label: p}.
            - labels: labels, probabilities.
            - regress: value, or values for a model with several outputs.
            - choice: choice, text, probabilities.
            - tokens: tokens, tags, and also entities {type, first, last, text} if the tags mark entities.
            - answer: id, answer, start, n_best, and no_answer, which is the score of "no answer" minus that of the best
              answer.

        metrics: the metrics, or an empty dict without labels.

    Raises:
        FileNotFoundError: if the directory or the file is missing.
        ValueError: if the model is not a fine-tuned BERT, the file is invalid (the message has its line and column), or
            `batch_size` is below 1.
        ValueError: if `null_threshold` is given for a task other than answer, or `labelled` for a model with several
            outputs per text.

    Example:
        >>> import tempfile
        >>> from funcnet import text
        >>> from funcnet.models import bert
        >>> tokenizer = text.train_wordpiece(["fine soup", "bad soup"] * 2, vocab_size=30)
        >>> sizes = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1, "intermediate_size": 8}
        >>> config = bert.BertConfig(**sizes, vocab_size=30, max_position_embeddings=8, id2label={0: "bad", 1: "fine"})
        >>> model = bert.BertForSequenceClassification(config)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     bert.save_pretrained(folder, model, *jax.jit(model.init)(jax.random.key(0)))
        ...     text.save_tokenizer(tokenizer, folder)
        ...     _ = Path(folder, "texts.txt").write_text("fine soup\\nbad soup\\n")
        ...     predictions, _ = predict(folder, f"{folder}/texts.txt")
        >>> [list(prediction) for prediction in predictions]
        [['text', 'label', 'probability', 'probabilities'], ['text', 'label', 'probability', 'probabilities']]
    """
    if batch_size < 1:
        raise ValueError(f"predict: --batch-size is out of range; expected at least 1, got {batch_size}.")
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
    """Compute the metrics of a model on a labelled file. The arguments and errors are those of `predict`.

    Returns:
        The loss, the number of examples, and the metrics of the task.

        - One class per text or pair: accuracy, f1_macro, matthews, and f1 if there are two classes.
        - labels: accuracy, f1_macro, f1_micro.
        - regress: pearson, spearman, mse.
        - tokens: accuracy, and also precision, recall and f1 if the tags mark entities.
        - choice: accuracy.
        - answer: exact and f1, in percent, and total. Data in the format of SQuAD 2.0 give further metrics; see
          `funcnet.heads.reading.squad.squad_scores`.

    Example:
        >>> import tempfile
        >>> from funcnet import text
        >>> from funcnet.models import bert
        >>> tokenizer = text.train_wordpiece(["fine soup", "bad soup"] * 2, vocab_size=30)
        >>> sizes = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1, "intermediate_size": 8}
        >>> config = bert.BertConfig(**sizes, vocab_size=30, max_position_embeddings=8, id2label={0: "bad", 1: "fine"})
        >>> model = bert.BertForSequenceClassification(config)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     bert.save_pretrained(folder, model, *jax.jit(model.init)(jax.random.key(0)))
        ...     text.save_tokenizer(tokenizer, folder)
        ...     _ = Path(folder, "test.csv").write_text("text,label\\nfine soup,fine\\nbad soup,bad\\n")
        ...     figures = evaluate(folder, f"{folder}/test.csv")
        >>> list(figures), figures["examples"]
        (['loss', 'accuracy', 'f1_macro', 'matthews', 'f1', 'examples'], 2)
    """
    return predict(path, file, batch_size=batch_size, labelled=True, null_threshold=null_threshold)[1]


def write_predictions(predictions: Sequence[Mapping[str, Any]], out: Path | None) -> None:
    """Write predictions as JSON lines, or as a table if the suffix of `out` is `.csv`.

    Args:
        predictions: one dict per example, from `predict`. A table has one column for each name that a dict has, and
            one per class for the probabilities. Other lists and objects are written to cells as JSON.
        out: the file. None writes JSON lines to standard output.

    Raises:
        OSError: if the file cannot be written. If the file already existed, the error leaves it unchanged.

    Example:
        >>> write_predictions([{"text": "fine soup", "label": "fine"}], None)
        {"text": "fine soup", "label": "fine"}
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
    """Print the metrics as JSON, and also write them to `out` if it is given.

    Args:
        figures: the metrics, from `evaluate`.
        out: the file, or None.

    Raises:
        OSError: if the file cannot be written. If the file already existed, the error leaves it unchanged.

    Example:
        >>> write_figures({"accuracy": 0.5, "examples": 2}, None)
        {
          "accuracy": 0.5,
          "examples": 2
        }
    """
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
    columns = list(dict.fromkeys(name for row in rows for name in row))
    writer = csv.DictWriter(file, columns, lineterminator="\n")
    if columns:
        writer.writeheader()
    writer.writerows(rows)
