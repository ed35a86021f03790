"""A chat without an engine: the tests play the engine's part."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from specchat.app.dialogue import Dialogue, Method
from specchat.engine.messages import Command, Event, Finished, Generate, Load, Loaded, Started, StepRecord, Steps

INFO = {
    "name": "builtin",
    "backend": "transformers",
    "device": "cpu",
    "dtype": "float32",
    "parameters": 6_750_000,
    "context": 4096,
    "notes": [],
}

METHODS = {
    method.name: method
    for method in (
        Method("greedy", "identical", "One token per forward pass.", "Always works; the reference for the others."),
        Method("recompute", "identical", "Plain decoding without a KV cache.", "Never; it shows what the cache saves."),
        Method(
            *("lookup", "identical", "Drafts what followed the last few tokens earlier in the text."),
            *("Wherever the answer repeats the prompt.", "Saxena 2023"),
            ({"name": "max_ngram", "default": 3, "doc": "Longest n-gram looked for."},),
        ),
        Method("soft", "lossy", "Accepts drafts that are nearly as probable as the model's choice.", "For speed alone."),
    )
}

TEXT = (
    "Prompt lookup looks for the last few tokens earlier in the text and drafts what followed them there. The model then "
    "checks all drafted tokens in one forward pass.\n\nSo the answer never changes:\n\n    def verify(draft, choice):\n"
    "        return [a for a, b in zip(draft, choice) if a == b]\n"
)


def steps(text: str = TEXT, *, method: str = "lookup", drafts: bool = True, seed: int = 1) -> list[StepRecord]:
    """`text` as steps of one to six tokens (one where `drafts` is False); the same for the same seed."""
    pick = random.Random(seed)
    words = re.findall(r"\s*\S{1,5}|\s+", text)
    out = []
    while words:
        count = pick.choice((1, 1, 2, 3, 6)) if drafts else 1
        taken, words = words[:count], words[count:]
        drafted = 6 if drafts else 0
        out.append(
            StepRecord(
                method, list(range(len(taken))), "".join(taken), drafted, len(taken) - 1, 1 + drafted, 0.0001, 0.03, 0.0009
            )
        )
    return out


@dataclass
class FakeEngine:
    """The client's calls, recorded; `events` is what the next `drain` gives."""

    sent: list[Command] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    ids: int = 0

    def next_id(self) -> int:
        self.ids += 1
        return self.ids

    def send(self, command: Command) -> None:
        self.sent.append(command)

    def load(self, model: str, **options: Any) -> int:
        self.send(Load(self.next_id(), model, **options))
        return self.ids

    def drain(self) -> list[Event]:
        events, self.events = self.events, []
        return events

    # What a test lets the engine say

    def loaded(self, **unavailable: str) -> None:
        self.events.append(Loaded(1, dict(INFO), unavailable))

    @property
    def asked(self) -> Generate:
        """The last answer asked for."""
        return next(command for command in reversed(self.sent) if isinstance(command, Generate))

    def begin(self, records: Sequence[StepRecord] = ()) -> int:
        """Start the answer asked for."""
        asked = self.asked
        self.events.append(Started(asked.id, "main", asked.method, "identical", 31, 0))
        if records:
            self.events.append(Steps(asked.id, list(records)))
        return asked.id

    def finish(self, reason: str = "eos", tail: str = "") -> None:
        self.events.append(Finished(self.asked.id, reason, tail, 0.12, 1.32))


@pytest.fixture
def engine() -> FakeEngine:
    return FakeEngine()


@pytest.fixture
def dialogue(engine: FakeEngine) -> Dialogue:
    """One whose model is loaded."""
    made = Dialogue(engine, "builtin", METHODS, "lookup")
    engine.loaded()
    made.drain()
    return made


@pytest.fixture
def make_steps() -> Callable[..., list[StepRecord]]:
    return steps


@pytest.fixture
def make_chat(engine: FakeEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Makes the app, with no settings but those given and no clipboard tool."""
    monkeypatch.setenv("SPECCHAT_CONFIG", str(tmp_path))
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("COLORTERM", "truecolor")
    monkeypatch.setattr("specchat.app.clipboard.tool", lambda: None)

    def make(**changes: Any) -> Any:
        from specchat.app.chat import SpecchatApp
        from specchat.app.settings import Settings, changed

        notice = changes.pop("notice", None)
        return SpecchatApp(changed(Settings(), changes), engine, notice, METHODS)

    return make
