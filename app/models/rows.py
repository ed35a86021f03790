"""What the list of models shows: rows and details, made safe to draw. Knows nothing of the screen."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...backends.files.memory import Needs, needs_of
from ...backends.files.model_card import Card
from ...backends.options import BUILTIN
from ..text.amounts import count_of, size_of, time_of
from ..text.cells import fit, has_words, one_line, width
from ..text.lines import StyledLine, cut, length, line
from .downloads import Download
from .hub import Offer, Repository
from .library import FoundModel
from .memory import FreeMemory, MemoryFit, judge
from .pairing import Pairing
from .places import PLACES

ARCHITECTURE, PARAMETERS, QUANTIZATION, SIZE, VERDICT = 12, 7, 8, 8, 12
"""Cells of the columns."""
WIDE, MIDDLE = 84, 58
"""Cells from which the architecture is shown, and from which the parameters are and verdicts are told in words."""

NO_DRAFT = "no draft model"
"""Key of the row that loads a target alone."""

BAR_CELLS = 10

VERDICTS = {
    "fits": ("✓", "fits", "$success"),
    "short": ("~", "short", "$warning"),
    "too large": ("✗", "too large", "$error"),
    "unknown": ("?", "unknown", "$quiet"),
}
"""What is judged → sign, word, style."""

DRAFTER = ("◇", "drafter", "$accent")
"""What stands in place of a verdict, for a trained drafter."""


def needs_of_offer(repository: Repository, offer: Offer) -> Needs:
    """The memory that an offer on the Hub needs."""
    if offer.kind == "gguf":
        return Needs("llama.cpp", offer.weights, offer.weights, repository.context, repository.cache_numbers)
    held = repository.parameters * 4 if offer.quantization in ("BF16", "F16") else offer.weights
    return Needs("transformers", offer.weights, max(held, offer.weights), repository.context, repository.cache_numbers)


def fit_of(found: FoundModel, room: FreeMemory | None, options: Mapping[str, Any]) -> MemoryFit:
    """Whether a model on the disk fits; unknown as long as the room is."""
    if room is None or found.problem:
        return MemoryFit("unknown")
    return judge(needs_of(found.card), room, options)


def runtime_and_size(card: Card) -> str:
    """Runtime, quantization and size of a model, as many as are known."""
    return " · ".join(filter(None, (card.backend, one_line(card.quantization), size_of(card.size) if card.size else "")))


def matches(found: FoundModel, text: str) -> bool:
    """Whether all words of a search are in what is shown of a model."""
    card, spot = found.card, found.spot
    runtime = "gguf llama.cpp" if card.backend == "llama.cpp" else "safetensors transformers"
    shown = f"{spot.title} {spot.place} {card.architecture} {card.quantization} {runtime}"
    return has_words(shown, text)


def title_of(found: FoundModel) -> str:
    spot = found.spot
    both = spot.place == "Built-in" and spot.spec == "builtin"
    return one_line(spot.title) + (f" · {spot.backend}" if both else "")


def model_row(found: FoundModel, fit: MemoryFit, mark: tuple[str, str] = ("", "")) -> ModelRow:
    card = found.card
    problem = bool(found.problem)
    verdict = ("✗", "unusable", "$error") if problem else VERDICTS[fit.verdict]
    return ModelRow(
        found.key,
        title_of(found) + (" · MTP" if card.mtp is not None and not card.mtp.problem else ""),
        mark,
        one_line(card.architecture),
        count_of(card.parameters),
        one_line(card.quantization),
        size_of(card.size) if card.size else "",
        DRAFTER if card.head is not None else verdict,
        faint=problem and card.head is None,
    )


def all_rows(
    found: Sequence[FoundModel], room: FreeMemory | None, options: Mapping[str, Any], marks: Mapping[object, tuple[str, str]]
) -> list[ModelRow]:
    """Every model, under the name of its place."""
    out: list[ModelRow] = []
    for place in PLACES:
        here = [each for each in found if each.spot.place == place]
        if here:
            out.append(ModelRow(None, place))
            out += [model_row(each, fit_of(each, room, options), marks.get(each.key, ("", ""))) for each in here]
    return out


def spaced(rows: Sequence[ModelRow], height: int) -> list[ModelRow]:
    """Rows with a blank one before each heading but the first, where all of that can be seen at once."""
    gaps = sum(row.heading for row in rows[1:])
    if len(rows) + gaps > height:
        return list(rows)
    return [each for i, row in enumerate(rows) for each in ((ModelRow(None, ""), row) if i and row.heading else (row,))]


def download_rows(downloads: Iterable[Download]) -> list[ModelRow]:
    rows = [_download_row(download) for download in downloads if download.state != "done"]
    return [ModelRow(None, "Downloads"), *rows] if rows else []


def _download_row(download: Download) -> ModelRow:
    share = download.done / download.total if download.total else 0.0
    full = min(BAR_CELLS, int(share * BAR_CELLS))
    bar = "━" * full + "╌" * (BAR_CELLS - full)
    words = {"starting": "asking the Hub", "failed": "interrupted", "running": ""}[download.state]
    parts = [words] if words else []
    if download.state == "running" and download.rate:
        left = download.seconds_left
        parts += [f"{size_of(download.rate)}/s", *([f"{time_of(left)} left"] if left is not None else [])]
    colour = "$error" if download.state == "failed" else "$primary"
    return ModelRow(
        ("download", download.spec),
        one_line(download.spec),
        ("↓", colour),
        size=size_of(download.total) if download.total else "",
        note=" ".join((bar, f"{share:.0%}", " · ".join(parts))).rstrip(),
        verdict=("", "", colour),
    )


def draft_rows(
    target: FoundModel, found: Sequence[FoundModel], pairings: Mapping[object, Pairing], marks: Mapping[object, tuple[str, str]]
) -> list[ModelRow]:
    """Every model as a draft model for one: those that can, those that nobody has looked at yet, those that cannot, and why."""
    own = target.spot.spec == BUILTIN
    note = target.card.mtp.sentence if target.card.mtp else "load the model alone"
    alone = ModelRow(
        NO_DRAFT,
        "Its own drafters" if own else "No draft model",
        note="loaded when a method needs them" if own else note,
    )
    out = [ModelRow(None, f"Draft models for {title_of(target)}"), alone]
    able = [each for each in found if (p := pairings.get(each.key)) is not None and p.able]
    waiting = [each for each in found if each.key not in pairings]
    unable = [each for each in found if (p := pairings.get(each.key)) is not None and not p.able]
    out += [_draft_row(each, pairings[each.key], marks) for each in able]
    out += [_draft_row(each, None, marks) for each in waiting]
    if unable:
        out.append(ModelRow(None, "Cannot draft for it"))
        out += [_draft_row(each, pairings[each.key], marks) for each in unable]
    return out


def _draft_row(found: FoundModel, pairing: Pairing | None, marks: Mapping[object, tuple[str, str]]) -> ModelRow:
    card = found.card
    if pairing is None:
        note, style = "checking …", "$quiet"
    elif pairing.able:
        fits = f"{card.head.title} drafter that fits" if card.head else f"same vocabulary{' · PARD' if card.pard else ''}"
        note = one_line(pairing.reason) or fits
        style = "$warning" if pairing.reason else "$success"
    else:
        note, style = one_line(pairing.reason), "$quiet"
    return ModelRow(
        found.key,
        title_of(found),
        marks.get(found.key, ("", "")),
        parameters=count_of(card.parameters),
        size=size_of(card.size) if card.size else "",
        note=note,
        verdict=("", "", style),
        faint=pairing is not None and not pairing.able,
    )


def offer_rows(
    repository: Repository, room: FreeMemory | None, options: Mapping[str, Any], downloads: Mapping[str, Download]
) -> list[ModelRow]:
    about = [one_line(repository.name), one_line(repository.architecture)]
    about += [f"{count_of(repository.parameters)} parameters"] if repository.parameters else []
    out = [ModelRow(None, " · ".join(filter(None, (*about, "on the Hub"))))]
    if not repository.offers:
        return [*out, ModelRow(None, one_line(repository.remark))]
    for offer in repository.offers:
        download = downloads.get(offer.spec)
        if download is not None and download.state != "done":
            out.append(_download_row(download))
            continue
        fit = judge(needs_of_offer(repository, offer), room, options) if room is not None else MemoryFit("unknown")
        here = offer.here or download is not None
        title = "safetensors" if offer.kind == "safetensors" else offer.spec.partition(":")[2]
        files = f" · {len(offer.files)} files" if len(offer.files) > 1 else ""
        out.append(
            ModelRow(
                ("offer", offer.spec),
                one_line(title + files),
                ("●", "$success") if here else ("", ""),
                "here" if here else "",
                count_of(repository.parameters),
                one_line(offer.quantization),
                size_of(offer.size),
                VERDICTS[fit.verdict],
            )
        )
    return out


def about(card: Card) -> str:
    parts = [
        one_line(card.architecture),
        f"{count_of(card.parameters)} parameters" if card.parameters else "",
        one_line(card.quantization),
        "PARD draft model" if card.pard else "",
        "drafts for itself (MTP)" if card.mtp is not None and not card.mtp.problem else "",
        "GGUF on llama.cpp" if card.backend == "llama.cpp" else "safetensors on transformers",
        f"{card.context:,} tokens of context" if card.context else "",
    ]
    return " · ".join(filter(None, parts))


@dataclass(frozen=True, slots=True)
class ModelRow:
    """A row of the list of models. Its texts are safe to draw already."""

    key: object
    """What it stands for; None for a heading, which the cursor passes over."""
    title: str
    mark: tuple[str, str] = ("", "")
    """A sign before the title, and its style."""
    architecture: str = ""
    parameters: str = ""
    quantization: str = ""
    size: str = ""
    verdict: tuple[str, str, str] = ("", "", "")
    """A sign, the same in a word, and their style."""
    note: str = ""
    """A sentence in place of the columns but size and parameters, cut where there is no room."""
    faint: bool = False

    @property
    def heading(self) -> bool:
        return self.key is None


def drawn(row: ModelRow, cells: int) -> StyledLine:
    if row.heading:
        return ((fit(row.title, cells), "$quiet"),)
    style = "$faint" if row.faint else ""
    wide, middle = cells >= WIDE, cells >= MIDDLE
    right: list[tuple[str, str]] = []
    if row.note:
        if middle:
            right += [_right(row.parameters, PARAMETERS, style or "$quiet"), _right(row.size, SIZE + 1, style or "$quiet")]
        room = max(12, int(cells * 0.42)) if middle else max(12, cells // 2)
        right += [("  ", ""), _left(row.note, room, style or row.verdict[2] or "$quiet")]
    else:
        if wide:
            right.append(_left(row.architecture, ARCHITECTURE, style or "$quiet"))
        if middle:
            right.append(_right(row.parameters, PARAMETERS, style or "$quiet"))
        right += [("  ", ""), _left(row.quantization, QUANTIZATION, style or "$quiet")]
        right.append(_right(row.size, SIZE, style or "$foreground"))
        sign, word, colour = row.verdict
        verdict, room = (f"{sign} {word}", VERDICT) if middle else (sign, 1)
        right += [("  ", ""), _left(verdict, room, style or colour)]
    spare = cells - length(tuple(right)) - 1
    sign, colour = row.mark
    lead = line((sign + " " * (2 - width(sign)), colour))
    title = fit(row.title, max(4, spare - 2))
    left = line(*lead, (title, style or "bold"))
    return cut((*left, (" " * max(1, cells - length(left) - length(tuple(right))), ""), *right), cells)


def _left(text: str, cells: int, style: str) -> tuple[str, str]:
    text = fit(text, cells)
    return text + " " * (cells - width(text)), style


def _right(text: str, cells: int, style: str) -> tuple[str, str]:
    text = fit(text, cells)
    return " " * (cells - width(text)) + text, style
