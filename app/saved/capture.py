"""A chat as it is saved: the transcript at one moment, and what produced it."""

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
    """A chat, with all that an export tells of it."""

    transcript: Transcript
    model: dict[str, Any] = field(default_factory=dict)
    """`asked`: as the user named it; the rest as the engine tells it."""
    settings: dict[str, Any] = field(default_factory=dict)
    """`method`, `methods` (the settings of each), `sampling`, `accept`, `max_tokens`, `stop`, `stop_loops`, `think`,
    `think_budget`, `template_var`."""
    saved: str = ""
    """When: local time with its offset, ISO 8601."""
    version: str = ""
    """Version of specchat that wrote it."""
    pieces: Pieces = field(default_factory=Pieces)
    """Token texts for answers that have none of their own."""

    @property
    def heading(self) -> dict[str, Any]:
        """The model as a heading tells it: the chat's own, or the names of all that answered where another one did too."""
        asked = dict.fromkeys(model for answer in self.transcript.answers() if (model := answer.asked.get("model")))
        only = all(model == self.model.get("asked") for model in asked)  # which somebody may have written
        return self.model if only else {"name": ", ".join(map(short_name, asked))}

    @property
    def model_name(self) -> str:
        heading = self.heading
        return str(heading.get("name") or heading.get("asked") or "")

    def model_of(self, answer: Answer) -> str:
        """The name of the model that gave an answer; empty where it is not known."""
        return short_name(str(answer.asked.get("model", "")))

    def texts(self, answer: Answer) -> Pieces:
        return answer.pieces if len(answer.pieces) else self.pieces


def capture(chat: SavableChat) -> SavedChat:
    """The chat as it is now; writing it may take as long as it likes while the chat goes on."""
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
    return {"asked": about.model, **public(about.info)}


def settings_body(about: About) -> dict[str, Any]:
    options = about.options
    asked = {"think": options.think, "think_budget": options.think_budget, "template_var": list(options.template_var)}
    return {
        "method": about.method,
        "methods": {name: dict(table) for name, table in about.methods.items()},
        **about.answering(),
        **{name: value for name, value in asked.items() if value not in ("", None, [])},
    }


def frozen(answer: Answer) -> Answer:
    """The answer as it is now. Its steps are only ever added to, so the log is shared and read up to the runs there are."""
    if answer.done:
        return answer
    figures = replace(answer.figures, totals=replace(answer.totals))
    return replace(answer, runs=list(answer.runs), figures=figures, by_method=dict(answer.by_method), reason="unfinished")
