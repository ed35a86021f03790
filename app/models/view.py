"""The views of the list of models: their rows, and the details of a row."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ...backends.options import BUILTIN, BUILTIN_DRAFT, BUILTIN_EAGLE, LoadOptions
from ..chat.dialogue import Dialogue
from ..text.amounts import count_of, short_path, size_of
from ..text.cells import one_line
from ..text.lines import flowed
from .hub import Download, Downloads, Offer, Repository
from .library import FoundModel
from .memory import FreeMemory, MemoryFit, judge
from .pairing import Pairing, look_for
from .rows import (
    VERDICTS,
    ModelRow,
    all_rows,
    download_rows,
    draft_rows,
    drafts_alone,
    fit_of,
    matches,
    needs_of_offer,
    offer_rows,
    title_of,
)
from .search import ModelSearch
from .servers import server_rows

REPOSITORY = re.compile(r"[\w.-]+/[\w.-]+(:[\w.-]*)?", re.ASCII)
"""A name on the Hub."""

Sentence = tuple[str, str, int]
"""A sentence on the model under the cursor: text, style, most lines."""


@dataclass(frozen=True, slots=True)
class ModelsScope:
    """The listed models: all (neither field), those that may draft for one, or a repository's on the Hub."""

    target: FoundModel | None = None
    repository: str = ""


EVERYTHING = ModelsScope()


class ModelsView:
    """The rows of the list of models.

    Args:
        looking: the search for models.
        downloads: under way or over.
        dialogue: with the model to mark.
        options: for loading a model.
    """

    def __init__(self, looking: ModelSearch, downloads: Downloads, dialogue: Dialogue, options: LoadOptions) -> None:
        self.looking = looking
        self.downloads = downloads
        self.options = options
        self._dialogue = dialogue
        self.look = EVERYTHING

    def rows(self, query: str) -> list[ModelRow]:
        """List the rows that match a search."""
        looking = self.looking
        downloads = self.downloads.all
        if self.look.repository:
            repository = looking.repository
            return offer_rows(repository, looking.room, self.options, downloads) if repository is not None else []
        models = [model for model in looking.models() if matches(model, query)]
        if (target := self.look.target) is not None:
            return draft_rows(target, models, looking.pairings(target), self.marks())
        rows = [*download_rows(downloads.values()), *all_rows(models, looking.room, self.options, self.marks())]
        rows += server_rows(looking.served, query, self._dialogue.model)
        if REPOSITORY.fullmatch(query):
            name = one_line(query.partition(":")[0])
            rows.append(ModelRow(("look", name), f"Look up {name} on the Hub", ("↵", "$accent")))
        return rows

    def marks(self) -> dict[object, tuple[str, str]]:
        """Mark the loaded target and draft models."""
        draft_models = self._dialogue.selection.draft_model
        marks: dict[object, tuple[str, str]] = {}
        for key, model in self.looking.by_key.items():
            if self._is_loaded(model):
                marks[key] = ("●", "$primary")
            elif model.spot.spec in draft_models:
                marks[key] = ("◇", "$accent")
        return marks

    def _is_loaded(self, model: FoundModel) -> bool:
        """Whether this is the model in the engine, or the one that is being loaded."""
        dialogue = self._dialogue
        spot = model.spot
        if spot.spec != dialogue.model:
            return str(spot.path) == dialogue.info.path and spot.place != "Built-in"
        backend = str(dialogue.info.backend or dialogue.selection.backend)
        return "auto" in (spot.backend, backend) or spot.backend == backend

    def loaded(self) -> object:
        """Return the key of the loaded target, if it is in the list."""
        return next((key for key, mark in self.marks().items() if mark[0] == "●"), None)

    def found(self, row: ModelRow | None) -> FoundModel | None:
        """Return the model of a row, if it is on this machine."""
        return self.looking.by_key.get(row.key) if row is not None else None

    def offer(self, row: ModelRow | None) -> Offer | None:
        repository = self.looking.repository
        match row.key if row is not None else None:
            case ("offer" | "download", spec) if repository is not None:
                return next((offer for offer in repository.offers if offer.spec == spec), None)
        return None

    def download(self, row: ModelRow | None) -> Download | None:
        match row.key if row is not None else None:
            case ("download" | "offer", spec):
                download = self.downloads.all.get(str(spec))
                return download if download is not None and download.state != "done" else None
        return None

    def here(self, offer: Offer) -> bool:
        """Whether an offer is completely on this machine."""
        download = self.downloads.all.get(offer.spec)
        return offer.here or (download is not None and download.state == "done")

    def verb(self, row: ModelRow | None) -> str:
        """Name the action of enter on a row; empty if there is none."""
        if row is None:
            return ""
        if (download := self.download(row)) is not None:
            return "" if download.active else "try again"
        if (offer := self.offer(row)) is not None:
            return "load" if self.here(offer) else "download"
        if isinstance(row.key, tuple) and row.key[0] == "look":
            return "ask"
        model = self.found(row)
        # A trained drafter cannot be loaded as a target.
        useless = model is not None and model.problem and self.look == EVERYTHING
        return "" if row.faint or useless else "load"

    def about(self, row: ModelRow | None) -> list[Sentence]:
        """Describe a row in sentences."""
        if row is None:
            return []
        if (download := self.download(row)) is not None:
            return of_download(download)
        if isinstance(row.key, tuple) and row.key[0] == "server":
            return [(row.note, "$warning" if row.faint else "$foreground", 3)]
        looking = self.looking
        if looking.repository is not None and (offer := self.offer(row)) is not None:
            return of_offer(looking.repository, offer, looking.room, self.options)
        model = self.found(row)
        target = self.look.target
        if target is None:
            return of_model(model, looking.room, self.options) if model is not None else []
        if model is None:
            return of_target_alone(target)
        return of_draft(target, model, looking.pairings(target).get(model.key))


# Details


def _of_files(model: FoundModel, *verdicts: Sentence) -> list[Sentence]:
    """Put verdicts between a model's description and its path."""
    card = model.card
    parts = (
        one_line(card.architecture),
        f"{count_of(card.parameters)} parameters" if card.parameters else "",
        one_line(card.quantization),
        "PARD draft model" if card.pard else "",
        "drafts for itself (MTP)" if drafts_alone(card) else "",
        "GGUF on llama.cpp" if card.backend == "llama.cpp" else "safetensors on transformers",
        f"{card.context:,} tokens of context" if card.context else "",
    )
    return [(" · ".join(filter(None, parts)), "$foreground", 1), *verdicts, (short_path(model.spot.path), "$quiet", 1)]


def of_model(model: FoundModel, room: FreeMemory | None, options: LoadOptions) -> list[Sentence]:
    """Describe a model on this machine: what it is, whether it fits, its path."""
    card = model.card
    if model.problem:
        return _of_files(model, (one_line(model.problem), "$quiet" if card.head is not None else "$warning", 3))
    verdicts = [_of_fit(fit_of(model, room, options))]
    if card.mtp is not None and card.mtp.problem:
        verdicts.append((one_line(card.mtp.sentence), "$quiet", 2))
    return _of_files(model, *verdicts)


def of_draft(target: FoundModel, model: FoundModel, pairing: Pairing | None) -> list[Sentence]:
    """Describe a model that might draft for a target."""
    if pairing is None:
        return _of_files(model)
    why = "its sizes fit" if model.card.head is not None else "the vocabulary is the same"
    verdict = one_line(pairing.reason) or f"Can draft for {title_of(target)}: {why}."
    return _of_files(model, (verdict, "$warning" if pairing.reason else "$success", 3))


def of_target_alone(target: FoundModel) -> list[Sentence]:
    """Describe the row without a draft model."""
    if target.spot.spec == BUILTIN:
        return [(f"{BUILTIN_DRAFT} and {BUILTIN_EAGLE}, each loaded when a method first needs it.", "$foreground", 2)]
    mtp = f" {target.card.mtp.sentence}" if target.card.mtp is not None else ""
    alone = f"No draft model. Methods that need one are not available.{mtp}"
    return [(alone, "$foreground", 3), (look_for(target), "$quiet", 3)]


def of_download(download: Download) -> list[Sentence]:
    amount = f"{size_of(download.done)} of {size_of(download.total)} downloaded."
    if download.state == "failed":
        return [(one_line(download.sentence), "$warning", 4), (amount, "$quiet", 1)]
    return [(amount, "$foreground", 1), ("Continues when you close this list.", "$quiet", 1)]


def of_offer(repository: Repository, offer: Offer, room: FreeMemory | None, options: LoadOptions) -> list[Sentence]:
    kind = "GGUF on llama.cpp" if offer.kind == "gguf" else "safetensors on transformers"
    context = f"{repository.context:,} tokens of context" if repository.context else ""
    parts = (one_line(repository.name), one_line(offer.quantization), kind, context)
    sentences: list[Sentence] = [(" · ".join(filter(None, parts)), "$foreground", 1)]
    if room is not None:
        sentences.append(_of_fit(judge(needs_of_offer(repository, offer), room, options)))
    if offer.cached and not offer.here:
        sentences.append((f"{size_of(offer.cached)} of {size_of(offer.size)} already downloaded.", "$quiet", 1))
    if repository.gated and not offer.here:
        sentences.append(("Accept its licence on its page on the Hub first, then run `hf auth login`.", "$warning", 2))
    return sentences


def _of_fit(verdict: MemoryFit) -> Sentence:
    return verdict.sentence, VERDICTS[verdict.verdict][2], 3


def lines(sentences: list[Sentence], cells: int, most: int) -> list[tuple[str, str]]:
    """Break sentences into at most so many lines of so many cells; a longer one ends in an ellipsis."""
    rows = [row for text, style, limit in sentences for row in flowed(((text, style),), cells, limit)]
    return [part for row in rows[:most] for part in row]
