"""An instrumented source computes what the source computes, and its places are libcst's."""

import ast
import textwrap
from collections import Counter

import libcst
import pytest
from libcst.metadata import MetadataWrapper, PositionProvider

from funcnet.porting.running.instrumenting import REACH, RECORD, Places, instrument, parameter_span
from tests.porting.packages import PINS, package

EVERYTHING = '''
    """docs"""
    from __future__ import annotations
    import collections, contextlib, dataclasses, enum, functools, typing

    __all__ = ("run",)
    counter = 0

    def wrapped(function):
        @functools.wraps(function)
        def inner(*args, **kwargs):
            """inner"""
            return function(*args, **kwargs)
        return inner

    class Base:
        __slots__ = ("__hidden", "n")

        def __init__(self, n: int = 3, *rest, key: str = "k" + "v", **more):
            self.__hidden, self.n = n + len(rest) + len(key) + len(more), n

        @property
        def hidden(self): return self.__hidden

        def __getitem__(self, index): return index

        def __repr__(self): return f"{self.n!r:>4}{self.hidden + 1}"

    class Child(Base, metaclass=type):
        def __init__(self, n: undefined_at_run_time = 1):
            super().__init__(n, 1, 2, key="long", other=3)
            self.n += 2; self.n *= self.n

        def kind(self): return __class__.__name__, super().hidden

    class Colour(enum.Enum):
        RED = 1
        BLUE = RED + 1

    @dataclasses.dataclass
    class Data:
        x: int = 1
        y: typing.ClassVar[int] = 2
        z: list = dataclasses.field(default_factory=lambda: [1, 2])

    class Pair(typing.NamedTuple):
        a: int
        b: str = "x"

    @wrapped
    def matched(value):
        match value:
            case {"a": [x, *rest], **more} if len(rest) > 1: return x, rest, more
            case Pair(a=1, b=name) | Pair(b=name): return name
            case Colour.RED: return "red"
            case (1 | 2) as n: return n
            case _: return None

    def generated(n):
        total = 0
        def bump():
            nonlocal total
            total += 1
            global counter
            counter += total
        while (k := total) < n:
            bump()
            got = yield k, total
            if got: return got

    def run():
        out = []
        child = Child()
        out += [repr(child), child.kind(), child[1:2, ..., None], child[(1, 2)], child[::-1]]
        x, (y, *z) = 1, (2, 3, 4)
        out.append([x if x > 1 else -x, not x, 1 < y < 3 <= 3, x and y or z, *z, {**{"a": 1}, "b": 2}, {x, y}])
        out.append([a * b for a in range(3) for b in (1, 2,) if a if (c := a + b) > 1]); out.append(c)
        out.append([matched({"a": [1, 2, 3], "b": 0}), matched(Pair(1)), matched(Colour.RED), matched(2), matched("")])
        steps = generated(3)
        out.append([next(steps), next(steps), counter])
        try:
            steps.send("stop")
        except StopIteration as stop:
            out.append(stop.value)
        out.append([(lambda a, *b, c=3: (a, b, c))(1, 2), sum(i for i in z), dict(sorted({"k": 1}.items())), Data()])
        items = {"a": [1, 2]}
        items["a"][0] += 5; items["b"] = items["a"][:1]; del items["a"][1]
        i = 0
        def once():
            nonlocal i
            i += 1
            return i
        line = [0, 0, 0]
        line[once()] += 1
        with contextlib.suppress(ZeroDivisionError), contextlib.nullcontext(3) as three:
            out.append(1 / 0)
        for i, (j, k) in enumerate([(1, 2), (3, 4)]):
            out.append(i + j + k)
        else:
            assert three == 3, "no"
        out.append((items, line, sorted(locals()), Data.__annotations__, Base.__init__.__annotations__))
        return out
'''


def executed(path, transform=lambda tree: tree):
    calls: Counter = Counter()

    def record(key, value):
        calls[key] += 1
        return value

    tree = transform(ast.parse(path.read_bytes()))
    names = {"__name__": "builtins", RECORD: record, REACH: lambda key: None}
    exec(compile(tree, str(path), "exec", dont_inherit=True), names)
    return names["run"](), calls


def test_an_instrumented_source_computes_the_same(tmp_path):
    path = tmp_path / "source.py"
    path.write_text(textwrap.dedent(EVERYTHING))
    places: list = []

    def key_of(file, span):
        places.append(span)
        return len(places) - 1

    expected, _ = executed(path)
    found, calls = executed(path, lambda tree: instrument(path, tree, key_of))
    assert repr(found) == repr(expected) and len(found) > 12
    assert len(calls) > 0.9 * len(set(places)), "nearly every place was reached"


def test_places_count_characters_and_leave_out_parentheses():
    source = "x = 'é', (a, ('ü', b,)), ( # c\n  a, b, # d\n), f(i for i in y)\n"
    tree = ast.parse(source)
    spans = {ast.unparse(node): Places(source).span(node) for node in ast.walk(tree) if isinstance(node, ast.expr)}
    assert spans["(a, ('ü', b))"] == (1, 10, 1, 22)
    assert spans["('ü', b)"] == (1, 14, 1, 21)
    assert spans["(a, b)"] == (2, 2, 2, 7)
    assert spans["(i for i in y)"] == (3, 5, 3, 17)


@pytest.mark.slow
@pytest.mark.parametrize("name", PINS)
def test_places_are_those_of_libcst(name):
    """Each place of an instrumented expression is the place of a node of libcst, over up to 40 files of the package."""
    missing, total = [], 0
    files = sorted(package(name).rglob("*.py"))
    for path in files[:: -(-len(files) // 40)]:
        source = path.read_bytes()
        try:
            tree = ast.parse(source)
        except SyntaxError:
            continue  # Python 2
        ranges = MetadataWrapper(libcst.parse_module(source), unsafe_skip_copy=True).resolve(PositionProvider).values()
        known = {(one.start.line, one.start.column, one.end.line, one.end.column) for one in ranges}
        indices = {id(node.slice) for node in ast.walk(tree) if isinstance(node, ast.Subscript)}
        places = Places(source.decode())
        bare = {places.span(node) for node in ast.walk(tree) if id(node) in indices and isinstance(node, ast.Tuple)}
        asked: set = set()
        instrument(path, tree, lambda _, span, asked=asked: asked.add(span) or 0)
        total += len(asked)
        missing += [(path.name, span) for span in asked - known - bare]  # libcst has no tuple in x[a, b]
    assert total > 400 and not missing


def test_parameters_have_the_place_of_their_name():
    source = "def f(a: int, *b, c=1, **d): pass"
    tree, places = ast.parse(source), Places(source)
    arguments = [node for node in ast.walk(tree) if isinstance(node, ast.arg)]
    found = {source[span[1] : span[3]] for span in (parameter_span(places, one) for one in arguments)}
    assert found == {"a", "b", "c", "d"}
