"""A page answers as Python does: in Node for every task, and in headless Chromium from a server and from a file."""

import json
import re
from html import unescape
from pathlib import Path
from urllib.parse import quote

import jax
import numpy as np
import pytest

from funcnet import serving, text
from funcnet.export.web import to_web
from funcnet.models import bert
from tests.export.web.browser import dumped, in_page
from tests.export.web.models import LABELS, TAGS, TEXTS, saved
from tests.export.web.node import run, utf16

QUESTIONS = [
    "The cat sat on the [MASK].",
    "The [MASK] sat on [MASK] [MASK], [MASK] and the [MASK] did [MASK]!",  # more masks than one call takes
    "[MASK]",
    "A naïve café in [MASK]! 中文",
]

# Opens a page's files as its script does, and answers.
ANSWER = """
  const html = readFileSync(given.page, 'utf8');
  const inside = (id) => html.match(new RegExp(`<script type="[a-z/]+" id="${id}">(.*?)</script>`, 's'))[1];
  const facts = JSON.parse(inside('facts'));
  const code = await model.unpack(inside('data-wasm'));
  const weights = model.joinPlanes(await model.unpack(inside('data-weights')));
  const words = new tokenizer.Tokenizer(facts.tokenizer);
  const net = await model.Model.open(code, weights, { pad: words.special.pad });
  const answer = answers.answerer(facts, words, net);
  return given.items.map(([one, two]) => {
    const { logits, ...found } = answer(one, two);
    return found;
  });
"""


def answers_in_node(page: Path, items: list, folder: Path) -> list[dict]:
    pairs = [[*item] if isinstance(item, tuple) else [item, None] for item in items]
    return run(ANSWER, {"page": str(page), "items": pairs}, folder)


# ---------------------------------------------------------------------------------------------------------- without zig


def test_entities_are_those_of_python(tmp_path):
    from funcnet.heads.entities import entities

    draw = np.random.default_rng(0)
    tags = ["O", *(f"{prefix}-{kind}" for prefix in "BIES" for kind in ("PER", "LOC"))]
    rows = [[tags[at] for at in draw.integers(0, len(tags), 8)] for _ in range(500)]
    script = """
      const words = (tags) => tags.map((tag, i) => ({ tag, start: i, end: i }));
      return given.map((tags) => answers.entities(words(tags)).map((one) => [one.type, one.start, one.end]));
    """
    assert run(script, rows, tmp_path) == [[[*one] for one in entities(row)] for row in rows]


def test_simd_is_detected(tmp_path):
    assert run("return model.hasSimd()", None, tmp_path) is True
    script = """
      WebAssembly.validate = () => false; // a browser without it
      return model.Model.open(new Uint8Array(8), new Uint8Array(0), { pad: 0 }).catch((error) => error.message);
    """
    assert run(script, None, tmp_path).startswith(
        "This browser has no WebAssembly SIMD. The page needs Chrome or Edge 91"
    )


def test_wrong_arguments(tmp_path):
    with pytest.raises(ValueError, match=r"layout has an unknown value; expected one or several, got 'zip'"):
        to_web(tmp_path, tmp_path / "page", layout="zip")
    with pytest.raises(FileNotFoundError):
        to_web(tmp_path, tmp_path / "page")
    assert not (tmp_path / "page").exists()


# -------------------------------------------------------------------------------------------------------------- in Node


@pytest.mark.slow
def test_masked_words(tmp_path):
    folder = saved(tmp_path / "model", "BertForPreTraining")
    page = to_web(folder, tmp_path / "page", lengths=[8, 24])
    assert page.check.largest < 1e-5 and page.size == page.files[0].stat().st_size
    expected = serving.inference(folder, ahead=False).batch(QUESTIONS)
    for got, guesses in zip(answers_in_node(page.files[0], QUESTIONS, tmp_path), expected, strict=True):
        assert [[one["token"] for one in mask] for mask in got["masks"]] == [
            [g.token for g in some] for some in guesses
        ]
        mine, theirs = (
            [[g["probability"] for g in m] for m in got["masks"]],
            [[g.probability for g in m] for m in guesses],
        )
        np.testing.assert_allclose(mine, theirs, rtol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["classify", "pairs", "labels", "regress", "parts"])
def test_texts(kind, tmp_path):
    settings = {"seq_len": 16, "name": "classify", "long_texts": "parts" if kind == "parts" else "cut"}
    config = {
        "labels": {"labels": LABELS, "problem_type": "multi_label_classification"},
        "regress": {"labels": ["value"], "problem_type": "regression"},
    }.get(kind, {"labels": LABELS})
    if kind in ("labels", "regress", "pairs"):
        settings["name"] = kind
    if kind == "pairs":
        settings["pairs"] = True
    folder = saved(tmp_path / "model", "BertForSequenceClassification", settings=settings, **config)
    items = [*TEXTS, "", "The cat " * 40]
    items = [(a, b) for a, b in zip(items, items[::-1], strict=True)] if kind == "pairs" else items
    page = to_web(folder, tmp_path / "page")
    expected = serving.inference(folder, ahead=False).batch(items)
    found = answers_in_node(page.files[0], items, tmp_path)
    if kind == "regress":
        values = np.array([answer["value"] for answer in expected])
        assert np.abs(np.array([got["values"][0] for got in found]) - values).max() <= 1e-5 * np.abs(values).max()
        return
    for got, answer in zip(found, expected, strict=True):
        chances = {one["label"]: one["probability"] for one in got["labels"]}
        np.testing.assert_allclose([chances[name] for name in LABELS], [*answer["probabilities"].values()], rtol=1e-5)
        if "label" in answer:
            assert got["labels"][0]["label"] == answer["label"]
    assert (found[-1]["note"] is None) == (kind == "parts")


@pytest.mark.slow
def test_words(tmp_path):
    folder = saved(tmp_path / "model", "BertForTokenClassification", labels=TAGS)
    page = to_web(folder, tmp_path / "page", lengths=[32])
    items = [*TEXTS, "Zürich\tand\u00a0(中文)!", "", "the \u200b cat"]
    expected = serving.inference(folder, max_length=32, ahead=False).batch(items)
    spans = 0
    for item, got, answer in zip(items, answers_in_node(page.files[0], items, tmp_path), expected, strict=True):
        assert [(one["text"], one["tag"]) for one in got["words"]] == [
            *zip(answer["tokens"], answer["tags"], strict=True)
        ]
        words = [
            item.encode("utf-16-le")[2 * one["start"] : 2 * one["end"]].decode("utf-16-le") for one in got["words"]
        ]
        assert words == answer["tokens"]
        assert [one["type"] for one in got["spans"]] == [one["type"] for one in answer["entities"]]
        spans += len(got["spans"])
    assert spans > 3


@pytest.mark.slow
def test_similarity(tmp_path):
    from funcnet.tasks.features.extract import FeatureExtractor

    folder = saved(tmp_path / "model", "BertModel")
    page = to_web(folder, tmp_path / "page", lengths=[32])
    vectors = FeatureExtractor(folder).array(TEXTS).astype(np.float64)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    items = [(TEXTS[a], TEXTS[b]) for a in range(3) for b in range(3)]
    got = [one["similarity"] for one in answers_in_node(page.files[0], items, tmp_path)]
    np.testing.assert_allclose(got, (vectors @ vectors.T).ravel(), rtol=0, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("no_answers", [False, True])
def test_answers_to_questions(no_answers, tmp_path):
    settings = {"name": "answer", "seq_len": 32, "doc_stride": 9, "max_answer": 6, "null_threshold": -0.1}
    settings["no_answers"] = no_answers
    folder = saved(tmp_path / "model", "BertForQuestionAnswering", settings=settings)
    page = to_web(folder, tmp_path / "page")
    assert page.task == "answer" and page.lengths == (16, 32) and page.check.largest < 1e-5
    strange = "e\u0301 \U0001f600 and\ta\u00a0cat (中文)!\n\n Zu\u0308rich"
    contexts = [*TEXTS, " ".join(TEXTS * 3), strange, "", "\u200b"]
    items = [(context, question) for context in contexts for question in ("Who sat?", "", "the cat " * 20)]
    expected = serving.inference(folder, ahead=False).batch([(question, context) for context, question in items])
    found = answers_in_node(page.files[0], items, tmp_path)
    for (context, question), got, answer in zip(items, found, expected, strict=True):
        best = answer["n_best"][:5]
        assert (got["answer"], got["start"]) == (answer["answer"], utf16(context, answer["start"]))
        assert [one["text"] for one in got["best"]] == [one["text"] for one in best]
        assert [one["start"] for one in got["best"]] == [utf16(context, one["start"]) for one in best]
        chances = [[one["probability"] for one in some] for some in (got["best"], best)]
        np.testing.assert_allclose(*chances, rtol=0, atol=1e-5)
        assert abs(got["noAnswer"] - answer.get("no_answer", got["noAnswer"])) < 1e-5
        assert (got["note"] is None) == (len(question) < 100)
    assert sum(got["start"] >= 0 for got in found) == (4 if no_answers else 15)  # six texts are empty
    assert max(got["parts"] for got in found) > 4


@pytest.mark.slow
def test_choices(tmp_path):
    folder = saved(tmp_path / "model", "BertForMultipleChoice", settings={"name": "choice", "seq_len": 24})
    page = to_web(folder, tmp_path / "page")
    assert page.task == "choice" and page.check.largest < 1e-5
    items = [
        (TEXTS[0], ["the dog sat", "the cat did not", "Zürich!"]),
        ("", ["one choice 中文"]),
        (TEXTS[2], ["cat " * 30, "the", "the", "  the mat\t"]),
    ]
    expected = serving.inference(folder, ahead=False).batch(items)
    lines = [(one, "\n \n".join(choices) + "\n") for one, choices in items]
    found = answers_in_node(page.files[0], lines, tmp_path)
    for (_, choices), got, answer in zip(items, found, expected, strict=True):
        assert [one["text"] for one in got["choices"]] == choices and got["choice"] == answer["choice"]
        chances = [one["probability"] for one in got["choices"]]
        np.testing.assert_allclose(chances, answer["probabilities"], rtol=0, atol=1e-5)
    assert [got["note"] for got in found] == [
        None,
        None,
        f"The text and the longest choice have {_tokens(folder, TEXTS[2], 'cat ' * 30)} tokens; only 24 were read.",
    ]


def _tokens(folder: Path, *texts: str) -> int:
    return len(text.load_tokenizer(folder).encode(*texts).ids)


@pytest.mark.slow
def test_what_is_wrong_is_said_in_words(tmp_path):
    page = to_web(saved(tmp_path / "model", "BertForMaskedLM"), tmp_path / "page", lengths=[8], layout="several")
    assert [file.name for file in page.files] == ["index.html", "model.wasm", "model.weights"]
    assert page.size == sum(file.stat().st_size for file in page.files)
    script = """
      const html = readFileSync(given + '/index.html', 'utf8');
      const facts = JSON.parse(html.match(/id="facts">(.*?)<\\/script>/s)[1]);
      const [code, weights] = ['wasm', 'weights'].map((name) => new Uint8Array(readFileSync(`${given}/model.${name}`)));
      const words = new tokenizer.Tokenizer(facts.tokenizer);
      const open = (...some) => model.Model.open(...some, { pad: words.special.pad });
      const answer = answers.answerer(facts, words, await open(code, weights));
      const other = Uint8Array.from(weights, (byte, i) => (i === 1000 ? byte ^ 1 : byte));
      const plain = Uint8Array.from([0, 97, 115, 109, 1, 0, 0, 0]);
      const failing = async (work) => { try { await work(); return 'nothing' } catch (error) { return error.message } };
      return Promise.all([
        () => answer('no mask'), () => answer('[MASK] ' + 'the '.repeat(6)), () => open(code, weights.slice(4)),
        () => open(code, other), () => open(code.slice(0, -100), weights), () => open(plain, weights),
      ].map(failing));
    """
    said = run(script, str(tmp_path / "page"), tmp_path)
    size = (tmp_path / "page" / "model.weights").stat().st_size
    assert said[:4] == [
        "Replace a word with [MASK], and the model will guess it.",
        "The text has 9 tokens, but this page reads at most 8. Shorten the text.",
        f"The model's weights are incomplete: {size - 4} bytes of {size}.",
        "The model's weights are another model's, or were changed.",
    ]
    assert said[4].startswith("The model's code is incomplete or was changed: ")
    assert said[5] == "The model's code was not written by funcnet."


# ---------------------------------------------------------------------------------------------------------- in Chromium


@pytest.mark.slow
@pytest.mark.parametrize("layout", ["one", "several"])
def test_chromium_gives_python_s_tokens_and_logits(layout, tmp_path):
    folder = saved(tmp_path / "model", "BertForPreTraining")
    page = to_web(folder, tmp_path / "page", lengths=[8, 24], layout=layout)
    net, params, state = bert.from_pretrained(folder, bert.BertForPreTraining)
    forward = jax.jit(lambda ids: net.apply(params, state, ids)[0][0])
    tokenizer = text.load_tokenizer(folder)
    body = f"""
      const {{ answer, run, tokenizer }} = page.funcnet;
      return {json.dumps(QUESTIONS)}.map((text) => {{
        const {{ ids }} = tokenizer.encode(text);
        const places = [0, ids.length - 1];
        const words = answer(text).masks.map((mask) => mask.map((one) => one.token));
        return {{ ids, words, logits: [...run(ids, null, places).values], several: answer(text).logits.length }};
      }});
    """
    results, asked = in_page(tmp_path, body, tmp_path / "profile")
    assert "error" not in results, results
    guesses = serving.inference(folder, ahead=False).batch(QUESTIONS)
    for question, found, some in zip(QUESTIONS, results, guesses, strict=True):
        assert found["ids"] == tokenizer.encode(question).ids
        assert found["words"] == [[guess.token for guess in mask] for mask in some]
        expected = np.asarray(forward(np.array([found["ids"]], np.int32)))[0][[0, -1]]
        got = np.array(found["logits"], np.float32).reshape(4, -1)[:2]
        assert np.abs(got - expected).max() <= 1e-5 * np.abs(expected).max()
    files = {file.name for file in page.files}
    assert {path.rpartition("/")[2] for path in asked} == {"harness.html", *files}  # and nothing from elsewhere


@pytest.mark.slow
def test_chromium_opens_the_page_from_a_file(tmp_path):
    """The address carries the text; the answer is in the page's elements."""
    folder = saved(tmp_path / "model", "BertForPreTraining")
    page = to_web(folder, tmp_path / "page", lengths=[8, 24], title="A <small> model")
    html = dumped(f"{page.files[0].as_uri()}#text={quote(QUESTIONS[0])}", tmp_path / "profile")
    assert 'data-state="ready"' in html and "<h1>A &lt;small&gt; model</h1>" in html
    (guesses,) = serving.inference(folder, ahead=False)(QUESTIONS[0])
    shown = re.findall(r'<li data-name="(.*?)" data-probability="(.*?)">', html)
    assert [unescape(name) for name, _ in shown] == [guess.token for guess in guesses]
    np.testing.assert_allclose([float(p) for _, p in shown], [guess.probability for guess in guesses], rtol=1e-5)
    tokens = [unescape(token) for token in re.findall(r"<code>(.*?)</code>", html)]
    assert tokens == text.load_tokenizer(folder).encode(QUESTIONS[0]).tokens
    assert re.search(r"Answered in <b>.* ms</b> · 9 tokens, padded to 24", html)
    wrong = dumped(f"{page.files[0].as_uri()}#text=no%20mask", tmp_path / "profile")
    said = re.search(r'<p id="problem"[^>]*>(.*?)</p>', wrong)
    assert said[1] == "Replace a word with [MASK], and the model will guess it." and "hidden" not in said[0]


@pytest.mark.slow
def test_several_files_need_a_server(tmp_path):
    page = to_web(saved(tmp_path / "model", "BertForMaskedLM"), tmp_path / "page", lengths=[8], layout="several")
    html = dumped(page.files[0].as_uri(), tmp_path / "profile")
    assert 'data-state="failed"' in html and "start “python -m http.server”" in html


@pytest.mark.slow
def test_labels_and_words_are_shown(tmp_path):
    folder = saved(tmp_path / "a", "BertForSequenceClassification", labels=LABELS)
    page = to_web(folder, tmp_path / "page_a", lengths=[32])
    html = dumped(f"{page.files[0].as_uri()}#text={quote(TEXTS[0])}", tmp_path / "profile")
    answer = serving.inference(folder, ahead=False)(TEXTS[0])
    shown = [unescape(name) for name in re.findall(r'<li data-name="(.*?)"', html)]
    assert shown == sorted(LABELS, key=lambda name: -answer["probabilities"][name])
    folder = saved(tmp_path / "b", "BertForTokenClassification", labels=TAGS)
    page = to_web(folder, tmp_path / "page_b", lengths=[32])
    html = dumped(f"{page.files[0].as_uri()}#text={quote(TEXTS[1])}", tmp_path / "profile")
    answer = serving.inference(folder, ahead=False)(TEXTS[1])
    assert re.findall(r'<mark [^>]*data-type="(.*?)"', html) == [one["type"] for one in answer["entities"]]


@pytest.mark.slow
def test_answers_and_choices_are_shown(tmp_path):
    """Both fields come from the address. The best answer is marked, and the bars have Python's probabilities."""

    def shown(page: Path, first: str, second: str) -> tuple[str, list[str], list[float]]:
        html = dumped(f"{page.as_uri()}#text={quote(first)}&text_b={quote(second)}", tmp_path / "profile")
        bars = re.findall(r'<li data-name="(.*?)" data-probability="(.*?)">', html)
        return html, [unescape(name) for name, _ in bars], [float(chance) for _, chance in bars]

    settings = {"name": "answer", "seq_len": 24, "no_answers": True, "null_threshold": 9.0}
    folder = saved(tmp_path / "a", "BertForQuestionAnswering", settings=settings)
    page = to_web(folder, tmp_path / "page_a").files[0]
    answer = serving.inference(folder, ahead=False)(("Who met & where?", TEXTS[2]))
    html, names, chances = shown(page, TEXTS[2], "Who met & where?")
    assert names == [one["text"] or "No answer" for one in answer["n_best"][:5]]
    np.testing.assert_allclose(chances, [one["probability"] for one in answer["n_best"][:5]], rtol=0, atol=1e-5)
    assert [unescape(one) for one in re.findall(r"<mark>(.*?)</mark>", html)] == [answer["answer"]] != [""]
    assert re.search(r"padded to 24, the first of \d parts", html)
    assert (
        re.search(r'<label for="text" id="label">Text</label>', html) and '<label for="text_b">Question</label>' in html
    )
    settings["null_threshold"] = -9.0
    silent = to_web(saved(tmp_path / "c", "BertForQuestionAnswering", settings=settings), tmp_path / "page_c").files[0]
    html, silent_names, _ = shown(silent, TEXTS[2], "Who met & where?")
    assert silent_names == names and "The text does not answer the question." in html and "<mark>" not in html
    html, names, _ = shown(page, TEXTS[2], " ")
    assert names == [] and "Ready. Write a text and a question." in html

    folder = saved(tmp_path / "b", "BertForMultipleChoice", settings={"name": "choice", "seq_len": 24})
    page = to_web(folder, tmp_path / "page_b").files[0]
    choices = ["the cat sat", "a <b> café", "peace"]
    answer = serving.inference(folder, ahead=False)((TEXTS[0], choices))
    html, names, chances = shown(page, TEXTS[0], "\n".join(choices))
    order = np.argsort(-np.array(answer["probabilities"]))
    assert names == [choices[at] for at in order] and names[0] == answer["text"]
    np.testing.assert_allclose(chances, np.array(answer["probabilities"])[order], rtol=0, atol=1e-5)
    assert '<label for="text_b">Choices, one per line</label>' in html
