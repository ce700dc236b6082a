"""The settings of a pretraining run, each with its reason; what the command line shows.

A run is the same again when all of them are the same, the text and the vocabulary too; `--resume` asks for that.
"""

import dataclasses
import math
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

MOST_DEVICES = 4096  # more virtual ones than this take the machine down with them
SETTLED = (  # by the folder in --data
    *("corpus", "documents", "field", "held_out", "vocab", "vocab_size"),
    *("cased", "passes", "whole_words", "static_masks"),
)
FREE = ("save_every", "keep")  # a resumed run may change them
Model = Literal["tiny", "mini", "small", "medium", "base", "large"]

__all__ = ["PretrainingConfig"]


@dataclasses.dataclass(frozen=True)
class PretrainingConfig:
    """Pretrain BERT (masked words and next sentence) from raw text.

    Writes into --out a directory that Hugging Face opens (config.json, vocab.txt, tokenizer.json,
    tokenizer_config.json, model.safetensors), metrics.jsonl, eval.json, report.png, checkpoints/ and tensorboard/.

    Exit codes: 0 finished; 2 something in the arguments, the text or on the disk is wrong (a line says what);
    130 after Ctrl-C and 143 after SIGTERM: a checkpoint was saved where a step had been made, go on with --resume.
    """

    out: Path
    """directory of the run"""
    resume: bool = False
    """go on with the run in --out; settings that are left out are as they were, and others are refused, but for
    --save-every and --keep"""

    data: Path | None = None
    """a folder that `funcnet data build` made; all that it was built with is then settled"""
    corpus: Annotated[tuple[Path, ...] | None, tyro.conf.arg(metavar="PATH [PATH ...]")] = None
    """text or other files, or folders of them, see `funcnet data build`; without it the presidential messages of the
    extra 'demo'"""
    documents: Literal["auto", "file", "blank-line"] = "auto"
    """what is a document: a whole file, or what stands between blank lines"""
    field: str = "text"
    """of JSON lines, or column of a table, with the text"""
    held_out: float = 0.05
    """share of the text kept for evaluation, by whole documents, four million characters at most"""
    vocab: Path | None = None
    """a vocabulary (vocab.txt, or a directory with one) to use instead of training one"""
    vocab_size: int = 4096
    """size of the vocabulary to train"""
    cased: bool = False
    """keep capitals and accents"""
    passes: int = 10
    """over the text, each with other sentence pairs"""
    whole_words: bool = False
    """hide all pieces of a word or none"""
    static_masks: bool = False
    """the words hidden in a pass are the same at every visit, as in Google's script"""

    model: Model = "tiny"
    """Google's sizes, layers x width: tiny 2x128, mini 4x256, small 4x512, medium 8x512, base 12x768, large 24x1024"""
    seq_len: int = 128
    """tokens a row, [CLS] and [SEP] included"""
    packed: bool = False
    """several short examples in a row, none of which sees another; for text in short documents"""
    long_seq_len: int | None = None
    """tokens a row in a second phase, such as Google's 512; without it there is one phase"""
    long_share: float = 0.1
    """of the steps that the second phase has"""
    long_batch_size: Annotated[int | None, tyro.conf.arg(metavar="N")] = None
    """rows an update there; without it as many as before"""
    dropout: float = 0.0
    """of hidden states and attention; in runs of minutes any dropout delays the start of learning by far"""
    start: Literal["quick", "bert"] | None = None
    """initialisation: BERT's own (normal 0.02); or quick, for runs of minutes: four heads know where to look, and with
    adamw attention learns ten times slower than the rest. Without it quick with adamw, bert with lamb"""
    scan_layers: bool = False
    """one lax.scan over the layers: compiles faster, runs slower"""

    steps: int = 2000
    """updates"""
    batch_size: Annotated[int, tyro.conf.arg(metavar="N")] = 32
    """rows an update, over all devices and micro-batches"""
    accumulate: int = 1
    """micro-batches an update"""
    optimizer: Literal["adamw", "lamb"] = "adamw"
    """BERT's, or LAMB as NVIDIA trains it, for batches of thousands of rows; each with its own schedule"""
    learning_rate: float = 1.5e-3
    """its peak"""
    warmup: float = 0.1
    """share of the steps in which the rate rises; then it falls to 0, linearly, with lamb as a root"""
    weight_decay: float = 0.01
    """of weights, not of biases and LayerNorm"""
    precision: Literal["float32", "bfloat16"] = "float32"
    """of matrix products; parameters and sums are float32 either way"""
    seed: int = 0
    """of everything random"""

    devices: int | None = None
    """how many; on a CPU as many virtual ones; without it all GPUs or TPUs, or one CPU"""
    parallel: Literal["jit", "shard_map", "pmap"] = "jit"
    """how the step is spread over them"""

    log_every: int = 20
    """steps from one line of metrics to the next"""
    evaluate_every: int = 250
    """steps from one evaluation to the next"""
    save_every: int = 250
    """steps from one checkpoint to the next"""
    keep: int = 2
    """checkpoints kept, beside the best"""

    def check(self) -> None:
        """Refuses, before anything is read or written, what no run can be made of.

        Raises:
            ValueError: names the flag, what it may be, and what it is.
        """
        at_least_1 = ("steps", "batch_size", "accumulate", "devices", "log_every", "keep", "passes", "vocab_size")
        ranges: dict[str, tuple[float, float, str]] = dict.fromkeys(at_least_1, (1, math.inf, "at least 1"))
        ranges |= dict.fromkeys(("evaluate_every", "save_every"), (0, math.inf, "at least 0 (0: only at the end)"))
        ranges |= dict.fromkeys(("dropout", "warmup", "held_out", "long_share"), (0, 1 - 1e-9, "from 0 to below 1"))
        ranges |= {
            "long_batch_size": (1, math.inf, "at least 1"),
            "devices": (1, MOST_DEVICES, f"1 to {MOST_DEVICES}"),
            "learning_rate": (0, math.inf, "at least 0"),
            "weight_decay": (0, math.inf, "at least 0"),
            "seed": (0, 2**63 - 1, "0 to 2**63 - 1"),
        }
        for name, (low, high, expected) in ranges.items():
            value = getattr(self, name)
            if value is not None and not low <= value <= high:
                raise ValueError(f"pretrain: --{name.replace('_', '-')}; expected {expected}, got {value}.")
        defaults = {field.name: field.default for field in dataclasses.fields(self)}
        for name in ("long_share", "long_batch_size"):
            if self.long_seq_len is None and getattr(self, name) != defaults[name]:
                raise ValueError(
                    f"pretrain: --{name.replace('_', '-')} {getattr(self, name)}; expected a second phase, got none. "
                    "Give its --long-seq-len, or leave it out."
                )
        if self.vocab is not None and self.vocab_size != defaults["vocab_size"]:
            raise ValueError(
                f"pretrain: --vocab-size {self.vocab_size} together with --vocab; expected one of them, got both. A "
                "given vocabulary has its own size: leave --vocab-size out."
            )
        if self.data is not None:
            for name in SETTLED:
                if getattr(self, name) != defaults[name]:
                    raise ValueError(
                        f"pretrain: --{name.replace('_', '-')} together with --data; expected it to be left out, got "
                        f"{getattr(self, name)}. The folder in --data was built with its own: build another one."
                    )

    @property
    def is_quick(self) -> bool:
        """Whether the run starts from `bert.quick_start`."""
        return (self.start or ("bert" if self.optimizer == "lamb" else "quick")) == "quick"

    def recorded(self) -> dict[str, Any]:
        """What run.json holds: all but where the run lies."""
        values = dataclasses.asdict(self)
        for name in ("out", "resume"):
            values.pop(name)
        values["data"] = None if self.data is None else str(self.data)
        values["corpus"] = None if self.corpus is None else [str(path) for path in self.corpus]
        values["vocab"] = None if self.vocab is None else str(self.vocab)
        return values
