"""Settings of commands: groups put together, ranges, records."""

import dataclasses
from pathlib import Path
from typing import Annotated

import pytest
import tyro

from funcnet.settings import Range, check_ranges, compose, defaults, flag, flat, from_record, recorded, with_helps


@dataclasses.dataclass(frozen=True)
class Inner:
    language: str = "en"
    share: Annotated[float, Range(0, 1, below=True)] = 0.05


@dataclasses.dataclass(frozen=True)
class Command:
    out: Path
    inner: Inner = dataclasses.field(default_factory=lambda: Inner(share=0.1))
    rate: Annotated[float, Range(0)] | None = None
    lengths: Annotated[tuple[int, ...], Range(5)] = (128,)


def test_flat_and_compose_are_opposites():
    made = compose(Command, out=Path("a"), language="de", rate=1.0)
    assert made == Command(Path("a"), Inner("de", 0.1), 1.0)
    assert compose(Command, **flat(made)) == made
    assert recorded(made, leave_out=("out",)) == {"language": "de", "share": 0.1, "rate": 1.0, "lengths": [128]}
    assert defaults(Command) == {"language": "en", "share": 0.1, "rate": None, "lengths": (128,)}
    assert flag("batch_size") == "--batch-size"


def test_a_record_is_read_back():
    made = compose(Command, out=Path("a"), language="de", lengths=(8, 16))
    assert from_record(Command, recorded(made, leave_out=("out",)), out=Path("a")) == made
    older = {"language": "de"}
    assert from_record(Command, older, out=Path("a")) == compose(Command, out=Path("a"), language="de")
    for edited in ({"laguage": "de"}, {"out": 5}):
        with pytest.raises(TypeError):
            from_record(Command, edited)


def test_unknown_and_doubled_names_are_refused():
    with pytest.raises(TypeError, match="no setting 'laguage'"):
        compose(Command, out=Path("a"), laguage="de")

    @dataclasses.dataclass(frozen=True)
    class Doubled:
        first: Inner = Inner()
        second: Inner = Inner()

    with pytest.raises(TypeError, match="in two groups"):
        flat(Doubled())


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"share": 1.0}, "data build: --share is out of range; expected from 0 to below 1, got 1.0."),
        ({"rate": -1.0}, "data build: --rate is out of range; expected at least 0, got -1.0."),
        ({"lengths": (128, 4)}, "data build: --lengths is out of range; expected at least 5, got 4."),
    ],
)
def test_numbers_outside_their_range_are_refused(values, message):
    check_ranges(compose(Command, out=Path("a")), "data build")
    with pytest.raises(ValueError) as refused:
        check_ranges(compose(Command, out=Path("a"), **values), "data build")
    assert str(refused.value) == message


def test_what_a_range_says():
    said = [str(Range(1)), str(Range(0, 1, above=True)), str(Range(1, 4096)), str(Range(0, 2**63 - 1))]
    assert said == ["at least 1", "above 0 and at most 1", "1 to 4096", "0 to 2**63 - 1"]


@with_helps
@dataclasses.dataclass(frozen=True)
class Documented:
    """A command."""

    first: int = 1
    """A text that is
    on two lines."""
    second: Annotated[int, Range(0)] = 2
    """Another text."""
    third: int = 3


def test_helps_are_paragraphs_and_fields_stay_what_they_are(monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "200")
    with pytest.raises(SystemExit):
        tyro.cli(Documented, args=["--help"])
    said = capsys.readouterr().out
    assert "A text that is on two lines." in said and "Another text." in said
    assert tyro.cli(Documented, args=["--first", "5"]) == Documented(5)
    with pytest.raises(ValueError, match="--second is out of range; expected at least 0, got -1"):
        check_ranges(Documented(second=-1), "command")
