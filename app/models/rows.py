"""Rows of the list of models, safe to draw on any screen."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from ...backends.files.model_card import Card, Needs
from ...backends.options import BUILTIN, LoadOptions
from ..text.amounts import count_of, size_of, time_of
from ..text.cells import fit, has_words, one_line, width
from ..text.lines import StyledLine, cut, length
from .hub import Download, Offer, Repository
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

UNUSABLE = ("✗", "unusable", "$error")
DRAFTER = ("◇", "drafter", "$accent")
"""Sign, word, style of a trained drafter in place of a verdict."""


@dataclass(frozen=True, slots=True)
class ModelRow:
    """A row of the list of models. Its texts are safe to draw already."""

    key: object
    """Identity of its subject; None for a heading, which the cursor skips."""
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
    item: FoundModel | Offer | Download | str | None = None
    """The subject of the row: for a server's model the name that loads it."""
    verb: str = ""
    """Action of enter; empty if there is none."""

    @property
    def heading(self) -> bool:
        return self.key is None


Marks = Mapping[object, tuple[str, str]]
"""Key of a row → the sign before its title, and the sign's style."""


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
    return judge(model.card.needs, room, options)


def matches(model: FoundModel, query: str) -> bool:
    """Whether a model's row has all words of a search."""
    card = model.card
    runtime = "gguf llama.cpp" if card.backend == "llama.cpp" else "safetensors transformers"
    return has_words(f"{model.spot.title} {model.spot.place} {card.architecture} {card.quantization} {runtime}", query)


def title_of(model: FoundModel) -> str:
    """Return a model's name, of the built-in model with its runtime."""
    spot = model.spot
    return one_line(spot.title) + (f" · {spot.backend}" if spot.backend != "auto" and spot.spec == BUILTIN else "")


def drafts_alone(card: Card) -> bool:
    """Whether a model has MTP layers that work here."""
    return card.mtp is not None and not card.mtp.problem


def all_rows(models: Sequence[FoundModel], room: FreeMemory | None, options: LoadOptions, marks: Marks) -> list[ModelRow]:
    """List all models by place."""
    rows: list[ModelRow] = []
    for place, group in groupby(in_order(models), key=lambda model: model.spot.place):
        rows.append(ModelRow(None, place))
        for model in group:
            card = model.card
            verdict = UNUSABLE if model.problem else VERDICTS[fit_of(model, room, options).verdict]
            rows.append(
                ModelRow(
                    model.key,
                    title_of(model) + " · MTP" * drafts_alone(card),
                    marks.get(model.key, ("", "")),
                    architecture=one_line(card.architecture),
                    parameters=count_of(card.parameters),
                    quantization=one_line(card.quantization),
                    size=size_of(card.size) if card.size else "",
                    verdict=DRAFTER if card.head is not None else verdict,
                    faint=bool(model.problem) and card.head is None,
                    item=model,
                    verb="" if model.problem else "load",
                )
            )
    return rows


def draft_rows(
    target: FoundModel, models: Sequence[FoundModel], pairings: Mapping[object, Pairing], marks: Marks
) -> list[ModelRow]:
    """List all models as draft models for one: those that can, those that are not judged yet, those that cannot and why."""
    mtp = target.card.mtp
    alone = ModelRow(NO_DRAFT, "No draft model", note=mtp.sentence if mtp else "load the model alone", verb="load")
    if target.spot.spec == BUILTIN:
        alone = ModelRow(NO_DRAFT, "Its own drafters", note="loaded when a method needs them", verb="load")
    able: list[ModelRow] = []
    waiting: list[ModelRow] = []
    unable: list[ModelRow] = []
    for model in models:
        card = model.card
        pairing = pairings.get(model.key)
        if pairing is None:
            group, note, style = waiting, "checking …", "$quiet"
        elif not pairing.able:
            group, note, style = unable, pairing.reason, "$quiet"
        elif pairing.reason:
            group, note, style = able, pairing.reason, "$warning"
        else:
            fits = f"{card.head.title} drafter that fits" if card.head else f"same vocabulary{' · PARD' * card.pard}"
            group, note, style = able, fits, "$success"
        group.append(
            ModelRow(
                model.key,
                title_of(model),
                marks.get(model.key, ("", "")),
                parameters=count_of(card.parameters),
                size=size_of(card.size) if card.size else "",
                note=one_line(note),
                verdict=("", "", style),
                faint=group is unable,
                item=model,
                verb="" if group is unable else "load",
            )
        )
    rows = [ModelRow(None, f"Draft models for {title_of(target)}"), alone, *able, *waiting]
    return [*rows, ModelRow(None, "Cannot draft for it"), *unable] if unable else rows


def download_rows(downloads: Iterable[Download]) -> list[ModelRow]:
    """List the downloads that are under way or failed."""
    rows = [_download_row(download) for download in downloads if download.state != "done"]
    return [ModelRow(None, "Downloads"), *rows] if rows else []


def _download_row(download: Download) -> ModelRow:
    share = download.done / download.total if download.total else 0.0
    full = min(BAR_CELLS, int(share * BAR_CELLS))
    rate = download.rate
    state = {"starting": "asking the Hub", "failed": "interrupted"}.get(download.state, "")
    if rate:
        state = f"{size_of(rate)}/s · {time_of((download.total - download.done) / rate)} left"
    colour = "$error" if download.state == "failed" else "$primary"
    return ModelRow(
        ("download", download.spec),
        one_line(download.spec),
        ("↓", colour),
        size=size_of(download.total) if download.total else "",
        note=f"{'━' * full}{'╌' * (BAR_CELLS - full)} {share:.0%} {state}".rstrip(),
        verdict=("", "", colour),
        item=download,
        verb="" if download.active else "try again",
    )


def offer_rows(
    repository: Repository, room: FreeMemory | None, options: LoadOptions, downloads: Mapping[str, Download]
) -> list[ModelRow]:
    """List what a repository on the Hub offers."""
    count = f"{count_of(repository.parameters)} parameters" if repository.parameters else ""
    about = (one_line(repository.name), one_line(repository.architecture), count, "on the Hub")
    rows = [ModelRow(None, " · ".join(filter(None, about)))]
    if not repository.offers:
        rows.append(ModelRow(None, one_line(repository.remark)))
    for offer in repository.offers:
        download = downloads.get(offer.spec)
        if download is not None and download.state != "done":
            rows.append(_download_row(download))
            continue
        fits = judge(needs_of_offer(repository, offer), room, options) if room is not None else MemoryFit("unknown")
        on_disk = offer.here or download is not None
        title = "safetensors" if offer.kind == "safetensors" else offer.spec.partition(":")[2]
        files = f" · {len(offer.files)} files" if len(offer.files) > 1 else ""
        rows.append(
            ModelRow(
                ("offer", offer.spec),
                one_line(title + files),
                ("●", "$success") if on_disk else ("", ""),
                architecture="here" if on_disk else "",
                parameters=count_of(repository.parameters),
                quantization=one_line(offer.quantization),
                size=size_of(offer.size),
                verdict=VERDICTS[fits.verdict],
                item=offer,
                verb="load" if on_disk else "download",
            )
        )
    return rows


def spaced(rows: Sequence[ModelRow], height: int) -> list[ModelRow]:
    """Put a blank row before each heading but the first if all rows then fit in the height."""
    if len(rows) + sum(row.heading for row in rows[1:]) > height:
        return list(rows)
    blank = ModelRow(None, "")
    return [line for i, row in enumerate(rows) for line in ((blank, row) if i and row.heading else (row,))]


def drawn(row: ModelRow, cells: int) -> StyledLine:
    """Lay a row out in columns: as many as there is room for."""
    if row.heading:
        return ((fit(row.title, cells), "$quiet"),)
    faint = "$faint" if row.faint else ""
    quiet = faint or "$quiet"
    middle = cells >= MIDDLE
    sign, word, colour = row.verdict
    right = [_column(row.parameters, -PARAMETERS, quiet)] if middle else []
    if row.note:
        right += [_column(row.size, -SIZE - 1, quiet)] if middle else []
        room = max(12, int(cells * 0.42) if middle else cells // 2)
        right += [("  ", ""), _column(row.note, room, faint or colour or "$quiet")]
    else:
        right[:0] = [_column(row.architecture, ARCHITECTURE, quiet)] if cells >= WIDE else []
        right += [("  ", ""), _column(row.quantization, QUANTIZATION, quiet)]
        right += [_column(row.size, -SIZE, faint or "$foreground"), ("  ", "")]
        right.append(_column(f"{sign} {word}", VERDICT, faint or colour) if middle else _column(sign, 1, faint or colour))
    mark, colour = row.mark
    room = max(4, cells - length(tuple(right)) - 3)
    return cut((_column(mark, 2, colour), _column(fit(row.title, room), room + 1, faint or "bold"), *right), cells)


def _column(text: str, cells: int, style: str) -> tuple[str, str]:
    """Pad a text, or cut it; a negative width aligns it to the right."""
    text = fit(text, abs(cells))
    blanks = " " * (abs(cells) - width(text))
    return (blanks + text if cells < 0 else text + blanks), style
