"""Loading of checkpoints into models, even if the names in the file differ from those of the model.

    file -> read_arrays (current names) -> choose_layers -> fill (prefixes, new heads, mismatches) -> params, state

A `Naming` describes the names of one family of models.
"""

from funcnet.models.loading.checkpoint_arrays import choose_layers, read_arrays
from funcnet.models.loading.model_weights import fill, load
from funcnet.models.loading.naming import Naming

__all__ = ["Naming", "choose_layers", "fill", "load", "read_arrays"]
