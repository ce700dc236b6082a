"""Google's tf_examples.tfrecord out and in again: the same batches, masks and all; and what is refused."""

import shutil

import numpy as np
import pytest

from funcnet.data import read_examples, write_examples
from funcnet.settings import compose
from funcnet.tasks.pretraining_data import DataSettings, build, open_data
from funcnet.tasks.pretraining_data import google_examples as module
from funcnet.tasks.pretraining_data.google_examples import export_examples, import_examples
from funcnet.text import SPECIAL_TOKENS
from tests.tasks.command import run_here, write_corpus


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    folder = tmp_path_factory.mktemp("import")
    corpus = write_corpus(folder / "corpus", documents=16)
    build(folder / "data", compose(DataSettings, corpus=(corpus,), seq_len=(32,), passes=2, vocab_size=300))
    export_examples(folder / "data", folder / "train.tfrecord")
    export_examples(folder / "data", folder / "held-out.tfrecord", held_out=True)
    return folder


def same(found, expected):
    assert found.keys() == expected.keys()
    for name in expected:
        np.testing.assert_array_equal(found[name], expected[name])
        assert found[name].dtype == expected[name].dtype


@pytest.mark.slow
def test_what_is_exported_comes_back(built, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(module, "SHARD", 3000)
    out, files = tmp_path / "data", ["--held-out", built / "held-out.tfrecord", "--vocab", built / "data"]
    assert run_here("data", "import", built / "train.tfrecord", *files, "--out", out) == 0
    said = capsys.readouterr().out
    assert "of Google's examples" in said and f"pretrain --data {out} --seq-len 32" in said
    assert (out / "report.png").read_bytes().startswith(b"\x89PNG") and list(tmp_path.iterdir()) == [out]
    data, first = open_data(out), open_data(built / "data")
    count = len(first.train)
    assert len(data.train) == 2 * count and len(list(out.glob("tokens-*.arrow"))) > 2
    for number in (0, 1):
        expected = first.train.at_epoch(number)[np.arange(count)]
        same(data.train.at_epoch(5)[np.arange(count) + number * count], expected)
    same(data.evaluation[np.arange(len(data.evaluation))], first.evaluation[np.arange(len(first.evaluation))])
    for held_out, name in ((False, "train"), (True, "held-out")):
        export_examples(out, tmp_path / "again.tfrecord", held_out=held_out)
        assert (tmp_path / "again.tfrecord").read_bytes() == (built / f"{name}.tfrecord").read_bytes()
    with pytest.raises(
        ValueError, match=r"was imported as rows, which cannot be packed; expected data that was built from text"
    ):
        data.train_batches(8, packed=True)
    (out / "tokens-00001.arrow").unlink()
    with pytest.raises(ValueError, match=r"tokens-00001\.arrow is missing; .* Run `funcnet data import` again"):
        open_data(out)


@pytest.mark.slow
def test_a_run_trains_on_it(built, tmp_path, capsys):
    out = tmp_path / "data"
    import_examples([built / "train.tfrecord"], out, vocab=built / "data", held_out=[built / "held-out.tfrecord"])
    more = ["--seq-len", 32, "--steps", 2, "--batch-size", 8, "--log-every", 1, "--devices", 1]
    assert run_here("pretrain", "--out", tmp_path / "run", "--data", out, *more) == 0
    assert (tmp_path / "run" / "eval.json").exists() and "pairs per pass" in capsys.readouterr().out


def test_what_is_refused(built, tmp_path):
    out, rows = tmp_path / "data", list(read_examples(built / "train.tfrecord"))[:3]

    def refused(rows, vocab=built / "data", error=ValueError):
        if rows is not None:
            write_examples(tmp_path / "x.tfrecord", rows)
        with pytest.raises(error) as caught:
            import_examples([tmp_path / "x.tfrecord"], out, vocab=vocab)
        assert not out.exists() and not list(tmp_path.glob(".*"))
        return str(caught.value)

    def changed(name, values):
        return [*rows[:2], rows[2] | {name: np.asarray(values, rows[2][name].dtype)}]

    assert "does not exist" in refused(None, error=FileNotFoundError)
    assert "x.tfrecord is empty; expected examples, got none" in refused([])
    assert "record 3 lacks input_mask" in refused([*rows[:2], {"input_ids": rows[0]["input_ids"]}])
    assert "record 3 differs in length from the first record; expected {" in refused(changed("input_ids", [1, 2]))
    wrong = "record 3 is not a sentence pair in this vocabulary; expected [CLS] A [SEP] B [SEP], ids below"
    ids, places = rows[2]["input_ids"], rows[2]["masked_lm_positions"]
    assert wrong in refused(changed("input_ids", ids + 1))
    assert wrong in refused(changed("input_ids", np.where(np.arange(32) == 3, 9999, ids)))
    assert wrong in refused(changed("masked_lm_ids", 0 * places + 9999))
    assert wrong in refused(changed("masked_lm_positions", places + 40))
    assert wrong in refused(changed("segment_ids", 0 * ids))
    assert wrong in refused(changed("input_mask", 0 * ids))
    assert wrong in refused(changed("next_sentence_labels", [7]))
    (tmp_path / "vocab.txt").write_text("\n".join(["a", *SPECIAL_TOKENS, *"bcdefgh"]))
    assert "record 1 is not a sentence pair in this vocabulary" in refused(rows, tmp_path / "vocab.txt")
    whole = (tmp_path / "x.tfrecord").read_bytes()
    (tmp_path / "x.tfrecord").write_bytes(whole[:-9])
    assert "x.tfrecord, record 3 is damaged" in refused(None)
    with pytest.raises(
        ValueError, match=r"data import: no files are given; expected at least one file with examples, got none"
    ):
        import_examples([], out, vocab=built / "data")
    with pytest.raises(NotADirectoryError, match=r"vocab\.txt is a file; expected a folder"):
        import_examples([tmp_path / "x.tfrecord"], tmp_path / "vocab.txt", vocab=built / "data")
    shutil.copytree(built / "data", tmp_path / "full")
    with pytest.raises(
        ValueError, match=r"data import: .*full contains other files; expected a new or empty folder, got"
    ):
        import_examples([tmp_path / "x.tfrecord"], tmp_path / "full", vocab=built / "data")
