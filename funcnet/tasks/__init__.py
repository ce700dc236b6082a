"""Where text, data, a model and training meet: one folder a task."""
