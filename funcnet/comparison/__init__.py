"""`funcnet.compare` compares a torch module with its port, layer by layer, forward and backward.

`against_torch.py` has the function, `runs.py` runs both sides, `differences.py` makes a row of numbers for each module,
and `report.py` shows them. No file imports torch, because a caller with a torch module has already done so.
"""

from funcnet.comparison.against_torch import compare
from funcnet.comparison.report import CallRow, Comparison

__all__ = ["CallRow", "Comparison", "compare"]
