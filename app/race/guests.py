"""The models of a race besides the chat's: load them one after the other, and free them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePath
from typing import Literal
from urllib.parse import unquote

from ...engine.messages import (
    Cancel,
    Event,
    Failed,
    LoadedSecondary,
    Loading,
    LoadSecondary,
    PieceTable,
    ReadPieces,
    UnloadSecondary,
)
from ...engine.options import ModelInfo, ModelSelection, is_url
from ..chat.about import LOADED_WITH
from ..chat.dialogue import Dialogue
from ..chat.pieces import Pieces
from ..text.cells import one_line
from .entry import RaceEntry


@dataclass(slots=True, eq=False)
class RaceGuest:
    """A model that the engine holds, or will hold, next to the chat's."""

    key: str
    id: int
    """Id of its load."""
    state: Literal["loading", "ready", "failed", "cancelled"] = "loading"
    loading: Loading | None = None
    sentence: str = ""
    """Error of its load."""
    info: ModelInfo = field(default_factory=ModelInfo)
    unavailable: dict[str, str] = field(default_factory=dict)
    tokenizer: str = ""
    pieces: Pieces = field(default_factory=Pieces)


class RaceModels:
    """The models of a race besides the chat's own, by key."""

    def __init__(self, dialogue: Dialogue) -> None:
        self._dialogue = dialogue
        self._guests: dict[str, RaceGuest] = {}
        self._chat_tokenizer = ""
        """Fingerprint of the tokens of the chat's model."""
        self._tables: dict[int, str] = {}
        self.ids: set[int] = set()
        """Ids of all commands that were sent from here."""

    def load(self, entries: Sequence[RaceEntry]) -> None:
        """Have the engine load the models of these entries, also those that failed before."""
        for key, entry in {entry.key: entry for entry in entries if entry.key}.items():
            guest = self._guests.get(key)
            if guest is None or guest.state in ("failed", "cancelled"):
                self._load(entry, sum(other.key == key for other in entries))

    def _load(self, entry: RaceEntry, lanes: int) -> None:
        engine = self._dialogue.engine
        chat = self._dialogue.selection
        own = {name: getattr(ModelSelection(), name) for name in LOADED_WITH} | {"backend": entry.backend or "auto"}
        selection = replace(chat, **own, model=entry.model or chat.model)
        guest = self._guests[entry.key] = RaceGuest(entry.key, engine.next_id())
        self.ids.add(guest.id)
        engine.send(LoadSecondary(guest.id, entry.key, selection, lanes))

    def cancel(self) -> None:
        for guest in self._guests.values():
            if guest.state == "loading":
                self._dialogue.engine.send(Cancel(guest.id))

    def close(self) -> None:
        """Free all of them."""
        self.cancel()
        for key in self._guests:
            self._dialogue.engine.send(UnloadSecondary(key))
        self._guests.clear()

    def forget(self) -> None:
        """Drop all of them after the engine's end."""
        self._guests.clear()

    def get(self, key: str) -> RaceGuest | None:
        """Return the model with a key; None for the chat's."""
        return self._guests.get(key)

    @property
    def loading(self) -> RaceGuest | None:
        """The model that is being loaded."""
        return next((guest for guest in self._guests.values() if guest.state == "loading"), None)

    def handle(self, event: Event) -> RaceGuest | None:
        """Process an event; returns the guest that it completes, loaded or failed."""
        match event:
            case PieceTable():
                guest = self._guests.get(self._tables.pop(event.id, ""))
                if guest is not None:
                    guest.pieces = Pieces(event.pieces)
                return guest
            case Loading() | LoadedSecondary() | Failed():
                guest = next((guest for guest in self._guests.values() if guest.id == event.id), None)
                if guest is None:
                    return None
                if isinstance(event, Loading):
                    guest.loading = event
                    return None
                guest.loading = None
                if isinstance(event, Failed):
                    guest.state = "cancelled" if event.cause == "cancelled" else "failed"
                    guest.sentence = event.sentence
                else:
                    self._loaded(guest, event)
                return guest
        return None

    def _loaded(self, guest: RaceGuest, event: LoadedSecondary) -> None:
        guest.state = "ready"
        guest.info = event.model
        guest.unavailable = event.unavailable
        guest.tokenizer = event.tokenizer
        self._chat_tokenizer = event.primary_tokenizer
        if event.tokenizer == event.primary_tokenizer:
            guest.pieces = self._dialogue.pieces
            return
        id = self._dialogue.engine.next_id()
        self.ids.add(id)
        self._tables[id] = guest.key
        self._dialogue.engine.send(ReadPieces(id, guest.key))

    def pieces(self, key: str) -> Pieces:
        guest = self._guests.get(key)
        return guest.pieces if guest is not None else self._dialogue.pieces

    def info(self, key: str) -> ModelInfo:
        """Return the engine's description of an entry's model; one without a name before it is loaded."""
        if not key:
            return self._dialogue.info
        guest = self._guests.get(key)
        return guest.info if guest is not None else ModelInfo()

    def share_tokens(self, keys: Iterable[str]) -> bool:
        """Whether the tokens of these models are the same, as far as it is known; those of two servers never are."""
        keys = set(keys)
        if len(keys) > 1 and any(self.info(key).server for key in keys):
            return False
        ready = (guest for key in keys if (guest := self._guests.get(key)) is not None and guest.state == "ready")
        tokenizers = {guest.tokenizer for guest in ready}
        if "" in keys:
            tokenizers.add(self._chat_tokenizer)
        return len(tokenizers - {""}) < 2

    def names(self, entries: Sequence[RaceEntry]) -> list[str]:
        """Return each model's name, with its runtime if another has the same name; all empty if all are the chat's."""
        if not any(entry.key for entry in entries):
            return [""] * len(entries)
        names = [short_name(entry.model or self._dialogue.model) for entry in entries]
        out = []
        for entry, name in zip(entries, names, strict=True):
            twins = {other.key for other, other_name in zip(entries, names, strict=True) if other_name == name}
            runtime = (self.info(entry.key).backend or entry.backend) if len(twins) > 1 else ""
            out.append(" · ".join(filter(None, (name, one_line(runtime)))))
        return out


def short_name(model: str) -> str:
    """Return a model's name without its folders: `Qwen3-0.6B`, `model-Q4_K_M.gguf`."""
    if is_url(model):
        root, _, name = model.partition("#")
        return one_line(unquote(name) or root.rpartition("://")[2].removesuffix("/v1"))
    return one_line(PurePath(model.replace("\\", "/")).name or model)
