"""Serve a pretrained or fine-tuned model as a function that maps texts to answers."""

from funcnet.heads import Guess
from funcnet.serving.inference import Inference, inference

__all__ = ["Guess", "Inference", "inference"]
