"""The report on a data directory: report.json for programs, report.txt and a picture for people."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from funcnet import table
from funcnet.files import replacing, write_json
from funcnet.tasks.pretraining_data.manifest import EXAMPLES, Directory
from funcnet.tasks.pretraining_data.reader import datasets, joined_pairs
from funcnet.tasks.pretraining_data.shard import read_shard, write_shard
from funcnet.tasks.pretraining_data.statistics import LONGEST, describe_documents, describe_masks, describe_pairs
from funcnet.text import load_tokenizer, special_ids

LABELS = {"next": "B follows A", "random": "B is random"}
LOOKED_AT = 2000  # rows in which the shares of masks are counted


def write_report(
    folder: Path, told: Mapping[str, Any], corpus: Mapping[str, Any], made_from: Mapping[str, str]
) -> None:
    """Writes counts.arrow, report.json and report.txt.

    Args:
        folder: a data directory with all its shards.
        told: its manifest.
        corpus: facts about the files and what was dropped.
        made_from: of counts.arrow.
    """
    files, tokenizer = Directory(folder), load_tokenizer(folder)
    special = special_ids(tokenizer)
    counts = np.zeros(tokenizer.get_vocab_size(), np.int64)
    for shard in range(told["shards"]):
        counts += np.bincount(read_shard(files.tokens(shard))[0]["token"], minlength=len(counts))
    write_shard(files.counts, {"count": counts}, made_from)

    train: dict[str, Any] = {"tokens": int(counts.sum())}
    if told["layout"] != EXAMPLES:
        sentences = (read_shard(files.sentences(shard)) for shard in range(told["shards"]))
        train = describe_documents((columns, facts["documents"]) for columns, facts in sentences)
    train["unknown_share"] = round(float(counts[special["[UNK]"]] / max(counts.sum(), 1)), 6)
    report: dict[str, Any] = {"corpus": dict(corpus), "train": train}
    if told["settings"]["held_out"]:
        columns, facts = read_shard(files.held_out_tokens)
        unknown = float((columns["token"] == special["[UNK]"]).mean()) if len(columns["token"]) else 0.0
        numbers = {name: value for name, value in (facts or {}).items() if name != "dropped"}
        report["evaluation"] = {**numbers, "tokens": len(columns["token"]), "unknown_share": round(unknown, 6)}
    report["pairs"] = {str(seq_len): _pairs(files, told, seq_len) for seq_len in told["settings"]["seq_len"]}
    write_json(folder / "report.json", report)
    with replacing(folder / "report.txt") as part:
        part.write_text(as_text(report) + "\n", "utf-8")


def as_text(report: Mapping[str, Any]) -> str:
    """A report as tables in lines."""
    corpus = report["corpus"]
    size = f"{corpus['files']:,} files, {corpus['bytes'] / 1e6:,.1f} MB"
    lines = [f"{size} of Google's examples."]
    keys = ["tokens"]
    if corpus["layout"] != EXAMPLES:
        lines = [
            f"{size}, {corpus['documents']:,} documents ({corpus['layout']}); dropped: "
            f"{corpus['duplicates_dropped']:,} documents that were there before, "
            f"{corpus['shared_sentences_dropped']:,} held-out sentences that training holds too."
        ]
        keys = ["documents", "documents_without_pairs", "sentences", "tokens"]
    cells = [["", *(key.replace("documents_without", "without") for key in keys), "unknown"]]
    for name in ("train", "evaluation"):
        if name in report:
            part = report[name]
            cells.append([name, *(f"{part[key]:,}" for key in keys), f"{part['unknown_share']:.3%}"])
    lines += ["", table.text(cells, left=1)]
    cells = [["rows of", "", "passes", "pairs a pass", "mean length", "full", "padding", "packed", "random next"]]
    for seq_len, parts in report["pairs"].items():
        for name, part in parts.items():
            if name != "masks":
                names = ("full_share", "padding_share", "packed_padding_share", "random_next_share")
                shares = [f"{part[key]:.1%}" for key in names]
                numbers = [f"{part[key]:,}" for key in ("passes", "examples", "mean_length")]
                cells.append([seq_len, name, *numbers, *shares])
    lines += ["", table.text(cells, left=2)]
    cells = [["rows of", "looked at", "words hidden", "show [MASK]", "another word", "themselves"]]
    for seq_len, parts in report["pairs"].items():
        masks = parts["masks"]
        shares = [f"{masks[key]:.1%}" for key in ("hidden_share", "shows_mask", "shows_another", "shows_itself")]
        cells.append([seq_len, f"{masks['rows']:,}", *shares])
    return "\n".join([*lines, "", table.text(cells, left=1)])


def draw(path: Path, report: Mapping[str, Any]) -> None:
    """Three kinds of pictures: how long sentences and documents are, and rows under both labels."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    lengths = list(report["pairs"])
    units = [name for name in ("sentence", "document") if f"{name}_lengths" in report["train"]]
    figure = Figure(figsize=(5 * (len(units) + len(lengths)), 3.6), layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(1, len(units) + len(lengths), squeeze=False)[0]
    for panel, name in zip(panels, units, strict=False):
        counts = np.array(report["train"][f"{name}_lengths"])
        width = 8 if name == "sentence" else 16
        sums = np.add.reduceat(counts, np.arange(0, len(counts), width))
        panel.bar(np.arange(len(sums)) * width, sums, width=width, align="edge")
        panel.set_title(f"Tokens in a {name} ({LONGEST} and more at the right)")
    for panel, seq_len in zip(panels[len(units) :], lengths, strict=True):
        for label, counts in report["pairs"][seq_len]["train"]["lengths"].items():
            panel.plot(np.cumsum(counts) / max(sum(counts), 1), label=LABELS[label])
        panel.set_title(f"Rows of {seq_len}: share up to a length")
        panel.legend()
    with replacing(path) as part:
        figure.savefig(part, format="png", dpi=100, metadata={"Software": None})


def _pairs(files: Directory, told: Mapping[str, Any], seq_len: int) -> dict[str, Any]:
    passes = joined_pairs(files, seq_len, told["settings"]["passes"], told["shards"])
    by_shard = (
        [{name: column.arrays[shard] for name, column in one.items()} for shard in range(told["shards"])]
        for one in passes
    )
    found: dict[str, Any] = {"train": describe_pairs(by_shard, seq_len)}
    if told["settings"]["held_out"]:
        columns = read_shard(files.held_out_pairs(seq_len))[0]
        found["evaluation"] = describe_pairs([[columns]], seq_len)
    train, _ = datasets(files, told, load_tokenizer(files.path), seq_len, told["settings"]["seed"])
    found["masks"] = describe_masks(train[np.arange(min(LOOKED_AT, len(train)))], train.masking.mask_id)
    return found
