"""BERT pretraining: `funcnet pretrain`. `funcnet.tasks.pretraining_data` builds the data of pretraining."""
