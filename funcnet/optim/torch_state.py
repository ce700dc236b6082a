"""Convert the state of Adam, AdamW and SGD between torch and optax, so that training can continue in the other library.

Moving averages, momentum and the number of updates are converted. Learning rates, betas and weight decay are not
converted. Pass the same values as arguments of the optax optimizer:
    torch Adam(lr, betas, eps)               optax.adam(lr, b1, b2, eps)
    torch Adam(…, weight_decay=w)            optax.chain(optax.add_decayed_weights(w), optax.adam(…))
    torch AdamW(…, weight_decay=w)           optax.adamw(…, weight_decay=w)
    torch SGD(lr, momentum, nesterov)        optax.sgd(lr, momentum, nesterov); weight_decay as in Adam
    maximize=True                            optax.chain(optax.scale(-1.0), …)
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
import optax

from funcnet import tree
from funcnet.tree import PyTree

__all__ = ["from_torch", "to_torch"]

_ADAM, _SGD = {"step", "exp_avg", "exp_avg_sq"}, {"momentum_buffer"}
_HYPER = {  # hyperparameters that torch's load_state_dict does not fill in
    "Adam": ("lr", "betas", "eps", "weight_decay"),
    "SGD": ("lr", "momentum", "dampening", "weight_decay", "nesterov"),
}


def from_torch(state_dict: Mapping[str, Any], names: Any, opt_state: PyTree, *, steps: int | None = None) -> Any:
    """Return optax's state with the averages, momentum and update counts of a torch optimizer.

    Args:
        state_dict: `state_dict()` of `torch.optim.Adam`, `AdamW` or `SGD`, for example read with `weights.load`.
        names: names of the parameters in the order in which torch's optimizer received them. Pass a net, whose
            `named_parameters()` are used, or a list of the names in all groups. If `state_dict` contains `param_names`,
            the names in `param_names` are used instead.
        opt_state: `optimizer.init(params)` of the optax optimizer that continues the training, where `params` is a
            nested dict.
        steps: number of updates so far. `steps` is required if SGD uses a schedule, because the state of torch's SGD
            has no update count.

    Returns:
        A tree with the structure and dtypes of `opt_state`, but with torch's averages, momentum and counts.

    Raises:
        ValueError: if names or shapes differ, if the parameters have different numbers of updates, if `steps` is
            required but None, or if the state belongs to a different optimizer or uses amsgrad or dampening. optax does
            not support dampening. The amsgrad states differ, because optax takes the maximum after the bias correction,
            but torch takes it before.
        TypeError: if `state_dict` is not the state_dict of an optimizer.

    Differs from torch: all parameters share a single count of updates. Hyperparameters are not converted.

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
    if not (isinstance(state_dict, Mapping) and {"param_groups", "state"} <= state_dict.keys()):
        got = sorted(map(str, state_dict)) if isinstance(state_dict, Mapping) else type(state_dict).__name__
        raise TypeError(
            f"{where}: state_dict is not the state of an optimizer; expected a dict with 'param_groups' and 'state', "
            f"got {got}. Pass the optimizer's .state_dict()."
        )
    groups, states = state_dict["param_groups"], state_dict["state"]
    _refuse_options(where, groups)
    order = _order(where, groups, names)
    remembered = {order[number]: dict(values) for number, values in states.items() if values}
    keys = {key for values in remembered.values() for key in values}
    if not (keys <= _ADAM or keys <= _SGD):
        raise ValueError(
            f"{where}: the state belongs to a different optimizer; expected the keys {sorted(_ADAM)} (Adam, AdamW) or "
            f"{sorted(_SGD)} (SGD), got {sorted(keys)}. Start with a new optimizer state."
        )
    if counts := {int(np.asarray(values["step"])) for values in remembered.values() if "step" in values}:
        if len(counts) > 1:
            raise ValueError(
                f"{where}: torch's parameters have different numbers of updates; expected one number, got "
                f"{sorted(counts)}. optax has a single count for all parameters. Freeze the parameters that start "
                "later, or start with a new optimizer state."
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
            f"{where}: the optax state lacks the parameters {_some(left)}, which torch's state contains; expected an "
            "optimizer of the same kind with the same parameters. Check the parameter names and both optimizers."
        )
    return filled


def to_torch(opt_state: PyTree, names: Any, param_groups: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Convert optax's state to a state_dict for `torch_optimizer.load_state_dict`.

    Args:
        opt_state: state of `optax.adam`, `adamw` or `sgd`, alone or in a chain. The update counts in the state must be
            concrete values, not tracers.
        names: names of the parameters in the order in which torch's optimizer receives them, as in `from_torch`.
        param_groups: hyperparameters of the groups, which torch reads from the state_dict: `[{"lr": 1e-3, "betas":
            (0.9, 0.999), "eps": 1e-8, "weight_decay": 0.0}]`, or the groups of an existing state_dict. If there is only
            one group, its key `params` may be missing. If there are several groups, each must list the numbers of its
            parameters in `params`.

    Returns:
        {"state": {number: averages}, "param_groups": […]}. If the process has imported torch, the averages are torch
        tensors, which `load_state_dict` accepts. Otherwise, the averages are numpy arrays. The dict "state" has no
        entry for frozen parameters.

    Raises:
        ValueError: if the names differ, if a hyperparameter that torch needs is missing, or if a state or group uses
            amsgrad or dampening.

    Example:
        >>> state = optax.sgd(0.1, momentum=0.9).init({"fc": {"bias": jnp.zeros(2)}})
        >>> group = {"lr": 0.1, "momentum": 0.9, "dampening": 0.0, "weight_decay": 0.0, "nesterov": False}
        >>> np.asarray(to_torch(state, ["fc.bias"], [group])["state"][0]["momentum_buffer"])
        array([0., 0.], dtype=float32)

    Reference: torch.optim.Optimizer.load_state_dict
    """
    where = "optim.to_torch"
    groups = [dict(group) for group in param_groups]
    if len(groups) == 1 and "params" not in groups[0]:
        groups[0]["params"] = list(range(len(_listed(names))))
    _refuse_options(where, groups)
    order = _order(where, groups, names)
    remembered: dict[str, dict[str, np.ndarray]] = {}

    def note(node: PyTree) -> Any:
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
            f"{where}: optax's state contains parameters that are not in names; expected only "
            f"{_some(set(order.values()))}, got {_some(odd)}. Add these parameters to names, or unstack the "
            "layers of a scanned Repeat first."
        )
    kind = "Adam" if any("exp_avg" in values for values in remembered.values()) else "SGD"
    for group in groups:
        if missing := [key for key in _HYPER[kind] if key not in group]:
            raise ValueError(
                f"{where}: param_groups lacks hyperparameters of torch's {kind}; expected {', '.join(_HYPER[kind])}, "
                f"got none of {', '.join(missing)}. Add the missing hyperparameters to each group."
            )
    states = {number: remembered[name] for number, name in order.items() if name in remembered}
    if "torch" in sys.modules:
        tensor = sys.modules["torch"].tensor
        states = {n: {key: tensor(value) for key, value in values.items()} for n, values in states.items()}
    return {"state": states, "param_groups": groups}


class _Filler:
    """Replaces the values of one node of optax's state with torch's values."""

    def __init__(self, where: str, remembered: dict[str, dict[str, Any]], steps: int | None):
        self._where, self._remembered, self._steps = where, remembered, steps
        self._keys = {key for values in remembered.values() for key in values}
        self.used: set[str] = set()

    def node(self, node: PyTree) -> Any:
        values: dict[str, Any] = {
            field: tree.map_with_name(lambda name, leaf, key=key: self._leaf(name, leaf, key), getattr(node, field))
            for key, field in _fields(node).items()
        }
        if "count" in node._fields:
            if self._steps is None:
                raise ValueError(
                    f"{self._where}: {type(node).__name__} counts updates, but the state of torch's SGD has no count; "
                    "expected steps=…, got None. Pass the number of updates so far as steps."
                )
            values["count"] = jnp.asarray(self._steps, node.count.dtype)
        return node._replace(**values)

    def _leaf(self, name: str, leaf: Any, key: str) -> Any:
        if isinstance(leaf, optax.MaskedNode):
            return leaf
        if self._keys and key not in self._keys:
            raise ValueError(
                f"{self._where}: torch's and optax's optimizers are of different kinds; expected an optax state for "
                f"{', '.join(sorted(self._keys))}, got one for {key}. Use the optax optimizer of the same kind."
            )
        value = self._remembered.get(name, {}).get(key)
        if value is None:
            if self._remembered and key != "momentum_buffer":
                raise ValueError(
                    f"{self._where}: torch's state lacks {name!r}, because this parameter never had a gradient; "
                    f"expected {key}, as for {_some(set(self._remembered))}, got nothing. Freeze the parameter in "
                    "optax too, or start with a new optimizer state."
                )
            return jnp.zeros_like(leaf)
        self.used.add(name)
        if np.shape(value) != leaf.shape:
            raise ValueError(
                f"{self._where}: {key} of {name!r} has the wrong shape; expected {leaf.shape}, got "
                f"{tuple(np.shape(value))}. Check the order of the names."
            )
        return jnp.asarray(value, leaf.dtype)


def _fields(node: PyTree) -> dict[str, str]:
    """Return {key in torch's state: field of `node`} for those fields of an optax state node that have one value per
    parameter.
    """
    if "nu_max" in node._fields:
        raise ValueError(
            "optim: an amsgrad state cannot be converted; expected Adam, AdamW or SGD, got amsgrad. optax takes the "
            "maximum after the bias correction, but torch takes it before. Start with a new optimizer state."
        )
    if {"mu", "nu", "count"} <= set(node._fields):
        return {"exp_avg": "mu", "exp_avg_sq": "nu"}
    return {"momentum_buffer": "trace"} if "trace" in node._fields else {}


def _replaced(node: PyTree, replace: Callable[[Any], Any]) -> Any:
    """Return an optax state in which `replace` has been applied to every named tuple that has averages or counts, at
    any depth.
    """
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
                f"{where}: the state belongs to a different optimizer; expected Adam, AdamW or SGD, got RAdam, whose "
                "averages have the same names. Start with a new optimizer state."
            )
        if group.get("amsgrad"):
            raise ValueError(
                f"{where}: an amsgrad state cannot be converted; expected amsgrad=False, got True. optax takes the "
                "maximum after the bias correction, but torch takes it before. Start with a new optimizer state."
            )
        if group.get("momentum") and group.get("dampening"):
            raise ValueError(
                f"{where}: optax's momentum has no dampening; expected dampening=0, got {group['dampening']}. "
                "Start with a new optimizer state."
            )


def _order(where: str, groups: Sequence[Mapping[str, Any]], names: Any) -> dict[int, str]:
    """Return {number of a parameter in torch's state_dict: name of the parameter}."""
    numbers = [number for group in groups for number in group["params"]]
    if all("param_names" in group for group in groups):
        listed = [name for group in groups for name in group["param_names"]]
    else:
        listed = _listed(names)
        if len(groups) > 1 and hasattr(names, "named_parameters"):
            raise ValueError(
                f"{where}: torch's optimizer has {len(groups)} groups, but a net does not determine the group of each "
                "parameter; expected a list of names in the order of the groups, got a net."
            )
    if len(listed) != len(numbers) or len(set(listed)) != len(listed):
        raise ValueError(
            f"{where}: the names do not match torch's {len(numbers)} parameters; expected {len(numbers)} different "
            f"names, got {len(listed)} ({len(set(listed))} different). Pass the names of the parameters in the order "
            "in which torch's optimizer received them."
        )
    return dict(zip(numbers, listed, strict=True))


def _listed(names: Any) -> list[str]:
    return [name for name, *_ in names.named_parameters()] if hasattr(names, "named_parameters") else list(names)


def _some(names: set[str]) -> str:
    shown = sorted(names)
    return ", ".join(shown[:4]) + (f" and {len(shown) - 4} more" if len(shown) > 4 else "")
