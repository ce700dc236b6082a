"""A page in headless Chromium, driven by its command line alone."""

import http.server
import json
import os
import re
import shutil
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from html import unescape
from pathlib import Path
from typing import Any

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
TIME = 60_000  # milliseconds of the page's own clock, which runs only while nothing is loading

HARNESS = """<!doctype html><meta charset="utf-8"><link rel="icon" href="data:,"><pre id="result">nothing</pre>
<iframe id="frame" src="/page/index.html" width="800" height="900"></iframe>
<script>
frame.onload = async () => {
  const page = frame.contentWindow;
  const work = async () => { await page.funcnet.ready; BODY };
  result.textContent = JSON.stringify(await work().catch((error) => ({ error: String(error) })));
};
</script>
"""


def chromium() -> str:
    """Return the path of a Chromium. Without one, the test skips; with FUNCNET_REAL_DATA=required, it fails."""
    found = os.environ.get("FUNCNET_CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)
    if found:
        return found
    lacking = "no Chromium was found: apt-get install chromium, or set FUNCNET_CHROMIUM to a browser"
    if os.environ.get("FUNCNET_REAL_DATA") == "required":
        pytest.fail(lacking)
    pytest.skip(lacking)


def dumped(address: str, profile: Path) -> str:
    """Return the HTML of a page after its scripts have run, without the scripts themselves."""
    command = [
        chromium(),
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        f"--user-data-dir={profile}",
        f"--virtual-time-budget={TIME}",
        "--dump-dom",
        address,
    ]
    done = subprocess.run(command, capture_output=True, timeout=300, check=True)
    return re.sub(r"<(script|style).*?</\1>", "", done.stdout.decode(), flags=re.DOTALL)


@contextmanager
def served(folder: Path) -> Iterator[tuple[str, list[str]]]:
    """Serve a folder, and yield its address and the list of paths that are asked for."""
    asked: list[str] = []

    class Handler(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_: Any) -> None:
            asked.append(self.path)

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=str(folder)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", asked
    finally:
        server.shutdown()


def in_page(folder: Path, body: str, profile: Path) -> tuple[Any, list[str]]:
    """Run JavaScript beside the page in `folder`/page, whose window is `page`.

    Returns:
        What the script returned, and the paths that the browser asked for.
    """
    (folder / "harness.html").write_text(HARNESS.replace("BODY", body), "utf-8")
    with served(folder) as (address, asked):
        text = dumped(f"{address}/harness.html", profile)
    found = re.search(r'<pre id="result">(.*?)</pre>', text, flags=re.DOTALL)
    assert found, text[:2000]
    return json.loads(unescape(found[1])), asked
