"""Long texts and answers to questions in windows.js: rows, and the search in their logits, are those of Python."""

import dataclasses
import random
from pathlib import Path

import numpy as np
import pytest

from funcnet import text
from funcnet.export.web.tokenizer import tokenizer_data
from funcnet.heads.windows import Spans, find_answer, longest_question, read_windows
from tests.export.web.models import TEXTS
from tests.export.web.node import run, utf16

SCRIPT = """
  const words = new tokenizer.Tokenizer(given.data);
  return given.cases.map(({ question, context, longest, logits, settings }) => {
    const asked = words.pieces(question).slice(0, windows.longestQuestion(longest));
    const rows = windows.readWindows(asked, words.located(context), words.special, longest, settings.doc_stride);
    return { rows, ...windows.findAnswer(context, rows, logits.map((row) => row.flat()), settings) };
  });
"""
STRANGE = (
    "The caf\u00e9 \U0001f600, Z\u00fcrich\tand e\u0301t\u00e9\u2028\U0002f800中文 \u200b "
    "[MASK]the\u00a0 ﬁsh, \u200bcat\u0308\u00ad-\x1cdog\U000e0001. "
)


def cases(tokenizer) -> list[tuple[dict, list, Spans]]:
    """Return questions about texts of one row or many, with random settings and logits; some logits are all equal."""
    draw, numbers = random.Random(0), np.random.default_rng(0)
    found = []
    for number in range(400):
        context = "".join(
            draw.choice([*TEXTS, STRANGE, "cat ", "the dog sat (in peace) "]) for _ in range(draw.randrange(5))
        )
        question = "cat " * draw.choice([0, 0, 1, 5, 29])
        settings = Spans(
            doc_stride=draw.choice([1, 7, 20, 128]),
            n_best=draw.choice([1, 3, 20, 200]),
            max_answer=draw.choice([1, 4, 30]),
            null_threshold=draw.choice([-3.0, 0.0, 4.0]),
            no_answers=draw.random() < 0.5,
        )
        longest = draw.choice([8, 21, 40, 200])
        asked, read = (tokenizer.encode(one, add_special_tokens=False) for one in (question, context))
        windows = read_windows(asked, read, text.special_ids(tokenizer), longest, settings.doc_stride)
        logits = [numbers.normal(0, 3, (len(one.ids), 2)).astype(np.float32) * (number % 5 > 0) for one in windows]
        given = {"question": question, "context": context, "longest": longest, "settings": dataclasses.asdict(settings)}
        found.append(({**given, "logits": [one.tolist() for one in logits]}, windows, logits))
    return found


def test_rows_and_answers_are_those_of_python(tmp_path: Path):
    tokenizer = text.train_wordpiece([*TEXTS, STRANGE] * 3, vocab_size=200)
    every = cases(tokenizer)
    data = tokenizer_data(tokenizer)
    results = run(SCRIPT, {"data": data, "cases": [given for given, *_ in every]}, tmp_path)
    rows, silent = 0, 0
    for (given, windows, logits), got in zip(every, results, strict=True):
        context, settings = given["context"], Spans(**given["settings"])
        assert [one["ids"] for one in got["rows"]] == [one.ids for one in windows]
        assert [one["types"] for one in got["rows"]] == [one.type_ids for one in windows]
        assert [one["leads"] for one in got["rows"]] == [one.leads.tolist() for one in windows]
        expected = find_answer(context, windows, logits, settings)
        assert (got["answer"], got["start"]) == (expected["answer"], utf16(context, expected["start"]))
        theirs = [(one["text"], utf16(context, one["start"])) for one in expected["n_best"]]
        assert [(one["text"], one["start"]) for one in got["best"]] == theirs
        for name in ("score", "probability"):
            values = [[one[name] for one in best] for best in (got["best"], expected["n_best"])]
            np.testing.assert_allclose(*values, rtol=0, atol=1e-12)
        if settings.no_answers:
            assert got["noAnswer"] == pytest.approx(expected["no_answer"], abs=1e-12)
        rows, silent = max(rows, len(windows)), silent + (not expected["answer"])
    assert rows > 50 and 40 < silent < 300


def test_longest_question(tmp_path: Path):
    lengths = [*range(8, 140), 384, 512]
    got = run("return given.map((longest) => windows.longestQuestion(longest))", lengths, tmp_path)
    assert got == [longest_question(length) for length in lengths]
