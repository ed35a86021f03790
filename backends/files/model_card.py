"""What a model's files say about it before anything is loaded: kind, parameters, sizes, and the memory that it will take.

Reads headers only, never weights. What is in there was written by others: sizes are bounded, nothing is believed.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any, Literal

from ...errors import UserError
from ..heads.folders import read_format
from ..heads.formats import Format
from ..heads.gguf_format import read_gguf_format
from ..heads.mtp.format import FLOATS, OwnLayers, in_folder, in_gguf
from ..info import token_id
from .checkpoint import ITEM_BYTES, check_folder, header, quantization_problem, read_json, tokenizer_problem
from .checkpoint import MOST_CONFIG as MOST_CONFIG
from .gguf_file import Header, Tensor, checked, read_layout

FILE_TYPES = {
    0: "F32", 1: "F16", 2: "Q4_0", 3: "Q4_1", 7: "Q8_0", 8: "Q5_0", 9: "Q5_1", 10: "Q2_K", 11: "Q3_K_S", 12: "Q3_K_M",
    13: "Q3_K_L", 14: "Q4_K_S", 15: "Q4_K_M", 16: "Q5_K_S", 17: "Q5_K_M", 18: "Q6_K", 19: "IQ2_XXS", 20: "IQ2_XS", 21: "Q2_K_S",
    22: "IQ3_XS", 23: "IQ3_XXS", 24: "IQ1_S", 25: "IQ4_NL", 26: "IQ3_S", 27: "IQ3_M", 28: "IQ2_S", 29: "IQ2_M", 30: "IQ4_XS",
    31: "IQ1_M", 32: "BF16", 36: "TQ1_0", 37: "TQ2_0", 38: "MXFP4",
}  # fmt: skip
"""llama.cpp's llama_ftype → how files are named after it."""

WRITES = re.compile(r"CausalLM|LMHead|ForConditionalGeneration")
"""Matches the name of an architecture that writes text."""


MOST_TOKENS = 1 << 31
"""An id above is none; how many tokens there are, a GGUF file tells only in full."""


@dataclass(frozen=True, slots=True)
class Card:
    """What is known of a model that lies on the disk."""

    path: Path
    """A folder, or a GGUF file (the first of its parts)."""
    backend: Literal["transformers", "llama.cpp"]
    architecture: str = ""
    parameters: int = 0
    quantization: str = ""
    """The type of most of its weights: BF16, Q4_K_M, gptq …"""
    size: int = 0
    """Bytes of its weights on the disk."""
    floats: int = 0
    """How many of its numbers are plain floating-point ones, which may be loaded as another type."""
    float_bytes: int = 0
    """Bytes of these on the disk."""
    context: int = 0
    """Tokens that it was made for; 0 where it does not say."""
    cache_numbers: int = 0
    """Numbers in its KV cache for each token, about."""
    width: int = 0
    """Width of its hidden states; 0 where it does not say, like the next two."""
    layers: int = 0
    vocabulary: int = 0
    pard: bool = False
    """Whether it is a PARD draft model (`ModelInfo.pard_token`)."""
    head: Format | None = None
    """What it is if it is a trained drafter, no model of its own."""
    mtp: OwnLayers | None = None
    """The MTP layers among its own, if it has any."""
    tied: bool = False
    """Whether it has no LM head but its embeddings (GGUF)."""
    problem: str = ""
    """Why it cannot be loaded, as a sentence; empty if nothing is known to be in the way."""

    def weight_bytes(self, item_bytes: int | None = None) -> int:
        """Bytes of the weights once loaded.

        Args:
            item_bytes: size of a floating-point number in memory; None for the file's own.
        """
        return self.size if item_bytes is None else self.size - self.float_bytes + self.floats * item_bytes


def read_card(path: Path) -> Card:
    """What the model in a folder or a GGUF file says about itself. Never raises: what is wrong is the card's `problem`."""
    gguf = path.is_file() or path.suffix.lower() == ".gguf"
    try:
        return _gguf_card(path) if gguf else _folder_card(path)
    except UserError as error:
        problem = str(error)
    except Exception as error:  # others' files: nothing in them may end the list
        problem = f"Cannot read {path} ({type(error).__name__}). Download it again."
    return Card(path, "llama.cpp" if gguf else "transformers", size=_size(path), problem=problem)


def _size(path: Path) -> int:
    try:
        if path.is_file():
            return path.stat().st_size
        return sum(file.stat().st_size for file in path.glob("*.safetensors"))
    except OSError:
        return 0


def _gguf_card(file: Path) -> Card:
    layouts = read_layout(file)
    first = layouts[0].header
    tensors = [tensor for layout in layouts for tensor in layout.tensors]
    weights = sum(layout.header.weight_bytes for layout in layouts)
    keys, values = first.cache_numbers()
    problem = ""
    try:
        checked(file, Header(first.metadata, len(tensors), weights))
    except UserError as error:
        problem = str(error)
    head = read_gguf_format(layouts) if not problem else None
    return Card(
        file,
        "llama.cpp",
        head.title if head is not None else first.architecture,
        sum(elements(tensor) for tensor in tensors),
        _file_type(first, file),
        weights,
        context=first.number("context_length"),
        cache_numbers=keys + values,
        width=first.number("embedding_length"),
        layers=max(0, first.number("block_count") - first.number("nextn_predict_layers")),
        vocabulary=first.vocabulary,
        mtp=in_gguf(first, {tensor.name for tensor in tensors}),
        tied=all(tensor.name != "output.weight" for tensor in tensors),
        head=head,
        pard=token_id(first.metadata.get("tokenizer.ggml.mask_token_id"), MOST_TOKENS) is not None,
        problem=problem,
    )


def elements(tensor: Tensor) -> int:
    """Numbers in a tensor of a GGUF file."""
    return prod(tensor.shape)


def _file_type(header: Header, file: Path) -> str:
    kind = header.metadata.get("general.file_type")
    if isinstance(kind, int) and kind in FILE_TYPES:
        return FILE_TYPES[kind]
    return quantization_in(file.name)


def quantization_in(name: str) -> str:
    """The quantization that a GGUF file's name tells; empty if none."""
    found = re.findall(
        r"(?<![A-Za-z0-9])((?:I?Q|TQ)\d(?:_[A-Z0-9]+)*|BF16|F16|F32|MXFP4(?:_[A-Z]+)?)(?![A-Za-z0-9])", name, re.IGNORECASE
    )
    return str(found[-1]).upper() if found else ""


def _folder_card(folder: Path) -> Card:
    files = check_folder(folder)
    config = read_json(folder / "config.json")
    text = _text_config(config)
    kinds: Counter[str] = Counter()
    size = floats = float_bytes = parameters = 0
    for file in files:
        for tensor in header(file).values():
            kind, (begin, end) = str(tensor["dtype"]), tensor["data_offsets"]
            count = (end - begin) // ITEM_BYTES.get(kind, 1)
            kinds[kind] += end - begin
            size += end - begin
            parameters += count
            if kind in FLOATS:
                floats += count
                float_bytes += end - begin
    head = read_format(folder, files)
    if head is not None:
        return Card(
            folder, "transformers", head.title, floats, kinds.most_common(1)[0][0], size, floats, float_bytes, head=head
        )
    quantized = config.get("quantization_config")
    method = str(quantized.get("quant_method", "")) if isinstance(quantized, Mapping) else ""
    return Card(
        folder,
        "transformers",
        _name(config),
        parameters,
        method or (kinds.most_common(1)[0][0] if kinds else ""),
        size,
        floats,
        float_bytes,
        config_context(config),
        config_cache_numbers(config),
        _number(text, "hidden_size", "n_embd"),
        _number(text, "num_hidden_layers", "n_layer"),
        _number(text, "vocab_size"),
        token_id(config.get("pard_token"), _number(text, "vocab_size")) is not None,
        mtp=in_folder(folder, _number(text, "num_hidden_layers", "n_layer")),
        problem=_problem(config, folder),
    )


def parse_config(data: bytes) -> dict[str, Any]:
    """A config.json as a table.

    Raises:
        ValueError, RecursionError: it is not one.
    """
    found = json.loads(data)
    if not isinstance(found, dict):
        raise ValueError("not an object")
    return found


def _text_config(config: Mapping[str, Any]) -> Mapping[str, Any]:
    inner = config.get("text_config")
    return inner if isinstance(inner, Mapping) else config


def _number(config: Mapping[str, Any], *keys: str) -> int:
    """The first of some entries that is a sensible number; 0 without one."""
    for key in keys:
        value = config.get(key)
        if isinstance(value, int) and not isinstance(value, bool) and 0 < value < 1 << 40:
            return value
    return 0


def _name(config: Mapping[str, Any]) -> str:
    built = config.get("architectures")
    return str(config.get("model_type") or (built[0] if isinstance(built, list) and built else ""))


def config_context(config: Mapping[str, Any]) -> int:
    """Tokens that a configuration's model takes; 0 where it does not say."""
    return _number(_text_config(config), "max_position_embeddings", "n_positions", "max_seq_len", "seq_length")


def config_cache_numbers(config: Mapping[str, Any]) -> int:
    """Numbers in the KV cache of a configuration's model, for each token."""
    text = _text_config(config)
    layers, heads = _number(text, "num_hidden_layers", "n_layer"), _number(text, "num_attention_heads", "n_head")
    width = _number(text, "head_dim") or _number(text, "hidden_size", "n_embd") // max(heads, 1)
    return 2 * layers * (_number(text, "num_key_value_heads") or heads) * width


def _problem(config: Mapping[str, Any], folder: Path) -> str:
    built = config.get("architectures")
    names = [str(name) for name in built] if isinstance(built, list) else []
    if config.get("is_encoder_decoder") is True or (names and not any(WRITES.search(name) for name in names)):
        return f"It is not a causal language model ({', '.join(names)}), so it cannot generate text."
    return quantization_problem(config) or tokenizer_problem(folder)
