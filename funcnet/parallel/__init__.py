"""Many devices: which ones, and one training step run over them three ways."""

from funcnet.parallel.data_parallel import (
    DataParallel,
    check_batch_size,
    check_replicated,
    data_parallel,
    parallelize,
    to_host,
)
from funcnet.parallel.mesh import AXIS, data_mesh, select_devices, use_virtual_cpu_devices

__all__ = [
    "AXIS",
    "DataParallel",
    "check_batch_size",
    "check_replicated",
    "data_mesh",
    "data_parallel",
    "parallelize",
    "select_devices",
    "to_host",
    "use_virtual_cpu_devices",
]
