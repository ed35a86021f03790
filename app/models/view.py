"""What the list of models shows in each of its views, and what is told about its rows."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ...engine.options import draft_names
from ..chat.dialogue import Dialogue
from ..text.cells import one_line
from . import details as telling
from .downloads import Download, Downloads
from .hub import Offer
from .library import FoundModel
from .rows import ModelRow, all_rows, download_rows, draft_rows, matches, offer_rows
from .search import ModelSearch
from .servers import server_rows

REPOSITORY = re.compile(r"[\w.-]+/[\w.-]+(:[\w.-]*)?", re.ASCII)
"""A name on the Hub."""


@dataclass(frozen=True, slots=True)
class ModelsScope:
    """Which models are listed: all (neither), those that may draft for one, or a repository's on the Hub."""

    target: FoundModel | None = None
    repository: str = ""


EVERYTHING = ModelsScope()


class ModelsView:
    """The rows of the list of models, made of what was found.

    Args:
        looking: what has been found out so far.
        downloads: under way or over.
        dialogue: whose model is marked.
        options: what a model would be loaded with.
    """

    def __init__(self, looking: ModelSearch, downloads: Downloads, dialogue: Dialogue, options: Mapping[str, Any]) -> None:
        self.looking, self.downloads, self.options = looking, downloads, options
        self._dialogue = dialogue
        self.look = EVERYTHING

    def rows(self, text: str) -> list[ModelRow]:
        """The rows, narrowed by what is searched for."""
        looking, look, downloads = self.looking, self.look, self.downloads.all
        if look.repository:
            told = looking.repository
            return offer_rows(told, looking.room, self.options, downloads) if told is not None else []
        shown = [each for each in looking.models() if matches(each, text)]
        if look.target is not None:
            return draft_rows(look.target, shown, looking.pairings(look.target), self.marks())
        rows = [*download_rows(downloads.values()), *all_rows(shown, looking.room, self.options, self.marks())]
        rows += server_rows(looking.served, text, self._dialogue.model)
        if REPOSITORY.fullmatch(text):
            name = one_line(text.partition(":")[0])
            rows.append(ModelRow(("look", name), f"Look up {name} on the Hub", ("↵", "$accent")))
        return rows

    def marks(self) -> dict[object, tuple[str, str]]:
        """The target and the draft models that are loaded."""
        drafts = draft_names(self._dialogue.load.get("draft_model"))
        marks: dict[object, tuple[str, str]] = {}
        for key, found in self.looking.found.items():
            if self.is_loaded(found):
                marks[key] = ("●", "$primary")
            elif found.spot.spec in drafts:
                marks[key] = ("◇", "$accent")
        return marks

    def is_loaded(self, found: FoundModel) -> bool:
        """Whether this is the model in the engine, or the one that is being loaded."""
        dialogue = self._dialogue
        if found.spot.spec != dialogue.model:
            path = dialogue.info.path
            return bool(path) and str(found.spot.path) == path and found.spot.place != "Built-in"
        asked = str(dialogue.info.backend or dialogue.load.get("backend") or "auto")
        return found.spot.backend in ("auto", asked) or asked == "auto"

    def loaded(self) -> object:
        """Key of the target that is loaded, if it is in the list."""
        return next((key for key, mark in self.marks().items() if mark[0] == "●"), None)

    def fetched(self, spec: str) -> object:
        """Key of what is fetched from the Hub: of its download, then of the model here; None while it is in neither."""
        download = self.downloads.all.get(spec)
        if download is not None and download.state != "done":
            return ("download", spec)
        here = (found for found in self.looking.models() if found.spot.place == "Hugging Face cache")
        return next((found.key for found in here if found.spot.spec == spec), None)

    def found(self, row: ModelRow | None) -> FoundModel | None:
        """The model here that a row shows."""
        return self.looking.found.get(row.key) if row is not None else None

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
        """Whether all of an offer is here, fetched before or since."""
        download = self.downloads.all.get(offer.spec)
        return offer.here or (download is not None and download.state == "done")

    def verb(self, row: ModelRow | None) -> str:
        """What enter does on a row; empty if nothing."""
        if row is None:
            return ""
        if (download := self.download(row)) is not None:
            return "" if download.active else "try again"
        if (offer := self.offer(row)) is not None:
            return "load" if self.here(offer) else "download"
        if isinstance(row.key, tuple) and row.key[0] == "look":
            return "ask"
        if isinstance(row.key, tuple) and row.key[0] == "server":
            return "" if row.faint else "load"
        found = self.found(row)
        useless = found is not None and found.problem and self.look == EVERYTHING  # a trained drafter is of use elsewhere
        return "" if row.faint or useless else "load"

    def about(self, row: ModelRow | None) -> list[telling.Sentence]:
        if row is None:
            return []
        if (download := self.download(row)) is not None:
            return telling.of_download(download)
        if isinstance(row.key, tuple) and row.key[0] == "server":
            return [(row.note, "$warning" if row.faint else "$foreground", 3)]
        looking, target, options = self.looking, self.look.target, self.options
        if looking.repository is not None and (offer := self.offer(row)) is not None:
            return telling.of_offer(looking.repository, offer, looking.room, options)
        found = self.found(row)
        if target is None:
            return telling.of_model(found, looking.room, options) if found is not None else []
        if found is None:
            return telling.of_target_alone(target)
        return telling.of_draft(target, found, looking.pairings(target).get(found.key))
