"""Plans: for each function of `funcnet.functional`, the operations of torch that it runs on CPU.

A plan is called with the tape, the results of the function, the function, and its arguments by name, with a `TapeValue`
in place of each array. It returns such values in the structure of the results. Their entries are then replaced by those
of the results.
"""

from collections.abc import Mapping

from funcnet.operators.graph.function_plans.attention import ATTENTION
from funcnet.operators.graph.function_plans.class_losses import CLASSES
from funcnet.operators.graph.function_plans.distances import DISTANCES
from funcnet.operators.graph.function_plans.linear_and_convolution import PRODUCTS
from funcnet.operators.graph.function_plans.losses import LOSSES
from funcnet.operators.graph.function_plans.normalization import NORMS
from funcnet.operators.graph.function_plans.pooling import POOLS
from funcnet.operators.graph.function_plans.recurrent import RECURRENT
from funcnet.operators.graph.function_plans.single_operations import SINGLE, Plan

__all__ = ["OPENED", "PLANS", "UNPLANNED"]

PLANS: Mapping[str, Plan] = {
    **ATTENTION,
    **CLASSES,
    **DISTANCES,
    **LOSSES,
    **NORMS,
    **POOLS,
    **PRODUCTS,
    **RECURRENT,
    **SINGLE,
}

# With these arguments, torch runs other operations, so the call is opened.
UNPLANNED: Mapping[str, str] = {
    "triplet_margin_with_distance_loss": "distance_function",
    **dict.fromkeys(("lstm", "gru", "rnn_tanh", "rnn_relu"), "lengths"),
}

# Functions without a plan, with the reason.
OPENED: Mapping[str, str] = {
    "embedding_renorm": "torch changes the weight without recording it",
    "one_hot": "the results are integers",
}
