"""The secondary models of a race: load them one after the other, and free them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePath
from typing import Literal
from urllib.parse import unquote

from ...engine.messages import Cancel, Failed, LoadedSecondary, Loading, LoadSecondary, PieceTable, ReadPieces, UnloadSecondary
from ...engine.options import ModelInfo, ModelSelection, is_url
from ..chat.about import LOADED_WITH
from ..chat.dialogue import Dialogue
from ..chat.runs import Pieces
from ..text.cells import one_line
from .entry import RaceEntry


@dataclass(slots=True, eq=False)
class SecondaryModel:
    """A model that the engine holds, or will hold, next to the chat's."""

    key: str
    id: int
    """Id of its load."""
    state: Literal["loading", "ready", "failed", "cancelled"] = "loading"
    loading: Loading | None = None
    sentence: str = ""
    """Error of its load."""
    info: ModelInfo = field(default_factory=ModelInfo)
    tokenizer: str = ""
    """Fingerprint of its tokens."""
    pieces: Pieces = field(default_factory=Pieces)
    pieces_id: int = 0
    """Id of the request for its token texts; 0 if they are the chat's."""


class SecondaryModels:
    """The models of a race besides the chat's own, by key.

    Args:
        ids: collects the ids of all commands.
    """

    def __init__(self, dialogue: Dialogue, ids: set[int]) -> None:
        self._dialogue = dialogue
        self._ids = ids
        self._models: dict[str, SecondaryModel] = {}
        self._chat_tokenizer = ""
        """Fingerprint of the tokens of the chat's model."""

    def _next_id(self) -> int:
        id = self._dialogue.engine.next_id()
        self._ids.add(id)
        return id

    def load(self, entries: Sequence[RaceEntry]) -> None:
        """Have the engine load the models of these entries, also those that failed before."""
        engine, chat = self._dialogue.engine, self._dialogue.selection
        for key, entry in {entry.key: entry for entry in entries if entry.key}.items():
            if key in self._models and self._models[key].state in ("loading", "ready"):
                continue
            defaults = {name: getattr(ModelSelection(), name) for name in LOADED_WITH} | {"backend": entry.backend or "auto"}
            selection = replace(chat, **defaults, model=entry.model or chat.model)
            model = self._models[key] = SecondaryModel(key, self._next_id())
            lanes = sum(other.key == key for other in entries)
            engine.send(LoadSecondary(model.id, key, selection, lanes))

    def cancel(self) -> None:
        if (model := self.loading) is not None:
            self._dialogue.engine.send(Cancel(model.id))

    def close(self) -> None:
        """Free all of them."""
        for model in self._models.values():
            if model.state == "loading":
                self._dialogue.engine.send(Cancel(model.id))
            self._dialogue.engine.send(UnloadSecondary(model.key))
        self._models.clear()

    @property
    def loading(self) -> SecondaryModel | None:
        """The model that is being loaded."""
        return next((model for model in self._models.values() if model.state == "loading"), None)

    def find(self, id: int) -> SecondaryModel | None:
        """Find the model that an event is about."""
        return next((model for model in self._models.values() if id in (model.id, model.pieces_id)), None)

    def take(self, model: SecondaryModel, event: Loading | LoadedSecondary | Failed | PieceTable) -> None:
        """Process an event about a model."""
        model.loading = event if isinstance(event, Loading) else None
        match event:
            case PieceTable():
                model.pieces = Pieces(event.pieces)
            case Failed() if event.id == model.id:
                model.state = "cancelled" if event.cause == "cancelled" else "failed"
                model.sentence = event.sentence
            case LoadedSecondary():
                model.state = "ready"
                model.info = event.model
                model.tokenizer = event.tokenizer
                self._chat_tokenizer = event.primary_tokenizer
                if event.tokenizer == event.primary_tokenizer:
                    model.pieces = self._dialogue.pieces
                else:
                    model.pieces_id = self._next_id()
                    self._dialogue.engine.send(ReadPieces(model.pieces_id, model.key))

    def pieces(self, key: str) -> Pieces:
        return self._models[key].pieces if key in self._models else self._dialogue.pieces

    def info(self, key: str) -> ModelInfo:
        """Return the engine's description of an entry's model; one without a name before it is loaded."""
        if not key:
            return self._dialogue.info
        return self._models[key].info if key in self._models else ModelInfo()

    def share_tokens(self, keys: Iterable[str]) -> bool:
        """Whether the tokens of these models are the same, as far as it is known; those of two servers never are."""
        keys = set(keys)
        if len(keys) > 1 and any(self.info(key).server for key in keys):
            return False
        tokenizers = {model.tokenizer for key, model in self._models.items() if key in keys}
        if "" in keys:
            tokenizers.add(self._chat_tokenizer)
        return len(tokenizers - {""}) < 2

    def names(self, entries: Sequence[RaceEntry]) -> list[str]:
        """Return each model's name, with its runtime if another has the same name; all empty if all are the chat's."""
        if not any(entry.key for entry in entries):
            return [""] * len(entries)
        names = [short_name(entry.model or self._dialogue.model) for entry in entries]
        full_names = []
        for entry, name in zip(entries, names, strict=True):
            twins = {other.key for other, other_name in zip(entries, names, strict=True) if other_name == name}
            runtime = (self.info(entry.key).backend or entry.backend) if len(twins) > 1 else ""
            full_names.append(" · ".join(filter(None, (name, one_line(runtime)))))
        return full_names


def short_name(model: str) -> str:
    """Return a model's name without its folders: `Qwen3-0.6B`, `model-Q4_K_M.gguf`."""
    if is_url(model):
        root, _, name = model.partition("#")
        return one_line(unquote(name) or root.rpartition("://")[2].removesuffix("/v1"))
    return one_line(PurePath(model.replace("\\", "/")).name or model)
