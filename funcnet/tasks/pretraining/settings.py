"""The settings of `funcnet pretrain`: shared groups, and groups of its own."""

import dataclasses
from pathlib import Path
from typing import Annotated, Literal

import tyro

from funcnet.models.bert import BertConfig
from funcnet.settings import Range, check_ranges, defaults, flag, flat
from funcnet.tasks.pretraining_data.settings import PairSettings, TextSettings
from funcnet.train.settings import CheckpointSettings, DeviceSettings, LoopSettings, RunSettings

__all__ = ["ModelSettings", "OptimizerSettings", "PretrainingSettings"]

Model = Literal["tiny", "mini", "small", "medium", "base", "large"]


@dataclasses.dataclass(frozen=True)
class ModelSettings:
    """The model, its input and its initialisation."""

    model: Model = "tiny"
    """Size of the model, as layers x width: tiny 2x128, mini 4x256, small 4x512, medium 8x512, base 12x768, large
    24x1024."""
    seq_len: int = 128
    """Number of tokens per row, including [CLS] and [SEP]."""
    packed: bool = False
    """Pack several short examples into one row, for text in short documents. Examples do not attend to each other."""
    long_seq_len: int | None = None
    """Number of tokens per row in a second phase, such as 512 in Google's recipe. The default is a single phase."""
    long_share: Annotated[float, Range(0, 1, below=True)] = 0.1
    """Share of the steps in the second phase."""
    long_batch_size: Annotated[int, Range(1), tyro.conf.arg(metavar="N")] | None = None
    """Number of rows per update in the second phase. The default is the batch size of the first phase."""
    dropout: Annotated[float, Range(0, 1, below=True)] = 0.0
    """Dropout rate of hidden states and attention weights. Dropout delays learning in runs of a few minutes."""
    start: Literal["quick", "bert"] | None = None
    """Initialisation: bert is that of BERT (normal 0.02). quick is for runs of a few minutes: four heads start with
    fixed patterns of attention, and with adamw, attention has a tenth of the learning rate. The default is quick with
    adamw, and bert with lamb."""
    scan_layers: bool = False
    """Run the layers in one lax.scan. This compiles faster and runs slower."""


@dataclasses.dataclass(frozen=True)
class OptimizerSettings:
    """The optimizer and its learning rate."""

    steps: Annotated[int, Range(1)] = 2000
    """Number of updates."""
    optimizer: Literal["adamw", "lamb"] = "adamw"
    """Optimizer: BERT's AdamW, or NVIDIA's LAMB for batches of thousands of rows. Each has its own schedule."""
    learning_rate: Annotated[float, Range(0)] = 1.5e-3
    """Peak learning rate."""
    warmup: Annotated[float, Range(0, 1, below=True)] = 0.1
    """Share of the steps in which the learning rate rises. Then it falls to 0, linearly or (lamb) as a square root."""
    weight_decay: Annotated[float, Range(0)] = 0.01
    """Weight decay, applied to all parameters except biases and LayerNorm."""


@dataclasses.dataclass(frozen=True)
class PretrainingSettings:
    """Pretrain BERT (masked words and next sentence) from raw text.

    Writes into --out a model that Hugging Face can open (config.json, vocab.txt, tokenizer.json,
    tokenizer_config.json, model.safetensors), metrics.jsonl, eval.json, report.png, checkpoints/ and tensorboard/.

    Exit codes: 0 finished; 2 an error in the arguments, the text or the files, reported in one line; 130 stopped by
    Ctrl-C; 143 stopped by SIGTERM. A stopped run saves a checkpoint, unless it stopped before its first step. Continue
    it with --resume.
    """

    run: RunSettings
    data: Path | None = None
    """Folder of `funcnet data build`, instead of --corpus. It determines all settings of the text and the pairs."""
    text: TextSettings = TextSettings()
    pairs: PairSettings = PairSettings()
    model: ModelSettings = ModelSettings()
    optimizer: OptimizerSettings = OptimizerSettings()
    loop: LoopSettings = LoopSettings()
    checkpoint: CheckpointSettings = CheckpointSettings()
    device: DeviceSettings = DeviceSettings()

    def check(self) -> None:
        """Check the settings before anything is read or written.

        Raises:
            ValueError: a setting is wrong; the message names its flag.
        """
        check_ranges(self, "pretrain")
        self.text.check("pretrain")
        longest = BertConfig.preset(self.model.model).max_position_embeddings
        for name in ("seq_len", "long_seq_len"):
            length = getattr(self.model, name)
            if length is not None and not 8 <= length <= longest:
                raise ValueError(
                    f"pretrain: {flag(name)}; expected 8 to {longest}, the size of the position table, got {length}."
                )
        usual = defaults(type(self))
        for name in ("long_share", "long_batch_size"):
            if self.model.long_seq_len is None and getattr(self.model, name) != usual[name]:
                raise ValueError(
                    f"pretrain: {flag(name)} {getattr(self.model, name)}; expected a second phase, got none. Add "
                    "--long-seq-len."
                )
        if self.data is not None:
            for name, value in (flat(self.text) | flat(self.pairs)).items():
                if value != usual[name]:
                    raise ValueError(
                        f"pretrain: {flag(name)} together with --data; expected it to be left out, got {value}. The "
                        "folder in --data was built with its own settings."
                    )

    @property
    def is_quick(self) -> bool:
        """Whether the parameters are initialised by `bert.quick_start`."""
        return (self.model.start or ("bert" if self.optimizer.optimizer == "lamb" else "quick")) == "quick"
