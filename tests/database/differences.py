"""How far our numbers are from torch's, and how far they may be.

The oracle is torch in float64 on the same numbers. A difference is measured against the largest entry of the tensor
(or a thousandth of the largest among its kind, and for gradients of what they were asked under: one that is zero by
mathematics is noise on both sides). So in float32 is one of two roundings' size: a LayerNorm over two features passes
back 1e-7 of what it is asked under, and how near one draw comes is luck (tests/functional/test_normalization.py takes
20,000). Ours may be ROUNDING away, or AS_TORCH times as far as torch's own result in the dtype under test, in the worst
tensor of its kind: where the formula itself loses digits, nobody's float32 has them. Through a whole
TransformerDecoderLayer torch's own float32 is up to 1.7e-5 away and ours 6.6e-6, 0.8 times as far in the geometric mean
of 1,000 tensors; but one input is a draw of a few roundings, and which draw is bad depends on the CPU. So whole
networks have a bound of their own in float32, or torch's own worst over all inputs of the entry where that is larger.
(In float64 theirs is everybody's, 1e-11.)
"""

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

ROUNDING = {"float64": 1e-11, "float32": 3e-6}
NETWORK = {"float64": 1e-11, "float32": 1e-5}  # whole Transformers, whose norms over four features amplify roundings
ZERO = {"float64": 1e-13, "float32": 2.5e-7}  # of the largest of its kind: what may be roundings and no more
AS_TORCH = 2.0  # times torch's own distance from its float64


class Mismatch(AssertionError):
    """Ours is not torch's."""


def scale_of(reference: np.ndarray, kind: Sequence[np.ndarray], zero: float) -> float:
    """The largest entry; of what is at most `zero` times the largest of its kind, that one."""
    largest, whole = _largest(reference), max((_largest(other) for other in kind), default=0.0)
    return whole if largest <= zero * whole else max(largest, 1e-3 * whole)


def _largest(a: np.ndarray) -> float:
    if not a.size or not np.issubdtype(a.dtype, np.inexact):
        return 0.0
    finite = np.abs(a[np.isfinite(a)])
    return float(finite.max(initial=0.0))


def difference(ours: np.ndarray, reference: np.ndarray, scale: float) -> float:
    """The largest difference over `scale`; infinite where NaN or infinity stand in different places."""
    if not ours.size:
        return 0.0
    strange = ~np.isfinite(reference)
    if not np.array_equal(~np.isfinite(ours), strange):
        return float("inf")
    if strange.any() and not np.array_equal(ours[strange], reference[strange].astype(ours.dtype), equal_nan=True):
        return float("inf")
    wide = np.complex128 if np.iscomplexobj(reference) else np.float64
    worst = np.abs(ours[~strange].astype(wide) - reference[~strange].astype(wide)).max(initial=0.0)
    return float(worst / scale) if scale else float(worst and np.inf)


def compare(
    what: str,
    dtype: str,
    tensors: dict[str, Sequence[Any]],
    size: Sequence[np.ndarray] = (),
    rounding: dict[str, float] = ROUNDING,
) -> float:
    """Raises Mismatch, or gives the largest difference.

    Args:
        what: the kind of the tensors, as "gradient of".
        dtype: the one under test.
        tensors: {name: (ours in `dtype`, torch's in it, torch's in float64)}.
        size: further arrays that say how large numbers of this kind are.
        rounding: ROUNDING or NETWORK.
    """
    size = [*size, *(wide for _, _, wide in tensors.values())]
    away = {}
    for name, trio in tensors.items():
        got, narrow, wide = map(np.asarray, trio)
        if got.shape != narrow.shape:
            raise Mismatch(f"{what} {name}: shape {got.shape}, torch {narrow.shape}")
        if not np.issubdtype(narrow.dtype, np.inexact):
            if not np.array_equal(got, narrow):
                raise Mismatch(f"{what} {name}: {got.ravel()[:8]}…, torch {narrow.ravel()[:8]}…")
            continue
        if got.dtype != jax.dtypes.canonicalize_dtype(narrow.dtype):  # there is no float64 without x64
            raise Mismatch(f"{what} {name}: {got.dtype}, torch {narrow.dtype}")
        scale, narrows = (scale_of(reference, size, ZERO[dtype]) for reference in (wide, narrow))
        found, torchs = difference(got, wide, scale), difference(narrow, wide, scale)
        if found == torchs == np.inf and difference(got, narrow, narrows) <= rounding[dtype]:
            found = torchs = 0.0  # overflowed in the dtype under test, as torch's does
        away[name] = found, torchs
    allowed = max([rounding[dtype], *(AS_TORCH * torchs for _, torchs in away.values() if np.isfinite(torchs))])
    for name, (found, torchs) in away.items():
        if not found <= allowed:
            got, narrow, _ = map(np.ravel, tensors[name])
            raise Mismatch(
                f"{what} {name}: {found:.1e} from torch's float64 (torch itself {torchs:.1e}, {allowed:.1e} allowed); "
                f"ours {got[:4]}, torch {narrow[:4]}"
            )
    return max((found for found, _ in away.values()), default=0.0)
