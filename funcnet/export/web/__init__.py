"""A trained model as a web page: see `export.py`.

directory --forms--> function --wasm--> module, weights --export--> index.html
tokenizer --tokenizer--> tables for tokenizer.js
"""

from funcnet.export.web.export import WebExport, to_web

__all__ = ["WebExport", "to_web"]
