"""Descriptions of models: BERT and ResNet. They do not depend on text, data or the training loop."""
