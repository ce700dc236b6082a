"""torch's test file of its loaders, from Debian's source package `pytorch`.

    python -m tests.data.torch_tests.source

fetches it into the user's cache, as `scripts/verify.sh data` does before its tests. No test fetches it.
"""

import subprocess
import tarfile
import tempfile
from pathlib import Path

import platformdirs

from tests.real_data import missing

__all__ = ["fetch", "torch_test_file"]

RELEASE = "trixie"  # its package is torch 2.6
KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"


def torch_test_file(name: str) -> Path:
    """The path of a file of torch's folder `test`.

    Skips where it was not fetched; with `FUNCNET_REAL_DATA=required` in the environment, fails.
    """
    kept = _kept(name)
    if not kept.exists():
        missing(f"torch's {name}", "tests.data.torch_tests.source")
    return kept


def _kept(name: str) -> Path:
    return Path(platformdirs.user_cache_dir("funcnet"), "torch-tests", RELEASE, name)


def fetch(name: str) -> None:
    """Fetch a file of torch's folder `test` into the user's cache, where it is not there yet."""
    kept = _kept(name)
    if kept.exists():
        return
    print(f"fetching torch's {name} from Debian's source package pytorch", flush=True)
    content = _content(name)
    kept.parent.mkdir(parents=True, exist_ok=True)
    part = kept.with_suffix(".part")
    part.write_bytes(content)
    part.replace(kept)


def _content(name: str) -> bytes:
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


if __name__ == "__main__":
    fetch("test_dataloader.py")
