"""The keys that change how much a method drafts."""

from __future__ import annotations

from typing import Any

import pytest

from specchat.app.chat.methods import DraftLength, draft_length, known_methods, why_no_length
from specchat.engine.catalog import get, parse_params
from specchat.engine.messages import Switch, Switched

from ...fakes.pilots import Make, ask, chatting, status

METHODS = known_methods()


DRAFTING = [name for name, method in METHODS.items() if not method.undrafted]


@pytest.mark.parametrize("name", METHODS)
def test_every_method_has_a_length_or_a_reason(name: str) -> None:
    method = METHODS[name]
    marked = [param for param in method.params if param["length"]]
    assert bool(marked) != bool(method.undrafted)
    if not marked:
        assert draft_length(method, {}) is None
        assert why_no_length(method).startswith(f"{name} drafts nothing: ")
    conditions = [param["length"] for param in marked]
    assert conditions[-1:] in ([], [True])
    for condition in conditions[:-1]:
        setting, value = condition.split("=")
        assert value in next(param["choices"] for param in method.params if param["name"] == setting)
    for param in marked:
        assert param["type"] == "int"
        assert param["low"] is not None
        assert param["high"] is not None


@pytest.mark.parametrize("name", DRAFTING)
@pytest.mark.parametrize("direction", [1, -1])
def test_the_keys_reach_the_limits_and_stay_there(name: str, direction: int) -> None:
    method = METHODS[name]
    settings: dict[str, int] = {}
    seen: list[int] = []
    for _ in range(40):
        length = draft_length(method, settings)
        assert length is not None
        settings = {length.setting: length.next_size(direction)}
        parse_params(get(name), settings)  # the method takes it
        if settings[length.setting] == length.value:
            break
        seen.append(settings[length.setting])
    assert length is not None
    assert seen == sorted(seen, reverse=direction < 0)
    assert length.value == (length.high if direction > 0 else length.low)


def test_a_schedule_decides_which_setting_counts() -> None:
    draft = METHODS["draft"]
    confident, constant = draft_length(draft, {}), draft_length(draft, {"schedule": "constant"})
    assert confident is not None
    assert constant is not None
    assert (confident.setting, constant.setting) == ("most", "tokens")
    reference = draft_length(METHODS["lookup"], {"variant": "reference", "tokens": 7})
    assert reference == DraftLength("tokens", 7, 1, 256)


async def answering(app: Any, pilot: Any, engine: Any, records: Any) -> int:
    """A chat in the middle of an answer; its id."""
    app.dialogue.methods = METHODS
    return await ask(pilot, engine, "Hello", records, finish=False)


async def test_longer_and_shorter_in_mid_answer(make_chat: Make, engine: Any, make_steps: Make) -> None:
    async with chatting(make_chat(method="lookup"), size=(100, 30)) as (app, pilot):
        id = await answering(app, pilot, engine, make_steps()[:4])
        await pilot.press("d", "ctrl+up")
        assert engine.sent[-1] == Switch(id, "lookup", {"nodes": 32})
        assert "lookup · nodes 16 → 32" in status(app)
        await pilot.press("alt+equals_sign")
        assert engine.sent[-1] == Switch(id, "lookup", {"nodes": 64})
        engine.events = [Switched(id, "lookup", "identical")]
        app.take_events()
        await pilot.press("alt+minus", "ctrl+down", "ctrl+down")
        assert engine.sent[-1] == Switch(id, "lookup", {"nodes": 8})
        assert "lookup · nodes 16 → 8" in status(app)
        assert app.chat_screen.input.text == "d"


async def test_a_method_without_a_length_says_so(make_chat: Make, engine: Any, make_steps: Make) -> None:
    async with chatting(make_chat(method="greedy"), size=(100, 30)) as (app, pilot):
        await answering(app, pilot, engine, make_steps()[:4])
        sent = len(engine.sent)
        await pilot.press("ctrl+up")
        assert "greedy drafts nothing" in status(app)
        assert len(engine.sent) == sent
