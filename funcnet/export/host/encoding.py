"""Encode numbers, names and sections in WebAssembly's binary format.

A module is a header of 8 bytes, followed by sections. A section has a byte for its kind, its size, and its content. A
size is written in LEB128: each byte holds seven bits of the number, and the first byte holds the lowest bits.
"""

from collections.abc import Sequence

__all__ = ["HEADER", "first_number", "section", "signed", "text", "unsigned", "vector"]

HEADER = b"\0asm\1\0\0\0"


def unsigned(value: int) -> bytes:
    """Return a number encoded as unsigned LEB128.

    Example:
        >>> unsigned(300).hex()
        'ac02'
    """
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def signed(value: int) -> bytes:
    """Return a number encoded as signed LEB128. The second highest bit of the last byte is the sign bit.

    Example:
        >>> signed(-1).hex(), signed(64).hex()
        ('7f', 'c000')
    """
    out = bytearray()
    while not -0x40 <= value < 0x40:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value & 0x7F])


def first_number(content: bytes) -> tuple[int, bytes]:
    """Return the unsigned LEB128 number at the start of some bytes, and the bytes after it.

    The number may be encoded in more bytes than necessary.

    Example:
        >>> first_number(bytes.fromhex("ac0207"))
        (300, b'\\x07')
    """
    size = next(i for i, byte in enumerate(content) if byte < 0x80) + 1
    return sum((byte & 0x7F) << 7 * i for i, byte in enumerate(content[:size])), content[size:]


def text(value: str) -> bytes:
    """Return the encoding of a name: its number of bytes in LEB128, followed by the text in UTF-8."""
    return unsigned(len(value.encode())) + value.encode()


def vector(items: Sequence[bytes]) -> bytes:
    """Return the encoding of a list: the number of items in LEB128, followed by the encoded items."""
    return unsigned(len(items)) + b"".join(items)


def section(kind: int, content: bytes) -> bytes:
    """Return the encoding of a section: the byte of its kind, its size in LEB128, and its content."""
    return bytes([kind]) + unsigned(len(content)) + content
