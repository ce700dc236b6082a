"""Export to ONNX. `export.to_onnx` traces a function, lowers its program, rewrites the graph and writes it."""

from funcnet.export.onnx.export import Onnx, OnnxSession, load_onnx, to_onnx

__all__ = ["Onnx", "OnnxSession", "load_onnx", "to_onnx"]
