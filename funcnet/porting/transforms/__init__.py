"""The transformers of the rewriter, with one file for each idiom. `rewriter.HANDLERS` lists the transformers for each
kind of syntax node.

A transformer is called with (original node, updated node, context). It returns the node to write, or None if it does
not apply. The original node is a part of the source's unchanged tree, so the context has facts about it. In the updated
node, all parts are already rewritten.
"""
