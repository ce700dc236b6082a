"""A small BERT with its vocabulary, and files of every task, for the tests of fine-tuning."""

import json
from pathlib import Path

import jax
import pytest
from tokenizers import Tokenizer

from funcnet import text
from funcnet.models import bert

WORDS = {"good": ["fine", "great", "lovely", "warm"], "bad": ["poor", "awful", "sour", "cold"]}


def write_model(folder: Path, tokenizer: Tokenizer | list[str], **sizes) -> Path:
    """A pretraining directory of two narrow layers, newly started; with a vocabulary of texts where they are given."""
    if isinstance(tokenizer, list):
        tokenizer = text.train_wordpiece(tokenizer, 400, min_frequency=1)
    sizes = {
        "vocab_size": tokenizer.get_vocab_size(),
        "hidden_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "intermediate_size": 64,
    } | sizes
    still = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    start = {"initializer_range": sizes["hidden_size"] ** -0.5}  # 0.02 is right for a width of 2,500
    config = bert.BertConfig(**still, **start, **sizes)
    model = bert.BertForPreTraining(config)
    bert.save_pretrained(folder, model, *jax.jit(model.init)(jax.random.key(0)))
    text.save_tokenizer(tokenizer, folder, max_length=config.max_position_embeddings)
    return folder


def sentence(number: int, label: str) -> str:
    """Texts that one word gives away."""
    return f"the soup number {number % 7} was " + "really " * (number % 3) + WORDS[label][number % 4]


def labels(count: int) -> list[str]:
    """good and bad in turn, by threes."""
    return [("good", "bad")[number // 3 % 2] for number in range(count)]


def write_task(folder: Path, task: str, count: int = 48) -> Path:
    """A training file of the task."""
    folder.mkdir(exist_ok=True)
    which = labels(count)
    texts = [sentence(number, label) for number, label in enumerate(which)]
    rows = list(zip(texts, which, strict=True))
    if task == "classify":
        return _write(folder / "train.csv", "text,label\n" + "".join(f"{t},{label}\n" for t, label in rows))
    if task == "regress":
        return _write(folder / "train.tsv", "text\tlabel\n" + "".join(f"{t}\t{len(w) - 3.5}\n" for t, w in rows))
    if task == "pairs":
        objects = [{"text": t, "text_b": f"it was {w}", "label": w == "good"} for t, w in rows]
    elif task == "labels":
        objects = [{"text": t, "label": [w, "soup"] if n % 2 else [w]} for n, (t, w) in enumerate(rows)]
    elif task == "choice":
        # the good soup is the right one
        two = [(sentence(n, "good"), sentence(n + 1, "bad")) for n in range(count)]
        objects = [
            {"text": "which?", "choices": list(pair if w == "good" else pair[::-1]), "label": int(w == "bad")}
            for pair, w in zip(two, which, strict=True)
        ]
    elif task == "tokens":
        tag = lambda word: next((f"B-{label.upper()}" for label, words in WORDS.items() if word in words), "O")
        lines = ["\n".join(f"{word}\t{tag(word)}" for word in t.split()) for t in texts]
        return _write(folder / "train.conll", "\n\n".join(lines) + "\n")
    else:
        return _write(folder / "train.json", json.dumps({"data": [_article(texts)]}))
    return _write(folder / "train.jsonl", "".join(json.dumps(one) + "\n" for one in objects))


def _article(texts: list[str]) -> dict:
    """The question is always the same; the answer is a text's last word."""
    paragraphs = []
    for number, context in enumerate(texts):
        answer = {"text": context.split()[-1], "answer_start": context.rindex(" ") + 1}
        qa = {"id": str(number), "question": "how was the soup?", "answers": [answer]}
        paragraphs.append({"context": context, "qas": [qa]})
    return {"title": "soup", "paragraphs": paragraphs}


def _write(file: Path, content: str) -> Path:
    file.write_text(content, "utf-8")
    return file


def near(a, b):
    """The same JSON, numbers but for rounding."""
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(near(a[key], b[key]) for key in a)
    if isinstance(a, list):
        return len(a) == len(b) and all(map(near, a, b))
    return a == pytest.approx(b, abs=1e-5) if isinstance(a, float) else a == b


def all_texts() -> list[str]:
    """What a vocabulary is made of."""
    return [sentence(number, label) for number in range(40) for label in WORDS] + ["how was the soup? it was good bad"]
