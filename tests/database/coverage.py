"""docs/coverage.md from what the tests left behind: what was compared with torch, and how far apart it was.

    export FUNCNET_COVERAGE=$(mktemp -d)
    sh scripts/test.sh -n 2 -m "slow or not slow" tests/database tests/nn/test_layers.py
    python -m tests.database coverage "$FUNCNET_COVERAGE" --speed ratios.json  # scripts/benchmarks/layers.py --json
    python -m tests.database coverage "$FUNCNET_COVERAGE" --check              # is the page still true?

A page is still true if it names the same entries and inputs and nothing failed: differences and times vary with the
machine, and are those of the run that wrote it.
"""

import argparse
import json
import re
from collections import defaultdict
from pathlib import Path
from typing import Any

import torch

from funcnet import functional as F
from funcnet import nn

PAGE = Path(__file__).parents[2] / "docs" / "coverage.md"
HEAD = """# Coverage: what is compared with torch, and the largest differences

The tests write this page (`tests/database/coverage.py` says how). The databases are torch's own: `module_db` and
`op_db` of torch {version}. *Worst* is the largest difference over all inputs, for outputs, buffers, and gradients of
every parameter and floating input. Each difference is divided by the largest entry of torch's tensor in float64. Where
it is large, torch's own float32 differs as much from its float64 (`tests/database/differences.py` defines the rule).
"""

OWN = "Modules that torch's database lacks, tested with our own inputs (`tests/layers`)"
SPEED = """## Speed

The table shows the time of forward and backward under `jit` on two cores of a CPU, divided by the time of torch eager
and by the time of the same operation in bare XLA. All were measured in the same turns by `scripts/benchmarks/layers.py`
(median, quartiles), with huge pages for all (`GLIBC_TUNABLES=glibc.malloc.hugetlb=1`). The record about
[native kernels](decisions/2026-11-28-native-kernels.md) gives the reasons where torch is faster.
"""


def record(kind: str, name: str, dtype: str, inputs: int, worst: float, failures: Any, folder: str | None) -> None:
    """Leaves one result in `folder`."""
    if folder:
        values = {"kind": kind, "name": name, "dtype": dtype, "inputs": inputs, "worst": worst, "failures": failures}
        place = re.sub(r"[^\w.-]", "_", f"{kind}-{name}-{dtype}-{inputs}")
        Path(folder, f"{place}.json").write_text(json.dumps(values))


def page(folder: Path, speed: Path | None) -> str:
    records = [json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))]
    if failed := [r["name"] for r in records if r["failures"]]:
        raise SystemExit(f"these failed, and the page cannot be written: {failed}")
    found: dict[str, dict[str, dict[str, Any]]] = defaultdict(lambda: defaultdict(dict))
    for r in records:
        old = found[r["kind"]][r["name"]].get(r["dtype"], {"inputs": 0, "worst": 0.0})
        found[r["kind"]][r["name"]][r["dtype"]] = {
            "inputs": old["inputs"] + (1 if r["kind"] == "row" else r["inputs"]),
            "worst": max(old["worst"], r["worst"]),
        }
    times = ratios(speed)
    parts = [HEAD.format(version=torch.__version__.split("+")[0])]
    narrow, wide = "float32", "float64"

    parts.append("## Modules in torch's database\n")
    rows = [
        [name, *(cell for dtype in (narrow, wide) for cell in counted(r.get(dtype))), times.get(name, "")]
        for name, r in sorted(found["module"].items())
    ]
    head = ["module", "inputs, float32", "worst", "inputs, float64", "worst", "time over torch eager"]
    parts.append(table(head, rows))

    modules, functions = in_databases()
    others = {name: r for name, r in found["row"].items() if name not in modules}
    parts.append(f"## {OWN}\n")
    rows = [[name, *counted(r[narrow]), times.get(name, "")] for name, r in sorted(others.items())]
    parts.append(table(["module", "rows", "worst, float32", "time over torch eager"], rows))
    held = modules | set(others)
    elsewhere = sorted(name for name in torch_modules() if name not in held and name in vars(nn))
    parts.append("## Containers, base classes and other modules with separate tests\n")
    parts.append(table(["module", "tests"], [[name, tests_of(name)] for name in elsewhere]))

    parts.append("## Functions in torch's database\n")
    rows = [[name, *counted(r[narrow])] for name, r in sorted(found["function"].items())]
    parts.append(table(["function", "samples", "worst, float32"], rows))
    held = {name.split("/")[0] for name in functions}
    parts.append("## Functions that torch's database lacks\n")
    parts.append(table(["function", "tests"], [[name, tests_of(name)] for name in sorted(set(F.__all__) - held)]))

    parts.append("## Invalid inputs that both libraries refuse\n")
    rows = [[name, str(r[narrow]["inputs"])] for name, r in sorted(found["refusal"].items())]
    parts.append(table(["entry", "error inputs refused"], rows))

    parts.append("## Names that are missing, and what to use instead\n")
    rows = [[f"nn.{n}", why] for n, why in sorted(nn.core.absent.ABSENT.items())]
    rows += [[f"F.{n}", why] for n, why in sorted(F.absent.ABSENT.items())]
    parts.append(table(["name", "instead"], rows))
    if speed:
        parts += [SPEED, table(["family", "layer and inputs", "over torch eager", "over bare XLA"], timed(speed))]
    return "\n".join(parts)


def timed(speed: Path) -> list[list[str]]:
    """[family, case, median and quartiles over torch's, over bare XLA's]."""
    show = lambda r: f"{r[1]:.2f} ({r[0]:.2f} to {r[2]:.2f})" if r else ""
    return [[r["family"], r["case"], show(r["torch"]), show(r.get("bare"))] for r in json.loads(speed.read_text())]


def counted(result: dict[str, Any] | None) -> list[str]:
    """[inputs, worst difference]; blank where there was no such run."""
    return ["", ""] if result is None else [str(result["inputs"]), show(result["worst"])]


def tests_of(name: str) -> str:
    """The test files that say the name most often, as one of ours; `f"lp_pool{ndim}d"` says three."""
    written = re.sub(r"\d", r"(?:\\d|\\{\\w+\\})", name)
    said = re.compile(rf"\b(?:nn|F|rnn|lib)\.{written}\b|[\"']{written}[\"']")
    counts = {path: len(said.findall(path.read_text())) for path in sorted(PAGE.parents[1].glob("tests/**/test_*.py"))}
    files = sorted((path for path, count in counts.items() if count), key=lambda path: -counts[path])
    if not files:
        raise SystemExit(f"no test says {name}")
    return ", ".join(str(path.relative_to(PAGE.parents[1])) for path in files[:2])


def in_databases() -> tuple[set[str], set[str]]:
    """The names of the modules and of the functions that the tests compare."""
    from tests.database import functions, modules  # they import this file

    return set(modules.MODULES), set(functions.FUNCTIONS)


def torch_modules() -> list[str]:
    return [n for n, v in vars(torch.nn).items() if isinstance(v, type) and issubclass(v, torch.nn.Module)]


def ratios(path: Path | None) -> dict[str, str]:
    """{module: median time over torch's, of each case}."""
    out: dict[str, list[str]] = defaultdict(list)
    for r in json.loads(path.read_text()) if path else []:
        out[r["case"].split("(")[0]].append(f"{r['torch'][1]:.2f}")
    return {name: ", ".join(values) for name, values in out.items()}


def show(difference: float) -> str:
    return "0" if difference == 0 else f"{difference:.0e}"


def table(head: list[str], rows: list[list[str]]) -> str:
    line = lambda cells: "| " + " | ".join(cells) + " |"
    return "\n".join([line(head), line(["---"] * len(head)), *map(line, rows)]) + "\n"


def claims(text: str) -> list[str]:
    """The names of a page and the counts behind them, its speed apart: what must not change unseen."""
    found = []
    for section in text.partition("## Speed")[0].split("\n## "):
        rows = [line.strip("| ").split(" | ") for line in section.splitlines() if line.startswith("| ")]
        found += [" ".join(row[: 1 + row[1].isdigit()]) for row in rows]
    return found


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.database coverage", description=__doc__)
    parser.add_argument("folder", type=Path, help="where the tests left their results")
    parser.add_argument("--speed", type=Path, help="what scripts/benchmarks/layers.py --json wrote")
    parser.add_argument("--check", action="store_true", help="compare with docs/coverage.md instead of writing it")
    given = parser.parse_args(arguments)
    text = page(given.folder, given.speed)
    if not given.check:
        PAGE.write_text(text)
        return 0
    apart = sorted(set(claims(text)) ^ set(claims(PAGE.read_text())))
    if apart:
        print(f"docs/coverage.md is not what the tests found; write it anew. Different: {apart[:10]}")
    return 1 if apart else 0
