"""The values that describe a process of a run: the environment variables of launchers, and the names of arguments."""

from collections.abc import Mapping

from funcnet.parallel.errors import ProcessError

__all__ = ["JOINING", "argument_names", "process_of_environment"]

JOINING = "parallel.join_processes"


def argument_names(where: str) -> tuple[str, str, str]:
    """Return the names of the three values that describe a process: those of a command, or of `join_processes`.

    Example:
        >>> argument_names("pretrain"), argument_names("parallel.join_processes")
        (('--coordinator', '--num-processes', '--process-id'), ('coordinator', 'count', 'index'))
    """
    if where == JOINING:
        return "coordinator", "count", "index"
    return "--coordinator", "--num-processes", "--process-id"


def process_of_environment(variables: Mapping[str, str], where: str) -> tuple[str | None, int, int] | None:
    """Return (address of the coordinator, number of processes, number of this process), or None for a run of one
    process.

    Args:
        variables: the environment variables.
        where: prefix for error messages, such as the name of the caller.

    Raises:
        ProcessError: if a variable of a launcher is not a number.

    Example:
        >>> process_of_environment({"SLURM_STEP_NUM_TASKS": "4", "SLURM_PROCID": "3"}, "pretrain")
        (None, 4, 3)
    """
    for count, index in (
        ("SLURM_STEP_NUM_TASKS", "SLURM_PROCID"),
        ("OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"),
        ("JAX_NUM_PROCESSES", "JOB_COMPLETION_INDEX"),
    ):
        if _number(variables, count, where) > 1 and index in variables:
            address = variables.get("JAX_COORDINATOR_ADDRESS")  # if None, JAX finds that of Slurm or Open MPI
            return address, _number(variables, count, where), _number(variables, index, where)
    return None


def _number(variables: Mapping[str, str], name: str, where: str) -> int:
    """Return an environment variable as a number, or 1 if it is not set."""
    text = variables.get(name) or "1"
    try:
        return int(text)
    except ValueError:
        raise ProcessError(
            f"{where}: the environment variable {name} is not a number; expected a whole number as launchers set it, "
            f"got {text!r}. Unset it, or pass {', '.join(argument_names(where))}."
        ) from None
