"""Fine-tuning BERT: labelled texts -> a model -> predictions.

    data (files -> examples -> rows) -> batches -> task -> directory -> predict

`funcnet.heads` has what differs between tasks: examples, rows, loss, answers, figures. In Python:
`task.finetune(compose(FinetuningSettings, task="classify", …))`, `predict.predict(directory, file)`,
`predict.evaluate(directory, file)`.
"""
