"""Trained drafters in GGUF, identified by their metadata: EAGLE-3 heads, DFlash, DFlash 2 and DSpark drafters, and Gemma 4's
assistants. llama.cpp's converter writes them (`convert_hf_to_gguf.py HEAD --target-model-dir TARGET`), as does ours all but the
assistants.

Only the fit to the target is checked here; llama.cpp finds other faults when it loads the file.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

from ...errors import UserError, counted
from ..files.gguf_file import Header, Layout, Tensor
from .base import Kind
from .dflash.format import MOST_BLOCK, BlockShape, Markov, Selector, dflash_title
from .formats import Format, Reading, Target

ASSISTANT = "gemma4-assistant"

DRAFTERS = ("eagle3", "dflash", ASSISTANT)
"""Architectures of drafters in llama.cpp."""

TAPS = 3
"""Number of the target's layers that an EAGLE-3 head reads in llama.cpp."""

UNREAD = ("masked_embd_centroids.weight", "masked_embd_ordering.weight", "masked_embd_ordering")
"""Tensors of an assistant with a clustered vocabulary; llama.cpp scores all of it."""


@dataclass(frozen=True, slots=True)
class GgufFormat(Format):
    """A trained drafter's GGUF file. The tensors keep their names."""

    runtime: ClassVar[Literal["transformers", "llama.cpp"]] = "llama.cpp"
    header: Header
    tensors: Mapping[str, Tensor]

    def figure(self, key: str) -> int:
        """Read a whole number above 0 from the metadata.

        Raises:
            UserError: it is missing, or something else.
        """
        return _integer(self.folder, self.header, f"{self.header.architecture}.{key}", least=1)

    def taps(self, name: str, target: Target) -> tuple[int, ...]:
        """Read the layers whose inputs it reads (`target_layers`).

        Raises:
            UserError: none are listed, or the target does not have them.
        """
        taps = self.header.metadata.get(f"{self.header.architecture}.target_layers")
        if not isinstance(taps, list) or not taps or not all(isinstance(tap, int) and tap >= 0 for tap in taps):
            raise UserError(f"{self.folder} is damaged (target_layers is {str(taps)[:40]}). Download it again.")
        if any(tap >= target.layers for tap in taps):
            raise self.too_deep(name, target)
        return tuple(taps)


@dataclass(frozen=True, slots=True)
class GgufEagleFormat(GgufFormat):
    """An EAGLE-3 head."""

    kind: ClassVar[Kind] = "eagle"

    def fitting(self, name: str, target: Target) -> list[Reading]:
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
class GgufDFlashFormat(BlockShape, GgufFormat):
    """A DFlash, DFlash 2 or DSpark drafter."""

    kind: ClassVar[Kind] = "dflash"
    paths: Markov | Selector | None
    """The layers through which the token before a position changes its guesses; None in a drafter without them."""
    block: int
    mask: int
    from_anchor: bool
    causal: bool
    """Whether positions of the block see only those before them."""
    logit_scale: float
    softcap: float
    """Soft cap of the logits, which llama.cpp does not apply itself; 0 for none."""

    def fitting(self, name: str, target: Target) -> list[Reading]:
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
        self.check_vocabulary(name, target)
        self.check_width(name, target, self.figure("embedding_length_out"))
        return [Reading((target.layers,))]

    def check_keys(self, name: str, target: str, header: Header) -> None:
        """Check that the target ends in a layer with a window and one without, whose keys and values llama.cpp hands to the
        assistant's layers of these kinds.

        Args:
            name: of the drafter.
            target: the target's name.
            header: the target's.

        Raises:
            UserError: it does not.
        """
        if not header.architecture.startswith("gemma4"):
            raise self.misfit(f"{name} is an assistant of Gemma 4, and {target} is none")
        layers = header.number("block_count")
        slides = header.metadata.get(f"{header.architecture}.attention.sliding_window_pattern")
        if not isinstance(slides, list) or slides[layers - 2 : layers] != [True, False]:
            raise self.misfit(f"{name} reads a layer with a window and one without, which {target} does not end in")


def read_gguf_format(layouts: Sequence[Layout]) -> GgufFormat | None:
    """Identify the trained drafter in a GGUF file; None for anything else.

    Args:
        layouts: the layout of each part of the file.

    Raises:
        UserError: it cannot be used here; says why.
    """
    first = layouts[0]
    header = first.header
    if header.architecture not in DRAFTERS:
        return None
    if len(layouts) > 1:
        raise UserError(f"{first.file} is in {len(layouts)} parts, which specchat does not read of a drafter. Merge them.")
    tensors = {tensor.name: tensor for tensor in first.tensors}
    shapes = {name: tensor.shape for name, tensor in tensors.items()}
    fields: dict[str, Any] = {
        "folder": first.file,
        "names": {},
        "shapes": shapes,
        "vocabulary": header.vocabulary,
        "trained_for": "",
        "header": header,
        "tensors": tensors,
    }
    if header.architecture == ASSISTANT:
        return GgufAssistantFormat(title="Gemma 4 assistant", **fields)
    if header.architecture == "eagle3":
        return GgufEagleFormat(title="EAGLE-3", **fields)
    paths = _paths(first, shapes)
    return GgufDFlashFormat(
        title=dflash_title(paths),
        paths=paths,
        block=_integer(first.file, header, "dflash.block_size", default=16, least=2, most=MOST_BLOCK),
        from_anchor=isinstance(paths, Markov) and bool(header.metadata.get("dflash.sample_from_anchor", True)),
        mask=_integer(first.file, header, "tokenizer.ggml.mask_token_id", most=1 << 31),
        causal=bool(header.metadata.get("dflash.attention.causal", False)),
        logit_scale=float(header.metadata.get("dflash.logit_scale", 0.0)),
        softcap=float(header.metadata.get("dflash.final_logit_softcapping", 0.0)),
        **fields,
    )


def _paths(layout: Layout, shapes: Mapping[str, tuple[int, ...]]) -> Markov | Selector | None:
    """Detect DSpark's or DFlash 2's head; None in plain DFlash."""
    if "markov_w1.weight" in shapes:
        return Markov("vanilla", shapes["markov_w1.weight"][-1])
    if not any(name.startswith("selector_") for name in shapes):
        return None
    if "d2t" in shapes:
        raise UserError(f"{layout.file} drafts a part of the vocabulary, which DFlash 2 does not do. Use another drafter.")
    return Selector(layout.header.number("selector_top_k", 16))


def _integer(file: Path, header: Header, key: str, *, default: int | None = None, least: int = 0, most: int = 1 << 62) -> int:
    """Read a whole number from the metadata.

    Raises:
        UserError: it is missing, or not in the range.
    """
    value = header.metadata.get(key, default)
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise UserError(f"{file} is damaged ({key.rpartition('.')[2]} is {str(value)[:40]}). Download it again.")
    return value
