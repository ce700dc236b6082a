"""Whether a table of weights stays for a place that names it. `test_needed_parts.py` has the constructors."""

import pytest

from funcnet.porting.reading.name_uses import uses_of
from funcnet.porting.reading.sources import read
from funcnet.porting.reading.weight_tables import stays
from tests.porting.made_up import write


@pytest.mark.parametrize(
    ("table", "body", "expected"),
    [
        ("{'a': 'https://a.org/a.pth'}", "return URLS['a']", True),
        ("{'a': f('https://a.org/a.pth')}", "return URLS['a']", False),
        ("{'a': 'https://a.org/a.pth'}", "url = URLS['a']\n    return torch.load(url)", False),
    ],
)
def test_functions(tmp_path, table, body, expected):
    code = f"import torch\nURLS = {table}\ndef make():\n    {body}\n"
    source = read(write(tmp_path, {"pkg/__init__.py": "", "pkg/net.py": code}) / "pkg/net.py")
    function = source.tree.body[-1]
    [reference] = [one for one in uses_of(source, function).references if one.name == "URLS"]
    assert stays(reference, function, lambda source, name: None) == expected
