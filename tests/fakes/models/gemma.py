"""A tiny Gemma 4 and assistants for it, with random weights, as transformers writes them."""

from __future__ import annotations

import functools
import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from unittest import mock

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from specchat.backends.files.checkpoint import check_folder
from specchat.backends.heads.assistant.network import AssistantHead
from specchat.backends.heads.folders import read_format
from specchat.backends.heads.load import load_head
from specchat.backends.hf.model import TransformersModel, load_transformers
from specchat.backends.loading import builtin_path
from specchat.backends.options import LoadOptions

from .tiny import _room

VOCAB, WIDTH, WINDOW = 2048, 24, 8
LAYERS = ["sliding_attention", "sliding_attention", "full_attention"]

SHAPE: dict[str, Any] = {
    "num_attention_heads": 4, "num_key_value_heads": 2, "num_global_key_value_heads": 1, "head_dim": 8, "global_head_dim": 16,
    "vocab_size": VOCAB, "hidden_size_per_layer_input": 0, "sliding_window": WINDOW, "max_position_embeddings": 512,
    "attention_k_eq_v": True, "enable_moe_block": False, "use_double_wide_mlp": False, "tie_word_embeddings": True,
    "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0,
}  # fmt: skip
"""What the target and its assistants have in common."""


def _random(model: Any, seed: int, scale: float = 0.3) -> Any:
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for weight in model.parameters():
            if weight.ndim > 1:
                weight.normal_(0, scale, generator=generator)
    return model.eval()


@functools.cache
def gemma_folder() -> Path:
    """Two blocks of two sliding layers and a full one, the last of which share the keys of those before."""
    from transformers import Gemma4ForCausalLM, Gemma4TextConfig

    sizes: dict[str, Any] = {"hidden_size": WIDTH, "intermediate_size": 32, "num_hidden_layers": 9, "layer_types": LAYERS * 3}
    sizes |= {"num_kv_shared_layers": 3, "vocab_size_per_layer_input": VOCAB, "hidden_size_per_layer_input": 8}
    config = Gemma4TextConfig(**{**SHAPE, **sizes})
    torch.manual_seed(0)
    folder = Path(_room().name) / "gemma"
    _random(Gemma4ForCausalLM(config), 3).save_pretrained(folder)
    for file in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja"):
        shutil.copy(builtin_path() / file, folder / file)
    return folder


@functools.cache
def gemma() -> TransformersModel:
    """It, loaded."""
    return load_transformers(gemma_folder(), "gemma", LoadOptions(device="cpu"))


def whole_assistants() -> Any:
    """While it is open, transformers makes assistants. The class of 5.23 takes their layers, none of which has keys of its own,
    for a mistake."""
    from transformers import Gemma4TextConfig

    every = property(lambda config: ["reuse" if config.num_kv_shared_layers else None] * config.num_hidden_layers)
    return mock.patch.object(Gemma4TextConfig, "kv_sharing_modes", every)


def write_assistant(
    folder: Path, *, ordered: bool = False, seed: int = 5, changes: Mapping[str, Tensor | None] | None = None, **config: Any
) -> Path:
    """Write an assistant.

    Args:
        folder: to be made.
        ordered: whether it scores the best clusters of the vocabulary only.
        seed: of the weights.
        changes: tensors to replace or (None) to leave out.
        config: keys of config.json to replace; those of `text_config` with `text_` before them.
    """
    from transformers import Gemma4AssistantConfig, Gemma4AssistantForCausalLM, Gemma4TextConfig

    sizes: dict[str, Any] = {"hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 3, "layer_types": LAYERS}
    text = Gemma4TextConfig(**SHAPE, **sizes, num_kv_shared_layers=3, vocab_size_per_layer_input=0)
    clusters: dict[str, Any] = {"use_ordered_embeddings": ordered, "num_centroids": 64, "centroid_intermediate_top_k": 5}
    whole = Gemma4AssistantConfig(text_config=text, backbone_hidden_size=WIDTH, **clusters)
    with whole_assistants():
        model = _random(Gemma4AssistantForCausalLM(whole), seed)
    if ordered:
        order = torch.randperm(VOCAB, generator=torch.Generator().manual_seed(1))
        model.masked_embedding.token_ordering.copy_(order.view_as(model.masked_embedding.token_ordering))
    model.save_pretrained(folder)
    if changes:
        tensors = {**load_file(folder / "model.safetensors"), **changes}
        kept = {name: tensor for name, tensor in tensors.items() if tensor is not None}
        save_file(kept, folder / "model.safetensors", metadata={"format": "pt"})
    if config:
        told = json.loads((folder / "config.json").read_text())
        for key, value in config.items():
            (told["text_config"] if key.startswith("text_") else told)[key.removeprefix("text_")] = value
        (folder / "config.json").write_text(json.dumps(told))
    return folder


def load_assistant(folder: Path) -> AssistantHead:
    """The assistant in a folder, beside `gemma`."""
    found = read_format(folder, check_folder(folder))
    assert found is not None
    head = load_head(found, folder.name, gemma())
    assert isinstance(head, AssistantHead)
    return head


@functools.cache
def random_assistant() -> AssistantHead:
    """An assistant that knows nothing."""
    return load_assistant(write_assistant(Path(_room().name) / "random-assistant"))
