"""Run an exported module in `wasmtime`, as a function of arrays."""

import hashlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from jax.typing import ArrayLike

from funcnet.export import host
from funcnet.export.signature import narrowed
from funcnet.export.wasm.description import ArrayPlace, EntryPoint, ModuleDescription

__all__ = ["Runner", "load_wasm"]

_BESIDE = {"beside": ".weights", "module": ".weights.wasm"}


class Runner:
    """An instance of a module that `to_wasm` wrote. A call takes arrays and returns a tuple of arrays.

    Args:
        module: the bytes of the module.
        weights: the bytes of the weights beside the module, or of the second module with the weights. None if the
            weights are inside the module.

    Raises:
        ModuleNotFoundError: if `wasmtime` is not installed.
        ValueError: if the module was not written by `to_wasm`, or the weights are missing or belong to another model.
    """

    def __init__(self, module: bytes, weights: bytes | None = None):
        self.description = ModuleDescription.of(module)
        place = self.description.weights
        if (weights is None) != (place.where == "inside"):
            got = "none" if weights is None else f"{len(weights)} bytes"
            raise ValueError(f"wasm: weights do not fit; the module has them {place.where!r}, got {got}.")
        modules = {"code": module}
        hosts: dict[str, dict[str, host.HostItem]] = {}
        if place.where == "module":
            assert weights is not None
            modules["weights"] = weights
        elif self.description.memory == "env.memory":
            hosts["env"] = {"memory": host.HostMemory(self.description.pages)}
        linked = host.link(modules, hosts)
        self.exports = linked["code"]
        owner = self.description.memory.removesuffix(".memory")
        self.memory = linked["code" if owner == "exported" else owner]["memory"]
        held = self.memory.array(place.address, place.size)
        if place.where == "beside":
            assert weights is not None
            held[: len(weights)] = np.frombuffer(weights, np.uint8, min(len(weights), place.size))
        digest = hashlib.sha256(held).hexdigest()
        if (place.where == "beside" and len(weights or b"") != place.size) or digest != place.sha256:
            raise ValueError(
                f"wasm: the weights are another model's, or altered; expected {place.size} bytes with the SHA-256 "
                f"digest {place.sha256[:16]}…, got {digest[:16]}…."
            )

    def entry(self, arrays: Sequence[np.ndarray]) -> EntryPoint:
        """Return the description of the exported function whose inputs have the shapes and dtypes of these arrays.

        Raises:
            ValueError: if the module has no function for these shapes and dtypes.
        """
        given = [(tuple(a.shape), str(a.dtype)) for a in arrays]
        for entry in self.description.entries:
            if given == [(p.shape, p.dtype) for p in entry.inputs]:
                return entry
        known = " or ".join(
            ", ".join(f"{p.name} {p.dtype}{list(p.shape)}" for p in entry.inputs) for entry in self.description.entries
        )
        got = ", ".join(f"{dtype}{list(shape)}" for shape, dtype in given)
        raise ValueError(f"wasm: the inputs have other shapes or dtypes; expected {known}, got {got}.")

    def __call__(self, *arrays: ArrayLike) -> tuple[np.ndarray, ...]:
        """Run the module on arrays, and return its outputs. 64-bit numbers become 32-bit ones, as in JAX.

        Raises:
            ValueError: if the module has no function for the shapes and dtypes of the arrays, or an integer does not
                fit into 32 bits.
        """
        given = [np.asarray(a, order="C") for a in arrays]
        places = self.description.entries[0].inputs  # of all lengths alike, but for the shapes
        if len(given) == len(places):
            given = [narrowed("wasm", p.name, array, p.dtype) for p, array in zip(places, given, strict=True)]
        entry = self.entry(given)
        for array, place in zip(given, entry.inputs, strict=True):
            self.array(place)[...] = array
        self.exports[entry.run]()
        return tuple(self.array(place).copy() for place in entry.outputs)

    def array(self, place: ArrayPlace) -> np.ndarray:
        """Return an input or an output as an array that shares the module's memory."""
        return self.memory.array(place.address, place.shape, place.dtype)


def load_wasm(path: str | Path) -> Runner:
    """Load the file of a module into `wasmtime`. `WasmExport.save` and `funcnet export --to wasm` write such files.

    Args:
        path: path of the module. Weights are read from the file of the same name that ends in `.weights` or
            `.weights.wasm`.

    Returns:
        A `Runner`, which can be called with arrays of the exported sizes. Pad the ids, mask and types of a text with
        zeros to an exported length.

    Raises:
        FileNotFoundError: if a file is missing.
        ModuleNotFoundError: if `wasmtime` is not installed.
        ValueError: if the module was not written by `to_wasm`, or the weights belong to another model.

    Example:
        >>> import tempfile, jax.numpy as jnp
        >>> from funcnet import export
        >>> x = np.float32([1, 4])
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     files = export.to_wasm(jnp.sqrt, x).save(f"{folder}/root.wasm")
        ...     run = export.load_wasm(f"{folder}/root.wasm")
        >>> run(x)[0].tolist()
        [1.0, 2.0]
    """
    path = Path(path)
    module = path.read_bytes()
    place = ModuleDescription.of(module).weights.where
    beside = None if place == "inside" else path.with_suffix(_BESIDE[place])
    if beside is not None and not beside.exists():
        raise FileNotFoundError(f"load_wasm: {path} needs its weights; expected the file {beside}, got none.")
    return Runner(module, None if beside is None else beside.read_bytes())
