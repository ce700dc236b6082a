"""The settings of `funcnet pretrain`: shared groups, and what only pretraining has."""

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
    """The model, its input and its start."""

    model: Model = "tiny"
    """Size of the model, layers x width, as Google's: tiny 2x128, mini 4x256, small 4x512, medium 8x512, base 12x768,
    large 24x1024."""
    seq_len: int = 128
    """Tokens per row, [CLS] and [SEP] included."""
    packed: bool = False
    """Put several short examples into one row; none of them sees another. For text in short documents."""
    long_seq_len: int | None = None
    """Tokens per row in a second phase, such as Google's 512. The default is a single phase."""
    long_share: Annotated[float, Range(0, 1, below=True)] = 0.1
    """Share of the steps in the second phase."""
    long_batch_size: Annotated[int, Range(1), tyro.conf.arg(metavar="N")] | None = None
    """Rows per update in the second phase. The default is the batch size of the first."""
    dropout: Annotated[float, Range(0, 1, below=True)] = 0.0
    """Dropout of hidden states and attention. In runs of minutes, any dropout delays learning considerably."""
    start: Literal["quick", "bert"] | None = None
    """Initialisation: bert is BERT's own (normal 0.02); quick is for runs of minutes: four heads start with a pattern
    of positions to attend to, and with adamw attention learns at a tenth of the rate. The default is quick with adamw
    and bert with lamb."""
    scan_layers: bool = False
    """Run the layers in one lax.scan: compiles faster, runs slower."""


@dataclasses.dataclass(frozen=True)
class OptimizerSettings:
    """The optimizer and its learning rate."""

    steps: Annotated[int, Range(1)] = 2000
    """Number of updates."""
    optimizer: Literal["adamw", "lamb"] = "adamw"
    """Optimizer: BERT's AdamW, or LAMB as NVIDIA uses it for batches of thousands of rows; each has its schedule."""
    learning_rate: Annotated[float, Range(0)] = 1.5e-3
    """Peak of the learning rate."""
    warmup: Annotated[float, Range(0, 1, below=True)] = 0.1
    """Share of the steps in which the learning rate rises. Then it falls to 0: linearly, or with lamb as a root."""
    weight_decay: Annotated[float, Range(0)] = 0.01
    """Weight decay, applied to all parameters but biases and LayerNorm."""


@dataclasses.dataclass(frozen=True)
class PretrainingSettings:
    """Pretrain BERT (masked words and next sentence) from raw text.

    Writes into --out a directory that Hugging Face opens (config.json, vocab.txt, tokenizer.json,
    tokenizer_config.json, model.safetensors), metrics.jsonl, eval.json, report.png, checkpoints/ and tensorboard/.

    Exit codes: 0 finished; 2 something in the arguments, the text or on the disk is wrong (a line says what);
    130 after Ctrl-C and 143 after SIGTERM: a checkpoint was saved if a step was made; continue with --resume.
    """

    run: RunSettings
    data: Path | None = None
    """Folder of `funcnet data build`, in place of --corpus; it determines all settings of the text and the pairs."""
    text: TextSettings = TextSettings()
    pairs: PairSettings = PairSettings()
    model: ModelSettings = ModelSettings()
    optimizer: OptimizerSettings = OptimizerSettings()
    loop: LoopSettings = LoopSettings()
    checkpoint: CheckpointSettings = CheckpointSettings()
    device: DeviceSettings = DeviceSettings()

    def check(self) -> None:
        """Refuses settings that no run can have, before anything is read or written.

        Raises:
            ValueError: names the flag, what is expected, and what it is.
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
                    f"pretrain: {flag(name)} {getattr(self.model, name)}; expected a second phase, got none. Give its "
                    "--long-seq-len too."
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
        """Whether the run starts from `bert.quick_start`."""
        return (self.model.start or ("bert" if self.optimizer.optimizer == "lamb" else "quick")) == "quick"
