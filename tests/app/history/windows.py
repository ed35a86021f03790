"""Window in another process: it keeps its chat and reads the list as the chat does."""

from __future__ import annotations

from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from specchat.app.chat.dialogue import Dialogue
from specchat.app.chat.entries import Prompt
from specchat.app.chat.methods import Method
from specchat.app.history import take_notices
from specchat.app.history.chats import Chats
from specchat.app.history.recorder import Recorder
from specchat.app.history.store import Store
from specchat.engine.messages import StepRecord
from specchat.engine.options import ModelSelection

from ..conftest import FakeEngine


class Window:
    """Actions of a window. When a call returns, its effect is in the file."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.engine = FakeEngine()
        self.dialogue = Dialogue(self.engine, ModelSelection("synthetic"), {"lookup": Method("lookup")}, "lookup")
        self.engine.loaded()
        self.dialogue.drain()
        self.recorder = Recorder(file)

    def ask(self, text: str) -> tuple[int, list[str]]:
        """Go on with the chat on the screen; its number, and all that was asked in it."""
        assert self.dialogue.submit(text)
        self.engine.begin([StepRecord("lookup", [1], f"An answer to {text}", drafted=4, nodes=5)])
        self.engine.finish()
        self.dialogue.drain()
        self._settle()
        transcript = self.dialogue.transcript
        return transcript.track.chat, [entry.text for entry in transcript.entries if isinstance(entry, Prompt)]

    def new(self, text: str) -> tuple[int, list[str]]:
        self.dialogue.clear()
        return self.ask(text)

    def go_on(self, id: int, text: str) -> tuple[int, list[str]]:
        with Store(self.file) as store:
            self.dialogue.transcript = Chats(store).open(id).transcript
        return self.ask(text)

    def chats(self) -> dict[int, tuple[str, bool]]:
        """All chats by number: title, and whether it was deleted."""
        with Store(self.file) as store:
            rows = [*Chats(store).newest(limit=100_000), *Chats(store).deleted()]
        return {row.id: (row.title, row.deleted) for row in rows}

    def search(self, text: str) -> set[int]:
        with Store(self.file) as store:
            return {hit.chat.id for hit in Chats(store).search(text)}

    def rename(self, id: int, title: str) -> None:
        with Store(self.file) as store:
            Chats(store).rename(id, title)

    def delete(self, id: int) -> None:
        with Store(self.file) as store:
            Chats(store).delete(id)

    def everything(self) -> dict[int, tuple[str, bool, list[str], list[str]]]:
        """All chats by number: title, whether it was deleted, prompts, answers."""
        out = {}
        listed = self.chats()
        with Store(self.file) as store:
            assert take_notices() == []
            assert store.db.execute("PRAGMA quick_check").fetchone() == ("ok",)
            for id, (title, deleted) in listed.items():
                transcript = Chats(store).open(id).transcript
                prompts = [entry.text for entry in transcript.entries if isinstance(entry, Prompt)]
                out[id] = (title, deleted, prompts, [answer.text for answer in transcript.answers()])
        return out

    def quit(self) -> None:
        self.recorder.close(self.dialogue)

    def _settle(self) -> None:
        self.recorder.note(self.dialogue)
        assert self.recorder.settle(60)
        assert self.recorder.take_sentences() == []


def run(pipe: Connection, file: Path) -> None:
    window = Window(file)
    name = ""
    while name != "quit":
        name, *arguments = pipe.recv()
        try:
            answer: Any = getattr(window, name)(*arguments)
        except Exception as error:  # the test tells it
            answer = error
        pipe.send(answer)
