"""Serving a pretrained or fine-tuned model: texts in, answers out."""

from funcnet.heads import Guess
from funcnet.serving.inference import Inference, inference

__all__ = ["Guess", "Inference", "inference"]
