"""The HTML of a page: its scripts are one, its bytes come back, and no text ends a script."""

import json
import re
import subprocess

import numpy as np

from funcnet.export.web.html import joined_scripts, page_html, planes
from tests.export.web.node import FOLDER, NODE, run


def test_the_scripts_are_joined_into_one(tmp_path):
    script = tmp_path / "page.mjs"
    script.write_text(joined_scripts())
    assert not re.search(r"^\s*(import|export) ", joined_scripts(), flags=re.MULTILINE)
    assert "</script" not in joined_scripts()
    subprocess.run([NODE, "--check", str(script)], check=True)


def test_planes_are_joined_again(tmp_path):
    for count in (0, 3, 4, 4003):
        content = bytes(np.random.default_rng(0).integers(0, 256, count, np.uint8))
        got = run("return [...model.joinPlanes(Uint8Array.from(given))]", [*planes(content)], tmp_path)
        assert bytes(got) == content


def test_the_text_of_a_page_cannot_end_its_script():
    page = page_html(
        "<b> & {{script}}", {"labels": ["</script><script>alert(1)</script>", "\u2028{{data}}"]}, {}, beside=0
    ).decode()
    assert page.count("</script>") == 2 and "alert(1)</script>" not in page
    assert "<h1>&lt;b&gt; &amp; {{script}}</h1>" in page
    facts = re.search(r'id="facts">(.*?)</script>', page)[1]
    assert json.loads(facts)["labels"][1] == "\u2028{{data}}"
    assert 0 < len(page.encode()) - json.loads(facts)["size"] < 10


def test_every_file_of_a_page_is_in_the_package():
    assert {file.name for file in FOLDER.iterdir() if file.suffix in (".html", ".css", ".js")} == {
        "page.html",
        "page.css",
        *(f"{name}.js" for name in ("tokenizer", "model", "numbers", "windows", "answers", "page")),
    }
