"""Conversion of the names in Google's TensorFlow checkpoints of BERT to our names, which are those of Hugging Face."""

import re
from collections.abc import Iterable

__all__ = ["from_google", "is_google"]

_OF_TRAINING = re.compile(r"(^|/)(adam_[mv]|lamb_[mv]|AdamWeightDecayOptimizer(_\d+)?|global_step)(/|$)")
_SEGMENTS = {"kernel": "weight", "gamma": "weight", "beta": "bias", "output_weights": "weight", "output_bias": "bias"}
# {Google's name of an array, or of its head: Hugging Face's name}, for the heads for fine-tuning.
_HEADS = {"output_weights": "classifier/weight", "output_bias": "classifier/bias", "cls/squad": "qa_outputs"}


def is_google(names: Iterable[str]) -> bool:
    """Return whether the names of a checkpoint's arrays are Google's, which are paths with slashes."""
    return any(name.startswith("bert/") for name in names)


def from_google(names: Iterable[str]) -> dict[str, tuple[str, bool]]:
    """Map our name of each weight to (Google's name, whether to transpose the array). The arrays of the optimizer are
    omitted.

    TensorFlow stores the weight of a dense layer as (in, out), under the name `kernel`. The classifiers of Google's
    scripts are not dense layers; their weights are (out, in), like ours.
    """
    return {_ours(name): (name, name.endswith("/kernel")) for name in names if not _OF_TRAINING.search(name)}


def _ours(name: str) -> str:
    for theirs, ours in _HEADS.items():
        if name == theirs or name.startswith(f"{theirs}/"):
            name = ours + name.removeprefix(theirs)
    path = re.sub(r"(^|/)layer_(\d+)(?=/)", r"\1layer/\2", name).split("/")
    path = [_SEGMENTS.get(segment, segment) if segment == path[-1] else segment for segment in path]
    if path[-1].endswith("_embeddings"):
        path.append("weight")
    return ".".join(path)
