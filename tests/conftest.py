"""Eight CPU devices before JAX starts, strict promotion, no precision lost silently."""

import os

os.environ["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + " --xla_force_host_platform_device_count=8"
os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax

jax.config.update("jax_numpy_dtype_promotion", "strict")
jax.config.update("jax_default_matmul_precision", "highest")
assert jax.device_count() == 8, "a multi-device test never skips: 8 CPU devices must be there"
