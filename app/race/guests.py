"""Models of a race besides the chat's: asked for, loaded one after the other, given back."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Any, Literal
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
from ...engine.options import is_url
from ..chat.dialogue import Dialogue
from ..chat.pieces import Pieces
from ..text.cells import one_line
from .entry import RaceEntry

NOT_SHARED = ("draft_model", "revision", "backend", "chat_template")
"""Options of the chat's model that say nothing about another one."""


@dataclass(slots=True, eq=False)
class RaceGuest:
    """A model that the engine holds, or is to hold, beside the chat's."""

    key: str
    id: int
    """Id of its load."""
    state: Literal["loading", "ready", "failed", "cancelled"] = "loading"
    loading: Loading | None = None
    sentence: str = ""
    """Why it could not be loaded."""
    info: dict[str, Any] = field(default_factory=dict)
    unavailable: dict[str, str] = field(default_factory=dict)
    tokenizer: str = ""
    pieces: Pieces = field(default_factory=Pieces)


class RaceModels:
    """The models of a race besides the chat's own, by key."""

    def __init__(self, dialogue: Dialogue) -> None:
        self._dialogue = dialogue
        self._guests: dict[str, RaceGuest] = {}
        self._own = ""
        """What tells the tokens of the chat's model from others'."""
        self._tables: dict[int, str] = {}
        self.ids: set[int] = set()
        """Ids of all commands that were ever sent from here."""

    def want(self, entries: Sequence[RaceEntry]) -> None:
        """Let the engine hold the models of these. One that could not be loaded is tried again."""
        for key, entry in {entry.key: entry for entry in entries if entry.key}.items():
            guest = self._guests.get(key)
            if guest is None or guest.state in ("failed", "cancelled"):
                self._load(entry, sum(other.key == key for other in entries))

    def _load(self, entry: RaceEntry, lanes: int) -> None:
        engine = self._dialogue.engine
        options = {name: value for name, value in self._dialogue.load.items() if name not in NOT_SHARED}
        if entry.backend:
            options["backend"] = entry.backend
        guest = self._guests[entry.key] = RaceGuest(entry.key, engine.next_id())
        self.ids.add(guest.id)
        engine.send(LoadSecondary(guest.id, entry.key, entry.model or self._dialogue.model, options, lanes))

    def cancel(self) -> None:
        for guest in self._guests.values():
            if guest.state == "loading":
                self._dialogue.engine.send(Cancel(guest.id))

    def close(self) -> None:
        """Give all of them back."""
        self.cancel()
        for key in self._guests:
            self._dialogue.engine.send(UnloadSecondary(key))
        self._guests.clear()

    def forget(self) -> None:
        """The engine ended, and they with it."""
        self._guests.clear()

    def get(self, key: str) -> RaceGuest | None:
        """The model of an entry, if it is not the chat's."""
        return self._guests.get(key)

    @property
    def loading(self) -> RaceGuest | None:
        """The one whose turn it is to be loaded."""
        return next((guest for guest in self._guests.values() if guest.state == "loading"), None)

    def handle(self, event: Event) -> RaceGuest | None:
        """Take in an event; the guest that it settles, if it does: loaded, or not to be had."""
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
                    guest.state, guest.sentence = "cancelled" if event.cause == "cancelled" else "failed", event.sentence
                else:
                    self._loaded(guest, event)
                return guest
        return None

    def _loaded(self, guest: RaceGuest, event: LoadedSecondary) -> None:
        guest.state, guest.info, guest.unavailable = "ready", event.info, event.unavailable
        guest.tokenizer, self._own = event.tokenizer, event.primary_tokenizer
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

    def info(self, key: str) -> dict[str, Any]:
        """What the engine tells of an entry's model; empty before it is loaded."""
        guest = self._guests.get(key)
        return guest.info if guest is not None else {} if key else self._dialogue.info

    def alike(self, keys: Iterable[str]) -> bool:
        """Whether the tokens of these models mean the same, as far as that is known. Of a server's nobody knows."""
        keys = set(keys)
        if len(keys) > 1 and any(self.info(key).get("server") for key in keys):
            return False
        guests = {key: self._guests.get(key) for key in keys}
        known = {
            self._own if not key else guest.tokenizer if guest is not None else ""
            for key, guest in guests.items()
            if not key or (guest is not None and guest.state == "ready")
        }
        return len(known - {""}) < 2

    def names(self, entries: Sequence[RaceEntry]) -> list[str]:
        """What each entry's model is called in a race: as short as tells them apart. Empty for all where it is the chat's."""
        if not any(entry.key for entry in entries):
            return [""] * len(entries)
        asked = [entry.model or self._dialogue.model for entry in entries]
        short = [short_name(name) for name in asked]
        infos = [self.info(entry.key) for entry in entries]
        out = []
        for entry, name, info in zip(entries, short, infos, strict=True):
            twins = {other.key for other, called in zip(entries, short, strict=True) if called == name}
            runtime = str(info.get("backend") or entry.backend) if len(twins) > 1 else ""
            out.append(" · ".join(part for part in (name, one_line(runtime)) if part))
        return out


def short_name(model: str) -> str:
    """A model's name without its folders: `Qwen3-0.6B`, `model-Q4_K_M.gguf`."""
    if is_url(model):
        root, _, name = model.partition("#")
        return one_line(unquote(name) or root.rpartition("://")[2].removesuffix("/v1"))
    return one_line(PurePath(model.replace("\\", "/")).name or model)
