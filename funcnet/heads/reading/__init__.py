"""Readers of labelled examples: tables, sentences of tagged words, GLUE's folders and SQuAD's questions."""
