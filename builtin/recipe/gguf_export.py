"""Write a Llama folder of transformers, such as the built-in model, as GGUF files for llama.cpp.

    python -m specchat.builtin.recipe.gguf_export

Needs the package `gguf`, which comes with the development extra.
"""

import argparse
import importlib
import importlib.util
import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .tokenizer import PRE_TOKENIZER

WEIGHTS = Path(__file__).parents[1] / "weights"

TYPES = ("F32", "F16", "Q8_0", "Q5_0", "Q4_0")
"""Types of the weights (norms stay float32)."""

PRE_TOKENIZERS = {PRE_TOKENIZER: "qwen2"}
"""Expression that splits words → its name in llama.cpp."""

LAYER = {
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}
"""transformers' names of a layer's tensors → llama.cpp's."""

NORMAL, CONTROL, USER_DEFINED, UNUSED = 1, 3, 4, 5
"""llama.cpp's token types."""


def export(folder: Path, file: Path, kind: str = "Q8_0", name: str = "") -> int:
    """Write the model in `folder` as a GGUF file; readers see the old file or the new one, never half of it.

    Args:
        folder: config.json of a Llama, *.safetensors, tokenizer.json (byte-level BPE) and its companions.
        file: where to write.
        kind: one of TYPES.
        name: of the model; the folder's if empty.

    Returns:
        size of the file in bytes.

    Raises:
        ValueError: something in the folder that this exporter cannot express in GGUF.
    """
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    with new_file(file, "llama", kind, name or folder.name) as (writer, add):
        _architecture(writer, config)
        add_tokenizer(writer, folder, config)
        for tensor_name, tensor in _tensors(folder, config):
            add(tensor_name, tensor)
    return file.stat().st_size


@contextmanager
def new_file(file: Path, architecture: str, kind: str, name: str) -> Iterator[tuple[Any, Callable[[str, NDArray[Any]], None]]]:
    """Open a GGUF file to fill; readers see the old one or, once the block has succeeded, the new one.

    Args:
        file: its path.
        architecture: llama.cpp's name of it.
        kind: one of TYPES.
        name: of the model.

    Returns:
        gguf's writer, and a function that adds a tensor by its name: whole numbers as they are, matrices in the type asked for
        (in F16 where their rows do not divide into its blocks), norms and kernels in float32, in which llama.cpp multiplies
        them.
    """
    gguf: Any = importlib.import_module("gguf")
    types = gguf.GGMLQuantizationType
    file.parent.mkdir(parents=True, exist_ok=True)
    new = file.with_name(f".new-{file.name}")
    writer = gguf.GGUFWriter(new, architecture)
    writer.add_name(name)
    writer.add_file_type(gguf.LlamaFileType["ALL_F32" if kind == "F32" else f"MOSTLY_{kind}"])
    writer.add_quantization_version(gguf.GGML_QUANT_VERSION)

    def add(tensor_name: str, tensor: NDArray[Any]) -> None:
        if tensor.dtype == np.int64:
            writer.add_tensor(tensor_name, tensor, raw_dtype=types.I64)
            return
        tensor_type = types[kind] if tensor.ndim > 1 and not tensor_name.endswith("_conv_base") else types.F32
        if tensor.shape[-1] % gguf.GGML_QUANT_SIZES[tensor_type][0]:
            tensor_type = types.F16
        writer.add_tensor(tensor_name, gguf.quants.quantize(tensor, tensor_type), raw_dtype=tensor_type)

    try:
        yield writer, add
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
    except BaseException:
        writer.close()
        new.unlink(missing_ok=True)
        raise
    writer.close()
    os.replace(new, file)


def _architecture(writer: Any, config: dict[str, Any]) -> None:
    """Write the hyperparameters."""
    if config.get("model_type") != "llama":
        raise ValueError(f"only Llama models can be exported, not {config.get('model_type')!r}")
    rope = config.get("rope_parameters") or {}
    if rope.get("rope_type", "default") != "default" or config.get("attention_bias") or config.get("mlp_bias"):
        raise ValueError("scaled rotary embeddings and biases cannot be exported")
    heads = config["num_attention_heads"]
    head_dim = config.get("head_dim") or config["hidden_size"] // heads
    writer.add_vocab_size(config["vocab_size"])
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(heads)
    writer.add_head_count_kv(config["num_key_value_heads"])
    writer.add_key_length(head_dim)
    writer.add_value_length(head_dim)
    writer.add_rope_dimension_count(head_dim)
    writer.add_rope_freq_base(rope.get("rope_theta", config.get("rope_theta", 10_000.0)))
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])


def add_tokenizer(writer: Any, folder: Path, config: dict[str, Any]) -> None:
    """Write tokens, merges, special tokens and the chat template.

    Args:
        writer: gguf's.
        folder: with the tokenizer's files.
        config: of its model.

    Raises:
        ValueError: it cannot be expressed in GGUF.
    """
    data = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))
    settings = json.loads((folder / "tokenizer_config.json").read_text(encoding="utf-8"))
    vocab: dict[str, int] = data["model"]["vocab"]
    added = {token["content"]: token for token in data["added_tokens"]}
    by_id = {i: token for token, i in vocab.items()} | {token["id"]: text for text, token in added.items()}
    tokens = [by_id.get(i, f"<|unused_{i}|>") for i in range(config["vocab_size"])]  # a head may have more rows
    special = {text: CONTROL if token["special"] else USER_DEFINED for text, token in added.items()}
    types = [special.get(token, NORMAL) if i in by_id else UNUSED for i, token in enumerate(tokens)]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(pre_tokenizer(data))
    writer.add_token_list(tokens)
    writer.add_token_types(types)
    merges = [merge if isinstance(merge, str) else " ".join(merge) for merge in data["model"]["merges"]]
    writer.add_token_merges(merges)
    eos = config["eos_token_id"]
    writer.add_bos_token_id(config["bos_token_id"])
    writer.add_eos_token_id(eos[0] if isinstance(eos, list) else eos)
    if config.get("pad_token_id") is not None:
        writer.add_pad_token_id(config["pad_token_id"])
    if config.get("pard_token") is not None:
        writer.add_mask_token_id(config["pard_token"])
    writer.add_add_bos_token(bool(settings.get("add_bos_token", False)))
    template = folder / "chat_template.jinja"
    if template.is_file():
        writer.add_chat_template(template.read_text(encoding="utf-8"))


def pre_tokenizer(data: dict[str, Any]) -> str:
    """Find llama.cpp's name for the way in which words are split.

    Args:
        data: a tokenizer.json.

    Raises:
        ValueError: it knows none.
    """
    if data["model"].get("type") != "BPE" or data.get("normalizer"):
        raise ValueError("only byte-level BPE without a normalizer can be exported")
    steps = data["pre_tokenizer"].get("pretokenizers", [data["pre_tokenizer"]])
    expressions = [step["pattern"]["Regex"] for step in steps if step["type"] == "Split"]
    if len(expressions) != 1 or expressions[0] not in PRE_TOKENIZERS:
        raise ValueError(f"llama.cpp knows no pre-tokenizer {expressions}")
    return PRE_TOKENIZERS[expressions[0]]


def _tensors(folder: Path, config: dict[str, Any]) -> Iterator[tuple[str, NDArray[np.float32]]]:
    """Yield llama.cpp's names and float32 values of all weights."""
    # The numpy reader does not know bfloat16; torch's does.
    from safetensors.torch import load_file

    state: dict[str, Any] = {}
    for part in sorted(folder.glob("*.safetensors")):
        state |= load_file(part)
    weights = {name.removeprefix("model."): value.float().numpy() for name, value in state.items()}
    yield "token_embd.weight", weights["embed_tokens.weight"]
    for layer in range(config["num_hidden_layers"]):
        for theirs, ours in LAYER.items():
            value = weights[f"layers.{layer}.{theirs}.weight"]
            if ours == "attn_q":
                value = interleaved(value, config["num_attention_heads"])
            elif ours == "attn_k":
                value = interleaved(value, config["num_key_value_heads"])
            yield f"blk.{layer}.{ours}.weight", value
    yield "output_norm.weight", weights["norm.weight"]
    # Without an output tensor llama.cpp uses the embedding.
    if not config.get("tie_word_embeddings"):
        yield "output.weight", weights["lm_head.weight"]


def interleaved(weight: NDArray[np.float32], heads: int) -> NDArray[np.float32]:
    """Reorder rows of a query or key projection [heads · dim, width] for llama.cpp, which rotates neighbours (2i, 2i + 1),
    where transformers rotates (i, i + dim / 2)."""
    rows, width = weight.shape
    halves = weight.reshape(heads, 2, rows // heads // 2, width)
    return np.ascontiguousarray(halves.swapaxes(1, 2).reshape(rows, width))


def main() -> None:
    """Write builtin/weights/NAME-TYPE.gguf."""
    parser = argparse.ArgumentParser(prog="python -m specchat.builtin.recipe.gguf_export", description=main.__doc__)
    parser.add_argument("--name", default="target", help="name of the model, and of its folder in weights")
    parser.add_argument("--folder", type=Path, default=None, help="folder to read (default: builtin/weights/NAME)")
    parser.add_argument("--out", type=Path, default=WEIGHTS, help="folder to write to (default: builtin/weights)")
    parser.add_argument("--type", choices=TYPES, default=["Q8_0"], nargs="+", help="types of the weights, one file each")
    options = parser.parse_args()
    folder = options.folder or WEIGHTS / options.name
    if not (folder / "config.json").is_file():
        sys.exit(f"There is no model in {folder}. Run `python -m specchat.builtin.recipe.export` first.")
    if importlib.util.find_spec("gguf") is None:
        sys.exit(f"The package gguf is missing: {sys.executable} -m pip install gguf")
    for kind in options.type:
        file = options.out / f"{options.name}-{kind}.gguf"
        size = export(folder, file, kind, f"specchat {options.name}")
        print(f"{file}: {size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
