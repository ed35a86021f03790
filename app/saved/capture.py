"""A chat to be saved: its transcript at one moment, its model and its settings."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from ..chat.about import About, SavableChat, public
from ..chat.entries import Answer
from ..chat.pieces import Pieces
from ..chat.transcript import Transcript
from ..race.guests import short_name


@dataclass(slots=True)
class SavedChat:
    """A chat with everything that an export contains."""

    transcript: Transcript
    model: dict[str, Any] = field(default_factory=dict)
    """`asked`: the model's name as the user wrote it; the rest is the engine's description."""
    settings: dict[str, Any] = field(default_factory=dict)
    """`method`, `methods` (the settings of each), `sampling`, `accept`, `max_tokens`, `stop`, `stop_loops`, `think`,
    `think_budget`, `template_var`."""
    saved: str = ""
    """Local time of the capture with its offset, ISO 8601."""
    version: str = ""
    """Version of specchat that wrote it."""
    pieces: Pieces = field(default_factory=Pieces)
    """Default token texts for answers without any."""

    @property
    def heading(self) -> dict[str, Any]:
        """The chat's model for a heading, or the names of all models that answered."""
        names = dict.fromkeys(model for answer in self.transcript.answers() if (model := answer.asked.get("model")))
        only = all(name == self.model.get("asked") for name in names)  # no set: what a file holds may be unhashable
        return self.model if only else {"name": ", ".join(map(short_name, names))}

    @property
    def model_name(self) -> str:
        heading = self.heading
        return str(heading.get("name") or heading.get("asked") or "")

    def model_of(self, answer: Answer) -> str:
        """Return the name of an answer's model; empty if unknown."""
        return short_name(str(answer.asked.get("model", "")))

    def pieces_of(self, answer: Answer) -> Pieces:
        return answer.pieces if len(answer.pieces) else self.pieces


def capture(chat: SavableChat) -> SavedChat:
    """Capture a chat, which may go on while the copy is written."""
    from ... import __version__

    transcript, about = chat.transcript, chat.about()
    entries = [frozen(entry) if isinstance(entry, Answer) else entry for entry in transcript.entries]
    return SavedChat(
        Transcript(entries, transcript.system),
        model_body(about),
        settings_body(about),
        datetime.now().astimezone().isoformat(timespec="seconds"),
        __version__,
        about.pieces,
    )


def model_body(about: About) -> dict[str, Any]:
    return {"asked": about.selection.model, **public(about.info)}


def settings_body(about: About) -> dict[str, Any]:
    return {
        "method": about.method,
        "methods": {name: dict(table) for name, table in about.methods.items()},
        **about.answering(),
        "template_var": list(about.options.template_var),
    }


def frozen(answer: Answer) -> Answer:
    """Copy an answer that is still being written. The copy shares the log, which only grows, and reads
    it as far as its own runs go."""
    if answer.done:
        return answer
    figures = replace(answer.figures, totals=replace(answer.totals))
    return replace(answer, runs=list(answer.runs), figures=figures, by_method=dict(answer.by_method), reason="unfinished")
