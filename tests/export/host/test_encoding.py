"""Numbers of WebAssembly's binary format against their definition."""

from hypothesis import given
from hypothesis import strategies as st

from funcnet.export.host.binary import CUSTOM, read
from funcnet.export.host.encoding import HEADER, first_number, section, signed, unsigned


@given(st.integers(0, 2**32 - 1))
def test_unsigned_numbers(value):
    encoded = unsigned(value)
    assert sum((byte & 127) << 7 * place for place, byte in enumerate(encoded)) == value
    assert all(byte & 128 for byte in encoded[:-1]) and not encoded[-1] & 128
    assert first_number(encoded + b"rest") == (value, b"rest")


@given(st.integers(-(2**31), 2**31 - 1))
def test_signed_numbers(value):
    total = 0
    encoded = signed(value)
    for place, byte in enumerate(encoded):
        total |= (byte & 127) << 7 * place
    assert total - (1 << 7 * len(encoded) if encoded[-1] & 64 else 0) == value


def test_a_number_may_be_longer_than_it_needs_to_be():
    assert first_number(bytes.fromhex("ac820007")) == (300, b"\x07")


def test_sections():
    module = HEADER + section(CUSTOM, b"\x01a" + bytes(300)) + section(CUSTOM, b"\x01b")
    assert read(module).sections == ((CUSTOM, 11, 313), (CUSTOM, 315, 317))
    assert read(module).custom("a") == bytes(300) and read(module).custom("b") == b""
