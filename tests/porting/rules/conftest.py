"""Tensors for calls of torch that are written as text."""

import pytest
import torch


@pytest.fixture(scope="module")
def tensors():
    torch.manual_seed(0)
    x, y = (torch.randn(2, 3, 4, dtype=torch.float64, requires_grad=True) for _ in range(2))
    a, v = torch.randn(4, 6, dtype=torch.float64), torch.randn(4, dtype=torch.float64)
    square, z = torch.randn(4, 4, dtype=torch.float64), torch.randn(3, 3, dtype=torch.complex128)
    n, u = torch.randint(1, 9, (2, 3, 4)), torch.randint(0, 256, (2, 3, 4), dtype=torch.uint8)
    i, j = torch.randint(0, 3, (2, 3, 4)), torch.tensor([1, 0, 2])
    return {"x": x, "y": y, "n": n, "u": u, "m": n > 4, "i": i, "j": j, "z": z} | {
        name: tensor.requires_grad_() for name, tensor in {"a": a, "v": v, "s": square}.items()
    }
