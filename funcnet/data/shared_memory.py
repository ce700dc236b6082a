"""Shared memory without a name. Worker processes pass batches through it.

A slot is a piece of shared memory. A worker writes the arrays of a batch into a slot and sends the slot's number. The
receiver makes arrays that use the memory of the slot. When the last of these arrays is garbage-collected, the slot is
free again. Slots are reused, because providing new pages takes the operating system longer than copying a batch. The
memory has no name, so nothing is left behind if a process is killed.
"""

from __future__ import annotations

import mmap
import os
import pickle
import tempfile
import threading
import weakref
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from multiprocessing.reduction import recv_handle, send_handle
from typing import Any, NamedTuple

import numpy as np

__all__ = ["Receiver", "Sender"]

ALIGNMENT = 64  # bytes
SMALLEST = 16_384  # bytes. Smaller batches are sent through the pipe.
KEPT = 8  # slots of a worker that the receiver's arrays may occupy. Further batches are copied.


class _Header(NamedTuple):
    """The header of a message, which tells the receiver where the buffers of the message are.

    Attributes:
        slot: number of the slot that contains the buffers, or None if the buffers follow through the pipe.
        capacity: size of the slot in bytes if it is new, otherwise 0. The file descriptor of a new slot follows the
            header.
        dropped: numbers of slots that the worker no longer uses.
        sizes: sizes of the buffers in bytes.
    """

    slot: int | None
    capacity: int
    dropped: tuple[int, ...]
    sizes: tuple[int, ...]


class Sender:
    """The worker's end of a connection to the parent. A `Sender` sends objects through a pipe, and their arrays through
    shared memory.

    Args:
        pipe: connection to the receiver.
        peer: process id of the receiver.
    """

    def __init__(self, pipe: Connection, peer: int):
        self._pipe, self._peer = pipe, peer
        self._slots: dict[int, mmap.mmap] = {}
        self._free: set[int] = set()
        self._lock = threading.Lock()  # protects `_free`, to which another thread adds slots
        self._made = 0

    def release(self, slot: int) -> None:
        """Record that a slot is free."""
        with self._lock:
            if slot in self._slots:
                self._free.add(slot)

    def send(self, value: object) -> None:
        """Send an object. Exceptions of pickle and of the pipe are not caught."""
        buffers: list[pickle.PickleBuffer] = []
        content = pickle.dumps(value, protocol=5, buffer_callback=buffers.append)
        views = [buffer.raw() for buffer in buffers]
        sizes = tuple(view.nbytes for view in views)
        needed = sum(_aligned(size) for size in sizes)
        if needed < SMALLEST:
            self._pipe.send_bytes(pickle.dumps(tuple(_Header(None, 0, (), sizes))))
            self._pipe.send_bytes(content)
            for view in views:
                if view.nbytes:
                    self._pipe.send_bytes(view)
            return
        slot, capacity, dropped, descriptor = self._slot(needed)
        memory, start = self._slots[slot], 0
        for view in views:
            memory[start : start + view.nbytes] = view
            start += _aligned(view.nbytes)
        self._pipe.send_bytes(pickle.dumps(tuple(_Header(slot, capacity, dropped, sizes))))
        if descriptor is not None:
            send_handle(self._pipe, descriptor, self._peer)
            os.close(descriptor)
        self._pipe.send_bytes(content)

    def _slot(self, needed: int) -> tuple[int, int, tuple[int, ...], int | None]:
        """Return a slot for `needed` bytes: (number, capacity if new or else 0, dropped slots, descriptor if new or
        else None).
        """
        with self._lock:
            fitting = [slot for slot in self._free if len(self._slots[slot]) >= needed]
            if fitting:
                slot = min(fitting, key=lambda one: len(self._slots[one]))
                self._free.discard(slot)
                return slot, 0, (), None
            dropped = tuple(self._free)  # too small
            for slot in dropped:
                self._slots.pop(slot).close()
            self._free.clear()
        capacity = -(-needed // mmap.PAGESIZE) * mmap.PAGESIZE
        descriptor = _anonymous_file()
        os.ftruncate(descriptor, capacity)
        self._made += 1
        self._slots[self._made] = mmap.mmap(descriptor, capacity)
        return self._made, capacity, dropped, descriptor


class Receiver:
    """The parent's end of a connection to a worker. A `Receiver` receives the objects that a `Sender` sends.

    Args:
        pipe: connection to the sender.
        release: function that takes the number of a slot and returns a callback. The callback tells the sender that the
            slot is free. The callback runs while an array is garbage-collected, and must not be written in Python.
            Python would discard an exception that is raised inside the callback, such as a KeyboardInterrupt.
    """

    def __init__(self, pipe: Connection, release: Callable[[int], Callable[[Any], Any]]):
        self._pipe, self._release = pipe, release
        self._slots: dict[int, mmap.mmap] = {}
        self._occupied: dict[int, weakref.ref[np.ndarray]] = {}

    def receive(self) -> Any:
        """Receive an object. Its arrays are writable.

        Raises:
            EOFError, OSError: if the process of the sender has ended.
        """
        header = _Header(*pickle.loads(self._pipe.recv_bytes()))
        for slot in header.dropped:
            self._slots.pop(slot, None)
        if header.slot is None:
            content = self._pipe.recv_bytes()
            buffers: Sequence[Any] = [
                bytearray(self._pipe.recv_bytes()) if size else bytearray() for size in header.sizes
            ]
            return pickle.loads(content, buffers=buffers)
        if header.capacity:
            descriptor = recv_handle(self._pipe)
            try:
                self._slots[header.slot] = mmap.mmap(descriptor, header.capacity)
            finally:
                os.close(descriptor)
        content = self._pipe.recv_bytes()
        return pickle.loads(content, buffers=self._buffers(header))

    def _buffers(self, header: _Header) -> list[Any]:
        """Return views of the buffers in a slot, or copies if arrays of earlier messages still occupy `KEPT` slots."""
        assert header.slot is not None
        whole = np.frombuffer(self._slots[header.slot], np.uint8)
        views, start = [], 0
        for size in header.sizes:
            views.append(whole[start : start + size])
            start += _aligned(size)
        self._occupied = {slot: array for slot, array in self._occupied.items() if array() is not None}
        if len(self._occupied) >= KEPT:
            copies = [bytearray(view) for view in views]
            self._release(header.slot)(None)
            return copies
        self._occupied[header.slot] = weakref.ref(whole, self._release(header.slot))
        return views


def _aligned(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT


def _anonymous_file() -> int:
    """Return the descriptor of a file without a name, in memory if the system supports this, otherwise on disk."""
    if hasattr(os, "memfd_create"):
        return os.memfd_create("funcnet-data")
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())
