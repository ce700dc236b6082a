"""Descriptions of models: BERT and ResNet. They know no text, no data and no training loop."""
