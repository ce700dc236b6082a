"""Fine-tuning BERT: labelled texts -> a model -> predictions.

    tables, glue, squad, examples -> encoding -> batches -> a task's head and loss -> run -> directory -> predict

Six tasks (`text_task`: classify, pairs, regress; `token_task`, `choice_task`, `answer_task`) behind one protocol
(`task`). In Python: `run.finetune(configuration.FinetuningConfig(…))`, `predict.predict(directory, file)`,
`predict.evaluate(directory, file)`.
"""
