"""The machinery that turns a description into pure functions. The layers are in `funcnet.nn`, one family a file.

- `module`: `Module`, what users derive from: `init`, `apply`, `state_dict`, `summary`.
- `description`: the base of `Module`: how parts are registered and how the tree is walked.
- `parameter`: the leaves, `Parameter` and `Buffer`, and `Computed`, an attribute that is computed from leaves.
- `binding`: the copy that `apply` makes, with arrays in place of descriptions, and what it knows of its call.
- `computed`: how computed attributes start, and how they are put in and taken out.
- `lazy`: shapes that are inferred from an example.
- `state_dict`, `state_dict_hooks`: torch's names for the leaves, and back.
- `hooks`, `capture`, `checked`: looking into a running net.
- `snapshot`: how `jax.jit(net.apply)` notices that a description has changed.
- `display`, `summary`: how a net is shown.
- `absent`: what torch has and this package does not, and what to use.
"""
