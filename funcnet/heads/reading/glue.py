"""Reads the folders that GLUE's download script unpacks.

The folders are `CoLA SST-2 MRPC STS-B QQP MNLI QNLI RTE WNLI AX`. Each folder has `train.tsv`, `dev.tsv` and a
`test.tsv` without labels. MNLI has `dev_matched.tsv` and `dev_mismatched.tsv` instead of `dev.tsv`, and AX has only a
test file, `diagnostic.tsv`.
"""

from dataclasses import dataclass
from pathlib import Path

from funcnet.heads.reading.examples import TextExample, place
from funcnet.heads.reading.labels import as_class, as_number
from funcnet.heads.reading.tables import read_text, tab_rows

__all__ = ["GlueTask", "glue_task", "is_glues", "read_glue"]


@dataclass(frozen=True)
class GlueTask:
    """A task of GLUE, with the names of its columns and the metric that GLUE reports first."""

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
COLA_COLUMNS = ["source", "label", "star", "sentence"]  # train.tsv and dev.tsv of CoLA have no header line


def glue_task(path: str | Path) -> GlueTask | None:
    """Return the task that has the same name as the folder, or None if there is no such task.

    If `path` is a file, the name of the folder that contains it is used.

    >>> glue_task("glue_data/CoLA/dev.tsv").metric
    'matthews'
    """
    path = Path(path)
    folder = path.name if path.suffix.lower() != ".tsv" else path.parent.name
    plain = "".join(folder.lower().split("-"))
    return next((task for task in TASKS if "".join(task.name.lower().split("-")) == plain), None)


def is_glues(path: Path, task: GlueTask) -> bool:
    """Return whether the first line of a file has the columns of a GLUE task's files.

    The name of a folder is not enough, because other folders may have the name of a task too. CoLA's files have no
    header line, so only the number of their columns is compared.
    """
    if not path.is_file():
        return False
    with path.open(encoding="utf-8-sig", errors="replace") as file:
        columns = file.readline().rstrip("\n").split("\t")
    return task.text in columns or (task.name == "CoLA" and len(columns) == len(COLA_COLUMNS))


def read_glue(path: str | Path, task: GlueTask, *, labelled: bool = True) -> tuple[list[TextExample], list[int]]:
    """Read the examples of a file of GLUE.

    QQP's original files have lines with a wrong number of columns. Like other readers of GLUE, this function skips
    these lines.

    Args:
        path: file of GLUE.
        task: the task of GLUE to which the file belongs, from `glue_task`.
        labelled: whether to read labels. Test files have no labels.

    Returns:
        (examples, line numbers of the skipped lines).

    Raises:
        FileNotFoundError: if the file is missing.
        ValueError: if a row has the wrong number of columns, a column is missing, or a label of STS-B is not a number.
    """
    path = Path(path)
    rows = list(tab_rows(read_text(path)))
    headless = task.name == "CoLA" and rows and len(rows[0][1]) == 4 and rows[0][1][0] != "index"
    columns = COLA_COLUMNS if headless else rows[0][1] if rows else []
    wanted = [task.text, *([task.second] if task.second else []), *([task.label] if labelled else [])]
    missing = [name for name in wanted if name not in columns]
    if missing:
        raise ValueError(
            f"read_glue: {path}, line 1: no column {missing[0]!r}; expected {task.name}'s columns {', '.join(wanted)}, "
            f"got {', '.join(columns)}. Pass a file of {task.name}{'' if not labelled else ' with labels'}."
        )
    at = {name: columns.index(name) for name in wanted}
    examples, left_out = [], []
    for line, cells in rows if headless else rows[1:]:
        if len(cells) != len(columns):
            if task.name != "QQP":
                raise ValueError(
                    f"read_glue: {place(path, line)}: wrong number of columns; expected {len(columns)} columns "
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
    return as_number(where, cell) if task.is_number else as_class(where, cell)
