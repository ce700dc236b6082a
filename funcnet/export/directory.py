"""Open a directory that a run of funcnet wrote, or Hugging Face's files, as one pure function of arrays."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from funcnet import weights
from funcnet.export.inference import inference_of
from funcnet.files import read_json
from funcnet.models import bert, resnet
from funcnet.models.integers import OUTPUTS
from funcnet.quantization import Int8Model, is_int8, open_int8

__all__ = ["ModelFunction", "open_directory", "require_net"]

LENGTHS = (16, 32, 64, 128)
CHOICES = "BertForMultipleChoice"  # its inputs have a dimension of choices


@dataclass(frozen=True)
class ModelFunction:
    """The inference of a saved model as a pure function, with the data that an export of the function needs.

    Attributes:
        function: pure function of arrays.
        examples: example arrays.
        dynamic: specification of the sizes that may differ between calls, such as "batch, length".
        constraints: constraints of the sizes in `dynamic`, such as "length <= 512".
        params: the arrays that the function closes over, with their names.
        kind: name of the model's architecture.
        lengths: usual numbers of tokens, for forms with fixed sizes. A model of images has no `lengths`.
        int8: the nets of an int8 model, or None.
    """

    function: Callable[..., Any]
    examples: Sequence[np.ndarray]
    dynamic: str
    constraints: tuple[str, ...]
    params: Any
    kind: str
    lengths: tuple[int, ...] = ()
    int8: Int8Model | None = None


def open_directory(
    path: str | Path, *, batch_size: int | None = None, length: int | None = None, where: str = "export"
) -> ModelFunction:
    """Return the inference of the model in a directory.

    Args:
        path: output directory of `funcnet pretrain`, `finetune`, `train-images` or `quantize`, or a directory with
            Hugging Face's files of a BERT.
        batch_size: number of rows in every call. With None, calls may have any number of rows. An int8 model always
            takes one row.
        length: number of tokens in every row. With None, rows may have any number of tokens up to the size of the
            position table. An int8 model takes only rows of the lengths for which it was converted. If `length` is
            None, the function of an int8 model takes rows of each of these lengths, and its example arrays have the
            longest one.
        where: name of the caller, for messages.

    Raises:
        FileNotFoundError: if the directory has no model.
        ValueError: if the architecture is unknown, a file is invalid, or a size is out of range.

    Example:
        >>> import jax, tempfile
        >>> model = bert.BertForMaskedLM(bert.BertConfig.preset("tiny", vocab_size=40))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     bert.save_pretrained(folder, model, *model.init(jax.random.key(0)))
        ...     found = open_directory(folder)
        >>> found.kind, found.dynamic, {name: a.shape for name, a in found.function(*found.examples).items()}
        ('BertForMaskedLM', 'batch, length', {'logits': (2, 16, 40)})
    """
    path = Path(path)
    if batch_size is not None and batch_size < 1:
        raise ValueError(f"{where}: --batch-size is out of range; expected at least 1, got {batch_size}.")
    if is_int8(path):
        return _integers(path, batch_size, length, where)
    if (path / "images.json").exists():
        return _images(path, batch_size, length, where)
    config = read_json(path / "config.json")
    if not isinstance(config, dict):
        raise FileNotFoundError(
            f"{where}: {path} has no model; expected config.json, as funcnet pretrain and finetune write, or "
            "images.json, as funcnet train-images writes, got neither."
        )
    kind = (config.get("architectures") or ["BertModel"])[0]
    if kind not in bert.ARCHITECTURES:
        raise ValueError(
            f"{where}: {path} has an unknown architecture; expected one of {', '.join(bert.ARCHITECTURES)}, got {kind}."
        )
    net, params, state = bert.from_pretrained(path, bert.ARCHITECTURES[kind], new_heads=False)
    longest = net.config.max_position_embeddings
    if length is not None and not 1 <= length <= longest:
        raise ValueError(f"{where}: --length is out of range; expected 1 to {longest}, got {length}.")
    names = tuple(OUTPUTS.get(kind, ("logits",)))
    run = inference_of(net, params, state)

    def function(input_ids: ArrayLike, attention_mask: ArrayLike, token_type_ids: ArrayLike) -> dict[str, Any]:
        out = run(input_ids, attention_mask, token_type_ids)
        found = zip(names, out if isinstance(out, tuple) else (out,), strict=True)
        return {name: array for name, array in found if array is not None}

    shape = (batch_size or 2, *((3,) if kind == CHOICES else ()), length or min(16, longest))
    sizes = ["_" if batch_size else "batch", *(("choices",) if kind == CHOICES else ()), "_" if length else "length"]
    constraints = () if length else (f"length <= {longest}",)
    lengths = (length,) if length else tuple(n for n in LENGTHS if n <= longest) or (longest,)
    examples = _rows(shape, net.config.vocab_size)
    return ModelFunction(function, examples, ", ".join(sizes), constraints, (params, state), kind, lengths)


def _rows(shape: tuple[int, ...], vocab_size: int) -> list[np.ndarray]:
    """Return example inputs of a model of texts: random ids, an attention mask and token types.

    Each array has shape (…, B, T). The first of the B rows has padding.
    """
    ids = np.random.default_rng(0).integers(0, vocab_size, shape).astype(np.int32)
    mask = np.ones(shape, np.int32)
    mask[..., 0, shape[-1] // 2 + 1 :] = 0
    return [ids, mask, np.zeros_like(ids)]


def _integers(path: Path, batch_size: int | None, length: int | None, where: str) -> ModelFunction:
    """Return the `ModelFunction` of an int8 model, whose function takes one row of tokens or one image."""
    model = open_int8(path, where)
    of_images = model.inputs == ("images",)
    if batch_size not in (None, 1):
        raise ValueError(f"{where}: --batch-size is out of range; expected 1 for an int8 model, got {batch_size}.")
    if length is not None:
        require_net(path, model, length, where)
    lengths = () if of_images else (length,) if length else tuple(model.nets)

    def function(*arrays: jax.Array | np.ndarray) -> dict[str, Any]:
        net = model.nets[0 if of_images else arrays[0].shape[1]]
        return dict(zip(model.outputs, jax.tree.leaves(net(*arrays)), strict=True))

    net = model.nets[max(lengths, default=0)]
    shape = net.values[net.inputs[0]].shape
    if of_images:
        examples = [np.random.default_rng(0).normal(size=shape).astype(np.float32)]
    else:
        examples = _rows(shape, bert.BertConfig.load(path).vocab_size)
    constants = {str(number): array for number, array in net.constants.items()}
    return ModelFunction(function, examples, ", ".join("_" for _ in shape), (), constants, model.kind, lengths, model)


def require_net(path: str | Path, model: Int8Model, length: int, where: str = "export") -> None:
    """Raise ValueError if an int8 model has no net for rows of `length` tokens.

    Args:
        path: directory of the model, for messages.
        model: the model.
        length: number of tokens.
        where: name of the caller, for messages.

    Example:
        >>> require_net("runs/mine-int8", Int8Model("resnet18", ("images",), ("logits",), {}), 16)
        Traceback (most recent call last):
        ValueError: export: runs/mine-int8 has no net of this --length; expected none for images, got 16.
    """
    of_images = model.inputs == ("images",)
    if of_images or length not in model.nets:
        known = "none for images" if of_images else f"one of {', '.join(map(str, model.nets))}"
        raise ValueError(f"{where}: {path} has no net of this --length; expected {known}, got {length}.")


def _images(path: Path, batch_size: int | None, length: int | None, where: str) -> ModelFunction:
    """Return the `ModelFunction` of a ResNet, whose function takes images of the size used in training."""
    if length is not None:
        raise ValueError(f"{where}: --length is for texts; expected no length for a model of images, got {length}.")
    facts = read_json(path / "images.json")
    makers = {"resnet18": resnet.resnet18, "resnet50": resnet.resnet50}
    known = {"model", "image_size", "channels", "classes"}
    if not isinstance(facts, dict) or not known <= {*facts} or facts["model"] not in makers:
        raise ValueError(f"{where}: {path / 'images.json'} is invalid; expected a model of {', '.join(makers)}.")
    size, channels = facts["image_size"], facts["channels"]
    net = makers[facts["model"]](num_classes=len(facts["classes"]), in_channels=channels, small_images=size <= 64)
    params, state = net.load_state_dict(weights.load(path / "model.safetensors"))
    run = inference_of(net, params, state)

    def function(images: ArrayLike) -> dict[str, Any]:
        return {"logits": run(images)}

    images = np.random.default_rng(0).normal(size=(batch_size or 2, channels, size, size)).astype(jnp.float32)
    return ModelFunction(
        function, [images], f"{'_' if batch_size else 'batch'}, ...", (), (params, state), facts["model"]
    )
