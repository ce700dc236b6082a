"""Files of labelled examples: tables, sentences of tagged words, GLUE's folders, SQuAD's questions."""
