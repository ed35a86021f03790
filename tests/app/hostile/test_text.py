"""Hostile text is shown as text: what becomes of it in rows, lines, files and on a terminal. 5,000 cases of each property with
SPECCHAT_FULL=1."""

from __future__ import annotations

import os
import random
import re
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.segment import Segment
from textual.color import Color
from textual.strip import Strip

from specchat.app.chat.entries import Answer, Notice, Prompt
from specchat.app.cli.oneshot import AnswerOutput
from specchat.app.history.chats import ChatHit, ChatRow
from specchat.app.models.rows import offer_rows
from specchat.app.models.search import lines, of_offer
from specchat.app.render.blocks import EntryBlock
from specchat.app.settings.fields import Settings
from specchat.app.settings.precedence import load_settings
from specchat.app.terminal.output import Notes
from specchat.app.text.cells import fit, one_line, sanitise, width
from specchat.app.text.lines import cut, ends, line, paragraph
from specchat.app.theming.themes import load_themes, read_theme
from specchat.app.tui.app import SpecchatApp
from specchat.app.tui.pickers.chats import drawn
from specchat.app.tui.terminal_app import Harmless, harmless
from specchat.app.tui.transcript.markdown_rows import markdown_rows
from specchat.backends.files.hub_files import Offer, Repository
from specchat.backends.info import ModelInfo
from specchat.backends.options import LoadOptions
from specchat.engine.messages import Loaded, PieceTable, StepRecord
from specchat.errors import UserError

from ...cases import FULL
from ...fakes.hostile_text import CASES, CELLS, CONTROLS, MARKUP, TEXTS, UNICODE, calm
from ...fakes.pilots import command, settle, until
from ...fakes.terminal import Tty

PALETTE = load_themes()[0]["dark"]
COLOURS = {**PALETTE.colours, **PALETTE.variables()}


def answer_of(text: str, method: str = "lookup") -> Answer:
    """An answer in runs of a few characters, which cut sequences apart."""
    answer = Answer(one_line(method), "identical")
    for start in range(0, len(text), 3):
        answer.add(StepRecord(one_line(method), [start], text[start : start + 3]))
    answer.finish("eos")
    return answer


@CASES
@given(TEXTS, CELLS)
def test_lines_are_calm_and_as_wide_as_the_screen_takes_them_for(text: str, cells: int) -> None:
    assert calm(sanitise(text), line=False)
    assert sanitise(sanitise(text)) == sanitise(text)
    one = one_line(text)
    assert calm(one)
    assert width(one) == cell_len(one)
    cut_off = fit(one, cells)
    assert calm(cut_off)
    assert cell_len(cut_off) <= cells


@CASES
@given(TEXTS, st.integers(2, 90))
def test_rows_of_the_transcript_are_calm_and_fit(text: str, cells: int) -> None:
    for entry in (Prompt(text), answer_of(text), Notice(text)):
        block = EntryBlock(entry, cells)
        block.update()
        for index in range(block.height):
            row = block.row(index)
            assert calm(row.text)
            assert sum(cell_len(piece.text) for piece in row.pieces) <= cells  # each is measured by itself


@CASES
@given(TEXTS, st.integers(8, 90))
def test_rows_of_markdown_are_calm_fit_and_link_nowhere(text: str, cells: int) -> None:
    for row in markdown_rows(text, cells, COLOURS, True):
        assert Segment.get_line_length(row) <= cells
        for segment in row:
            assert calm(segment.text)
            assert segment.control is None
            assert segment.style is None or (segment.style.link is None and not segment.style.meta)


@CASES
@given(TEXTS, st.integers(8, 90))
def test_lines_of_lists_and_panels_are_calm_and_fit(text: str, cells: int) -> None:
    line_text = one_line(text)
    for row in (ends(line((line_text, "$quiet")), line(line_text), cells), cut(line(line_text, (line_text, "bold")), cells)):
        assert sum(cell_len(part) for part, _ in row) <= cells or len(row) == 3
        assert all(calm(part) for part, _ in row)
    for row in paragraph(line_text, cells):
        assert all(calm(part) for part, _ in row)


@CASES
@given(TEXTS, st.integers(20, 90))
def test_chats_in_the_list_are_calm_and_fit(text: str, cells: int) -> None:
    from specchat.app.history.chats import _excerpt, _row
    from specchat.app.history.store import stored

    chat = _row((1, stored(text), 1.7e9, 1.7e9, stored(text), 3, None))
    assert isinstance(chat, ChatRow)
    for item in (chat, ChatHit(chat, _excerpt(text, text[len(text) // 2 :][:4]))):
        for row in drawn(item, cells, 1.7e9, None):
            assert all(calm(part) for part, _ in row)
            assert sum(cell_len(part) for part, _ in row) <= cells


OWN = re.compile(r"\x1b\[(?:0|2|38;5;\d+|38;2;\d+;\d+;\d+|(?:1;)?\d\d?)?m|\r\x1b\[K")


@CASES
@given(TEXTS)
def test_what_run_writes_on_a_terminal_has_no_sequences_but_its_own(text: str) -> None:
    terminal = Tty()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FORCE_COLOR", "1")
        output, notes = AnswerOutput(terminal), Notes()
    answer = Answer("lookup", "identical")
    for start in range(0, len(text), 3):
        answer.add(StepRecord("lookup", [1] * (start % 2 + 1), text[start : start + 3]))
    answer.finish("eos", text)
    output.write(answer.runs)
    notes._stream = terminal
    notes._moves = True
    notes.depth = 256
    notes.progress(text)
    notes.sentence(text)
    assert calm(OWN.sub("", terminal.getvalue()), line=False)


@CASES
@given(st.lists(TEXTS, max_size=4))
def test_no_row_steers_the_terminal_even_if_nobody_made_it_safe(texts: list[str]) -> None:
    row = [Segment(text) for text in texts]
    safe = Harmless().apply(row, Color(0, 0, 0))
    assert all(calm(segment.text) for segment in safe)
    for text in texts:
        assert harmless(harmless(text)) == harmless(text)
        if all(char.isprintable() for char in text):
            assert harmless(text) == text
    for before, after in zip(row, safe, strict=True):
        # As many cells as Textual has counted, character by character.
        assert sum(map(cell_len, after.text)) == sum(map(cell_len, before.text))


@pytest.mark.parametrize(
    "part", ["漢", "a\u0301", "\x1b[31m", "\u200d\U0001f469"], ids=["wide", "marks", "sequences", "joined"]
)
def test_a_line_of_100_kilobytes_is_shown_in_rows(part: str) -> None:
    text = part * (100_000 // len(part.encode()))
    block = EntryBlock(Prompt(text), 80)
    assert block.height > 100
    for index in (0, 1, block.height // 2, block.height - 2):
        assert calm(block.row(index).text)
        assert cell_len(block.row(index).text) <= 80
    assert cell_len(fit(one_line(text), 40)) <= 40


def test_no_more_pictures_are_joined_than_any_terminal_joins() -> None:
    family = "\U0001f468\u200d\U0001f469\u200d\U0001f467\u200d\U0001f466"
    for joined in (family, "क्\u200dष", "می\u200cخواهم"):
        assert sanitise(joined) == joined
    tower = sanitise("\U0001f468" + "\u200d\U0001f469" * 30)
    assert width(tower) >= 8 * 6
    assert max(len(part) for part in tower.split("\\u200d")) <= 7
    assert sanitise("a\u200db") == "a\\u200db"
    assert sanitise("a\u200d") == "a\\u200d", "what follows may be sanitised apart"


@CASES
@given(TEXTS, TEXTS, st.integers(0, 10**12), st.integers(8, 90))
def test_what_the_hub_answers_is_shown_as_text(name: str, other: str, size: int, cells: int) -> None:
    offers = tuple(
        Offer(f"{name}:{other}", kind, other, (name, other), size, weights=size, cached=size // 2)
        for kind in ("gguf", "safetensors")
    )
    for repository in (
        Repository(name, other, other, size, size, 1, gated=True, offers=offers),
        Repository(name, other, name, remark=other),
    ):
        for row in offer_rows(repository, None, LoadOptions(), {}):
            values = [getattr(row, field.name) for field in fields(row) if field.name != "key"]
            parts = [part for value in values for part in (value if isinstance(value, tuple) else (value,))]
            assert all(calm(part) for part in parts if isinstance(part, str))
    for offer in offers:
        sentences = of_offer(Repository(name, other, gated=True), offer, None, LoadOptions())
        for text, _ in lines(sentences, cells, 9):
            assert calm(text)
            assert cell_len(text) <= cells


DEEP = 10_000
KINDS: dict[str, Callable[[Path], object]] = {
    "pipe": os.mkfifo,
    "device": lambda path: path.symlink_to("/dev/zero"),
    "folder": Path.mkdir,
    "sparse": lambda path: path.open("wb").truncate(10**12),
    "arrays": lambda path: path.write_text("theme = " + "[" * DEEP + "]" * DEEP),
    "tables": lambda path: path.write_text("theme = " + "{a=" * DEEP + "1" + "}" * DEEP),
    "surrogates": lambda path: path.write_bytes(b'system = "\xed\xa0\x80\xed\xbf\xbf"\n' * 100),
    "number": lambda path: path.write_text(f"max_tokens = {'9' * DEEP}"),
}
"""Kind of a file that is none → what lays it."""


def put(path: Path, kind: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    KINDS[kind](path)


@pytest.mark.parametrize("kind", KINDS)
def test_settings_and_themes_get_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    monkeypatch.setenv("SPECCHAT_CONFIG", str(tmp_path))
    put(tmp_path / "settings.toml", kind)
    put(tmp_path / "themes" / "mine.toml", kind)
    settings, notice = load_settings()
    assert settings == Settings()
    assert notice is not None
    assert "settings.toml" in notice
    assert len(notice) < 4000
    with pytest.raises(UserError, match=r"mine\.toml"):
        read_theme(tmp_path / "themes" / "mine.toml")
    assert "mine.toml" in load_themes(tmp_path / "themes")[1][0]


@pytest.mark.parametrize("kind", ["pipe", "sparse", "surrogates"])
async def test_the_chat_opens(make_kept: Callable[..., Any], engine: Any, tmp_path: Path, kind: str) -> None:
    for path in ("themes/mine.toml", "data/history.db", "data/recent-models.json"):
        put(tmp_path / path, kind)
    app = make_kept()
    app.chat_history.keep = True
    async with app.run_test(notifications=True) as pilot:
        engine.loaded()
        await settle(app, pilot)
        await command(pilot, "Hello")
        await settle(app, pilot)
        assert engine.asked.messages[-1]["content"] == "Hello"
        sentence = "cannot be used (it is not a regular file)" if kind == "pipe" else "It was moved to"
        await until(pilot, lambda: any(sentence in entry.text for entry in app.dialogue.transcript.entries))


ROUNDS = 200 if FULL else 3

ATOMS = (*MARKUP, *CONTROLS, *UNICODE, " a ", "word")


def texts(seed: int, count: int) -> list[str]:
    """Some hostile texts."""
    pick = random.Random(seed)
    return ["".join(pick.choices(ATOMS, k=pick.randrange(1, 12))) for _ in range(count)]


def check(app: SpecchatApp) -> None:
    """Every row of the screen is calm and as wide as the screen."""
    width, height = app.size
    rows: list[Strip] = app.screen._compositor.render_strips()
    assert len(rows) == height
    for strip in rows:
        text = "".join(segment.text for segment in strip)
        assert calm(text), repr(text)
        assert strip.cell_length == width
        for segment in strip:
            assert segment.style is None or segment.style.link is None


async def test_every_screen_shows_it_as_text(make_chat: Any, engine: Any, monkeypatch: Any, tmp_path: Path) -> None:
    monkeypatch.setenv("SPECCHAT_DATA", str(tmp_path / "data"))
    chat = make_chat()
    async with chat.run_test(size=(60, 20)) as pilot:
        for number in range(ROUNDS):
            if number == ROUNDS // 2:
                await pilot.resize_terminal(120, 40)
            name, prompt, text, notice, reason = texts(number, 5)
            info = ModelInfo(name, reason, name, notice, parameters=5, context=99, notes=(notice,))
            engine.events.append(Loaded(1, info, {"soft": reason}))
            engine.events.append(PieceTable(2, [name, text, notice]))
            answer = Answer("lookup", "identical")
            answer.add(
                StepRecord("lookup", [0, 1], text, 2, 1, 3, tree_tokens=[1, 2], tree_parents=[-1, 0], path=[0], note="x")
            )
            answer.add(StepRecord("lookup", [2], prompt))
            answer.finish("eos", notice)
            chat.dialogue.selection = replace(chat.dialogue.selection, model=name)
            chat.dialogue.transcript.entries[:] = [Prompt(prompt), answer, Notice(notice), Notice(reason, "error")]
            chat.chat_screen.view.show(chat.dialogue.transcript)
            chat.tell(notice, "warning")
            chat.changed()
            await pilot.pause()
            check(chat)
            for panel in ("tree", "numbers", "method"):
                chat.actions.do("panels", panel)
                await pilot.pause()
                check(chat)
            chat.actions.do("panels", "off")
            chat.actions.do("markdown")
            await pilot.pause()
            check(chat)
            chat.actions.do("markdown")
            chat.actions.do("method_menu")
            await pilot.pause()
            check(chat)
            await pilot.press("escape")
            chat.clear_notifications()
    assert chat.return_code in (0, None)
