"""Export a function as StableHLO, which runs wherever XLA runs and does not need the function's source.

A file is a zip archive without compression, with three entries:

- `manifest.json`: arguments, results, platforms, the check, and the SHA-256 digests of the program and the weights.
- `program.bin`: the program, serialized by `jax.export`. The first argument of the program is the list of weights.
- `weights.safetensors`: the weights, unless they are in a separate file beside the archive.
"""

import json
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

import jax
import numpy as np
import safetensors.numpy
from jax.typing import ArrayLike

from funcnet import weights as weight_files
from funcnet.export.check import ExportCheck, require_agreement
from funcnet.export.signature import ArraySpec, arguments_of, require_arguments
from funcnet.export.tracing import Dynamic, trace
from funcnet.export.weights_path import weights_beside
from funcnet.files import bytes_digest, replacing
from funcnet.tree import PyTree

__all__ = ["StableHlo", "load_stablehlo", "to_stablehlo"]

Placed = Literal["inside", "beside"]
MANIFEST, PROGRAM, WEIGHTS = "manifest.json", "program.bin", "weights.safetensors"
FORMAT, VERSION = "funcnet StableHLO", 1


@dataclass(frozen=True)
class StableHlo:
    """An exported function, which can be called with arrays and saved.

    Attributes:
        arguments: the arguments.
        results: names, shapes and dtypes of the leaves of the result.
        platforms: platforms for which the program is lowered.
        constraints: constraints of the symbolic sizes.
        check: the difference between the exported function and the JAX function on the example arrays.
        placed: where `save` puts the weights: "inside" the file or "beside" it.
        program: the exported function of `jax.export`, whose first argument is the list of weights.
        weights: {name: array} in the order of the list that `program` takes.

    Example:
        >>> import jax.numpy as jnp
        >>> from funcnet import export
        >>> exported = export.to_stablehlo(lambda x: {"double": 2 * x}, jnp.ones(3))
        >>> exported(jnp.arange(3.0)), exported.platforms
        ({'double': Array([0., 2., 4.], dtype=float32)}, ('cpu', 'cuda', 'tpu'))
    """

    arguments: tuple[ArraySpec, ...]
    results: tuple[ArraySpec, ...]
    platforms: tuple[str, ...]
    constraints: tuple[str, ...]
    check: ExportCheck
    placed: Placed
    program: jax.export.Exported = field(repr=False)
    weights: Mapping[str, Any] = field(repr=False)
    _run: Callable[..., Any] = field(repr=False)

    def __call__(self, *arrays: ArrayLike) -> Any:
        """Run the function. The result has the structure that the JAX function returned.

        Raises:
            TypeError: if the number of arrays is wrong, or one of them is not an array or has another dtype.
            ValueError: if an argument has another shape, or a constraint of a size does not hold.
        """
        given = require_arguments("stablehlo", self.arguments, arrays, self.constraints)
        return self._run(list(self.weights.values()), *given)

    def save(self, path: str | Path) -> None:
        """Write the file. If `placed` is "beside", the weights go into a file of the same name that ends in
        `.safetensors`.

        Raises:
            OSError: if a file cannot be written.
            ValueError: if the weights go beside the file, and `path` itself ends in `.safetensors`.
        """
        path = Path(path)
        beside = weights_beside("StableHlo.save", path, ".safetensors") if self.placed == "beside" else None
        program = bytes(self.program.serialize())
        manifest: dict[str, Any] = {"format": FORMAT, "version": VERSION, "jax": jax.__version__}
        manifest |= {"arguments": list(map(asdict, self.arguments)), "results": list(map(asdict, self.results))}
        manifest |= {
            "platforms": self.platforms,
            "constraints": self.constraints,
            "check": asdict(self.check),
            "weights": list(self.weights),
        }
        manifest["sha256"] = {PROGRAM: bytes_digest(program)}
        entries = {PROGRAM: program}
        held = {name: np.asarray(array, order="C") for name, array in self.weights.items()}
        if beside is not None:
            weight_files.save(beside, held)
            manifest["beside"] = beside.name
            manifest["sha256"][WEIGHTS] = bytes_digest(beside.read_bytes())
        else:
            entries[WEIGHTS] = safetensors.numpy.save(held)
            manifest["sha256"][WEIGHTS] = bytes_digest(entries[WEIGHTS])
        text = json.dumps(manifest, indent=1, ensure_ascii=False)
        with replacing(path) as part, zipfile.ZipFile(part, "w") as archive:
            for name, content in {MANIFEST: text.encode(), **entries}.items():
                archive.writestr(zipfile.ZipInfo(name), content)


def to_stablehlo(
    function: Callable[..., Any],
    *arrays: ArrayLike,
    dynamic: Dynamic = None,
    constraints: Sequence[str] = (),
    platforms: Sequence[str] = ("cpu", "cuda", "tpu"),
    weights: Placed = "inside",
    params: PyTree = None,
) -> StableHlo:
    """Export a pure function of arrays as StableHLO.

    Args:
        function: pure function of arrays, which returns an array or a structure of arrays. The function closes over its
            weights.
        *arrays: example arrays. The example arrays determine the shapes and dtypes of the arguments, and the exported
            function is checked on these arrays.
        dynamic: sizes that may differ between calls, in the syntax of `jax.export.symbolic_shape`: a string such as
            "batch, length" for all arrays, or a list with a string or None for each array. In a string, "_" keeps one
            size of the example array, and "..." keeps several.
        constraints: constraints of the sizes in `dynamic`, such as "length <= 512".
        platforms: platforms on which the file can run.
        weights: where `save` puts the weights: "inside" the file, or "beside" it as `.safetensors`.
        params: tree of arrays, or tuple of trees, that the function closes over. Each weight gets the name that it has
            in its tree.

    Returns:
        A `StableHlo`, which can be called and saved.

    Raises:
        TypeError: if an argument is not an array.
        ValueError: if there is no example array, `dynamic` or `weights` is wrong, the function draws random numbers or
            calls back into Python, or the exported function differs from the JAX function.
        jax.errors.InconclusiveDimensionOperation: if an operation depends on the value of a symbolic size.

    Example:
        >>> import tempfile, pathlib, jax, jax.numpy as jnp
        >>> from funcnet import export, nn
        >>> net = nn.Linear(3, 2)
        >>> params, state = net.init(jax.random.key(0))
        >>> run = lambda x: net.apply(params, state, x)[0]
        >>> exported = export.to_stablehlo(run, jnp.ones((4, 3)), dynamic="batch, _", params=params)
        >>> exported.check.largest, list(exported.weights)
        (0.0, ['weight', 'bias'])
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     exported.save(pathlib.Path(folder, "linear.stablehlo"))
        ...     loaded = export.load_stablehlo(pathlib.Path(folder, "linear.stablehlo"))
        >>> loaded(jnp.ones((7, 3))).shape
        (7, 2)

    Reference: https://openxla.org/stablehlo; jax.export.
    """
    where = "to_stablehlo"
    if weights not in ("inside", "beside"):
        raise ValueError(f"{where}: weights is unknown; expected 'inside' or 'beside', got {weights!r}.")
    traced = trace(where, function, arrays, dynamic, constraints, params)

    def run(constants: list[jax.Array], *inputs: jax.Array) -> Any:
        leaves = jax.core.eval_jaxpr(traced.program.jaxpr, constants, *inputs)
        return jax.tree.unflatten(traced.structure, leaves)

    constants = [jax.numpy.asarray(value) for value in traced.program.consts]
    shapes = [jax.ShapeDtypeStruct(value.shape, value.dtype) for value in constants]
    program = jax.export.export(jax.jit(run), platforms=list(platforms))(shapes, *traced.specs)
    called = jax.jit(program.call)
    results = arguments_of(traced.outputs, program.out_avals)
    got = jax.tree.leaves(called(constants, *traced.examples))
    check = require_agreement(where, traced.program.jaxpr, traced.outputs, got, traced.results)
    return StableHlo(
        arguments_of(traced.inputs, traced.specs),
        results,
        tuple(program.platforms),
        tuple(constraints),
        check,
        weights,
        program,
        dict(zip(traced.weights, constants, strict=True)),
        called,
    )


def load_stablehlo(path: str | Path) -> StableHlo:
    """Load a function that `StableHlo.save` wrote. The source of the model is not needed.

    Args:
        path: the file of the program. If the weights are in a second file, the first file contains the name of the
            second.

    Returns:
        The function, as `to_stablehlo` returned it.

    Raises:
        OSError: if a file cannot be read.
        ValueError: if the file is not an export, is truncated or was altered, or the weights beside it are those of
            another model.

    Example:
        >>> import tempfile, jax.numpy as jnp
        >>> from funcnet import export
        >>> double = export.to_stablehlo(lambda x: 2 * x, jnp.ones(3))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     double.save(f"{folder}/double.stablehlo")
        ...     loaded = export.load_stablehlo(f"{folder}/double.stablehlo")
        >>> loaded(jnp.arange(3.0))
        Array([0., 2., 4.], dtype=float32)
    """
    path = Path(path)
    manifest, entries = _read(path)
    if "beside" in manifest:
        beside = path.with_name(manifest["beside"])
        if not beside.exists():
            raise FileNotFoundError(f"load_stablehlo: {path} needs its weights; expected the file {beside}, got none.")
        found = bytes_digest(beside.read_bytes())
        if found != manifest["sha256"][WEIGHTS]:
            raise ValueError(
                f"load_stablehlo: {beside} has other weights than those that were exported; expected SHA-256 "
                f"{manifest['sha256'][WEIGHTS]}, got {found}. Copy both files of the export together."
            )
        arrays = weight_files.load(beside)
    else:
        arrays = safetensors.numpy.load(entries[WEIGHTS])
    program = jax.export.deserialize(bytearray(entries[PROGRAM]))
    return StableHlo(
        _arguments(manifest["arguments"]),
        _arguments(manifest["results"]),
        tuple(manifest["platforms"]),
        tuple(manifest["constraints"]),
        ExportCheck(**manifest["check"]),
        "beside" if "beside" in manifest else "inside",
        program,
        {name: jax.numpy.asarray(arrays[name]) for name in manifest["weights"]},
        jax.jit(program.call),
    )


def _read(path: Path) -> tuple[dict[str, Any], dict[str, bytes]]:
    """Return the manifest and the other entries of a file, after checking their digests."""
    try:
        with zipfile.ZipFile(path) as archive:
            entries = {name: archive.read(name) for name in archive.namelist()}
        manifest = json.loads(entries.pop(MANIFEST))
        digests = manifest["sha256"]
    except (zipfile.BadZipFile, KeyError, ValueError, EOFError) as error:
        raise ValueError(
            f"load_stablehlo: {path} is not a complete export; expected a file that StableHlo.save wrote, got "
            f"'{error}'. Copy or export it again."
        ) from None
    if manifest.get("format") != FORMAT or manifest.get("version") != VERSION:
        raise ValueError(
            f"load_stablehlo: {path} has another format; expected {FORMAT} {VERSION}, got {manifest.get('format')} "
            f"{manifest.get('version')}."
        )
    for name in (PROGRAM, *(() if "beside" in manifest else (WEIGHTS,))):
        found = bytes_digest(entries[name]) if name in entries else "no entry"
        if found != digests.get(name):
            raise ValueError(
                f"load_stablehlo: {path} was altered; expected SHA-256 {digests.get(name)} for {name}, got {found}."
            )
    return manifest, entries


def _arguments(written: Sequence[Mapping[str, Any]]) -> tuple[ArraySpec, ...]:
    return tuple(ArraySpec(one["name"], tuple(one["shape"]), one["dtype"]) for one in written)
