"""The report on a data directory: report.json for programs, report.txt and report.png for people."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from funcnet import table
from funcnet.data import Joined
from funcnet.figures import new_figure
from funcnet.files import replacing, write_json
from funcnet.tasks.pretraining_data.manifest import EXAMPLES, DataFiles, Manifest
from funcnet.tasks.pretraining_data.packing import number_of_rows
from funcnet.tasks.pretraining_data.reader import open_datasets
from funcnet.tasks.pretraining_data.shard import read_shard, write_shard
from funcnet.text import load_tokenizer, special_ids

__all__ = ["describe_documents", "describe_masks", "describe_pairs", "draw_data_report", "report_text", "write_report"]

LABELS = {"next": "B follows A", "random": "B is random"}
LONGEST = 512  # tokens; histograms count longer sentences and documents as if they had this length
SAMPLE = 2000  # number of rows in which masks are counted


def write_report(folder: Path, manifest: Manifest, corpus: Mapping[str, Any], origin: Mapping[str, str]) -> None:
    """Write counts.arrow, report.json and report.txt. The data directory must already contain all shards.

    `corpus` has statistics of the files, and the numbers of dropped documents and sentences. `origin` has the digests
    of the data from which counts.arrow is made.
    """
    files, tokenizer, shards = DataFiles(folder), load_tokenizer(folder), range(manifest.shards or 0)
    unknown = special_ids(tokenizer)["[UNK]"]
    counts = np.zeros(tokenizer.get_vocab_size(), np.int64)
    for shard in shards:
        counts += np.bincount(read_shard(files.shard("tokens", shard))[0]["token"], minlength=len(counts))
    write_shard(files.counts, {"count": counts}, origin)

    train: dict[str, Any] = {"tokens": int(counts.sum())}
    if manifest.layout != EXAMPLES:
        sentences = (read_shard(files.shard("sentences", shard)) for shard in shards)
        train = describe_documents((columns, facts["documents"]) for columns, facts in sentences)
    train["unknown_share"] = round(float(counts[unknown] / max(counts.sum(), 1)), 6)
    report: dict[str, Any] = {"corpus": dict(corpus), "train": train}
    if manifest.settings["held_out"]:
        columns, facts = read_shard(files.held_out_tokens)
        share = float((columns["token"] == unknown).mean()) if len(columns["token"]) else 0.0
        numbers = {name: value for name, value in (facts or {}).items() if name != "dropped"}
        report["evaluation"] = {**numbers, "tokens": len(columns["token"]), "unknown_share": round(share, 6)}
    report["pairs"] = {
        str(seq_len): _pairs(folder, manifest, tokenizer, seq_len) for seq_len in manifest.settings["seq_len"]
    }
    write_json(folder / "report.json", report)
    with replacing(folder / "report.txt") as part:
        part.write_text(report_text(report) + "\n", "utf-8")


def report_text(report: Mapping[str, Any]) -> str:
    """Return the report on a data directory as text with tables."""
    corpus = report["corpus"]
    size = f"{corpus['files']:,} files, {corpus['bytes'] / 1e6:,.1f} MB"
    lines = [f"{size} of Google's examples."]
    keys = ["tokens"]
    if corpus["layout"] != EXAMPLES:
        lines = [
            f"{size}, {corpus['documents']:,} documents ({corpus['layout']}); dropped: "
            f"{corpus['duplicates_dropped']:,} copies of documents, {corpus['shared_sentences_dropped']:,} held-out "
            "sentences that training documents contain too."
        ]
        keys = ["documents", "documents_without_pairs", "sentences", "tokens"]
    cells = [["", *(key.replace("documents_without", "without") for key in keys), "unknown"]]
    for name in ("train", "evaluation"):
        if name in report:
            part = report[name]
            cells.append([name, *(f"{part[key]:,}" for key in keys), f"{part['unknown_share']:.3%}"])
    lines += ["", table.text(cells, left=1)]
    cells = [["rows of", "", "passes", "pairs per pass", "mean length", "full", "padding", "packed", "random next"]]
    for seq_len, parts in report["pairs"].items():
        for name, part in parts.items():
            if name != "masks":
                names = ("full_share", "padding_share", "packed_padding_share", "random_next_share")
                shares = [f"{part[key]:.1%}" for key in names]
                numbers = [f"{part[key]:,}" for key in ("passes", "examples", "mean_length")]
                cells.append([seq_len, name, *numbers, *shares])
    lines += ["", table.text(cells, left=2)]
    cells = [["rows of", "sample", "words hidden", "show [MASK]", "another word", "themselves"]]
    for seq_len, parts in report["pairs"].items():
        masks = parts["masks"]
        shares = [f"{masks[key]:.1%}" for key in ("hidden_share", "shows_mask", "shows_another", "shows_itself")]
        cells.append([seq_len, f"{masks['rows']:,}", *shares])
    return "\n".join([*lines, "", table.text(cells, left=1)])


def draw_data_report(path: Path, report: Mapping[str, Any]) -> None:
    """Draw histograms of the lengths of sentences and documents, and the lengths of rows under both labels."""
    lengths = list(report["pairs"])
    units = [name for name in ("sentence", "document") if f"{name}_lengths" in report["train"]]
    figure = new_figure(5 * (len(units) + len(lengths)), 3.6)
    axes = figure.subplots(1, len(units) + len(lengths), squeeze=False)[0]
    for axis, name in zip(axes, units, strict=False):
        counts = np.array(report["train"][f"{name}_lengths"])
        width = 8 if name == "sentence" else 16
        sums = np.add.reduceat(counts, np.arange(0, len(counts), width))
        axis.bar(np.arange(len(sums)) * width, sums, width=width, align="edge")
        axis.set_title(f"Tokens in a {name} (the last bar: {LONGEST} or more)")
    for axis, seq_len in zip(axes[len(units) :], lengths, strict=True):
        for label, counts in report["pairs"][seq_len]["train"]["lengths"].items():
            axis.plot(np.cumsum(counts) / max(sum(counts), 1), label=LABELS[label])
        axis.set_title(f"Rows of {seq_len}: cumulative share by length")
        axis.legend()
    with replacing(path) as part:
        figure.savefig(part, format="png", dpi=100, metadata={"Software": None})


# ---------------------------------------------------------------------------------------------------------- counting


def describe_documents(sentences: Iterable[tuple[Mapping[str, NDArray[Any]], int]]) -> dict[str, Any]:
    """Count documents, sentences and tokens, and make histograms of their lengths, as JSON values.

    `sentences` yields for each shard (the columns `length` and `document`, the number of documents). A histogram has
    one number per length. Its last number also counts all greater lengths.
    """
    lengths = np.zeros(LONGEST + 1, np.int64)
    per_document = np.zeros(LONGEST + 1, np.int64)
    documents = without_pairs = tokens = 0
    for columns, number in sentences:
        documents += number
        without_pairs += int((np.bincount(columns["document"], minlength=number) < 2).sum())
        tokens += int(columns["length"].sum(dtype=np.int64))
        lengths += np.bincount(np.minimum(columns["length"], LONGEST), minlength=LONGEST + 1)
        sizes = np.bincount(columns["document"], columns["length"], minlength=number).astype(np.int64)
        per_document += np.bincount(np.minimum(sizes, LONGEST), minlength=LONGEST + 1)
    number = int(lengths.sum())
    return {
        "documents": documents,
        "documents_without_pairs": without_pairs,  # they have at most one sentence
        "sentences": number,
        "tokens": tokens,
        "tokens_per_sentence": round(tokens / number, 2) if number else 0.0,
        "sentence_lengths": lengths.tolist(),
        "document_lengths": per_document.tolist(),
    }


def describe_pairs(passes: Sequence[Mapping[str, Joined]], seq_len: int) -> dict[str, Any]:
    """Count examples, their lengths, padding and random pairs in the columns of each pass, as JSON values."""
    lengths = np.zeros((2, seq_len + 1), np.int64)
    random = rows = 0
    for pairs in passes:
        for shard in range(len(pairs["a_length"].arrays)):
            columns = {name: joined.arrays[shard] for name, joined in pairs.items()}
            length = columns["a_length"].astype(np.int64) + columns["b_length"] + 3
            label = columns["is_random_next"].astype(np.int64)
            random += int(label.sum())
            rows += number_of_rows(columns["row"]) if "row" in columns else len(label)
            lengths += np.bincount(length + (seq_len + 1) * label, minlength=2 * (seq_len + 1)).reshape(2, -1)
    total = int(lengths.sum())
    tokens = float((lengths.sum(0) * np.arange(seq_len + 1)).sum())
    mean = tokens / max(total, 1)
    return {
        "examples": total // len(passes),
        "passes": len(passes),
        "mean_length": round(mean, 2),
        "full_share": round(float(lengths[:, seq_len].sum() / max(total, 1)), 4),
        "padding_share": round(1 - mean / seq_len, 4),
        "packed_padding_share": round(1 - tokens / seq_len / max(rows, 1), 4),
        "random_next_share": round(random / max(total, 1), 4),
        "lengths": {"next": lengths[0].tolist(), "random": lengths[1].tolist()},
    }


def describe_masks(batch: Mapping[str, NDArray[Any]], mask_id: int) -> dict[str, Any]:
    """Count the masked words of a batch, and how many of them are replaced by `[MASK]`, replaced by a random word, or
    kept.
    """
    used = batch["masked_weights"] == 1
    shown = np.take_along_axis(batch["input_ids"], batch["masked_positions"], 1)[used]
    labels = batch["masked_ids"][used]
    words = int((batch["attention_mask"].sum(1) - 3).sum())
    share = lambda part, whole: round(float(part.sum() / max(whole, 1)), 4)  # if words are long, none may be masked
    return {
        "rows": len(used),
        "hidden_share": share(used, words),
        "shows_mask": share(shown == mask_id, len(shown)),
        "shows_itself": share(shown == labels, len(shown)),
        "shows_another": share((shown != mask_id) & (shown != labels), len(shown)),
    }


def _pairs(folder: Path, manifest: Manifest, tokenizer: Tokenizer, seq_len: int) -> dict[str, Any]:
    train, held_out = open_datasets(folder, manifest, tokenizer, seq_len, manifest.settings["seed"])
    found = {"train": describe_pairs(train.pairs, seq_len)}
    if held_out is not None:
        found["evaluation"] = describe_pairs(held_out.pairs, seq_len)
    found["masks"] = describe_masks(train[np.arange(min(SAMPLE, len(train)))], train.masking.mask_id)
    return found
