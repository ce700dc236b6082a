"""The dimensions of an operator's arrays, as `"... d, d -> ... d"`.

There is one entry for each `Tensor` argument and each result of the signature, in order. A letter or a word names a
dimension, and a number is its size. In a result, `?` is a dimension whose size only the reference determines. The
dimensions `...` are batch dimensions: an entry of a result depends only on the entries of the arguments at the same
index. `vmap` adds such a dimension, and devices can divide them without communication.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from funcnet.operators.schema import Schema

__all__ = ["OperatorDimensions", "parse_dimensions"]

Shape = tuple[int, ...]


@dataclass(frozen=True)
class OperatorDimensions:
    """The dimensions of the arrays of an operator: for each argument and each result, its names without `...`.

    Attributes:
        text: the declaration.
        inputs, outputs: the names or sizes of the dimensions.
        maps_inputs: for each argument, whether it has the dimensions `...`.
        is_mapped: whether the results have the dimensions `...`.
    """

    text: str
    inputs: tuple[tuple[str, ...], ...]
    outputs: tuple[tuple[str, ...], ...]
    maps_inputs: tuple[bool, ...]
    is_mapped: bool

    def __str__(self) -> str:
        return self.text

    def results(self, where: str, places: Sequence[int], shapes: Sequence[Shape]) -> tuple[tuple[int | None, ...], ...]:
        """Return the shapes of the results, with None for each `?`.

        Args:
            where: name of the operator, for messages.
            places: for each array, the number of its entry in `inputs`.
            shapes: the shapes of the arrays.

        Raises:
            ValueError: if the shapes contradict the declaration.
        """
        mapped, sizes = self.read(where, places, shapes)
        size = lambda name: None if name == "?" else int(name) if name.isdigit() else sizes[name]
        return tuple((*mapped, *map(size, names)) for names in self.outputs)

    def read(self, where: str, places: Sequence[int], shapes: Sequence[Shape]) -> tuple[Shape, dict[str, int]]:
        """Return the sizes of the dimensions `...`, and {name: size of a dimension}."""
        mapped: Shape | None = None
        sizes: dict[str, int] = {}
        for place, shape in zip(places, shapes, strict=True):
            names = self.inputs[place]
            extra = len(shape) - len(names)
            if extra < 0 or (extra and not self.maps_inputs[place]):
                least = "at least " if self.maps_inputs[place] else ""
                raise ValueError(
                    f"{where}: an array has the wrong number of dimensions; expected {least}{len(names)} by dims "
                    f"{self.text!r}, got the shape {shape}."
                )
            if self.maps_inputs[place]:
                mapped = shape[:extra] if mapped is None else mapped
                if shape[:extra] != mapped:
                    raise ValueError(
                        f"{where}: the dimensions ... of dims {self.text!r} differ; expected {mapped}, got "
                        f"{shape[:extra]}."
                    )
            for name, size in zip(names, shape[extra:], strict=True):
                expected = int(name) if name.isdigit() else sizes.setdefault(name, size)
                if size != expected:
                    raise ValueError(
                        f"{where}: dimension {name} of dims {self.text!r} has two sizes; expected {expected}, got "
                        f"{size}."
                    )
        return mapped or (), sizes


def parse_dimensions(text: str, schema: Schema) -> OperatorDimensions:
    """Read the dimensions of an operator.

    Args:
        text: one entry for each argument of type `Tensor`, `Tensor?` or `Tensor[]`, an arrow, and one entry for each
            result, separated by commas.
        schema: the signature.

    Raises:
        ValueError: if the text does not fit the signature.

    Example:
        >>> from funcnet.operators.schema_parsing import parse
        >>> norm = parse("norm(Tensor x, Tensor? weight=None, float eps=1e-5) -> Tensor")
        >>> dims = parse_dimensions("... d, d -> ... d", norm)
        >>> dims.results("norm", [0, 1], [(2, 3, 4), (4,)])
        ((2, 3, 4),)
    """
    names = [one.name for one in schema.arguments if one.type.is_tensor]
    left, arrow, right = text.partition("->")
    entries = [[part.split() for part in side.split(",")] if side.strip() else [] for side in (left, right)]
    where = f"operators.define: {schema.full_name}"
    if not arrow or list(map(len, entries)) != [len(names), len(schema.returns)]:
        raise ValueError(
            f"{where}: dims do not fit the signature; expected entries for {', '.join(names) or 'no argument'} and for "
            f"{len(schema.returns)} results, such as '... d, d -> ... d', got {text!r}."
        )
    inputs, outputs = entries
    if wrong := [
        one for number, names in enumerate((*inputs, *outputs)) for place, one in enumerate(names)
        if not (re.fullmatch(r"[A-Za-z_]\w*|\d+", one) or (one == "..." and place == 0))
        and not (one == "?" and number >= len(inputs))
    ]:  # fmt: skip
        raise ValueError(
            f"{where}: dims have a wrong entry; expected '...' first, and names or sizes of dimensions, got "
            f"{wrong[0]!r} in {text!r}."
        )
    always = [one.type.name == "Tensor" for one in schema.arguments if one.type.is_tensor]
    known = {name for names, has in zip(inputs, always, strict=True) if has for name in names if name != "..."}
    given = {*known, "...", "?"}
    if unknown := [name for names in outputs for name in names if name not in given and not name.isdigit()]:
        raise ValueError(
            f"{where}: dims have a result whose size is unknown; expected one of {', '.join(sorted(known))}, which "
            f"arguments that are never left out have, got {unknown[0]!r} in {text!r}. Write ? for a size that "
            "depends on other arguments."
        )
    mapped = {names[:1] == ["..."] for names in outputs}
    if len(mapped) > 1 or (any(names[:1] == ["..."] for names in inputs) and mapped == {False}):
        raise ValueError(
            f"{where}: some results have no '...'; expected it in all results, because '...' is mapped through, got "
            f"{text!r}."
        )
    bare: Any = lambda side: tuple(tuple(name for name in names if name != "...") for names in side)
    maps = tuple(names[:1] == ["..."] for names in inputs)
    return OperatorDimensions(text, bare(inputs), bare(outputs), maps, mapped == {True})
