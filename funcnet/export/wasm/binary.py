"""List the sections of a module, add sections to it, and put the bytes of a module together."""

from collections.abc import Sequence

from funcnet.export.host.binary import read
from funcnet.export.host.encoding import HEADER, first_number, section, signed, text, unsigned, vector

__all__ = [
    "CODE",
    "CUSTOM",
    "DATA",
    "GLOBAL",
    "IMPORT",
    "assembled",
    "custom",
    "data_section",
    "read_custom",
    "sections",
    "weights_module",
]

CUSTOM, IMPORT, MEMORY, GLOBAL, EXPORT, CODE, DATA, COUNT = 0, 2, 5, 6, 7, 10, 11, 12


def sections(module: bytes) -> list[tuple[int, bytes]]:
    """Return the sections of a module as (kind, content).

    Raises:
        ValueError: if the bytes are not a module, or the module is truncated.
    """
    return [(kind, module[start:end]) for kind, start, end in read(module).sections]


def assembled(parts: Sequence[tuple[int, bytes]]) -> bytes:
    """Return the bytes of a module that consists of these sections."""
    return HEADER + b"".join(section(kind, content) for kind, content in parts)


def custom(name: str, content: bytes) -> tuple[int, bytes]:
    """Return a custom section, which engines ignore."""
    return CUSTOM, text(name) + content


def read_custom(module: bytes, name: str) -> bytes:
    """Return the content of a custom section.

    Raises:
        ValueError: if the bytes are not a module, or the module has no section of this name.
    """
    content = read(module).custom(name)
    if content is None:
        raise ValueError(
            f"wasm: the module has no custom section {name!r}; expected a module that to_wasm wrote, got none."
        )
    return content


def _segment(address: int, content: bytes) -> bytes:
    return b"\x00\x41" + signed(address) + b"\x0b" + unsigned(len(content)) + content


def data_section(module: bytes, address: int, content: bytes) -> bytes:
    """Return the module with one more data segment, which the engine copies to `address` when the module is
    instantiated.
    """
    parts = sections(module)
    segment = _segment(address, content)
    out, done = [], False
    for kind, body in parts:
        if kind == DATA:
            count, rest = first_number(body)
            body, done = unsigned(count + 1) + rest + segment, True
        if kind == COUNT:
            body = unsigned(first_number(body)[0] + 1)
        out.append((kind, body))
        if kind == CODE and not done and not any(k == DATA for k, _ in parts):
            out.append((DATA, vector([segment])))
    return assembled(out)


def weights_module(address: int, content: bytes, pages: int, note: tuple[int, bytes]) -> bytes:
    """Return a module that exports a memory, in which the weights begin at `address`."""
    memory = vector([b"\x00" + unsigned(pages)])
    export = vector([text("memory") + b"\x02" + unsigned(0)])
    return assembled([(MEMORY, memory), (EXPORT, export), (DATA, vector([_segment(address, content)])), note])
