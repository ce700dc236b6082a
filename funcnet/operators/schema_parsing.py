"""Reads the signature of an operator; see `schema.py`."""

import dataclasses
import re
from collections.abc import Callable
from typing import Any, NoReturn

from funcnet.operators.schema import ESCAPES, Alias, OperatorArgument, Schema, Type

__all__ = ["parse"]

CONTAINERS = ("Await", "Dict", "Future", "RRef", "Union")  # types with other types in parentheses
NAMED = {"Mean": 1, "contiguous_format": 0, "long": 4, "strided": 0}  # default values that torch writes as numbers
REAL = r"[+-]?(?:\d+\.\d*|\.\d+|\d+)(?:[eE][+-]?\d+)?"
TOKEN = re.compile(
    rf"""\s*(?:(?P<number>{REAL}(?:j\b|{REAL}j\b)?)
    |(?P<text>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')
    |(?P<name>[A-Za-z_]\w*)
    |(?P<mark>->|::|\.\.\.|[()\[\]?!*|=,.]))""",
    re.VERBOSE | re.DOTALL,
)


def parse(text: str) -> Schema:
    """Read a signature in torch's notation.

    Args:
        text: `name(type argument=default, …) -> results`, where the name may have a namespace and an overload
            (`aten::add.Tensor`), and `*` precedes keyword-only arguments.

    Raises:
        ValueError: if the text is not a signature. The message shows the position of the error.

    Example:
        >>> schema = parse("leaky_relu(Tensor self, float slope=1e-2) -> Tensor")
        >>> schema.name, [argument.name for argument in schema.arguments], schema.arguments[1].default
        ('leaky_relu', ['self', 'slope'], (0.01,))
        >>> str(schema)
        'leaky_relu(Tensor self, float slope=0.01) -> Tensor'

    Reference: torch._C.parse_schema.
    """
    return _Parser(text).schema()


class _Parser:
    """Reads a text from left to right."""

    def __init__(self, text: str):
        self.text, self.place = text, 0  # of the next token
        self.kind, self.token, self.begin = "", "", 0  # the current one
        self.step()

    def step(self) -> str:
        """Go to the next token, and return the current one."""
        before, found = self.token, TOKEN.match(self.text, self.place)
        self.begin = self.place + len(self.text[self.place :]) - len(self.text[self.place :].lstrip())
        if found is None:
            if self.text[self.place :].strip():
                self.fail("a name, a number or a sign")
            self.kind = self.token = ""
        else:
            self.kind, self.place = str(found.lastgroup), found.end()
            self.token = found[self.kind]
        return before

    def fail(self, expected: str) -> NoReturn:
        rest = self.text[self.begin :].strip()
        got = repr(self.token) if self.token and rest.startswith(self.token) else repr(rest[0]) if rest else "the end"
        raise ValueError(
            f"operators.parse: the signature is wrong at column {self.begin + 1}; expected {expected}, got {got}.\n"
            f"    {self.text}\n    {' ' * self.begin}^"
        )

    def take(self, token: str) -> bool:
        """Return whether the current token is this one, and if it is, go to the next token."""
        if self.token == token and self.kind != "text":
            self.step()
            return True
        return False

    def need(self, token: str) -> None:
        if not self.take(token):
            self.fail(repr(token))

    def name(self, what: str = "a name") -> str:
        if self.kind != "name":
            self.fail(what)
        return self.step()

    def listed(self, end: str, one: Callable[[], None]) -> None:
        """Read entries that are separated by commas, up to `end`."""
        if self.take(end):
            return
        one()
        while not self.take(end):
            if not self.take(","):
                self.fail(f"',' or {end!r}")
            one()

    def schema(self) -> Schema:
        namespace, name, overload = "", self.name("the name of the operator"), ""
        if self.take("::"):
            namespace, name = name, self.name()
        if self.take("."):
            overload = self.name("the name of the overload")
        self.need("(")
        arguments, more = self.arguments()
        self.need("->")
        returns, returns_more = self.returns()
        if self.token:
            self.fail("the end")
        return Schema(namespace, name, overload, arguments, returns, more, returns_more)

    def arguments(self) -> tuple[tuple[OperatorArgument, ...], bool]:
        found: list[OperatorArgument] = []
        is_keyword = takes_more = False

        def one() -> None:
            nonlocal is_keyword, takes_more
            if takes_more:
                self.fail("no argument after '...'")
            if not is_keyword and self.take("*"):
                is_keyword = True
            elif self.take("..."):
                takes_more = True
            else:
                found.append(self.argument(is_keyword))

        self.listed(")", one)
        return tuple(found), takes_more

    def argument(self, is_keyword: bool) -> OperatorArgument:
        kind, name = self.type(), self.name("the name of the argument")
        return OperatorArgument(kind, name, (self.default(kind),) if self.take("=") else (), is_keyword)

    def returns(self) -> tuple[tuple[OperatorArgument, ...], bool]:
        if self.take("..."):
            return (), True
        if not self.take("("):
            return (self.result(),), False
        found: list[OperatorArgument] = []
        returns_more = False

        def one() -> None:
            nonlocal returns_more
            if self.take("..."):
                returns_more = True
            else:
                found.append(self.result())

        self.listed(")", one)
        return tuple(found), returns_more

    def result(self) -> OperatorArgument:
        kind = self.type()
        return OperatorArgument(kind, self.step() if self.kind == "name" else "")

    def type(self) -> Type:
        inner: list[Type] = []
        if self.take("("):
            self.listed(")", lambda: inner.append(self.type()))
            kind = Type("()", tuple(inner))
        else:
            name = self.name("a type")
            while self.take("."):  # as in __torch__.torch.classes.c10d.Work
                name += f".{self.name()}"
            if name in CONTAINERS:
                self.need("(")
                self.listed(")", lambda: inner.append(self.type()))
            kind = Type("int" if name == "DeviceIndex" else name, tuple(inner))
        kind = self.aliased(kind)
        while self.token in ("[", "?"):
            if self.take("?"):
                kind = Type("?", (kind,))
                continue
            self.step()
            size = int(self.step()) if self.kind == "number" and self.token.isdigit() else None
            self.need("]")
            kind = self.aliased(Type("[]", (kind,), size))
        return kind

    def aliased(self, kind: Type) -> Type:
        """Read the alias after a type, if there is one."""
        if not self.take("("):
            return kind
        before, is_write, after = self.sets(), self.take("!"), None
        if self.take("->"):
            after = self.sets()
        self.need(")")
        return dataclasses.replace(kind, alias=Alias(before, after, is_write))

    def sets(self) -> tuple[str, ...]:
        found = []
        while True:
            found.append("*" if self.take("*") else self.name("the name of a set of memory, or '*'"))
            if not self.take("|"):
                return tuple(found)

    def default(self, kind: Type) -> Any:
        """Read a default value of this type."""
        if kind.name == "?":
            (inner,) = kind.inner
            is_whole = inner.name == "float" and self.token.lstrip("+-").isdigit()  # torch keeps `float? x=1` whole
            return None if self.take("None") else self.default(Type("int") if is_whole else inner)
        if kind.name == "[]":
            if self.take("None"):
                return None
            if not self.take("["):  # one value for all entries
                if kind.size is None:
                    self.fail("'['")
                return [self.default(kind.inner[0])] * kind.size
            found: list[Any] = []
            self.listed("]", lambda: found.append(self.default(kind.inner[0])))
            return found
        return self.value(kind)

    def value(self, kind: Type) -> Any:
        """Read a default value that is not a list."""
        constants = {"True": True, "False": False, "None": None, **NAMED}
        if self.kind == "name" and self.token in constants:
            return constants[self.step()]
        if self.kind == "text":
            return _unescaped(self.step())
        if self.kind != "number":
            self.fail("a default value")
        token = self.token
        is_real = kind.name in ("float", "complex") or (kind.name == "Scalar" and not token.lstrip("+-").isdigit())
        if kind.name == "complex" or token.endswith("j"):
            found: Any = complex(token)
        elif is_real:
            found = float(token)
        elif token.lstrip("+-").isdigit():
            found = int(token)
        else:
            self.fail(f"a default value of the type {kind}")
        self.step()
        return found


def _unescaped(token: str) -> str:
    known = {escaped: character for character, escaped in ESCAPES.items()}
    return re.sub(r"\\.", lambda match: known.get(match[0], match[0][1:]), token[1:-1], flags=re.DOTALL)
