"""Fine-tuning of BERT: labelled texts -> a model -> predictions.

    data (files -> examples -> rows) -> batches -> task -> directory -> predict

Tasks differ in their examples, rows, loss, answers and metrics, which `funcnet.heads` defines. In Python, call
`task.finetune(compose(FinetuningSettings, task="classify", …))`, `predict.predict(directory, file)` and
`predict.evaluate(directory, file)`.
"""
