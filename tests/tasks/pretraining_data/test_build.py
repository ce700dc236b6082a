"""The data builder: the same bytes by any number of processes and after any end, and what it refuses."""

import bz2
import dataclasses
import gzip
import hashlib
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
from xml.sax.saxutils import escape

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest

from funcnet.data import Joined, read_examples
from funcnet.settings import compose
from funcnet.tasks.pretraining_data import DataSettings, build, open_data, text_shards
from funcnet.tasks.pretraining_data.google_examples import export_examples
from funcnet.tasks.pretraining_data.token_shards import read_token_shard
from funcnet.text import SPECIAL_TOKENS
from tests.tasks.command import run_here, start, write_corpus


def bytes_of(folder):
    """A digest of every file."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    return write_corpus(tmp_path_factory.mktemp("text") / "corpus")


@pytest.fixture(scope="module", autouse=True)
def small_shards():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text_shards, "SHARD", 20_000)
        yield


def settings_of(corpus, **changes):
    return compose(DataSettings, corpus=(corpus,), **{"seq_len": (32, 64), "passes": 2, "vocab_size": 300, **changes})


@pytest.fixture(scope="module")
def built(corpus, tmp_path_factory):
    folder = tmp_path_factory.mktemp("data") / "built"
    assert build(folder, settings_of(corpus)) == []
    return folder


# ------------------------------------------------------------------------------------------------------- the bytes


@pytest.mark.slow
@pytest.mark.parametrize("processes", [2, pytest.param(4, marks=pytest.mark.slow)])
def test_several_processes_write_the_bytes_of_one(built, corpus, tmp_path, processes):
    build(tmp_path / "data", settings_of(corpus), processes=processes)
    assert json.loads((built / "manifest.json").read_text())["shards"] == 5
    assert bytes_of(tmp_path / "data") == bytes_of(built)


@pytest.mark.parametrize(
    "step",
    [
        "tokens",
        "pairs",
        *(pytest.param(step, marks=pytest.mark.slow) for step in ("sentences", "vocabulary", "report")),
    ],
)
def test_interrupted_in_any_step_and_gone_on_with(step, built, corpus, tmp_path):
    def interrupt(name, done, total):
        if name == step and (done > 0 or total == 1):
            raise KeyboardInterrupt

    folder = tmp_path / "data"
    with pytest.raises(KeyboardInterrupt):
        build(folder, settings_of(corpus), progress=interrupt)
    with pytest.raises(ValueError, match=r"data is not complete; .* Run the same `funcnet data build` again"):
        open_data(folder, seq_len=32)
    assert build(folder, settings_of(corpus)) == []
    assert bytes_of(folder) == bytes_of(built)


@pytest.mark.slow
def test_ten_kills(corpus, built, tmp_path):
    """SIGKILL when progress is reported, the workers left to themselves: the same bytes as in one piece."""
    out, draw, kills = tmp_path / "killed", random.Random(5), 0
    script = f"""
import os, pathlib, signal
from funcnet.settings import compose
from funcnet.tasks.pretraining_data import DataSettings, build, text_shards
def progress(step, done, total):
    global left
    left -= 1
    if left == 0:
        os.kill(os.getpid(), signal.SIGKILL)
text_shards.SHARD = 20_000
settings = compose(DataSettings, corpus=(pathlib.Path({str(corpus)!r}),), seq_len=(32, 64), passes=2, vocab_size=300)
build({str(out)!r}, settings, processes=2, progress=progress)
"""
    run = lambda reports: subprocess.run([sys.executable, "-c", f"left = {reports}\n{script}"]).returncode
    for _ in range(10):
        code = run(draw.randint(1, 30))
        assert code in (0, -signal.SIGKILL)
        kills += code != 0
        if code == 0:  # it was done first: from the beginning again
            assert bytes_of(out) == bytes_of(built)
            shutil.rmtree(out)
    assert kills >= 5
    assert run(0) == 0 and bytes_of(out) == bytes_of(built)


def test_what_is_damaged_is_made_again_and_nothing_else(built, corpus, tmp_path):
    folder = tmp_path / "data"
    shutil.copytree(built, folder)
    before = {path.name: path.stat().st_mtime_ns for path in folder.iterdir()}
    assert build(folder, settings_of(corpus)) == []
    (folder / "pairs-32-01-00002.arrow").unlink()
    for name in ("tokens-00001.arrow", "held-out-pairs-64.arrow", "vocab.txt", "documents-00003.arrow"):
        content = bytearray((folder / name).read_bytes())
        content[len(content) // 2] ^= 1
        (folder / name).write_bytes(content)
    (folder / "report.json").write_text("{}")
    damaged = ["documents-00003.arrow", "held-out-pairs-64.arrow", "pairs-32-01-00002.arrow", "report.json"]
    assert build(folder, settings_of(corpus)) == [*damaged, "tokens-00001.arrow", "vocab.txt"]
    assert bytes_of(folder) == bytes_of(built)
    kept = {name for name, at in before.items() if (folder / name).stat().st_mtime_ns == at}
    assert {"tokens-00000.arrow", "pairs-64-00-00000.arrow", "sentences-00004.arrow"} <= kept


def test_the_same_text_elsewhere_is_the_same_corpus(built, corpus, tmp_path):
    shutil.copytree(built, tmp_path / "data")
    shutil.copytree(corpus, tmp_path / "corpus")
    assert build(tmp_path / "data", settings_of(tmp_path / "corpus")) == []


# ------------------------------------------------------------------------------------------------- what is in them


def test_shards_hold_every_training_document_once(built, corpus):
    data, manifest = open_data(built, seq_len=64), json.loads((built / "manifest.json").read_text())
    shards = [read_token_shard(built, shard) for shard in range(manifest["shards"])]
    assert sum(len(shard.documents) - 1 for shard in shards) == data.statistics["train"]["documents"]
    np.testing.assert_array_equal(np.asarray(data.train.tokens), np.concatenate([shard.tokens for shard in shards]))
    report = json.loads((built / "report.json").read_text())
    assert report["corpus"]["documents"] == 30 and report["corpus"]["files"] == 30
    text, size = (built / "report.txt").read_text(), sum(file.stat().st_size for file in corpus.iterdir())
    assert text.startswith(f"30 files, {size / 1e6:.1f} MB, 30 documents") and "random next" in text
    assert set(report["pairs"]) == {"32", "64"}
    random_share = report["pairs"]["64"]["train"]["random_next_share"]
    assert abs(random_share - 0.5) < 4 * 0.5 / (2 * len(data.train)) ** 0.5
    labels = data.train[np.arange(len(data.train))]["next_sentence_label"]
    assert 0 < labels.mean() < 1


SOURCES = ["text.txt", "text.txt.gz", "rows.jsonl", "rows.parquet", "saved", "dump.xml.bz2"]


def write_source(path, documents):
    """The documents in the form that the name says; markup and escapes where it has them."""
    table = pyarrow.table({"text": documents})
    if path.name == "saved":  # as `save_to_disk` of Hugging Face's `datasets` leaves it
        path.mkdir()
        (path / "state.json").write_text(json.dumps({"_data_files": [{"filename": "data-00000-of-00001.arrow"}]}))
        with pyarrow.ipc.new_stream(str(path / "data-00000-of-00001.arrow"), table.schema) as writer:
            writer.write_table(table)
    elif path.suffix == ".parquet":
        pyarrow.parquet.write_table(table, path)
    elif path.suffix == ".jsonl":
        path.write_text("".join(json.dumps({"text": document}) + "\n" for document in documents))
    elif path.name.startswith("dump"):
        page = "<page><title>{0}</title><ns>0</ns><revision><text>{1}</text></revision></page>"
        pages = [page.format(number, escape(document)) for number, document in enumerate(documents)]
        path.write_bytes(bz2.compress(f"<mediawiki>{''.join(pages)}</mediawiki>".encode()))
    else:
        text = "\n\n".join(documents).encode()
        path.write_bytes(gzip.compress(text) if path.suffix == ".gz" else text)


def test_every_kind_of_source_gives_the_same_data(corpus, tmp_path):
    documents = [" ".join(file.read_text().split())[:600] for file in sorted(corpus.iterdir())[:12]]
    found = {}
    for name in SOURCES:
        write_source(tmp_path / name, documents)
        out = tmp_path / f"data-{name}"
        build(out, settings_of(tmp_path / name, seq_len=(32,), passes=1, documents="blank-line"))
        tokens, pairs = np.asarray((data := open_data(out)).train.tokens), data.train.pairs[0]
        found[name] = [tokens, *(np.asarray(pairs[column]) for column in sorted(pairs))]
        assert data.statistics["corpus"]["documents"] == 12
    for name in SOURCES[1:]:
        for ours, first in zip(found[name], found[SOURCES[0]], strict=True):
            np.testing.assert_array_equal(ours, first, name)


def test_lengths_are_opened_by_name(built):
    assert open_data(built, seq_len=32).train[np.arange(3)]["input_ids"].shape == (3, 32)
    with pytest.raises(ValueError, match=r"has no rows of 128 tokens; expected one of \[32, 64\], got 128"):
        open_data(built, seq_len=128)
    with pytest.raises(ValueError, match=r"has no rows of None tokens; expected one of \[32, 64\]"):
        open_data(built)


def test_masks_of_the_pass_and_whole_words(corpus, tmp_path):
    settings = settings_of(corpus, seq_len=(32,), static_masks=True, whole_words=True, max_predictions=4, held_out=0.0)
    build(tmp_path / "data", settings)
    data = open_data(tmp_path / "data")
    assert data.evaluation is None and data.train.masking.pieces is not None
    with pytest.raises(
        ValueError, match=r"has no held-out examples; expected some, got a folder built with --held-out 0"
    ):
        export_examples(tmp_path / "data", tmp_path / "x", held_out=True)
    first, again, other = (data.train.at_epoch(epoch)[np.arange(20)] for epoch in (1, 3, 0))
    assert first["masked_positions"].shape == (20, 4)
    np.testing.assert_array_equal(first["input_ids"], again["input_ids"])
    assert not np.array_equal(first["input_ids"], other["input_ids"])


# --------------------------------------------------------------------------------------------------- what it refuses


def refused(folder, settings, error=ValueError, **more):
    with pytest.raises(error) as caught:
        build(folder, settings, **more)
    return str(caught.value)


def test_a_file_is_no_folder(corpus, tmp_path):
    (tmp_path / "file").touch()
    said = refused(tmp_path / "file", settings_of(corpus), NotADirectoryError)
    assert said == f"data build: --out {tmp_path / 'file'} is a file; expected a folder."


def test_another_corpus_or_other_settings(built, corpus, tmp_path):
    folder = tmp_path / "data"
    shutil.copytree(built, folder)
    said = refused(folder, settings_of(corpus, seed=3, passes=4))
    assert (
        "was built with other settings; expected the same settings, got: passes was 2, now 4; seed was 0, now 3" in said
    )
    assert "Use the original settings, or another --out" in said
    changed = tmp_path / "corpus"
    shutil.copytree(corpus, changed)
    names = sorted(path.name for path in changed.iterdir())
    (changed / names[0]).write_text("Other text. It is short.")
    (changed / names[1]).unlink()
    (changed / "new.txt").write_text("New text. It is short.")
    build(tmp_path / "second", settings_of(changed))
    (changed / names[3]).write_text("Other text, too. It is short.")
    (changed / names[2]).unlink()
    (changed / "newer.txt").write_text("Newer text. It is short.")
    said = refused(tmp_path / "second", settings_of(changed))
    assert "the corpus has changed since" in said and "Restore the files, or use another --out" in said
    assert f"{names[2]} is missing" in said and "newer.txt is new" in said
    assert f"{names[3]} has other text (3,0" in said and " bytes, now 29)" in said
    assert bytes_of(folder) == bytes_of(built)


def test_a_bad_shard_is_named_by_who_reads_it(built, corpus, tmp_path):
    folder = tmp_path / "data"
    shutil.copytree(built, folder)
    shard = folder / "tokens-00002.arrow"
    whole = shard.read_bytes()
    shard.write_bytes(whole[:-100])
    with pytest.raises(ValueError, match=r"tokens-00002\.arrow is truncated or changed; expected [\d,]+ bytes, got"):
        open_data(folder, seq_len=32)
    shard.write_bytes(bytes(len(whole)))
    with pytest.raises(ValueError, match=r"tokens-00002\.arrow is damaged or changed; expected the original bytes"):
        open_data(folder, seq_len=32)
    shard.unlink()
    with pytest.raises(ValueError, match=r"tokens-00002\.arrow is missing; expected .* bytes, got no file\. Run"):
        open_data(folder, seq_len=32)
    other = tmp_path / "other"
    build(other, settings_of(corpus, vocab_size=290))
    shutil.copy(other / "pairs-32-00-00000.arrow", folder)
    shard.write_bytes(whole)
    with pytest.raises(ValueError, match=r"pairs-32-00-00000\.arrow (was made with another corpus|is truncated)"):
        open_data(folder, seq_len=32)
    shutil.copy(built / "pairs-32-00-00000.arrow", folder)
    tokens = [*SPECIAL_TOKENS, "the"]
    (folder / "vocab.txt").write_text("\n".join(tokens))
    (folder / "tokenizer.json").unlink()
    with pytest.raises(ValueError, match=r"(tokenizer\.json is missing|vocab\.txt is truncated or changed)"):
        open_data(folder, seq_len=32)
    with pytest.raises(FileNotFoundError, match="contains no data; expected a folder from `funcnet data build`"):
        open_data(tmp_path)


def test_a_shard_of_another_vocabulary(corpus, tmp_path):
    """Two builds of one corpus whose given vocabularies are equally long: sizes agree, digests do not."""
    words = ["the", "of", "and", "to", *map(chr, range(97, 123)), *(f"##{chr(c)}" for c in range(97, 123))]
    for name, order in (("first", words), ("second", words[::-1])):
        (tmp_path / f"{name}.txt").write_text("\n".join([*SPECIAL_TOKENS, *order]))
        build(tmp_path / name, settings_of(corpus, vocab=tmp_path / f"{name}.txt", vocab_size=4096, seq_len=(32,)))
    manifest = json.loads((tmp_path / "first" / "manifest.json").read_text())
    moved = json.loads((tmp_path / "second" / "manifest.json").read_text())
    moved["plan"] = manifest["plan"]
    for name in ("vocab.txt", "tokenizer.json"):
        shutil.copy(tmp_path / "second" / name, tmp_path / "first" / name)
    with pytest.raises(ValueError, match=r"vocab\.txt is damaged or changed; expected the original bytes"):
        open_data(tmp_path / "first")
    manifest["vocabulary"] = moved["vocabulary"]
    (tmp_path / "first" / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(ValueError, match=r"tokens-0000\d\.arrow was made with another vocabulary than .*first; exp"):
        open_data(tmp_path / "first")


def test_bad_input_leaves_nothing(tmp_path, corpus):
    one = tmp_path / "one.txt"
    one.write_text("The only document. It has two sentences.")
    out = tmp_path / "data"
    assert "there is no other document to draw a random next sentence from" in refused(out, settings_of(one))
    one.write_text(" \n")
    assert "the corpus is empty; expected text, got 1 file(s)" in refused(out, settings_of(one))
    (tmp_path / "few").mkdir()
    for number in range(4):  # of two sentences, of which one has no token
        (tmp_path / "few" / f"{number}.txt").write_text(f"\u200b\n\nText {number}.")
    few = settings_of(tmp_path / "few", held_out=0, documents="file", vocab_size=40)
    assert "no random next sentence can be drawn; expected at least 2 documents of 2 sentences" in refused(out, few)
    assert "does not exist" in refused(out, settings_of(tmp_path / "no"), FileNotFoundError)
    assert not out.exists()
    assert "--processes is out of range; expected at least 1, got 0" in refused(out, settings_of(corpus), processes=0)
    assert "--seq-len is invalid; expected one or more different lengths, got [32, 32]" in refused(
        out, settings_of(corpus, seq_len=(32, 32))
    )
    assert "--held-out is out of range; expected from 0 to below 1, got 1" in refused(
        out, settings_of(corpus, held_out=1)
    )
    out.mkdir()
    (out / "mine.txt").write_text("mine")
    assert "contains other files; expected a new or empty folder, got mine.txt" in refused(out, settings_of(corpus))
    (out / "manifest.json").write_text("[]")
    assert "is not a manifest of this version; expected format 3, got a file that is not a JSON" in refused(
        out, settings_of(corpus)
    )
    assert (out / "mine.txt").read_text() == "mine"


def test_bad_text_costs_nothing_that_was_made_before(corpus, tmp_path):
    """A file rots, its time unchanged, and a shard is lost: what is left stays, and what a person put there."""
    text = tmp_path / "text.txt.gz"
    text.write_bytes(gzip.compress("\n\n".join(path.read_text() for path in sorted(corpus.iterdir())).encode()))
    folder, settings = tmp_path / "data", settings_of(text)
    build(folder, settings)
    (folder / "mine.txt").write_text("mine")
    (folder / "tokens-00000.arrow").unlink()
    before, status, rotten = bytes_of(folder), text.stat(), bytearray(text.read_bytes())
    rotten[len(rotten) // 2] ^= 255
    whole = text.read_bytes()
    text.write_bytes(rotten)
    os.utime(text, ns=(status.st_atime_ns, status.st_mtime_ns))
    for _ in range(2):
        assert "text.txt.gz cannot be decompressed; expected a complete gz file" in refused(folder, settings)
        assert {name: digest for name, digest in bytes_of(folder).items() if name in before and name[0] != "m"} == {
            name: digest for name, digest in before.items() if name[0] != "m"
        }
    assert (folder / "mine.txt").read_text() == "mine"
    text.write_bytes(whole)
    build(folder, settings)
    assert open_data(folder, seq_len=32).train


def test_text_that_changes_while_it_is_read(corpus, tmp_path):
    text, folder = tmp_path / "text.txt", tmp_path / "data"
    text.write_text("\n\n".join(path.read_text() for path in sorted(corpus.iterdir())))

    def append(step, done, total):
        if step == "sentences" and done == total:
            text.write_text("Less. Of it.")

    with pytest.raises(
        ValueError,
        match=r"text\.txt changed while it was read; expected its [\d,]+ bytes to stay the same, got 12 bytes",
    ):
        build(folder, settings_of(text), progress=append)
    assert not folder.exists()

    def remove(step, done, total):
        if step == "sentences" and done == total:
            text.unlink(missing_ok=True)

    text.write_text("\n\n".join(path.read_text() for path in sorted(corpus.iterdir())))
    with pytest.raises(ValueError, match=r"bytes to stay the same, got no file\. Run the command again when no other"):
        build(folder, settings_of(text), progress=remove)


def test_a_manifest_that_was_edited(built, corpus, tmp_path):
    folder = tmp_path / "data"
    shutil.copytree(built, folder)
    manifest = json.loads((folder / "manifest.json").read_text())
    for edited in (
        manifest | {"settings": manifest["settings"] | {"passes": 3}},
        {"format": manifest["format"]},
        manifest | {"settings": 5},
        {name: value for name, value in manifest.items() if name != "files"},
    ):
        (folder / "manifest.json").write_text(json.dumps(edited))
        said = r"manifest\.json was changed by hand or by another program; expected the original content, got settings"
        with pytest.raises(ValueError, match=said):
            open_data(folder, seq_len=32)
        with pytest.raises(ValueError, match=said):
            build(folder, settings_of(corpus))


def test_damaged_bytes_that_no_size_shows(built, tmp_path):
    folder = tmp_path / "data"
    shutil.copytree(built, folder)
    for name in sorted(path.name for path in folder.glob("tokens-*")):
        whole = bytearray((folder / name).read_bytes())
        whole[1000:4000] = b"\xff" * 3000
        (folder / name).write_bytes(whole)
    data = open_data(folder, seq_len=32).train
    with pytest.raises(ValueError, match=r"a shard is damaged; expected ids of the vocabulary .*, got 'id"):
        data[np.arange(len(data))]
    shutil.rmtree(folder)
    shutil.copytree(built, folder)
    data = open_data(folder, seq_len=32).train
    lost = dataclasses.replace(data, tokens=Joined([data.tokens.arrays[0]]))
    with pytest.raises(ValueError, match=r"got 'index .* Run the same `funcnet data build` again to repair"):
        lost[np.arange(len(data))]


@pytest.mark.slow
def test_the_command(corpus, tmp_path, capsys):
    out = tmp_path / "data"
    corpus = shutil.copytree(corpus, tmp_path / "corpus")
    (corpus / "b.md").write_text("no text")
    small = ["--vocab-size", 300, "--passes", 1, "--processes", 1]
    arguments = ["data", "build", "--corpus", corpus, "--out", out, *small]
    assert run_here(*arguments) == 0
    said, left_out = capsys.readouterr()
    assert left_out.count("left out") == 1 and left_out.startswith(
        "funcnet: read_corpus: left out 1 file(s) whose names"
    )
    assert (out / "report.png").read_bytes().startswith(b"\x89PNG")
    assert "30 files" in said and "random next" in said and f"funcnet pretrain --data {out}" in said
    (out / "report.txt").unlink()
    assert run_here(*arguments) == 0
    assert "that were damaged or missing: report.txt" in capsys.readouterr().out
    assert run_here(*arguments, "--seed", 1) == 2
    assert "seed was 0, now 1" in capsys.readouterr().err


def test_what_the_system_refuses_is_said_in_words(built, corpus, tmp_path, capsys):
    name = "n" * 300
    assert run_here("data", "build", "--corpus", corpus, "--out", tmp_path / name) == 2
    said = capsys.readouterr().err
    assert f"{name}: the operating system reported an error; expected a usable path, got 'File name too long" in said
    assert run_here("data", "export", built, "--seq-len", 32, "--out", tmp_path / "no" / "x.tfrecord") == 2
    assert "data export: --out" in (said := capsys.readouterr().err) and "expected a file in an existing folder" in said
    folder = tmp_path / "data"
    shutil.copytree(built, folder)
    assert run_here("pretrain", "--data", folder, "--seq-len", 32, "--out", folder, "--devices", 1) == 2
    assert "already contains tokenizer.json; expected a new or empty folder" in capsys.readouterr().err
    assert bytes_of(folder) == bytes_of(built)


FLIPPED = ["tokens-00001.arrow", "vocab.txt", "tokenizer.json", "tokenizer_config.json", "report.json", "report.txt"]


@pytest.mark.parametrize("name", FLIPPED)
def test_a_report_finds_a_flipped_byte_and_a_run_one_in_what_it_reads_whole(built, tmp_path, capsys, name):
    folder = tmp_path / "data"
    shutil.copytree(built, folder)
    path = folder / name
    data = bytearray(path.read_bytes())
    place = len(data) // 2
    data[place] ^= 1
    path.write_bytes(data)
    assert run_here("data", "report", folder) == 2
    said = f"{path} is damaged or changed; expected the original bytes, got others (the digest differs). Run"
    assert said in capsys.readouterr().err
    if name in ("tokens-00001.arrow", "report.txt"):
        open_data(folder, seq_len=32)
        return
    with pytest.raises(ValueError, match=re.escape(said)):
        open_data(folder, seq_len=32)


@pytest.mark.slow
def test_output_that_nobody_reads_is_no_error(built, tmp_path):
    process = start("data", "report", built, cache=tmp_path)
    process.stdout.close()
    assert process.wait() == 141


def test_googles_file_has_every_example_of_every_pass(built, tmp_path, capsys):
    out = tmp_path / "tf_examples.tfrecord"
    assert run_here("data", "export", built, "--out", out, "--seq-len", 32) == 0
    data = open_data(built, seq_len=32)
    rows = list(read_examples(out))
    assert len(rows) == 2 * len(data.train) and f"{len(rows):,} examples" in capsys.readouterr().out
    assert export_examples(built, out, seq_len=64, held_out=True) == len(open_data(built, seq_len=64).evaluation)
    assert run_here("data", "report", built) == 0 and "random next" in capsys.readouterr().out
