"""Tasks, which combine text, data, a model and training. Each task is one folder."""
