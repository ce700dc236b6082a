"""The core of `funcnet.nn`, which runs modules without arrays as pure functions. The layers are in `funcnet.nn`, one
family per file.

- `module`: `Module`, the class that users derive from, with `init`, `apply`, `state_dict` and `summary`.
- `description`: the base class of `Module`, which registers parts and traverses the tree.
- `parts`: functions that read the parts of a module and walk over its leaves. `owners`: which modules own a part.
- `parameter`: the leaves (`Parameter` and `Buffer`) and the attributes that are computed from leaves (`Computed`).
- `constants`: arithmetic with buffers in constructors.
- `initialised`, `inits`: torch's in-place initialisation of leaves, and the init functions that result from it.
- `start`: the initial params and state.
- `binding`: the copy of a net that `apply` makes, with arrays in place of leaves. `call`: the data of one `apply`.
- `pure`: children that run as pure functions inside transformations, and `remat`.
- `inputs`: the conversion of the inputs of a call.
- `rebinding`, `fresh`: attribute values that refer to modules, and modules that `forward` creates.
- `registries`: torch's `_modules`, `_parameters` and `_buffers`.
- `scratch`: attributes that `forward` sets, which last until the end of the call.
- `overrides`: a subclass's overrides of `train`, `eval` and other methods of torch.
- `placement`: torch's `to`, `cpu`, `cuda`, `half` and the like.
- `sharding`: the sharding that a class declares for its parameters.
- `computed`: how computed attributes are initialised, added and removed.
- `lazy`: shapes that are inferred from an example input.
- `state_dict`, `state_dict_hooks`: conversion between (params, state) and a state_dict with torch's names.
- `output_shape`: the shape of a part's output, and zeros of that shape, for constructors.
- `hooks`, `own_hooks`, `capture`, `checked`, `finite`: inspection of a running net.
- `snapshot`: how `jax.jit(net.apply)` notices that a description has changed. `notes`: warnings about changes of a net
  that come too late.
- `display`, `summary`: how a net is displayed.
- `absent`, `advice`: torch's names and tensor methods that are missing here, and what to use instead.
"""
