"""Architectures of transformers as tiny configurations: a class takes those of the sizes in `SMALL` that it names, so a new
release's architectures build themselves; `EXCEPTIONS` has the few that need more."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

VOCAB = 2048
"""Size of the built-in tokenizer's vocabulary, which serves all."""
CONTEXT = 256
WINDOW = 24
CHUNK = 16
ORIGINAL = 64
"""Context before it was extended."""
LAYERS = 4
HIDDEN, HEADS, KV_HEADS, HEAD = 64, 4, 2, 16

_LENGTHS = [
    (WINDOW, "sliding_window sliding_window_size window_size attention_window_size keep_window_size attention_chunk_size"),
    (WINDOW, "local_attention floor_scale log_scaling_n_floor mem_len"),
    (CHUNK, "chunk_size mamba_chunk_size block_size index_block_size local_attn_chunk_length lsh_attn_chunk_length rel_extent"),
    (CHUNK, "indexer_budget"),
    (ORIGINAL, "original_max_position_embeddings"),
]
_SMALL: list[tuple[Any, str]] = [
    (VOCAB, "vocab_size unpadded_vocab_size vocab_size_per_layer_input"),
    (CONTEXT, "max_position_embeddings n_positions n_ctx max_seq_len context_length max_target_positions"),
    (LAYERS, "num_hidden_layers n_layer n_layers num_layers decoder_layers num_decoder_layers num_blocks encoder_layers"),
    (HIDDEN, "hidden_size n_embd d_model emb_dim embedding_size embedding_dim input_embedding_size output_embedding_size"),
    (HIDDEN, "word_embed_proj_dim attention_hidden_size lru_width"),
    (HEADS, "num_attention_heads n_head n_heads num_heads attention_heads decoder_attention_heads num_decoder_attention_heads"),
    (HEADS, "encoder_attention_heads"), (HEADS, "swa_num_attention_heads linear_num_heads linear_num_value_heads"),
    (KV_HEADS, "num_key_value_heads num_kv_heads swa_num_key_value_heads linear_num_key_heads"),
    (HEAD, "head_dim d_head dim_head kv_channels attention_head_size swa_head_dim qk_nope_head_dim v_head_dim"),
    (HEAD, "linear_head_dim linear_key_head_dim linear_value_head_dim query_pre_attn_scalar indexer_head_dim index_head_dim"),
    (96, "intermediate_size ffn_dim decoder_ffn_dim dim_ff dff d_inner feed_forward_size intermediate_size_mlp"),
    (96, "encoder_ffn_dim ffn_hidden_size"), (96, "dense_intermediate_size prefix_dense_intermediate_size"),
    (48, "moe_intermediate_size shared_expert_intermediate_size moe_shared_expert_intermediate_size expert_ffn_hidden_size"),
    (48, "shared_experts_intermediate_size shared_intermediate_size"),
    (4, "num_experts num_local_experts n_routed_experts moe_num_experts"),
    (16, "index_n_heads indexer_n_heads"),  # with few, many keys score exactly 0, and topk takes any of them
    (2, "num_experts_per_tok moe_topk moe_k top_k_experts hc_mult hc_count n_mamba_heads H_cycles L_cycles"),
    (32, "q_lora_rank kv_lora_rank o_lora_rank hidden_size_per_layer_input router_hidden_size"),
    (8, "qk_rope_head_dim rotary_dim state_size ssm_state_size mamba_d_state mamba_n_heads mamba_num_heads laurel_rank"),
    (8, "adapter_rank gated_norm_rank hc_lowrank mamba_dt_rank d_rel index_topk"),
    (1, "first_k_dense_replace n_group topk_group n_groups mamba_n_groups mamba_ngroups n_shared_experts num_shared_experts"),
    (1, "moe_num_shared_experts bos_token_id num_dense_layers num_nextn_predict_layers num_mtp_layers"),
    (HEAD, "mamba_d_head mamba_head_dim position_bias_num_buckets num_buckets"),
    (128, "mamba_d_ssm relative_max_distance position_bias_max_distance"),
    (2, "eos_token_id max_window_layers attn_layer_period expert_layer_period"), (0, "pad_token_id"),
    # Tied, Gemma's scaled embeddings make every token predict itself.
    (False, "tie_word_embeddings use_mamba_kernels"), (True, "is_decoder use_sliding_window causal"),
]  # fmt: skip
SMALL: dict[str, Any] = {name: value for value, names in (*_LENGTHS, *_SMALL) for name in names.split()}
"""Everything that a configuration may be told here, by every name that it goes by."""

SLIDING = {"layer_types": ["sliding_attention"] * 3 + ["full_attention"]}
CONV = {"layer_types": ["conv", "full_attention"] * 2}
LINEAR = {"layer_types": ["linear_attention", "full_attention"] * 2}
DEFAULT_ROPE = {"rope_type": "default", "rope_theta": 10_000.0, "mrope_section": [2, 3, 3]}


def _longrope(pairs: int, **more: Any) -> dict[str, Any]:
    factors = {"short_factor": [1.0] * pairs, "long_factor": [1.0 + 3.0 * i for i in range(pairs)]}
    return {"rope_type": "longrope", "rope_theta": 10_000.0, "original_max_position_embeddings": ORIGINAL, **factors, **more}


def _scaled(rope: str, factor: float = 4.0, **more: Any) -> dict[str, Any]:
    return {"rope_parameters": {"rope_type": rope, "rope_theta": 1e4, "factor": factor, **more}}


SIGLIP = {"model_type": "siglip_vision_model", "num_hidden_layers": 1, "hidden_size": HIDDEN, "num_attention_heads": HEADS}
PICTURE = {"image_size": 28, "patch_size": 14}
SEEING: dict[str, Any] = {
    **PICTURE,
    **{"depth": 2, "num_heads": 2, "crop_size": 28},
    **dict.fromkeys(("out_hidden_size", "projector_input_dim", "projector_output_dim", "vision_output_dim"), HIDDEN),
    **dict.fromkeys(("mm_embed_dim", "mm_posemb_size", "output_proj_dims"), HIDDEN),
}
"""Sizes of a part that sees images."""
CHANNELS = ("depthwise_separable_out_channel", "ext_pw_out_channel")

EXCEPTIONS: dict[str, dict[str, Any]] = {
    "bailing_hybrid": LINEAR, "bamba": {"attn_layer_indices": [1, 3]},
    "dbrx": {
        "attn_config": {"kv_n_heads": KV_HEADS, "rope_theta": 1e4, "clip_qkv": 8.0},
        "ffn_config": {"ffn_hidden_size": 96, "moe_num_experts": 4},
    },
    "cohere_compass_text": SLIDING | {"rope_parameters": dict.fromkeys(("full_attention", "sliding_attention"), DEFAULT_ROPE)},
    "dots3_note_text": {"head_dim": 24, "per_layer_config": {i: {"kv_lora_rank": 16, "head_dim": 24} for i in (2, 3)}},
    "gemma3": {"vision_config": SIGLIP | PICTURE, "mm_tokens_per_image": 4}, "gemma3_text": SLIDING,
    "gemma3n_text": SLIDING | {"num_kv_shared_layers": 0, "altup_num_inputs": 2, "activation_sparsity_pattern": [0.0] * 4},
    "gpt_neo": {"attention_types": [[["global", "local"], 2]]}, "granitemoehybrid": LINEAR,
    "inkling2_text": {"layer_types": ["hybrid_sliding", "hybrid"] * 2},
    "inkling_text": {"layer_types": ["hybrid_sliding", "hybrid"] * 2},
    "jamba": {"attn_layer_offset": 1, "expert_layer_offset": 1}, "kimi_linear": LINEAR, "kolibri1": SLIDING, "laguna": SLIDING,
    "lfm2": CONV, "lfm2_moe": CONV, "llama4_text": {"no_rope_layers": [1, 1, 1, 0]},
    "longcat_flash": {"num_layers": 2, "head_dim": 8, "zero_expert_num": 2}, "mamba2": {"num_heads": 8}, "mellum": SLIDING,
    # With a window, which no MiniMax has, transformers gives other logits with a cache than without.
    "minimax": {"layer_types": ["linear_attention", "full_attention"] * 2, "sliding_window": None},
    "minimax_m3_vl_text": {
        "index_n_heads": 4,
        "layer_types": ["full_attention", "minimax_m3_sparse"] * 2,
        "index_topk_blocks": 2,
    },
    "ministral": SLIDING,
    "mllama": {
        "text_config": {"cross_attention_layers": [1]},
        "vision_config": {"num_global_layers": 1, "intermediate_layers_indices": [0], "vision_output_dim": 2 * HIDDEN},
    },
    "phi4_multimodal": {
        "rope_parameters": _longrope(HEAD // 2, partial_rotary_factor=1.0),
        "audio_config": {"input_size": 16, "nemo_conv_channels": HIDDEN, **dict.fromkeys(CHANNELS, HIDDEN)},
    },
    "qwen4_exp_text": {
        "indexer_kv_heads": 1,
        "indexer_compress_ratio": 4,
        "ngram_vocab_size_base": 512,
        "split_ngram_parts": 8,
    },
    "reformer": {
        "hash_seed": 0,
        "axial_pos_shape": (16, 16),
        "axial_pos_embds_dim": (32, 32),
        "attn_layers": ["local", "lsh"] * 2,
    },
    "roc_bert": {"shape_vocab_size": 64, "pronunciation_vocab_size": 64, "shape_embed_dim": 32, "pronunciation_embed_dim": 32},
    "smollm3": {"no_rope_layers": [1, 1, 1, 0]}, "whisper": {"decoder_start_token_id": 1, "max_source_positions": 64},
    "xlstm": {"qk_dim_factor": 1.0}, "xmod": {"default_language": "en_XX"},
    "zamba": {"attention_hidden_size": 2 * HIDDEN, "layers_block_type": ["linear_attention", "hybrid"] * 2},
    "zamba2": {"layers_block_type": ["linear_attention", "hybrid"] * 2},
    "zaya": {"num_experts_per_tok": 1, "layer_types": ["hybrid_sliding", "hybrid"] * 2},
}  # fmt: skip
"""Sizes that some kinds need beyond `SMALL`."""


VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    "llama-longrope": ("llama", {"rope_parameters": _longrope(HEAD // 2)}),
    "phi3-longrope": ("phi3", {"rope_parameters": _longrope(HEAD // 2, partial_rotary_factor=1.0)}),
    "phimoe-longrope": ("phimoe", {"rope_parameters": _longrope(HEAD // 2, short_mscale=1.0, long_mscale=1.0)}),
    "llama-dynamic": ("llama", {"max_position_embeddings": ORIGINAL, **_scaled("dynamic")}),
    "llama-yarn": ("llama", _scaled("yarn", 4.0, original_max_position_embeddings=ORIGINAL)),
    "llama3": (
        "llama",
        _scaled("llama3", 8.0, original_max_position_embeddings=ORIGINAL, low_freq_factor=1.0, high_freq_factor=4.0),
    ),
    "falcon-alibi": ("falcon", {"alibi": True, "parallel_attn": False}),
    "reformer-local": (
        "reformer",
        {"attn_layers": ["local"] * 4, "axial_pos_shape": (16, 16), "axial_pos_embds_dim": (32, 32)},
    ),
    "gemma3n-shared": ("gemma3n_text", {"layer_types": ["sliding_attention", "full_attention"] * 2, "num_kv_shared_layers": 2}),
}
"""Other forms of an architecture: name → its kind, and what differs."""


PARTS = ("attn_config", "ffn_config", "patcher_config", "encoder_config", "decoder_config", "global_config")
"""Configurations within a text model's."""
SENSES = ("vision_config", "audio_config")
"""Those of parts that a prompt of text leaves out. What has others drafts for somebody else, or does not write text."""


class NotCovered(Exception):
    """An architecture that the zoo lacks; says why."""


def kinds() -> list[str]:
    """Every kind of causal language model that transformers knows."""
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

    return list(MODEL_FOR_CAUSAL_LM_MAPPING_NAMES)


def configuration(name: str) -> Any:
    """The tiny configuration of a kind or a variant."""
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    kind, more = VARIANTS.get(name, (name, {}))
    config_class = CONFIG_MAPPING[kind]
    text = config_class.sub_configs.get("text_config")
    text_sizes = {"text_config": EXCEPTIONS.get(getattr(text, "model_type", ""), {})} if dataclasses.is_dataclass(text) else {}
    text_sizes |= EXCEPTIONS.get(kind, {}) | more
    if parts := [name for name in config_class.sub_configs if name not in (*PARTS, *SENSES, *text_sizes)]:
        raise NotCovered(f"not of text alone: it has {', '.join(parts)}")
    try:
        config = config_class(**_settings(config_class, text_sizes))
    except Exception as error:
        raise NotCovered(f"config: {line(error)}") from error
    return config


def lengths(config: Any) -> list[int]:
    """The lengths that a configuration names, from which on it may read a text otherwise."""
    names_ = {name for _, names in _LENGTHS for name in names.split()}
    values = {value for name, value in _numbers(config.to_dict()) if name in names_}
    if (config.to_dict().get("rope_parameters") or {}).get("rope_type") == "dynamic":
        values.add(config.max_position_embeddings)
    return sorted(values)


def _numbers(config: dict[str, Any]) -> Iterator[tuple[str, int]]:
    """All whole numbers in a configuration and its parts, by name."""
    for name, value in config.items():
        if isinstance(value, dict):
            yield from _numbers(value)
        elif isinstance(value, int) and not isinstance(value, bool):
            yield name, value


def _settings(config_class: Any, more: dict[str, Any], sizes: dict[str, Any] = SMALL) -> dict[str, Any]:
    """Settings of a class of configurations, and of its parts: the tiny sizes, and `more`."""
    names = [field.name for field in dataclasses.fields(config_class)]
    sizes_ = {name: sizes[name] for name in names if name in sizes}
    if "kv_lora_rank" in names:
        sizes_["num_key_value_heads"] = HEADS  # latent attention has no groups of heads
    parts = {name: part for name, part in config_class.sub_configs.items() if dataclasses.is_dataclass(part) and name in names}
    seeing = {"vision_config": SMALL | SEEING}
    return sizes_ | more | {name: _settings(part, more.get(name, {}), seeing.get(name, SMALL)) for name, part in parts.items()}


def line(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
