"""Chats that are written into a database of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from specchat.app.chat.dialogue import Dialogue
from specchat.app.history.chats import Chats
from specchat.app.history.recorder import Recorder
from specchat.app.history.store import Store
from specchat.engine.messages import Steps


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "data" / "history.db"


@pytest.fixture
def recorder(file: Path) -> Iterator[Recorder]:
    made = Recorder(file)
    yield made
    made.close()


@pytest.fixture
def chats(file: Path) -> Iterator[Chats]:
    with Store(file) as store:
        yield Chats(store)


@pytest.fixture
def say(engine: Any, dialogue: Dialogue, make_steps: Callable[..., Any]) -> Callable[..., None]:
    """Asks something, and lets the engine answer with some text."""

    def say(prompt: str, text: str | None = None, finish: bool = True, **more: Any) -> None:
        assert dialogue.submit(prompt)
        records = make_steps(**more) if text is None else make_steps(text, **more)
        engine.begin()
        engine.events.append(Steps(engine.asked.id, records))
        if finish:
            engine.finish()
        dialogue.drain()

    return say
