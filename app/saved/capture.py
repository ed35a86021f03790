"""A chat as it is saved: the transcript at one moment, and what produced it."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from typing import Any

from ..chat.dialogue import Dialogue
from ..chat.entries import Answer
from ..chat.pieces import Pieces
from ..chat.transcript import Transcript


@dataclass(slots=True)
class SavedChat:
    """A chat, with all that an export tells of it."""

    transcript: Transcript
    model: dict[str, Any] = field(default_factory=dict)
    """`asked`: as the user named it; the rest as the engine tells it."""
    settings: dict[str, Any] = field(default_factory=dict)
    """`method`, `methods` (the settings of each), `sampling`, `accept`, `max_tokens`, `stop`."""
    saved: str = ""
    """When: local time with its offset, ISO 8601."""
    version: str = ""
    """Of specchat."""
    pieces: Pieces = field(default_factory=Pieces)
    """Token texts for answers that have none of their own."""

    @property
    def model_name(self) -> str:
        return str(self.model.get("name") or self.model.get("asked") or "")

    def texts(self, answer: Answer) -> Pieces:
        """The token texts of an answer's model."""
        return answer.pieces if len(answer.pieces) else self.pieces


def capture(dialogue: Dialogue) -> SavedChat:
    """The chat as it is now; writing it may take as long as it likes while the dialogue goes on."""
    from ... import __version__

    entries = [frozen(entry) if isinstance(entry, Answer) else entry for entry in dialogue.transcript.entries]
    return SavedChat(
        Transcript(entries, dialogue.transcript.system),
        model_body(dialogue),
        settings_body(dialogue),
        datetime.now().astimezone().isoformat(timespec="seconds"),
        __version__,
        dialogue.pieces,
    )


def model_body(dialogue: Dialogue) -> dict[str, Any]:
    """The model of a chat as an object."""
    # Where the model lies on this disk is nobody else's business.
    return {"asked": dialogue.model, **{key: value for key, value in dialogue.info.items() if key != "path"}}


def settings_body(dialogue: Dialogue) -> dict[str, Any]:
    """The settings of a chat as an object."""
    return {
        "method": dialogue.method,
        "methods": {name: dict(table) for name, table in dialogue.settings.items()},
        "sampling": asdict(dialogue.sampling),
        "accept": dialogue.accept,
        "max_tokens": dialogue.max_tokens,
        "stop": list(dialogue.stop),
    }


def frozen(answer: Answer) -> Answer:
    """The answer as it is now. Its steps are only ever added to, so the log is shared and read up to the runs there are."""
    if answer.done:
        return answer
    figures = replace(answer.figures)
    return replace(answer, runs=list(answer.runs), figures=figures, methods=list(answer.methods), reason="unfinished")
