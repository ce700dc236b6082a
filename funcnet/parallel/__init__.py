"""Use several devices: lay out arrays on a mesh, and run a step on the mesh with `jit`, `shard_map` or `pmap`."""

from funcnet.parallel.checks import check_batch_size, check_length, check_replicated
from funcnet.parallel.collectives import Collective, Collectives, count_collectives
from funcnet.parallel.data_parallel import data_parallel, parallel_apply, replicate
from funcnet.parallel.errors import ProcessError
from funcnet.parallel.layout import Kind, Layout, make_layout
from funcnet.parallel.mesh import (
    AXIS,
    CONTEXT,
    FSDP,
    TENSOR,
    make_mesh,
    parse_mesh,
    select_devices,
    use_virtual_cpu_devices,
)
from funcnet.parallel.processes import (
    check_equal,
    first_decides,
    is_first,
    join_processes,
    leave,
    process_count,
    process_name,
    wait_for_all,
    watch_processes,
)
from funcnet.parallel.proposal import Proposal
from funcnet.parallel.rules import parse_rules, sharding_rules
from funcnet.parallel.scatter_gather import gather, scatter
from funcnet.parallel.sharded_init import ShardedInit
from funcnet.parallel.sharding_table import sharding_report
from funcnet.parallel.step import average_over, compile_whole, first_over, fold_in_device, parallelize, sum_over

__all__ = [
    "AXIS",
    "CONTEXT",
    "FSDP",
    "TENSOR",
    "Collective",
    "Collectives",
    "Kind",
    "Layout",
    "ProcessError",
    "Proposal",
    "ShardedInit",
    "average_over",
    "check_batch_size",
    "check_equal",
    "check_length",
    "check_replicated",
    "compile_whole",
    "count_collectives",
    "data_parallel",
    "first_decides",
    "first_over",
    "fold_in_device",
    "gather",
    "is_first",
    "join_processes",
    "leave",
    "make_layout",
    "make_mesh",
    "parallel_apply",
    "parallelize",
    "parse_mesh",
    "parse_rules",
    "process_count",
    "process_name",
    "replicate",
    "scatter",
    "select_devices",
    "sharding_report",
    "sharding_rules",
    "sum_over",
    "use_virtual_cpu_devices",
    "wait_for_all",
    "watch_processes",
]
