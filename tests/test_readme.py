"""What the README shows runs, and what it names is there."""

import re
from pathlib import Path

import jax

from funcnet.models import bert
from funcnet.text import save_tokenizer, train_wordpiece

README = (Path(__file__).parent.parent / "README.md").read_text("utf-8")


def test_its_python_runs(capsys, tmp_path, monkeypatch):
    tokenizer = train_wordpiece(["the union of the united states"] * 3, vocab_size=60)
    sizes = {"vocab_size": tokenizer.get_vocab_size(), "max_position_embeddings": 24}
    model = bert.BertForPreTraining(bert.BertConfig.preset("tiny", **sizes))
    bert.save_pretrained(tmp_path / "runs" / "mine", model, *model.init(jax.random.key(0)))
    save_tokenizer(tokenizer, tmp_path / "runs" / "mine")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", str(tmp_path / "cache"))  # not the user's
    blocks = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    assert blocks
    for block in blocks:
        exec(compile(block, "README.md", "exec"), {})
    assert "(64,)" in capsys.readouterr().out
    assert (tmp_path / "runs" / "circle" / "eval.json").exists()


def test_its_files_are_there():
    root = Path(__file__).parent.parent
    named = set(re.findall(r"(?:scripts|docs|tests|funcnet)/[\w/]+(?:\.(?:sh|py|md|png))?|[A-Z]+\.md", README))
    assert named and all((root / name).exists() for name in named), named
