"""Notifications by escape sequence: which way this terminal knows, and what to send."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Literal

from ..text.cells import fit, one_line

_OSC9 = ("iTerm.app", "WezTerm", "ghostty", "rio")
"""TERM_PROGRAM of terminals that show OSC 9 as a notification."""

NotifyWay = Literal["osc9", "osc777", "bell", "off"]
LONGEST = 120
"""Characters of a notification."""


def way_here(setting: str, environment: Mapping[str, str] | None = None) -> NotifyWay:
    """The way to notify on this terminal.

    Args:
        setting: osc9, osc777, bell or off; auto for what this terminal is known to have, the bell where nothing is known.
        environment: variables; those of this process if None.
    """
    env = os.environ if environment is None else environment
    match setting:
        case "osc9" | "osc777" | "bell" | "off":
            return setting
    term, program = env.get("TERM", ""), env.get("TERM_PROGRAM", "")
    if env.get("TMUX") or env.get("STY") or term in ("dumb", "linux", ""):
        return "bell"  # tmux and screen pass a bell on and mark their window; other sequences they may drop
    if program in _OSC9 or env.get("KITTY_WINDOW_ID") or term in ("xterm-kitty", "xterm-ghostty", "wezterm"):
        return "osc9"
    if term.startswith(("foot", "rxvt-unicode", "contour")) or env.get("TERMINAL_NAME") == "contour":
        return "osc777"
    return "bell"


def sequence(way: NotifyWay, text: str) -> str:
    """What makes the terminal notify; empty where it is to get nothing."""
    shown = fit(one_line(text), LONGEST)
    match way:
        case "osc9":
            return f"\x1b]9;specchat: {shown}\x1b\\"  # never begins with a digit: 9;4 is a progress bar
        case "osc777":
            return f"\x1b]777;notify;specchat;{shown}\x1b\\"
        case "bell":
            return "\a"
        case "off":
            return ""
