"""What a key arrives as from a terminal, as its documents say.

xterm: xterm(1), ctlseqs. tmux: tmux(1), its wiki on modifier keys. Linux console: drivers/tty/vt/defkeymap.map. Windows
Terminal: its defaults.json. macOS Terminal: Settings, Profiles, Keyboard. Each with its defaults.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

TERMINALS = ("xterm", "tmux", "Linux console", "Windows Terminal", "macOS Terminal")

NO = "–"
"""What stands before the reason why a key does not arrive."""


class KeyKind(NamedTuple):
    """Keys that arrive from terminals in the same way."""

    keys: str
    """The keys as people write them."""
    names: str
    """A pattern of their names."""
    sent: tuple[str, ...]
    """Terminal → what it sends (^[ is escape), or after NO why they do not arrive as themselves."""


def _same(sent: str) -> tuple[str, ...]:
    return (sent,) * len(TERMINALS)


_ALT = (f"{NO} types another letter; `^[m` with metaSendsEscape", "`^[m`, if the terminal sends it", "`^[m`", "`^[m`")

KINDS = (
    KeyKind(
        "letters, digits, signs, space",
        r"[a-z0-9]|space|plus|minus|equals_sign|question_mark|comma|full_stop|slash",
        _same("itself"),
    ),
    KeyKind("enter, tab, esc", r"enter|tab|escape", _same("`^M`, `^I`, `^[`")),
    KeyKind("ctrl and a letter", r"ctrl\+[a-z]", _same("`^A` to `^Z`")),
    KeyKind("↑ ↓ ← →", r"up|down|left|right", _same("`^[[A` to `^[[D`")),
    KeyKind(
        "home, end",
        r"home|end",
        ("`^[[H` `^[[F`", "`^[[1~` `^[[4~`", "`^[[1~` `^[[4~`", "`^[[H` `^[[F`", f"{NO} scrolls the window"),
    ),
    KeyKind("pgup, pgdn", r"pageup|pagedown", (*_same("`^[[5~` `^[[6~`")[1:], f"{NO} scrolls the window")),
    KeyKind(
        "ctrl+home, ctrl+end",
        r"ctrl\+(home|end)",
        (
            "`^[[1;5H` `^[[1;5F`",
            "`^[[1;5H` `^[[1;5F`",
            f"{NO} as home and end",
            "`^[[1;5H` `^[[1;5F`",
            f"{NO} scrolls the window",
        ),
    ),
    KeyKind(
        "ctrl+up, ctrl+down",
        r"ctrl\+(up|down)",
        (
            "`^[[1;5A` `^[[1;5B`",
            "`^[[1;5A` `^[[1;5B`",
            f"{NO} as ↑ and ↓",
            "`^[[1;5A` `^[[1;5B`",
            f"{NO} Mission Control has them",
        ),
    ),
    KeyKind(
        "F1 to F4",
        r"f[1-4]",
        ("`^[OP` to `^[OS`", "`^[OP` to `^[OS`", "`^[[[A` to `^[[[D`", "`^[OP` to `^[OS`", "`^[OP` to `^[OS`, with fn"),
    ),
    KeyKind("F5", r"f5", ("`^[[15~`", "`^[[15~`", "`^[[[E`", "`^[[15~`", "`^[[15~`, with fn")),
    KeyKind("F6 to F9", r"f[6-9]", (*_same("`^[[17~` to `^[[20~`")[1:], "`^[[17~` to `^[[20~`, with fn")),
    KeyKind(
        "shift+enter",
        r"shift\+enter",
        (f"{NO} as enter", f"{NO} as enter, but for `extended-keys on`", f"{NO} as enter", f"{NO} as enter", f"{NO} as enter"),
    ),
    KeyKind(
        "alt+enter",
        r"alt\+enter",
        (f"{NO} full screen", "`^[^M`, if the terminal sends it", "`^[^M`", f"{NO} full screen", f"{NO} as enter"),
    ),
    KeyKind(
        "alt and a letter or sign",
        r"alt\+([a-z]|minus|equals_sign|comma|full_stop|slash)",
        (*_ALT, f"{NO} types another letter; `^[m` with *Use Option as Meta key*"),
    ),
    KeyKind(
        "alt+up, alt+down",
        r"alt\+(up|down)",
        ("`^[[1;3A` `^[[1;3B`", "`^[[1;3A` `^[[1;3B`", f"{NO} as ↑ and ↓", f"{NO} goes to another pane", f"{NO} as ↑ and ↓"),
    ),
    KeyKind(
        "alt+left, alt+right",
        r"alt\+(left|right)",
        (
            "`^[[1;3D` `^[[1;3C`",
            "`^[[1;3D` `^[[1;3C`",
            f"{NO} another console",
            f"{NO} goes to another pane",
            f"{NO} as alt+b and alt+f",
        ),
    ),
)
"""Every kind of key that specchat has by default."""


def kind_of(key: str) -> KeyKind | None:
    """The kind of a key, by its name; None for one that specchat has not by default."""
    return next((kind for kind in KINDS if re.fullmatch(kind.names, key)), None)


def lost(key: str, terminal: str) -> str:
    """Why a key does not arrive from a terminal as itself; empty if it does, as far as is known."""
    kind = kind_of(key)
    sent = kind.sent[TERMINALS.index(terminal)] if kind is not None else ""
    return sent.removeprefix(NO).strip() if sent.startswith(NO) else ""


def terminals_here(environment: Mapping[str, str]) -> list[str]:
    """The terminals that what runs here is shown by, as far as the environment tells: tmux, and what is around it."""
    told = {
        "tmux": bool(environment.get("TMUX")),
        "xterm": bool(environment.get("XTERM_VERSION")),
        "Linux console": environment.get("TERM") == "linux",
        "Windows Terminal": bool(environment.get("WT_SESSION")),
        "macOS Terminal": environment.get("TERM_PROGRAM") == "Apple_Terminal",
    }
    return [name for name, here in told.items() if here]


def readable(sent: str) -> str:
    """What was sent, with controls as ^[ and ^M."""
    return "".join(f"^{chr(ord(each) ^ 64)}" if ord(each) < 32 or ord(each) == 127 else each for each in sent)
