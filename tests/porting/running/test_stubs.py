"""Placeholders stand for anything while a file is imported, and are errors while the model runs."""

import pytest
import torch

from funcnet.porting.errors import PortError
from funcnet.porting.running.stubs import Stub, reason_for


class Phase:
    running = False


@pytest.fixture
def phase():
    return Phase()


@pytest.fixture
def stub(phase):
    return Stub("absent", reason_for("absent"), lambda: phase.running)


def test_what_a_file_does_when_it_is_imported(stub):
    @stub.registry.register("name", force=True)
    class Kept:
        pass

    @stub.jit
    def kept():
        return 3

    class Child(stub.Base, torch.nn.Module, option=1):
        pass

    assert isinstance(Kept, type) and kept() == 3
    assert list(stub.names) == [] and len(stub.names) == 0
    assert not isinstance(3, stub.Type) and not issubclass(int, stub.Type)
    assert isinstance(stub.Float["b c"] | None, Stub)
    assert not hasattr(stub, "__wrapped__")
    assert Child.__mro__[1].__name__ == "Base"


def test_what_a_model_does_when_it_runs(stub, phase):
    class Mixed(torch.nn.Module, stub.Hub):
        pass

    class Child(stub.Base):
        pass

    phase.running = True
    for use in (lambda: stub.f(1), lambda: stub.x[0], lambda: list(stub.x), lambda: len(stub.x), Child):
        with pytest.raises(PortError, match=r"absent.*is used, but absent is not installed. Run `pip install absent`"):
            use()
    assert isinstance(Mixed(), torch.nn.Module), "a base class beside torch's is not used"


def test_a_compiled_extension_is_not_to_be_installed():
    for name in ("torchvision._C", "selective_scan_cuda", "causal_conv1d_cuda"):
        assert "compiled extension" in reason_for(name) and "pip" not in reason_for(name)


def test_a_metaclass(stub):
    class Meta(stub.DocstringMeta):
        pass

    class Net(metaclass=Meta):
        pass

    assert isinstance(Net, Meta) and isinstance(Net(), Net)
