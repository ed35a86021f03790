"""Trained drafters in GGUF, identified by their metadata: EAGLE-3 heads, DFlash, DFlash 2 and DSpark drafters, and Gemma 4's
assistants. llama.cpp's converter writes them (`convert_hf_to_gguf.py HEAD --target-model-dir TARGET`), as does ours all but the
assistants.

Only the fit to the target is checked here; llama.cpp finds other faults when it loads the file.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from ..files.gguf_file import Header, Layout, Tensor
from .base import Kind
from .dflash.format import MOST_BLOCK, TITLES, BlockShape, Markov, Selector
from .formats import Format, Taps, figure, unreadable

ASSISTANT = "gemma4-assistant"

DRAFTERS = ("eagle3", "dflash", ASSISTANT)
"""Architectures of drafters in llama.cpp."""


@dataclass(frozen=True, slots=True)
class GgufFormat(Format):
    """A trained drafter's GGUF file. The tensors keep their names."""

    runtime: ClassVar[Literal["transformers", "llama.cpp"]] = "llama.cpp"
    header: Header
    tensors: Mapping[str, Tensor]
    listed: Taps
    """Layers whose inputs it reads; empty for the target's last state."""

    def taps(self, layers: int) -> Taps:
        return (self.listed or (layers,)) if all(tap < layers for tap in self.listed) else ()


@dataclass(frozen=True, slots=True)
class GgufEagleFormat(GgufFormat):
    """An EAGLE-3 head."""

    kind: ClassVar[Kind] = "eagle"


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


@dataclass(frozen=True, slots=True)
class GgufAssistantFormat(GgufFormat):
    """An assistant of Gemma 4."""

    kind: ClassVar[Kind] = "eagle"
    reads_keys: ClassVar[bool] = True

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
        layers = header.number("block_count")
        slides = header.metadata.get(f"{header.architecture}.attention.sliding_window_pattern")
        last = slides[layers - 2 : layers] if isinstance(slides, list) else []
        if not header.architecture.startswith("gemma4") or last != [True, False]:
            raise self.misfit(name, target, "it is an assistant of Gemma 4, and reads a layer with a window and one without")


def read_gguf_format(layouts: Sequence[Layout]) -> GgufFormat | None:
    """Identify the trained drafter in a GGUF file; None for anything else.

    Args:
        layouts: the layout of each part of the file.

    Raises:
        UserError: it cannot be used here; says why.
    """
    first, header = layouts[0], layouts[0].header
    if header.architecture not in DRAFTERS:
        return None
    try:
        if len(layouts) > 1:
            raise ValueError(f"it is in {len(layouts)} parts")
        return _read(first, header)
    except (LookupError, TypeError, ValueError) as error:
        raise unreadable(first.file, error) from None


def _read(layout: Layout, header: Header) -> GgufFormat:
    architecture, metadata = header.architecture, header.metadata
    tensors = {tensor.name: tensor for tensor in layout.tensors}
    shapes = {name: tensor.shape for name, tensor in tensors.items()}
    width = {"eagle3": "target_hidden_size", "dflash": "embedding_length", ASSISTANT: "embedding_length_out"}[architecture]
    listed = () if architecture == ASSISTANT else tuple(map(int, metadata[f"{architecture}.target_layers"]))
    fields: dict[str, Any] = {
        "folder": layout.file,
        "names": {},
        "shapes": shapes,
        "vocabulary": header.vocabulary,
        "width": figure(metadata, f"{architecture}.{width}"),
        "trained_for": "",
        "header": header,
        "tensors": tensors,
        "listed": listed,
    }
    if architecture == ASSISTANT:
        return GgufAssistantFormat(title="Gemma 4 assistant", **fields)
    if architecture == "eagle3":
        if len(listed) != 3 or figure(metadata, "eagle3.block_count") != 1:
            raise ValueError("llama.cpp's EAGLE-3 heads have one layer and read 3 of the target's")
        return GgufEagleFormat(title="EAGLE-3", **fields)
    paths: Markov | Selector | None = None
    if "markov_w1.weight" in shapes:
        paths = Markov()
    elif any(name.startswith("selector_") for name in shapes):
        if "d2t" in shapes:
            raise ValueError("DFlash 2 with a part of the vocabulary")
        paths = Selector(header.number("selector_top_k", 16))
    block = figure(metadata, "dflash.block_size", 16)
    if not 2 <= block <= MOST_BLOCK:
        raise ValueError(f"block_size is {block}")
    return GgufDFlashFormat(
        title=TITLES.get(type(paths), "DFlash"),
        paths=paths,
        block=block,
        from_anchor=isinstance(paths, Markov) and bool(metadata.get("dflash.sample_from_anchor", True)),
        mask=int(metadata["tokenizer.ggml.mask_token_id"]),
        causal=bool(metadata.get("dflash.attention.causal", False)),
        logit_scale=float(metadata.get("dflash.logit_scale", 0.0)),
        softcap=float(metadata.get("dflash.final_logit_softcapping", 0.0)),
        **fields,
    )
