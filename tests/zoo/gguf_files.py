"""Tiny GGUF models with random weights in the architectures of llama.cpp, which is asked itself what tensors one has: it takes
metadata alone and calls back for each tensor that it would load."""

from __future__ import annotations

import ctypes
import importlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from specchat.backends.llama.library import last_error, library
from specchat.backends.loading import builtin_path
from specchat.builtin.recipe.gguf_export import add_tokenizer

from .architectures import CONTEXT, ORIGINAL, VOCAB, WINDOW, NotCovered

WIDTH, HIDDEN, LAYERS, HEADS, HEAD = 128, 192, 4, 4, 32

Keys = dict[str, Any]


def _named(*rows: tuple[Any, str]) -> Keys:
    """Give each value to several keys."""
    return {key: value for value, keys in rows for key in keys.split()}


EVERY = _named(
    (VOCAB, "vocab_size"), (CONTEXT, "context_length"), (WIDTH, "embedding_length"), (LAYERS, "block_count"),
    (HIDDEN, "feed_forward_length"), (1e-5, "attention.layer_norm_rms_epsilon attention.layer_norm_epsilon"),
    (HEADS, "attention.head_count attention.head_count_kv"),
    (HEAD, "attention.key_length attention.value_length rope.dimension_count"), (10_000.0, "rope.freq_base rope.freq_base_swa"),
    # Those with a window or a scale of their own read these; others do not know them.
    (HEAD, "attention.key_length_swa attention.value_length_swa rope.dimension_count_swa"),
    (WINDOW, "attention.sliding_window"), ([True, True, True, False], "attention.sliding_window_pattern"),
    (8.0, "attention.clamp_kqv"), (True, "use_parallel_residual"), (2, "interleave_moe_layer_step experts_per_group"),
    (0.5, "expert_group_scale"), (64, "embedding_length_per_layer_input"), (0, "attention.shared_kv_layers"),
    (4, "attention.indexer.head_count"), (128, "attention.indexer.key_length"), (8, "attention.indexer.top_k"),
    (1.0, "logit_scale embedding_scale residual_scale"), (HEAD**-0.5, "attention.scale"),
)  # fmt: skip
EXPERTS = _named(
    (4, "expert_count"), (2, "expert_used_count expert_gating_func"),
    (64, "expert_feed_forward_length expert_shared_feed_forward_length"), (1, "expert_shared_count leading_dense_block_count"),
    (1.0, "expert_weights_scale"), (True, "expert_weights_norm"),
)  # fmt: skip
NO_EXPERTS = _named((0, "expert_count expert_used_count"))
LATENT = _named(
    (2, "attention.head_count"), (1, "attention.head_count_kv"), (512 + 64, "attention.key_length"),
    (512, "attention.value_length attention.kv_lora_rank"), (128 + 64, "attention.key_length_mla"),
    (128, "attention.value_length_mla"), (64, "attention.q_lora_rank rope.dimension_count"),
)  # fmt: skip
SECOND = [0, HEADS, 0, HEADS]
"""Heads of K and V in each layer of most hybrids: 0 says recurrent."""
MAMBA: Keys = {"ssm.conv_kernel": 4, "ssm.inner_size": 256, "ssm.state_size": 16, "ssm.time_step_rank": 8}
MAMBA2: Keys = {**MAMBA, "ssm.group_count": 2}
DELTA = {**MAMBA, "ssm.inner_size": 128, "ssm.state_size": 32, "ssm.time_step_rank": 4, "ssm.group_count": 2}
DELTA["full_attention_interval"] = 2
SECTIONS: Keys = {"rope.dimension_sections": [6, 5, 5, 0]}
HYBRID: Keys = {"attention.head_count_kv": SECOND}
NEMOTRON: Keys = {
    **MAMBA2,
    "block_count": 6,
    "attention.head_count_kv": [0, 4, 0, 0, 4, 0],
    "feed_forward_length": [0, 0, 192, 0, 0, 192],
}
RWKV7 = _named(
    (64, "wkv.head_size"),  # as wide as real ones': with AVX-512 llama.cpp computes 64 numbers at a time
    (16, "attention.decay_lora_rank attention.iclr_lora_rank attention.value_residual_mix_lora_rank attention.gate_lora_rank"),
    (16, "time_mix_extra_dim time_decay_extra_dim"),
    (2, "token_shift_count"),
    (0, "rescale_every_n_layers"),
)

WIRES: Keys = {"hyper_connection.count": 4, "hyper_connection.sinkhorn_iterations": 2, "hyper_connection.epsilon": 1e-6}
"""Hyper-connections."""

OWN: dict[str, Keys] = {
    "deepseek4": EXPERTS
    | WIRES
    | _named(
        (512, "embedding_length"),
        (8, "attention.head_count attention.output_group_count"),
        (1, "attention.head_count_kv"),
        (64, "attention.key_length attention.value_length attention.q_lora_rank attention.indexer.head_count"),
        (32, "attention.output_lora_rank"),
        ([0, 0, 4, 128], "attention.compress_ratios"),
        (160_000.0, "attention.compress_rope_freq_base"),
        (131_072, "attention.indexer.top_k"),
        (0, "hash_layer_count"),
        ([10.0] * LAYERS, "swiglu_clamp_exp"),
        (4, "expert_gating_func"),
    ),
    "gemma4": {"embedding_length_per_layer_input": 32, "attention.shared_kv_layers": 0, **NO_EXPERTS},
    "falcon-h1": MAMBA2, "granitehybrid": HYBRID | MAMBA2,
    "hunyuan_vl": SECTIONS, "jamba": HYBRID | MAMBA,
    "kimi-linear": LATENT | {"attention.head_count_kv": [0, 1, 0, 1], "kda.head_dim": 128, "ssm.conv_kernel": 4},
    "lfm2": HYBRID | {"shortconv.l_cache": 3}, "lfm2moe": HYBRID | {"shortconv.l_cache": 3}, "mamba2": MAMBA2,
    "minimax-01": EXPERTS | {"full_attention_interval": 2, "residual_scale": 3.5}, "nemotron_h": NEMOTRON,
    "nemotron_h_moe": NEMOTRON, "plamo2": HYBRID | MAMBA2 | {"ssm.group_count": 0},
    "qwen35": DELTA | SECTIONS, "qwen35moe": DELTA | SECTIONS, "qwen3next": DELTA,
    "rwkv7": RWKV7,
}  # fmt: skip
"""Keys that some architectures need beyond `EVERY`; a slash begins a key that is not the architecture's own."""

ORIGINAL_LENGTH = "rope.scaling.original_context_length"
LONGROPE: Keys = {"rope.scaling.type": "longrope", ORIGINAL_LENGTH: ORIGINAL}
DENSE: Keys = dict.fromkeys(EXPERTS)

VARIANTS: dict[str, tuple[str, Keys]] = {
    "llama-dense": ("llama", DENSE),
    # llama.cpp chooses the factors by the size of the context, which is a multiple of 256.
    "llama-longrope-far": ("llama", DENSE | LONGROPE | {"context_length": 1024, ORIGINAL_LENGTH: 256}),
}
"""Other forms of an architecture: name → its own name, and what differs (None: a key less)."""


def _with_mtp(architecture: str, **more: Any) -> tuple[str, Keys]:
    """An architecture with an MTP layer, which counts as a layer and has its place in arrays."""
    layers = OWN.get(architecture, {}).get("block_count", LAYERS) + 1
    return architecture, {
        "block_count": layers,
        "nextn_predict_layers": 1,
        "attention.sliding_window_pattern": [True] * layers,
        **more,
    }


MTP: dict[str, tuple[str, Keys]] = {
    "glm4moe-mtp": _with_mtp("glm4moe"),
    "mimo2-mtp": _with_mtp("mimo2", **{"attention.sliding_window_pattern": [False, True, False, True, True]}),
    "nemotron_h_moe-mtp": _with_mtp(
        "nemotron_h_moe",
        **{"attention.head_count_kv": [0, 4, 0, 0, 4, 0, 4], "feed_forward_length": [0, 0, 192, 0, 0, 192, 192]},
    ),
    "qwen35-mtp": _with_mtp("qwen35"), "qwen3next-mtp": _with_mtp("qwen3next"),
}  # fmt: skip
"""Architectures with an MTP layer of their own."""


TIED = 0.05
"""Spread of embeddings that are the output matrix too."""


def names() -> list[str]:
    """Every architecture that has keys of its own here, and the variants."""
    return [*OWN, *VARIANTS]


def write(name: str, file: Path, seed: int = 1, noise: float = 0.0) -> Path:
    """Write a tiny model; `noise`: what each weight gets at random, in units of its spread, as a draft model."""
    architecture, more = (VARIANTS | MTP).get(name, (name, {}))
    keys = {key: value for key, value in (_keys(architecture) | more).items() if value is not None}
    shapes = _shapes(_written(file, architecture, keys, {"unused": np.zeros(4, np.float32)}))
    random, other = np.random.default_rng(seed), np.random.default_rng(seed + 1)
    tied = "output.weight" not in shapes
    tensors = {}
    for tensor, shape in shapes.items():
        # Scales belong to weights of four bits.
        if tensor.endswith("scale") and "layer_output" not in tensor:
            continue
        tensors[tensor] = _numbers(tensor, shape, random, tied=tied)
        if tensor == "token_embd.weight" and "output.weight" not in shapes:
            tensors[tensor] *= np.float32(TIED)  # else every token predicts itself
        if noise and len(shape) > 1:
            tensors[tensor] += noise * tensors[tensor].std() * other.standard_normal(shape).astype(np.float32)
    return _written(file, architecture, keys, tensors)


def _keys(architecture: str) -> Keys:
    """Keys of an architecture: those that its tensors ask for, and special ones."""
    gguf: Any = importlib.import_module("gguf")
    kind = next((kind for kind, name in gguf.MODEL_ARCH_NAMES.items() if name == architecture), None)
    tensors = {tensor.name for tensor in gguf.MODEL_TENSORS.get(kind, ())}
    keys = dict(EVERY)
    if any("EXP" in tensor for tensor in tensors):
        keys |= EXPERTS
    if "ATTN_KV_A_MQA" in tensors:
        keys |= LATENT
    return keys | OWN.get(architecture, {})


def _written(file: Path, architecture: str, keys: Keys, tensors: dict[str, NDArray[np.float32]]) -> Path:
    """A file with this metadata, the built-in tokenizer and these tensors."""
    gguf: Any = importlib.import_module("gguf")
    writer = gguf.GGUFWriter(file, architecture)
    writer.add_name("tiny")  # it takes the tokens of models named phi-3 for theirs
    writer.add_file_type(gguf.LlamaFileType.ALL_F32)
    add: dict[type, Any] = {
        list: writer.add_array, bool: writer.add_bool, float: writer.add_float32, int: writer.add_uint32,
        str: writer.add_string,
    }  # fmt: skip
    for key, value in keys.items():
        add[type(value)](key[1:] if key.startswith("/") else f"{architecture}.{key}", value)
    config = json.loads((builtin_path() / "config.json").read_text(encoding="utf-8"))
    add_tokenizer(writer, builtin_path(), config)
    for name, tensor in tensors.items():
        writer.add_tensor(name, tensor)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return file


class _NoWeights(ctypes.Structure):
    """gguf_init_params."""

    _fields_ = (("no_alloc", ctypes.c_bool), ("ctx", ctypes.c_void_p))


def _shapes(file: Path) -> dict[str, tuple[int, ...]]:
    """Name and shape of the tensors that llama.cpp wants for a file's metadata, as NumPy has shapes: rows first."""
    lib = library()
    base = ctypes.CDLL(str(next(Path(lib._lib._name).parent.glob("libggml-base.*"))))
    base.gguf_init_from_file.restype = ctypes.c_void_p
    base.gguf_init_from_file.argtypes = [ctypes.c_char_p, _NoWeights]
    base.ggml_get_name.restype = ctypes.c_char_p
    base.ggml_get_name.argtypes = [ctypes.c_void_p]
    shapes: dict[str, tuple[int, ...]] = {}

    def told(tensor: int, _data: Any) -> None:
        # A ggml_tensor begins with its type and its buffer, in 16 bytes; four sizes follow.
        sizes = list((ctypes.c_int64 * 4).from_address(tensor + 16))
        while len(sizes) > 1 and sizes[-1] == 1:
            sizes.pop()
        shapes[base.ggml_get_name(tensor).decode()] = tuple(reversed(sizes))

    params = lib.llama_model_default_params()
    params.n_gpu_layers = 0
    params.load_mtp = True
    metadata = base.gguf_init_from_file(str(file).encode(), _NoWeights(True, None))
    model = lib.llama_model_init_from_user(metadata, lib.llama_model_set_tensor_data_t(told), None, params)
    if not model:
        raise NotCovered(f"llama.cpp takes no such metadata: {last_error()}")
    lib.llama_model_free(model)
    return shapes


def _numbers(name: str, shape: tuple[int, ...], random: np.random.Generator, *, tied: bool) -> NDArray[np.float32]:
    """Random weights that leave states finite and logits lively."""
    noise = random.standard_normal(shape).astype(np.float32)
    match name.removesuffix(".weight").removesuffix(".bias").rpartition(".")[2]:
        case "rope_freqs" | "rope_factors_short":
            return np.ones(shape, np.float32)
        case "rope_factors_long":
            return np.linspace(1, 3 * shape[0], shape[0], dtype=np.float32)
        case "ssm_a":
            return np.float32(-0.3) * np.abs(noise) - np.float32(0.02)
        case "ssm_d":
            return noise
        case "token_embd":
            # Tied to the LM head, large ones make every token predict itself.
            return noise * np.float32(0.03 if tied else 1)
        case tensor if (name.endswith("weight") and "norm" in tensor) or tensor == "layer_output_scale":
            return 1 + np.float32(0.1) * noise
        case _ if name.endswith("bias") or len(shape) == 1:
            return np.float32(0.1) * noise
        case tensor:
            scale = {"ssm_out": 3.0, "shortconv": 0.7, "ffn_down": 0.5}.get(tensor, 1.2)
            return noise * np.float32(scale * shape[-1] ** -0.5)


class Plain:
    """llama.cpp's own greedy completion, one token a pass."""

    def __init__(self, file: Path, context: int) -> None:
        from llama_cpp import Llama

        self._llama: Any = Llama(
            str(file), n_ctx=context, n_batch=1, n_ubatch=1, n_threads=1, n_threads_batch=1, n_gpu_layers=0, type_k=0, type_v=0,
            verbose=False,
        )  # fmt: skip

    def logits(self, text: Sequence[int]) -> Any:
        """Read a text from its start; return the logits after it."""
        self._llama.reset()
        self._llama._ctx.kv_cache_clear()  # of states, which `reset` leaves
        return self._go_on(text)

    def _go_on(self, tokens: Sequence[int]) -> Any:
        self._llama.eval(list(tokens))
        return np.ctypeslib.as_array(self._llama._ctx.get_logits_ith(-1), (self._llama.n_vocab(),)).copy()

    def writes(self, prompt: Sequence[int], count: int) -> list[int]:
        logits, written = self.logits(prompt), list[int]()
        while True:
            written.append(int(logits.argmax()))
            if len(written) == count:
                return written
            logits = self._go_on(written[-1:])

    def gap(self, text: Sequence[int], one: int, other: int) -> float:
        logits = self.logits(text)
        return abs(float(logits[one] - logits[other]))
