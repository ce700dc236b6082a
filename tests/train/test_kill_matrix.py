"""SIGKILL in every phase of a step and of a save, on four layouts. The table in the README is written here:

    FUNCNET_WRITE=1 sh scripts/test.sh -m slow tests/train/test_kill_matrix.py

On each layout, one run is never killed and keeps all checkpoints. Another run is killed in phase after phase (see
`kill_matrix`), and resumed each time. The next checkpoint after each kill is compared with that of the same step of the
first run, bit by bit: parameters, optimizer state, step, seed, position in the data. So are the log up to there and,
at the end, the model file.
"""

import dataclasses
import json
import os
import signal
import sys
import time

import numpy as np
import orbax.checkpoint as ocp
import pytest

from funcnet.files import read_json, replacing
from tests import processes
from tests.processes import ROOT, ended, joining, succeeded
from tests.tasks import command
from tests.train.kill_matrix import PHASES, Phase, reached

README = ROOT / "README.md"
BEGIN = "<!-- kill matrix: written by tests/train/test_kill_matrix.py -->"
END = "<!-- end of the kill matrix -->"
LAYOUTS = {
    "1 device": ["--devices", "1"],
    "8 devices": ["--mesh", "data=8"],
    "2 processes": ["--mesh", "data=2"],
    "2 x 2 x 2 mesh": ["--mesh", "data=2,fsdp=2,tensor=2"],
}
SAVE, EVALUATE, LOG = 2, 5, 3  # steps between two saves, evaluations and lines of the log
SAME = "same bits"


@dataclasses.dataclass(frozen=True)
class Kill:
    """A process that resumes after step `begin` and is killed at `step`, when the checkpoint of `complete` exists.
    `newest` is the checkpoint that must be the newest one afterwards.
    """

    phase: Phase
    begin: int
    step: int
    complete: int
    newest: int


def plan() -> tuple[list[Kill], int]:
    """Return the kills and the number of steps of the run. Before each kill, the process has saved a checkpoint."""
    kills, begin, total = [], 0, 0
    is_evaluated = lambda step: step % EVALUATE == 0
    for phase in PHASES:
        if phase.at == "first step":
            kills.append(Kill(phase, 0, 1, 0, 0))
            continue
        if phase.at == "start":
            kills.append(Kill(phase, begin, begin, begin, begin))
            continue
        if phase.at == "end":
            total = total or begin + 2 * SAVE
            kills.append(Kill(phase, begin, total, total, total))
            begin = total
            continue
        fits = {
            "step": lambda step: step % SAVE and not is_evaluated(step),
            "line": lambda step: step % SAVE and not is_evaluated(step) and step % LOG == 0,
            "evaluation": is_evaluated,
            "save": lambda step: step % SAVE == 0 and step >= begin + 2 * SAVE,  # noqa: B023
            # an evaluated checkpoint may be the best one, which is kept
            "removal": lambda step: step % SAVE == 0 and step >= begin + 2 * SAVE and not is_evaluated(step - SAVE),  # noqa: B023
        }[phase.at]
        step = next(step for step in range(begin + SAVE + 1, begin + 100) if fits(step))
        complete = (step - 1) // SAVE * SAVE
        newest = step if phase.is_committed else complete
        kills.append(Kill(phase, begin, step, complete, newest))
        begin = newest
    return kills, total


KILLS, STEPS = plan()


def test_the_plan_saves_before_every_kill():
    assert len(KILLS) == len(PHASES) and STEPS % SAVE == 0
    assert all(kill.complete > kill.begin for kill in KILLS if kill.phase.at not in ("first step", "start", "end"))


def start(layout, out, corpus, cache, *more, kill=None, victim=0):
    """The processes of one run, one of which is killed."""
    every = ["--save-every", SAVE, "--evaluate-every", EVALUATE, "--log-every", LOG, "--steps", STEPS]
    small = ["--seq-len", "32", "--vocab-size", "200", "--batch-size", "8", "--passes", "2", "--dropout", "0.1"]
    arguments = ["pretrain", "--out", out, "--corpus", corpus, *small, *every, *LAYOUTS[layout], *more]
    found = []
    for index, join in enumerate(joining(2 if layout == "2 processes" else 1)):
        phase = [-1, 0, 0] if kill is None or index != victim else [PHASES.index(kill.phase), kill.step, kill.complete]
        launcher = [sys.executable, "-m", "tests.train.kill_matrix", *phase, out, "--"]
        found.append(processes.start([*launcher, *arguments, *join], cache))
    return found


def whole(layout, out, corpus, cache, *more):
    """Run a command to its end; return what it printed."""
    return succeeded(*start(layout, out, corpus, cache, *more))[0]


def killed(layout, out, corpus, cache, kill, victim):
    """Run or resume the command until it is killed; return what it printed."""
    reached(out).unlink(missing_ok=True)
    resume = ["--resume"] if (out / "run.json").exists() else []
    begun = time.time()
    found = ended(*start(layout, out, corpus, cache, "--keep", "1", *resume, kill=kill, victim=victim))
    assert found[victim][0] == -signal.SIGKILL, f"{kill} was not reached:\n{found[victim][1]}"
    assert reached(out).exists(), f"{kill}: killed by somebody else:\n{found[victim][1]}"
    lasted, alone = time.time() - begun, time.time() - reached(out).stat().st_mtime
    print(
        f"{layout}, {kill.phase.name}: step {kill.step}, process {victim}, {lasted:.1f} s, {alone:.1f} s after the kill"
    )
    assert alone < 60, "the other process ends by itself"
    return found[0][1]


def newest(out):
    """The number of the newest complete checkpoint, or 0."""
    return max((int(path.parent.name[5:]) for path in out.glob("checkpoints/step-*/digests.json")), default=0)


def checkpoint(out, step):
    """{name: dtype, shape and bytes of an array, or a value of run.json}"""
    folder = out / "checkpoints" / f"step-{step:08d}"
    with ocp.Checkpointer(ocp.PyTreeCheckpointHandler()) as reader:
        stored = reader.metadata(folder / "arrays").item_metadata.tree
        how = {name: ocp.RestoreArgs(restore_type=np.ndarray) for name in stored}
        arrays = reader.restore(folder / "arrays", args=ocp.args.PyTreeRestore(restore_args=how))
    about = read_json(folder / "run.json")
    values = {name: about.get(name) for name in ("step", "seed", "data", "unlogged", "faults", "metrics")}
    return {name: (array.dtype, array.shape, array.tobytes()) for name, array in arrays.items()} | values


def log(out):
    """The complete lines of the log."""
    return command.metrics(out)


def differences(out, reference, step):
    """What differs between the checkpoints of a step, and the logs: a cell of the table."""
    ours, theirs = checkpoint(out, step), checkpoint(reference, step)
    assert {"step", "seed", "data"} < ours.keys() and len(ours) > 40
    found = [name for name in ours | theirs if name not in ours or name not in theirs or ours[name] != theirs[name]]
    lines = log(out)
    if lines != log(reference)[: len(lines)] or not any(row["step"] >= step - LOG for row in lines):
        found.append("metrics.jsonl")
    return ", ".join(found[:3]) + f" and {len(found) - 3} more" * (len(found) > 3) if found else SAME


def read_table():
    """{phase: {layout: cell}}"""
    lines = README.read_text("utf-8").partition(BEGIN)[2].partition(END)[0].strip().splitlines()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return {row[0]: dict(zip(rows[0][1:], row[1:], strict=True)) for row in rows[2:]}


def write_table(cells):
    before, begin, rest = README.read_text("utf-8").partition(BEGIN)
    after = rest.partition(END)[2]
    assert begin and after, "the README has lost the marks of the table"
    lines = [["killed in", *LAYOUTS], ["---"] * (1 + len(LAYOUTS))]
    lines += [[phase.name, *(cells.get(phase.name, {}).get(layout, "") for layout in LAYOUTS)] for phase in PHASES]
    table = "\n".join("|" + "|".join(f" {cell} " if cell != "---" else cell for cell in line) + "|" for line in lines)
    with replacing(README) as part:
        part.write_text(f"{before}{BEGIN}\n\n{table}\n\n{END}{after}", "utf-8")


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    return command.write_corpus(tmp_path_factory.mktemp("matrix") / "corpus")


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


@pytest.mark.slow
@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_kill_in_any_phase_changes_no_bit(layout, corpus, cache, tmp_path):
    begun = time.monotonic()
    reference, out = tmp_path / "reference", tmp_path / "killed"
    whole(layout, reference, corpus, cache, "--keep", "100")
    print(f"{layout}: {STEPS} steps without a kill, {time.monotonic() - begun:.1f} s")
    cells: dict[str, str] = {}
    waiting: list[Kill] = []  # kills after which no checkpoint was compared yet
    victim, last = 0, 0
    for kill in KILLS:
        victim = 0 if kill.phase.only_first or layout != "2 processes" else 1 - victim
        said = killed(layout, out, corpus, cache, kill, victim)
        if kill.phase.at not in ("first step", "start"):
            again = "No complete checkpoint was found; starting again at step 0."
            assert (f"Resuming from the checkpoint of step {last:,}." if last else again) in said, said
        last = newest(out)
        assert last == kill.newest, f"{kill}: the newest checkpoint is that of step {last}\n{said}"
        if any(last > earlier.newest for earlier in waiting):
            same = differences(out, reference, last)
            cells |= {earlier.phase.name: same for earlier in waiting if last > earlier.newest}
            waiting = [earlier for earlier in waiting if last <= earlier.newest]
        waiting.append(kill)
    whole(layout, out, corpus, cache, "--keep", "1", "--resume")
    assert "has finished" in whole(layout, out, corpus, cache, "--keep", "1", "--resume")
    last = [differences(out, reference, newest(out))] if newest(out) else []
    files = [name for name in ("model.safetensors", "eval.json") if _bytes(out / name) != _bytes(reference / name)]
    rows = [] if log(out) == log(reference) else ["metrics.jsonl"]
    wrong = [*(cell for cell in last if cell != SAME), *files, *rows]
    cells |= {kill.phase.name: ", ".join(wrong) or SAME for kill in waiting}
    print(f"{layout}: {time.monotonic() - begun:.0f} s in all, {len(KILLS)} kills, {json.dumps(cells, indent=2)}")

    table = read_table()
    if os.environ.get("FUNCNET_WRITE") == "1":
        write_table({name: {**table.get(name, {}), layout: cell} for name, cell in cells.items()})
    else:
        assert {name: cells[name] for name in cells} == {name: row.get(layout) for name, row in table.items()}
    assert set(cells.values()) == {SAME}, cells
    assert wrong == []


def _bytes(path):
    return path.read_bytes()
