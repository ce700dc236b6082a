"""Descriptions of nets, and how a description runs as a pure function. `funcnet.nn.module` has the class `Module`, and
`funcnet.nn` has the layers, one family per file.

Descriptions:

- `description`: the base class of `Module`, which registers parts and traverses the tree.
- `module_tree`: functions that read the parts of a module and walk over its leaves.
- `shared_parts`: which modules have a part among their attributes.
- `parameter`: the leaves (`Parameter` and `Buffer`) and the attributes that are computed from leaves (`Computed`).
- `jit_snapshot`: how `jax.jit(net.apply)` notices that a description has changed.
- `stale_traces`: warnings about changes of a net that come too late.
- `absent`: torch's names and tensor methods that are absent here, and what to use instead.

Runs:

- `binding`: the copy of a net that `apply` makes, with arrays in place of leaves. `call`: the data of one `apply`.
- `inputs_and_outputs`: the conversion of the inputs of a call, and checks of its outputs.
- `forward_attributes`: attributes that `forward` sets, which last until the end of the call.
- `rebinding`: attribute values that refer to modules. `unbound_calls`: modules that `forward` creates.
- `method_overrides`: a subclass's overrides of `train`, `eval` and other methods of torch.
- `pure_calls`: children that run as pure functions inside transformations, and `remat`.
- `abstract_run`: runs that compute only shapes, for lazy leaves and for constructors.
"""
