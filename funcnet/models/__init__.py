"""Descriptions of models: BERT and ResNet. The models do not depend on the packages for text and data or on the
training loop.
"""
