"""Races without an engine, and on a real one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from specchat.app.chat.dialogue import Dialogue
from specchat.app.chat.methods import known_methods
from specchat.app.race.entry import RaceEntry
from specchat.app.race.race import Race
from specchat.app.race.record import RaceRecord
from specchat.engine.client import EngineClient
from specchat.engine.messages import Finished, Generate, Started, StepRecord, Steps
from specchat.engine.options import AnswerOptions, ModelSelection

from ..cases import FULL
from .engines import wait_until

LABELS = {"soft": "lossy"}


def started(dialogue: Dialogue, entries: Sequence[RaceEntry], prompt: str = "Hello") -> Race:
    """Start a race."""
    race = Race(dialogue, prompt, [{"role": "user", "content": prompt}], entries)
    dialogue.listener = race.handle
    race.start()
    return race


def request_of(engine: Any, index: int) -> Generate:
    """The last answer asked for in a lane, counted from 0 in the order in which they were asked for."""
    latest = {command.lane: command for command in engine.sent if isinstance(command, Generate) and command.lane != "main"}
    return latest[sorted(latest)[index]]


def records(method: str, tokens: Sequence[int], size: int = 1, seconds: float = 0.01) -> list[StepRecord]:
    """Make steps of `size` tokens, a token's text its number. One token is a wrong guess of a method that drafts."""
    out = []
    for start in range(0, len(tokens), size):
        chunk = list(tokens[start : start + size])
        drafted = size - 1 if size > 1 else int(method != "greedy")
        text = "".join(f"{token} " for token in chunk)
        out.append(StepRecord(method, chunk, text, drafted, len(chunk) - 1, 1 + drafted, forward_seconds=seconds))
    return out


def begin(engine: Any, index: int) -> int:
    """Begin a lane's answer; its id."""
    command = request_of(engine, index)
    label = LABELS.get(command.method, "identical")
    engine.events.append(Started(command.id, command.lane, command.method, label, 31, 0))
    return command.id


def write(engine: Any, index: int, steps: list[StepRecord]) -> None:
    """Have a lane write."""
    engine.events.append(Steps(request_of(engine, index).id, steps))


def finish(engine: Any, index: int, busy: float, prefill: float = 0.1, reason: str = "eos") -> None:
    """End a lane."""
    engine.events.append(Finished(request_of(engine, index).id, reason, "", prefill, busy))


def run_lanes(engine: Any, race: Race, lanes: Sequence[tuple[Sequence[int], int, float]]) -> None:
    """Let all lanes write and finish; each has its tokens, the number of them a step, and its busy seconds."""
    for i, (tokens, size, _) in enumerate(lanes):
        begin(engine, i)
        write(engine, i, records(race.racers[i].entry.method, tokens, size))
    race.dialogue.drain()
    for i, (_, _, busy) in enumerate(lanes):
        finish(engine, i, busy)
    race.dialogue.drain()


LENGTH = 64 if FULL else 32
"""Tokens of an answer, of which beam search gives others than greedy."""


def until(dialogue: Dialogue, enough: Callable[[], bool]) -> None:
    """Take in the engine's events until something has come about."""

    def drained() -> bool:
        dialogue.drain()
        return enough()

    wait_until(drained)


def finished(race: Race) -> RaceRecord:
    """The record of a race that has been waited for, every near tie judged."""
    until(race.dialogue, lambda: not race.running and not any(racer.judging for racer in race.racers))
    return race.record()


@contextmanager
def builtin_chat(folder: Path) -> Iterator[Dialogue]:
    """A chat with the built-in model loaded."""
    with EngineClient(log=folder / "engine.log") as client:
        dialogue = Dialogue(
            client, ModelSelection("builtin"), known_methods(), "lookup", options=AnswerOptions(max_tokens=LENGTH)
        )
        client.load(ModelSelection("builtin", device="cpu", dtype="float32"))
        until(dialogue, lambda: dialogue.phase == "ready")
        yield dialogue
