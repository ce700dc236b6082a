"""Trials of `funcnet port` on classes that were chosen without a look at its rules, after these were written.

`python -m tests.porting.trial first|second|third [NAME …]` ports each class in a process of its own, and prints a line
for each, with its time. A class that fails is a finding, not a broken test. `published whisper` times a model of
`published.py` with its proof.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time

from funcnet.porting.port import port
from tests.porting import published, trial_first, trial_second, trial_third

__all__ = ["TRIALS"]

TRIALS = {
    "first": trial_first.CLASSES,
    "second": trial_second.CLASSES,
    "third": trial_third.CLASSES,
    "published": published.MODELS,
}
_MOST_SECONDS = 600  # for one class


def try_one(trial: str, name: str) -> None:
    """Port one class and print what came of it: equal, differs or failed."""
    model, begun = TRIALS[trial][name], time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        try:
            found = port(model.path, model.name, f"{folder}/out", construct=model.construct, example=model.example)
        except Exception as error:
            print(f"{name}: failed, {type(error).__name__}: {str(error)[:200]}")
            return
    assert found.proof is not None
    wrong = next((f"{check.name}: {check.note[:160]}" for check in found.proof.checks if not check.ok), "")
    blocked = sum(entry.level == "blocks" for entry in found.entries)
    verdict = "equal" if found.proof.ok else "differs"
    print(f"{name}: {verdict}, {blocked} lines blocked, {time.monotonic() - begun:.0f} s {wrong}")


def main(trial: str, names: list[str]) -> None:
    """Port the classes, each in its own process, and print how many are equal to torch's."""
    lines = []
    for name in names or TRIALS[trial]:
        command = [sys.executable, "-m", "tests.porting.trial", trial, "--one", name]
        try:
            said = subprocess.run(command, capture_output=True, text=True, timeout=_MOST_SECONDS).stdout
            lines.append(next((one for one in said.splitlines() if one.startswith(f"{name}: ")), f"{name}: failed"))
        except subprocess.TimeoutExpired:
            lines.append(f"{name}: not finished after {_MOST_SECONDS} s")
        print(lines[-1], flush=True)
    print(f"{sum(': equal' in one for one in lines)} of {len(lines)} are equal to torch's")


if __name__ == "__main__":
    which, *rest = sys.argv[1:]
    if rest[:1] == ["--one"]:
        try_one(which, rest[1])
    else:
        main(which, rest)
