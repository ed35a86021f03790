"""Hostile text on whole screens: header, transcript, toasts, menus, lists, models, in the app and on a real terminal."""

from __future__ import annotations

import json
import random
import re
import struct
import sys
from pathlib import Path
from typing import Any

import pytest
from textual.strip import Strip

from specchat.app.chat.entries import Answer, Notice, Prompt
from specchat.app.chat.pieces import Pieces
from specchat.app.history.store import Store
from specchat.app.history.writing import AnswerMark, ChatSnapshot, ChatTrack, write
from specchat.app.tui.app import SpecchatApp
from specchat.engine.messages import Loaded, PieceTable, StepRecord

from ...cases import FULL
from ...fakes.hostile_text import CONTROLS, MARKUP, UNICODE, calm
from ...fakes.terminal import Terminal

ROUNDS = 200 if FULL else 6

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


@pytest.mark.parametrize("size", [(60, 20), (120, 40)])
async def test_every_screen_shows_it_as_text(
    make_chat: Any, engine: Any, size: tuple[int, int], monkeypatch: Any, tmp_path: Path
) -> None:
    monkeypatch.setenv("SPECCHAT_DATA", str(tmp_path / "data"))
    chat = make_chat()
    async with chat.run_test(size=size) as pilot:
        for number in range(ROUNDS):
            name, prompt, said, told, reason = texts(number, 5)
            info = {
                "name": name,
                "backend": reason,
                "device": name,
                "dtype": told,
                "parameters": 5,
                "context": 99,
                "notes": [told],
            }
            engine.events.append(Loaded(1, info, {"soft": reason}))
            engine.events.append(PieceTable(2, [name, said, told]))
            answer = Answer("lookup", "identical")
            answer.add(
                StepRecord("lookup", [0, 1], said, 2, 1, 3, tree_tokens=[1, 2], tree_parents=[-1, 0], path=[0], note="x")
            )
            answer.add(StepRecord("lookup", [2], prompt))
            answer.finish("eos", told)
            chat.dialogue.model = name
            chat.dialogue.transcript.entries[:] = [Prompt(prompt), answer, Notice(told), Notice(reason, "error")]
            chat.chat_screen.view.show(chat.dialogue.transcript)
            chat.tell(told, "warning")
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


async def test_typed_and_pasted_text_is_shown_as_text(make_chat: Any, engine: Any) -> None:
    from textual import events

    chat = make_chat()
    async with chat.run_test(size=(80, 24)) as pilot:
        engine.loaded()
        await pilot.pause()
        for text in texts(99, ROUNDS):
            chat.screen.focused.post_message(events.Paste(text))
            await pilot.pause()
            check(chat)
            await pilot.press("ctrl+u")


def hostile_history(folder: Path, seed: int = 5, count: int = 30) -> None:
    """A history of chats that say it in their titles, models and messages."""
    pick = iter(texts(seed, count * 4))
    with Store(folder / "data" / "history.db") as store:
        for _ in range(count):
            title, asked, said, model = (next(pick) for _ in range(4))
            answer = Answer("lookup", "identical")
            answer.add(StepRecord("lookup", [0], f"lamp {said}", note=said))
            answer.finish("eos", said)
            kept = ChatSnapshot(
                ChatTrack(title=title),
                [Prompt(f"q {asked}"), Notice(said), answer],
                [],
                {id(answer): AnswerMark(1, 1, answer.reason, answer.figures)},
                f"t {title}",
                model,
                None,
                {"model": {"name": model}},
                Pieces(),
            )
            with store.transaction() as db:
                write(db, kept, store.identity)


async def test_the_list_of_chats_and_what_it_opens(make_chat: Any, engine: Any, monkeypatch: Any, tmp_path: Path) -> None:
    monkeypatch.setenv("SPECCHAT_DATA", str(tmp_path / "data"))
    hostile_history(tmp_path)
    chat = make_chat()
    async with chat.run_test(size=(80, 24)) as pilot:
        engine.loaded()
        await pilot.pause()
        for number in range(10):
            chat.chat_history.browse("" if number % 2 else "lamp")
            await pilot.pause()
            check(chat)
            await pilot.press(*["down"] * number, "enter")
            await pilot.pause()
            check(chat)
            await pilot.press("escape", "escape")


def gguf(name: str) -> bytes:
    """A GGUF file whose texts are all of them this."""

    def text(value: str) -> bytes:
        data = value.encode("utf-8", "surrogatepass")
        return struct.pack("<Q", len(data)) + data

    pairs = [("general.architecture", name), ("general.name", name), ("general.basename", name), (name, name)]
    head = b"GGUF" + struct.pack("<IQQ", 3, 0, len(pairs))
    return head + b"".join(text(key) + struct.pack("<I", 8) + text(value) for key, value in pairs)


def test_cards_of_models_are_shown_as_text(tmp_path: Path) -> None:
    from specchat.app.models.details import of_model
    from specchat.app.models.library import FoundModel
    from specchat.app.models.memory import MemoryFit
    from specchat.app.models.places import ModelSpot
    from specchat.app.models.rows import model_row
    from specchat.backends.files.model_card import read_card

    pick = iter(texts(7, ROUNDS * 2))
    for number in range(ROUNDS):
        name, folder_name = next(pick), re.sub("[\x00/\ud800-\udfff]", "_", next(pick)).strip(".")[:60] or "x"
        file = tmp_path / f"{folder_name}-{number}.gguf"
        file.write_bytes(gguf(name))
        folder = tmp_path / f"{folder_name}-{number}"
        folder.mkdir()
        config = {"model_type": name, "architectures": [name], "torch_dtype": name, "max_position_embeddings": name}
        (folder / "config.json").write_text(json.dumps({**config, "quantization_config": {"quant_method": name}}))
        (folder / "model.safetensors").write_bytes(struct.pack("<Q", 2) + b"{}")
        for path in (file, folder):
            found = FoundModel(ModelSpot("This folder", str(path), path, path.name), read_card(path))
            row = model_row(found, MemoryFit("unknown"))
            shown = [part for part in vars_of(row) if isinstance(part, str)]
            assert all(map(calm, shown)), shown
            assert all(calm(sentence) for sentence, _, _ in of_model(found, None, {}))


def vars_of(row: Any) -> list[Any]:
    """What a row shows: its fields but for the key."""
    from dataclasses import fields

    values = [getattr(row, field.name) for field in fields(row) if field.name != "key"]
    return [part for value in values for part in (value if isinstance(value, tuple) else (value,))]


OWN = re.compile(
    rb"\x1b\[[0-9;:]*m"  # colours
    rb"|\x1b\[[0-9;]*[HKJABCD]"  # where to write, what to clear
    rb"|\x1b\[[?>=<][0-9;]*[a-z$]+"  # modes, and what is asked of the terminal
    rb"|\x1b\[[0-9;]*[tcnhluqr]"
    rb"|\x1b\]22;[a-z-]*\x07"  # the pointer's shape
)
"""What the renderer says to a terminal."""


def test_on_a_real_terminal_only_the_renderer_speaks(tmp_path: Path) -> None:
    hostile_history(tmp_path)
    env = {"SPECCHAT_DATA": str(tmp_path / "data"), "SPECCHAT_CONFIG": str(tmp_path), "SPECCHAT_CACHE": str(tmp_path / "cache")}
    with Terminal([sys.executable, "-m", "specchat", "--resume", "lamp"], columns=90, lines=30, env=env) as terminal:
        terminal.wait_raw("Chats · 30".encode())
        terminal.settle()
        terminal.send("\x1b[B\x1b[B")
        terminal.settle()
        terminal.send("\r")
        terminal.wait(lambda text: "Chats · 30" not in text)
        terminal.settle()
        for keys in ("\x1b[5~", "\x1b[5~", "\x1b[6~", "\x1bh"):
            terminal.send(keys)
            terminal.settle()
        terminal.send("\x1b")
        terminal.settle()
        terminal.send("\x11")  # ctrl+q
        terminal.exit_code()
        raw = bytes(terminal.raw)
    assert b"31337m" in raw  # the text of the sequence is there
    assert b"\x1b[31337m" not in raw
    rest = OWN.sub(b"", raw).decode()
    shown = rest.replace("\r", "").replace("\n", "").replace("\t", "")
    assert calm(shown), re.findall(r".{0,20}[\x00-\x08\x0b-\x1f].{0,20}", shown)[:5]


def test_the_commands_of_the_history_print_it_as_text_on_a_terminal(tmp_path: Path) -> None:
    hostile_history(tmp_path, count=12)
    env = {"SPECCHAT_DATA": str(tmp_path / "data"), "SPECCHAT_CONFIG": str(tmp_path)}
    for arguments in (["list"], ["search", "lamp"], ["show", "3"], ["show", "\x1b]0;PWNED\x07"]):
        command = [sys.executable, "-m", "specchat", "chats", *arguments]
        with Terminal(command, columns=90, lines=30, env=env) as terminal:
            terminal.exit_code()
            terminal.settle(0.1)
            assert terminal.screen.title == ""
            rest = re.sub(rb"\x1b\[[0-9;]*[mK]|\r", b"", bytes(terminal.raw))
        assert rest
        assert calm(rest.decode(), line=False), (arguments, rest[:300])
