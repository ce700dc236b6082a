"""funcnet: torch.nn as pure JAX functions."""
