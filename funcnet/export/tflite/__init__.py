"""Export an integer net as a `.tflite` file, from which LiteRT computes the same bits as JAX."""

from funcnet.export.tflite.export import TfliteExport, to_tflite

__all__ = ["TfliteExport", "to_tflite"]
