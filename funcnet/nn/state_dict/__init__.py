"""Conversion between (params, state) and a state_dict with torch's names.

- `state_dict`: saving and loading.
- `state_dict_hooks`: torch's hooks, extra state and versions, with which a module controls its part of a state_dict.
- `sliced_array`: an array of which only slices are read. `torch_tensors`: torch's tensors, without importing torch.
"""
