"""Models that a lane of a race may run on, as they are offered."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...engine.options import BUILTIN, BUILTIN_DRAFT, SHIPPED, builtin_gguf, builtin_path
from ..chat.dialogue import Dialogue
from ..text.amounts import count_of
from ..text.cells import one_line
from .guests import short_name

if TYPE_CHECKING:
    from ..models.library import Library


@dataclass(frozen=True, slots=True)
class ModelChoice:
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
        """What tells it from other models, as `RaceEntry.key`."""
        return f"{self.model} on {self.backend}" if self.backend else self.model


def own_choice(dialogue: Dialogue) -> ModelChoice:
    """The chat's model as it is loaded."""
    info = dialogue.info
    what = [str(info.get("backend", "")), str(info.get("dtype", ""))]
    if info.get("parameters"):
        what.append(count_of(info["parameters"]))
    return ModelChoice("", "", short_name(dialogue.model), " · ".join(filter(None, map(one_line, what))), "this chat")


def look(dialogue: Dialogue, library: Library, folders: Sequence[str], stopped: Callable[[], bool]) -> Iterator[ModelChoice]:
    """Every other model on this machine, as it is found. Reads files, so call it in a thread.

    Args:
        dialogue: whose model is left out.
        library: what was found before.
        folders: the user's own folders of models.
        stopped: whether nobody waits any more.
    """
    from ..models.places import recent
    from ..models.rows import runtime_and_size

    shipped = {builtin_gguf(), builtin_path()}
    # Those in other quantizations have no names of their own.
    named = {builtin_gguf(name) for name in SHIPPED}
    for file in sorted(set(builtin_path().parent.glob("*.gguf")) - named):
        title = file.stem.replace("target", BUILTIN).replace("draft", BUILTIN_DRAFT)
        yield ModelChoice(str(file), "", title, runtime_and_size(library.card(file)), "Built-in")
    for found in library.look(recent(), folders, stopped=stopped):
        spot = found.spot
        backend = spot.backend if spot.path in shipped else ""
        if backend == "auto":  # a file of the built-in model once more, as one of this folder
            continue
        if not spot.remark and (spot.spec != dialogue.model or backend not in ("", dialogue.info.get("backend"))):
            yield ModelChoice(spot.spec, backend, one_line(spot.title), runtime_and_size(found.card), spot.place, found.problem)
    yield from _served(dialogue, stopped)


def _served(dialogue: Dialogue, stopped: Callable[[], bool]) -> Iterator[ModelChoice]:
    from ..models.servers import MOST_MODELS, ask

    servers = dialogue.load.get("servers") or {}
    for found in ask(servers, servers) if servers and not stopped() else ():
        what = one_line(" · ".join(filter(None, (found.engine, found.method))))
        specs = [found.spec(model) for model in found.models[:MOST_MODELS]] or [found.name]
        yield from (
            ModelChoice(spec, "", one_line(spec), what, "Server", found.problem) for spec in specs if spec != dialogue.model
        )
