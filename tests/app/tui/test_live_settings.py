"""The settings in force, and the file that is written beside them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from specchat.app.settings.file import read
from specchat.engine.messages import Loaded
from specchat.engine.options import Sampling

from ...fakes.pilots import chatting, settle
from ..conftest import INFO


async def test_an_older_look_at_the_file_takes_back_nothing_that_is_being_written(make_chat: Callable[..., Any]) -> None:
    app = make_chat()
    async with app.run_test():
        found = read()
        with app.live._writing:
            app.actions.command("/colours off")
            app.live._pending.clear()  # as `_write` does before it saves
            app.live._take(found)
            assert app.view.colouring == "off"


async def test_a_model_is_sampled_as_its_makers_recommend_until_somebody_chooses(
    make_chat: Callable[..., Any], engine: Any
) -> None:
    async with chatting(make_chat(), size=(140, 30), notifications=True) as (app, pilot):
        app.dialogue.submit("Hello")  # waits for the model
        engine.events.append(Loaded(1, INFO | {"sampling": {"temperature": 0.6, "top_k": 20}}, {}))
        await settle(app, pilot)
        assert (engine.asked.sampling["temperature"], engine.asked.sampling["top_k"]) == (0.6, 20)
        assert app.live.layers.origin("sampling.temperature").said == "recommended for this model"
        assert "temperature 0.6, recommended for it" in str(app.chat_screen.query_one("ChatHeader").render())
        assert app.dialogue.race_sampling.greedy
        engine.begin()
        engine.finish()
        await settle(app, pilot)
        for temperature in (0.0, 0.6):  # one key, to and fro
            await pilot.press("alt+t")
            assert app.dialogue.options.sampling.temperature == temperature
        app.actions.command("/set temperature=0.9")
        await pilot.resize_terminal(70, 30)
        assert "temperature 0.9" in str(app.chat_screen.query_one("ChatHeader").render()), "before what never changes"
        assert app.dialogue.race_sampling.temperature == 0.9
        for temperature in (0.0, 0.9):
            await pilot.press("alt+t")
            assert app.dialogue.options.sampling.temperature == temperature
        app.live.unset("sampling.temperature")
        app.dialogue.load_model("other")
        engine.events.append(Loaded(9, INFO | {"name": "other"}, {}))
        await settle(app, pilot)
        assert app.dialogue.options.sampling == Sampling()
        assert "sampling.temperature" not in app.live.current()


async def test_a_header_without_device_and_data_type_has_no_gap(make_chat: Callable[..., Any], engine: Any) -> None:
    app = make_chat()
    async with app.run_test(size=(80, 24)) as pilot:
        engine.events.append(Loaded(1, {"name": "talk.jsonl", "backend": "recorded"}, {}))
        await settle(app, pilot)
        assert "talk.jsonl   " in str(app.chat_screen.query_one("ChatHeader").render())
