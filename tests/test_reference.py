"""The reference: every public name is on a page, and what is missing, failing or broken is found, with its line.

`sh scripts/verify.sh docs` builds all of it. These tests need neither MkDocs nor mkdocstrings.
"""

import json
import re
import textwrap

import pytest

from scripts.reference import catalog, guides
from scripts.reference.catalog import Page, pages, problems
from scripts.reference.commands import subcommands
from scripts.reference.examples import examples_of
from scripts.reference.guides import broken_links, staged
from scripts.reference.links import check_links
from scripts.reference.markdown import from_docstring, inline, summary
from scripts.reference.pages import letters, methods, page_text, write_pages
from scripts.reference.public_names import definition, docstring, public_names
from scripts.reference.sources import write_sources
from scripts.reference.type_names import type_names
from tests.processes import ROOT

GUIDES = [path.relative_to(ROOT).as_posix() for path in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]]


def test_every_public_name_is_on_a_page_and_has_a_docstring():
    assert not problems(pages())


def test_names_that_are_missing_wrong_or_in_no_section_are_found(monkeypatch):
    shown = [page._replace(names=tuple(set(page.names) - {"lamb"})) for page in pages()]
    assert problems(shown) == ["funcnet.optim.lamb: the public name is on no page"]
    without = [page for page in pages() if page.module != "funcnet.tree"]
    assert [line.split(":")[0] for line in problems(without)] == ["funcnet.tree"]
    sections = catalog.SECTIONS["funcnet.nn"]
    monkeypatch.setitem(sections, "Linear layers", "Linear Bilinaer")
    more = next(page for page in pages() if page.module == "funcnet.nn" and page.title == "More")
    assert more.names == ("Bilinear", "Identity", "LazyLinear")
    assert [line.split(":")[0] for line in problems(pages())] == ["funcnet.nn.Bilinaer"]


def test_names_that_the_guides_and_notebooks_import_are_on_pages():
    shown = {(page.module, name) for page in pages() for name in page.names} | {(p.module, "") for p in pages()}
    texts = [(ROOT / file).read_text("utf-8") for file in GUIDES if "decisions" not in file]
    for notebook in (ROOT / "notebooks").glob("*.ipynb"):
        cells = json.loads(notebook.read_text("utf-8"))["cells"]
        texts += ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    imports = [found for text in texts for found in re.findall(r"^from (funcnet[\w.]*) import ([\w, ]+)$", text, re.M)]
    names = {(module, name.split(" as ")[0].strip()) for module, row in imports for name in row.split(",")}
    assert len(names) > 20
    assert not {(m, n) for m, n in names if (m, n) not in shown and (f"{m}.{n}", "") not in shown} - NAMESPACES


NAMESPACES = {("funcnet", "models")}  # packages without names of their own


def test_public_names_and_definitions_follow_imports():
    assert public_names("funcnet.nn.functional") == public_names("funcnet.functional")
    assert {"Linear", "init", "remat"} <= {*public_names("funcnet.nn")}
    assert definition("funcnet.nn.functional", "relu")[:3] == ("funcnet.functional.relu", "relu", "Functions")
    assert definition("funcnet.torchlike", "svd").name == "svd_of_torch"
    assert definition("funcnet.nn", "init") == ("funcnet.nn.init", "", "Modules", 1)
    assert docstring(definition("funcnet.optim", "NO_DECAY")).startswith("The parameters without")
    with pytest.raises(ValueError, match="the name 'Lienar' is public"):
        definition("funcnet.nn", "Lienar")


A_RUN = "trains a model, which takes longer than an example may"
WITHOUT_EXAMPLE = {
    "funcnet.operators.native.library.targets": "compiles a library in C++ at its first call",
    "funcnet.serving.bench.bench_serve": "compiles a model for several lengths of texts, and prints times",
    "funcnet.tasks.finetuning.task.finetune": A_RUN,
    "funcnet.tasks.images.task.train_images": A_RUN,
    "funcnet.tasks.pretraining.task.pretrain": A_RUN,
    "funcnet.tasks.quantizing.task.quantize_run": A_RUN,
    "funcnet.train.replay.replay_step": "repeats a failed step, with the task and the directory of its run",
}


def wrong_examples(shown):
    """A line for each function on a page without an example, and for each row of WITHOUT_EXAMPLE that is not one."""
    public = {definition(page.module, name) for page in shown for name in page.names}
    functions = {f"{one.module}.{one.name}": docstring(one) for one in public if one.kind == "Functions"}
    without = {name for name, text in functions.items() if ">>> " not in text and "```" not in text}
    found = [f"{name}: the function has no example in its docstring" for name in without - WITHOUT_EXAMPLE.keys()]
    found += [
        f"{name}: in WITHOUT_EXAMPLE, but {'it has an example' if name in functions else 'it is on no page'}"
        for name in WITHOUT_EXAMPLE.keys() - without
    ]
    return sorted(found)


def test_every_public_function_has_an_example():
    assert not wrong_examples(pages())


def test_functions_without_an_example_and_rows_that_are_not_needed_are_found(monkeypatch):
    without, found = definition("funcnet.tree", "flatten"), docstring
    monkeypatch.setitem(globals(), "docstring", lambda one: "Return 1." if one == without else found(one))
    monkeypatch.setitem(WITHOUT_EXAMPLE, "funcnet.tree.select", "none")
    monkeypatch.setitem(WITHOUT_EXAMPLE, "funcnet.tree.selct", "none")
    assert wrong_examples(pages()) == [
        "funcnet.tree.flatten: the function has no example in its docstring",
        "funcnet.tree.selct: in WITHOUT_EXAMPLE, but it is on no page",
        "funcnet.tree.select: in WITHOUT_EXAMPLE, but it has an example",
    ]


# ---------------------------------------------------------------------------------------------------------- docstrings


def test_a_docstring_becomes_markdown():
    shown = from_docstring(
        textwrap.dedent("""\
        Return *all* of `x` in (B, *S), see `nn.Linear`.

        Args:
            a, b: two arrays (*, N).
                A second line.
        Returns:
            (y, z): both.

        Params: weight (N,).
        Call: (N,) -> (N,).

        Differs from torch: the result is new,
        and no view.

        Example:
            >>> f(1)  # doctest: +ELLIPSIS
            <BLANKLINE>
            2

        Reference: torch.f_.""")
    )
    title = '<p class="doc-title"><span class="doc-section-title">{}:</span></p>'
    assert [line for line in shown.splitlines() if line] == [
        "Return *all* of `x` in (B, \\*S), see [`nn.Linear`][funcnet.nn.Linear].",
        *("Args:", "    a: two arrays (\\*, N).", "        A second line."),
        *("    b: two arrays (\\*, N).", "        A second line."),
        *(title.format("Returns"), "(y, z): both."),
        *(title.format("Parameters of the layer"), "weight (N,)."),
        *(title.format("Call"), "(N,) -> (N,)."),
        *(title.format("Differs from torch"), "The result is new,", "and no view."),
        *(title.format("Example"), "```pycon", ">>> f(1)", "2", "```"),
        *(title.format("Reference"), "torch.f\\_."),
    ]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a_b <c> [d][e] *f", "a\\_b &lt;c> \\[d\\]\\[e\\] \\*f"),
        ("`a_b <c>` and ``x[*]``", "`a_b <c>` and ``x[*]``"),
        ("[text](https://a.b/c_d), https://a.b/c_d", "[text](https://a.b/c_d), https://a.b/c_d"),
        ("`F.relu(x)`, `F.gelu`", "`F.relu(x)`, [`F.gelu`][funcnet.functional.gelu]"),
        ("`nn.Repeat()` and `Repeat`", "[`nn.Repeat()`][funcnet.nn.Repeat] and [`Repeat`][funcnet.nn.Repeat]"),
        ("`random` and `max`", "`random` and `max`"),
    ],
)
def test_text_is_shown_as_it_is_written(text, shown):
    assert inline(text) == shown


def test_blocks_lists_and_summaries():
    assert from_docstring("A:\n\n    x_y\n\nB") == "A:\n\n```text\nx_y\n```\n\nB"
    assert from_docstring("y = 1    if x\ny = 2    otherwise").startswith("```text\ny = 1    if x\n")
    assert from_docstring("B:\n- one\n  - two\n") == "B:\n\n- one\n    - two"
    assert summary("Return e.g. `a|b`, or\nc_d. More `text`.\n\nEnd.") == "Return e.g. `a\\|b`, or c\\_d."


def test_a_page_has_its_names_in_order_and_one_description_of_each(tmp_path):
    page = next(page for page in pages() if page.title == "Linear layers")
    text = page_text(page, [])
    assert re.findall(r"^::: (.*)", text, re.M) == [f"funcnet.nn.{name}" for name in page.names]
    assert "| [`Linear`][funcnet.nn.Linear] | Applies the affine map `y = x Wᵀ + b`. |" in text
    again = page_text(Page("", "funcnet.nn.parameter", "funcnet.nn.parameter", ("Buffer",)), [])
    assert "[`Buffer`][funcnet.nn.Buffer]" in again and "::: funcnet.nn.parameter.Buffer" not in again
    assert methods(definition("funcnet.nn", "Module"))[:3] == ["init", "reinit", "partition"]
    assert {"named_parameters", "register_load_state_dict_pre_hook"} <= {*methods(definition("funcnet.nn", "Module"))}
    optim = next(page for page in pages() if page.module == "funcnet.optim")
    assert "::: funcnet.optim.lamb.lamb\n" in page_text(optim, []), "funcnet.optim.lamb is a file, too"
    assert letters([definition("funcnet.functional", "group_norm")]).startswith("`B batch, ")
    chapters = write_pages(tmp_path / "reference", pages())
    assert chapters["Layers"][0]["funcnet.nn"][:2] == ["reference/nn.md", {"Containers": "reference/nn.containers.md"}]
    assert len(list(tmp_path.rglob("*.md"))) == len(pages())


def test_a_page_says_what_the_names_of_types_stand_for():
    names = lambda module, *found: type_names(definition(module, name) for name in found)
    assert names("funcnet.nn", "MaxPool2d", "Linear") == {"Ints": "int | Sequence[int]"}
    assert [*names("funcnet.nn.parameter", "Parameter")] == ["ShapeOrArray", "Init"]
    assert names("funcnet.nn", "Module")["Params"] == "Tree", "and what Tree stands for follows"
    assert not names("funcnet.operators", "define"), "its Operator is a class"
    pooling = next(page for page in pages() if page.title == "Pooling functions")
    assert "- `Ratios` is `float | Sequence[float] | None`." in page_text(pooling, [])


def test_subcommands_are_read_from_a_help():
    box = "╭─ subcommands ─╮\n│ (required) │\n│   • train-it  x │\n│             • no  │\n│   • data  x │\n╰───╯"
    assert subcommands(box) == ["train-it", "data"]
    assert subcommands("╭─ options ─╮") == []


# -------------------------------------------------------------------------------------------------- examples and links


def test_a_failing_example_is_found_with_its_line(tmp_path, monkeypatch):
    (tmp_path / "a_module.py").write_text(
        'def f():\n    """F.\n\n    >>> 1 + 1\n    2\n    >>> 1 + 2\n    4\n    """\n\n\n'
        'def g():\n    """\n    >>> import absent_library\n    """\n\n\n'
        'def h():\n    """\n    >>> [1,   2]\n    [1, ...]\n    """\n'
    )
    monkeypatch.syspath_prepend(tmp_path)
    outcome = examples_of("a_module")
    assert outcome.passed == 1
    assert [line.split("\n")[0] for line in outcome.failed] == [
        f"{tmp_path}/a_module.py:6: example of a_module.f failed",
        f"{tmp_path}/a_module.py:13: example of a_module.g failed",
    ]
    monkeypatch.setattr("scripts.reference.examples.NOT_INSTALLED", {"absent_library"})
    assert examples_of("a_module").left_out == [
        f"{tmp_path}/a_module.py:13: example of a_module.g needs absent_library"
    ]


def test_links_of_the_guides():
    assert not [line for file in GUIDES for line in broken_links(file)]


def test_a_broken_link_of_a_guide_is_found_with_its_line(tmp_path, monkeypatch):
    (tmp_path / "docs").mkdir()
    (tmp_path / "funcnet").mkdir()
    (tmp_path / "funcnet" / "tree.py").touch()
    (tmp_path / "README.md").touch()
    text = "# Page\n[a](../README.md#x) `funcnet/tree.py` `tree.py`\n```\n[b](c.md)\n```\n"
    text += "  - [d](e.md), [f](../funcnet/tree.py), `nn.Linear`, `torch.cat`\n"
    (tmp_path / "docs" / "page.md").write_text(text)
    monkeypatch.setattr(guides, "ROOT", tmp_path)
    assert broken_links("docs/page.md") == ["docs/page.md:6: broken link: e.md does not exist"]
    assert staged("docs/page.md") == (
        "# Page\n[a](../index.md#x) [`funcnet/tree.py`](source:funcnet/tree.py) `tree.py`\n"
        "```\n[b](c.md)\n```\n"
        "    - [d](e.md), [f](source:funcnet/tree.py), [`nn.Linear`][funcnet.nn.Linear], `torch.cat`\n"
    )


def test_links_of_a_site(tmp_path):
    (tmp_path / "inner").mkdir()
    (tmp_path / "index.html").write_text(
        '<h2 id="funcnet.f" class="doc doc-heading"></h2><a href="inner/">1</a><a href="inner/index.html#there">2</a>'
        '<a href="#nowhere">3</a><a href="gone.html">4</a><a href="https://a.b">5</a><a href="source:gone.py">6</a>'
    )
    (tmp_path / "inner" / "index.html").write_text('<p id="there"><a href="source:README.md#line-2">x</a></p>')
    assert write_sources(tmp_path) == 1
    assert 'id="line-2"' in (tmp_path / "source" / "README.md.html").read_text()
    checked = check_links(tmp_path)
    broken = [("index.html", target) for target in ("#nowhere", "gone.html", "source:gone.py")]
    assert [(page, link.target) for page, link in checked.broken] == broken
    assert {link.within for _, link in checked.broken} == {"funcnet.f"}
