"""The parameters of an estimator for scikit-learn: those of its signature, and those of its net and optimizer."""

import dataclasses
from collections.abc import Iterable, Mapping
from inspect import signature
from typing import Any, ClassVar, Self

from sklearn.base import BaseEstimator, clone

from funcnet.sklearn.traced_parameters import check_names

__all__ = ["NamedParameters", "Names"]


@dataclasses.dataclass(frozen=True)
class Names:
    """The names that parameters have in scikit-learn's interface of a class.

    Attributes:
        epochs: the number of epochs.
        held_out: the share of the rows that are held out.
        shuffle: whether each epoch has a new order of the rows.
    """

    epochs: str = "max_epochs"
    held_out: str = "validation_fraction"
    shuffle: str = "shuffle"


class NamedParameters(BaseEstimator):
    """The base class of estimators that have parameters beyond their signature.

    Attributes:
        names: the names of some parameters.
        prefixes: the prefixes of the parameters of the net and of the optimizer.
    """

    names: ClassVar[Names] = Names()
    prefixes: ClassVar[tuple[str, str]] = ("module__", "optimizer__")

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters, with those of the module and of the optimizer, such as `module__rate`.

        Args:
            deep: ignored, because no parameter is an estimator.
        """
        return {**super().get_params(deep=False), **self.further_parameters()}

    def further_parameters(self) -> dict[str, Any]:
        """Return the parameters that are not in the signature: those of the module and of the optimizer."""
        return dict(getattr(self, "_further", {}))

    def keep_further(self, further: Mapping[str, Any]) -> None:
        """Keep parameters that are not in the signature. As attributes, they could hide methods."""
        if further:
            self._further = {**self.further_parameters(), **further}

    def set_params(self, **params: object) -> Self:
        """Set parameters, including those of the module and of the optimizer, such as `module__rate`.

        Raises:
            ValueError: if a name is unknown. The message has the nearest names.
        """
        self.check_further(params, params)
        known = signature(type(self)).parameters
        for name, value in params.items():
            if name in known:
                setattr(self, name, value)
        self.keep_further({name: value for name, value in params.items() if name not in known})
        return self

    def further_names(self, params: Mapping[str, Any]) -> Iterable[str] | None:
        """Return the parameters without a prefix that are not in the signature, if `params` are set. None means that
        any name is allowed.
        """
        return ()

    def check_further(self, names: Iterable[str], params: Mapping[str, Any]) -> None:
        """Raise a ValueError for a name that does not belong to a parameter, if `params` are set."""
        further = self.further_names(params)
        if further is not None:
            known = [*signature(type(self)).parameters, *further]
            check_names(type(self).__name__, names, known, self.prefixes)

    def __sklearn_clone__(self) -> Self:
        """Return an estimator with the same parameters, which is not fitted; see `sklearn.base.clone`."""
        made = type(self)(**{name: clone(value, safe=False) for name, value in self.get_params(deep=False).items()})
        for name in ("_metadata_request", "_sklearn_output_config", "_skl_callbacks", "trained_nets"):
            if name in vars(self):
                setattr(made, name, getattr(self, name))
        return made
