"""Huge pages for the memory of a process, which make training steps on CPU a fifth to a third shorter.

XLA allocates memory again for each step, and Linux clears it page by page when it is first written. A step of
EfficientNet-lite0 writes 160,000 pages of 4 kB. With glibc.malloc.hugetlb=1, glibc asks for pages of 2 MB. It reads
this setting only when a process starts.
"""

import os
import sys
from pathlib import Path

__all__ = ["use_huge_pages"]

SETTING = "glibc.malloc.hugetlb"
VARIABLE = "GLIBC_TUNABLES"
LINUX = Path("/sys/kernel/mm/transparent_hugepage/enabled")


def use_huge_pages() -> None:
    """Replace this process by one with the same command and huge pages, if Linux and glibc have them and the
    environment does not choose otherwise: GLIBC_TUNABLES=glibc.malloc.hugetlb=0 turns them off.
    """
    chosen = os.environ.get(VARIABLE, "")
    if SETTING in chosen or not _offered():
        return
    os.environ[VARIABLE] = f"{chosen}:{SETTING}=1".lstrip(":")
    os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])


def _offered() -> bool:
    """Return whether processes may ask for huge pages, and glibc, since 2.35, can."""
    try:
        is_asked = "[madvise]" in LINUX.read_text("utf-8")
        name, _, version = (os.confstr("CS_GNU_LIBC_VERSION") or "").partition(" ")
        return is_asked and name == "glibc" and tuple(map(int, version.split("."))) >= (2, 35) and bool(sys.executable)
    except (OSError, ValueError):  # no Linux, or no glibc
        return False
