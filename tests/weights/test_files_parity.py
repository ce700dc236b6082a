"""weights.load and weights.save beside torch."""

import jax.numpy as jnp
import numpy as np
import safetensors.torch
import torch

from funcnet import weights


def test_torch_reads_the_file_and_we_read_torchs(tmp_path):
    path = tmp_path / "model.safetensors"
    weights.save(path, {"a": {"w": jnp.asarray([1.5, -2.0], jnp.bfloat16)}, "n": np.asarray(3, np.int64)})
    read = safetensors.torch.load_file(path)
    assert read["a.w"].dtype == torch.bfloat16 and read["a.w"].tolist() == [1.5, -2.0] and read["n"].item() == 3
    safetensors.torch.save_file({"x": torch.tensor([0.25], dtype=torch.bfloat16)}, path)
    assert weights.load(path)["x"].astype(np.float32) == 0.25
