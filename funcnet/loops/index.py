"""Array indices as sums of loop variables, so that a reshape or a transpose costs nothing at run time.

An `Index` is `constant + Σ factor · variable`, and the number of values of each variable is known. If an index is
divided by a constant, the quotient and the remainder are often such sums too. If they are not, the caller of `split`
makes new variables for the quotient and the remainder.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

__all__ = ["Index", "join", "split"]


@dataclass(frozen=True)
class Index:
    """The integer `constant + Σ factor · variable`.

    Args:
        constant: the part that does not vary.
        terms: pairs (variable, factor), sorted by the variable, without factors of 0.

    Example:
        >>> i, j = Index.variable("i"), Index.variable("j")
        >>> (i * 4 + j + 1).text()
        'i * 4 + j + 1'
    """

    constant: int = 0
    terms: tuple[tuple[str, int], ...] = field(default=())

    @classmethod
    def variable(cls, name: str) -> "Index":
        """Return the index that consists of one variable."""
        return cls(0, ((name, 1),))

    def __add__(self, other: "Index | int") -> "Index":
        other = Index(other) if isinstance(other, int) else other
        sums = dict(self.terms)
        for name, factor in other.terms:
            sums[name] = sums.get(name, 0) + factor
        return Index(self.constant + other.constant, tuple(sorted((n, f) for n, f in sums.items() if f)))

    def __mul__(self, factor: int) -> "Index":
        return Index(self.constant * factor, tuple((n, f * factor) for n, f in self.terms) if factor else ())

    def factor(self, variable: str) -> int:
        """Return the factor of a variable, or 0 if the index does not contain the variable."""
        return dict(self.terms).get(variable, 0)

    def bounds(self, sizes: Mapping[str, int]) -> tuple[int, int]:
        """Return the least and the greatest value of the index.

        A variable has the values from 0 to `sizes[variable] - 1`.
        """
        spans = [f * (sizes[n] - 1) for n, f in self.terms]
        return self.constant + sum(s for s in spans if s < 0), self.constant + sum(s for s in spans if s > 0)

    def text(self) -> str:
        """Return the index as an expression in C."""
        terms = [n if f == 1 else f"{n} * {f}" for n, f in sorted(self.terms, key=lambda t: -t[1])]
        if self.constant or not terms:
            terms.append(str(self.constant))
        return " + ".join(terms)


def join(index: Sequence[Index], shape: Sequence[int]) -> Index:
    """Return the position in memory of the element at an index, which has one component for each axis.

    Example:
        >>> join([Index.variable("i"), Index.variable("j")], (3, 5)).text()
        'i * 5 + j'
    """
    place = Index()
    for one, size in zip(index, shape, strict=True):
        place = place * size + one
    return place


def split(
    place: Index, shape: Sequence[int], sizes: Mapping[str, int], divided: Callable[[Index, int], tuple[Index, Index]]
) -> list[Index]:
    """Return the index of the element at a position in memory, with one component for each axis.

    This function is the inverse of `join`.

    Args:
        place: the position of the element.
        shape: the sizes of the array.
        sizes: the number of values of each variable.
        divided: function that divides an index by a number, if quotient and remainder are not sums of the variables.

    Example:
        >>> i, j = Index.variable("i"), Index.variable("j")
        >>> [one.text() for one in split(i * 6 + j, (2, 2, 3), {"i": 2, "j": 3}, divmod)]
        ['i', '0', 'j']
    """
    index = []
    for size in reversed(shape[1:]):
        place, rest = _divide(place, size, sizes, divided)
        index.append(rest)
    return [*([place] if shape else []), *reversed(index)]


def _divide(
    place: Index, by: int, sizes: Mapping[str, int], divided: Callable[[Index, int], tuple[Index, Index]]
) -> tuple[Index, Index]:
    if by == 1:
        return place, Index()
    whole = Index(place.constant // by, tuple((n, f // by) for n, f in place.terms if f % by == 0))
    rest = Index(place.constant % by, tuple((n, f) for n, f in place.terms if f % by))
    low, high = rest.bounds(sizes)
    if low >= 0 and high < by:
        return whole, rest
    quotient, remainder = divided(rest, by) if low >= 0 else divided(place, by)
    return (whole + quotient if low >= 0 else quotient), remainder
