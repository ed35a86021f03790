"""Tiny models with random weights, of each family that sessions treat differently; transformers' own logits and answers."""

from __future__ import annotations

import copy
import functools
import os
import re
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from specchat.backends import LoadOptions
from specchat.backends.hf.graphs import CHOICE
from specchat.backends.hf.model import TransformersModel, load_transformers

from .tokenizers import byte_level, letters, save_tokenizer

VOCAB = 256
WINDOW = 32
CONTEXT = 256
SPECIAL = ("<s>", "</s>", "<|user|>", "<|assistant|>")
TEMPLATE = (
    "<s>{% for m in messages %}{% if m.role == 'assistant' %}<|assistant|>{{ m.content | trim }}</s>"
    "{% else %}<|user|>{{ m.content | trim }}{% endif %}{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}"
)

SIZES: dict[str, Any] = {
    "vocab_size": VOCAB, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 3, "num_attention_heads": 4,
    "num_key_value_heads": 2, "max_position_embeddings": CONTEXT, "bos_token_id": 0, "eos_token_id": 1, "pad_token_id": None,
    # Tied, Gemma's scaled embeddings make every token predict itself.
    "tie_word_embeddings": False,
}  # fmt: skip


COMMON_SIZES = {name: SIZES[name] for name in ("vocab_size", "bos_token_id", "eos_token_id")}
"""Sizes of a family that has names of its own for the others."""
CONFIGS: dict[str, tuple[str, dict[str, Any]]] = {
    "llama": ("Llama", SIZES),
    "qwen2": ("Qwen2", {**SIZES, "use_sliding_window": True, "sliding_window": WINDOW, "max_window_layers": 1}),
    "qwen3": ("Qwen3", {**SIZES, "head_dim": 8}),
    "qwen3-moe": (
        "Qwen3Moe",
        {**SIZES, "head_dim": 8, "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 24},
    ),
    "gpt2": ("GPT2", {**COMMON_SIZES, "n_embd": 32, "n_layer": 3, "n_head": 4, "n_positions": CONTEXT}),
    "gemma2": (
        "Gemma2",
        {**SIZES, "head_dim": 8, "sliding_window": WINDOW, "query_pre_attn_scalar": 8, "attn_logit_softcapping": 20.0},
    ),
    "gemma3": (
        "Gemma3Text",
        {
            **SIZES,
            "head_dim": 8,
            "sliding_window": WINDOW,
            "query_pre_attn_scalar": 8,
            "layer_types": ["sliding_attention", "full_attention", "sliding_attention"],
        },
    ),
    "mistral": ("Mistral", {**SIZES, "sliding_window": WINDOW}),
    "mixtral": ("Mixtral", {**SIZES, "num_local_experts": 4, "num_experts_per_tok": 2}),
    "gpt-neox": ("GPTNeoX", {name: size for name, size in SIZES.items() if name != "num_key_value_heads"}),
    "bloom": ("Bloom", {**COMMON_SIZES, "hidden_size": 32, "n_layer": 3, "n_head": 4}),
    "mamba": ("Mamba", {**COMMON_SIZES, "hidden_size": 32, "num_hidden_layers": 2, "state_size": 4}),
}
"""Class of the configuration and its values, of each tiny model."""


TREES = ("llama", "qwen2", "qwen3", "qwen3-moe", "gpt2", "gemma2", "gemma3", "mistral", "mixtral", "gpt-neox")
"""Kinds that evaluate branching trees."""


def write_tokenizer(folder: Path) -> None:
    """Write a byte-level tokenizer: SPECIAL, then the printable bytes' letters up to VOCAB; no merges."""
    # The last letters are those of bytes that UTF-8 hardly uses; VOCAB leaves no room for them beside the special tokens.
    core = byte_level((*SPECIAL, *letters()[: VOCAB - len(SPECIAL)]), use_regex=False)
    save_tokenizer(core, folder, TEMPLATE, bos_token="<s>", eos_token="</s>", additional_special_tokens=list(SPECIAL[2:]))


def write_model(kind: str, folder: Path, **sizes: int) -> Path:
    """Write a tiny model of this kind with its tokenizer, or one of other sizes."""
    name, overrides = CONFIGS[kind]
    return write_configured(name, {**overrides, **sizes}, folder)


def write_configured(name: str, sizes: dict[str, Any], folder: Path) -> Path:
    """Write a model of transformers' configuration of this name; its large weights keep answers from looping."""
    import transformers

    torch.manual_seed(0)
    library: Any = transformers
    model = library.AutoModelForCausalLM.from_config(getattr(library, f"{name}Config")(**sizes))
    with torch.no_grad():
        for parameter, weight in model.named_parameters():
            if weight.ndim > 1 and not any(part in parameter for part in ("A_log", "conv", "router")):
                weight.normal_(0, 0.4)
    model.save_pretrained(folder)
    write_tokenizer(folder)
    return folder


@functools.cache
def tiny_folder(kind: str) -> Path:
    return write_model(kind, room(kind))


@functools.cache
def _loaded(kind: str, graphs: str) -> TransformersModel:
    return load_transformers(tiny_folder(kind), kind, LoadOptions(device="cpu"))


def tiny_model(kind: str) -> TransformersModel:
    """A loaded tiny model, shared by the tests of a process (do not close it); passes are recorded as the environment says."""
    return _loaded(kind, os.environ.get(CHOICE, ""))


def reference(kind: str) -> Any:
    """The same weights as transformers loads them: what a session is compared with."""
    return network(tiny_folder(kind))


@functools.cache
def cut(kind: str, run: tuple[int, ...]) -> Any:
    """A model of the same class and weights that has only some of the layers."""
    from transformers import AutoModelForCausalLM

    whole = reference(kind)
    config = copy.deepcopy(whole.config)
    config.num_hidden_layers = len(run)
    if getattr(config, "layer_types", None):
        config.layer_types = [config.layer_types[i] for i in run]
    auto: Any = AutoModelForCausalLM
    model = auto.from_config(config)
    state = {}
    for name, weight in whole.state_dict().items():
        match = re.search(r"\.(layers|h)\.(\d+)\.", name)
        if match is None:
            state[name] = weight
        elif int(match[2]) in run:
            state[f"{name[: match.start(2)]}{run.index(int(match[2]))}{name[match.end(2) :]}"] = weight
    model.load_state_dict(state)
    return model.eval()


@functools.cache
def smaller_model(kind: str) -> TransformersModel:
    """A draft model for the tiny model of this kind: its own first two layers. It passes for a PARD model."""
    folder = room(f"{kind}-smaller")
    model = cut(kind, (0, 1))
    model.config.pard_token = VOCAB - 1
    model.save_pretrained(folder)
    write_tokenizer(folder)
    return load_transformers(folder, f"{kind}-smaller", LoadOptions(device="cpu"))


@functools.cache
def _room() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="specchat-tiny-")


def room(name: str = "") -> Path:
    """A folder for tiny models that lasts as long as the process."""
    folder = Path(_room().name) / name
    folder.mkdir(exist_ok=True)
    return folder


@functools.cache
def network(folder: Path) -> Any:
    """The weights in a folder as transformers loads them, in float32, with its own attention."""
    from transformers import AutoModelForCausalLM

    auto: Any = AutoModelForCausalLM
    return auto.from_pretrained(folder, dtype=torch.float32).eval()


@torch.inference_mode()
def logits_of(network: Any, ids: Sequence[int]) -> torch.Tensor:
    """Logits [len(ids), vocab] of a fresh plain pass over a text."""
    return network(input_ids=torch.tensor([list(ids)]), use_cache=False).logits[0]  # type: ignore[no-any-return]


@torch.no_grad()
def hidden(network: Any, ids: Sequence[int], taps: Sequence[int]) -> torch.Tensor:
    """The hidden states of a text as transformers counts them [len(ids), taps × width]."""
    states = network(input_ids=torch.tensor([list(ids)]), use_cache=False, output_hidden_states=True).hidden_states
    return torch.cat([states[tap][0] for tap in taps], -1)


def generated(network: Any, prompt: Sequence[int], count: int, **options: Any) -> list[int]:
    """The greedy answer of `generate`, of at most `count` tokens."""
    ids = torch.tensor([list(prompt)])
    options_ = {"do_sample": False, "max_new_tokens": count, "pad_token_id": 0, **options}
    out = network.generate(ids, attention_mask=torch.ones_like(ids), **options_)
    return out[0, len(prompt) :].tolist()  # type: ignore[no-any-return]
