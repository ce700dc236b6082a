"""Keras's and SciKeras's names for scripts that search with scikit-learn: only the imports of such a script change."""

from funcnet.sklearn.keras.constraints import L1, L1L2, L2, MaxNorm
from funcnet.sklearn.keras.estimators import KerasClassifier, KerasRegressor
from funcnet.sklearn.keras.layers import Activation, BatchNormalization, Dense, Dropout, Flatten, Input
from funcnet.sklearn.keras.models import Sequential
from funcnet.sklearn.keras.optimizers import SGD, Adadelta, Adagrad, Adam, Adamax, AdamW, Nadam, RMSprop

__all__ = [
    "L1",
    "L1L2",
    "L2",
    "SGD",
    "Activation",
    "Adadelta",
    "Adagrad",
    "Adam",
    "AdamW",
    "Adamax",
    "BatchNormalization",
    "Dense",
    "Dropout",
    "Flatten",
    "Input",
    "KerasClassifier",
    "KerasRegressor",
    "MaxNorm",
    "Nadam",
    "RMSprop",
    "Sequential",
]
