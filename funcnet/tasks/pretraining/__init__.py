"""BERT pretraining: masked words and next sentence, from the data that `pretraining_data` builds."""
