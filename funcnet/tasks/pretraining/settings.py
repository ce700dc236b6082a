"""The settings of `funcnet pretrain`: groups that other commands share, and groups of this command."""

import dataclasses
from pathlib import Path
from typing import Annotated, Literal

import tyro

from funcnet.models.bert import BertConfig
from funcnet.settings import Range, check_ranges, defaults, flag, flat, with_helps
from funcnet.tasks.pretraining_data.data_settings import PairSettings, TextSettings
from funcnet.train.setting_groups import CheckpointSettings, DeviceSettings, LoopSettings, RunSettings

__all__ = ["ModelSettings", "OptimizerSettings", "PretrainingSettings"]

Model = Literal["tiny", "mini", "small", "medium", "base", "large"]


@with_helps
@dataclasses.dataclass(frozen=True)
class ModelSettings:
    """The model, its input and its initialisation."""

    model: Model = "tiny"
    """Size of the model. The sizes, as layers x width, are tiny 2x128, mini 4x256, small 4x512, medium 8x512, base
    12x768 and large 24x1024."""
    seq_len: int = 128
    """Number of tokens per row, including [CLS] and [SEP]."""
    packed: bool = False
    """Pack several short examples into one row, which saves padding if documents are short. Examples do not attend to
    each other."""
    long_seq_len: int | None = None
    """Number of tokens per row in a second phase of training, such as 512 in Google's recipe. By default, there is no
    second phase."""
    long_share: Annotated[float, Range(0, 1, below=True)] = 0.1
    """Fraction of the steps that are in the second phase."""
    long_batch_size: Annotated[int, Range(1), tyro.conf.arg(metavar="N")] | None = None
    """Number of rows per update in the second phase. The default is --batch-size."""
    dropout: Annotated[float, Range(0, 1, below=True)] = 0.0
    """Dropout rate of hidden states and attention weights. In runs of a few minutes, dropout slows learning down."""
    start: Literal["quick", "bert"] | None = None
    """Initialisation of the parameters. "bert" draws them from a normal distribution with standard deviation 0.02. The
    value "quick" uses a larger standard deviation and gives four attention heads useful patterns to start from, which
    suits runs of a few minutes. So that training does not overwrite these patterns, "quick" with the optimizer "adamw"
    uses one tenth of the learning rate for the attention, the position and token type embeddings, the pooler and the
    next-sentence classifier. The default is "quick" with "adamw", and "bert" with "lamb"."""
    scan_layers: bool = False
    """Run the layers in a lax.scan, which compiles faster and runs slower."""
    attention_block_size: Annotated[int, Range(1), tyro.conf.arg(metavar="N")] | None = None
    """Number of tokens whose attention scores are computed at a time. This saves memory for long rows. By default, all
    scores of a row are stored."""
    context_parallel: Literal["ring", "gather"] = "ring"
    """How devices exchange the keys and values of attention if --mesh has the axis context. "ring" sends them from
    device to device, which needs the least memory. "gather" collects all of them on each device, which is faster for
    short rows."""


@with_helps
@dataclasses.dataclass(frozen=True)
class OptimizerSettings:
    """The optimizer and its learning rate."""

    steps: Annotated[int, Range(1)] = 2000
    """Number of updates of the parameters."""
    optimizer: Literal["adamw", "lamb"] = "adamw"
    """Optimizer: BERT's AdamW, or NVIDIA's LAMB, which suits batches of thousands of rows. Each optimizer has its own
    learning rate schedule."""
    learning_rate: Annotated[float, Range(0)] = 1.5e-3
    """Peak learning rate."""
    warmup: Annotated[float, Range(0, 1, below=True)] = 0.1
    """Fraction of the steps over which the learning rate rises from 0 to its peak. Afterwards, it falls to 0: linearly
    with "adamw", and as the square root of the remaining fraction of the steps with "lamb"."""
    weight_decay: Annotated[float, Range(0)] = 0.01
    """Weight decay, applied to all parameters except biases and LayerNorm."""


@with_helps
@dataclasses.dataclass(frozen=True)
class PretrainingSettings:
    """Pretrain BERT on raw text, with masked words and next-sentence prediction.

    The command writes into --out: a model that Hugging Face can open (config.json, vocab.txt, tokenizer.json,
    tokenizer_config.json, model.safetensors), metrics.jsonl, eval.json, report.png, checkpoints/ and tensorboard/.

    Exit codes: 0 finished; 2 an error in the arguments, the text or the files, reported in one line; 130 stopped by
    Ctrl-C; 143 stopped by SIGTERM. A stopped run has saved a checkpoint, unless it stopped before its first step.
    Continue it with --resume.
    """

    run: RunSettings
    data: Path | None = None
    """Folder that `funcnet data build` or `funcnet data import` wrote, to use instead of --corpus. Omit the settings of
    the text and the pairs, because they were chosen when the folder was built."""
    text: TextSettings = TextSettings()
    pairs: PairSettings = PairSettings()
    model: ModelSettings = ModelSettings()
    optimizer: OptimizerSettings = OptimizerSettings()
    loop: LoopSettings = LoopSettings()
    checkpoint: CheckpointSettings = CheckpointSettings(rewind_above=2.0)
    device: DeviceSettings = DeviceSettings()

    def check(self) -> None:
        """Check the settings before anything is read or written. The message of the `ValueError` names the flag."""
        check_ranges(self, "pretrain")
        self.text.check("pretrain")
        longest = BertConfig.preset(self.model.model).max_position_embeddings
        for name in ("seq_len", "long_seq_len"):
            length = getattr(self.model, name)
            if length is not None and not 8 <= length <= longest:
                raise ValueError(
                    f"pretrain: {flag(name)} is out of range; expected 8 to {longest} (the size of the position "
                    f"table), got {length}."
                )
        usual = defaults(type(self))
        for name in ("long_share", "long_batch_size"):
            if self.model.long_seq_len is None and getattr(self.model, name) != usual[name]:
                raise ValueError(
                    f"pretrain: {flag(name)} {getattr(self.model, name)} has no effect without a second phase; "
                    "expected --long-seq-len as well, got none. Add --long-seq-len."
                )
        if self.data is not None:
            for name, value in (flat(self.text) | flat(self.pairs)).items():
                if value != usual[name]:
                    raise ValueError(
                        f"pretrain: {flag(name)} cannot be combined with --data; expected only --data, got "
                        f"{value}. Omit {flag(name)}, because the folder in --data was built with its own settings."
                    )

    @property
    def is_quick(self) -> bool:
        """Whether the parameters are initialised by `bert.quick_start`."""
        return (self.model.start or ("bert" if self.optimizer.optimizer == "lamb" else "quick")) == "quick"
