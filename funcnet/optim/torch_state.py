"""The state of torch's Adam, AdamW and SGD as optax's, and back: a run that began in one continues in the other.

Moving averages, momentum and the count of updates are carried over. Rates, betas and decay are arguments of the optax
optimizer, which must be given equally:
    torch Adam(lr, betas, eps)               optax.adam(lr, b1, b2, eps)
    torch Adam(…, weight_decay=w)            optax.chain(optax.add_decayed_weights(w), optax.adam(…))
    torch AdamW(…, weight_decay=w)           optax.adamw(…, weight_decay=w)
    torch SGD(lr, momentum, nesterov)        optax.sgd(lr, momentum, nesterov); weight_decay as in Adam
    maximize=True                            optax.chain(optax.scale(-1.0), …)
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
import optax

from funcnet import tree

__all__ = ["from_torch", "to_torch"]

_ADAM, _SGD = {"step", "exp_avg", "exp_avg_sq"}, {"momentum_buffer"}
_HYPER = {  # what torch's load_state_dict does not fill in
    "Adam": ("lr", "betas", "eps", "weight_decay"),
    "SGD": ("lr", "momentum", "dampening", "weight_decay", "nesterov"),
}


def from_torch(state_dict: Mapping[str, Any], names: Any, opt_state: Any, *, steps: int | None = None) -> Any:
    """optax's state with the averages, momentum and counts of a torch optimizer.

    Args:
        state_dict: of `torch.optim.Adam`, `AdamW` or `SGD` (`optimizer.state_dict()`), as `weights.load` reads it.
        names: of the parameters in the order in which torch's optimizer got them: a net (its `named_parameters()`),
            or a list, over all groups one after the other. Names that the file itself holds (`param_names`) win.
        opt_state: `optimizer.init(params)` of the optax optimizer that continues; params are nested dicts.
        steps: the number of updates so far, for schedules with SGD, which does not count them.

    Returns:
        The tree of `opt_state`, its dtypes, with averages, momentum and counts replaced.

    Raises:
        ValueError: names or shapes that differ; parameters that had unequal counts of updates; an option that optax
            does not have: amsgrad (torch's maximum is taken before the bias correction, optax's after it) or dampening;
            another optimizer's state.

    Differs from torch:
        There is one count of updates, not one per parameter. Hyperparameters are not carried.

    Example:
        >>> optimizer = optax.adam(0.1)
        >>> averages = {"step": np.float32(3), "exp_avg": np.ones(2), "exp_avg_sq": np.ones(2)}
        >>> file = {"state": {0: averages}, "param_groups": [{"params": [0], "amsgrad": False}]}
        >>> state = from_torch(file, ["fc.bias"], optimizer.init({"fc": {"bias": jnp.zeros(2)}}))
        >>> int(state[0].count), state[0].mu["fc"]["bias"].tolist()
        (3, [1.0, 1.0])

    Reference: torch.optim.Optimizer.state_dict; optax.ScaleByAdamState; optax.TraceState
    """
    where = "optim.from_torch"
    groups, states = state_dict["param_groups"], state_dict["state"]
    _refuse_options(where, groups)
    order = _order(where, groups, names)
    remembered = {order[number]: dict(values) for number, values in states.items() if values}
    keys = {key for values in remembered.values() for key in values}
    if not (keys <= _ADAM or keys <= _SGD):
        raise ValueError(
            f"{where}: this is another optimizer's state; expected {sorted(_ADAM)} (Adam, AdamW) or {sorted(_SGD)} "
            f"(SGD), got {sorted(keys)}. Start with a new state for that optimizer."
        )
    if counts := {int(np.asarray(values["step"])) for values in remembered.values() if "step" in values}:
        if len(counts) > 1:
            raise ValueError(
                f"{where}: torch's parameters had unequal counts of updates; expected one, got {sorted(counts)}. "
                "optax counts once for all: freeze those that start later, or start with a new state."
            )
        steps = counts.pop()
    elif steps is None and not any("momentum" in group for group in groups):
        steps = 0  # Adam before its first update
    filler = _Filler(where, remembered, steps)
    filled = _replaced(opt_state, filler.node)
    if (
        left := {name for name, values in remembered.items() if any(v is not None for v in values.values())}
        - filler.used
    ):
        raise ValueError(
            f"{where}: the optax state has no place for torch's state of {_some(left)}; expected an optimizer "
            "of the same kind over the same parameters. Compare their names and the optimizer."
        )
    return filled


def to_torch(opt_state: Any, names: Any, param_groups: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What `torch_optimizer.load_state_dict` takes, from optax's state.

    Args:
        opt_state: of `optax.adam`, `adamw` or `sgd`, alone or in a chain; its counts are concrete.
        names: of the parameters in the order in which torch's optimizer gets them; as in `from_torch`.
        param_groups: the groups' hyperparameters, which torch takes from here: `[{"lr": 1e-3, "betas": (0.9, 0.999),
            "eps": 1e-8, "weight_decay": 0.0}]`, or those of an older state_dict. One group needs no `params`; each of
            several lists its numbers.

    Returns:
        {"state": {number: averages}, "param_groups": […]} of numpy arrays: `weights.save("optimizer.pt", …)`. What
        optax does not move (frozen) has no entry.

    Raises:
        ValueError: no such state in `opt_state`; names that differ; a hyperparameter that torch needs and is missing.

    Example:
        >>> state = optax.sgd(0.1, momentum=0.9).init({"fc": {"bias": jnp.zeros(2)}})
        >>> group = {"lr": 0.1, "momentum": 0.9, "dampening": 0.0, "weight_decay": 0.0, "nesterov": False}
        >>> to_torch(state, ["fc.bias"], [group])["state"]
        {0: {'momentum_buffer': array([0., 0.], dtype=float32)}}

    Reference: torch.optim.Optimizer.load_state_dict
    """
    where = "optim.to_torch"
    groups = [dict(group) for group in param_groups]
    if len(groups) == 1 and "params" not in groups[0]:
        groups[0]["params"] = list(range(len(_listed(names))))
    _refuse_options(where, groups)
    order = _order(where, groups, names)
    remembered: dict[str, dict[str, np.ndarray]] = {}

    def note(node: Any) -> Any:
        for key, field in _fields(node).items():
            for name, leaf in tree.flatten(getattr(node, field)).items():
                if not isinstance(leaf, optax.MaskedNode):
                    remembered.setdefault(name, {})[key] = np.asarray(leaf)
                    if field == "mu":
                        remembered[name]["step"] = np.asarray(int(node.count), np.float32)
        return node

    _replaced(opt_state, note)
    if odd := set(remembered) - set(order.values()):
        raise ValueError(
            f"{where}: optax holds parameters that torch's optimizer does not get: {_some(odd)}; expected names out of "
            f"{_some(set(order.values()))}. Unstack the layers of a scanned Repeat, or give these names too."
        )
    kind = "Adam" if any("exp_avg" in values for values in remembered.values()) else "SGD"
    for group in groups:
        if missing := [key for key in _HYPER[kind] if key not in group]:
            raise ValueError(
                f"{where}: torch takes its hyperparameters from param_groups; expected {', '.join(_HYPER[kind])} for "
                f"{kind}, got none of {', '.join(missing)}. Add them."
            )
    states = {number: remembered[name] for number, name in order.items() if name in remembered}
    return {"state": states, "param_groups": groups}


class _Filler:
    """Replaces the values of one node of optax's state by torch's."""

    def __init__(self, where: str, remembered: dict[str, dict[str, Any]], steps: int | None):
        self._where, self._remembered, self._steps = where, remembered, steps
        self._keys = {key for values in remembered.values() for key in values}
        self.used: set[str] = set()

    def node(self, node: Any) -> Any:
        values: dict[str, Any] = {
            field: tree.map_with_name(lambda name, leaf, key=key: self._leaf(name, leaf, key), getattr(node, field))
            for key, field in _fields(node).items()
        }
        if "count" in node._fields:
            if self._steps is None:
                raise ValueError(
                    f"{self._where}: {type(node).__name__} counts updates and torch's SGD does not; expected steps=, "
                    "got None. Give the number of updates so far."
                )
            values["count"] = jnp.asarray(self._steps, node.count.dtype)
        return node._replace(**values)

    def _leaf(self, name: str, leaf: Any, key: str) -> Any:
        if isinstance(leaf, optax.MaskedNode):
            return leaf
        if self._keys and key not in self._keys:
            raise ValueError(
                f"{self._where}: the two are different optimizers; expected a place for "
                f"{', '.join(sorted(self._keys))}, got one for {key}. Take the optax optimizer of the same kind."
            )
        value = self._remembered.get(name, {}).get(key)
        if value is None:
            if self._remembered and key != "momentum_buffer":
                raise ValueError(
                    f"{self._where}: torch has no state of {name!r}, which never had a gradient there; expected "
                    f"{key} as for {_some(set(self._remembered))}. Freeze it in optax too, or start with a new state."
                )
            return jnp.zeros_like(leaf)
        self.used.add(name)
        if np.shape(value) != leaf.shape:
            raise ValueError(
                f"{self._where}: {key} of {name!r} has another shape; expected {leaf.shape}, got "
                f"{tuple(np.shape(value))}. Check the order of the names."
            )
        return jnp.asarray(value, leaf.dtype)


def _fields(node: Any) -> dict[str, str]:
    """{torch's key: optax's field} of a node of optax's state that has a value for each parameter."""
    if "nu_max" in node._fields:
        raise ValueError(
            "optim: optax's amsgrad takes its maximum after the bias correction, torch before it; expected Adam, AdamW "
            "or SGD, got amsgrad. Their states differ in meaning: start with a new state."
        )
    if {"mu", "nu", "count"} <= set(node._fields):
        return {"exp_avg": "mu", "exp_avg_sq": "nu"}
    return {"momentum_buffer": "trace"} if "trace" in node._fields else {}


def _replaced(node: Any, replace: Callable[[Any], Any]) -> Any:
    """`node` with `replace` applied to every named tuple that has averages or counts, however deep."""
    if isinstance(node, tuple) and hasattr(node, "_fields"):
        if _fields(node):
            return replace(node)
        inner = {field: _replaced(getattr(node, field), replace) for field in node._fields if field != "count"}
        node = node._replace(**inner)  # type: ignore[attr-defined]
        return replace(node) if "count" in node._fields else node
    if isinstance(node, dict):
        return {key: _replaced(value, replace) for key, value in node.items()}
    return type(node)(_replaced(value, replace) for value in node) if isinstance(node, list | tuple) else node


def _refuse_options(where: str, groups: Sequence[Mapping[str, Any]]) -> None:
    for group in groups:
        if "decoupled_weight_decay" in group and "amsgrad" not in group:
            raise ValueError(
                f"{where}: this is another optimizer's state; expected Adam, AdamW or SGD, got RAdam, whose averages "
                "have the same names. Start with a new state for that optimizer."
            )
        if group.get("amsgrad"):
            raise ValueError(
                f"{where}: torch's amsgrad takes its maximum before the bias correction, optax's after it; expected "
                "amsgrad=False, got True. Their states differ in meaning: start with a new state."
            )
        if group.get("momentum") and group.get("dampening"):
            raise ValueError(
                f"{where}: optax's momentum has no dampening; expected dampening=0, got {group['dampening']}. "
                "Start with a new optimizer state."
            )


def _order(where: str, groups: Sequence[Mapping[str, Any]], names: Any) -> dict[int, str]:
    """{torch's number of a parameter: its name}."""
    numbers = [number for group in groups for number in group["params"]]
    if all("param_names" in group for group in groups):
        listed = [name for group in groups for name in group["param_names"]]
    else:
        listed = _listed(names)
        if len(groups) > 1 and hasattr(names, "named_parameters"):
            raise ValueError(
                f"{where}: torch's optimizer has {len(groups)} groups, and a net does not say which parameter is in "
                "which; expected a list of names, group after group, got a net."
            )
    if len(listed) != len(numbers) or len(set(listed)) != len(listed):
        raise ValueError(
            f"{where}: torch's optimizer has {len(numbers)} parameters; expected as many names, each once, got "
            f"{len(listed)}. Give those of the parameters that it got, in their order."
        )
    return dict(zip(numbers, listed, strict=True))


def _listed(names: Any) -> list[str]:
    return [name for name, *_ in names.named_parameters()] if hasattr(names, "named_parameters") else list(names)


def _some(names: set[str]) -> str:
    shown = sorted(names)
    return ", ".join(shown[:4]) + (f" and {len(shown) - 4} more" if len(shown) > 4 else "")
