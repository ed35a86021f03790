"""The tour, with an engine that answers by itself: every step, and every way out."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from specchat.app.race.race import Race
from specchat.app.settings.locations import first_start
from specchat.app.tui import tour as script
from specchat.app.tui.race.races import Races
from specchat.app.tui.race.screen import RaceScreen
from specchat.app.tui.tour import Caption
from specchat.engine.messages import (
    Cancel,
    Command,
    Event,
    Finished,
    Generate,
    Loaded,
    Pace,
    Started,
    StepRecord,
    Steps,
    Switch,
    Switched,
)

from ...fakes.pilots import Make, chatting, command, held, settle, toasts, until
from ..conftest import INFO, TEXT, FakeEngine

SIZE = (100, 30)
LONG = 1000.0
"""Seconds: as good as for ever."""


@dataclass
class Running:
    """An answer that is being written."""

    lane: str
    method: str
    words: list[str]
    pace: float
    tokens: int = 0


@dataclass
class Live(FakeEngine):
    """Engine that answers at once: a word a token, one a pass by greedy and four by others."""

    text: str = TEXT
    running: dict[int, Running] = field(default_factory=dict)

    def send(self, command: Command) -> None:
        super().send(command)
        if isinstance(command, Generate):
            self.running[command.id] = Running(command.lane, command.method, re.findall(r"\s*\S+", self.text), command.pace)
            self.events.append(Started(command.id, command.lane, command.method, "identical", 31, 0))
            if not command.pace:
                self.finish_running(command.id)
        answer = self.running.get(getattr(command, "id", 0))
        match command:
            case Switch() if answer:
                answer.method = command.method
                self.events.append(Switched(command.id, command.method, "identical"))
            case Pace() if answer:
                answer.pace = command.passes
                if not answer.pace:
                    self.finish_running(command.id)
            case Cancel() if answer:
                self.end(command.id, "cancelled")

    def drain(self) -> list[Event]:
        """A look takes as long as a pass, but not at the slowest paces: then there is one pass."""
        for id, answer in list(self.running.items()):
            if answer.pace > 1 or not answer.tokens:
                self.step(id)
        return super().drain()

    def step(self, id: int) -> None:
        """One pass."""
        answer = self.running[id]
        count = 1 if answer.method == "greedy" else 4
        words, answer.words = answer.words[:count], answer.words[count:]
        tokens = list(range(answer.tokens, answer.tokens + len(words)))
        answer.tokens += len(words)
        drafted = count - 1
        record = StepRecord(answer.method, tokens, "".join(words), drafted, max(0, len(words) - 1), count, forward_seconds=0.01)
        self.events.append(Steps(id, [record]))
        if not answer.words:
            self.end(id, "eos")

    def finish_running(self, id: int) -> None:
        """All that is left, at once."""
        while id in self.running:
            self.step(id)

    def end(self, id: int, reason: str) -> None:
        answer = self.running.pop(id)
        passes = answer.tokens if answer.method == "greedy" else answer.tokens / 4
        self.events.append(Finished(id, reason, "", 0.01, 0.01 + 0.01 * passes))


@pytest.fixture
def engine() -> Live:
    return Live()


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A tour of a second or two."""
    for name in ("TICK", "PLAIN_BEAT", "RUN_BEAT"):
        monkeypatch.setattr(script, name, 0.02)
    for name in ("PLAIN_SECONDS", "RUN_SECONDS", "REST_SECONDS", "LOOK_SECONDS", "READ_SECONDS"):
        monkeypatch.setattr(script, name, 0.1)
    monkeypatch.setattr(script, "RACE_SECONDS", 0.3)
    monkeypatch.setattr(script, "LONGEST_RACE", 30.0)
    # A tick takes as long as it is meant to, whatever else the machine does.
    monkeypatch.setattr(script, "monotonic", itertools.count(0.0, script.TICK).__next__)
    monkeypatch.setattr("specchat.app.tui.app.IDLE_SECONDS", 3600)
    held.add("tour")
    yield
    held.discard("tour")


@pytest.fixture
def captions(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, str]]:
    """All that the tour says, each sentence once: a step may be over before one has looked."""
    out: list[tuple[int, str]] = []
    say = Caption.say

    def note(self: Caption, step: int, sentence: str, hint: str = "") -> None:
        if out[-1:] != [(step, sentence)]:
            out.append((step, sentence))
        say(self, step, sentence, hint)

    monkeypatch.setattr(Caption, "say", note)
    return out


def step(app: Any) -> int:
    """The step that is shown; 0 where there is none."""
    for screen in reversed(app.screen_stack):
        for caption in screen.query(Caption):
            if caption.display:
                return int(caption.state[0])
    return 0


def told(app: Any) -> str:
    """Return the sentence of the tour."""
    return str(next(caption.state[1] for screen in reversed(app.screen_stack) for caption in screen.query(Caption)))


async def begin(app: Any, pilot: Any, engine: Live, at: int = 1, **unavailable: str) -> None:
    """A tour that has come to a step."""
    await pilot.pause()
    engine.loaded(**unavailable)
    await settle(app, pilot)
    app.actions.do("tour")
    await until(pilot, lambda: step(app) >= at)


def stay(monkeypatch: pytest.MonkeyPatch, at: int) -> None:
    """Let a step last."""
    names = {1: ("PLAIN_SECONDS",), 2: ("RUN_SECONDS",), 3: ("READ_SECONDS", "RACE_SECONDS"), 4: ()}[at]
    for name in names:
        monkeypatch.setattr(script, name, LONG)
    if at in (1, 2):
        monkeypatch.setattr(script, "PLAIN_BEAT" if at == 1 else "RUN_BEAT", LONG)


async def test_the_whole_tour(
    make_chat: Make, engine: Live, captions: list[tuple[int, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(script, "PLAIN_SECONDS", 0.6)
    monkeypatch.setattr(script, "RACE_SECONDS", 1.0)
    races: list[Race] = []
    begin_race = Races.begin

    def note(races_action: Races, race: Race, caption: Any = None) -> RaceScreen:
        races.append(race)
        return begin_race(races_action, race, caption)

    monkeypatch.setattr(Races, "begin", note)
    async with chatting(make_chat(), size=SIZE) as (app, pilot):
        await begin(app, pilot, engine, 4)
        answer = app.dialogue.transcript.answers()[0]
        assert answer.methods == ["greedy", "lookup"], "the same answer went on"
        assert [len(answer.log.record(i).tokens) for i in range(2)] == [1, 1]
        assert answer.text == TEXT.rstrip("\n")
        (race,) = races
        assert [racer.entry.method for racer in race.racers][:2] == ["greedy", "lookup"]
        lanes = [command for command in engine.sent if isinstance(command, Generate) and command.lane != "main"]
        assert all(command.pace for command in lanes)
        assert not any(race.speedup(racer) for racer in race.racers), "single passes tell nothing of speed"
        plain, lookup, *_ = (racer.answer.figures.steps for racer in race.racers)
        assert plain > 2 * lookup
        assert [number for number, _ in captions] == [1, 1, 2, 3, 3, 4]
        assert captions[-2] == (3, f"lookup wrote the same text in {lookup} passes, plain decoding in {plain}.")
        assert app.screen is app.chat_screen
        assert app.box.text == script.NEXT
        assert app.dialogue.method == "lookup", "the chat's own"
        await pilot.press("enter")
        await until(pilot, lambda: step(app) == 0)
        assert app.dialogue.transcript.entries[-2].text == script.NEXT


@pytest.mark.parametrize("at", [1, 4])
async def test_esc_ends_it(make_chat: Make, engine: Live, monkeypatch: pytest.MonkeyPatch, at: int) -> None:
    stay(monkeypatch, at)
    async with chatting(make_chat(), size=SIZE, notifications=True) as (app, pilot):
        await begin(app, pilot, engine, at)
        await pilot.press("escape")
        await until(pilot, lambda: step(app) == 0 and app.dialogue.phase == "ready")
        (answer,) = app.dialogue.transcript.answers()
        assert answer.reason == ("eos" if at == 4 else "cancelled")
        assert (app.dialogue.method, app.dialogue.paused) == ("lookup", False)
        assert app.chat_screen.query_one("#status").display
        assert app.box.text == "", "the tour's message goes with it"
        assert not toasts(app)


async def test_whoever_types_goes_on_alone(make_chat: Make, engine: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    stay(monkeypatch, 2)
    async with chatting(make_chat(), size=SIZE) as (app, pilot):
        await begin(app, pilot, engine, 2)
        await pilot.press("h", "i")
        await until(pilot, lambda: step(app) == 0 and app.dialogue.phase == "ready")
        assert app.box.text == "hi", "what is typed stays"
        assert app.dialogue.transcript.answers()[0].reason == "eos", "and the answer is written to its end"


async def test_it_waits_for_the_model_and_enter_takes_it_where_it_is_offered(make_chat: Make, engine: Live) -> None:
    app = make_chat()
    app.tour = "offer"
    async with app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        assert "New here?" in str(app.chat_screen.query_one("#welcome-text").render())
        await command(pilot, "")
        await until(pilot, lambda: "as soon as the model is loaded" in told(app))
        assert app.chat_screen.query_one("#status").display, "how far the load is"
        engine.events.append(Loaded(1, INFO, {}))
        app.take_events()
        await until(pilot, lambda: step(app) >= 2)


def test_a_first_start_is_one_without_settings_and_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPECCHAT_CONFIG", str(tmp_path))
    monkeypatch.setenv("SPECCHAT_DATA", str(tmp_path / "data"))
    assert first_start()
    (tmp_path / "data").mkdir()
    assert not first_start()
    (tmp_path / "data").rmdir()
    (tmp_path / "settings.toml").write_text("")
    assert not first_start()


def test_what_it_looks_like(snap_compare: Any, make_chat: Make, engine: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    engine.text = "Guesses."  # of one word, so that nothing depends on how much came when

    async def before(pilot: Any) -> None:
        await begin(pilot.app, pilot, engine, 4)
        await until(pilot, lambda: pilot.app.screen is pilot.app.chat_screen)

    assert snap_compare(make_chat(), terminal_size=(60, 18), run_before=before)
