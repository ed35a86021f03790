"""Write a trained model as a folder that transformers loads offline.

    python -m specchat.builtin.recipe.export

Weights are float16 on disk; config.json says float32, so that whoever loads the folder computes in float32.
"""

import argparse
import json
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

from . import tokenizer as tokens_of
from .model import SIZES, build, config
from .train import WORK

WEIGHTS = Path(__file__).parents[1] / "weights"


def export(checkpoint: Path, tokenizer: Path, folder: Path) -> dict[str, Any]:
    """Write the model folder; readers see the old one or the new one, never half of it.

    Args:
        checkpoint: a checkpoint.pt of the training.
        tokenizer: the folder of the tokenizer it was trained with.
        folder: where the model goes; replaced if it is there.

    Returns:
        the progress that the checkpoint records.
    """
    state = torch.load(checkpoint, map_location="cpu", weights_only=True)
    size = SIZES[state["settings"]["size"]]
    model = build(size, seed=0)
    model.load_state_dict(state["model"])
    # The head is the embedding (tied): stored once.
    half = {
        name: value.to(torch.float16).contiguous() for name, value in model.state_dict().items() if name != "lm_head.weight"
    }
    with new_folder(folder) as new:
        save_file(half, new / "model.safetensors", metadata={"format": "pt"})
        plain = config(size)
        plain.architectures = ["LlamaForCausalLM"]
        plain.save_pretrained(new)
        generation = {"bos_token_id": tokens_of.BOS, "eos_token_id": [tokens_of.END], "pad_token_id": tokens_of.PAD}
        (new / "generation_config.json").write_text(json.dumps(generation, indent=2) + "\n")
        tokens_of.save(tokens_of.load(tokenizer), new)
    progress: dict[str, Any] = state["progress"]
    return progress


@contextmanager
def new_folder(folder: Path) -> Iterator[Path]:
    """A folder to write into, which takes the place of `folder` in the end; readers see the old one or the new one."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    new = Path(tempfile.mkdtemp(prefix=".export-", dir=folder.parent))
    new.chmod(0o755)
    yield new
    for file in new.iterdir():
        file.chmod(0o644)
    old = folder.with_name(f".old-{folder.name}")
    shutil.rmtree(old, ignore_errors=True)
    if folder.exists():
        folder.rename(old)
    new.rename(folder)
    shutil.rmtree(old, ignore_errors=True)


def main() -> None:
    """Write builtin/weights/NAME from the checkpoint of the training."""
    parser = argparse.ArgumentParser(prog="python -m specchat.builtin.recipe.export", description=main.__doc__)
    parser.add_argument("--name", default="target", help="name of the model, and of its folder in work and weights")
    parser.add_argument("--work", type=Path, default=None, help="folder of the checkpoint (default: builtin/recipe/work/NAME)")
    parser.add_argument("--out", type=Path, default=None, help="folder to write (default: builtin/weights/NAME)")
    options = parser.parse_args()
    work = options.work or WORK / options.name
    checkpoint = work / "checkpoint.pt"
    if not checkpoint.is_file():
        sys.exit(f"There is no checkpoint in {work}. Run `python -m specchat.builtin.recipe.train` first.")
    tokenizer = work if (work / "tokenizer.json").is_file() else work.parent / "tokenizer"
    folder = options.out or WEIGHTS / options.name
    progress = export(checkpoint, tokenizer, folder)
    size = sum(file.stat().st_size for file in folder.iterdir())
    print(f"{folder}: {size / 1e6:.1f} MB after {progress['step']} steps and {progress['tokens'] / 1e6:.1f} M tokens")


if __name__ == "__main__":
    main()
