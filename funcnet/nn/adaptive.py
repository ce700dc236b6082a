"""The adaptive softmax, as in torch/nn/modules/adaptive.py. Letters: `B batch, D in_features, C n_classes`."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.typing import DTypeLike

from funcnet import functional as F
from funcnet.functional import checks
from funcnet.nn.container import ModuleList, Sequential
from funcnet.nn.inspection.checked import IndexRange
from funcnet.nn.linear import Linear
from funcnet.nn.module.module import Module

__all__ = ["AdaptiveLogSoftmaxWithLoss"]


class _ASMoutput(NamedTuple):
    output: jax.Array
    loss: jax.Array


class AdaptiveLogSoftmaxWithLoss(Module):
    """Adaptive softmax for many classes, few of which are frequent.

    Classes must be numbered by decreasing frequency, so that class 0 is the most frequent. All classes from number
    `cutoffs[0]` on are split into clusters. The first layer, called the head, computes one score for each class before
    `cutoffs[0]` and one score for each cluster. Each cluster has two linear layers with a narrow hidden layer between
    them, which score the classes of the cluster. The log-probability of a class c in a cluster is
    `log p(cluster) + log p(c | cluster)`.

    Args:
        in_features: size of each input vector, D.
        n_classes: number of classes, C.
        cutoffs: number of the first class of each cluster, from 1 to C - 1 and in increasing order.
        div_value: factor by which the hidden layer of each cluster is narrower than that of the previous cluster. The
            hidden layer of cluster i, counted from 0, has `D // div_value**(i + 1)` features.
        head_bias: if True, the head has a bias.
        dtype: dtype of the params; float32 by default.

    Params: head.weight (cutoffs[0] + number of clusters, D) and, with head_bias, head.bias. Cluster i, counted from 0,
        has tail.i.0.weight (width, D) and tail.i.1.weight (number of classes in the cluster, width), with width the
        size of its hidden layer.
    Call: input (B, D) and class ids (B,), or input (D,) and class id () -> a named tuple (output, loss). `output` has
        the shape of the class ids and contains the log-probability of each target class. `loss` is the mean of
        `-output`. `apply(…, method="log_prob")` maps the input (B, D) to the log-probabilities of all classes (B, C).
        `apply(…, method="predict")` maps the input (B, D) to the most probable class of each row (B,).

    Differs from torch: the scores of every cluster are computed for every row of the input, because under `jit` the
        shapes of arrays cannot depend on the targets. The module is still faster than a softmax over all C classes,
        because the layers of its clusters are narrower. Under `jit`, a class id that is out of range gives NaN.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from funcnet import nn
        >>> layer = nn.AdaptiveLogSoftmaxWithLoss(8, 20, cutoffs=[4, 10], div_value=2.0)
        >>> params, state = layer.init(jax.random.key(0))
        >>> (output, loss), _ = layer.apply(params, state, jnp.ones((2, 8)), jnp.array([1, 15]))
        >>> log_prob, _ = layer.apply(params, state, jnp.ones((2, 8)), method="log_prob")
        >>> output.shape, log_prob.shape, bool(jnp.allclose(loss, -output.mean()))
        ((2,), (2, 20), True)

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.AdaptiveLogSoftmaxWithLoss.html; Grave et al.
    2017.
    """

    head: Any
    tail: Any

    def __init__(
        self,
        in_features: int,
        n_classes: int,
        cutoffs: Sequence[int],
        div_value: float = 4.0,
        head_bias: bool = False,
        *,
        dtype: DTypeLike | None = None,
    ):
        super().__init__()
        cutoffs = list(cutoffs)
        edges = [0, *cutoffs, n_classes]
        if not cutoffs or any(int(c) != c for c in cutoffs) or any(a >= b for a, b in pairwise(edges)):
            raise ValueError(
                "AdaptiveLogSoftmaxWithLoss: cutoffs do not split the classes; expected one or more integers from 1 to "
                f"{n_classes - 1} in strictly increasing order, got {cutoffs}."
            )
        self.in_features, self.n_classes, self.cutoffs = in_features, n_classes, [*cutoffs, n_classes]
        self.div_value, self.head_bias = div_value, head_bias
        self.shortlist_size, self.n_clusters = self.cutoffs[0], len(cutoffs)
        self.head_size = self.shortlist_size + self.n_clusters
        self.head = Linear(in_features, self.head_size, bias=head_bias, dtype=dtype)
        self.tail = ModuleList()
        for i, (low, high) in enumerate(pairwise(self.cutoffs)):
            width = int(in_features // div_value ** (i + 1))
            narrow = Linear(in_features, width, bias=False, dtype=dtype)
            self.tail.append(Sequential(narrow, Linear(width, high - low, bias=False, dtype=dtype)))

    def reset_parameters(self) -> None:
        self.head.reset_parameters()
        for narrow, scores in self.tail:
            narrow.reset_parameters()
            scores.reset_parameters()

    def forward(self, input_: jax.Array, target_: jax.Array) -> _ASMoutput:
        where = "AdaptiveLogSoftmaxWithLoss"
        target = checks.integers(where, "target", target_)
        if target.ndim > 1 or input_.ndim != target.ndim + 1 or input_.shape[:-1] != target.shape:
            raise ValueError(
                f"{where}: the shapes of input and target do not match; expected (batch, {self.in_features}) and "
                f"(batch,), or ({self.in_features},) and (), got {input_.shape} and {target.shape}. Flatten all "
                "leading dimensions into the batch dimension."
            )
        checks.ids_in_range(where, "target", target, self.n_classes)
        input, target = input_.reshape(-1, input_.shape[-1]), target.reshape(-1)

        within = jnp.zeros(target.shape, input.dtype)
        place = target
        for i, (low, high) in enumerate(pairwise(self.cutoffs)):
            mine = (target >= low) & (target < high)
            place = jnp.where(mine, self.shortlist_size + i, place)
            # Targets outside this cluster are ignored, so their loss and gradient are 0.
            own = jnp.where(mine, target - low, -100)
            within -= F.cross_entropy(self.tail[i](input), own, ignore_index=-100, reduction="none")
        place = jnp.where((target < 0) | (target >= self.n_classes), self.head_size, place)  # gives NaN
        output = within - F.cross_entropy(self.head(input), place, ignore_index=-100, reduction="none")
        return _ASMoutput(output.reshape(target_.shape), -output.mean())

    def index_range(self, *inputs: jax.Array) -> IndexRange | None:
        """Return the target classes and the range that they must lie in, so that `nn.checked` can check them."""
        return IndexRange("target", inputs[1], self.n_classes) if len(inputs) > 1 else None

    def log_prob(self, input: jax.Array) -> jax.Array:
        """Return the log-probabilities (B, C) of all classes for an input (B, D)."""
        return self._log_prob(input, self.head(input))

    def predict(self, input: jax.Array) -> jax.Array:
        """Return the most probable class (B,) of each row of an input (B, D)."""
        head = self.head(input)
        first = head.argmax(1)
        return jnp.where(first < self.shortlist_size, first, self._log_prob(input, head).argmax(1))

    def _log_prob(self, input: jax.Array, head: jax.Array) -> jax.Array:
        of_head = F.log_softmax(head, dim=1)
        parts = [of_head[:, : self.shortlist_size]]
        for i in range(self.n_clusters):
            of_cluster = of_head[:, self.shortlist_size + i, None]
            parts.append(F.log_softmax(self.tail[i](input), dim=1) + of_cluster)
        return jnp.concatenate(parts, 1)
