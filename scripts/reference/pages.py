"""The pages of the reference in Markdown: a table of the names of each, and where mkdocstrings describes them."""

import ast
import re
from pathlib import Path

from scripts.reference.catalog import Page
from scripts.reference.markdown import identifiers, inline, summary
from scripts.reference.public_names import Definition, definition, docstring, identifier, parsed
from scripts.reference.type_names import type_names

__all__ = ["letters", "methods", "page_text", "write_pages"]

# Classes whose users call the methods that they inherit. The class's own methods are shown first.
WITH_INHERITED = ("funcnet.nn.Module",)


def write_pages(folder: Path, shown: list[Page]) -> dict[str, list]:
    """Write all pages into a folder.

    Returns:
        {chapter: entries of the navigation, in the form of MkDocs}, with paths relative to the parent of `folder`.
    """
    folder.mkdir(parents=True, exist_ok=True)
    chapters: dict[str, list] = {}
    for page in shown:
        sections = [other for other in shown if other.module == page.module and other.title != page.module]
        (folder / f"{page.file}.md").write_text(page_text(page, sections), encoding="utf-8")
        entry = {page.title: f"{folder.name}/{page.file}.md"}
        chapter = chapters.setdefault(page.chapter, [])
        if page.title != page.module:
            next(row[page.module] for row in chapter if page.module in row).append(entry)
        elif sections:
            chapter.append({page.module: [f"{folder.name}/{page.file}.md"]})
        else:
            chapter.append(entry)
    return chapters


def page_text(page: Page, sections: list[Page]) -> str:
    """Return a page: the module's docstring on the module's own page, the table of names, and every description.

    Args:
        page: the page.
        sections: all pages of the sections of its module.
    """
    is_own = page.title == page.module
    anchor = f" {{ #{page.module} data-toc-label='{page.module}' }}" if is_own else ""
    lines = [f"# {page.title}{anchor}", ""]
    if is_own:
        lines += [f"::: {page.module}", "    options:", "      members: []", "      show_root_heading: false"]
        lines += ["      show_root_toc_entry: false", ""]
        for section in sections:
            names = ", ".join(f"[`{name}`][{_home(section, name)}]" for name in section.names)
            lines += [f"- [{section.title}]({section.file}.md): {names}"]
    else:
        lines += [f"A part of [`{page.module}`][{page.module}].", ""]
    if page.names:
        lines += ["", "| name | what it is |", "| --- | --- |"]
        lines += [_row(page, name) for name in page.names]
    found = [definition(page.module, name) for name in page.names]
    if meaning := letters(found):
        lines += ["", f"Letters in the shapes: {inline(meaning)}"]
    if types := type_names(found):
        lines += ["", "Types in the signatures:", "", *(f"- `{name}` is `{value}`." for name, value in types.items())]
    kind = ""
    for name, one in zip(page.names, found, strict=True):
        home = _home(page, name)
        if home != identifier(page.module, name) or one.kind == "Modules":
            continue
        if is_own and one.kind != kind and len({each.kind for each in found}) > 1:
            kind = one.kind
            lines += ["", f"## {kind} {{ .kind }}"]
        lines += ["", f"::: {home}", "    options:", f"      heading_level: {3 if kind else 2}"]
        if home in WITH_INHERITED:
            lines += ["      inherited_members: true", f"      members: [{', '.join(methods(one))}]"]
    return "\n".join(lines) + "\n"


def methods(found: Definition) -> list[str]:
    """Return the public methods of a class in the order of the source, and after them those that it inherits."""
    code = next(node for node in parsed(found.module).body if getattr(node, "name", None) == found.name)
    assert isinstance(code, ast.ClassDef)
    names = [node.name for node in code.body if isinstance(node, ast.FunctionDef) and ast.get_docstring(node)]
    for base in code.bases:
        module, _, name = ast.unparse(base).rpartition(".")
        home = definition(found.module, module).module if module else found.module
        names += methods(definition(home, name))
    return list(dict.fromkeys(name for name in names if not name.startswith("_")))


def letters(found: list[Definition]) -> str:
    """Return the meanings of the letters in the shapes of some definitions, from the docstrings of their files."""
    known: dict[str, None] = {}
    for module in dict.fromkeys(one.module for one in found if one.name):
        text = " ".join(docstring(Definition(module, "", "Modules", 1)).split())
        if stated := re.search(r"Letters: `([^`]*)`\.", text):
            known.update(dict.fromkeys(stated[1].split(", ")))
    return f"`{', '.join(known)}`." if known else ""


def _home(page: Page, name: str) -> str:
    """Return the identifier of the description of a name: on this page, or on an earlier one that has it too."""
    one = definition(page.module, name)
    return one.module if one.kind == "Modules" else identifiers()[f"{page.module}.{name}"]


def _row(page: Page, name: str) -> str:
    """Return a line of the table of names. A module without a page of its own, which only groups names, has no link."""
    text = summary(docstring(definition(page.module, name)))
    home = _home(page, name)
    link = f"[`{name}`][{home}]" if home in identifiers().values() else f"`{name}`"
    return f"| {link} | {text} |"
