"""The rewriting of whole files: one pass over the syntax tree, then the imports."""
