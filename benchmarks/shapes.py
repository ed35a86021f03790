"""Random Llama models of common sizes, whose passes cost as much as a trained model's.

python -m specchat.benchmarks.shapes FOLDER [--shape 360m] [--dtype float32] [--tokenizer FOLDER]
"""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from specchat.backends.loading import builtin_path

if TYPE_CHECKING:
    from transformers import LlamaConfig

SHAPES = {
    "tiny": (2, 64, 128, 4, 2),
    "360m": (24, 896, 4864, 14, 2),
    "1b": (16, 2048, 8192, 32, 8),
    "7b": (32, 4096, 14336, 32, 8),
}
"""Layers, hidden width, width of the MLP, heads, K/V heads."""

VOCABULARY = 32_000
CONTEXT = 16_384


def config(shape: str) -> LlamaConfig:
    """Make the configuration of one of SHAPES."""
    from transformers import LlamaConfig

    layers, hidden, mlp, heads, kv_heads = SHAPES[shape]
    return LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=hidden,
        intermediate_size=mlp,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=kv_heads,
        max_position_embeddings=CONTEXT,
        tie_word_embeddings=False,
    )


def write(folder: Path, shape: str = "360m", dtype: str = "float32", tokenizer: Path | None = None) -> Path:
    """Write a model with random weights, the same each time.

    Args:
        folder: made if it does not exist.
        shape: one of SHAPES.
        dtype: of the weights: float32, bfloat16 or float16.
        tokenizer: folder of a tokenizer to copy; None for the built-in model's, whose ids are the first 4,096.

    Returns:
        the folder.
    """
    from transformers import AutoModelForCausalLM

    torch.manual_seed(0)
    auto: Any = AutoModelForCausalLM
    auto.from_config(config(shape), dtype=getattr(torch, dtype)).save_pretrained(folder)
    for file in (tokenizer or builtin_path()).glob("*token*"):
        shutil.copyfile(file, folder / file.name)
    return folder


def main() -> None:
    """Write a model."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--shape", choices=SHAPES, default="360m")
    parser.add_argument("--dtype", choices=("float32", "bfloat16", "float16"), default="float32")
    parser.add_argument("--tokenizer", type=Path)
    options = parser.parse_args()
    print(write(options.folder, options.shape, options.dtype, options.tokenizer))


if __name__ == "__main__":
    main()
