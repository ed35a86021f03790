"""Looking into runs: where each is, every key, the mouse, and how the strip keeps out of the way."""

from __future__ import annotations

from typing import Any

import pytest

from specchat.app.chat.entries import Answer, Notice, Prompt
from specchat.app.render.blocks import EntryBlock
from specchat.app.render.inspection import strip_rows
from specchat.app.render.runs import RunSpot, adjacent_run, find_place, outermost, run_at
from specchat.app.tui.chat.widgets import Inspector
from specchat.engine.messages import Paused, StepRecord, Steps

from ....fakes import pilots
from ....fakes.pilots import Make, chatting, loaded, settle


def blocks(*entries: Any, cells: int = 30) -> list[EntryBlock]:
    out = []
    for entry in entries:
        out.append(EntryBlock(entry, cells))
        out[-1].update()
    return out


def test_every_run_is_found_where_it_is_drawn(make_steps: Make) -> None:
    answer = Answer("lookup", "identical")
    for step in make_steps():
        answer.add(step)
    block = blocks(answer)[0]
    drawn_rows: dict[int, list[int]] = {}
    for row in range(block.height):
        for _, run in block.row(row).pieces:
            if run >= 0 and row not in drawn_rows.setdefault(run, []):
                drawn_rows[run].append(row)
    for run in range(len(answer.runs)):
        place = find_place(block, run)
        assert place is not None
        if run in drawn_rows:
            assert (place.first, place.last, place.visible) == (drawn_rows[run][0], drawn_rows[run][-1], True)
            assert run_at(block, place.first, place.cell) == run
        else:
            assert not place.visible
            assert place.first == max(row for other, rows in drawn_rows.items() if other < run for row in rows)


def test_left_and_right_go_through_all_runs_with_text_and_back(make_steps: Make) -> None:
    first, second = Answer("lookup", "identical"), Answer("greedy", "identical")
    for step in make_steps():
        first.add(step)
    for text, carried in (("a", 0), ("", 0), (" b", 0), ("", 0), ("c d", 1)):
        second.add(StepRecord("greedy", [1], text, forward_seconds=0.01, carried=carried))
    chat = blocks(Prompt("one"), first, Notice("x"), Prompt("two"), second, Prompt("three"))
    spots = [RunSpot(1, run) for run in range(len(first.runs))] + [RunSpot(4, run) for run in (0, 2, 3, 4)]
    spot = outermost(chat, -1)
    visited = []
    while spot is not None:
        visited.append(spot)
        spot = adjacent_run(chat, spot, 1)
    assert visited == spots
    spot = outermost(chat, 1)
    while spot is not None:
        assert spot == visited.pop()
        spot = adjacent_run(chat, spot, -1)
    assert not visited
    assert outermost(blocks(Prompt("one")), 1) is None
    assert outermost([], 1) is None


SIZE = (80, 24)


async def ask(app: Any, pilot: Any, engine: Any, records: list[StepRecord], *, finish: bool = True) -> int:
    await loaded(pilot, engine)
    engine.tell_pieces()
    return await pilots.ask(pilot, engine, "Tell me about Ana.", records, finish=finish)


def strip_text(app: Any) -> str:
    """Text of the strip, empty while it is hidden."""
    strip = app.chat_screen.query_one(Inspector)
    return "\n".join(strip.render_line(y).text.rstrip() for y in range(strip.size.height)) if strip.display else ""


def chosen(app: Any) -> str:
    """The text drawn as chosen, over all visible rows."""
    view = app.chat_screen.view
    rows = (view.render_line(y) for y in range(view.size.height))
    return "".join(segment.text for row in rows for segment in row if segment.style and segment.style.reverse)


def cell_of(app: Any, spot: RunSpot) -> tuple[int, int]:
    """Column and row in the view where a run is drawn."""
    view = app.chat_screen.view
    place = find_place(view.blocks[spot.block], spot.run)
    assert place is not None
    return view.margin + place.cell + 1, view.tops[spot.block] + place.first - view.scroll_offset.y


async def test_every_key_goes_to_its_run(make_chat: Make, engine: Any, tree_steps: Make) -> None:
    async with chatting(make_chat(), size=SIZE) as (app, pilot):
        await ask(app, pilot, engine, tree_steps() * 3)
        runs = app.dialogue.transcript.answers()[0].runs
        cursor = app.chat_screen.view.cursor
        await pilot.press("f7")
        assert cursor.spot == RunSpot(1, 11), "the last in sight"
        for keys, run in (("left", 10), ("left left", 8), ("right", 9), ("home left", 0), ("right", 1), ("end right", 11)):
            await pilot.press(*keys.split())
            assert cursor.spot == RunSpot(1, run)
            assert chosen(app).split() == runs[run].text.split()
            assert f"pass {run + 1} " in strip_text(app)
        row = cursor.place.first
        await pilot.press("up")
        assert cursor.place.last == row - 1
        await pilot.press("down")
        assert cursor.spot == RunSpot(1, 11)
        assert "pass 12 " in strip_text(app)


@pytest.mark.parametrize("key", ["escape", "x"])
async def test_ways_out_while_an_answer_streams(make_chat: Make, engine: Any, tree_steps: Make, key: str) -> None:
    async with chatting(make_chat(), size=SIZE) as (app, pilot):
        await ask(app, pilot, engine, tree_steps(), finish=False)
        await pilot.press("f7", "left", key)
        assert app.focused is not app.chat_screen.view
        assert app.chat_screen.input.text == ("x" if key == "x" else "")
        assert (chosen(app), strip_text(app)) == ("", "")
        assert app.dialogue.phase == "writing"  # escape has stopped the looking, not the answer


async def test_the_run_stays_in_sight_above_the_strip(make_chat: Make, engine: Any, tree_steps: Make) -> None:
    async with chatting(make_chat(), size=(60, 20)) as (app, pilot):
        await ask(app, pilot, engine, tree_steps() * 30)
        view = app.chat_screen.view
        await pilot.press("f7")
        for keys in (["left"] * 9, ["up"] * 9, ["home"], ["down", "down"], ["right"] * 9, ["down"] * 9, ["end"], ["up"]):
            for key in keys:
                await pilot.press(key)
                first, last = view.cursor.rows
                top = view.scroll_offset.y
                assert top <= first
                assert last < top + view.size.height - strip_rows(view.size.height)
        await pilot.press("escape")
        assert view.following
        assert view.is_vertical_scroll_end
        assert view.virtual_size.height == view.tops[-1] + view.blocks[-1].height  # no room left below


async def test_a_stream_does_not_carry_the_run_away(make_chat: Make, engine: Any, tree_steps: Make) -> None:
    async with chatting(make_chat(), size=(60, 20)) as (app, pilot):
        id = await ask(app, pilot, engine, tree_steps(), finish=False)
        view = app.chat_screen.view
        await pilot.press("f7", "left")
        for _ in range(20):
            engine.events.append(Steps(id, tree_steps()))
            await settle(app, pilot)
            assert view.cursor.spot == RunSpot(1, 2)
            first, last = view.cursor.rows
            assert view.scroll_offset.y <= first <= last < view.scroll_offset.y + view.size.height
        assert chosen(app).split() == "stairs. Every evening Ana lit".split()
        assert not view.following
        assert app.chat_screen.query_one("#below").has_class("-shown")
        engine.finish()
        await settle(app, pilot)
        assert view.cursor.spot == RunSpot(1, 2)
        await pilot.press("ctrl+end")
        assert view.following
        assert view.cursor.spot is None


async def test_a_paused_answer_takes_the_cursor_along(make_chat: Make, engine: Any, tree_steps: Make) -> None:
    async with chatting(make_chat(), size=SIZE) as (app, pilot):
        records = tree_steps()
        id = await ask(app, pilot, engine, records[:1], finish=False)
        await pilot.press("f8", "f7")
        engine.events.append(Paused(id, True))
        await settle(app, pilot)
        for count, record in enumerate(records[1:], 2):
            await pilot.press("f9")
            engine.events.append(Steps(id, [record]))
            await settle(app, pilot)
            assert f"pass {count} ·" in strip_text(app)
            assert app.chat_screen.view.cursor.spot == RunSpot(1, count - 1)
        await pilot.press("left", "f9")  # from an earlier run it is not taken
        engine.events.append(Steps(id, [records[1]]))
        await settle(app, pilot)
        assert app.chat_screen.view.cursor.spot == RunSpot(1, 2)


async def test_a_click_inspects_a_run_and_draws_its_rows_alone(make_chat: Make, engine: Any, tree_steps: Make) -> None:
    async with chatting(make_chat(), size=(80, 40)) as (app, pilot):
        await ask(app, pilot, engine, tree_steps() * 12)
        view = app.chat_screen.view
        await pilot.click(view, offset=cell_of(app, RunSpot(1, 2)))
        assert chosen(app).split() == "stairs. Every evening Ana lit".split()
        assert "pass 3 " in strip_text(app)
        draws = view.draws
        await pilot.click(view, offset=cell_of(app, RunSpot(1, 9)))
        first, last = view.cursor.rows
        assert 0 < view.draws - draws <= last - first + 1 + 2  # its rows, and those of the run before
        await pilot.click(view, offset=cell_of(app, RunSpot(1, 9)))
        assert (chosen(app), strip_text(app)) == ("", "")


@pytest.mark.parametrize("run", [1, 3], ids=["partly", "none"])
def test_why_a_run_ended(picture: Make, engine: Any, tree_steps: Make, run: int) -> None:
    async def before(pilot: Any) -> None:
        await ask(pilot.app, pilot, engine, tree_steps() * 2)
        await pilot.press("f7", "home", *["right"] * run)

    assert picture(before)
