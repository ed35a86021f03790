"""The settings in force, and the file that is written beside them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from specchat.app.settings.file import read


async def test_an_older_look_at_the_file_takes_back_nothing_that_is_being_written(make_chat: Callable[..., Any]) -> None:
    app = make_chat()
    async with app.run_test():
        app.live._news = read()
        with app.live._writing:
            app.actions.command("/colours cycle")
            app.live._pending.clear()  # as `_write` does before it saves
            app.live.idle()
            assert app.view.colouring == "cycle"
