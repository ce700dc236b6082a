"""Fetches a test file of torch from Debian's source package `pytorch`."""

import os
import subprocess
import tarfile
import tempfile
from pathlib import Path

import platformdirs
import pytest

__all__ = ["torch_test_file"]

RELEASE = "trixie"  # its package is torch 2.6
KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"


def torch_test_file(name: str) -> Path:
    """The path of a file of torch's folder `test`. It is fetched once and kept in the user's cache.

    Skips where it cannot be fetched; with `FUNCNET_REAL_DATA=required` in the environment, fails.
    """
    kept = Path(platformdirs.user_cache_dir("funcnet"), "torch-tests", RELEASE, name)
    if kept.exists():
        return kept
    try:
        content = _fetch(name)
    except (OSError, subprocess.CalledProcessError, LookupError) as error:
        said = f"torch's {name} cannot be fetched from Debian's source package pytorch: {error}"
        if os.environ.get("FUNCNET_REAL_DATA") == "required":
            pytest.fail(said)
        pytest.skip(said)
    kept.parent.mkdir(parents=True, exist_ok=True)
    part = kept.with_suffix(".part")
    part.write_bytes(content)
    part.replace(kept)
    return kept


def _fetch(name: str) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        lists = Path(folder, "lists", "partial")
        lists.mkdir(parents=True)
        sources = Path(folder, "sources.list")
        sources.write_text(f"deb-src [signed-by={KEYRING}] http://deb.debian.org/debian {RELEASE} main\n")
        options = {
            "Dir::Etc::sourcelist": sources,
            "Dir::Etc::sourceparts": "-",
            "Dir::State::lists": lists.parent,
            "Dir::Cache": folder,
            "APT::Sandbox::User": "",
        }
        command = ["apt-get", "-qq", *(f"-o{key}={value}" for key, value in options.items())]
        subprocess.run([*command, "update"], check=True, capture_output=True)
        subprocess.run([*command, "source", "--download-only", "pytorch"], check=True, capture_output=True, cwd=folder)
        archive = next(Path(folder).glob("pytorch_*.orig.tar.*"))
        with tarfile.open(archive) as tar:
            for member in tar:
                if member.name.endswith(f"/test/{name}"):
                    file = tar.extractfile(member)
                    assert file is not None
                    return file.read()
    raise LookupError(f"{archive.name} has no test/{name}")
