"""BERT pretraining: `funcnet pretrain`. The data that it reads are made in `funcnet.tasks.pretraining_data`."""
