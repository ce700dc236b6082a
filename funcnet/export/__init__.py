"""Export a pure function of arrays as StableHLO, ONNX, WebAssembly, a web page or .tflite, to run without its source.

    function, example arrays --trace--> program --lower--> StableHLO, ONNX, WebAssembly --check--> file

Each form of export takes a pure function and example arrays. The export runs the exported program on the example
arrays, and compares the results with those of the function.

`funcnet.export.tflite` writes integer nets as `.tflite` files, and `funcnet.export.web` writes web pages. Both packages
import nets and models. `funcnet.export` does not import the two packages, so that a program that only loads an exported
file imports no model.
"""

from funcnet.export.check import ExportCheck
from funcnet.export.inference import inference_of
from funcnet.export.onnx import Onnx, OnnxSession, load_onnx, to_onnx
from funcnet.export.signature import ArraySpec
from funcnet.export.stablehlo import StableHlo, load_stablehlo, to_stablehlo
from funcnet.export.wasm.module import WasmExport, to_wasm
from funcnet.export.wasm.runner import load_wasm

__all__ = [
    "ArraySpec",
    "ExportCheck",
    "Onnx",
    "OnnxSession",
    "StableHlo",
    "WasmExport",
    "inference_of",
    "load_onnx",
    "load_stablehlo",
    "load_wasm",
    "to_onnx",
    "to_stablehlo",
    "to_wasm",
]
