"""`funcnet.compare` compares a torch module with its port, layer by layer, forward and backward.

`against_torch.py` defines the function. `runs.py` runs both modules. `differences.py` computes a row of differences for
each call of an inner module. `comparison_table.py` shows the rows. No file of this package imports torch, because a
caller that has a torch module has already imported torch.
"""

from funcnet.comparison.against_torch import compare
from funcnet.comparison.comparison_table import CallRow, Comparison

__all__ = ["CallRow", "Comparison", "compare"]
