"""Dumps of any language to articles without markup: no word is lost, and no two words are glued together."""

import html
import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from funcnet.text import open_corpus, plain_text
from tests.tasks.command import run_here

# The names of namespaces -2, 6, 10 and 14 in the dumps of some Wikipedias.
NAMES = {
    "de": ("Medium", "Datei", "Vorlage", "Kategorie"),
    "fr": ("Média", "Fichier", "Modèle", "Catégorie"),
    "ru": ("Медиа", "Файл", "Шаблон", "Категория"),
    "ja": ("メディア", "ファイル", "Template", "Category"),
    "fi": ("Media", "Tiedosto", "Malline", "Luokka"),
    "vi": ("Phương tiện", "Tập tin", "Bản mẫu", "Thể loại"),
    "ar": ("ميديا", "ملف", "قالب", "تصنيف"),
}
TEXTS = {
    "de": "Zürich ist eine Stadt.",
    "fr": "Zurich est une ville.",
    "ru": "Цюрих — город.",
    "ja": "チューリッヒは都市である。",
    "fi": "Zürich on kaupunki.",
    "vi": "Zürich là một thành phố.",
    "ar": "زيورخ مدينة.",
}


def dump(language: str, *pages: tuple[str, int, str], ns: bool = True) -> str:
    """A dump in MediaWiki's export format, with pages (title, namespace, wikitext)."""
    names = dict(zip((-2, 6, 10, 14), NAMES[language], strict=True)) | {-1: "Special", 1: "Talk"}
    listed = "".join(f'<namespace key="{key}" case="first-letter">{name}</namespace>' for key, name in names.items())
    made = ""
    for title, key, text in pages:
        text = text.replace("&", "&amp;").replace("<", "&lt;")
        number = f"<ns>{key}</ns>" if ns else ""
        made += f"<page><title>{title}</title>{number}<revision><text>{text}</text></revision></page>"
    return (
        f'<mediawiki xmlns="http://www.mediawiki.org/xml/export-0.11/" version="0.11" xml:lang="{language}"><siteinfo>'
        f'<namespaces>{listed}<namespace key="0" case="first-letter" /></namespaces></siteinfo>{made}</mediawiki>'
    )


def article(language: str) -> str:
    media, file, template, category = NAMES[language]
    return f"""{{{{Infobox {template}
| Name = {{Zürich}}
| Bild = [[{file}:x.svg|20px|{TEXTS[language]}]] {{{{nowrap|1 {{2}}}}}}
}}}}
[[{file}:Karte.png|mini|hochkant=1.2|Die [[Stadt|alte Stadt]] [im Jahr {{{{0}}}}1900], [http://x.org Quelle]]]
[[ {file.lower()} :x.jpg|thumb]] [[{media}:x.ogg|{category}]]
{TEXTS[language]}<ref>{{{{Literatur|Titel={{x}}}}}}</ref>
{{{{Tabellenanfang}}}}
! a !! b
|-
| 1 || 2
|}}
[[{category}:Ort|{TEXTS[language]}]]
[[{category.replace(" ", "_")}:Ort in {{{{Land}}}}]]
"""


@pytest.mark.every_row
@pytest.mark.parametrize("language", NAMES)
def test_namespaces_are_those_of_the_dump(tmp_path, language):
    pages = [("A", 0, article(language)), (f"{NAMES[language][1]}:x.jpg", 6, "A file."), ("B:C", 0, "Bis.")]
    for ns in (True, False):  # the oldest dumps have only titles
        (tmp_path / "dump.xml").write_text(dump(language, *pages, ns=ns), "utf-8")
        documents = open_corpus(tmp_path / "dump.xml").documents()
        found = [plain_text(document.text, hidden=document.hidden) for document in documents]
        assert found == [TEXTS[language], "Bis."]


@pytest.mark.slow
def test_a_dump_through_funcnet_data_build(tmp_path):
    pages = [(f"A{number}", 0, f"{article('fi')}{'sana ' * number}loppuu. Ja toinen.") for number in range(8)]
    (tmp_path / "dump.xml").write_text(dump("fi", *pages), "utf-8")
    given = ["--corpus", tmp_path / "dump.xml", "--out", tmp_path / "data", "--seq-len", "16", "--vocab-size", "90"]
    assert run_here("data", "build", *given) == 0
    report = json.loads((tmp_path / "data/report.json").read_text("utf-8"))
    assert report["train"]["sentences"] + report["evaluation"]["sentences"] == 8 * 3
    letters = {token.removeprefix("##") for token in (tmp_path / "data/vocab.txt").read_text("utf-8").split()}
    assert {"z", "k", "j", "."} <= letters and not letters & {*"{}[]|<>=!1"}


@pytest.mark.every_row
@pytest.mark.parametrize(
    ("markup", "plain"),
    [
        ("Paris<br>moved", "Paris moved"),
        ("a<br/>b<BR clear=all>c</br>d<hr>e", "a b c d e"),
        ("a<p>b</p>c<div class='x'>d</div>e", "a\n\nb\n\nc\n\nd\n\ne"),
        ("<ul><li>a<li>b</ul><table><tr><td>c<td>d</table>", "a b\n\nc d"),
        ("== a<br>b ==\nc", "a b\n\nc"),
        ("H<sub>2</sub>O, l'''amour''', [[bus]]es, <b>A</b>nna", "H2O, lamour, buses, Anna"),
        ("a{{b}}c {{b}}d''{{e}}''f {{g}}, h[http://i]j", "a c d f , h j"),
        ("x<gallery>y.jpg|z</gallery>w", "x\n\nw"),
        ("a {{b|{c}}} {{b|{c} }} {{b|c {d}} {{b|c} d}} e", "a e"),
        ("{{a|{{b|{c{d}}}}}}e {{{f|{{{g}}}}}}{{#if:{{{h|}}}|i}}j", "e j"),
        ("[[Datei:a|b [c] [http://d e]]] [[a|b [c]]] [[:Datei:d]] [[:Kategorie:e|f]]", "b [c] Datei:d f"),
        ("{{Start}}\n|-\n| a\nb\n\n| c\n|}\nd\n== e ==\n|}\nf", "d\n\ne\n\nf"),
        ("a\n{|\n| b\n{{End}}\nc\n{{Start}}\n! d\n! e !! f\n|-\n|g\n{{End}}\nh", "a\n\nc\n\nh"),
        ("{{Clear}}{| a\n|\n:{| b\n|}\n|}\nc\n----\nd", "c\n\nd"),
        ("__KEIN_INHALTSVERZEICHNIS__a __БЕЗ_ОГЛ__ __目次非表示__ __init__", "a __init__"),
        ("x<y. Then more, it is long.\n\nAlso z>y. <a@b.org>, if 1<x and x>2", None),
        (
            "<bar>, </foo>, <br-x>, <a href='x'>, <thead>, <http://a.b>, a<<b>>c, <refs>, <3>",
            "<bar>, </foo>, <br-x>, <a href='x'>, <thead>, <http://a.b>, a<>c, <refs>, <3>",
        ),
        ("<B>a</B><bdi>b</bdi><h2\nid=x>c</h2><section begin=x/><mark>d</mark><references group=x />", "ab\n\nc\n\nd"),
        ("The <nowiki><ref></nowiki> tag. Text.<ref>x</ref> End.", "The <ref> tag. Text. End."),
        (
            "Write <nowiki>{{</nowiki>name<nowiki>}}</nowiki> here, <NOWIKI >[[a]]</nowiki >.",
            "Write {{name}} here, [[a]].",
        ),
        ("a <nowiki><!--</nowiki> b <!-- <nowiki> -->c<!-- </nowiki> --> d <nowiki>-->", "a <!-- b c d -->"),
        (
            "<nowiki># a\n{| b\n== c ==\n''d'' __E__ <b> &lt;i> & &amp;lt;</nowiki>",
            "# a {| b == c == ''d'' __E__ <b> <i> & &lt;",
        ),
        ("''Titanic''<nowiki/>'s [[bus]]<nowiki></nowiki>es\n<nowiki />* a", "Titanic's buses * a"),
        ("a<ref><nowiki></ref></nowiki>b<code><nowiki></code></nowiki>x</code>c", "abc"),
        ("{{{!}} class=x\n{{!}} a\n{{!}}}\nText", "Text"),
        ("a{{=}}b [[c{{!}}d]] {{e|{{{!}}\n{{!}} f\n{{!}}}\n}} {{ ! }} {{!|}} {{=a}}", "a=b d |"),
        ("[http://a b [c] d] [//a [b]] [http://a [http://b c]", "b [c d] [b] [http://a c"),
    ],
)
def test_markup_of_every_kind(markup, plain):
    assert plain_text(markup) == (markup if plain is None else plain)


WORDS = [f"{word}{number}" for number, word in enumerate(("straße", "été", "слово", "ことば", "word", "한국", "كلمة"))]
# Markup that separates words, and markup around a word. Some of it is nested in other markup.
GAPS = (
    *("<br>", "<br />", "</br>", "<p>", "</div>", "<li>", "<hr/>", "<td>", "\n----\n", "\n\n", "\n* ", "\n# ", " "),
    *("{{x}}", "{{x|y={z}}}", "{{x|{{y|{z}}}}}", "{{{x|}}}", "\n{|\n| x || y\n|}\n", "\n{{x}}\n|-\n| y\n|}\n"),
    *("\n{|\n| x\n{|\n| y\n|}\n|}\n", "\n[[Datei:x.jpg|mini|y [z] {{v}} [[w]]]]\n", "\n[[Kategorie:x|y]]\n"),
    *("<gallery>\nx.jpg|y\n</gallery>", "&nbsp;", " <!-- x --> ", "\n__NOTOC__\n", "<ref>x {{y|{z}}}</ref> "),
)
AROUND = (
    *("{}", "''{}''", "'''{}'''", "<b>{}</b>", "<small>{}</small>", "[[{}]]", "[[x (y)|{}]]", "[[x|''{}'']]"),
    *("[http://x.org {}]", "\n== {} ==\n", "[[:Kategorie:x|{}]]", "<span style='x'>{}</span>", "<nowiki>{}</nowiki>"),
)


@given(
    st.lists(st.tuples(st.sampled_from(WORDS), st.sampled_from(AROUND), st.lists(st.sampled_from(GAPS), min_size=1)))
)
def test_all_words_stay_apart(parts):
    markup = "".join(around.format(word) + "".join(gaps) for word, around, gaps in parts)
    assert plain_text(markup).split() == [word for word, *_ in parts]


def nested(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """Templates, files, categories and tables around other markup."""
    forms = (
        "{{{{x|{}}}}}",
        "{{{{{{x|{}}}}}}}",
        "[[Datei:x.jpg|mini|{}]]",
        "[[Kategorie:x|{}]]",
        "\n{{|x\n|-\n|{}\n|}}\n",
    )
    return st.builds(str.format, st.sampled_from(forms), st.lists(inner, max_size=3).map("".join))


LEAVES = ("x", "{x}", "[x]", "x | y", "x=y", " ", "\n", "<br>", "<b>x</b>", "[http://x y]", "[[x]]", "<!-- x -->")
HIDDEN = nested(st.recursive(st.sampled_from(LEAVES), nested, max_leaves=6))


@given(st.lists(st.tuples(st.sampled_from(WORDS), HIDDEN)))
def test_nested_markup_is_no_text(parts):
    assert plain_text("".join(f"{word} {hidden}\n" for word, hidden in parts)).split() == [word for word, _ in parts]


MARKS = (
    "{{",
    "}}",
    "{",
    "}",
    "[[",
    "]]",
    "[",
    "]",
    "{|",
    "|}",
    "|",
    "!",
    "=",
    "<br>",
    "<ref>",
    "</ref>",
    "<!--",
    "-->",
)
MORE = (
    "<nowiki/>",
    "{{!}}",
    "\n",
    " ",
    "a",
    "b",
    "''",
    ":",
    "Datei:",
    "http://x",
    "__",
    "&lt;",
    "<",
    ">",
    "/",
    "\0",
    "*",
)


@pytest.mark.parametrize(
    "broken", ["[http://a ", "[http://", "[//a [b ", "<ref ", "x<b ", "{{!", "<nowiki ", "[http://a" + 9 * "b"]
)
def test_broken_markup_takes_no_longer(broken):
    """Quadratic time would be minutes."""
    assert plain_text(broken * 30_000) == (broken * 30_000).strip()


@given(st.lists(st.sampled_from((*MARKS, "</b>", "\n", " ", "a", "''", "#", "__A__", "&", ";", "/"))).map("".join))
def test_nowiki_keeps_every_character(content):
    expected = html.unescape(content).split()
    assert plain_text(f"a <nowiki>{content}</nowiki> ''b''<nowiki/>'s").split() == ["a", *expected, "b's"]


@given(st.lists(st.sampled_from((*MARKS, *MORE))).map("".join))
def test_broken_markup_is_no_error(markup):
    plain = plain_text(markup)
    assert not re.search(r"\0|  |\n\n\n|<(?:br|ref)>", plain) and plain == plain.strip()
