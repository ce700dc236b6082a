"""The place in a source from which an exception came."""

from funcnet.porting.errors import PortError, place_of


def test_the_last_line_of_the_files_that_the_error_passed_through(tmp_path):
    file = tmp_path / "source.py"
    file.write_text("def inner():\n    return 1 / 0\n\ndef outer():\n    return inner()\n")
    names: dict = {}
    exec(compile(file.read_text(), str(file), "exec"), names)
    try:
        names["outer"]()
    except ZeroDivisionError as error:
        assert place_of(error, {str(file)}) == f"{file}:2 (return 1 / 0)"
        assert place_of(error, {"elsewhere.py"}) == ""
    assert issubclass(PortError, ValueError)
