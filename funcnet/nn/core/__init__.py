"""The machinery that turns a description into pure functions. The layers are in `funcnet.nn`, one family per file.

- `module`: `Module`, the class that users derive from, with `init`, `apply`, `state_dict` and `summary`.
- `description`: the base class of `Module`, which registers parts and traverses the tree.
- `parameter`: the leaves, `Parameter` and `Buffer`, and `Computed`, an attribute that is computed from leaves.
- `binding`, `call`: the copy that `apply` makes, with arrays in place of leaves, and the state of that call of `apply`.
- `computed`: how computed attributes are initialised, added and removed.
- `lazy`: shapes that are inferred from an example input.
- `state_dict`, `state_dict_hooks`: conversion between params and state and the names of torch's state_dict.
- `hooks`, `capture`, `checked`: inspection of a running net.
- `snapshot`: how `jax.jit(net.apply)` notices that a description has changed.
- `display`, `summary`: how a net is displayed.
- `absent`: the names that torch has and this package lacks, and what to use instead.
"""
