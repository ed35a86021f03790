"""The models that are offered for a race's lanes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...engine.options import BUILTIN, BUILTIN_DRAFT, SHIPPED, builtin_gguf, builtin_path
from ..chat.dialogue import Dialogue
from ..text.amounts import count_of
from ..text.cells import one_line
from .entry import model_key
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
    """Runtime, kind of weights and size in words, as far as they are known."""
    place: str = ""
    problem: str = ""
    """Reason why it cannot be loaded; empty if none is known."""

    @property
    def key(self) -> str:
        return model_key(self.model, self.backend)


def chat_model_choice(dialogue: Dialogue) -> ModelChoice:
    """Return the chat's model as it is loaded."""
    info = dialogue.info
    what = [info.backend, info.dtype, count_of(info.parameters)]
    return ModelChoice("", "", short_name(dialogue.model), " · ".join(filter(None, map(one_line, what))), "this chat")


def find_choices(
    dialogue: Dialogue, library: Library, folders: Sequence[str], stopped: Callable[[], bool]
) -> Iterator[ModelChoice]:
    """Yield every other model on this machine. Reads files, so call it in a thread.

    Args:
        dialogue: the chat, whose model is left out.
        library: the models found before.
        folders: the user's own folders of models.
        stopped: whether the search was abandoned.
    """
    from ..models.places import recent
    from ..models.rows import runtime_and_size

    shipped = {builtin_gguf(), builtin_path()}
    # Other quantizations of the built-in models have no names.
    named = {builtin_gguf(name) for name in SHIPPED}
    for file in sorted(set(builtin_path().parent.glob("*.gguf")) - named):
        title = file.stem.replace("target", BUILTIN).replace("draft", BUILTIN_DRAFT)
        yield ModelChoice(str(file), "", title, runtime_and_size(library.card(file)), "Built-in")
    for model in library.look(recent(), folders, stopped=stopped):
        spot = model.spot
        backend = spot.backend if spot.path in shipped else ""
        if backend == "auto":  # a built-in model's file again, in its folder
            continue
        if not spot.remark and (spot.spec != dialogue.model or backend not in ("", dialogue.info.backend)):
            yield ModelChoice(spot.spec, backend, one_line(spot.title), runtime_and_size(model.card), spot.place, model.problem)
    yield from _served(dialogue, stopped)


def _served(dialogue: Dialogue, stopped: Callable[[], bool]) -> Iterator[ModelChoice]:
    from ..models.servers import MOST_MODELS, ask

    servers = dialogue.selection.servers
    for server in ask(servers, servers) if servers and not stopped() else ():
        what = one_line(" · ".join(filter(None, (server.engine, server.method))))
        specs = [server.spec(model) for model in server.models[:MOST_MODELS]] or [server.name]
        yield from (
            ModelChoice(spec, "", one_line(spec), what, "Server", server.problem) for spec in specs if spec != dialogue.model
        )
