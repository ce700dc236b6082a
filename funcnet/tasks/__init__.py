"""Tasks, which combine text, data, a model and training. Each task has its own folder in this package."""
