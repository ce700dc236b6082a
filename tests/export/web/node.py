"""Runs the scripts of a page in Node.js."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

from funcnet.export import web

FOLDER = Path(web.__file__).parent
NODE = os.environ.get("FUNCNET_NODE", "node")


def run(script: str, given: Any, folder: Path) -> Any:
    """Run a script that reads `given` and returns JSON data. It has everything that the page's scripts export.

    Args:
        script: the body of an asynchronous function.
        given: JSON data.
        folder: folder for the data, such as `tmp_path`.
    """
    file = folder / "given.json"
    file.write_text(json.dumps(given), "utf-8")
    imports = "".join(
        f"import * as {name} from {json.dumps((FOLDER / f'{name}.js').as_uri())};\n"
        for name in ("tokenizer", "model", "windows", "answers")
    )
    text = (
        f"import {{ readFileSync }} from 'node:fs';\n{imports}"
        f"const given = JSON.parse(readFileSync({json.dumps(str(file))}, 'utf8'));\n"
        f"const body = async () => {{ {script} }};\n"
        "process.stdout.write(JSON.stringify(await body()));"
    )
    done = subprocess.run([NODE, "--input-type=module", "-e", text], capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
    return json.loads(done.stdout)


def encoded(data: Any, texts: list[Any], folder: Path) -> list[tuple[list[int], list[list[int]]]]:
    """Return the ids and the places of tokens that `tokenizer.js` finds, with `data` of `tokenizer_data`.

    Places are [start, end] in units of UTF-16, without those of [CLS] and [SEP].
    """
    script = """
      const one = new tokenizer.Tokenizer(given.data);
      const places = (text) => one.located(text).map(({ start, end }) => [start, end]);
      return given.texts.map((text) => [one.encode(text).ids, places(text)]);
    """
    return run(script, {"data": data, "texts": texts}, folder)


def utf16(text: str, place: int) -> int:
    """Return a place in a text as JavaScript counts it, in units of UTF-16; -1 stays -1."""
    return len(text[:place].encode("utf-16-le")) // 2 if place >= 0 else place
