"""Limits of memory, instructions and time."""

import time

import pytest

from funcnet.export import host
from tests.export.host.cases import wasm

LOOP = wasm('(func $forever (export "forever") (loop (br 0))) (func (export "quick") (result i32) (i32.const 1))')


@pytest.mark.every_row
@pytest.mark.parametrize("values", [{"memory": 0}, {"fuel": -1}, {"seconds": float("nan")}, {"seconds": float("inf")}])
def test_limits_are_positive(values):
    ((name, value),) = values.items()
    with pytest.raises(ValueError, match=f"Limits: {name} is wrong; expected a positive number or None, got {value}"):
        host.Limits(**values)


@pytest.mark.parametrize("values", [{"memory": 2**70}, {"memory": 1.5e6}, {"fuel": 2**70}, {"fuel": 1e4}])
def test_limits_of_any_size(values):
    hosts = {"env": {"memory": host.HostMemory(3)}}
    linked = host.link({"code": LOOP}, hosts, limits=host.Limits(**values))
    assert linked["code"]["quick"]() == 1


def test_fuel_is_given_to_every_call():
    linked = host.link({"code": LOOP}, limits=host.Limits(fuel=1000))
    for _ in range(3):
        with pytest.raises(host.WasmTrap) as caught:
            linked["code"]["forever"]()
        assert str(caught.value) == (
            "module 'code', function 'forever': the fuel was used up; expected at most 1000 instructions, got more, "
            "in forever."
        )
        assert linked["code"]["quick"]() == 1


@pytest.mark.slow
def test_a_call_that_takes_too_long():
    linked = host.link({"code": LOOP}, limits=host.Limits(seconds=1))
    with pytest.raises(host.WasmTrap, match=r"it took too long; expected at most 1 seconds?, got more, in forever"):
        linked["code"]["forever"]()
    end = time.monotonic() + 1.2
    while time.monotonic() < end:  # longer than the limit, which starts anew with each call
        assert linked["code"]["quick"]() == 1
    patient = host.link({"code": LOOP}, limits=host.Limits(seconds=3600))
    assert patient["code"]["quick"]() == 1  # a call does not wait for its limit


def test_a_call_from_a_host_function_shares_the_limit():
    code = wasm(
        '(import "env" "again" (func $again)) (func (export "outer") (call $again) (call $again))'
        ' (func (export "inner") (local i32) (local.set 0 (i32.const 300)) (loop'
        " (br_if 0 (local.tee 0 (i32.sub (local.get 0) (i32.const 1))))))"
    )
    again = host.function(linked=True)(lambda linked: linked["code"]["inner"]())
    hosts = {"env": {"again": again}}
    assert host.link({"code": code}, hosts, limits=host.Limits(fuel=2500))["code"]["inner"]() is None
    with pytest.raises(host.WasmTrap, match="function 'inner': the fuel was used up"):
        host.link({"code": code}, hosts, limits=host.Limits(fuel=2500))["code"]["outer"]()


def test_a_start_function_has_limits_too():
    endless = wasm("(func $s (loop (br 0))) (start $s)")
    with pytest.raises(host.WasmTrap, match="module 'code', when it starts: the fuel was used up"):
        host.link({"code": endless}, limits=host.Limits(fuel=1000))


def test_growth_from_python():
    code = wasm('(memory (export "small") 1 3) (memory (export "large") 1)')
    linked = host.link({"code": code}, limits=host.Limits(memory=5 * 65536))
    assert linked["code"]["small"].grow(1) == 1
    with pytest.raises(
        ValueError, match="memory 'small': it cannot grow; expected at most 3 pages in all, got 2 and 2"
    ):
        linked["code"]["small"].grow(2)
    with pytest.raises(
        ValueError, match="memory 'large': it cannot grow; expected at most 5 pages in all, got 1 and 5"
    ):
        linked["code"]["large"].grow(5)
    with pytest.raises(ValueError, match="memory 'small': it cannot grow; expected a number of pages, got -1"):
        linked["code"]["small"].grow(-1)
