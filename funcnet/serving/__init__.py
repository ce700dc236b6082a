"""Serves a pretrained or fine-tuned model as one function from texts to answers."""

from funcnet.heads import Guess
from funcnet.serving.inference import Inference, inference

__all__ = ["Guess", "Inference", "inference"]
