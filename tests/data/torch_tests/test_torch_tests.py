"""torch's own tests of its data loader, run with funcnet.data in its place.

The file comes from Debian's source package `pytorch` and is fetched when this test runs; see `source.py`.
`sitecustomize.py` puts the classes of `shim.py` into torch.utils.data, in every process that the tests start.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.data.torch_tests.source import torch_test_file

HERE = Path(__file__).resolve().parent

# What cannot apply, with the reason. Each pattern must match a test of the file.
NOT_APPLICABLE = {
    "pin_memory|CustomPin|test_custom_batch_pin": "pinned memory belongs to CUDA",
    "test_multiple_dataloaders": "needs CUDA",
    "test_nested_tensor_multiprocessing": "nested tensors exist only in torch",
    "DataPipe|datapipe": "datapipes were removed from torch",
    "test_fd_limit_exceeded|test_early_exit": "tests torch's way of sharing tensors by file descriptors, with fork",
    "test_no_segfault|test_conv_after_fork": "tests torch's threads after a fork; funcnet never forks",
    "test_default_collate_shared_tensor": "tests that torch puts tensors into shared memory while it collates",
    "test_splits_reproducibility": "expects the numbers of torch's generator",
    "test_ind_worker_queue": "gives workers 5 seconds to start, which spawned ones do not always keep",
    "test_out_of_order_iterable_ds": "sleeps, and expects an order that depends on how fast workers start",
    "test_set_affinity_in_worker_init": "its worker_init_fn is a local function, which only a fork can pass on",
}
# torch expects this test of its own to fail (https://github.com/pytorch/pytorch/issues/128551); with funcnet it passes.
PASSES_UNEXPECTEDLY = "test_segfault"


SHARDS = 6
# Tests without worker processes; the fast suite runs them.
QUICK = "RandomSplit or TensorDataset or StackDataset or ConcatDataset or numpy or collate or convert or random_sampler"


def run(*arguments, slow=False):
    """(what pytest printed, {test: outcome})."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(HERE.parents[2]), str(HERE)])}
    environment["PYTORCH_TEST_WITH_SLOW"] = "1" if slow else "0"
    options = ["-q", "-rA", "--assert=plain", "-p", "no:cacheprovider", "-W", "ignore"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, *arguments],
        cwd=torch_test_file("test_dataloader.py").parent,
        env=environment,
        capture_output=True,
        text=True,
    )
    pattern = r"^(PASSED|FAILED|ERROR|XFAIL|XPASS) test_dataloader\.py::(\S+)"
    return done.stdout, {name: said for said, name in re.findall(pattern, done.stdout, re.MULTILINE)}


def reason(name):
    """Why a test cannot apply, or None."""
    return next((why for pattern, why in NOT_APPLICABLE.items() if re.search(pattern, name)), None)


def check(text, outcomes):
    assert "PASSED" in outcomes.values(), text[-3000:]
    failed = {name for name, said in outcomes.items() if said in ("FAILED", "ERROR")}
    failed = {name for name in failed if not name.endswith(f"::{PASSES_UNEXPECTEDLY}")}
    assert not failed, text[-8000:]


def every_test():
    text, _ = run("--collect-only", "test_dataloader.py")
    names = re.findall(r"^test_dataloader\.py::(\S+)$", text, re.MULTILINE)
    assert len(names) > 150, text
    return names


@pytest.mark.slow
def test_torchs_tests_of_datasets_collating_and_samplers():
    check(*run("test_dataloader.py", "-k", f"({QUICK}) and not shared_tensor and not splits_reproducibility"))


@pytest.mark.slow
@pytest.mark.parametrize("shard", range(SHARDS))
def test_torchs_tests_of_the_data_loader(shard):
    names = [name for name in every_test() if reason(name) is None and "proper_exit" not in name]
    check(*run(*(f"test_dataloader.py::{name}" for name in names[shard::SHARDS])))


@pytest.mark.slow
def test_torchs_tests_of_a_proper_exit():
    """Errors and kills of loader and workers, with and without a reference to the iterator."""
    check(*run("test_dataloader.py", "-k", "test_proper_exit", slow=True))


@pytest.mark.slow
def test_each_reason_belongs_to_a_test_and_is_in_the_documentation():
    names, page = every_test(), (HERE.parents[2] / "docs" / "data.md").read_text()
    for pattern, why in NOT_APPLICABLE.items():
        assert any(re.search(pattern, name) for name in names), pattern
        assert why in page, why
