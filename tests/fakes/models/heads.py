"""Trained drafters with random weights, in exactly the layouts that others publish; and one that is always right."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import torch
from safetensors.torch import save_file
from torch import Tensor

from specchat.backends.files.checkpoint import check_folder
from specchat.backends.heads.base import BlockHead, Head, Kind, PathHead
from specchat.backends.heads.folders import read_format
from specchat.backends.heads.load import load_head
from specchat.backends.heads.medusa import MedusaHead
from specchat.backends.hf.model import TransformersModel, load_transformers
from specchat.backends.options import LoadOptions

from .dflash_files import Paths, write_dflash
from .tiny import VOCAB, _room, tiny_model, write_model

WIDTH, LAYERS = 32, 6
"""Width of the target's hidden states, and how many layers it has."""

Style = Literal["eagle1", "eagle3", "speculators", "deepspec"]

TensorChanges = Mapping[str, Tensor | None]


@functools.cache
def target() -> TransformersModel:
    """A tiny model deep enough to have the usual three taps: 2, 3 and 3 of six layers."""
    return load_transformers(target_folder(), "target", LoadOptions(device="cpu"))


@functools.cache
def target_folder() -> Path:
    """Its folder."""
    return write_model("llama", Path(_room().name) / "heads-target", num_hidden_layers=LAYERS)


@functools.cache
def reference() -> Any:
    """The weights of `target` as transformers loads them."""
    from transformers import AutoModelForCausalLM

    model: Any = AutoModelForCausalLM.from_pretrained(target_folder(), dtype=torch.float32)
    return model.eval()


def write_head(
    folder: Path,
    style: Style = "eagle3",
    *,
    seed: int = 0,
    hidden: int = 0,
    width: int = WIDTH,
    vocabulary: int = VOCAB,
    layers: int = 1,
    taps: tuple[int, ...] | None = None,
    drafted: int = 0,
    own_head: bool = True,
    own_embeddings: bool = False,
    bias: bool = False,
    dtype: torch.dtype = torch.float32,
    changes: TensorChanges | None = None,
    **config: Any,
) -> Path:
    """Write a head.

    Args:
        folder: to be made.
        style: whose layout.
        seed: of the weights.
        hidden: the head's own width, if not the target's.
        width, vocabulary: the target's.
        layers: its own.
        taps: named in the configuration as that layout names them; None for none.
        drafted: how many tokens it can draft, if not all.
        own_head: whether it has an LM head.
        own_embeddings: whether it has a table of them.
        bias: of EAGLE-1's fc, or of attention.
        dtype: of the file.
        changes: tensors to replace or (None) to leave out.
        config: more keys of config.json.
    """
    hidden, drafted = hidden or width, drafted or vocabulary
    generator = torch.Generator().manual_seed(seed)

    def weight(*shape: int, around: float = 0.0) -> Tensor:
        return around + torch.randn(*shape, generator=generator) * (0.1 if around else 0.3)

    heads, keys, inner = 4, 2, 48
    size = hidden // heads
    count = len(taps) if taps else 3
    out: dict[str, Tensor] = {}
    for i in range(layers):
        at = "midlayer." if style == "eagle3" and layers == 1 else f"layers.{i}."
        reads = 2 * hidden if i == 0 and style != "eagle1" else hidden
        for name, rows in (("q", heads), ("k", keys), ("v", keys)):
            out[f"{at}self_attn.{name}_proj.weight"] = weight(rows * size, reads)
            if bias and style != "eagle1":
                out[f"{at}self_attn.{name}_proj.bias"] = weight(rows * size)
        out[f"{at}self_attn.o_proj.weight"] = weight(hidden, heads * size)
        out[f"{at}mlp.gate_proj.weight"], out[f"{at}mlp.up_proj.weight"] = weight(inner, hidden), weight(inner, hidden)
        out[f"{at}mlp.down_proj.weight"] = weight(hidden, inner)
        out[f"{at}post_attention_layernorm.weight"] = weight(hidden, around=1.0)
        if i or style != "eagle1":
            out[f"{at}input_layernorm.weight"] = weight(hidden, around=1.0)
        if i == 0 and style != "eagle1":
            out[f"{at}hidden_norm.weight"] = weight(hidden, around=1.0)
        if style == "deepspec":
            out |= {f"{at}self_attn.{name}_norm.weight": weight(size, around=1.0) for name in "qk"}
    out["fc.weight"] = weight(hidden, 2 * hidden if style == "eagle1" else count * width)
    if style == "eagle1" and bias:
        out["fc.bias"] = weight(hidden)
    if style != "eagle1":
        out["norm.weight"] = weight(hidden, around=1.0)
        if own_head:
            out["lm_head.weight"] = weight(drafted, hidden)
    if config.get("norm_before_fc"):
        out["input_norm.weight"] = weight(count * width, around=1.0)
    if config.get("fc_norm"):
        out |= {f"fc_norm.{i}.weight": weight(width, around=1.0) for i in range(count)}
    if own_embeddings:
        out["embed_tokens.weight"] = weight(vocabulary, hidden)
    out = {name: tensor.to(dtype) for name, tensor in out.items()}
    if drafted != vocabulary:
        kept = torch.randperm(vocabulary, generator=generator)[:drafted].sort().values
        out["d2t"] = kept - torch.arange(drafted)
        out["t2d"] = torch.zeros(vocabulary, dtype=torch.bool).index_fill_(0, kept, True)
    for name, tensor in (changes or {}).items():
        out.pop(name, None)
        if tensor is not None:
            out[name] = tensor
    figures: dict[str, Any] = {
        "model_type": "llama",
        "hidden_size": hidden,
        "intermediate_size": inner,
        "num_attention_heads": heads,
        "num_key_value_heads": keys,
        "num_hidden_layers": layers,
        "rms_norm_eps": 1e-5,
        "hidden_act": "silu",
        "max_position_embeddings": 256,
        "vocab_size": vocabulary,
    }
    key = "eagle_aux_hidden_state_layer_ids"
    match style:
        case "eagle1":
            made = {**figures, "architectures": ["LlamaForCausalLM"], "bias": bias}
        case "eagle3":
            made = {**figures, "architectures": ["LlamaForCausalLMEagle3"], "draft_vocab_size": drafted}
            if taps:
                made["eagle_config"] = {key: list(taps), "use_aux_hidden_state": True}
        case "deepspec":
            made = {**figures, "architectures": ["Qwen3Eagle3Model"], "ttt_length": 7, "target_layer_ids": list(taps or ())}
        case "speculators":
            made = {
                "architectures": ["Eagle3Speculator"],
                "speculators_model_type": "eagle3",
                "draft_vocab_size": drafted,
                "norm_before_residual": True,
                key: list(taps) if taps else None,
                "transformer_layer_config": figures,
                "speculators_config": {"algorithm": "eagle3", "verifier": {"name_or_path": "owner/verifier"}},
            }
    folder.mkdir(parents=True, exist_ok=True)
    save_file({name: tensor.contiguous() for name, tensor in out.items()}, folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps({k: v for k, v in (made | config).items() if v != "absent"}))
    return folder


def write_medusa(
    folder: Path,
    *,
    named: Literal["old", "prefixed", "new"] = "old",
    heads: int = 3,
    blocks: int = 1,
    bias: bool = True,
    width: int = WIDTH,
    vocabulary: int = VOCAB,
    drafted: int = 0,
    whole: bool = False,
    shared: bool = False,
    seed: int = 0,
    scale: float = 0.3,
    dtype: torch.dtype = torch.float32,
    changes: TensorChanges | None = None,
    **config: Any,
) -> Path:
    """Write Medusa heads.

    Args:
        named: how their tensors are: as FasterDecoding's training names them, with its prefix, or as vLLM does.
        heads, blocks: how many, and residual blocks of each.
        bias: whether the blocks have one.
        width, vocabulary: the target's.
        drafted: how many tokens they can draft, if not all.
        whole: whether their LM heads have rows of all tokens even so.
        shared: whether all have one LM head.
        seed, scale: of the weights.
    """
    drafted = drafted or vocabulary
    rows = vocabulary if whole else drafted
    generator = torch.Generator().manual_seed(seed)

    def weight(*shape: int) -> Tensor:
        return (torch.randn(*shape, generator=generator) * scale).to(dtype)

    out: dict[str, Tensor] = {}
    for head in range(heads):
        for block in range(blocks):
            at = f"blocks.{head}.layers.{block}" if named == "new" else f"{head}.{block}.linear"
            out[f"{at}.weight"] = weight(width, width)
            if bias:
                out[f"{at}.bias"] = weight(width)
        if not shared:
            out[f"lm_heads.{head}.weight" if named == "new" else f"{head}.{blocks}.weight"] = weight(rows, width)
    if shared:
        out["lm_head.weight"] = weight(rows, width)
    if named == "prefixed":
        out = {f"medusa_heads.{name}": tensor for name, tensor in out.items()}
    if drafted != vocabulary:
        out["token_map"] = torch.randperm(vocabulary, generator=generator)[:drafted].sort().values
    for name, tensor in (changes or {}).items():
        out.pop(name, None)
        if tensor is not None:
            out[name] = tensor
    told: dict[str, Any] = {"medusa_num_heads": 2, "medusa_num_layers": blocks, "base_model_name_or_path": "owner/base"}
    if named == "new":
        told = {"model_type": "medusa", "num_heads": heads, "num_hidden_layers": blocks, "hidden_size": width}
    folder.mkdir(parents=True, exist_ok=True)
    save_file(out, folder / "medusa_lm_head.safetensors")
    (folder / "config.json").write_text(json.dumps(told | config))
    return folder


def load(folder: Path, model: TransformersModel | None = None) -> Head:
    """The head in a folder, beside its target."""
    found = read_format(folder, check_folder(folder))
    assert found is not None
    return load_head(found, folder.name, model or target())


def load_eagle(folder: Path, model: TransformersModel | None = None) -> PathHead:
    """The EAGLE head in a folder."""
    head = load(folder, model)
    assert isinstance(head, PathHead)
    return head


def load_medusa(folder: Path, model: TransformersModel | None = None) -> MedusaHead:
    """The Medusa heads in a folder."""
    head = load(folder, model)
    assert isinstance(head, MedusaHead)
    return head


def load_dflash(folder: Path, model: TransformersModel | None = None) -> BlockHead:
    """The DFlash drafter in a folder."""
    head = load(folder, model)
    assert isinstance(head, BlockHead)
    return head


@functools.cache
def random_medusa() -> MedusaHead:
    """Heads that know nothing, for `target`."""
    return load_medusa(write_medusa(Path(_room().name) / "random-medusa"))


def _reading_on(name: str, target: TransformersModel, outputs: Sequence[Tensor]) -> MedusaHead:
    """Heads that are nothing but an LM head each [vocab, vocab]."""
    changes = {f"{head}.0.weight": output for head, output in enumerate(outputs)}
    folder = write_medusa(Path(_room().name) / name, heads=len(outputs), blocks=0, changes=changes)
    return load_medusa(folder, target)


@functools.cache
def right_medusa() -> MedusaHead:
    """Heads that always draft what `cyclic_target` chooses."""
    return _reading_on("right-medusa", cyclic_target(), [2 * torch.eye(VOCAB).roll(ahead, 0) for ahead in (2, 3, 4)])


@functools.cache
def unsure_medusa() -> MedusaHead:
    """Heads that draft tokens of `unsure_target`, with other probabilities."""
    return _reading_on("unsure-medusa", unsure_target(), [_following(ahead, (1.0, 1.6, 1.2)) for ahead in (2, 4)])


@functools.cache
def random_dflash() -> BlockHead:
    """A drafter that knows nothing, for `target`."""
    return load_dflash(write_dflash(Path(_room().name) / "random-dflash"))


@functools.cache
def random_paths(paths: Paths) -> BlockHead:
    """A drafter that knows nothing and whose guesses go by the token before, for `target`."""
    return load_dflash(write_dflash(Path(_room().name) / f"random-{paths}", paths=paths))


def _stepping_on(name: str, target: TransformersModel, second: bool, follows: Tensor) -> BlockHead:
    """A drafter whose states are all alike, so that the token before alone says what follows it.

    Args:
        second: whether it is DFlash 2; else DSpark.
        follows: the scores of what follows a token [vocab, vocab], as an LM head has them.
    """
    one, zero = torch.eye(VOCAB), torch.zeros(VOCAB, VOCAB)
    changes = {
        "fc.weight": torch.zeros(VOCAB, 2 * VOCAB),
        "embed_tokens.weight": torch.ones(VOCAB, VOCAB),
        "lm_head.weight": zero,
    }
    changes |= {"norm.weight": torch.ones(VOCAB), "layers.0.mlp.down_proj.weight": torch.zeros(VOCAB, 48)}
    changes["layers.0.self_attn.o_proj.weight"] = zero
    if second:
        at = "candidate_selector."
        changes |= {f"{at}predecessor_codebook": one, f"{at}successor_codebook": follows}
        changes[f"{at}hidden_projection.weight"] = one
    else:
        changes |= {"markov_head.markov_w1.weight": one, "markov_head.markov_w2.weight": follows}
    sizes: dict[str, Any] = {
        "layers": 1,
        "block": 4 if second else 3,
        "rank": VOCAB,
        "candidates": VOCAB,
        "own_embeddings": True,
    }
    sizes |= {"heads": 2, "head": VOCAB // 2, "width": VOCAB, "hidden": VOCAB, "paths": "dflash2" if second else "vanilla"}
    return load_dflash(write_dflash(Path(_room().name) / name, changes=changes, **sizes), target)


@functools.cache
def right_paths(second: bool) -> BlockHead:
    """A drafter that always drafts what `cyclic_target` chooses, three tokens at a time."""
    return _stepping_on(f"right-paths-{second}", cyclic_target(), second, 8 * torch.eye(VOCAB).roll(1, 0))


@functools.cache
def unsure_paths(second: bool) -> BlockHead:
    """A drafter that drafts tokens of `unsure_target`, with other probabilities."""
    return _stepping_on(f"unsure-paths-{second}", unsure_target(), second, VOCAB**0.5 * _following(1, (1.0, 1.6, 1.2)))


def _counting_on(name: str, target: TransformersModel, positions: int, lm_head: Tensor) -> BlockHead:
    """A drafter whose position n stands for the token n after the pending one, more or less: each layer hands what the position
    before stands for on to the next, one token further. Masks stand for nothing, and the target's states are not read.

    Args:
        lm_head: what a position drafts [vocab, vocab].
    """
    folder, zero, one = Path(_room().name) / name, torch.zeros(VOCAB, VOCAB), torch.eye(VOCAB)
    changes = {
        "fc.weight": torch.zeros(VOCAB, 2 * VOCAB),
        "embed_tokens.weight": 1000 * one.index_fill(0, torch.tensor(3), 0.0),
    }
    changes |= {"lm_head.weight": lm_head, "norm.weight": torch.ones(VOCAB)}
    for i in range(positions):
        at = f"layers.{i}."
        changes |= {f"{at}self_attn.{name}_proj.weight": zero for name in "qk"}
        changes |= {f"{at}self_attn.v_proj.weight": one.roll(1, 0), f"{at}self_attn.o_proj.weight": one}
        changes[f"{at}mlp.down_proj.weight"] = torch.zeros(VOCAB, 48)
        changes[f"{at}input_layernorm.weight"] = torch.ones(VOCAB)
    options: dict[str, Any] = {"layer_types": ["sliding_attention"] * positions, "sliding_window": 2, "own_embeddings": True}
    options |= {"layers": positions, "block": positions + 1, "heads": 2, "head": VOCAB // 2, "width": VOCAB, "hidden": VOCAB}
    return load_dflash(write_dflash(folder, changes=changes, **options), target)


@functools.cache
def right_dflash() -> BlockHead:
    """A drafter that always drafts what `cyclic_target` chooses, three tokens at a time."""
    return _counting_on("right-dflash", cyclic_target(), 3, 8 * torch.eye(VOCAB))


@functools.cache
def unsure_dflash() -> BlockHead:
    """A drafter that drafts tokens of `unsure_target`, with other probabilities."""
    return _counting_on("unsure-dflash", unsure_target(), 2, _following(0, (1.0, 1.6, 1.2)))


@functools.cache
def random_head(style: Style = "eagle3") -> PathHead:
    """A head that knows nothing, for `target`."""
    return load_eagle(write_head(Path(_room().name) / f"random-{style}", style))


@functools.cache
def tiny_head(kind: Kind) -> Head:
    """A head of a kind that knows nothing, for tiny.py's Llama."""
    folder = Path(_room().name) / f"tiny-{kind}"
    if kind == "dflash":
        return load(write_dflash(folder, taps=(0, 1)), tiny_model("llama"))
    head = load(write_medusa(folder) if kind == "medusa" else write_head(folder), tiny_model("llama"))
    if kind == "mtp":  # which no Llama has; it drafts as an EAGLE head does
        head.info = replace(head.info, kind=kind)
    return head


def _cyclic(name: str, lm_head: Tensor) -> TransformersModel:
    """A model that knows its last token alone: each token stands for itself in the residual stream, and the layers add nothing.

    Args:
        lm_head: what follows a token; the final norm makes it VOCAB**0.5 large.
    """
    folder = Path(_room().name) / name
    write_model("llama", folder, num_hidden_layers=LAYERS, hidden_size=VOCAB, num_attention_heads=4, head_dim=8)
    weights = load_weights(folder)
    for tensor_name, tensor in weights.items():
        if tensor_name.endswith(("o_proj.weight", "down_proj.weight")):
            tensor.zero_()
    weights["model.embed_tokens.weight"] = torch.eye(VOCAB)
    weights["lm_head.weight"] = lm_head.index_fill(0, torch.tensor([1]), 0.0)  # no end
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    return load_transformers(folder, name, LoadOptions(device="cpu"))


def _following(first: int, logits: Sequence[float]) -> Tensor:
    """An LM head that gives these logits to the tokens from the `first` after the last on [vocab, vocab]."""
    out = torch.zeros(VOCAB, VOCAB)
    for ahead, logit in enumerate(logits, first):
        out += logit * torch.eye(VOCAB).roll(ahead, 0) / VOCAB**0.5
    return out


@functools.cache
def cyclic_target() -> TransformersModel:
    """A model whose next token is the one after the last, whatever came before."""
    return _cyclic("cyclic", 2 * torch.eye(VOCAB).roll(1, 0))


@functools.cache
def unsure_target() -> TransformersModel:
    """A model that is not sure which of the three tokens after the last comes next."""
    return _cyclic("unsure", _following(1, (2.0, 1.4, 1.0)))


def load_weights(folder: Path, file: str = "model") -> dict[str, Tensor]:
    """The tensors of a folder with one file."""
    from safetensors.torch import load_file

    return load_file(folder / f"{file}.safetensors")


def _handing_on(name: str, target: TransformersModel, scale: float) -> PathHead:
    """A head that hands the token's embedding on to the target's LM head, so large."""
    folder = write_head(Path(_room().name) / name, "eagle1", hidden=VOCAB)
    weights = load_weights(folder)
    for tensor_name, tensor in weights.items():
        if tensor_name.endswith(("o_proj.weight", "down_proj.weight")):
            tensor.zero_()
    weights["fc.weight"] = torch.cat((scale * torch.eye(VOCAB), torch.zeros(VOCAB, VOCAB)), 1)
    save_file(weights, folder / "model.safetensors")
    return load_eagle(folder, target)


@functools.cache
def right_head() -> PathHead:
    """The head that always drafts what `cyclic_target` chooses, and is as sure of it."""
    return _handing_on("right", cyclic_target(), VOCAB**0.5)


@functools.cache
def unsure_head() -> PathHead:
    """A head that drafts the tokens of `unsure_target`, but prefers none as much: its distribution is another one."""
    return _handing_on("unsure-head", unsure_target(), 0.2 * VOCAB**0.5)
