"""Trained drafters as GGUF files, told by their metadata: EAGLE-3 heads, DFlash, DFlash 2 and DSpark drafters, and Gemma 4's
assistants. llama.cpp's converter writes them (`convert_hf_to_gguf.py HEAD --target-model-dir TARGET`), as does ours all but the
assistants.

llama.cpp ends the process over much that is wrong with them, so all of that is looked at here first.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from ...errors import UserError, counted
from ..files.gguf_file import Header, Layout, Tensor
from .base import Kind
from .dflash.format import Markov, Selector
from .formats import Format, Reading, Target

ASSISTANT = "gemma4-assistant"

DRAFTERS = ("eagle3", "dflash", ASSISTANT)
"""Architectures of those that llama.cpp knows."""

TAPS = 3
"""How many of the target's layers an EAGLE-3 head reads in llama.cpp."""

PATTERN = "attention.sliding_window_pattern"

UNREAD = ("masked_embd_centroids.weight", "masked_embd_ordering.weight", "masked_embd_ordering")
"""Tensors of an assistant with a clustered vocabulary; llama.cpp scores all of it."""

MOST_BLOCK = 256

I64 = 27
"""ggml_type of the table of a reduced vocabulary."""


@dataclass(frozen=True, slots=True)
class GgufFormat(Format):
    """A trained drafter's GGUF file. The tensors keep their names."""

    runtime: ClassVar[Literal["transformers", "llama.cpp"]] = "llama.cpp"
    header: Header
    tensors: Mapping[str, Tensor]

    def figure(self, key: str, default: int | None = None) -> int:
        """A whole number above 0 of the metadata.

        Raises:
            UserError: there is none.
        """
        value = self.header.metadata.get(f"{self.header.architecture}.{key}", default)
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise UserError(f"{self.folder} is damaged ({key} is {str(value)[:40]}). Download it again.")
        return value

    def taps(self, name: str, target: Target) -> tuple[int, ...]:
        """The layers whose inputs it reads.

        Raises:
            UserError: there are none, or the target does not have them.
        """
        taps = self.header.metadata.get(f"{self.header.architecture}.target_layers")
        if not isinstance(taps, list) or not taps or not all(isinstance(tap, int) and tap >= 0 for tap in taps):
            raise UserError(f"{self.folder} is damaged (target_layers is {str(taps)[:40]}). Download it again.")
        if any(tap >= target.layers for tap in taps):
            raise UserError(
                f"{name} reads the inputs of layers that {target.name} does not have ({', '.join(map(str, taps))}): it has "
                f"{counted(target.layers, 'layer')}. {self.made_for}"
            )
        return tuple(taps)

    def check_table(self, name: str, target: Target) -> None:
        """Refuse a table that does not lead to the target's tokens, each once."""
        tensor = self.tensors.get("d2t")
        if tensor is None:
            return
        ids = array("q")
        if tensor.kind == I64:
            with self.folder.open("rb") as file:
                file.seek(tensor.begin)
                ids.frombytes(file.read(tensor.length))
        if not ids or len(set(ids)) < len(ids) or min(ids) < 0 or max(ids) >= target.vocabulary:
            raise UserError(
                f"{name} is damaged: its table d2t does not lead to tokens of {target.name}, each once. Download it again."
            )

    def attention(self, width: int, reads: int, at: str) -> dict[str, tuple[int, ...]]:
        """A layer's attention, whose heads' sizes llama.cpp takes from the metadata.

        Args:
            width: of what it gives.
            reads: of what it is given.
            at: the layer's prefix.

        Raises:
            UserError: the metadata do not go together.
        """
        heads = self.figure("attention.head_count")
        keys = self.figure("attention.head_count_kv", heads)
        size = self.figure("attention.key_length", width // heads or 1)
        turned = self.figure("rope.dimension_count", size)
        if heads % keys or turned % 2 or turned > size or self.figure("attention.value_length", size) != size:
            raise UserError(f"{self.folder} is damaged (its attention heads do not go together). Download it again.")
        return {
            f"{at}attn_q.weight": (heads * size, reads),
            f"{at}attn_k.weight": (keys * size, reads),
            f"{at}attn_v.weight": (keys * size, reads),
            f"{at}attn_output.weight": (width, heads * size),
        }


@dataclass(frozen=True, slots=True)
class GgufEagleFormat(GgufFormat):
    """An EAGLE-3 head."""

    kind: ClassVar[Kind] = "eagle"

    def fitting(self, name: str, target: Target) -> list[Reading]:
        """The one reading: `target_layers` counts layers' inputs (see `Format.fitting`)."""
        self.check_vocabulary(name, target)
        self.check_width(name, target, self.figure("target_hidden_size"))
        taps = self.taps(name, target)
        if len(taps) != TAPS or self.figure("block_count") != 1:
            raise UserError(
                f"llama.cpp's EAGLE-3 heads have one layer and read {TAPS} of the target's. {name} has "
                f"{counted(self.figure('block_count'), 'layer')} and reads {len(taps)}. Use another drafter."
            )
        self.check_tensors(name, target, self._expected(target))
        self.check_table(name, target)
        return [Reading(taps, bool(self._told("norm_before_residual")))]

    def _told(self, key: str) -> Any:
        return self.header.metadata.get(f"eagle3.{key}")

    def _expected(self, target: Target) -> dict[str, tuple[int, ...]]:
        """The tensors that a head needs and their shapes. Without embeddings or an LM head it uses the target's."""
        width, inner = self.figure("embedding_length"), self.figure("feed_forward_length")
        drafted = self.shapes["d2t"][0] if len(self.shapes.get("d2t", ())) == 1 else target.vocabulary
        reads = TAPS * target.width
        out: dict[str, tuple[int, ...]] = {"fc.weight": (width, reads), "output_norm.weight": (width,)}
        out |= {f"blk.0.{norm}.weight": (width,) for norm in ("attn_norm", "attn_norm_2", "ffn_norm")}
        out |= self.attention(width, 2 * width, "blk.0.")
        out |= {f"blk.0.ffn_{part}.weight": (inner, width) for part in ("gate", "up")}
        out["blk.0.ffn_down.weight"] = (width, inner)
        if self._told("norm_before_fc"):
            out["enc.output_norm.weight"] = (reads,)
        if "d2t" in self.shapes:
            out["d2t"] = (drafted,)
        if "output.weight" in self.shapes or "d2t" in self.shapes or width != target.width:
            out["output.weight"] = (drafted, width)
        if "token_embd.weight" in self.shapes or width != target.width:
            out["token_embd.weight"] = (target.vocabulary, width)
        if "rope_freqs.weight" in self.shapes:
            size = self.figure("attention.key_length", width // self.figure("attention.head_count"))
            out["rope_freqs.weight"] = (self.figure("rope.dimension_count", size) // 2,)
        return out


@dataclass(frozen=True, slots=True)
class GgufDFlashFormat(GgufFormat):
    """A DFlash, DFlash 2 or DSpark drafter."""

    kind: ClassVar[Kind] = "dflash"
    paths: Markov | Selector | None
    """What makes its guesses go by the token before."""
    block: int
    """Positions of a pass, the pending token's among them."""
    from_anchor: bool
    """Whether the pending token's own output is the first guess, as in DSpark; else it is the first mask's."""
    mask: int
    """The token that stands for one not known yet."""
    causal: bool
    """Whether positions of the block see only those before them."""
    logit_scale: float
    softcap: float
    """What llama.cpp leaves to whoever reads the logits; 0 for none."""

    @property
    def positions(self) -> int:
        """The most that it guesses."""
        return self.block if self.from_anchor else self.block - 1

    def fitting(self, name: str, target: Target) -> list[Reading]:
        """The one reading: `target_layers` counts layers' inputs (see `Format.fitting`)."""
        self.check_vocabulary(name, target)
        width = self.figure("embedding_length")
        self.check_width(name, target, width)
        taps = self.taps(name, target)
        self.check_tensors(name, target, self._expected(target, len(taps)))
        self.check_table(name, target)
        self.check_mask(name, target, self.mask)
        return [Reading(taps)]

    def _expected(self, target: Target, taps: int) -> dict[str, tuple[int, ...]]:
        """The tensors that a drafter needs and their shapes. Without embeddings or an LM head it uses the target's."""
        width, inner, heads = target.width, self.figure("feed_forward_length"), self.figure("attention.head_count")
        size = self.figure("attention.key_length", width // heads or 1)
        drafted = self.shapes["d2t"][0] if len(self.shapes.get("d2t", ())) == 1 else target.vocabulary
        out: dict[str, tuple[int, ...]] = {"fc.weight": (width, taps * width)}
        out |= dict.fromkeys(("enc.output_norm.weight", "output_norm.weight"), (width,))
        optional: dict[str, tuple[int, ...]] = {
            "d2t": (drafted,),
            "output.weight": (drafted, width),
            "token_embd.weight": (target.vocabulary, width),
            "rope_freqs.weight": (size // 2,),
        }
        for i in range(self.figure("block_count")):
            at = f"blk.{i}."
            out |= self.attention(width, width, at)
            out |= dict.fromkeys((f"{at}attn_norm.weight", f"{at}ffn_norm.weight"), (width,))
            out |= dict.fromkeys((f"{at}attn_q_norm.weight", f"{at}attn_k_norm.weight"), (size,))
            out |= dict.fromkeys((f"{at}ffn_gate.weight", f"{at}ffn_up.weight"), (inner, width))
            out[f"{at}ffn_down.weight"] = (width, inner)
            optional |= dict.fromkeys((f"{at}post_attention_norm.weight", f"{at}post_ffw_norm.weight"), (width,))
            optional[f"{at}attn_sinks.weight"] = (heads,)
        if "d2t" in self.shapes:
            out["output.weight"] = (drafted, width)
        if isinstance(self.paths, Markov):
            rank = self.paths.rank
            out |= {"markov_w1.weight": (target.vocabulary, rank), "markov_w2.weight": (drafted, rank)}
            optional |= {"conf_proj.weight": (1, width + rank), "conf_proj.bias": (1,)}
        if isinstance(self.paths, Selector):
            out |= self._selector(self.paths, width, target)
        return out | {name: shape for name, shape in optional.items() if name in self.shapes}

    def _selector(self, paths: Selector, width: int, target: Target) -> dict[str, tuple[int, ...]]:
        """The tensors that only DFlash 2 has, and their shapes."""
        if width % paths.group or width < paths.candidates * (paths.candidates + 1):
            raise UserError(f"{self.folder} is damaged (its selector is too wide for its states). Download it again.")
        out: dict[str, tuple[int, ...]] = {"selector_hidden.weight": (paths.rank, width)}
        out |= {f"selector_{name}.weight": (target.vocabulary, paths.rank) for name in ("predecessor", "successor")}
        rows = 2 * paths.kernel * (width // paths.group)
        for at in (f"blk.{i}.{part}_conv" for i in range(paths.layers) for part in ("attn", "ffn")):
            out |= {f"{at}_base": (2, paths.kernel, width), f"{at}_proj.weight": (rows, width)}
        return out


@dataclass(frozen=True, slots=True)
class GgufAssistantFormat(GgufFormat):
    """An assistant of Gemma 4."""

    kind: ClassVar[Kind] = "eagle"
    reads_keys: ClassVar[bool] = True

    def fitting(self, name: str, target: Target) -> list[Reading]:
        """The one reading: llama.cpp lets it stand at the pending token's position only."""
        self.check_vocabulary(name, target)
        self.check_width(name, target, self.figure("embedding_length_out"))
        layers = self.figure("block_count")
        if self.figure("nextn_predict_layers") != layers or len(self._sliding()) != layers:
            raise UserError(f"{self.folder} is damaged (its layers are not all told of). Download it again.")
        self.check_tensors(name, target, self._expected(target), UNREAD)
        return [Reading((target.layers,))]

    def check_keys(self, name: str, target: str, header: Header) -> None:
        """Refuse a target whose keys and values are others than it reads: llama.cpp gives layers with a window those of the
        target's last layer but one, and the others those of the last.

        Args:
            name, target: of the two.
            header: the target's.

        Raises:
            UserError: they are.
        """
        if not header.architecture.startswith("gemma4"):
            raise UserError(f"{name} is an assistant of Gemma 4, and {target} is none. {self.made_for}")
        layers, slides = (
            header.number("block_count"),
            header.metadata.get(f"{header.architecture}.attention.sliding_window_pattern"),
        )
        if not isinstance(slides, list) or slides[layers - 2 : layers] != [True, False]:
            raise UserError(
                f"{name} reads a layer with a window and one without, which {target} does not end in. {self.made_for}"
            )
        theirs = header.per_layer("attention.head_count_kv", layers)[-2:]
        for layer, (slides, heads) in enumerate(zip(self._sliding(), self._heads("attention.head_count_kv"), strict=True)):
            size, end = self._size(slides), "_swa" * slides
            if heads != theirs[not slides] or header.number(f"attention.key_length{end}") != size:
                what = f"its layer {layer} reads {counted(heads, 'key head')} of {size}"
                raise UserError(f"{name} does not fit {target}: {what}. {self.made_for}")

    def _sliding(self) -> list[bool]:
        """Whether each layer has a window."""
        told = self.header.metadata.get(f"{ASSISTANT}.{PATTERN}")
        return [bool(each) for each in told] if isinstance(told, list) else []

    def _heads(self, key: str) -> list[int]:
        return self.header.per_layer(key, self.figure("block_count"), self.header.number("attention.head_count"))

    def _size(self, slides: bool) -> int:
        size = self.figure("attention.key_length" + "_swa" * slides)
        if self.figure("attention.value_length" + "_swa" * slides) != size:
            raise UserError(f"{self.folder} is damaged (its attention heads do not go together). Download it again.")
        return size

    def _expected(self, target: Target) -> dict[str, tuple[int, ...]]:
        own, inners = self.figure("embedding_length"), self._heads("feed_forward_length")
        out: dict[str, tuple[int, ...]] = {"token_embd.weight": (target.vocabulary, own), "output_norm.weight": (own,)}
        out |= {"nextn.pre_projection.weight": (own, 2 * target.width), "nextn.post_projection.weight": (target.width, own)}
        for i, (slides, heads) in enumerate(zip(self._sliding(), self._heads("attention.head_count"), strict=True)):
            at, size = f"blk.{i}.", self._size(slides)
            norms = ("attn_norm", "post_attention_norm", "ffn_norm", "post_ffw_norm")
            out |= {f"{at}{norm}.weight": (own,) for norm in norms}
            out |= {f"{at}attn_q.weight": (heads * size, own), f"{at}attn_output.weight": (own, heads * size)}
            out |= {f"{at}attn_q_norm.weight": (size,), f"{at}layer_output_scale.weight": (1,)}
            out |= {f"{at}ffn_{part}.weight": (inners[i], own) for part in ("gate", "up")}
            out[f"{at}ffn_down.weight"] = (own, inners[i])
            if not slides:
                out["rope_freqs.weight"] = (size // 2,)
        return out


def _dflash_paths(layout: Layout, shapes: Mapping[str, tuple[int, ...]]) -> Markov | Selector | None:
    """What makes a drafter's guesses go by the token before."""
    if "markov_w1.weight" in shapes:
        return Markov("vanilla", shapes["markov_w1.weight"][-1])
    if not any(name.startswith("selector_") for name in shapes):
        return None
    keys = {"rank": "selector_rank", "candidates": "selector_top_k", "kernel": "conv_kernel_size", "group": "conv_group_size"}
    found: dict[str, int] = {}
    for ours, key in keys.items():
        value = layout.header.metadata.get(f"dflash.{key}")
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise UserError(f"{layout.file} is damaged ({key} is {str(value)[:40]}). Download it again.")
        found[ours] = value
    if "d2t" in shapes:
        raise UserError(f"{layout.file} drafts a part of the vocabulary, which DFlash 2 does not do. Use another drafter.")
    return Selector(**found, layers=layout.header.number("block_count"))


def _dflash(layout: Layout, known: Mapping[str, Any]) -> GgufDFlashFormat:
    """A DFlash, DFlash 2 or DSpark drafter.

    Args:
        known: what all formats have.
    """
    header, data = layout.header, layout.header.metadata
    paths = _dflash_paths(layout, known["shapes"])
    markov = isinstance(paths, Markov)
    others = {
        "DSpark for DeepSeek-V4": bool(header.number("hyper_connection.count")),
        "DFlash for a model with sections of rotary positions": "dflash.rope.dimension_sections" in data,
    }
    if other := next((title for title, there in others.items() if there), ""):
        raise UserError(
            f"{layout.file} holds {other}, which specchat cannot draft with yet. Use an EAGLE-3 head or a DFlash drafter."
        )
    told = {"block_size": data.get("dflash.block_size", 16), "mask_token_id": data.get("tokenizer.ggml.mask_token_id")}
    for key, (least, most) in {"block_size": (2, MOST_BLOCK), "mask_token_id": (0, 1 << 31)}.items():
        value = told[key]
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            raise UserError(f"{layout.file} is damaged ({key} is {str(value)[:40]}). Download it again.")
    scale, softcap = (data.get(f"dflash.{key}", 0.0) for key in ("logit_scale", "final_logit_softcapping"))
    return GgufDFlashFormat(
        **dict(known) | {"title": "DSpark" if markov else "DFlash 2" if paths is not None else "DFlash"},
        paths=paths,
        block=int(told["block_size"]),
        from_anchor=markov and bool(data.get("dflash.sample_from_anchor", True)),
        mask=int(told["mask_token_id"] or 0),
        causal=bool(data.get("dflash.attention.causal", False)),
        logit_scale=float(scale),
        softcap=float(softcap),
    )


def read_gguf_format(layouts: Sequence[Layout]) -> GgufFormat | None:
    """The trained drafter in a GGUF file; None for anything else.

    Args:
        layouts: of its parts.

    Raises:
        UserError: it is one that cannot be used here; says why.
    """
    first = layouts[0]
    if first.header.architecture not in DRAFTERS:
        return None
    if len(layouts) > 1:
        raise UserError(f"{first.file} is in {len(layouts)} parts, which specchat does not read of a drafter. Merge them.")
    tensors = {tensor.name: tensor for tensor in first.tensors}
    known: dict[str, Any] = {
        "folder": first.file,
        "title": "EAGLE-3",
        "names": {},
        "shapes": {name: tensor.shape for name, tensor in tensors.items()},
        "vocabulary": first.header.vocabulary,
        "trained_for": "",
        "header": first.header,
        "tensors": tensors,
    }
    if first.header.architecture == "dflash":
        return _dflash(first, known)
    if first.header.architecture == ASSISTANT:
        return GgufAssistantFormat(**known | {"title": "Gemma 4 assistant"})
    return GgufEagleFormat(**known)
