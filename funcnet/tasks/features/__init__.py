"""Features: the vectors that a pretrained BERT computes for texts, as arrays and as files."""

from funcnet.tasks.features.extract import FeatureExtractor, Features
from funcnet.tasks.features.files import write_features
