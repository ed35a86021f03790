"""Past answers in the engine: kept as the loaded model's tokens, drafted from, forgotten."""

from __future__ import annotations

from pathlib import Path

from specchat.engine.client import EngineClient
from specchat.engine.messages import Event, Generate, Remember, Remembered

from ..fakes.engines import answer, recorded, steps_of, text_of, until

TEXT = "The keeper of the lighthouse wrote every evening how far the waves had come, and nobody read it for forty years."


def remember(client: EngineClient, command: Remember) -> Remembered:
    seen: list[Event] = []
    client.send(command)
    until(client, seen, lambda seen: bool(seen) and isinstance(seen[-1], Remembered))
    assert isinstance(seen[-1], Remembered)
    return seen[-1]


def test_what_is_remembered_is_drafted_from_until_it_is_forgotten(tmp_path: Path) -> None:
    folder = str(tmp_path / "past")
    with EngineClient() as client:
        answer(client, client.load(recorded(tmp_path, more={"tell me": TEXT})))

        def ask(past: str = folder) -> tuple[str, int]:
            id = client.next_id()
            client.send(Generate(id, prompt="tell me", raw=True, method="lookup", fresh=True, past=past))
            events = answer(client, id)
            return text_of(events, id), len(steps_of(events, id))

        text, plain = ask()
        assert text == TEXT
        assert remember(client, Remember(client.next_id(), folder)).keys == []
        assert remember(client, Remember(client.next_id(), folder, [[7, "Something else."], [8, TEXT]])).keys == [7, 8]
        assert ask("") == (TEXT, plain)  # a chat that is not kept
        text, steps = ask()
        assert text == TEXT
        assert steps < plain / 2
        assert remember(client, Remember(client.next_id(), folder, forget=[8])).keys == [7]
        assert ask() == (TEXT, plain)
