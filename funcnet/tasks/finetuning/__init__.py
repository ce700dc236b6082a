"""Fine-tuning BERT: labelled texts -> a model -> predictions.

    data (files -> examples -> rows) -> batches -> run -> directory -> predict

`funcnet.heads` has what differs between tasks: examples, rows, loss, answers, figures. In Python:
`run.finetune(configuration.FinetuningConfig(…))`, `predict.predict(directory, file)`,
`predict.evaluate(directory, file)`.
"""
