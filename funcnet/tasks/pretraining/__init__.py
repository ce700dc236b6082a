"""BERT pretraining: `funcnet pretrain`. Its data come from `funcnet.tasks.pretraining_data`."""
