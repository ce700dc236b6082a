"""The names of torch that model files use, and the lines of docs/porting.md.

    pip install --no-deps --target DIR timm torchvision diffusers
    python -m tests.porting DIR        # the names that the page lacks, with the number of files that use each

Names are found by syntax: attributes of `torch` and of what is imported from it, and attributes that torch's tensors
have, of any object that is not a module. So a few names belong to other objects, such as `index` to lists.
"""

import ast
import importlib.util
import re
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import torch

PAGE = Path(__file__).parents[1] / "docs" / "porting.md"

TRANSFORMERS = """albert bart beit bert blip blip_2 bloom clip codegen convnext deberta deberta_v2 deit depth_anything
detr dinov2 distilbert electra falcon gemma gemma2 gpt2 gpt_neo gpt_neox gptj hubert layoutlm llama llava longformer
mamba marian mask2former mbart mistral mixtral mpnet opt phi qwen2 resnet roberta sam segformer siglip swin t5 vit
wav2vec2 whisper xlm_roberta xlnet"""
OTHERS = {
    "torchvision/models": """alexnet vgg resnet densenet googlenet inception mobilenetv2 mobilenetv3 efficientnet regnet
        convnext vision_transformer swin_transformer maxvit shufflenetv2 detection/faster_rcnn detection/retinanet
        segmentation/deeplabv3""",
    "timm/models": """vision_transformer resnet efficientnet convnext swin_transformer swin_transformer_v2 eva beit
        mobilenetv3 resnetv2 mlp_mixer regnet""",
    "diffusers/models": """unets/unet_2d_condition autoencoders/autoencoder_kl attention_processor
        transformers/transformer_2d""",
}
# Of lists, images, distributions and layers, in these files; a layer's own `x.dim` is no tensor's either.
FOREIGN = {"index", "resize", "mode", "apply_"}
TENSOR = {name for name in dir(torch.Tensor) if not name.startswith("__")} - FOREIGN


@dataclass(frozen=True)
class Line:
    """A line of a table: its section, its cells with their code, and whether it has a mark."""

    section: str
    cells: tuple[str, ...]

    def code(self, cell: int) -> list[str]:
        return [code.replace("\\|", "|") for code in re.findall(r"`([^`]+)`", self.cells[cell])]

    @property
    def mark(self) -> str:
        return next((mark for mark in "†‡" if mark in self.cells[0]), "")


def lines(page: str) -> Iterator[Line]:
    """Every line of every table of the page, without the heads."""
    section = ""
    for text, following in zip(page.splitlines(), [*page.splitlines()[1:], ""], strict=True):
        if text.startswith("#"):
            section = text.lstrip("# ")
        elif text.startswith("| ") and not following.startswith("|---"):
            yield Line(section, tuple(cell.strip() for cell in re.split(r"(?<!\\)\|", text.strip("|"))))


def model_files(folder: Path | None = None) -> list[Path]:
    """The model files of transformers, and with a folder of packages those of torchvision, timm and diffusers."""
    home = Path(importlib.util.find_spec("transformers").origin).parent / "models"
    files = [home / name / f"modeling_{name}.py" for name in TRANSFORMERS.split()]
    if folder:
        files += [folder / home / f"{name}.py" for home, names in OTHERS.items() for name in names.split()]
    return files


def names_in(code: str) -> set[str]:
    """`torch.cat` for functions, `.view` for methods and attributes of tensors."""
    tree = ast.parse(code)
    imported, found = {}, set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            imported |= {
                (a.asname or a.name.split(".")[0]): a.name if a.asname else a.name.split(".")[0] for a in node.names
            }
        elif isinstance(node, ast.ImportFrom):
            imported |= {(a.asname or a.name): f"{'.' * node.level}{node.module or ''}.{a.name}" for a in node.names}
    inner = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Name | ast.Attribute) and (root := _root(node)) in imported:
            name = imported[root] + _dotted(node)[len(root) :]
            if name.startswith("torch.") and id(node) not in inner:
                found.add(name)
        elif isinstance(node, ast.Attribute) and node.attr in TENSOR and not isinstance(node.value, ast.Constant):
            found.add(f".{node.attr}")
    return found


def _dotted(node: ast.AST) -> str:
    """The dotted name of a chain of attributes of a name, or "" for another expression."""
    if isinstance(node, ast.Attribute):
        base = _dotted(node.value)
        return base and f"{base}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""


def _root(node: ast.AST) -> str:
    return _dotted(node).partition(".")[0]


def needed(files: Iterable[Path]) -> dict[str, int]:
    """{name: number of files that use it}, without what is in `torch.nn`, which is in funcnet."""
    count: dict[str, int] = defaultdict(int)
    for file in files:
        for name in names_in(file.read_text("utf-8")):
            count[name] += not re.match(r"torch\.nn\b", name)
    return {name: n for name, n in count.items() if n}


def named(page: str) -> set[str]:
    """The names that the left column of the page has."""
    return {name for line in lines(page) for code in line.code(0) for name in names_in(f"import torch\n{code}")}


if __name__ == "__main__":
    files = model_files(Path(sys.argv[1]) if sys.argv[1:] else None)
    found = needed(files)
    missing = {name: n for name, n in found.items() if name not in named(PAGE.read_text("utf-8"))}
    print(f"{len(files)} files use {len(found)} names; the page lacks {len(missing)}")
    for name, n in sorted(missing.items(), key=lambda item: (-item[1], item[0])):
        print(f"{n:4} {name}")
