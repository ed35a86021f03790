"""Models that a lane of a race may run on, as they are offered."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .cells import one_line
from .models.amounts import count_of, size_of
from .race_models import short_name

if TYPE_CHECKING:
    from .chat import SpecchatApp


@dataclass(frozen=True, slots=True)
class Choice:
    """A model for a lane; model and runtime are empty for the chat's own."""

    model: str = ""
    backend: str = ""
    title: str = ""
    what: str = ""
    """Runtime, kind of weights, size: in words, as many as are known."""
    place: str = ""
    problem: str = ""
    """Why it cannot be loaded; empty if nothing is known to be in the way."""

    @property
    def key(self) -> str:
        """As `Entry.key`."""
        return f"{self.model} on {self.backend}" if self.backend else self.model


def own_choice(chat: SpecchatApp) -> Choice:
    """The chat's model as it is loaded."""
    info = chat.dialogue.info
    what = [str(info.get("backend", "")), str(info.get("dtype", ""))]
    if info.get("parameters"):
        what.append(count_of(info["parameters"]))
    return Choice("", "", short_name(chat.dialogue.model), " · ".join(filter(None, map(one_line, what))), "this chat")


def look(chat: SpecchatApp, stopped: Callable[[], bool]) -> Iterator[Choice]:
    """Every other model on this machine, as it is found. Reads files, so call it in a thread."""
    from ..backends.loading import builtin_gguf, builtin_path
    from .models.found import in_order
    from .models.recent import recent

    dialogue = chat.dialogue
    shipped = {builtin_gguf(), builtin_path()}
    found = list(chat.models.library.look(recent(), chat.settings.model_folders, stopped=stopped))
    known = {each.spot.path for each in found}
    for each in in_order(found):
        backend = each.spot.backend if each.spot.path in shipped else ""
        if each.spot.remark or (each.spot.spec == dialogue.model and backend in ("", dialogue.info.get("backend"))):
            continue
        card = each.card
        what = (card.backend, card.quantization, size_of(card.size) if card.size else "")
        yield Choice(
            each.spot.spec, backend, one_line(each.spot.title), " · ".join(filter(None, what)), each.spot.place, each.problem
        )
    for file in sorted(builtin_path().parent.glob("*.gguf")):
        if file not in known and file not in (builtin_gguf("builtin"), builtin_gguf("builtin-draft")) and not stopped():
            card = chat.models.library.card(file)
            title = file.stem.replace("target", "builtin").replace("draft", "builtin-draft")
            yield Choice(str(file), "", title, " · ".join(("llama.cpp", card.quantization, size_of(card.size))), "Built in")
