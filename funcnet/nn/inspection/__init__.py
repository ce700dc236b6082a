"""Inspection of a net while it runs, and changes of what its modules get and return.

- `hooks`: forward and backward hooks, which are an argument of `apply`.
- `registered_hooks`: torch's methods that register a hook on a module.
- `capture`: the outputs of modules by name, and the gradients with respect to these outputs.
- `checked`: checks that name the first module that gets an id out of range or creates a NaN.
- `finite_flags`: flags inside a compiled step that show which layer first had a value that is not finite.
"""
