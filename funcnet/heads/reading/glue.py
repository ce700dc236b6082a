"""GLUE's folders, as its script unpacks them: the meaning of the columns of each task's files.

`CoLA SST-2 MRPC STS-B QQP MNLI QNLI RTE WNLI AX`: a folder holds `train.tsv`, `dev.tsv` (of MNLI
`dev_matched.tsv` and `dev_mismatched.tsv`) and `test.tsv` without labels; AX is a test alone (`diagnostic.tsv`).
"""

from dataclasses import dataclass
from pathlib import Path

from funcnet.heads.reading.examples import TextExample, as_number, place
from funcnet.heads.reading.tables import read_text, tab_rows

__all__ = ["GlueTask", "glue_task", "is_glues", "read_glue"]


@dataclass(frozen=True)
class GlueTask:
    """Columns by name, and the figure that GLUE reports first."""

    name: str
    text: str
    second: str | None
    label: str
    metric: str
    dev: str = "dev.tsv"
    is_number: bool = False


TASKS = (
    GlueTask("CoLA", "sentence", None, "label", "matthews"),
    GlueTask("SST-2", "sentence", None, "label", "accuracy"),
    GlueTask("MRPC", "#1 String", "#2 String", "Quality", "accuracy"),
    GlueTask("STS-B", "sentence1", "sentence2", "score", "spearman", is_number=True),
    GlueTask("QQP", "question1", "question2", "is_duplicate", "accuracy"),
    GlueTask("MNLI", "sentence1", "sentence2", "gold_label", "accuracy", dev="dev_matched.tsv"),
    GlueTask("QNLI", "question", "sentence", "label", "accuracy"),
    GlueTask("RTE", "sentence1", "sentence2", "label", "accuracy"),
    GlueTask("WNLI", "sentence1", "sentence2", "label", "accuracy"),
    GlueTask("AX", "sentence1", "sentence2", "label", "matthews", dev="diagnostic.tsv"),
)
COLA_COLUMNS = ["source", "label", "star", "sentence"]  # its train.tsv and dev.tsv have no line of names


def glue_task(path: str | Path) -> GlueTask | None:
    """The task that the folder, or the folder of the file, is named after; None for any other name.

    >>> glue_task("glue_data/CoLA/dev.tsv").metric
    'matthews'
    """
    path = Path(path)
    folder = path.name if path.suffix.lower() != ".tsv" else path.parent.name
    plain = "".join(folder.lower().split("-"))
    return next((task for task in TASKS if "".join(task.name.lower().split("-")) == plain), None)


def is_glues(path: Path, task: GlueTask) -> bool:
    """Whether a file begins as GLUE's do: a folder of that name may hold a table of one's own."""
    if not path.is_file():
        return False
    with path.open(encoding="utf-8-sig", errors="replace") as file:
        columns = file.readline().rstrip("\n").split("\t")
    return task.text in columns or (task.name == "CoLA" and len(columns) == len(COLA_COLUMNS))


def read_glue(path: str | Path, task: GlueTask, *, labelled: bool = True) -> tuple[list[TextExample], list[int]]:
    """The examples of one of GLUE's files.

    QQP's own files have lines with too few columns. Every reader of GLUE leaves them out; so does this one, which
    returns their numbers.

    Args:
        path: the file.
        task: from `glue_task`.
        labelled: whether to read labels; test files have none.

    Returns:
        (the examples, the lines of QQP that were left out).

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: a ragged row, a missing column, a label that is no number in STS-B.
    """
    path = Path(path)
    rows = list(tab_rows(read_text(path)))
    headless = task.name == "CoLA" and rows and len(rows[0][1]) == 4 and rows[0][1][0] != "index"
    columns = COLA_COLUMNS if headless else rows[0][1] if rows else []
    wanted = [task.text, *([task.second] if task.second else []), *([task.label] if labelled else [])]
    missing = [name for name in wanted if name not in columns]
    if missing:
        raise ValueError(
            f"read_glue: {path}, line 1: no column {missing[0]!r} of {task.name}; expected {', '.join(wanted)}, got "
            f"{', '.join(columns)}. Name a file of {task.name}{'' if not labelled else ' with labels'}."
        )
    at = {name: columns.index(name) for name in wanted}
    examples, left_out = [], []
    for line, cells in rows if headless else rows[1:]:
        if len(cells) != len(columns):
            if task.name != "QQP":
                raise ValueError(
                    f"read_glue: {place(path, line)}: a ragged row; expected {len(columns)} columns "
                    f"({', '.join(columns)}), got {len(cells)}."
                )
            left_out.append(line)
            continue
        second = cells[at[task.second]] if task.second else None
        label = _label(path, line, cells[at[task.label]], task) if labelled else None
        examples.append(TextExample(cells[at[task.text]], second, label, place(path, line), task.label))
    return examples, left_out


def _label(path: Path, line: int, cell: str, task: GlueTask) -> str | float:
    where = f"read_glue: {place(path, line)}, column {task.label!r}"
    if task.is_number:
        return as_number(where, cell)
    if not cell:
        raise ValueError(f"{where}: expected a label, got nothing. Give every row one.")
    return cell
