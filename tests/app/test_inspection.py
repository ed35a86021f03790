"""Looking into runs: what is said of one, where it is, and how the screen behaves around it. The keys one by one, the strip's
texts in short and the pictures of part of a run are in test_run_cursor.py."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import pytest

from specchat.app.cells import width
from specchat.app.inspection import (
    DETAILS,
    Part,
    cut,
    inspect,
    inspection_rows,
    length,
    quoted,
    step_of,
    strip_rows,
    verdict,
    wrapped,
)
from specchat.app.pieces import Pieces
from specchat.app.transcript import Answer, Notice, Prompt
from specchat.app.widgets.blocks import Block
from specchat.app.widgets.inspector import Inspector
from specchat.app.widgets.run_cursor import Spot, above, beside, outermost, place_of, run_at
from specchat.engine.messages import Paused, StepRecord, Steps

Make = Callable[..., Any]


def said(parts: Any) -> str:
    return "".join(part.text for part in parts)


def rows_of(answer: Answer, index: int, pieces: Pieces, cells: int = 100, rows: int = 4) -> str:
    return "\n".join(said(parts) for parts in inspection_rows(inspect(answer, index, pieces), cells, rows))


@pytest.fixture
def answer(tree_steps: Make) -> Answer:
    made = Answer("fusion", "identical")
    for step in tree_steps():
        made.add(step)
    made.finish("eos")
    return made


@pytest.fixture
def pieces(vocabulary: list[str]) -> Pieces:
    return Pieces(vocabulary)


# What is said


def test_all_that_is_known_of_a_run(answer: Answer, pieces: Pieces) -> None:
    text = rows_of(answer, 1, pieces, rows=6)
    assert "fusion  step 2 of 4 · drafted 7 · accepted 3 · 4 tokens" in text
    assert "10.0 ms · 8 nodes" in text
    assert "draft 0.4 + pass 9.3 + rest 0.3 ms" in text
    assert "accepted ␣evening ␣Ana ␣climbed  model’s own ␣the" in text
    assert "After ‘climbed’ the draft said ‘of’ (2% likely), the model chose ‘the’ (97%)" in text
    assert "After ‘Ana’ the draft also said ‘light on’ (21% likely), the model went with ‘climbed’ (54%)" in text
    assert text.endswith("From 15 guesses that had been worth it.")


def test_the_likeliest_refused_branch_comes_first(answer: Answer, pieces: Pieces) -> None:
    assert "‘a’ (20% likely) or ‘about and’ (<1%), the model chose ‘the’ (71%)" in rows_of(answer, 3, pieces)


def test_a_step_without_a_draft_counts_none(answer: Answer, pieces: Pieces) -> None:
    text = rows_of(answer, 0, pieces)
    assert "drafted 0" not in text
    assert "Nothing was drafted: one pass gave one token (62% likely)." in text


def test_what_was_not_recorded_is_not_made_up(pieces: Pieces) -> None:
    made = Answer("lookup", "identical")
    made.add(StepRecord("lookup", [0, 1], " the lamp", 6, 1, 7, 0.0, 0.01, 0.0))
    text = rows_of(made, 0, pieces)
    assert "5 of 6 drafted tokens were refused; which was not recorded." in text
    assert "accepted ␣" not in text
    assert "step 1 ·" in text  # how many there are is not known while it is being written


def test_text_held_back_to_the_end_is_told_by_the_step_that_made_it(answer: Answer, pieces: Pieces) -> None:
    made = Answer("fusion", "identical")
    for index in range(4):
        step = answer.log.record(index)
        made.add(StepRecord(**{**asdict(step), "text": answer.runs[index].text if index < 3 else ""}))
    made.finish("eos", " the")
    assert step_of(made, 4) == 3
    assert rows_of(made, 4, pieces) == rows_of(answer, 3, pieces)
    answer.finish("eos", " end")
    assert step_of(answer, 4) is None


def test_an_answer_cut_in_the_middle_of_a_run(pieces: Pieces) -> None:
    made = Answer("lookup", "identical")
    tree: Any = {"tree_tokens": [13, 14, 15, 16], "tree_parents": [-1, 0, 1, 2], "path": [0, 1, 2]}
    made.add(StepRecord("lookup", [14, 15], " evening Ana", 3, 2, 4, 0.0, 0.01, 0.0, **tree))
    made.finish("length")
    text = rows_of(made, 0, pieces)
    assert "The answer ended here" in text
    assert "accepted ␣evening ␣Ana" in text
    assert "model’s own" not in text


def test_texts_that_differ_in_blanks_alone_show_them() -> None:
    made = Answer("lookup", "identical")
    tree: Any = {"tree_tokens": [0, 1], "tree_parents": [-1, 0], "path": [0]}
    made.add(StepRecord("lookup", [2], "lamp", 1, 0, 2, 0.0, 0.01, 0.0, **tree))
    assert "the draft said ‘␣lamp’, the model chose ‘lamp’" in rows_of(made, 0, Pieces([" the", " lamp", "lamp"]))


def test_the_place_is_told_in_whole_words() -> None:
    made = Answer("lookup", "identical")
    made.add(StepRecord("lookup", [0, 1], " light", 0, 0, 1, 0.0, 0.01, 0.0))
    tree: Any = {"tree_tokens": [1, 2, 3], "tree_parents": [-1, 0, 1], "path": [0, 1]}
    made.add(StepRecord("lookup", [2, 4], "houses stand", 2, 1, 3, 0.0, 0.01, 0.0, **tree))
    text = rows_of(made, 1, Pieces([" li", "ght", "houses", " fell", " stand"]))
    assert "After ‘lighthouses’ the draft said ‘fell’, the model chose ‘stand’" in text


HOSTILE = ["\x1b[2J", "\u202e", "[bold]x[/]", "\n\n", "😀" * 9, "\t", "x" * 300, "e\u0301", "\r"]


def test_hostile_text_stays_text_and_every_row_fits() -> None:
    vocabulary = Pieces(HOSTILE)
    made = Answer("[red]fusion[/]", "identical")
    tree: Any = {"tree_tokens": list(range(9)), "tree_parents": [-1, 0, 0, 1, 3, 0, 5, 6, 0], "path": [0, 1, 3]}
    for note in ("", "\x1b]0;title\x07 [link] " + "y" * 400):
        text = "".join(HOSTILE)
        made.add(StepRecord("[red]fusion[/]", [1, 3, 6], text, 8, 2, 9, 0.1, 3.0, 0.1, **tree, note=note))
    for cells in (16, 20, 54, 74, 100):
        for most in (2, 3, 4):
            for index in range(2):
                shown = inspection_rows(inspect(made, index, vocabulary), cells, most, "←→ back")
                assert len(shown) <= most
                for parts in shown:
                    assert length(parts) <= cells
                    assert width(said(parts)) <= cells
                    assert not set(said(parts)) & set("\x1b\x07\u202e\n\t\r")


def test_as_many_words_as_there_is_room_for(answer: Answer, pieces: Pieces) -> None:
    lengths = [len(said(verdict(inspect(answer, 1, pieces), detail)[0])) for detail in DETAILS]
    assert lengths == sorted(lengths, reverse=True)
    assert len(set(lengths)) == len(DETAILS)
    assert "After ‘climbed’: draft ‘of’ (2%), model ‘the’ (97%)" in rows_of(answer, 1, pieces, cells=54, rows=3)


def test_rows_break_between_words_and_keep_quotations_whole(answer: Answer, pieces: Pieces) -> None:
    parts = verdict(inspect(answer, 3, pieces))[0]
    for cells in range(24, 90):
        broken = [said(row) for row in wrapped(parts, cells, 9)]
        assert " ".join(row.strip() for row in broken) == said(parts)
        assert all(row.count("‘") == row.count("’") for row in broken)


def test_quotations() -> None:
    assert quoted(" lamp and ") == "‘lamp and’"
    assert quoted("  ") == "‘␣␣’"
    assert quoted("⏎") == "‘⏎’"
    assert quoted("abcdefgh", 5) == "‘abcd…’"
    assert quoted("abcdefgh", 5, end=True) == "‘…efgh’"
    assert said(cut((Part("one ", "label"), Part("two three", "own")), 9)) == "one two …"


def test_rows_of_the_strip() -> None:
    assert [strip_rows(height) for height in (5, 9, 14, 18, 60)] == [2, 2, 3, 4, 4]


# Where runs are


def blocks(*entries: Any, cells: int = 30) -> list[Block]:
    out = []
    for entry in entries:
        out.append(Block(entry, cells))
        out[-1].update()
    return out


def words(*texts: str) -> Answer:
    made = Answer("greedy", "identical")
    for text in texts:
        made.add(StepRecord("greedy", [1], text, 0, 0, 1, 0.0, 0.01, 0.0))
    return made


def test_every_run_is_found_where_it_is_drawn(make_steps: Make) -> None:
    made = Answer("lookup", "identical")
    for step in make_steps():
        made.add(step)
    block = blocks(made)[0]
    shown: dict[int, list[int]] = {}
    for row in range(block.height):
        for _, run in block.row(row).pieces:
            if run >= 0 and row not in shown.setdefault(run, []):
                shown[run].append(row)
    for run in range(len(made.runs)):
        place = place_of(block, run)
        assert place is not None
        if run in shown:
            assert (place.first, place.last, place.seen) == (shown[run][0], shown[run][-1], True)
            assert run_at(block, place.first, place.cell) == run
        else:
            assert not place.seen
            assert place.first == max(row for other, rows in shown.items() if other < run for row in rows)


def test_left_and_right_go_through_all_runs_with_text_and_back(make_steps: Make) -> None:
    first, second = Answer("lookup", "identical"), Answer("greedy", "identical")
    for step in make_steps():
        first.add(step)
    for text, carried in (("a", 0), ("", 0), (" b", 0), ("", 0), ("c d", 1)):
        second.add(StepRecord("greedy", [1], text, 0, 0, 1, 0.0, 0.01, 0.0, carried=carried))
    chat = blocks(Prompt("one"), first, Notice("x"), Prompt("two"), second, Prompt("three"))
    spots = [Spot(1, run) for run in range(len(first.runs))] + [Spot(4, run) for run in (0, 2, 3, 4)]
    spot = outermost(chat, -1)
    found = []
    while spot is not None:
        found.append(spot)
        spot = beside(chat, spot, 1)
    assert found == spots
    spot = outermost(chat, 1)
    while spot is not None:
        assert spot == found.pop()
        spot = beside(chat, spot, -1)
    assert not found
    assert outermost(blocks(Prompt("one")), 1) is None
    assert outermost([], 1) is None


def test_up_and_down_keep_to_a_column_across_answers() -> None:
    lines = ("aaa ", "bbb ", "ccc\n", "ddd ", "eee ", "fff")
    chat = blocks(words(*lines), Prompt("so"), words(*lines))
    spot: Spot | None = Spot(0, 1)
    seen = []
    while spot is not None:
        seen.append(spot)
        spot = above(chat, spot, 1, 5)
    assert seen == [Spot(0, 1), Spot(0, 4), Spot(2, 1), Spot(2, 4)]
    spot = seen[-1]
    while spot is not None:
        assert spot == seen.pop()
        spot = above(chat, spot, -1, 5)
    assert not seen


def test_a_move_costs_the_same_in_a_long_answer(make_steps: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    def rows_looked_at(times: int) -> int:
        made = Answer("lookup", "identical")
        for step in make_steps() * times:
            made.add(step)
        block = blocks(made)[0]
        count = 0
        whole = Block.row

        def counting(self: Block, index: int) -> Any:
            nonlocal count
            count += 1
            return whole(self, index)

        with monkeypatch.context() as patch:
            patch.setattr(Block, "row", counting)
            above([block], Spot(0, len(made.runs) - 40), 1, 3)
        return count

    assert rows_looked_at(200) < rows_looked_at(2) * 4


# On the screen

SIZE = (80, 24)


async def settle(app: Any, pilot: Any) -> None:
    app.take_events()
    await pilot.pause()


async def ask(app: Any, pilot: Any, engine: Any, records: list[StepRecord], *, finish: bool = True) -> int:
    await pilot.pause()
    engine.loaded()
    engine.tell_pieces()
    await settle(app, pilot)
    app.chat_screen.input.put("Tell me about Ana.")
    await pilot.press("enter")
    id: int = engine.begin(records)
    if finish:
        engine.finish()
    await settle(app, pilot)
    return id


def strip_text(app: Any) -> str:
    """What the strip shows; empty while it is not there."""
    strip = app.chat_screen.query_one(Inspector)
    return "\n".join(strip.render_line(y).text.rstrip() for y in range(strip.size.height)) if strip.display else ""


def chosen(app: Any) -> str:
    """The text drawn as chosen, over all visible rows."""
    view = app.chat_screen.view
    rows = (view.render_line(y) for y in range(view.size.height))
    return "".join(segment.text for row in rows for segment in row if segment.style and segment.style.reverse)


def cell_of(app: Any, spot: Spot) -> tuple[int, int]:
    """Column and row in the view where a run is drawn."""
    view = app.chat_screen.view
    place = place_of(view.blocks[spot.block], spot.run)
    assert place is not None
    return view.margin + place.cell + 1, view.tops[spot.block] + place.first - view.scroll_offset.y


async def test_the_key_of_legacy_terminals(make_chat: Make, engine: Any, tree_steps: Make) -> None:
    app = make_chat()
    async with app.run_test(size=SIZE) as pilot:
        await ask(app, pilot, engine, tree_steps())
        await pilot.press("ctrl+r")
        await pilot.pause()
        assert app.focused is app.chat_screen.view
        assert (chosen(app), "step 4 of 4" in strip_text(app)) == (" the", True)
        await pilot.press("ctrl+r")
        await pilot.pause()
        assert app.focused is app.chat_screen.input
        assert (chosen(app), strip_text(app)) == ("", "")


@pytest.mark.parametrize("key", ["enter", "escape", "x", "tab"])
async def test_ways_out_while_an_answer_streams(make_chat: Make, engine: Any, tree_steps: Make, key: str) -> None:
    app = make_chat()
    async with app.run_test(size=SIZE) as pilot:
        await ask(app, pilot, engine, tree_steps(), finish=False)
        await pilot.press("f7", "left", key)
        await pilot.pause()
        assert app.focused is not app.chat_screen.view
        assert app.chat_screen.input.text == ("x" if key == "x" else "")
        assert (chosen(app), strip_text(app)) == ("", "")
        assert app.dialogue.phase == "writing"  # escape has stopped the looking, not the answer


async def test_arrow_keys_scroll_where_no_run_is_looked_into(make_chat: Make, engine: Any, tree_steps: Make) -> None:
    app = make_chat()
    async with app.run_test(size=(60, 20)) as pilot:
        await ask(app, pilot, engine, tree_steps() * 30)
        view = app.chat_screen.view
        view.focus()
        end = view.scroll_offset.y
        assert end > 3
        await pilot.press("up", "up")
        await pilot.pause()
        assert view.scroll_offset.y == end - 2
        await pilot.press("home")
        await pilot.pause()
        assert view.scroll_offset.y == 0
        assert view.cursor.spot is None


async def test_the_run_stays_in_sight_above_the_strip(make_chat: Make, engine: Any, tree_steps: Make) -> None:
    app = make_chat()
    async with app.run_test(size=(60, 20)) as pilot:
        await ask(app, pilot, engine, tree_steps() * 30)
        view = app.chat_screen.view
        await pilot.press("f7")
        for keys in (["left"] * 9, ["up"] * 9, ["home"], ["down", "down"], ["right"] * 9, ["down"] * 9, ["end"], ["up"]):
            for key in keys:
                await pilot.press(key)
                await pilot.pause()
                first, last = view.cursor.rows
                top = view.scroll_offset.y
                assert top <= first
                assert last < top + view.size.height - strip_rows(view.size.height)
        await pilot.press("escape")
        await pilot.pause()
        assert view.following
        assert view.is_vertical_scroll_end
        assert view.virtual_size.height == view.tops[-1] + view.blocks[-1].height  # no room left below


async def test_while_scrolled_up_the_last_run_in_sight_comes_first(make_chat: Make, engine: Any, tree_steps: Make) -> None:
    app = make_chat()
    async with app.run_test(size=(60, 20)) as pilot:
        await ask(app, pilot, engine, tree_steps() * 30)
        view = app.chat_screen.view
        await pilot.press("ctrl+home", "f7")
        await pilot.pause()
        assert view.scroll_offset.y == 0
        assert 0 < view.cursor.spot.run < 60
        await pilot.press("escape")
        await pilot.pause()
        assert view.scroll_offset.y == 0


async def test_a_stream_does_not_carry_the_run_away(make_chat: Make, engine: Any, tree_steps: Make) -> None:
    app = make_chat()
    async with app.run_test(size=(60, 20)) as pilot:
        id = await ask(app, pilot, engine, tree_steps(), finish=False)
        view = app.chat_screen.view
        await pilot.press("f7", "left")
        for _ in range(20):
            engine.events.append(Steps(id, tree_steps()))
            await settle(app, pilot)
            assert view.cursor.spot == Spot(1, 2)
            first, last = view.cursor.rows
            assert view.scroll_offset.y <= first <= last < view.scroll_offset.y + view.size.height
        assert chosen(app).split() == "stairs. Every evening Ana lit".split()
        assert not view.following
        assert app.chat_screen.query_one("#below").has_class("-shown")
        engine.finish()
        await settle(app, pilot)
        assert view.cursor.spot == Spot(1, 2)
        await pilot.press("ctrl+end")
        await pilot.pause()
        assert view.following
        assert view.cursor.spot is None


async def test_a_paused_answer_takes_the_cursor_along(make_chat: Make, engine: Any, tree_steps: Make) -> None:
    app = make_chat()
    async with app.run_test(size=SIZE) as pilot:
        records = tree_steps()
        id = await ask(app, pilot, engine, records[:1], finish=False)
        await pilot.press("f8", "f7")
        engine.events.append(Paused(id, True))
        await settle(app, pilot)
        for count, record in enumerate(records[1:], 2):
            await pilot.press("f9")
            engine.events.append(Steps(id, [record]))
            await settle(app, pilot)
            assert f"step {count} ·" in strip_text(app)
            assert app.chat_screen.view.cursor.spot == Spot(1, count - 1)
        await pilot.press("left", "f9")  # from an earlier run it is not taken
        engine.events.append(Steps(id, [records[1]]))
        await settle(app, pilot)
        assert app.chat_screen.view.cursor.spot == Spot(1, 2)


async def test_resizing_the_panel_and_another_theme_keep_the_run(make_chat: Make, engine: Any, tree_steps: Make) -> None:
    app = make_chat()
    async with app.run_test(size=(120, 40)) as pilot:
        await ask(app, pilot, engine, tree_steps() * 30)
        await pilot.press("f7", *["left"] * 30)
        view, strip = app.chat_screen.view, app.chat_screen.query_one(Inspector)
        run = view.cursor.spot.run
        text = app.dialogue.transcript.answers()[0].runs[run].text.split()

        async def holds() -> None:
            await pilot.pause()
            await pilot.pause()
            assert chosen(app).split() == text
            assert f"step {run + 1} " in strip_text(app)
            assert strip.size == (view.size.width, strip_rows(view.size.height))
            assert strip.region.bottom == view.region.bottom

        for size in ((60, 20), (300, 80), (80, 24)):
            await pilot.resize_terminal(*size)
            await holds()
        await pilot.press("f4")
        await holds()
        app.wear("light")
        await holds()


async def test_hovering_tells_and_costs_nothing_within_a_run(make_chat: Make, engine: Any, tree_steps: Make) -> None:
    app = make_chat()
    async with app.run_test(size=(80, 40)) as pilot:
        await ask(app, pilot, engine, tree_steps() * 12)
        view = app.chat_screen.view
        await pilot.hover(view, offset=cell_of(app, Spot(1, 2)))
        await pilot.pause()
        assert chosen(app).split() == "stairs. Every evening Ana lit".split()
        assert "step 3 " in strip_text(app)
        await pilot.press("y")  # typing goes on
        assert app.chat_screen.input.text == "y"
        draws = view.draws
        column, row = cell_of(app, Spot(1, 2))
        for x in (1, 2, 3):
            await pilot.hover(view, offset=(column + x, row))
        await pilot.pause()
        assert view.draws == draws
        await pilot.hover(view, offset=cell_of(app, Spot(1, 9)))
        await pilot.pause()
        first, last = view.cursor.rows
        assert 0 < view.draws - draws <= last - first + 1 + 2  # its rows, and those of the run before
        await pilot.hover(app.chat_screen.input)
        await pilot.pause()
        assert (chosen(app), strip_text(app)) == ("", "")


async def test_the_strip_does_not_lie_over_the_run_under_the_mouse(make_chat: Make, engine: Any, tree_steps: Make) -> None:
    app = make_chat()
    async with app.run_test(size=(60, 20)) as pilot:
        await ask(app, pilot, engine, tree_steps() * 30)
        view, strip = app.chat_screen.view, app.chat_screen.query_one(Inspector)
        view.scroll_to(y=6, animate=False)
        await pilot.pause()
        for y in (1, view.size.height - 2):
            await pilot.hover(app.chat_screen.input)
            await pilot.hover(view, offset=(10, y))
            await pilot.pause()
            assert strip.display
            first, last = view.cursor.rows
            top = view.region.y - view.scroll_offset.y
            assert not set(range(first + top, last + top + 1)) & set(range(strip.region.y, strip.region.bottom))


async def test_a_resting_mouse_does_not_hide_what_is_being_written(make_chat: Make, engine: Any, tree_steps: Make) -> None:
    app = make_chat()
    async with app.run_test(size=(60, 20)) as pilot:
        id = await ask(app, pilot, engine, tree_steps() * 8, finish=False)
        view, strip = app.chat_screen.view, app.chat_screen.query_one(Inspector)
        await pilot.hover(view, offset=(10, 8))
        await pilot.pause()
        assert strip.display
        assert strip.region.y == view.region.y
        for _ in range(20):
            engine.events.append(Steps(id, tree_steps()))
            await settle(app, pilot)
        assert view.following
        assert not strip.display  # the run is out of sight


async def test_a_clicked_run_stays_until_it_is_clicked_again(make_chat: Make, engine: Any, tree_steps: Make) -> None:
    app = make_chat()
    async with app.run_test(size=SIZE) as pilot:
        await ask(app, pilot, engine, tree_steps() * 3)
        view = app.chat_screen.view
        await pilot.click(view, offset=cell_of(app, Spot(1, 1)))
        await pilot.hover(view, offset=cell_of(app, Spot(1, 6)))
        await pilot.press("right")
        await pilot.pause()
        assert view.cursor.spot == Spot(1, 2)
        await pilot.pause(0.6)  # not a double click
        await pilot.click(view, offset=cell_of(app, Spot(1, 2)))
        await pilot.pause()
        assert not view.cursor.by_keys


async def test_runs_of_line_breaks_can_be_seen(make_chat: Make, engine: Any) -> None:
    app = make_chat()
    async with app.run_test(size=SIZE) as pilot:
        records = [StepRecord("greedy", [11], text, 0, 0, 1, 0.0, 0.01, 0.0) for text in ("one", "\n\n", "two")]
        await ask(app, pilot, engine, records)
        await pilot.press("f7", "left")
        await pilot.pause()
        assert chosen(app) == "⏎"
        await pilot.press("left")
        await pilot.pause()
        assert chosen(app) == "one"


async def test_a_new_chat_ends_it(make_chat: Make, engine: Any, tree_steps: Make) -> None:
    app = make_chat()
    async with app.run_test(size=SIZE) as pilot:
        await ask(app, pilot, engine, tree_steps())
        await pilot.press("f7", "ctrl+l")
        await pilot.pause()
        assert app.chat_screen.view.cursor.spot is None
        assert strip_text(app) == ""


async def test_keys_can_be_mapped_anew(make_chat: Make, engine: Any, tree_steps: Make) -> None:
    app = make_chat(**{"keymap.inspect": "alt+i", "keymap.inspect_previous": "shift+left"})
    async with app.run_test(size=SIZE) as pilot:
        await ask(app, pilot, engine, tree_steps())
        await pilot.press("f7")
        assert not app.chat_screen.view.cursor.by_keys
        await pilot.press("alt+i", "shift+left")
        await pilot.pause()
        assert app.chat_screen.view.cursor.spot == Spot(1, 2)


# Pictures


@pytest.fixture
def still(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing pulses, and what was said stays."""
    monkeypatch.setattr("specchat.app.chat.IDLE_SECONDS", 3600)
    monkeypatch.setattr("specchat.app.widgets.status.FLASH_SECONDS", 3600)


@pytest.mark.usefixtures("still")
@pytest.mark.parametrize("theme", ["dark", "light"])
@pytest.mark.parametrize("size", [(60, 20), (80, 24)], ids=lambda size: f"{size[0]}x{size[1]}")
@pytest.mark.parametrize("run", [1, 3], ids=["partly", "none"])
def test_why_a_run_ended(
    snap_compare: Any, make_chat: Make, engine: Any, tree_steps: Make, theme: str, size: tuple[int, int], run: int
) -> None:
    async def before(pilot: Any) -> None:
        await ask(pilot.app, pilot, engine, tree_steps() * 2)
        await pilot.press("f7", *["left"] * (7 - run))
        await pilot.pause()

    assert snap_compare(make_chat(theme=theme), terminal_size=size, run_before=before)


@pytest.mark.usefixtures("still")
def test_without_colours(
    snap_compare: Any, make_chat: Make, engine: Any, tree_steps: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def before(pilot: Any) -> None:
        await ask(pilot.app, pilot, engine, tree_steps() * 2)
        await pilot.press("f7", "left", "left")
        await pilot.pause()

    monkeypatch.setenv("NO_COLOR", "1")
    assert snap_compare(make_chat(), terminal_size=SIZE, run_before=before)
