"""A task for `funcnet.train.run_task` that converts the model of a run to an int8 model."""
