"""scikit-learn's interface for any net, and searches that train all candidates in one program."""

from funcnet.sklearn.classifier import Classifier
from funcnet.sklearn.criteria import EarlyStopping
from funcnet.sklearn.networks import MLP
from funcnet.sklearn.pictures import draw_curve, draw_heat_map
from funcnet.sklearn.regressor import Regressor
from funcnet.sklearn.search import GridSearchCV, RandomizedSearchCV

__all__ = [
    "MLP",
    "Classifier",
    "EarlyStopping",
    "GridSearchCV",
    "RandomizedSearchCV",
    "Regressor",
    "draw_curve",
    "draw_heat_map",
]
