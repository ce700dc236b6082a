"""`funcnet fill-mask`: predict masked words with a pretrained model."""

import dataclasses
from pathlib import Path
from typing import Annotated

import tyro

from funcnet.settings import Range, check_ranges, with_helps

__all__ = ["FillMaskArguments", "run_fill_mask"]


@with_helps
@dataclasses.dataclass(frozen=True)
class FillMaskArguments:
    """Predict masked words with a pretrained BERT.

    The command prints the most likely words for each [MASK], with their probabilities.
    """

    directory: tyro.conf.Positional[Path]
    """Output directory of `funcnet pretrain`, its int8 model from `funcnet quantize`, or any directory with
    config.json, model.safetensors and a vocabulary.
    """
    text: tyro.conf.Positional[tuple[str, ...]]
    """One or more texts that contain [MASK]."""
    top: Annotated[int, Range(1)] = 5
    """Number of words to print for each [MASK]."""


def run_fill_mask(arguments: FillMaskArguments) -> int:
    """Run `funcnet fill-mask`; return the exit code."""
    from funcnet.serving import inference

    check_ranges(arguments, "fill-mask")
    fill = inference(arguments.directory, "fill-mask", guesses=arguments.top, ahead=False)
    for text in arguments.text:
        print(text)
        for guesses in fill(text):
            print("  " + ", ".join(f"{guess.token} {guess.probability:.1%}" for guess in guesses))
    return 0
