"""The command starts again with huge pages, once, where Linux and glibc offer them."""

import os
import subprocess
import sys

import pytest

from funcnet.cli import huge_pages

PROGRAM = """
import os, sys
from funcnet.cli.huge_pages import use_huge_pages
use_huge_pages()
print(os.getpid(), os.environ.get("GLIBC_TUNABLES") or "-", *sys.argv)
"""


@pytest.mark.parametrize("chosen", ["", "glibc.malloc.check=0", "glibc.malloc.hugetlb=0"])
def test_a_process_starts_again_with_its_arguments(chosen):
    environment = {**os.environ, "GLIBC_TUNABLES": chosen}
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, "one", "two words"], env=environment, stdout=subprocess.PIPE, text=True
    )
    number, setting, *arguments = process.communicate()[0].split(maxsplit=2)
    expected = chosen
    if huge_pages._offered() and "hugetlb" not in chosen:
        expected = f"{chosen}:glibc.malloc.hugetlb=1".lstrip(":")
    assert (int(number), setting, *arguments) == (process.pid, expected or "-", "-c one two words\n")


@pytest.mark.parametrize(
    ("pages", "library", "offered"),
    [
        ("always [madvise] never", "glibc 2.36", True),
        ("[always] madvise never", "glibc 2.36", False),  # all memory has them
        ("always madvise [never]", "glibc 2.36", False),
        ("always [madvise] never", "glibc 2.34", False),
        ("always [madvise] never", None, False),
        (None, "glibc 2.36", False),  # another system
    ],
)
def test_where_they_are_offered(monkeypatch, tmp_path, pages, library, offered):
    if pages:
        (tmp_path / "enabled").write_text(pages)
    monkeypatch.setattr(huge_pages, "LINUX", tmp_path / "enabled")
    monkeypatch.setattr(os, "confstr", lambda name: library)
    assert huge_pages._offered() is offered
