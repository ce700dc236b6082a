"""Python objects for the exports of modules: functions, memories as NumPy arrays, tables and globals.

Each object keeps a reference to the runtime, so that an array of a memory stays valid after everything else has been
deleted.
"""

import ctypes
import math
import operator
import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import DTypeLike

from funcnet.export.host.limits import Limits
from funcnet.export.host.matching import PAGE, FunctionType, GlobalType, MemoryType, TableType

if TYPE_CHECKING:  # an optional dependency
    import wasmtime

__all__ = ["LinkedFunction", "LinkedGlobal", "LinkedMemory", "LinkedTable", "Runtime", "WasmTrap"]


class WasmTrap(RuntimeError):
    """Raised if WebAssembly code traps, for example at a division by zero, an access out of bounds or a limit.

    Args:
        where: description of the call from the host, such as "module 'code', function 'run'".
        reason: the reason of the trap.
        frames: names of the functions that were running, the innermost first.

    Example:
        >>> print(WasmTrap("module 'code', function 'run'", "integer divide by zero", ("divide", "run")))
        module 'code', function 'run': integer divide by zero, in divide, called by run.
    """

    def __init__(self, where: str, reason: str, frames: tuple[str, ...]) -> None:
        super().__init__(f"{where}: {reason}" + (f", in {', called by '.join(frames)}" if frames else "") + ".")
        self.reason, self.frames = reason, frames


class Runtime:
    """The wasmtime store of one call of `link`, and the limits for the code that runs in this store.

    Args:
        engine: wasmtime's engine.
        store: wasmtime's store.
        limits: limits of memory, instructions and time for every call.
        vectors: whether a module declares a function type with parameters or results of type v128.
    """

    def __init__(self, engine: "wasmtime.Engine", store: "wasmtime.Store", limits: Limits, vectors: bool) -> None:
        self.engine, self.store, self.limits = engine, store, limits
        self.linked: dict[str, Mapping[str, Any]] = {}
        self.vectors = vectors
        self._depth = 0

    def run(self, where: str, call: Callable[..., Any], *args: Any) -> Any:
        """Call a function that runs WebAssembly code, and enforce the limits.

        Args:
            where: start of the error message.
            call: the function.
            *args: arguments of the function.

        Raises:
            WasmTrap: if the code traps.
        """
        import wasmtime

        timer = None
        if not self._depth:  # a call from inside a host function shares the limits of the call around it
            if self.limits.fuel is not None:
                self.store.set_fuel(min(int(self.limits.fuel), 2**63 - 1))
            if self.limits.seconds is not None:
                self.store.set_epoch_deadline(1)
                timer = threading.Timer(self.limits.seconds, self.engine.increment_epoch)
                timer.start()
        self._depth += 1
        try:
            return call(*args)
        except wasmtime.Trap as trap:
            frames = tuple(one.func_name or f"function {one.func_index}" for one in trap.frames)
            raise WasmTrap(where, self._reason(trap), frames) from None
        finally:
            self._depth -= 1
            if timer is not None:
                timer.cancel()
                timer.join()  # a timer that fires late would stop the next call

    def _reason(self, trap: "wasmtime.Trap") -> str:
        code = trap.trap_code.name if trap.trap_code else ""
        if code == "OUT_OF_FUEL":
            return f"the fuel was used up; expected at most {self.limits.fuel} instructions, got more"
        if code == "INTERRUPT":
            return f"it took too long; expected at most {self.limits.seconds} seconds, got more"
        return trap.message.rpartition("wasm trap: ")[2].strip().splitlines()[0]

    def to_wasm(self, where: str, kind: str, value: Any) -> Any:
        """Return the value that wasmtime takes for a Python value.

        Args:
            where: start of the error message.
            kind: the value type in WebAssembly, such as "i32".
            value: an integer, a float, a `LinkedFunction`, or any object for `externref`.

        Raises:
            TypeError: if the value has the wrong type.
            ValueError: if an integer is out of range.
        """
        if kind in ("i32", "i64"):
            bits = int(kind[1:])
            try:
                value = operator.index(value)
            except TypeError:
                raise _wrong_value(where, kind, value) from None
            if not -(1 << bits - 1) <= value < 1 << bits:
                raise ValueError(f"{where}: a value is out of range; expected {kind}, got {value}.")
            return value
        if kind in ("f32", "f64"):
            if not isinstance(value, int | float | np.integer | np.floating):
                raise _wrong_value(where, kind, value)
            return float(value)
        if kind == "funcref":
            if value is not None and not isinstance(value, LinkedFunction):
                raise _wrong_value(where, kind, value)
            if value is not None and value.runtime is not self:
                raise ValueError(f"{where}: a function is of another link; expected one of the same link, got {value}.")
            return None if value is None else value.function
        if kind == "externref":
            return value
        raise _wrong_value(where, kind, value)

    def to_python(self, kind: str, value: Any) -> Any:
        """Return the Python value of a value that wasmtime returned or passed.

        Args:
            kind: the value type in WebAssembly, such as "i32".
            value: the value from wasmtime.

        Raises:
            TypeError: if the value is a reference to a function, and a module declares a function type with v128.
        """
        if kind == "externref":
            return getattr(value, "value", value) if type(value).__name__ == "Val" else value
        if kind != "funcref":
            return value
        if value is None or type(value).__name__ == "Val":  # wasmtime's null
            return None
        if self.vectors:  # wasmtime's C interface aborts the process when it is asked for a type with v128
            raise TypeError("a reference to a function cannot be read; expected modules without v128, got some.")
        found = value.type(self.store)
        signature = FunctionType(tuple(map(str, found.params)), tuple(map(str, found.results)))
        return LinkedFunction(self, "a function of a table", signature, value)


def _wrong_value(where: str, kind: str, value: object) -> TypeError:
    return TypeError(f"{where}: a value has the wrong type; expected {kind}, got {type(value).__name__}.")


class LinkedFunction:
    """A function of a module or of the host. A call returns the result, a tuple of several results, or None if there is
    no result.

    Args:
        runtime: the runtime in which the function runs.
        where: name of the function in errors.
        type: signature of the function.
        function: wasmtime's function.
    """

    def __init__(self, runtime: Runtime, where: str, type: FunctionType, function: "wasmtime.Func") -> None:
        self.runtime, self.where, self.type, self.function = runtime, where, type, function

    def __call__(self, *args: object) -> Any:
        """Call the function.

        Raises:
            TypeError: if the number of arguments is wrong, a value has the wrong type, or the signature contains v128.
            ValueError: if an integer is out of range.
            WasmTrap: if the code traps.
            Exception: any exception that a host function raises.
        """
        if len(args) != len(self.type.params):
            counts = f"expected {len(self.type.params)}, got {len(args)}"
            raise TypeError(f"{self.where}: the number of arguments is wrong; {counts}.")
        if "v128" in (*self.type.params, *self.type.results):
            raise TypeError(f"{self.where}: it cannot be called from here; expected no v128, got {self.type}.")
        given = [self.runtime.to_wasm(self.where, *pair) for pair in zip(self.type.params, args, strict=True)]
        result = self.runtime.run(self.where, self.function, self.runtime.store, *given)
        if not self.type.results:
            return None
        several = result if len(self.type.results) > 1 else [result]
        values = tuple(self.runtime.to_python(*pair) for pair in zip(self.type.results, several, strict=True))
        return values if len(values) > 1 else values[0]

    def __repr__(self) -> str:
        return f"<{self.where}: {self.type}>"


class LinkedMemory:
    """A memory of a module or of the host. The method `array` returns NumPy arrays that share its bytes.

    Args:
        runtime, where, type: the runtime, the name in errors and the type, as in `LinkedFunction`.
        memory: wasmtime's memory.
    """

    def __init__(self, runtime: Runtime, where: str, type: MemoryType, memory: "wasmtime.Memory") -> None:
        self.runtime, self.where, self.type, self.memory = runtime, where, type, memory

    def __len__(self) -> int:
        """Return the present size of the memory in bytes."""
        return self.memory.data_len(self.runtime.store)

    def array(self, pointer: int, shape: int | tuple[int, ...], dtype: DTypeLike = np.uint8) -> np.ndarray:
        """Return an array that shares the memory's bytes. Modules see the values that Python assigns to the array.

        The array does not grow with the memory. Call `array` again after the memory has grown.

        Args:
            pointer: address of the first entry, in bytes. A negative i32 pointer is read as the unsigned number with
                the same bits.
            shape: shape of the array.
            dtype: dtype of the array. WebAssembly stores the lowest byte first.

        Raises:
            ValueError: if the array does not lie within the memory.
        """
        dtype = np.dtype(dtype)
        shape = (shape,) if isinstance(shape, int) else tuple(shape)
        start = operator.index(pointer)
        if start < 0 and self.type.address == "i32":
            start += 1 << 32
        end = start + math.prod(shape) * dtype.itemsize
        if not 0 <= start <= end <= len(self):
            found = f"expected bytes within 0 to {len(self)}, got {start} to {end}"
            raise ValueError(f"{self.where}: an array of shape {shape} and {dtype} lies outside; {found}.")
        if start == end:
            return np.empty(shape, dtype)
        shown = _Shown(self.runtime, _address(self.memory, self.runtime.store) + start, end - start)
        return np.asarray(shown).view(dtype).reshape(shape)

    def grow(self, pages: int) -> int:
        """Grow the memory by a number of pages of 64 KiB, and return its previous size in pages.

        Raises:
            ValueError: if the new size exceeds the memory's maximum or `Limits.memory`, or `pages` is negative.
        """
        import wasmtime

        if pages < 0:
            raise ValueError(f"{self.where}: it cannot grow; expected a number of pages, got {pages}.")
        try:
            return self.memory.grow(self.runtime.store, pages)
        except wasmtime.WasmtimeError:
            most = [] if self.type.maximum is None else [self.type.maximum]
            most += [] if self.runtime.limits.memory is None else [self.runtime.limits.memory // PAGE]
            least = min(most, default=PAGE)
            found = f"expected at most {least} pages in all, got {len(self) // PAGE} and {pages}"
            raise ValueError(f"{self.where}: it cannot grow; {found}.") from None


def _address(memory: "wasmtime.Memory", store: "wasmtime.Store") -> int:
    return ctypes.cast(memory.data_ptr(store), ctypes.c_void_p).value or 0


class _Shown:
    """The base object of a NumPy array that shares the bytes of a memory.

    The object offers the bytes through NumPy's array interface, and keeps the runtime alive.
    """

    def __init__(self, runtime: Runtime, address: int, size: int) -> None:
        self.runtime = runtime
        self.__array_interface__ = {"data": (address, False), "shape": (size,), "typestr": "|u1", "version": 3}


class LinkedTable:
    """A table. `table[i]` is a `LinkedFunction` or None if the elements are `funcref`, and any object if `externref`.

    Args:
        runtime, where, type: the runtime, the name in errors and the type, as in `LinkedFunction`.
        table: wasmtime's table.
    """

    def __init__(self, runtime: Runtime, where: str, type: TableType, table: "wasmtime.Table") -> None:
        self.runtime, self.where, self.type, self.table = runtime, where, type, table

    def __len__(self) -> int:
        return self.table.size(self.runtime.store)

    def _check(self, index: int) -> None:
        if not 0 <= index < len(self):
            raise IndexError(f"{self.where}: the index is out of range; expected less than {len(self)}, got {index}.")

    def __getitem__(self, index: int) -> Any:
        self._check(index)
        return self.runtime.to_python(self.type.element, self.table.get(self.runtime.store, index))

    def __setitem__(self, index: int, value: object) -> None:
        self._check(index)
        self.table.set(self.runtime.store, index, self.runtime.to_wasm(self.where, self.type.element, value))


class LinkedGlobal:
    """A global of a module or of the host. The attribute `value` can be assigned if the global is mutable.

    Args:
        runtime, where, type: the runtime, the name in errors and the type, as in `LinkedFunction`.
        cell: wasmtime's global.
    """

    def __init__(self, runtime: Runtime, where: str, type: GlobalType, cell: "wasmtime.Global") -> None:
        self.runtime, self.where, self.type, self.cell = runtime, where, type, cell

    @property
    def value(self) -> Any:
        """The present value of the global."""
        if self.type.value == "v128":
            raise TypeError(f"{self.where}: it cannot be read from here; expected no v128, got {self.type}.")
        return self.runtime.to_python(self.type.value, self.cell.value(self.runtime.store))

    @value.setter
    def value(self, value: object) -> None:
        if not self.type.mutable:
            raise TypeError(f"{self.where}: it cannot be assigned; expected a mutable global, got {self.type}.")
        self.cell.set_value(self.runtime.store, self.runtime.to_wasm(self.where, self.type.value, value))
