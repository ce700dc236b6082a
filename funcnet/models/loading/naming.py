"""The names of the arrays in the checkpoints of a family of models."""

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from typing import Any

__all__ = ["Arrays", "Naming"]

Arrays = Mapping[str, Any]


@dataclasses.dataclass(frozen=True)
class Naming:
    """The names of the arrays in the checkpoints of a family of models.

    Attributes:
        prefix: prefix of the names of the encoder in a model with a head, such as "bert.", or "" for no prefix.
        encoder: beginnings of the names of the encoder, without the prefix.
        heads: beginnings of the names of heads. A file may lack a head of the model, or have a head that the model
            lacks.
        layers: pattern of the name of a layer, without the prefix, for `choose_layers`.
        ignored: pattern of names that are not weights.
        renamed: (pattern, replacement) for the names in older files.
        foreign: function of the names in a file. For a file of another framework, the function returns `{our name:
            (name in the file, whether to transpose)}`. For any other file, it returns None.

    Example:
        >>> naming = Naming(heads=("classifier.",), renamed=((r"gamma$", "weight"),))
        >>> naming.head("classifier.weight"), naming.head("encoder.weight")
        ('classifier.', None)
    """

    prefix: str = ""
    encoder: tuple[str, ...] = ()
    heads: tuple[str, ...] = ()
    layers: str = r"(?!)"
    ignored: str = r"(?!)"
    renamed: tuple[tuple[str, str], ...] = ()
    foreign: Callable[[Iterable[str]], Mapping[str, tuple[str, bool]] | None] = lambda names: None

    def head(self, name: str) -> str | None:
        """Return the entry of `heads` with which the name of an array begins, or None if the array is not part of a
        head.
        """
        return next((head for head in self.heads if name.startswith(head)), None)
