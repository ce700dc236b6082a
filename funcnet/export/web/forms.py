"""Prepare the model in a directory for a page: find the function that the page runs, and the data that it needs.

Letters: `T tokens, S masks, D hidden size, V vocabulary, C classes`. A page runs one row of tokens at a time, such
as a part of a long text, or a text with one of its choices.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from tokenizers import Tokenizer

from funcnet import nn, text
from funcnet.files import read_json
from funcnet.heads import HEADS, Head, open_head, read_settings
from funcnet.heads.entities import spell_entities
from funcnet.heads.windows import Spans
from funcnet.models import bert
from funcnet.tree import Params, State

__all__ = ["TASKS", "Form", "open_form"]

TASKS = ("fill-mask", "classify", "labels", "regress", "pairs", "tokens", "similarity", "answer", "choice")
SLOTS = 4  # masks whose logits one call computes: the module's matrix product computes four rows at a time
LONGEST = 128  # tokens of a row if the model was not fine-tuned: longer rows cost time and size
WINDOW = 8  # least number of tokens in the longest row of a page with questions: a cut question leaves room for text
WHERE = "web"


@dataclass(frozen=True)
class Form:
    """A model and the data that a page needs.

    Attributes:
        function: pure function of arrays, whose only output the page shows.
        examples: example arrays for the longest row.
        lengths: padded lengths, in increasing order.
        tokenizer: tokenizer of the model.
        facts: JSON data for the page: `task`, `labels`, `pairs` (whether the page has a second text), and other
            settings of the task.
        params: the model's parameters.
        model: description of the model for readers of the page.
    """

    function: Callable[..., Any]
    examples: Sequence[np.ndarray]
    lengths: tuple[int, ...]
    tokenizer: Tokenizer
    facts: Mapping[str, Any]
    params: Any
    model: str


def open_form(path: str | Path, task: str | None = None, lengths: Sequence[int] | None = None) -> Form:
    """Return the model in a directory, and the data that its page needs.

    Args:
        path: output directory of `funcnet pretrain` or `finetune`, or Hugging Face's files of a BERT with a vocabulary.
        task: one of `TASKS`. The default is the task for which the model was fine-tuned. If it was not fine-tuned, the
            default is the usual task of its architecture, or "similarity" for a model without a head.
        lengths: padded lengths, in tokens. The default is 16, 32, 64 and so on, up to the row length with which the
            model was fine-tuned, or up to 128 if it was not fine-tuned.

    Raises:
        FileNotFoundError: if the directory has no model.
        ValueError: if the task is unknown or does not fit the model, or a length is out of range.

    Example:
        >>> import jax, tempfile
        >>> tokenizer = text.train_wordpiece(["the cat sat on the mat"] * 3, vocab_size=40)
        >>> model = bert.BertForMaskedLM(bert.BertConfig.preset("tiny", vocab_size=tokenizer.get_vocab_size()))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     bert.save_pretrained(folder, model, *model.init(jax.random.key(0)))
        ...     text.save_tokenizer(tokenizer, folder)
        ...     form = open_form(folder)
        >>> form.facts["task"], form.lengths, form.function(*form.examples).shape
        ('fill-mask', (16, 32, 64, 128), (1, 4, 26))
    """
    path = Path(path)
    config = bert.BertConfig.load(path)
    if task is not None and task not in TASKS:
        raise ValueError(f"{WHERE}: task is unknown; expected one of {', '.join(TASKS)}, got {task!r}.")
    architecture, *_ = (read_json(path / "config.json") or {}).get("architectures") or ["BertModel"]
    if task == "similarity" or (task is None and architecture == "BertModel"):
        tokenizer = text.load_tokenizer(path)
        text.require_fit(tokenizer, config.vocab_size, where=f"{WHERE}: {path}")
        encoder = partial(bert.BertModel, add_pooling_layer=False)
        net, params, state = bert.from_pretrained(path, encoder, new_heads=False)
        function = _similarity(net, params, state)
        facts: dict[str, Any] = {"task": "similarity", "pairs": True, "labels": []}
        return _form(path, config, function, tokenizer, facts, params, lengths)
    head, tokenizer, _ = open_head(path, config, task, WHERE, heads=HEADS)
    net, params, state = bert.from_pretrained(path, bert.ARCHITECTURES[head.architecture], new_heads=False)
    function = (_fill_mask if head.name == "fill-mask" else _answers(head, tokenizer))(net, params, state)
    return _form(path, config, function, tokenizer, _facts(head), params, lengths)


def _form(
    path: Path,
    config: bert.BertConfig,
    function: Callable[..., Any],
    tokenizer: Tokenizer,
    facts: dict[str, Any],
    params: Mapping[str, Any],
    lengths: Sequence[int] | None,
) -> Form:
    positions = config.max_position_embeddings
    if lengths is None:
        longest = min(read_settings(path).get("seq_len", LONGEST), positions)
        lengths = [*(2**n for n in range(4, 20) if 2**n < longest), longest]
    if not lengths or min(lengths) < 4 or max(lengths) > positions:
        raise ValueError(
            f"{WHERE}: lengths are out of range; expected 4 to {positions} (the size of the position table), got "
            f"{[*lengths]}."
        )
    lengths = tuple(sorted({*lengths}))
    if facts["task"] == "answer" and lengths[-1] < WINDOW:
        raise ValueError(
            f"{WHERE}: the longest row is too short for a question and a text; expected at least {WINDOW} tokens, got "
            f"{lengths[-1]}."
        )
    row = (1, lengths[-1])
    ids = np.random.default_rng(0).integers(0, tokenizer.get_vocab_size(), row).astype(np.int32)
    mask = np.ones(row, np.int32)
    mask[:, lengths[0] - 3 :: lengths[0]] = 0  # the example of every length has padding
    examples = [ids, mask, np.zeros(row, np.int32)]
    if facts["task"] == "fill-mask":
        examples.append(np.arange(SLOTS, dtype=np.int32))
    layers = config.num_hidden_layers
    model = f"BERT with {layers} layer{'s' * (layers != 1)}, {config.hidden_size} wide"
    return Form(function, examples, lengths, tokenizer, MappingProxyType(facts), params, model)


def _facts(head: Head) -> dict[str, Any]:
    labels = [*getattr(head, "labels", ())]
    task = next(name for name in head.names if name != "pairs")  # pairs are classified, labelled or rated
    settings = [field.name for field in fields(Spans)] if isinstance(head, Spans) else []
    return {
        "task": task,
        "pairs": head.reads_pairs is True or task in ("answer", "choice"),
        "labels": labels,
        "entities": bool(labels) and spell_entities(labels),
        "long_texts": getattr(head, "long_texts", "cut"),
        "spans": {name: getattr(head, name) for name in settings},
    }


def _fill_mask(net: nn.Module, params: Params, state: State) -> Callable[..., Any]:
    """Return a function that computes the logits (1, S, V) of only the tokens at `masked_positions` (S,)."""
    encoder, cls = (net.subtree(name, params, state) for name in ("bert", "cls"))

    def logits(
        input_ids: jax.Array, attention_mask: jax.Array, token_type_ids: jax.Array, masked_positions: jax.Array
    ) -> Any:
        (hidden, *_), _ = net.bert.apply(*encoder, input_ids, attention_mask, token_type_ids)
        return net.cls.apply(*cls, jnp.take(hidden, masked_positions, axis=1))[0].astype(jnp.float32)

    return logits


def _answers(head: Head, tokenizer: Tokenizer) -> Callable[..., Callable[..., Any]]:
    """Return a function of (net, params, state), which returns the function that computes the output of a head.

    The output is (1, C), (1, T, C) for tags of words, (1, T, 2) for answers, or (1,) for a choice.
    """

    def of(net: nn.Module, params: Params, state: State) -> Callable[..., Any]:
        forward = head.forward(net, tokenizer)

        def logits(input_ids: jax.Array, attention_mask: jax.Array, token_type_ids: jax.Array) -> Any:
            batch = {"input_ids": input_ids, "attention_mask": attention_mask, "token_type_ids": token_type_ids}
            return forward(params, state, batch)

        return logits

    return of


def _similarity(net: nn.Module, params: Params, state: State) -> Callable[..., Any]:
    """Return a function that computes the mean of the hidden states (1, D), divided by its Euclidean norm.

    The package sentence-transformers computes the same vector.
    """

    def vector(input_ids: jax.Array, attention_mask: jax.Array, token_type_ids: jax.Array) -> Any:
        (hidden, *_), _ = net.apply(params, state, input_ids, attention_mask, token_type_ids)
        shown = attention_mask[:, :, None].astype(jnp.float32)
        mean = jnp.sum(hidden * shown, axis=1) / jnp.sum(shown, axis=1)
        return mean / jnp.sqrt(jnp.sum(mean * mean, axis=1, keepdims=True))

    return vector
