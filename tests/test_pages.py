"""What README.md and the pages of docs/ show runs, as printed, and what they name is there."""

import re
import shlex
import subprocess
import sys

import jax
import pytest

from funcnet.cli.commands import parse
from funcnet.models import bert
from funcnet.parallel import parse_rules
from funcnet.text import save_tokenizer, train_wordpiece
from tests.processes import AS_A_USER, ROOT, environment

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCKS = {page.name: re.findall(r"^```([^\n]*)\n(.*?)^```$", page.read_text("utf-8"), re.M | re.S) for page in PAGES}
PYTHON = {page: [code for language, code in blocks if language == "python"] for page, blocks in BLOCKS.items()}
LEFT_OUT = {"pretrain": "--out DIR", "finetune": "--model DIR --train FILE --out DIR"}


def a_run(folder):
    """A pretrained BERT of random weights."""
    tokenizer = train_wordpiece(["the union of the united states"] * 3, vocab_size=60)
    sizes = {"vocab_size": tokenizer.get_vocab_size(), "max_position_embeddings": 24}
    model = bert.BertForPreTraining(bert.BertConfig.preset("tiny", **sizes))
    bert.save_pretrained(folder, model, *model.init(jax.random.key(0)))
    save_tokenizer(tokenizer, folder)


@pytest.mark.slow
@pytest.mark.parametrize(
    "page", [pytest.param(name, marks=[pytest.mark.slow] * (name != "README.md")) for name in PYTHON if PYTHON[name]]
)
def test_its_python_runs(page, tmp_path):
    """In a new process, with the settings of a user: one CPU device, the standard promotion."""
    a_run(tmp_path / "runs" / "mine")
    (tmp_path / "page.py").write_text("\n".join(PYTHON[page]))
    own = environment(tmp_path / "cache") | AS_A_USER | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "page.py"], cwd=tmp_path, env=own, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def commands(page):
    """The `funcnet` commands of a page's shell blocks, as words."""
    for block in (code for language, code in BLOCKS[page] if language in ("", "sh")):
        for line in block.replace("\\\n", " ").splitlines():
            if found := re.match(r"(?:scripts/launch/\S+ \d+ )?funcnet (.*)", line):
                yield shlex.split(found[1], comments=True)


@pytest.mark.parametrize("page", [name for name in BLOCKS if any(commands(name))])
def test_its_commands_are_commands(page, tmp_path, monkeypatch):
    """Each has arguments that the command knows; `…` stands for those that it needs."""
    a_run(tmp_path / "runs" / "mine")
    monkeypatch.chdir(tmp_path)
    for words in commands(page):
        words = [new for word in words for new in (LEFT_OUT[words[0]].split() if word == "…" else [word])]
        if not {"--resume", "--help"} & {*words}:  # these read the record of the run, and end the process
            assert parse(words).settings
        parse_rules([words[i + 1] for i, word in enumerate(words) if word == "--shard"])


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_its_files_are_there(page):
    text = page.read_text("utf-8")
    files = r"(?<![\w/.])((?:scripts|docs|tests|funcnet|notebooks)/[\w/-]+(?:\.(?:sh|py|md|png|ipynb|js|yaml))?)"
    links = re.findall(r"\[[^]]*\]\(([\w/]+\.\w+)\)", text)
    missing = [name for name in re.findall(files, text) if not (ROOT / name).exists()]
    assert not missing + [link for link in links if not (page.parent / link).exists()]
