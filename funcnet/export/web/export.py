"""Write a trained model as a web page that runs in the browser: HTML, a WebAssembly module, weights and a tokenizer.

By default, all of these parts are in one HTML file, which can be opened from a disk or sent by mail. With
`layout="several"`, the module and the weights are files beside the HTML. Such a page needs a static server, because
browsers refuse to load files beside a page whose address begins with `file:`. Several files suit large models, because
the browser caches them, and because the base64 text in the HTML is a third larger than the files.

Weights stay float32, so the page has the precision of the model. The page of the tiny BERT is still under 5 MB.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Literal

import numpy as np

from funcnet import tree
from funcnet.export.check import ExportCheck
from funcnet.export.wasm.module import to_wasm
from funcnet.export.web.forms import open_form
from funcnet.export.web.html import page_html, planes
from funcnet.export.web.tokenizer import tokenizer_data
from funcnet.files import write_bytes

__all__ = ["WebExport", "to_web"]

TITLES: Mapping[str, str] = MappingProxyType(
    {
        "fill-mask": "Guess the missing word",
        "classify": "Classify a text",
        "labels": "Label a text",
        "regress": "Rate a text",
        "tokens": "Mark the words of a text",
        "similarity": "Compare two texts",
        "answer": "Answer a question about a text",
        "choice": "Choose the best continuation",
    }
)
EXAMPLES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "fill-mask": (
            "The president of the [MASK] States wrote to the congress.",
            "We wish for peace and [MASK] with all [MASK].",
            "The people of this [MASK] have the right to [MASK] their own government.",
        ),
        "similarity": ("A man is playing a guitar.\nSomeone makes music.",),
        "answer": (
            "Ada Lovelace was born in London in 1815. In 1843 she published a program for a machine that Charles "
            "Babbage had designed but never finished.\nWhere was Ada Lovelace born?",
        ),
        "choice": (
            "She put the kettle on the stove.\nThen she made a pot of tea.\nThen she rode it to work.\n"
            "Then she planted it in the garden.",
        ),
    }
)


@dataclass(frozen=True)
class WebExport:
    """The page that `to_web` wrote.

    Attributes:
        files: paths of the written files, beginning with `index.html`.
        size: number of bytes in all files.
        task: the task of the page, such as "fill-mask".
        lengths: padded lengths for which the module has a function.
        check: the difference between the module and the JAX function on example inputs.
    """

    files: tuple[Path, ...]
    size: int
    task: str
    lengths: tuple[int, ...]
    check: ExportCheck


def to_web(
    directory: str | Path,
    out: str | Path,
    *,
    task: str | None = None,
    layout: Literal["one", "several"] = "one",
    lengths: Sequence[int] | None = None,
    title: str | None = None,
    examples: Sequence[str] | None = None,
) -> WebExport:
    """Write a folder with a page that runs a trained model in the browser. The page sends no data.

    The page shows an answer that depends on its task:

    - "fill-mask": the five likeliest words for each [MASK].
    - "classify" and "labels": a bar for each label.
    - "tokens": the text with marked words or entities.
    - "regress": a number.
    - "similarity": the cosine of the vectors of two texts.
    - "answer": the answer to a question, marked in the text, and the five likeliest answers.
    - "choice": a bar for each choice.

    If the address contains a text, as in `index.html#text=The [MASK] sat.`, the page answers it at once. In the
    address, `&text_b=` sets the second text.

    Args:
        directory: output directory of `funcnet pretrain` or `finetune`, or Hugging Face's files of a BERT with a
            vocabulary.
        out: folder to write. Other files in this folder are kept.
        task: the task of the page, see `open_form`. The default depends on the model.
        layout: "one" HTML file, or "several" files: `index.html`, `model.wasm` and `model.weights`. Several files need
            a static server, such as `python -m http.server`.
        lengths: padded lengths, in tokens. The default is 16, 32, 64 and so on, up to the row length with which the
            model was fine-tuned, or 128. Longer texts are cut, except in three cases: "answer" reads a text in
            overlapping parts, a classifier that was fine-tuned to read long texts in parts does so, and "fill-mask"
            reports an error.
        title: heading of the page. The default heading says what the page does.
        examples: texts that the page offers. The page shows the first one when it opens. If the task takes several
            texts, an example has one line for each: for "answer" the text and the question, for "choice" the text and
            every choice.

    Returns:
        The files, and the difference between the results of the module and those of the JAX function.

    Raises:
        FileNotFoundError: if the directory has no model.
        ValueError: if the model, the task or the tokenizer has no page, or an argument is out of range.
        ModuleNotFoundError: if `ziglang` or `wasmtime` is not installed.

    Example:
        >>> import jax, tempfile
        >>> from funcnet import text
        >>> from funcnet.models import bert
        >>> tokenizer = text.train_wordpiece(["the cat sat on the mat"] * 3, vocab_size=40)
        >>> config = bert.BertConfig.preset("tiny", vocab_size=tokenizer.get_vocab_size(), num_hidden_layers=1)
        >>> model = bert.BertForMaskedLM(config)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     bert.save_pretrained(folder, model, *model.init(jax.random.key(0)))
        ...     text.save_tokenizer(tokenizer, folder)
        ...     page = to_web(folder, f"{folder}/page", lengths=[8])
        >>> [file.name for file in page.files], page.task, page.check.largest < 1e-5
        (['index.html'], 'fill-mask', True)
    """
    if layout not in ("one", "several"):
        raise ValueError(f"to_web: layout has an unknown value; expected one or several, got {layout!r}.")
    form = open_form(directory, task, lengths)
    known = form.facts["task"]
    module = to_wasm(form.function, *form.examples, weights="beside", lengths=form.lengths)
    assert module.weights is not None  # they are beside
    facts = {
        **form.facts,
        "model": form.model,
        "parameters": _count(sum(np.size(array) for array in tree.flatten(form.params).values())),
        "examples": [*(EXAMPLES.get(known, ()) if examples is None else examples)],
        "tokenizer": tokenizer_data(form.tokenizer),
    }
    out = Path(out)
    out.mkdir(parents=True, exist_ok=True)
    files: dict[str, bytes] = {}
    inside: dict[str, bytes] = {}
    if layout == "one":
        inside = {"wasm": module.wasm, "weights": planes(module.weights)}
    else:
        files = {"model.wasm": module.wasm, "model.weights": module.weights}
    page = page_html(title or TITLES[known], facts, inside, beside=sum(map(len, files.values())))
    for name, content in ({"index.html": page} | files).items():
        write_bytes(out / name, content)
    size = len(page) + sum(map(len, files.values()))
    return WebExport(tuple(out / name for name in ("index.html", *files)), size, known, form.lengths, module.check)


def _count(number: int) -> str:
    """Return a number of parameters in words.

    >>> _count(1_042_000), _count(22_700_000), _count(5_300)
    ('1.0 million', '22.7 million', '5,300')
    """
    return f"{number / 1e6:.1f} million" if number >= 100_000 else f"{number:,}"
