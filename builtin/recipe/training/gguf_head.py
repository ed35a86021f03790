"""Write an EAGLE-3 head or a DFlash drafter, with the tokenizer of its target, as GGUF files for llama.cpp.

    python -m specchat.builtin.recipe.training.gguf_head HEAD --target FOLDER --type F16 Q8_0

HEAD is a folder in any layout that specchat reads. Like there, the target's embeddings are only in the file if the head has its
own; llama.cpp takes the target's. Needs the package `gguf`, which comes with the development extra.
"""

import argparse
import importlib.util
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ....backends import UserError
from ....backends.files.checkpoint import check_folder
from ....backends.heads.dflash.format import UNUSED, DFlashFormat, Markov, Selector
from ....backends.heads.folders import read_format
from ....backends.heads.formats import EagleFormat
from ....backends.heads.formats import Target as Fitted
from ... import path
from ..gguf_export import LAYER, TYPES, add_tokenizer, interleaved, new_file, pre_tokenizer

TAPS = 3
"""Number of the target's layers that an EAGLE-3 head reads in llama.cpp."""

SHARED = {
    "fc.weight": "fc.weight",
    "norm.weight": "output_norm.weight",
    "lm_head.weight": "output.weight",
    "embed_tokens.weight": "token_embd.weight",
}
EAGLE = {"input_norm.weight": "enc.output_norm.weight", "layers.0.hidden_norm.weight": "blk.0.attn_norm_2.weight"}
DFLASH = {"hidden_norm.weight": "enc.output_norm.weight"}
DFLASH |= {f"markov_head.{name}.weight": f"{name}.weight" for name in ("markov_w1", "markov_w2")}
SELECTOR = "candidate_selector."
DFLASH |= {f"{SELECTOR}{name}_codebook": f"selector_{name}.weight" for name in ("predecessor", "successor")}
DFLASH[f"{SELECTOR}hidden_projection.weight"] = "selector_hidden.weight"
CONVOLUTIONS = {"base_kernel": "base", "kernel_projection.weight": "proj.weight"}
NORMS = {"self_attn.q_norm": "attn_q_norm", "self_attn.k_norm": "attn_k_norm"}
"""A head's tensors → llama.cpp's."""


def check_target(target: Path, taps: Sequence[int] = ()) -> None:
    """Check that a head for this target can be written, before it is trained.

    Args:
        target: folder of the model that it drafts for.
        taps: layers whose inputs an EAGLE-3 head reads.

    Raises:
        UserError: it cannot; says why.
    """
    if importlib.util.find_spec("gguf") is None:
        raise UserError(f"The package gguf is missing. Run: {sys.executable} -m pip install gguf")
    if taps and len(taps) != TAPS:
        raise UserError(f"llama.cpp's EAGLE-3 heads read {TAPS} layers of the target, not {len(taps)}. Leave out --gguf.")
    try:
        pre_tokenizer(json.loads((target / "tokenizer.json").read_text(encoding="utf-8")))
    except (ValueError, KeyError, OSError) as error:
        raise UserError(
            f"The tokenizer in {target} cannot be written as GGUF ({error}). Leave out --gguf, and convert the head with "
            f"llama.cpp: convert_hf_to_gguf.py HEAD --target-model-dir {target}"
        ) from None


def export_head(folder: Path, target: Path, file: Path, kind: str = "Q8_0") -> int:
    """Write the drafter in `folder` as a GGUF file; readers see the old file or the new one, never half of it.

    Args:
        folder: of an EAGLE-3 head or a DFlash drafter.
        target: folder of the model that it drafts for, whose tokenizer goes into the file.
        file: where to write.
        kind: one of gguf_export's TYPES.

    Returns:
        size of the file in bytes.

    Raises:
        UserError: this drafter cannot be expressed in GGUF, or is not for this target.
    """
    head = read_format(folder, check_folder(folder))
    if not (isinstance(head, DFlashFormat) or (isinstance(head, EagleFormat) and head.third)):
        raise UserError(f"{folder} holds neither an EAGLE-3 head nor a DFlash drafter. Give the folder of one.")
    config = json.loads((target / "config.json").read_text(encoding="utf-8"))
    width, layers, vocabulary = (config[key] for key in ("hidden_size", "num_hidden_layers", "vocab_size"))
    taps = head.fitting(str(folder), Fitted(str(target), width, layers, vocabulary))
    check_target(target, taps if isinstance(head, EagleFormat) else ())
    if why := _unknown(head, layers, taps, head.shapes["fc.weight"][0] != width):
        raise UserError(f"llama.cpp has no {head.title} drafters with {why}, so {folder} stays as it is. Train one without.")
    with new_file(file, "eagle3" if isinstance(head, EagleFormat) else "dflash", kind, folder.name) as (writer, add):
        add_tokenizer(writer, target, config)
        _layers(writer, head, vocabulary)
        arch = writer.arch
        writer.add_array(f"{arch}.target_layers", list(taps))
        if isinstance(head, EagleFormat):
            writer.add_uint32("eagle3.target_hidden_size", width)
            writer.add_bool("eagle3.norm_before_residual", head.norm_before_residual)
            writer.add_bool("eagle3.norm_before_fc", head.norm_before_fc)
        else:
            _dflash(writer, head)
        for name, tensor in _tensors(head):
            add(name, tensor)
    return file.stat().st_size


def _unknown(head: EagleFormat | DFlashFormat, layers: int, taps: Sequence[int], other_width: bool) -> str:
    """Name the part of a drafter that llama.cpp does not compute; empty if there is none."""
    rope = head.layer.get("rope_scaling") or head.layer.get("rope_parameters") or {}
    activation = head.layer.get("hidden_act", "silu")
    checks = {
        "biases": any(name.endswith(".bias") and name not in UNUSED for name in head.shapes),
        "scaled rotary embeddings": rope.get("rope_type", rope.get("type", "default")) != "default",
        f"the activation {activation}": activation != "silu",
        "the target's last state": max(taps) >= layers,
    }
    if isinstance(head, EagleFormat):
        checks |= {
            "several layers": head.layers > 1,
            "fc_norm": head.fc_norm,
            "norm_output": head.norm_output,
            "norms of queries and keys": "layers.0.self_attn.q_norm.weight" in head.shapes,
        }
    else:
        checks |= {
            "so many candidates": _scores(head) > head.shapes["fc.weight"][0],
            "sample_from_anchor": head.from_anchor and head.paths is None,
            "another width than the target's": other_width,
            "causal layers beside others": len({view.causal for view in head.views}) > 1,
            "windows of several sizes": len({view.window for view in head.views} - {None}) > 1,
        }
    return next((what for what, present in checks.items() if present), "")


def _scores(head: DFlashFormat) -> int:
    """Count the numbers that llama.cpp hands out for a position of a DFlash 2 drafter, in place of its state."""
    return head.paths.candidates * (head.paths.candidates + 1) if isinstance(head.paths, Selector) else 0


def _layers(writer: Any, head: EagleFormat | DFlashFormat, vocabulary: int) -> None:
    """Write the hyperparameters of its layers."""
    layer, hidden = head.layer, head.shapes["fc.weight"][0]
    heads = layer["num_attention_heads"]
    dim = layer.get("head_dim") or hidden // heads
    rope = layer.get("rope_parameters") or {}
    writer.add_vocab_size(vocabulary)
    writer.add_context_length(layer.get("max_position_embeddings", 2048))
    writer.add_embedding_length(hidden)
    writer.add_block_count(len(head.views) if isinstance(head, DFlashFormat) else 1)
    writer.add_feed_forward_length(head.shapes["layers.0.mlp.gate_proj.weight"][0])
    writer.add_head_count(heads)
    writer.add_head_count_kv(layer.get("num_key_value_heads") or heads)
    writer.add_key_length(dim)
    writer.add_value_length(dim)
    writer.add_rope_dimension_count(dim)
    base: float = rope.get("rope_theta") or layer.get("rope_theta") or 10_000.0
    writer.add_rope_freq_base(base)
    writer.add_layer_norm_rms_eps(layer.get("rms_norm_eps", 1e-6))


def _dflash(writer: Any, head: DFlashFormat) -> None:
    """Write the hyperparameters of DFlash, DSpark and DFlash 2."""
    writer.add_uint32("dflash.block_size", head.block)
    writer.add_mask_token_id(head.mask)
    writer.add_bool("dflash.attention.causal", head.views[0].causal)
    if isinstance(head.paths, Selector):
        rank, hidden = head.shapes["candidate_selector.hidden_projection.weight"]
        _, kernel, _ = head.shapes["layers.0.mlp_conv.base_kernel"]
        rows, _ = head.shapes["layers.0.mlp_conv.kernel_projection.weight"]
        figures = {"selector_rank": rank, "selector_top_k": head.paths.candidates}
        figures |= {"conv_kernel_size": kernel, "conv_group_size": 2 * kernel * hidden // rows}
        for key, figure in figures.items():
            writer.add_uint32(f"dflash.{key}", figure)
    if isinstance(head.paths, Markov):
        writer.add_bool("dflash.sample_from_anchor", head.from_anchor)
        writer.add_bool("dflash.has_confidence_head", False)
    windows = [view.window for view in head.views]
    if window := max(filter(None, windows), default=None):
        writer.add_sliding_window(window)
        writer.add_array("dflash.attention.sliding_window_pattern", [window_size is not None for window_size in windows])
    scales = {
        "embedding_scale": (head.embedding_scale, 1.0),
        "logit_scale": (head.logit_scale, 1.0),
        "final_logit_softcapping": (head.softcap, 0.0),
    }
    for key, (value, usual) in scales.items():
        if value != usual:
            writer.add_float32(f"dflash.{key}", value)


def _tensors(head: EagleFormat | DFlashFormat) -> Iterator[tuple[str, NDArray[Any]]]:
    """Yield llama.cpp's names and values of all weights. Its `d2t` holds target ids, not offsets. It rotates neighbours in
    EAGLE heads, and halves in DFlash, as transformers does."""
    from safetensors import safe_open

    eagle = isinstance(head, EagleFormat)
    heads = head.layer["num_attention_heads"]
    turned = {"attn_q": heads, "attn_k": head.layer.get("num_key_value_heads") or heads} if eagle else {}
    names = SHARED | (EAGLE if eagle else DFLASH)
    for i in range(1 if isinstance(head, EagleFormat) else len(head.views)):
        names |= {f"layers.{i}.{theirs}.weight": f"blk.{i}.{ours}.weight" for theirs, ours in (LAYER | NORMS).items()}
        for part, ours in (("attention", "attn"), ("mlp", "ffn")):
            names |= {f"layers.{i}.{part}_conv.{a}": f"blk.{i}.{ours}_conv_{b}" for a, b in CONVOLUTIONS.items()}
    for ours, (file, theirs) in head.names.items():
        with safe_open(str(file), framework="pt", device="cpu") as tensors:
            if ours == "d2t":
                offsets = tensors.get_tensor(theirs).long().numpy()
                yield "d2t", offsets + np.arange(len(offsets))
            elif ours in names:
                value = tensors.get_tensor(theirs).float().numpy()
                part = names[ours].removesuffix(".weight").rpartition(".")[2]
                yield names[ours], interleaved(value, turned[part]) if part in turned else value


def main() -> None:
    """Write HEAD-TYPE.gguf beside the folder of an EAGLE-3 head or a DFlash drafter."""
    parser = argparse.ArgumentParser(prog="python -m specchat.builtin.recipe.training.gguf_head", description=main.__doc__)
    parser.add_argument("head", type=Path, help="folder of the head")
    parser.add_argument("--target", type=Path, default=path(), help="folder of its target (default: the built-in model)")
    parser.add_argument("--out", type=Path, help="folder to write to (default: that which holds the head's)")
    parser.add_argument("--type", choices=TYPES, default=["Q8_0"], nargs="+", help="types of the weights, one file each")
    options = parser.parse_args()
    head: Path = options.head.resolve()
    try:
        for kind in options.type:
            file = (options.out or head.parent) / f"{head.name}-{kind}.gguf"
            print(f"{file}: {export_head(head, options.target, file, kind) / 1e6:.1f} MB")
    except UserError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
