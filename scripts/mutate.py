"""Break funcnet in small ways, one file at a time, and see whether the tests notice.

    python3 scripts/mutate.py                 # 20 files
    python3 scripts/mutate.py --show          # prints the mutations only
    python3 scripts/mutate.py --quick         # runs the quick tests only

A fixed seed draws the files and one mutation in each: a sign, a bound, an axis, or an update that is dropped. Each
mutation is made in a clone of the last commit, with an environment of its own. The quick tests of the same folder run
first and stop at the first failure; if they pass, all the quick tests run; if these pass too, the areas of
`scripts/verify.sh` that the file reaches. A mutation that no test notices is a test to write, unless the mutated
program is equivalent to the original one, which a person must judge.
"""

import argparse
import ast
import hashlib
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
SIGNS = {ast.Add: "-", ast.Sub: "+", ast.Mult: "+", ast.Div: "*"}
QUICK = ["scripts/test.sh", "quick"]
BOUNDS = {ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">"}


class Mutation(NamedTuple):
    """A change of the source between two offsets."""

    kind: str
    start: int
    end: int
    text: str


def mutations(source: str) -> Iterator[Mutation]:
    """Yield all mutations of a file."""
    lines = source.encode().splitlines(keepends=True)
    offset = lambda line, column: sum(map(len, lines[: line - 1])) + column
    begin = lambda node: offset(node.lineno, node.col_offset)
    end = lambda node: offset(node.end_lineno, node.end_col_offset)
    text = source.encode()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.BinOp) and type(node.op) in SIGNS and not _is_text(node):
            between = text[end(node.left) : begin(node.right)].decode()
            old = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/"}[type(node.op)]
            if between.count(old) == 1:
                yield Mutation("sign", end(node.left), begin(node.right), between.replace(old, SIGNS[type(node.op)]))
        elif isinstance(node, ast.Compare) and type(node.ops[0]) in BOUNDS:
            operator = BOUNDS[type(node.ops[0])]
            yield Mutation("bound", end(node.left), begin(node.comparators[0]), f" {operator} ")
        elif isinstance(node, ast.keyword) and node.arg in ("axis", "dim", "axes") and _is_number(node.value):
            yield Mutation("axis", begin(node.value), end(node.value), "1" if ast.unparse(node.value) == "0" else "0")
        elif isinstance(node, ast.AugAssign) or _is_stored(node):
            yield Mutation("dropped update", begin(node), end(node), "pass")


def _is_text(node: ast.BinOp) -> bool:
    return any(isinstance(side, ast.JoinedStr | ast.List | ast.Tuple) for side in (node.left, node.right)) or any(
        isinstance(side, ast.Constant) and isinstance(side.value, str) for side in (node.left, node.right)
    )


def _is_number(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant | ast.UnaryOp)


def _is_stored(node: ast.AST) -> bool:
    return isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Attribute | ast.Subscript)


def drawn(count: int, seed: int) -> list[tuple[Path, Mutation]]:
    """Draw files, and a mutation in each, by checksums of names and lines.

    A new file or a changed line then changes only its own draw.
    """
    rank = lambda *parts: hashlib.sha256("\n".join([str(seed), *map(str, parts)]).encode()).hexdigest()
    chosen = []
    for file in sorted((ROOT / "funcnet").rglob("*.py"), key=lambda file: rank(file.relative_to(ROOT))):
        content = file.read_bytes()
        line = lambda mutation, content=content: content[: mutation.end].rpartition(b"\n")[2].decode()
        if (found := list(mutations(content.decode()))) and len(chosen) < count:
            chosen.append((file.relative_to(ROOT), min(found, key=lambda one: rank(one.kind, line(one)))))
    return chosen


def noticed(clone: Path, *command: str, hours: float = 0.5) -> str | None:
    """Return the first test that fails, or None. A program that no longer ends is noticed too."""
    variables = {"PYTEST_ADDOPTS": "-x --tb no --disable-warnings"}
    process = subprocess.Popen(
        ["sh", *command],
        cwd=clone,
        env=os.environ | variables,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        output, _ = process.communicate(timeout=hours * 3600)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        return "does not end"
    failures = [line for line in output.splitlines() if line.startswith(("FAILED", "ERROR"))]
    if failures:
        return failures[0][:120]
    return None if process.returncode in (0, 5) else f"exit code {process.returncode}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=20, help="number of files")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--show", action="store_true", help="print the mutations, and run no test")
    parser.add_argument("--quick", action="store_true", help="run the quick tests, and not the areas")
    parser.add_argument("--only", type=int, nargs="+", help="numbers of mutations to try, from 1")
    options = parser.parse_args()
    quick = caught = 0
    tried = [(n, *one) for n, one in enumerate(drawn(options.count, options.seed), 1)]
    tried = [one for one in tried if not options.only or one[0] in options.only]
    with tempfile.TemporaryDirectory() as folder:
        clone = Path(folder, "funcnet")
        subprocess.run(["git", "clone", "--quiet", str(ROOT), str(clone)], check=True)
        for number, file, mutation in tried:
            content = (clone / file).read_bytes()
            line = content[: mutation.start].count(b"\n") + 1
            old = content[mutation.start : mutation.end].decode()
            print(f"{number}. {file}:{line}: {mutation.kind}: {old.strip()!r} -> {mutation.text.strip()!r}", flush=True)
            if options.show:
                continue
            if not (clone / ".venv").exists():
                subprocess.run(["sh", "scripts/test.sh", "--version"], cwd=clone, check=True)
            (clone / file).write_bytes(content[: mutation.start] + mutation.text.encode() + content[mutation.end :])
            start = time.monotonic()
            own = Path("tests", *file.parts[1:-1])
            found = noticed(clone, *QUICK, str(own), str(file)) if (clone / own).is_dir() else None
            found = found or noticed(clone, *QUICK, "-n", "2", "--dist", "worksteal")
            quick += found is not None
            where = "quick"
            if found is None and not options.quick:
                found, where = noticed(clone, "scripts/verify.sh", "changed", hours=3), "areas"
            caught += found is not None
            print(f"   {where}: {found or 'NOT NOTICED'} ({time.monotonic() - start:.0f} s)", flush=True)
            (clone / file).write_bytes(content)
    if not options.show:
        print(f"noticed by the quick tests: {quick} of {len(tried)}; by these and the areas: {caught} of {len(tried)}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
