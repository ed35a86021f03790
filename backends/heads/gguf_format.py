"""Trained drafters as GGUF files, told by their metadata: EAGLE-3 heads, DFlash, DFlash 2 and DSpark drafters, and Gemma 4's
assistants. llama.cpp's converter writes them (`convert_hf_to_gguf.py HEAD --target-model-dir TARGET`), as does ours all but the
assistants.

Only what tells another target's drafter is looked at: what else may be wrong with one, llama.cpp finds out.
"""

from __future__ import annotations

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

UNREAD = ("masked_embd_centroids.weight", "masked_embd_ordering.weight", "masked_embd_ordering")
"""Tensors of an assistant with a clustered vocabulary; llama.cpp scores all of it."""

MOST_BLOCK = 256


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
        return [Reading(taps)]


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
        self.check_width(name, target, self.figure("embedding_length"))
        taps = self.taps(name, target)
        self.check_mask(name, target, self.mask)
        return [Reading(taps)]


@dataclass(frozen=True, slots=True)
class GgufAssistantFormat(GgufFormat):
    """An assistant of Gemma 4."""

    kind: ClassVar[Kind] = "eagle"
    reads_keys: ClassVar[bool] = True

    def fitting(self, name: str, target: Target) -> list[Reading]:
        """The one reading: llama.cpp lets it stand at the pending token's position only."""
        self.check_vocabulary(name, target)
        self.check_width(name, target, self.figure("embedding_length_out"))
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


def _dflash_paths(layout: Layout, shapes: Mapping[str, tuple[int, ...]]) -> Markov | Selector | None:
    """What makes a drafter's guesses go by the token before."""
    if "markov_w1.weight" in shapes:
        return Markov("vanilla", shapes["markov_w1.weight"][-1])
    if not any(name.startswith("selector_") for name in shapes):
        return None
    if "d2t" in shapes:
        raise UserError(f"{layout.file} drafts a part of the vocabulary, which DFlash 2 does not do. Use another drafter.")
    return Selector(layout.header.number("selector_top_k", 16))


def _dflash(layout: Layout, known: Mapping[str, Any]) -> GgufDFlashFormat:
    """A DFlash, DFlash 2 or DSpark drafter.

    Args:
        known: what all formats have.
    """
    data = layout.header.metadata
    paths = _dflash_paths(layout, known["shapes"])
    markov = isinstance(paths, Markov)
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
