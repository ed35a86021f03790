"""A model's card, read from its files before anything is loaded: kind, parameters, sizes; and an estimate of its memory: the
weights (on the CPU transformers holds floating-point numbers in 32 bits unless a dtype is set), SPARE of them for passes, and
the KV cache of each conversation. Only headers are read, never weights.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
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
from ..options import INT8
from .checkpoint import ITEM_BYTES, check_folder, header, read_json, tokenizer_problem
from .gguf_file import checked, read_layout, whole_header

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


USUAL = 8192
"""Tokens of a long conversation: for a cache that grows as it fills, or if no context is set."""

SPARE = 0.05
"""Memory of a pass, as a share of the weights'."""

KV_BYTES = {"f32": 4.0, "float32": 4.0, "q8_0": 34 / 32, "q5_1": 24 / 32, "q5_0": 22 / 32, "q4_1": 20 / 32, "q4_0": 18 / 32}
"""Bytes of a number in llama.cpp's KV cache; types not here take 2."""


@dataclass(frozen=True, slots=True)
class Footprint:
    """The memory of a loaded model."""

    weights: int
    """Bytes."""
    widened: bool
    """Whether they take more than on the disk, as 32-bit numbers."""
    token: float
    """Bytes of a KV cache for each token; 0 if unknown."""

    @property
    def base(self) -> int:
        """Bytes without any KV cache."""
        return int(self.weights * (1 + SPARE))

    def cache(self, tokens: int) -> int:
        """Estimate the bytes of a KV cache of `tokens` tokens."""
        return int(self.token * tokens)


@dataclass(frozen=True, slots=True)
class Needs:
    """The figures of a model, from its card or the Hub, that its memory depends on."""

    backend: str
    weights: int
    """Bytes on the disk."""
    held: int
    """Bytes once loaded as 32-bit numbers; the same as `weights` if they are quantized."""
    context: int
    cache_numbers: int
    """Numbers in its KV cache for each token, about."""

    def footprint(self, *, gpu: bool, dtype: str = "auto", kv_type: str = "auto") -> Footprint:
        """Estimate the memory with these options of a load.

        Args:
            gpu: whether it is loaded onto a GPU.
            dtype, kv_type: as in LoadOptions.
        """
        if self.backend == "llama.cpp":
            kind = dtype if kv_type == "auto" else kv_type
            return Footprint(self.weights, False, self.cache_numbers * KV_BYTES.get(kind, 2.0))
        wide = dtype == "float32" or (dtype == "auto" and not gpu)
        weights = self.held if wide else self.weights
        if dtype == INT8:
            weights = self.held // 4
        return Footprint(weights, weights > self.weights, self.cache_numbers * (4.0 if wide else 2.0))


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

    @property
    def needs(self) -> Needs:
        """The figures that its memory depends on."""
        return Needs(self.backend, self.size, self.weight_bytes(4), self.context, self.cache_numbers)

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
    except Exception as error:  # a foreign file must not end the list
        problem = str(error) if isinstance(error, UserError) else f"Cannot read {path} ({type(error).__name__})."
    size = 0
    with suppress(OSError):
        files = [path] if gguf else path.glob("*.safetensors")
        size = sum(file.stat().st_size for file in files)
    return Card(path, "llama.cpp" if gguf else "transformers", size=size, problem=problem)


def _gguf_card(file: Path) -> Card:
    layouts = read_layout(file)
    whole = checked(file, whole_header(layouts))
    tensors = [tensor for layout in layouts for tensor in layout.tensors]
    head = read_gguf_format(layouts)
    return Card(
        path=file,
        backend="llama.cpp",
        architecture=head.title if head is not None else whole.architecture,
        parameters=sum(prod(tensor.shape) for tensor in tensors),
        quantization=FILE_TYPES.get(whole.metadata.get("general.file_type", -1)) or quantization_in(file.name),
        size=whole.weight_bytes,
        context=whole.number("context_length"),
        cache_numbers=sum(whole.cache_numbers()),
        width=whole.number("embedding_length"),
        layers=max(0, whole.number("block_count") - whole.number("nextn_predict_layers")),
        vocabulary=whole.vocabulary,
        mtp=in_gguf(whole, {tensor.name for tensor in tensors}),
        tied=all(tensor.name != "output.weight" for tensor in tensors),
        head=head,
        pard=token_id(whole.metadata.get("tokenizer.ggml.mask_token_id"), MOST_TOKENS) is not None,
    )


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
    kinds: Counter[str] = Counter()  # dtype → bytes
    for file in files:
        for tensor in header(file).values():
            begin, end = tensor["data_offsets"]
            kinds[str(tensor["dtype"])] += end - begin
    counts = {kind: size // ITEM_BYTES.get(kind, 1) for kind, size in kinds.items()}
    most_common = kinds.most_common(1)[0][0] if kinds else ""
    floats = sum(count for kind, count in counts.items() if kind in FLOATS)
    card = Card(
        path=folder,
        backend="transformers",
        quantization=most_common,
        size=kinds.total(),
        floats=floats,
        float_bytes=sum(size for kind, size in kinds.items() if kind in FLOATS),
    )
    head = read_format(folder, files)
    if head is not None:
        return replace(card, architecture=head.title, parameters=floats, head=head)
    layers, vocabulary = _number(text, "num_hidden_layers", "n_layer"), _number(text, "vocab_size")
    return replace(
        card,
        architecture=str(config.get("model_type") or next(iter(config.get("architectures") or ()), "")),
        parameters=sum(counts.values()),
        quantization=_method(config) or most_common,
        context=config_context(config),
        cache_numbers=config_cache_numbers(config),
        width=_number(text, "hidden_size", "n_embd"),
        layers=layers,
        vocabulary=vocabulary,
        pard=token_id(config.get("pard_token"), vocabulary) is not None,
        mtp=in_folder(folder, layers),
        problem=_problem(config, folder),
    )


def _method(config: Mapping[str, Any]) -> str:
    return str((config.get("quantization_config") or {}).get("quant_method", ""))


def _text_config(config: Mapping[str, Any]) -> Mapping[str, Any]:
    inner = config.get("text_config")
    return inner if isinstance(inner, Mapping) else config


def _number(config: Mapping[str, Any], *keys: str) -> int:
    """Return the first of some entries that is a plausible number; 0 if there is none."""
    for key in keys:
        value = config.get(key)
        if isinstance(value, int) and 0 < value < 1 << 40:
            return value
    return 0


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
    names = [str(name) for name in config.get("architectures") or ()]
    if config.get("is_encoder_decoder") is True or (names and not any(WRITES.search(name) for name in names)):
        return f"It is not a causal language model ({', '.join(names)}), so it cannot generate text."
    if "group_size" in (config.get("quantization") or {}) and not _method(config):
        return "Its weights are quantized for MLX, which specchat does not run. Download the original or a GGUF version."
    return tokenizer_problem(folder)
