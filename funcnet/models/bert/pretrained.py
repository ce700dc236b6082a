"""A model and its directory: `config.json` beside `model.safetensors`, as Hugging Face lays them."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from funcnet import nn, weights
from funcnet.files import write_json
from funcnet.models.bert.configuration import BertConfig
from funcnet.models.bert.modeling import BertModel

__all__ = ["from_pretrained", "save_pretrained"]

Tree = dict[str, Any]

_CONFIG, _WEIGHTS = "config.json", "model.safetensors"
_PREFIX = "bert."  # before the names of the encoder in every model that has a head


def from_pretrained(
    path: str | Path, cls: Callable[[BertConfig], nn.Module] = BertModel
) -> tuple[nn.Module, Tree, Tree]:
    """The model in a directory.

    `BertModel` takes the encoder out of a directory that holds a model with heads; otherwise the names must fit.

    Args:
        path: a directory with `config.json` and `model.safetensors`.
        cls: `BertModel`, `BertForPreTraining`, or any class that is made from a `BertConfig` alone.

    Returns:
        (model, params, state): the description and its arrays, float32.

    Raises:
        FileNotFoundError: one of the files is not there.
        ValueError: a broken file, a config that is not here, or names and shapes that differ, which are listed.

    Example:
        >>> import jax, tempfile
        >>> from funcnet.models import bert
        >>> model = bert.BertForPreTraining(bert.BertConfig.preset("tiny", vocab_size=100))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     bert.save_pretrained(folder, model, *model.init(jax.random.key(0)))
        ...     encoder, params, state = bert.from_pretrained(folder)
        >>> type(encoder).__name__, list(params)
        ('BertModel', ['embeddings', 'encoder', 'pooler'])

    Reference: transformers.PreTrainedModel.from_pretrained
    """
    path = Path(path)
    if not path.is_dir():
        raise FileNotFoundError(
            f"bert.from_pretrained: {path} is not there; expected a directory with {_CONFIG} and {_WEIGHTS}, got none. "
            "Check the path."
        )
    model = cls(BertConfig.load(path))
    params, state = model.load_state_dict(_rename(weights.load(path / _WEIGHTS), model))
    return model, params, state


def save_pretrained(path: str | Path, model: nn.Module, params: Tree, state: Tree) -> None:
    """Writes the directory that `from_pretrained` and Hugging Face's class of the same name open.

    Args:
        path: the directory; made if it is not there. Each of the two files is replaced whole.
        model: a description with a `config`.
        params, state: its arrays. Shared weights are written once, under their first name, as Hugging Face does.

    Raises:
        OSError: the directory cannot be written; the file at fault is as it was.

    Reference: transformers.PreTrainedModel.save_pretrained
    """
    path = Path(path)
    path.mkdir(parents=True, exist_ok=True)
    written: set[int] = set()
    once: dict[str, Any] = {}
    for name, array in model.state_dict(params, state).items():
        if id(array) not in written:
            written.add(id(array))
            once[name] = array
    weights.save(path / _WEIGHTS, once)
    config: BertConfig = vars(model)["config"]
    write_json(path / _CONFIG, config.to_dict(type(model).__name__))


class _Renamed(Mapping[str, Any]):
    """A file's arrays under other names, each still read when it is asked for."""

    def __init__(self, file: Mapping[str, Any], names: Mapping[str, str]):
        self._file, self._names = file, names

    def __getitem__(self, name: str) -> Any:
        return self._file[self._names[name]]

    def __iter__(self) -> Any:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


def _rename(file: Mapping[str, Any], model: nn.Module) -> Mapping[str, Any]:
    """The file's arrays under the model's names: the encoder's prefix dropped or added, heads left out."""
    file_has = any(name.startswith(_PREFIX) for name in file)
    model_has = any(name.startswith(_PREFIX) for name, _ in model.named_parameters())
    if file_has and not model_has:
        return _Renamed(file, {name.removeprefix(_PREFIX): name for name in file if name.startswith(_PREFIX)})
    if model_has and not file_has:
        encoder = ("embeddings.", "encoder.", "pooler.")
        return _Renamed(file, {_PREFIX + name if name.startswith(encoder) else name: name for name in file})
    return file
