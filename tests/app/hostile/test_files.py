"""Settings, themes and the file of what was sent, put there by somebody else: a sentence, the defaults, and the chat
opens."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from specchat.app.history.prompts import PromptHistory, Typed
from specchat.app.settings.fields import Settings
from specchat.app.settings.precedence import load_settings
from specchat.app.theming.themes import load_themes, read_theme
from specchat.errors import UserError

from ...fakes.pilots import command, settle

KINDS = ("pipe", "device", "folder", "sparse", "arrays", "tables", "surrogates", "number")
DEEP = 10_000


def put(path: Path, kind: str) -> None:
    """Lay such a file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    match kind:
        case "pipe":
            os.mkfifo(path)
        case "device":
            path.symlink_to("/dev/zero")
        case "folder":
            path.mkdir()
        case "sparse":
            with path.open("wb") as file:
                file.truncate(10**12)
        case "arrays":
            path.write_text("theme = " + "[" * DEEP + "]" * DEEP)
        case "tables":
            path.write_text("theme = " + "{a=" * DEEP + "1" + "}" * DEEP)
        case "surrogates":
            path.write_bytes(b'system = "\xed\xa0\x80\xed\xbf\xbf"\n' * 100)
        case "number":
            path.write_text(f"max_tokens = {'9' * DEEP}")


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
async def test_the_chat_opens_whatever_lies_there(
    make_chat: Callable[..., Any], engine: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setenv("SPECCHAT_DATA", str(tmp_path / "data"))
    for path in ("themes/mine.toml", "data/prompts.jsonl", "data/recent-models.json"):
        put(tmp_path / path, kind)
    app = make_chat()
    app.chat_history.keep = True
    app.chat_history._begin = lambda: None
    async with app.run_test(notifications=True) as pilot:
        engine.loaded()
        await settle(app, pilot)
        await command(pilot, "Hello")
        await settle(app, pilot)
        assert engine.asked.messages[-1]["content"] == "Hello"
        said = " ".join(notification.message for notification in app.recent)
        assert ("prompts.jsonl out of the way" in said) == (kind in ("pipe", "sparse"))


def test_lone_surrogates_in_what_was_sent_become_signs(tmp_path: Path) -> None:
    file = tmp_path / "prompts.jsonl"
    file.write_text('{"text": "a \\ud800", "pastes": {"\\udfff": "\\udc80 b"}}\n' + '{"text": ' + "[" * DEEP + "\n")
    history = PromptHistory(file)
    (typed,) = history.read()
    for text in (typed.text, *typed.pastes, *typed.pastes.values()):
        text.encode()
    history.add(Typed("more"))
    assert [typed.text for typed in history.read()][1:] == ["more"]
