"""What is told about the model under the cursor: sentences, each with its style and the most lines that it may take."""

from __future__ import annotations

from collections.abc import Mapping
from textwrap import wrap
from typing import Any

from ...backends.options import BUILTIN, BUILTIN_DRAFT, BUILTIN_EAGLE
from ..text.amounts import short_path, size_of
from ..text.cells import fit, one_line
from .downloads import Download
from .hub import Offer, Repository
from .library import FoundModel
from .memory import FreeMemory, MemoryFit, judge
from .pairing import Pairing, look_for
from .rows import VERDICTS, about, fit_of, needs_of_offer, title_of

Sentence = tuple[str, str, int]
"""Text, style, most lines."""


def of_model(found: FoundModel, room: FreeMemory | None, options: Mapping[str, Any]) -> list[Sentence]:
    """A model here: what it is, whether it fits, where it lies."""
    out: list[Sentence] = [(about(found.card), "$foreground", 1)]
    if found.problem:
        out.append((one_line(found.problem), "$quiet" if found.card.head is not None else "$warning", 3))
    else:
        out += _fit(fit_of(found, room, options))
        if found.card.mtp is not None and found.card.mtp.problem:
            out.append((one_line(found.card.mtp.sentence), "$quiet", 2))
    return [*out, (short_path(found.spot.path), "$quiet", 1)]


def of_draft(target: FoundModel, found: FoundModel, pairing: Pairing | None) -> list[Sentence]:
    """A model that might draft for a target."""
    out: list[Sentence] = [(about(found.card), "$foreground", 1)]
    if pairing is not None:
        why = "its sizes fit" if found.card.head is not None else "the vocabulary is the same"
        told = one_line(pairing.reason) or f"Can draft for {title_of(target)}: {why}."
        out.append((told, "$success" if pairing.able and not pairing.reason else "$warning", 3))
    return [*out, (short_path(found.spot.path), "$quiet", 1)]


def of_target_alone(target: FoundModel) -> list[Sentence]:
    """The row that names no draft model."""
    if target.spot.spec == BUILTIN:
        return [(f"{BUILTIN_DRAFT} and {BUILTIN_EAGLE}, each loaded when a method first needs it.", "$foreground", 2)]
    own = f" {target.card.mtp.sentence}" if target.card.mtp is not None else ""
    out: list[Sentence] = [(f"No draft model. Methods that need one are not available.{own}", "$foreground", 3)]
    return [*out, (look_for(target), "$quiet", 5)]


def of_download(download: Download) -> list[Sentence]:
    amount = f"{size_of(download.done)} of {size_of(download.total)} downloaded."
    if download.state == "failed":
        return [(one_line(download.sentence), "$warning", 4), (amount, "$quiet", 1)]
    told = "Asking the Hub …" if download.state == "starting" else "Continues when you close this list."
    return [(amount, "$foreground", 1), (told, "$quiet", 1)]


def of_offer(repository: Repository, offer: Offer, room: FreeMemory | None, options: Mapping[str, Any]) -> list[Sentence]:
    parts = [one_line(repository.name), one_line(offer.quantization)]
    parts.append("GGUF on llama.cpp" if offer.kind == "gguf" else "safetensors on transformers")
    parts += [f"{repository.context:,} tokens of context"] if repository.context else []
    out: list[Sentence] = [(" · ".join(filter(None, parts)), "$foreground", 1)]
    if room is not None:
        out += _fit(judge(needs_of_offer(repository, offer), room, options))
    if offer.cached and not offer.here:
        out.append((f"{size_of(offer.cached)} of {size_of(offer.size)} already downloaded.", "$quiet", 1))
    if repository.gated and not offer.here:
        out.append(("Accept its licence on its page on the Hub first, then run `hf auth login`.", "$warning", 2))
    return out


def _fit(judged: MemoryFit) -> list[Sentence]:
    return [(judged.told, VERDICTS[judged.verdict][2], 3)]


def lines(sentences: list[Sentence], cells: int, most: int) -> list[tuple[str, str]]:
    """Sentences on at most so many lines of so many cells; what does not fit ends in an ellipsis."""
    out: list[tuple[str, str]] = []
    for text, style, limit in sentences:
        pieces = wrap(text, cells, break_on_hyphens=False)
        if len(pieces) > limit:
            pieces = [*pieces[: limit - 1], " ".join(pieces[limit - 1 :])]
        out += [(fit(piece, cells), style) for piece in pieces]
    return out[:most]
