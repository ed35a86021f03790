"""Rows of the list of models, safe to draw on any screen."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from ...backends.files.memory import Needs, needs_of
from ...backends.files.model_card import Card
from ...backends.options import BUILTIN, LoadOptions
from ..text.amounts import count_of, size_of, time_of
from ..text.cells import fit, has_words, one_line, width
from ..text.lines import StyledLine, cut, length, line
from .downloads import Download
from .hub import Offer, Repository
from .library import FoundModel, in_order
from .memory import FreeMemory, MemoryFit, judge
from .pairing import Pairing

ARCHITECTURE, PARAMETERS, QUANTIZATION, SIZE, VERDICT = 12, 7, 8, 8, 12
"""Widths of the columns in cells."""
WIDE, MIDDLE = 84, 58
"""Widths from which the architecture is shown, and from which the parameters are, and verdicts in words."""

NO_DRAFT = "no draft model"
"""Key of the row that loads a target without a draft model."""

BAR_CELLS = 10

VERDICTS = {
    "fits": ("✓", "fits", "$success"),
    "short": ("~", "short", "$warning"),
    "too large": ("✗", "too large", "$error"),
    "unknown": ("?", "unknown", "$quiet"),
}
"""Verdict → sign, word, style."""

DRAFTER = ("◇", "drafter", "$accent")
"""Sign, word, style of a trained drafter in place of a verdict."""


def needs_of_offer(repository: Repository, offer: Offer) -> Needs:
    """Compute the memory needs of an offer on the Hub."""
    if offer.kind == "gguf":
        return Needs("llama.cpp", offer.weights, offer.weights, repository.context, repository.cache_numbers)
    widened = repository.parameters * 4 if offer.quantization in ("BF16", "F16") else offer.weights
    return Needs("transformers", offer.weights, max(widened, offer.weights), repository.context, repository.cache_numbers)


def fit_of(model: FoundModel, room: FreeMemory | None, options: LoadOptions) -> MemoryFit:
    """Judge whether a model on the disk fits; unknown as long as the free memory is."""
    if room is None or model.problem:
        return MemoryFit("unknown")
    return judge(needs_of(model.card), room, options)


def runtime_and_size(card: Card) -> str:
    """Write the runtime, quantization and size of a model, as far as they are known."""
    return " · ".join(filter(None, (card.backend, one_line(card.quantization), size_of(card.size) if card.size else "")))


def matches(model: FoundModel, query: str) -> bool:
    """Whether a model's row has all words of a search."""
    card = model.card
    spot = model.spot
    runtime = "gguf llama.cpp" if card.backend == "llama.cpp" else "safetensors transformers"
    return has_words(f"{spot.title} {spot.place} {card.architecture} {card.quantization} {runtime}", query)


def title_of(model: FoundModel) -> str:
    spot = model.spot
    both = spot.place == "Built-in" and spot.spec == "builtin"
    return one_line(spot.title) + (f" · {spot.backend}" if both else "")


def model_row(model: FoundModel, fit: MemoryFit, mark: tuple[str, str] = ("", "")) -> ModelRow:
    card = model.card
    problem = bool(model.problem)
    verdict = ("✗", "unusable", "$error") if problem else VERDICTS[fit.verdict]
    return ModelRow(
        model.key,
        title_of(model) + (" · MTP" if card.mtp is not None and not card.mtp.problem else ""),
        mark,
        architecture=one_line(card.architecture),
        parameters=count_of(card.parameters),
        quantization=one_line(card.quantization),
        size=size_of(card.size) if card.size else "",
        verdict=DRAFTER if card.head is not None else verdict,
        faint=problem and card.head is None,
    )


Marks = Mapping[object, tuple[str, str]]
"""Key of a row → the sign before its title, and the sign's style."""


def all_rows(models: Sequence[FoundModel], room: FreeMemory | None, options: LoadOptions, marks: Marks) -> list[ModelRow]:
    """List all models by place."""
    rows: list[ModelRow] = []
    for place, group in groupby(in_order(models), key=lambda model: model.spot.place):
        rows.append(ModelRow(None, place))
        rows += [model_row(model, fit_of(model, room, options), marks.get(model.key, ("", ""))) for model in group]
    return rows


def spaced(rows: Sequence[ModelRow], height: int) -> list[ModelRow]:
    """Put a blank row before each heading but the first if all rows then fit in the height."""
    gaps = sum(row.heading for row in rows[1:])
    if len(rows) + gaps > height:
        return list(rows)
    blank = ModelRow(None, "")
    return [line for i, row in enumerate(rows) for line in ((blank, row) if i and row.heading else (row,))]


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
    target: FoundModel, models: Sequence[FoundModel], pairings: Mapping[object, Pairing], marks: Marks
) -> list[ModelRow]:
    """List all models as draft models for one: those that can, those that are not judged yet, those that cannot and why."""
    if target.spot.spec == BUILTIN:
        alone = ModelRow(NO_DRAFT, "Its own drafters", note="loaded when a method needs them")
    else:
        mtp = target.card.mtp
        alone = ModelRow(NO_DRAFT, "No draft model", note=mtp.sentence if mtp else "load the model alone")
    rows = [ModelRow(None, f"Draft models for {title_of(target)}"), alone]
    able = [model for model in models if model.key in pairings and pairings[model.key].able]
    waiting = [model for model in models if model.key not in pairings]
    unable = [model for model in models if model.key in pairings and not pairings[model.key].able]
    rows += [_draft_row(model, pairings.get(model.key), marks) for model in (*able, *waiting)]
    if unable:
        rows.append(ModelRow(None, "Cannot draft for it"))
        rows += [_draft_row(model, pairings[model.key], marks) for model in unable]
    return rows


def _draft_row(model: FoundModel, pairing: Pairing | None, marks: Marks) -> ModelRow:
    card = model.card
    if pairing is None:
        note = "checking …"
        style = "$quiet"
    elif pairing.able:
        fits = f"{card.head.title} drafter that fits" if card.head else f"same vocabulary{' · PARD' if card.pard else ''}"
        note = one_line(pairing.reason) or fits
        style = "$warning" if pairing.reason else "$success"
    else:
        note = one_line(pairing.reason)
        style = "$quiet"
    return ModelRow(
        model.key,
        title_of(model),
        marks.get(model.key, ("", "")),
        parameters=count_of(card.parameters),
        size=size_of(card.size) if card.size else "",
        note=note,
        verdict=("", "", style),
        faint=pairing is not None and not pairing.able,
    )


def offer_rows(
    repository: Repository, room: FreeMemory | None, options: LoadOptions, downloads: Mapping[str, Download]
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
        on_disk = offer.here or download is not None
        title = "safetensors" if offer.kind == "safetensors" else offer.spec.partition(":")[2]
        files = f" · {len(offer.files)} files" if len(offer.files) > 1 else ""
        out.append(
            ModelRow(
                ("offer", offer.spec),
                one_line(title + files),
                ("●", "$success") if on_disk else ("", ""),
                architecture="here" if on_disk else "",
                parameters=count_of(repository.parameters),
                quantization=one_line(offer.quantization),
                size=size_of(offer.size),
                verdict=VERDICTS[fit.verdict],
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
    """Identity of its model, offer or download; None for a heading, which the cursor skips."""
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
    """A sentence in place of the columns except size and parameters; cut where it is too long."""
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
