"""Rows of the tables of what a form of export does not support, with the reasons. The tables are used for error
messages and docs/export.md.

`onnx/unsupported.py` and `wasm/unsupported.py` have the tables of their forms. If a primitive of JAX has no row, it may
still be unsupported, because nobody has written a rule for it.
"""

from collections.abc import Iterable
from dataclasses import dataclass

__all__ = ["EVERY_FORM", "NO_RULE", "Unsupported", "reason_for"]


@dataclass(frozen=True)
class Unsupported:
    """Primitives of JAX, or a use of them, that a form of export does not support for one reason.

    Args:
        primitives: names of the primitives.
        reason: a sentence that says why they are not supported.
        instead: a sentence that says what to write instead.
        use: the words that restrict the primitives to an unsupported use. Empty if no use is supported.

    Example:
        >>> one = Unsupported(("sort",), "TopK sorts by one key.", "Sort by one key.", use="by several keys")
        >>> one.text, one.advice
        ('`sort` by several keys', 'TopK sorts by one key. Sort by one key.')
    """

    primitives: tuple[str, ...]
    reason: str
    instead: str
    use: str = ""

    @property
    def text(self) -> str:
        """What is not supported, in Markdown."""
        return " ".join(filter(None, (", ".join(f"`{name}`" for name in self.primitives), self.use)))

    @property
    def advice(self) -> str:
        """The reason, and what to write instead."""
        return f"{self.reason} {self.instead}"


NO_RULE = Unsupported(
    (),
    "funcnet has no rule for this primitive.",
    "Rewrite this part with supported operations, or export to StableHLO.",
    use="other primitives",
)
EVERY_FORM = (
    Unsupported(
        ("pure_callback", "io_callback", "debug_callback"),
        "The exported file runs without Python.",
        "Remove the callback, or compute with jax.numpy what it computes.",
    ),
)


def reason_for(primitive: str, rows: Iterable[Unsupported]) -> Unsupported:
    """Return the row of a primitive that has no supported use, or `NO_RULE` if no row has the primitive.

    Example:
        >>> reason_for("pure_callback", EVERY_FORM).reason, reason_for("frobnicate", EVERY_FORM) is NO_RULE
        ('The exported file runs without Python.', True)
    """
    return next((row for row in rows if primitive in row.primitives and not row.use), NO_RULE)
