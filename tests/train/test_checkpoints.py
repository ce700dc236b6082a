"""The newest undamaged checkpoint is found after kills, damage and full disks."""

import json
import os
import shutil
import signal
import subprocess
import sys
import textwrap

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import optax
import pytest
from jax.sharding import PartitionSpec

from funcnet import train
from funcnet.parallel import make_layout
from funcnet.train import checkpoints as module


def state_at(step):
    return {
        "params": {"fc": {"weight": np.arange(6, dtype=np.float32).reshape(2, 3) + step, "empty": np.zeros((0, 3))}},
        "half": np.full(3, step, ml_dtypes.bfloat16),
        "mask": np.array([True, False]),
        "opt_state": (optax.EmptyState(), {"count": np.array(step, np.int32)}),
    }


def written(folder, steps, **options):
    said = []
    with train.Checkpoints(folder, say=said.append, **options) as checkpoints:
        for step, metrics in steps.items():
            checkpoints.save(state_at(step), step, {"seed": 3}, metrics)
    return checkpoints, said


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_what_is_saved_comes_back_bit_for_bit(tmp_path):
    checkpoints, _ = written(tmp_path, {7: None})
    restored = checkpoints.restore(state_at(0))
    assert (restored.step, restored.about["seed"]) == (7, 3)
    assert restored.about["versions"]["jax"] == jax.__version__
    assert jax.tree.structure(restored.state) == jax.tree.structure(state_at(0))
    for ours, theirs in zip(jax.tree.leaves(restored.state), jax.tree.leaves(state_at(7)), strict=True):
        assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape)
        np.testing.assert_array_equal(ours, theirs)


def test_an_empty_folder_holds_nothing(tmp_path):
    assert train.Checkpoints(tmp_path / "none").restore(state_at(0)) is None


def test_a_save_returns_before_it_is_written_and_sees_the_state_as_it_was(tmp_path, monkeypatch):
    import threading

    go = threading.Event()
    write = module.write_arrays
    monkeypatch.setattr(module, "write_arrays", lambda *args: (go.wait(10), write(*args)))
    state = {"w": np.zeros(3)}
    with train.Checkpoints(tmp_path) as checkpoints:
        checkpoints.save(state, 1, {})
        state["w"][:] = 9
        assert checkpoints.restore({"w": np.zeros(3)}) is None
        go.set()
    np.testing.assert_array_equal(checkpoints.restore({"w": np.zeros(3)}).state["w"], 0)


def test_the_newest_and_the_best_are_kept(tmp_path):
    losses = {10: 3.0, 20: 1.0, 30: 2.0, 40: None, 50: 2.5}
    metrics = {step: None if loss is None else {"eval_loss": loss} for step, loss in losses.items()}
    written(tmp_path, metrics, keep=2, best_metric="eval_loss")
    assert names(tmp_path) == ["step-00000020", "step-00000040", "step-00000050"]
    written(tmp_path, {60: {"eval_loss": 9.0}}, keep=1, best_metric="eval_loss", best="max")
    assert names(tmp_path) == ["step-00000060"]


def test_the_same_step_is_written_once(tmp_path):
    with train.Checkpoints(tmp_path) as checkpoints:
        checkpoints.save(state_at(1), 1, {})
        checkpoints.save(state_at(2), 1, {})
    np.testing.assert_array_equal(checkpoints.restore(state_at(0)).state["half"], state_at(1)["half"])


def arrays_of(folder):
    return max((path for path in folder.rglob("*") if path.is_file()), key=lambda path: path.stat().st_size)


@pytest.mark.parametrize("damage", ["flipped byte", "truncated", "missing", "digests", "flipped byte in run.json"])
def test_a_damaged_checkpoint_is_skipped_and_reported(tmp_path, damage):
    checkpoints, said = written(tmp_path, {1: None, 2: None})
    newest = tmp_path / "step-00000002"
    target = {"digests": newest / "digests.json", "flipped byte in run.json": newest / "run.json"}.get(damage)
    target = target or arrays_of(newest / "arrays")
    content = bytearray(target.read_bytes())
    if damage.startswith("flipped"):
        content[len(content) // 2] ^= 1
    target.write_bytes(content[: len(content) // 2] if damage in ("truncated", "digests") else content)
    if damage == "missing":
        target.unlink()
    assert checkpoints.restore(state_at(0)).step == 1
    assert len(said) == 1 and said[0].startswith("Checkpoint step-00000002 is damaged (")
    assert said[0].endswith("); using the previous one.")
    written(tmp_path, {2: None})  # the run reaches step 2 again
    assert checkpoints.restore(state_at(0)).step == 2


def test_any_flipped_byte_of_any_file_is_found(tmp_path):
    checkpoints, _ = written(tmp_path, {1: None})
    folder = tmp_path / "step-00000001"
    rng = np.random.default_rng(0)
    for path in [path for path in folder.rglob("*") if path.is_file() and path.stat().st_size]:
        content = path.read_bytes()
        changed = bytearray(content)
        changed[rng.integers(len(content))] ^= 1 << int(rng.integers(8))
        path.write_bytes(changed)
        assert checkpoints.restore(state_at(0)) is None, path
        (tmp_path / f"damaged-{folder.name}").rename(folder)
        path.write_bytes(content)
    assert checkpoints.restore(state_at(0)).step == 1


def test_a_damaged_checkpoint_does_not_count_as_kept(tmp_path):
    options = {"keep": 1, "best_metric": "loss"}
    checkpoints, _ = written(tmp_path, {300: {"loss": 0.1}}, **options)
    (tmp_path / "step-00000300" / "run.json").unlink()
    assert checkpoints.restore(state_at(0)) is None
    for step in (100, 200):  # a new start, which has fewer steps
        written(tmp_path, {step: {"loss": 0.5}}, **options)
        assert checkpoints.restore(state_at(0)).step == step


def test_resuming_says_from_where(tmp_path):
    checkpoints, said = written(tmp_path, {1: None, 1200: None})
    layout = make_layout({"data": 1})
    restored = train.resume(checkpoints, state_at(0), layout)
    assert (restored.step, restored.state["half"][0]) == (1200, state_at(1200)["half"][0])
    for path in tmp_path.glob("*/digests.json"):
        path.unlink()
    restored = train.resume(checkpoints, state_at(0), layout)
    assert (restored.step, restored.about, restored.state["half"][0]) == (0, {}, 0)
    assert said == [
        "Resuming from the checkpoint of step 1,200.",
        "No complete checkpoint was found; starting again at step 0.",
    ]


def test_a_checkpoint_without_digests_is_ignored_and_removed_by_the_next_write(tmp_path):
    checkpoints, said = written(tmp_path, {1: None, 2: None})
    (tmp_path / "step-00000002" / "digests.json").unlink()
    assert checkpoints.restore(state_at(0)).step == 1
    assert said == []
    written(tmp_path, {3: None})
    assert names(tmp_path) == ["step-00000001", "step-00000003"]


@pytest.mark.parametrize("kills", ["before the arrays", "before the digests", "while pruning"])
def test_after_a_kill_during_a_write_the_previous_checkpoint_exists(tmp_path, kills):
    """SIGKILL at the worst moments: no older checkpoint is removed before the newer one is complete."""
    code = f"""
    import os, signal, sys
    import numpy as np
    from funcnet import train
    from funcnet.train import checkpoints as module

    die = lambda *args, **kwargs: os.kill(os.getpid(), signal.SIGKILL)
    with train.Checkpoints({str(tmp_path)!r}, keep=1) as checkpoints:
        checkpoints.save({{"w": np.zeros(3)}}, 1, {{}})
        checkpoints.wait()
        if {kills!r} == "before the arrays":
            module.write_arrays = die
        elif {kills!r} == "before the digests":
            module._digests = die
        else:
            module.shutil.rmtree = die
        checkpoints.save({{"w": np.ones(3)}}, 2, {{}})
    """
    result = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], env=os.environ, timeout=120)
    assert result.returncode == -signal.SIGKILL
    restored = train.Checkpoints(tmp_path, say=pytest.fail).restore({"w": np.zeros(3)})
    assert restored.step == (2 if kills == "while pruning" else 1)
    np.testing.assert_array_equal(restored.state["w"], restored.step - 1)


@pytest.mark.slow
def test_a_full_disk_is_an_error_and_what_was_there_stays(tmp_path):
    """A limit on the size of files stands in for the full disk."""
    code = f"""
    import resource, signal, sys
    import numpy as np
    from funcnet import train

    with train.Checkpoints({str(tmp_path)!r}, keep=1) as checkpoints:
        checkpoints.save({{"w": np.zeros(3)}}, 1, {{}})
        checkpoints.wait()
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
        many = np.random.default_rng(0).normal(size=(50, 10_000))
        checkpoints.save({{f"w.{{i}}": array for i, array in enumerate(many)}}, 2, {{}})
        try:
            checkpoints.wait()
        except train.RunError as error:
            print(error)
    """
    result = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, timeout=120)
    assert f"train.Checkpoints: cannot write {tmp_path}; expected a writable folder with free space" in result.stdout, (
        result.stderr
    )
    assert result.stdout.count("\n") == 1 and not result.stderr, result.stderr
    with train.Checkpoints(tmp_path) as checkpoints:
        assert checkpoints.restore({"w": np.zeros(3)}).step == 1
        checkpoints.save({"w": np.zeros(3)}, 3, {})
    assert names(tmp_path) == ["step-00000001", "step-00000003"]


def test_a_step_whose_write_failed_is_written_again(tmp_path, monkeypatch):
    with train.Checkpoints(tmp_path) as checkpoints:
        with monkeypatch.context() as patch:
            patch.setattr(module, "write_arrays", lambda *_: (_ for _ in ()).throw(OSError("disk full")))
            checkpoints.save(state_at(1), 1, {})
            with pytest.raises(train.RunError, match="disk full"):
                checkpoints.wait()
        checkpoints.save(state_at(1), 1, {})
    assert checkpoints.restore(state_at(0)).step == 1


def test_a_folder_that_cannot_be_written_is_an_error(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(
        train.RunError, match=r"cannot write .*file/checkpoints; expected .*Files that were complete are intact"
    ):
        written(tmp_path / "file" / "checkpoints", {1: None})


def test_another_models_arrays_are_refused_and_listed(tmp_path):
    checkpoints, _ = written(tmp_path, {1: None})
    template = state_at(0)
    template["params"]["fc"]["weight"] = np.zeros((2, 4), np.float32)
    template["params"]["head"] = np.zeros(1)
    del template["mask"]
    text = (
        r"restore: .*step-00000001 belongs to another run; expected the arrays of this model and optimizer, got "
        r"others: params.head is missing, mask is not expected, params.fc.weight is float32\[2, 3\] instead of "
        r"float32\[2, 4\]. Resume with"
    )
    with pytest.raises(train.RunError, match=text):
        checkpoints.restore(template)


@pytest.mark.parametrize("saved", [None, "data=8", "data=4,model=2"])
@pytest.mark.parametrize("restored", ["data=1", "data=2,model=4"])
def test_what_was_saved_under_one_layout_is_restored_under_another(tmp_path, saved, restored):
    """This includes numpy arrays, which a release before layouts saved."""
    rules = {"**.weight": PartitionSpec(None, "model")}
    layout = lambda mesh: make_layout(mesh, rules=rules if "model" in mesh else None)
    start = train.create({"fc": {"weight": np.arange(32.0, dtype=np.float32).reshape(4, 8)}}, {}, optax.sgd(0.1, 0.9))
    with train.Checkpoints(tmp_path) as checkpoints:
        checkpoints.save(start if saved is None else layout(saved).place(start), 1, {})
    empty = jax.tree.map(lambda leaf: np.zeros(leaf.shape, leaf.dtype), start)
    found = train.resume(checkpoints, empty, layout(restored)).state
    weight = found.params["fc"]["weight"]
    np.testing.assert_array_equal(weight, start.params["fc"]["weight"])
    assert weight.sharding == found.opt_state[0].trace["fc"]["weight"].sharding
    assert weight.addressable_shards[0].data.shape == ((4, 2) if "model" in restored else (4, 8))


def test_at_least_one_is_kept(tmp_path):
    with pytest.raises(ValueError, match=r"train.Checkpoints: keep is too small; expected at least 1, got 0\.$"):
        train.Checkpoints(tmp_path, keep=0)


def test_a_train_state_of_jax_arrays(tmp_path):
    state = train.create({"fc": {"weight": jnp.ones(3)}}, {"bn": {"count": jnp.array(2)}}, optax.sgd(0.1, momentum=0.9))
    with train.Checkpoints(tmp_path) as checkpoints:
        checkpoints.save(state, 5, {})
    restored = checkpoints.restore(state)
    assert isinstance(restored.state, train.TrainState)
    assert json.loads((tmp_path / "step-00000005" / "run.json").read_text())["step"] == 5
    assert jax.tree.structure(restored.state) == jax.tree.structure(state)
    shutil.rmtree(tmp_path)
