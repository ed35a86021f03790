"""A chat goes on with its own model, method and settings."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from specchat.app.chat.dialogue import Dialogue
from specchat.app.chat.entries import Notice
from specchat.app.history.chats import Chats
from specchat.app.history.recorder import Recorder
from specchat.app.history.resume import continued, own_values
from specchat.app.settings.fields import Settings
from specchat.app.settings.file import changed
from specchat.app.tui.actions.history import go_on
from specchat.backends.base import Sampling
from specchat.engine.messages import Failed, Load
from specchat.engine.options import AnswerOptions

from ...fakes.pilots import chatting, settle
from ..conftest import keep

Make = Callable[..., Any]
Say = Callable[..., None]


@pytest.fixture
def opened(recorder: Recorder, chats: Chats, dialogue: Dialogue, say: Say, monkeypatch: Any, tmp_path: Path) -> Any:
    """A chat with settings of its own, on a model of its own."""
    monkeypatch.setenv("SPECCHAT_CONFIG", str(tmp_path / "config"))
    dialogue.settings = {"lookup": {"max_ngram": 4}}
    dialogue.options = AnswerOptions(sampling=Sampling(temperature=0.8, seed=7), max_tokens=50, stop=("END",))
    dialogue.model, dialogue.load = "/models/own", {"draft_model": ["/models/small", "/models/tiny"], "device": "cuda:3"}
    say("Hello")
    keep(recorder, dialogue)
    return chats.open(chats.latest().id)


def test_the_settings_of_a_chat_come_back(opened: Any) -> None:
    settings = continued(Settings(), opened)
    assert (settings.model, settings.draft_model) == ("/models/own", ("/models/small", "/models/tiny"))
    assert settings.device == Settings().device
    assert (settings.method, settings.methods) == ("lookup", {"lookup": {"max_ngram": 4}})
    assert (settings.sampling.temperature, settings.sampling.seed) == (0.8, 7)
    assert (settings.max_tokens, settings.stop) == (50, ("END",))


def test_what_the_command_line_asks_for_goes_before_them(opened: Any) -> None:
    given = {"model": "builtin", "sampling.seed": 3}
    settings = continued(changed(Settings(), given), opened, given)
    assert (settings.model, settings.draft_model) == ("builtin", ())
    assert (settings.sampling.temperature, settings.sampling.seed) == (0.8, 3)


def test_what_another_version_wrote_is_left_out(opened: Any) -> None:
    opened.settings = {
        "method": "telepathy",
        "methods": {"lookup": {"max_ngram": "many", "depth": 2}},
        "sampling": {"temperature": -1, "seed": 5, "mood": "good"},
        "accept": ["exact"],
        "stop": [""],
        "max_tokens": 9,
    }
    assert own_values(opened) == {"sampling.seed": 5, "max_tokens": 9}


async def test_a_chat_from_the_list_brings_its_model(opened: Any, make_chat: Make, engine: Any) -> None:
    async with chatting(make_chat(model="builtin"), engine) as (app, pilot):
        app.show_chat(opened.transcript)
        go_on(app, opened)
        load = next(command for command in reversed(engine.sent) if isinstance(command, Load))
        assert (load.model, load.drafts) == ("/models/own", ["/models/small", "/models/tiny"])
        assert (app.dialogue.model, app.dialogue.phase) == ("/models/own", "loading")
        assert app.dialogue.options.sampling.seed == 7
        assert app.dialogue.settings == {"lookup": {"max_ngram": 4}}
        engine.events.append(Failed(load.id, "user", "There is no model /models/own: name another."))
        await settle(app, pilot)
        assert (app.dialogue.model, app.dialogue.phase) == ("builtin", "ready")
        told = [entry.text for entry in app.dialogue.transcript.entries if isinstance(entry, Notice)]
        assert told == ["There is no model /models/own: name another."]
        assert app.dialogue.transcript.answers()[0].text  # the chat is there to read
        assert app.dialogue.submit("And now?")


def test_a_start_with_a_model_that_is_gone_takes_the_usual_one(engine: Any, dialogue: Dialogue) -> None:
    dialogue = Dialogue(engine, "/models/own", dialogue.methods, "lookup", fallback=("builtin", {"device": "cpu"}))
    engine.events.append(Failed(1, "user", "There is no model /models/own."))
    dialogue.drain()
    assert (dialogue.model, dialogue.phase) == ("builtin", "loading")
    assert engine.sent[-1] == Load(engine.ids, "builtin", device="cpu")
    assert [entry.text for entry in dialogue.transcript.entries] == [
        "There is no model /models/own.",
        "builtin is being loaded in its place.",
    ]
    engine.events.append(Failed(1, "user", "No luck."))
    dialogue.drain()
    assert dialogue.phase == "unloaded"
