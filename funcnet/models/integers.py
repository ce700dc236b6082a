"""An int8 model as a module, with the same inputs and outputs as the floating-point model.

Letters: `B batch, T sequence, S masked positions per row, V vocabulary, C channels, H height, W width`.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import jax
import jax.numpy as jnp

from funcnet import nn
from funcnet.models import bert
from funcnet.models.bert import BertConfig
from funcnet.nn.core.parameter import Buffer
from funcnet.quantization import Int8Model, is_int8, open_int8

__all__ = ["OUTPUTS", "IntegerModel", "open_bert"]

_LOGITS = {"logits": False}
OUTPUTS: Mapping[str, Mapping[str, bool]] = MappingProxyType(
    {
        "BertModel": {"last_hidden_state": True, "pooler_output": False},
        "BertForPreTraining": {"prediction_logits": True, "seq_relationship_logits": False},
        "BertForMaskedLM": {"logits": True},
        "BertForNextSentencePrediction": _LOGITS,
        "BertForSequenceClassification": _LOGITS,
        "BertForTokenClassification": {"logits": True},
        "BertForQuestionAnswering": {"start_logits": True, "end_logits": True},
        "resnet18": _LOGITS,
        "resnet50": _LOGITS,
    }
)
"""{architecture: {name of an output: True if the output has an entry for each token}}, for the int8 models."""


class IntegerModel(nn.Module):
    """A module that runs an int8 model. It has no parameters. Its buffers are the constants of the integer nets, such
    as the weights.

    Args:
        model: the int8 model.
        config: config of a BERT, for callers that read the attribute `config`.

    Call: images (B, C, H, W), or input_ids (B, T) with optional attention_mask and token_type_ids (B, T) -> the outputs
    of the floating-point model. There is one net per row length, and rows are padded to the next of these lengths. With
    `masked_positions` (B, S), the first output of a pretrained BERT is (B, S, V) instead of (B, T, V).

    Raises:
        ValueError: if the architecture is unknown, or the outputs of `model` do not have the names of this
            architecture's outputs. A call raises this error if rows are longer than the longest net accepts.

    Example:
        >>> import numpy as np
        >>> from funcnet.models import bert
        >>> from funcnet.quantization import calibrate, convert
        >>> net = bert.BertForSequenceClassification(bert.BertConfig.preset("tiny", vocab_size=40))
        >>> params, state = net.init(jax.random.key(0))
        >>> row = (np.full((1, 8), 7, np.int32), np.ones((1, 8), np.int32), np.zeros((1, 8), np.int32))
        >>> quantized = convert(net, params, state, calibrate(net, params, state, [row]), row)
        >>> names = ("input_ids", "attention_mask", "token_type_ids")
        >>> model = IntegerModel(Int8Model("BertForSequenceClassification", names, ("logits",), {8: quantized}))
        >>> _, buffers = model.init(jax.random.key(0))
        >>> model.apply({}, buffers, jnp.full((3, 5), 7))[0].shape
        (3, 2)
    """

    def __init__(self, model: Int8Model, config: BertConfig | None = None):
        super().__init__()
        if model.kind not in OUTPUTS or model.outputs != tuple(OUTPUTS[model.kind]):
            expected = "; ".join(f"{kind} with {', '.join(names)}" for kind, names in OUTPUTS.items())
            raise ValueError(
                f"IntegerModel: the architecture is unknown, or its outputs have other names; expected {expected}; got "
                f"{model.kind!r} with {', '.join(model.outputs)}."
            )
        self.config, self.kind, self.lengths = config, model.kind, tuple(model.nets)
        # Graphs without their constants, which are buffers, so that compiled programs do not contain them.
        self.graphs = {length: dataclasses.replace(net, constants={}) for length, net in model.nets.items()}
        self.buffer_names: dict[int, dict[int, str]] = {}
        known: dict[int, str] = {}
        for length, net in model.nets.items():
            names = self.buffer_names[length] = {}
            for number, array in net.constants.items():
                if id(array) not in known:
                    known[id(array)] = f"constant{len(known)}"
                    self.register_buffer(known[id(array)], Buffer(array))
                names[number] = known[id(array)]

    def forward(
        self,
        inputs: jax.Array,
        attention_mask: jax.Array | None = None,
        token_type_ids: jax.Array | None = None,
        masked_positions: jax.Array | None = None,
    ) -> Any:
        if self.lengths == (0,):
            return self._rows(0, (inputs,))
        count = inputs.shape[1]
        length = next((one for one in self.lengths if one >= count), None)
        if length is None:
            raise ValueError(
                f"IntegerModel: the rows are too long; expected at most {self.lengths[-1]} tokens, got {count}. Cut "
                "the texts, or quantize the model with a longer --length."
            )
        mask = jnp.ones_like(inputs) if attention_mask is None else attention_mask
        types = jnp.zeros_like(inputs) if token_type_ids is None else token_type_ids
        padded = [jnp.pad(x.astype(jnp.int32), ((0, 0), (0, length - count))) for x in (inputs, mask, types)]
        outputs = self._rows(length, padded)
        leaves, structure = jax.tree.flatten(outputs)
        by_token = OUTPUTS[self.kind].values()
        leaves = [x[:, :count] if one else x for x, one in zip(leaves, by_token, strict=True)]
        if masked_positions is not None:
            leaves[0] = jnp.take_along_axis(leaves[0], masked_positions[:, :, None], axis=1)
        return jax.tree.unflatten(structure, leaves)

    def _rows(self, length: int, arrays: Sequence[jax.Array]) -> Any:
        """Run an integer net, which takes one row at a time, on each row of a batch."""
        names = self.buffer_names[length]
        constants = {number: getattr(self, name) for number, name in names.items()}
        net = dataclasses.replace(self.graphs[length], constants=constants)
        outputs = jax.vmap(net)(*(jnp.asarray(array)[:, None] for array in arrays))  # a row is a batch of one
        return jax.tree.map(lambda x: x[:, 0], outputs)


def open_bert(path: str | Path, kind: str, where: str) -> tuple[Any, dict[str, Any], dict[str, Any]]:
    """Open a trained floating-point or int8 BERT for inference, as (net, params, state).

    Args:
        path: directory of the model.
        kind: name of the architecture to open. The argument is ignored for an int8 model, whose architecture is fixed.
        where: name of the caller, for messages.

    Raises:
        FileNotFoundError: if a file is missing.
        ValueError: if a file is damaged, or a floating-point model lacks the head of this architecture.

    Example:
        >>> import tempfile
        >>> model = bert.BertForMaskedLM(bert.BertConfig.preset("tiny", vocab_size=40))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     bert.save_pretrained(folder, model, *model.init(jax.random.key(0)))
        ...     net, params, state = open_bert(folder, "BertForMaskedLM", "serving")
        >>> type(net).__name__
        'BertForMaskedLM'
    """
    if not is_int8(path):
        return bert.from_pretrained(path, bert.ARCHITECTURES[kind], new_heads=False)
    model = open_int8(path, where)
    net = IntegerModel(model, BertConfig.load(path))
    return net, *net.init(jax.random.key(0))
