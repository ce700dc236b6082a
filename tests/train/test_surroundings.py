"""The progress bar, the report and the cache of compiled programs."""

import io
import os
import subprocess
import sys

import jax
import matplotlib.image
import numpy as np
import pytest
from rich.console import Console

from funcnet import train
from funcnet.train import compilation_cache


def console(terminal):
    return Console(file=io.StringIO(), force_terminal=terminal, width=120)


def test_plain_lines_without_a_terminal():
    out = console(False)
    show = {"loss": "mlm_loss", "accuracy": "mlm_accuracy"}
    with train.TrainingProgress(1000, show=show, console=out) as progress:
        progress.after_step(1)
        progress.write(20, {"mlm_loss": 7.25, "mlm_accuracy": 0.125, "tokens_per_second": 5432.1})
        progress.write(40, {"mlm_loss": 7.0, "eval_mlm_loss": 6.5})
        progress.sync()
    assert out.file.getvalue().splitlines() == [
        "step 20/1,000  loss 7.250  accuracy 0.125  tokens/s 5,432",
        "step 40/1,000  loss 7.000  held-out loss 6.500",
    ]


def test_a_bar_in_a_terminal():
    out = console(True)
    with train.TrainingProgress(100, step=20, console=out) as progress:
        progress.write(30, {"loss": 2.0, "tokens_per_second": 1000.0, "eval_loss": 3.0})
        progress.after_step(31)
        progress.say("a [red]line[/red] above")
    text = out.file.getvalue()
    assert "31/100" in text and "loss 2.000  tokens/s 1,000" in text
    assert "a [red]line[/red] above" in text and "held-out loss 3.000" in text


def rows():
    return [
        {"step": s, "loss": 8 / s, "rate": s / 50} | ({"eval_loss": 9 / s} if s % 10 == 0 else {}) for s in range(1, 51)
    ]


@pytest.mark.slow
@pytest.mark.parametrize("count", [1, 2, 3])
def test_the_report_is_a_picture_that_is_not_empty(tmp_path, count):
    panels = [
        train.Panel("Loss", "nats", {"training": "loss", "held-out": "eval_loss", "never": "absent"}, {"unigram": 5.0}),
        train.Panel("Learning rate", "per step", {"learning rate": "rate"}, smooth=False),
        train.Panel("Throughput", "tokens/s", {"absent": "absent"}, from_zero=True),
    ]
    train.draw_report(tmp_path / "report.png", rows(), panels[:count], title="A run", subtitle="50 steps")
    picture = matplotlib.image.imread(tmp_path / "report.png")
    assert picture.shape[0] > 400 and picture.shape[1] > 600
    assert len(np.unique(picture.reshape(-1, picture.shape[-1]), axis=0)) > 20
    assert [path.name for path in tmp_path.iterdir()] == ["report.png"]


def test_counts_are_shaded_by_their_row_and_an_empty_place_stays_empty(tmp_path):
    curve, names = train.Panel("Loss", "nats", {"training": "loss"}), ["good", "bad"]
    panels = [curve, curve, train.Matrix("Classes", names, np.array([[8, 0], [400, 400]]))]
    train.draw_report(tmp_path / "report.png", rows(), panels, title="A run")
    picture = (255 * matplotlib.image.imread(tmp_path / "report.png")[..., :3]).round()
    height, width, _ = picture.shape
    assert (picture[height // 2 + 60 :, width // 2 + 20 :] == 255).all()
    shades = [matplotlib.colormaps["Blues"](share, bytes=True)[:3] for share in (0.0, 0.5, 1.0)]
    assert all((picture == np.array(shade)).all(-1).sum() > 1000 for shade in shades)


def test_names_from_files_are_not_read_as_formulas(tmp_path):
    names = ["$\\frac$", "$x_$", "中文"]
    train.draw_report(tmp_path / "a.png", rows(), [train.Matrix("", names, np.eye(3))], title="$^$", subtitle="$$")
    assert (tmp_path / "a.png").stat().st_size > 5_000


def test_a_report_that_cannot_be_written_is_an_error(tmp_path):
    with pytest.raises(
        train.RunError,
        match=r"train.draw_report: cannot write .*report.png; expected a writable folder with free space",
    ):
        train.draw_report(tmp_path / "none" / "report.png", rows(), [train.Panel("", "", {"": "loss"})], title="")


@pytest.mark.slow
def test_a_second_process_finds_what_the_first_compiled(tmp_path):
    code = """
import sys, jax, jax.numpy as jnp
from funcnet.train import compilation_cache
compilation_cache.enable(sys.argv[1])
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
hits = []
jax.monitoring.register_event_listener(lambda name, **_: hits.append(name) if "cache_hits" in name else None)
jax.jit(lambda x: jnp.sin(x) @ x)(jnp.ones((3, 3)))
print(len(hits))
"""
    environment = {k: v for k, v in os.environ.items() if k != "JAX_COMPILATION_CACHE_DIR"}
    runs = [
        subprocess.run(
            [sys.executable, "-c", code, tmp_path], env=environment, capture_output=True, text=True, timeout=120
        )
        for _ in range(2)
    ]
    assert [run.returncode for run in runs] == [0, 0], runs[0].stderr
    assert int(runs[0].stdout) == 0 < int(runs[1].stdout)


def test_a_cache_that_is_too_large_loses_what_was_not_used_for_the_longest_time(tmp_path, monkeypatch):
    """Of every instruction set. The user's own files stay, and a program that another run has removed is no error."""
    monkeypatch.delenv("JAX_COMPILATION_CACHE_DIR", raising=False)
    monkeypatch.setattr(jax.config, "update", lambda *_: None)
    for place, used in (("a/new-cache", 30), ("b/old-cache", 10), ("b/older-cache", 5), ("a/used-cache", 40), ("c", 1)):
        path = tmp_path / place
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(bytes(100))
        os.utime(path, (used, 2))  # read then, and written long ago
    (tmp_path / "b" / "removed-cache").symlink_to(tmp_path / "nothing")
    left = lambda: sorted(path.name for path in tmp_path.rglob("*") if path.is_file())
    compilation_cache.limit_size(tmp_path, 400)
    assert left() == ["c", "new-cache", "old-cache", "older-cache", "used-cache"]
    compilation_cache.limit_size(tmp_path, 250)
    assert left() == ["c", "new-cache", "used-cache"]
    monkeypatch.setattr(compilation_cache, "MAX_BYTES", 100)
    assert compilation_cache.enable(tmp_path) is not None
    assert left() == ["c", "used-cache"]


def test_a_cache_that_cannot_be_written_is_not_used(tmp_path, monkeypatch):
    monkeypatch.delenv("JAX_COMPILATION_CACHE_DIR", raising=False)
    (tmp_path / "file").write_text("")
    assert compilation_cache.enable(tmp_path / "file") is None
    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", str(tmp_path))
    assert compilation_cache.enable() == tmp_path
