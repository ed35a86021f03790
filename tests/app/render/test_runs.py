"""Looking into runs beside everything else: typing, Markdown, the side panel, small terminals, and what it costs to draw."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from specchat.app.render.blocks import TENTATIVE
from specchat.app.render.inspection_rows import strip_rows
from specchat.app.render.runs import RunSpot
from specchat.engine.messages import StepRecord

Make = Callable[..., Any]


async def answered(pilot: Any, engine: Any, records: list[StepRecord], *, finish: bool = True) -> None:
    """A chat with one answer."""
    if not pilot.app.dialogue.transcript.entries:
        await pilot.pause()
        engine.loaded()
        engine.tell_pieces()
        pilot.app.take_events()
    pilot.app.chat_screen.input.put("Why?")
    await pilot.press("enter")
    engine.begin(records)
    if finish:
        engine.finish()
    pilot.app.take_events()
    await pilot.pause()


def strip(app: Any) -> str:
    """What the strip says; empty if there is none."""
    widget = app.chat_screen.inspector
    if not widget.display:
        return ""
    return "\n".join(widget.render_line(y).text.rstrip() for y in range(widget.size.height))


async def test_the_run_under_the_cursor_is_lit_and_few_rows_are_drawn(make_chat: Make, engine: Any, make_steps: Make) -> None:
    app = make_chat()
    async with app.run_test(size=(100, 24)) as pilot:
        await answered(pilot, engine, make_steps())
        view = app.chat_screen.view
        await pilot.press("f7", "home")
        await pilot.pause()

        def lit() -> str:
            return "".join(
                segment.text
                for y in range(view.size.height)
                for segment in view.render_line(y)
                if segment.style and segment.style.reverse
            )

        answer = view.cursor.answer
        assert lit().strip() == answer.runs[0].text.strip()
        before = view.draws
        await pilot.press("right")
        await pilot.pause()
        assert lit().strip() == answer.runs[1].text.strip()
        assert 0 < view.draws - before <= 4


async def test_the_choice_stays_while_an_answer_grows_and_when_resized(make_chat: Make, engine: Any, make_steps: Make) -> None:
    app = make_chat()
    async with app.run_test(size=(100, 24)) as pilot:
        await answered(pilot, engine, make_steps(), finish=False)
        cursor = app.chat_screen.view.cursor
        await pilot.press("f7", "home", "right")
        chosen, told = cursor.spot, strip(app).splitlines()[0]
        engine.begin(make_steps(seed=2) * 4)
        app.take_events()
        await pilot.pause()
        assert cursor.spot == chosen
        assert strip(app).splitlines()[0] == told
        await pilot.resize_terminal(60, 20)
        await pilot.pause()
        assert cursor.spot == chosen
        first, _ = cursor.rows
        view = app.chat_screen.view
        assert view.scroll_offset.y <= first < view.scroll_offset.y + view.size.height - strip_rows(view.size.height)
        assert app.chat_screen.inspector.size.height <= 3


async def test_the_side_panel_is_told_of_the_run(make_chat: Make, engine: Any, tree_steps: Make) -> None:
    app = make_chat()
    async with app.run_test(size=(140, 30)) as pilot:
        await answered(pilot, engine, tree_steps())
        told: list[int | None] = []
        app.chat_screen.panel.select = lambda answer, index: told.append(index)
        await pilot.press("f7", "left", "escape")
        await pilot.pause()
        assert told == [3, 2, None]


async def test_an_empty_chat_has_nothing_to_look_into(make_chat: Make, engine: Any) -> None:
    app = make_chat()
    async with app.run_test() as pilot:
        await pilot.press("f7")
        await pilot.pause()
        assert app.focused is app.chat_screen.input
        assert any("nothing to inspect" in note.message for note in app._notifications)


async def test_markdown_gives_way_to_runs_while_they_are_looked_into(make_chat: Make, engine: Any, tree_steps: Make) -> None:
    app = make_chat()
    async with app.run_test(size=(100, 24)) as pilot:
        await answered(pilot, engine, tree_steps())
        view = app.chat_screen.view
        await pilot.press("ctrl+g")
        await pilot.pause()
        assert view.markdown
        await pilot.press("f7")
        await pilot.pause()
        assert not view.markdown
        assert view.cursor.spot == RunSpot(1, 3)
        assert view.cursor.place is not None
        await pilot.press("ctrl+g")
        await pilot.pause()
        assert view.markdown
        assert view.cursor.spot is None
        assert app.focused is app.chat_screen.input


async def test_another_view_of_the_text_lets_the_run_under_the_mouse_go(make_chat: Make, engine: Any, tree_steps: Make) -> None:
    app = make_chat()
    async with app.run_test(size=(100, 24)) as pilot:
        await answered(pilot, engine, tree_steps())
        view = app.chat_screen.view
        y = next(y for y in range(view.size.height) if view.render_line(y).text.strip().startswith("Every"))
        await pilot.hover("#transcript", offset=(view.margin + 8, y))
        await pilot.pause()
        assert "step 2" in strip(app)
        await pilot.press("ctrl+g")
        await pilot.pause()
        assert view.markdown
        assert view.cursor.spot is None
        assert not strip(app)


async def test_what_a_beam_search_may_still_change_is_shown_and_is_no_text(make_chat: Make, engine: Any) -> None:
    app = make_chat()
    async with app.run_test(size=(80, 24)) as pilot:
        first = StepRecord("beam", [1], "Once", nodes=4, tentative=" upon a time,\na lamp")
        await answered(pilot, engine, [first], finish=False)
        view = app.chat_screen.view
        block, answer = view.blocks[-1], app.dialogue.transcript.entries[-1]

        def shown() -> list[tuple[str, int]]:
            return [(piece.text, piece.run) for row in range(block.height) for piece in block.row(row).pieces if piece.text]

        assert ("Once", 0) in shown()
        assert (" upon a time,", TENTATIVE) in shown()
        assert ("a lamp", TENTATIVE) in shown()
        assert answer.text == "Once"
        engine.begin([StepRecord("beam", [2], " there", nodes=4, tentative=" was")])
        app.take_events()
        await pilot.pause()
        assert [text for text, _ in shown()][:3] == ["Once", " there", " was"]
        engine.finish()
        app.take_events()
        await pilot.pause()
        assert answer.text == "Once there"
        assert all(run != TENTATIVE for _, run in shown())
