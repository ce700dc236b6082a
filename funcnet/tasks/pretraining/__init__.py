"""BERT pretraining: `funcnet pretrain`. The package `funcnet.tasks.pretraining_data` builds its data."""
