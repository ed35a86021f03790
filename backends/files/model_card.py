"""A model's card, read from its files before anything is loaded: kind, parameters, sizes and memory.

Only headers are read, never weights. They were written by others: sizes are bounded, and nothing is trusted.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
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
"""llama.cpp's llama_ftype → the name in files' names."""

WRITES = re.compile(r"CausalLM|LMHead|ForConditionalGeneration")
"""Matches the name of an architecture that writes text."""

MOST_TOKENS = 1 << 31
"""Limit of a token id in a GGUF file, whose vocabulary is not read."""


@dataclass(frozen=True, slots=True)
class Card:
    """The facts about a model on the disk."""

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
    """Number of its plain floating-point weights, which may be loaded as another type."""
    float_bytes: int = 0
    """Bytes of these on the disk."""
    context: int = 0
    """Tokens that it was made for; 0 if unknown."""
    cache_numbers: int = 0
    """Numbers in its KV cache for each token, about."""
    width: int = 0
    """Width of its hidden states; 0 if unknown, like the next two."""
    layers: int = 0
    vocabulary: int = 0
    pard: bool = False
    """Whether it is a PARD draft model (`ModelInfo.pard_token`)."""
    head: Format | None = None
    """Its format if it is a trained drafter rather than a model."""
    mtp: OwnLayers | None = None
    """Its own MTP layers, if it has any."""
    tied: bool = False
    """Whether its LM head is its embeddings (GGUF)."""
    problem: str = ""
    """The reason that it cannot be loaded, as a sentence; empty if there is none."""

    def weight_bytes(self, item_bytes: int | None = None) -> int:
        """Count the bytes of the weights once loaded.

        Args:
            item_bytes: size of a floating-point number in memory; None for the file's own.
        """
        return self.size if item_bytes is None else self.size - self.float_bytes + self.floats * item_bytes


def read_card(path: Path) -> Card:
    """Read the card of the model in a folder or a GGUF file. Never raises: an error becomes the card's `problem`."""
    gguf = path.is_file() or path.suffix.lower() == ".gguf"
    try:
        return _gguf_card(path) if gguf else _folder_card(path)
    except UserError as error:
        problem = str(error)
    except Exception as error:  # a foreign file must not end the list
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
        path=file,
        backend="llama.cpp",
        architecture=head.title if head is not None else first.architecture,
        parameters=sum(elements(tensor) for tensor in tensors),
        quantization=_file_type(first, file),
        size=weights,
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
    """Count the numbers in a tensor of a GGUF file."""
    return prod(tensor.shape)


def _file_type(header: Header, file: Path) -> str:
    kind = header.metadata.get("general.file_type")
    if isinstance(kind, int) and kind in FILE_TYPES:
        return FILE_TYPES[kind]
    return quantization_in(file.name)


def quantization_in(name: str) -> str:
    """Find the quantization in a GGUF file's name; empty if there is none."""
    matches = re.findall(
        r"(?<![A-Za-z0-9])((?:I?Q|TQ)\d(?:_[A-Z0-9]+)*|BF16|F16|F32|MXFP4(?:_[A-Z]+)?)(?![A-Za-z0-9])", name, re.IGNORECASE
    )
    return str(matches[-1]).upper() if matches else ""


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
    most_common = kinds.most_common(1)[0][0] if kinds else ""
    card = Card(
        path=folder, backend="transformers", quantization=most_common, size=size, floats=floats, float_bytes=float_bytes
    )
    head = read_format(folder, files)
    if head is not None:
        return replace(card, architecture=head.title, parameters=floats, head=head)
    quantized = config.get("quantization_config")
    method = str(quantized.get("quant_method", "")) if isinstance(quantized, Mapping) else ""
    layers, vocabulary = _number(text, "num_hidden_layers", "n_layer"), _number(text, "vocab_size")
    return replace(
        card,
        architecture=_name(config),
        parameters=parameters,
        quantization=method or most_common,
        context=config_context(config),
        cache_numbers=config_cache_numbers(config),
        width=_number(text, "hidden_size", "n_embd"),
        layers=layers,
        vocabulary=vocabulary,
        pard=token_id(config.get("pard_token"), vocabulary) is not None,
        mtp=in_folder(folder, layers),
        problem=_problem(config, folder),
    )


def parse_config(data: bytes) -> dict[str, Any]:
    """Parse a config.json.

    Raises:
        ValueError, RecursionError: it is not a JSON object.
    """
    config = json.loads(data)
    if not isinstance(config, dict):
        raise ValueError("not an object")
    return config


def _text_config(config: Mapping[str, Any]) -> Mapping[str, Any]:
    inner = config.get("text_config")
    return inner if isinstance(inner, Mapping) else config


def _number(config: Mapping[str, Any], *keys: str) -> int:
    """Return the first of some entries that is a plausible number; 0 if there is none."""
    for key in keys:
        value = config.get(key)
        if isinstance(value, int) and not isinstance(value, bool) and 0 < value < 1 << 40:
            return value
    return 0


def _name(config: Mapping[str, Any]) -> str:
    built = config.get("architectures")
    return str(config.get("model_type") or (built[0] if isinstance(built, list) and built else ""))


def config_context(config: Mapping[str, Any]) -> int:
    """Read the context length from a configuration; 0 if unknown."""
    return _number(_text_config(config), "max_position_embeddings", "n_positions", "max_seq_len", "seq_length")


def config_cache_numbers(config: Mapping[str, Any]) -> int:
    """Estimate the numbers in a model's KV cache for each token from its configuration."""
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
