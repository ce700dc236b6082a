"""Every file of a sharded checkpoint is damaged in turn: the previous checkpoint is used, or the run starts again."""

import re
import signal

import jax
import numpy as np
import optax
import pytest
from jax.sharding import PartitionSpec

from funcnet import train
from funcnet.parallel import make_layout
from tests.parallel.test_processes import pretrain, same_bits, start
from tests.processes import ended, succeeded, wait_for
from tests.tasks import command

LAYOUT = make_layout("data=2,fsdp=2", rules={"**.weight": PartitionSpec("fsdp", None)})


def flipped(content, rng):
    changed = bytearray(content)
    changed[rng.integers(len(content))] ^= 1 << int(rng.integers(8))
    return bytes(changed)


DAMAGE = {
    "a flipped bit": flipped,
    "half of the file": lambda content, rng: content[: len(content) // 2],
    "nothing left": lambda content, rng: b"",
    "no file": lambda content, rng: None,
}


def state_at(step):
    """A train state with Adam's moments, in which arrays have different values at each step."""
    rng = np.random.default_rng(step)
    draw = lambda *shape: rng.normal(size=shape).astype(np.float32)
    params = {"fc": {"weight": draw(8, 4), "bias": draw(4)}, "out": {"weight": draw(4, 300)}}
    state = train.create(params, {"bn": {"mean": draw(4)}}, optax.adam(0.1))
    return LAYOUT.place(jax.tree.map(lambda leaf: leaf + np.asarray(step, leaf.dtype), state))


@pytest.fixture
def saved(tmp_path):
    """The folder of two checkpoints, and what was said."""
    said = []
    with train.Checkpoints(tmp_path / "checkpoints", say=said.append) as checkpoints:
        for step in (1, 2):
            checkpoints.save(state_at(step), step, {"seed": 0})
    assert not state_at(1).params["fc"]["weight"].is_fully_replicated
    return checkpoints, said


def same(found, expected):
    return all(
        np.asarray(ours).tobytes() == np.asarray(theirs).tobytes()
        for ours, theirs in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True)
    )


def damages(checkpoints, newest):
    """Damage one file after the other, and repair it again; yield what was done."""
    rng = np.random.default_rng(0)
    files = sorted(path.relative_to(newest) for path in newest.rglob("*") if path.is_file())
    assert len(files) > 8 and sum("ocdbt.process_" in str(name) for name in files) > 3
    for name in files:
        content = (newest / name).read_bytes()
        for kind, damage in DAMAGE.items():
            damaged = damage(content, rng)
            if damaged == content or (kind == "no file" and name.name == "digests.json"):  # a checkpoint not completed
                continue
            (newest / name).unlink()
            if damaged is not None:
                (newest / name).write_bytes(damaged)
            yield f"{name}: {kind}", name
            aside = newest.with_name(f"damaged-{newest.name}")
            assert aside.exists() and not newest.exists(), "the damaged checkpoint is set aside"
            aside.rename(newest)
            (newest / name).write_bytes(content)


def names_it(said, newest, name):
    """Whether the message names the checkpoint and, if its digests can be read, the file."""
    found = re.fullmatch(rf"Checkpoint {newest.name} is damaged \((.*)\); using the previous one\.", said)
    return found and (found[1].startswith(f"{name.as_posix()} ") or name.name == "digests.json")


@pytest.mark.slow
def test_any_damage_to_any_file_makes_the_previous_checkpoint_count(saved):
    checkpoints, said = saved
    newest, cases = checkpoints.folder / "step-00000002", 0
    for case, name in damages(checkpoints, newest):
        said.clear()
        restored = train.resume(checkpoints, state_at(0), LAYOUT)
        assert restored.step == 1 and same(restored.state, state_at(1)), case
        assert len(said) == 2 and names_it(said[0], newest, name), (case, said)
        assert said[1] == "Resuming from the checkpoint of step 1.", case
        cases += 1
    assert cases > 30
    restored = train.resume(checkpoints, state_at(0), LAYOUT)
    assert restored.step == 2 and same(restored.state, state_at(2)), "repaired"


def test_without_a_previous_checkpoint_the_run_starts_again(saved):
    checkpoints, said = saved
    newest = checkpoints.folder / "step-00000002"
    (checkpoints.folder / "step-00000001" / "digests.json").unlink()
    for case, name in damages(checkpoints, newest):
        said.clear()
        restored = train.resume(checkpoints, state_at(0), LAYOUT)
        assert restored.step == 0 and same(restored.state, state_at(0)), case
        assert names_it(said[0], newest, name), (case, said)
        assert said[1:] == ["No complete checkpoint was found; starting again at step 0."], case


# ---------------------------------------------------------------------------------------------------- real runs


@pytest.mark.slow
def test_a_run_of_two_processes_goes_back_and_ends_with_the_same_bits(tmp_path):
    """First the newest checkpoint is damaged, and later all of them."""
    corpus, cache = command.write_corpus(tmp_path / "corpus"), tmp_path / "cache"
    mesh, rng = "data=2,fsdp=2", np.random.default_rng(1)
    run = lambda out, *more: start(2, cache, *pretrain(corpus, out, mesh, *more, steps=60))
    succeeded(*run(tmp_path / "whole"))

    out = tmp_path / "damaged"
    processes = run(out)
    assert wait_for(lambda: len(command.metrics(out)) > 10, *processes)
    processes[0].send_signal(signal.SIGTERM)
    assert [code for code, _ in ended(*processes)] == [143, 143]

    complete = sorted(path.parent for path in out.glob("checkpoints/step-*/digests.json"))
    assert len(complete) > 1
    parts = [file for file in complete[-1].glob("arrays/ocdbt.process_*/d/*") if file.stat().st_size > 1000]
    assert {file.parts[-3] for file in parts} == {"ocdbt.process_0", "ocdbt.process_1"}, "both processes wrote a part"
    shard = next(file for file in parts if file.parts[-3] == "ocdbt.process_1")
    shard.write_bytes(flipped(shard.read_bytes(), rng))
    processes = run(out, "--resume")
    is_newer = lambda path: path.parent.name > complete[-1].name
    wait_for(lambda: any(map(is_newer, out.glob("checkpoints/step-*/digests.json"))), *processes)
    processes[1].send_signal(signal.SIGTERM)
    found = ended(*processes)
    assert [code for code, _ in found] == [143, 143], found
    name = shard.relative_to(complete[-1]).as_posix()
    assert f"Checkpoint {complete[-1].name} is damaged ({name} is changed); using the previous one." in found[0][1]
    assert f"Resuming from the checkpoint of step {int(complete[-2].name[5:])}." in found[0][1]

    for path in out.glob("checkpoints/step-*/run.json"):
        path.write_bytes(flipped(path.read_bytes(), rng))
    output = succeeded(*run(out, "--resume"))[0]
    assert "No complete checkpoint was found; starting again at step 0." in output
    same_bits(out, tmp_path / "whole")
