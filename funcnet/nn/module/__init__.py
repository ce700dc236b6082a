"""The class `Module`, from which users derive their classes, and what its methods do.

- `module`: `Module`, with `init`, `apply`, `state_dict` and `summary`.
- `initial_arrays`: the params and state that `init` returns.
- `computed_attributes`: how attributes that are computed from leaves are initialised, added and removed.
- `dtype_and_device`: torch's `to`, `cpu`, `cuda`, `half` and the like.
- `sharding`: the shardings that a class declares for its parameters, and those of the outputs of modules.
- `display`, `summary`: how a net is displayed.
"""
