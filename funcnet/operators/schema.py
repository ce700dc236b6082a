"""Signatures of operators in torch's notation, such as `leaky_relu(Tensor self, float slope=0.01) -> Tensor`.

`schema_parsing.parse` reads a signature, and `str` writes it as torch does, so that equal signatures have equal texts.
Torch's own signatures have sized lists, optional types, aliases and containers.
"""

import dataclasses
import math
import re
from typing import Any

__all__ = ["ESCAPES", "Alias", "OperatorArgument", "Schema", "Type"]

ESCAPES = {"\n": "\\n", "\t": "\\t", "\r": "\\r", "\f": "\\f", "\v": "\\v", "\a": "\\a", "\b": "\\b"}
ESCAPES |= {'"': '\\"', "'": "\\'", "\\": "\\\\"}


@dataclasses.dataclass(frozen=True)
class Alias:
    """The memory that an argument or a result shares, as in `Tensor(a!)` and `Tensor(a -> *)`.

    Attributes:
        before: names of the sets of memory before the call. "*" means any set.
        after: the names after the call, or None if they are the same.
        is_write: whether the operator changes the memory.
    """

    before: tuple[str, ...]
    after: tuple[str, ...] | None = None
    is_write: bool = False

    def __str__(self) -> str:
        after = "" if self.after is None else f" -> {'|'.join(self.after)}"
        return f"({'|'.join(self.before)}{'!' if self.is_write else ''}{after})"


@dataclasses.dataclass(frozen=True)
class Type:
    """A type: `Tensor`, `int[2]`, `Tensor?`, `Dict(str, Tensor)`, ….

    Attributes:
        name: the name; "[]" for a list, "?" for an optional type, "()" for a tuple.
        inner: the types inside a list, an optional type, a tuple or a container.
        size: the size of a list, or None if it is not fixed.
        alias: the shared memory, or None.
    """

    name: str
    inner: tuple["Type", ...] = ()
    size: int | None = None
    alias: Alias | None = None

    def __str__(self) -> str:
        if self.name == "[]":
            text = f"{self.inner[0]}[{'' if self.size is None else self.size}]"
        elif self.name == "?":
            text = f"{self.inner[0]}?"
        else:
            inside = f"({', '.join(map(str, self.inner))})"
            text = inside if self.name == "()" else self.name + inside * bool(self.inner)
        return text + ("" if self.alias is None else str(self.alias))

    @property
    def has_alias(self) -> bool:
        """Whether this type or one inside it shares memory."""
        return self.alias is not None or any(one.has_alias for one in self.inner)

    @property
    def is_tensor(self) -> bool:
        """Whether this is `Tensor`, an optional one, or a list of them."""
        return self.name == "Tensor" or (self.name in ("[]", "?") and self.inner[0].is_tensor)


@dataclasses.dataclass(frozen=True)
class OperatorArgument:
    """An argument or a result.

    Attributes:
        type: the type.
        name: the name; "" for a result without a name.
        default: a tuple with the default value, or an empty tuple if there is none.
        is_keyword: whether the argument is keyword-only.
    """

    type: Type
    name: str = ""
    default: tuple[Any, ...] = ()
    is_keyword: bool = False

    def __str__(self) -> str:
        text = f"{self.type} {self.name}" if self.name else str(self.type)
        return f"{text}={_written(self.type, self.default[0])}" if self.default else text


@dataclasses.dataclass(frozen=True)
class Schema:
    """The signature of an operator. `str` gives its text.

    Attributes:
        namespace: the part of the name before "::", or "".
        name: the name.
        overload: the part of the name after ".", or "".
        arguments: the arguments in order, those with `is_keyword` last.
        returns: the results.
        takes_more: whether there may be more arguments ("...").
        returns_more: whether there may be more results.
    """

    namespace: str
    name: str
    overload: str
    arguments: tuple[OperatorArgument, ...]
    returns: tuple[OperatorArgument, ...]
    takes_more: bool = False
    returns_more: bool = False

    @property
    def full_name(self) -> str:
        """The name with its namespace and overload, as in `aten::add.Tensor`."""
        return f"{self.namespace}::" * bool(self.namespace) + self.name + f".{self.overload}" * bool(self.overload)

    def __str__(self) -> str:
        positional = [str(one) for one in self.arguments if not one.is_keyword]
        keywords = [str(one) for one in self.arguments if one.is_keyword]
        takes = [*positional, *["*"] * bool(keywords), *keywords, *["..."] * self.takes_more]
        returns = [*map(str, self.returns), *["..."] * self.returns_more]
        is_bare = len(returns) == 1 and not returns[0].startswith("(")  # a tuple has its own parentheses
        result = returns[0] if is_bare else f"({', '.join(returns)})"
        return f"{self.full_name}({', '.join(takes)}) -> {result}"


def _written(kind: Type, value: object) -> str:
    """Return a default value as torch writes it."""
    if isinstance(value, list):
        is_short = kind.name == "[]" and kind.inner[0].name == "int" and len(value) > 1 and len(set(value)) == 1
        if is_short:  # torch does not shorten other lists
            return _written(kind.inner[0], value[0])
        return f"[{', '.join(_written(kind, one) for one in value)}]"
    if isinstance(value, str):
        return f'"{"".join(ESCAPES.get(character, character) for character in value)}"'
    if isinstance(value, complex):
        return f"{_real(value.real)}{'' if math.copysign(1, value.imag) < 0 else '+'}{_real(value.imag)}j"
    return _real(value) if isinstance(value, float) else str(value)


def _real(value: float) -> str:
    text = f"{value:.17g}"
    return text if re.search("[.en]", text) else f"{text}."
