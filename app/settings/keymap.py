"""Every key of the chat in one table: id, default keys, effect. The settings' `[keymap]` remaps by id.

All defaults reach the app on legacy terminals, where ctrl+i is tab, ctrl+m is enter, ctrl+h is backspace, and shift is lost on
most keys. None is a bare letter, digit or space: those always type. Where alt or F keys do not arrive, the leader key and a
letter do the same. ctrl+b is tmux's and ctrl+a is screen's, so neither is used.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from .actions import ACTIONS


class KeyBinding(NamedTuple):
    """One binding. `short` is its name in the bar at the bottom, in a word or two."""

    id: str
    keys: str
    action: str
    what: str
    short: str = ""


CHAT = tuple(KeyBinding(row.id, row.keys, f"app.do('{row.id}')", row.what, row.short) for row in ACTIONS if row.keys)
"""Keys of the chat screen. They come before the input box's own, so they work while it has the focus."""

LEADER = tuple(
    KeyBinding(f"leader_{row.id}", row.letters, f"do('{row.id}')", row.what, row.short) for row in ACTIONS if row.letters
)
"""Keys after the leader key."""

INPUT = (
    KeyBinding("send", "enter", "send", "Send the message, or run a /command", "send"),
    KeyBinding(
        "newline",
        "ctrl+j,shift+enter,alt+enter",
        "newline",
        "New line (shift+enter where the terminal can tell it apart)",
        "new line",
    ),
    KeyBinding("complete", "tab", "complete", "Complete a command or a file name, unfold a paste", "complete"),
    KeyBinding(
        "history_back",
        "up",
        "history(-1)",
        "On the first line: the previous message that begins with what you typed",
        "prev message",
    ),
    KeyBinding("history_forward", "down", "history(1)", "On the last line: the next message", "next message"),
    KeyBinding("follow", "end", "line_end", "End of the line; in an empty box: the end of the chat", "to the end"),
    KeyBinding("ask_help", "question_mark", "ask_help", "In an empty box: help", "help"),
)
"""Keys of the input box, besides those of any text field."""

INSPECT = (
    KeyBinding("inspect_previous", "left", "inspect_move('previous')", "Previous pass", "prev pass"),
    KeyBinding("inspect_next", "right", "inspect_move('next')", "Next pass", "next pass"),
    KeyBinding("inspect_above", "up", "inspect_move('above')", "Pass above", "pass above"),
    KeyBinding("inspect_below", "down", "inspect_move('below')", "Pass below", "pass below"),
    KeyBinding("inspect_first", "home", "inspect_move('first')", "First pass of the chat", "first pass"),
    KeyBinding("inspect_last", "end", "inspect_move('last')", "Last pass of the chat", "last pass"),
    KeyBinding("inspect_toggle", "enter", "app.do('inspect')", "Back to the input box", "back"),
)
"""Keys of the transcript while its runs are inspected."""

MOVES = (
    KeyBinding("menu_above", "up,k", "focused.cursor_up", "Item above", "above"),
    KeyBinding("menu_below", "down,j", "focused.cursor_down", "Item below", "below"),
    KeyBinding("menu_page_up", "pageup", "focused.page_up", "Page up", "page up"),
    KeyBinding("menu_page_down", "pagedown", "focused.page_down", "Page down", "page down"),
    KeyBinding("menu_first", "home", "focused.first", "First item", "first"),
    KeyBinding("menu_last", "end", "focused.last", "Last item", "last"),
    KeyBinding("menu_help", "question_mark", "app.do('help')", "Help: the keys of this menu", "help"),
)
"""Keys of every menu, where a race is set up too. The key for help of the chat works as well."""

MENU = (
    *MOVES,
    KeyBinding("menu_choose", "enter", "choose", "Choose the item under the cursor", "choose"),
    KeyBinding("menu_leave", "escape,ctrl+c", "leave", "Close without changing anything", "close"),
)
"""Keys of a menu."""

SETUP = (
    KeyBinding("setup_choose", "space", "choose", "Add the method under the cursor, or remove it", "toggle"),
    KeyBinding("setup_start", "enter", "start", "Start the race", "start"),
    KeyBinding("setup_leave", "escape,ctrl+c", "leave", "Back to the chat", "close"),
)
"""Keys of the menu that sets up a race."""

RACE = (
    KeyBinding("race_leave", "escape,ctrl+c", "leave", "Stop the race; when it is done, back to the chat", "chat"),
    KeyBinding("race_rerun", "r", "rerun", "Run the race again", "rerun"),
    KeyBinding("race_pause", "p,space", "pause", "Pause or continue the race", "pause"),
    KeyBinding("race_export", "e", "export", "Save the race as a web page or JSON", "export"),
    KeyBinding("race_theme", "f3,t", "app.do('theme_menu')", "Choose a colour theme, with a live preview", "theme"),
    KeyBinding("race_colours", "f6,c", "app.do('colours')", "Colour passes by their tokens, or not at all", "colours"),
    KeyBinding("race_pace", "f10,s", "app.do('pace')", "Slow the race down, or full speed again", "pace"),
    KeyBinding("race_up", "pageup,up", "scroll_texts(-1)", "Scroll the texts up", "up"),
    KeyBinding("race_down", "pagedown,down", "scroll_texts(1)", "Scroll the texts down", "down"),
    KeyBinding("race_help", "question_mark,f1,ctrl+p", "app.do('help')", "This help", "help"),
    KeyBinding("race_quit", "ctrl+q", "app.quit", "Quit", "quit"),
)
"""Keys of the race screen. Nothing is typed there, so letters are free."""

LISTS = (
    KeyBinding("list_choose", "enter", "choose", "Open, load, use or change the item under the cursor", "choose"),
    KeyBinding(
        "list_leave", "escape,ctrl+c", "leave", "Cancel what is being typed, else clear the search, else go back", "back"
    ),
    KeyBinding("list_above", "up", "move(-1)", "Item above", "above"),
    KeyBinding("list_below", "down", "move(1)", "Item below", "below"),
    KeyBinding("list_page_up", "pageup", "page(-1)", "Page up", "page up"),
    KeyBinding("list_page_down", "pagedown", "page(1)", "Page down", "page down"),
    KeyBinding("list_first", "ctrl+home", "end(-1)", "First item", "first"),
    KeyBinding("list_last", "ctrl+end", "end(1)", "Last item", "last"),
    KeyBinding("list_help", "question_mark", "app.do('help')", "In an empty search box: help", "help"),
)
"""Keys of every list with a search. What is typed there is searched for."""

CHATS = (
    KeyBinding("chats_rename", "ctrl+r", "rename", "Rename the chat under the cursor", "rename"),
    KeyBinding("chats_delete", "ctrl+d", "delete", "Delete the chat under the cursor", "delete"),
    KeyBinding("chats_undo", "ctrl+z", "undo", "Restore the last chat deleted", "undo"),
)
"""Further keys of the list of chats."""

MODELS = (
    KeyBinding(
        "models_drafts",
        "ctrl+d",
        "drafts",
        "Show which models can draft for the one under the cursor, and why others cannot",
        "drafts",
    ),
    KeyBinding("models_cancel", "ctrl+x", "cancel", "Cancel a download; files that are whole stay", "cancel"),
    KeyBinding("models_again", "ctrl+r", "again", "Search for models again", "search again"),
)
"""Further keys of the list of models."""

SETTINGS = (
    KeyBinding("settings_default", "ctrl+d", "default", "Back to the default: remove it from the settings file", "default"),
)
"""Further keys of the list of settings."""

TEXT = (
    KeyBinding("text_keep", "ctrl+s", "keep", "Save the text", "save"),
    KeyBinding("text_leave", "escape,ctrl+c", "leave", "Close without saving; asks first if you changed something", "close"),
)
"""Keys of the screen in which a system prompt is written."""

HELP = next(key for key in CHAT if key.id == "help")
"""Works in every list, menu and text too."""

GROUPS = {
    "In the chat": CHAT,
    "After the leader key": LEADER,
    "In the input box": INPUT,
    "While inspecting passes": INSPECT,
    "In a menu": MENU,
    "Where a race is set up": SETUP,
    "On the race screen": RACE,
    "In every list": LISTS,
    "In the list of chats": CHATS,
    "In the list of models": MODELS,
    "In the settings": SETTINGS,
    "While editing a system prompt": TEXT,
}
"""Place → the keys that work there, as the help and docs/keys.md list them."""

ALL = tuple(key for keys in GROUPS.values() for key in keys)

_DEFAULTS = {key.id: key.keys for key in ALL}

_SIGNS = {
    **{"escape": "esc", "pageup": "pgup", "pagedown": "pgdn"},
    **{"plus": "+", "minus": "-", "equals_sign": "=", "question_mark": "?"},
    **{"comma": ",", "full_stop": ".", "slash": "/", "backslash": "\\", "semicolon": ";", "apostrophe": "'"},
}
_SYMBOLS = {**_SIGNS, "left": "←", "right": "→", "up": "↑", "down": "↓"}


def display(keys: str) -> str:
    """Write the first of several keys as the bar shows it: `^n`, `F2`, `esc`."""
    key = keys.split(",")[0].strip()
    return f"^{key[-1]}" if key.startswith("ctrl+") and len(key) == 6 else spell(key)


def mapped_keys(id: str, keymap: Mapping[str, str]) -> str:
    """Return a binding's keys, separated by commas. `keymap` has those that are not the default, by id of the binding."""
    return keymap.get(id) or _DEFAULTS.get(id, "")


def shown_keys(id: str, keymap: Mapping[str, str]) -> str:
    """Write a binding's first key as the bar shows it; in place of one with alt, which not every terminal sends, the keys after
    the leader."""
    keys = mapped_keys(id, keymap)
    return (after_leader(id, keymap) if keys.startswith("alt+") else "") or display(keys)


def after_leader(id: str, keymap: Mapping[str, str]) -> str:
    """Write the leader key and a binding's letter as the bar shows them: `^o m`; empty without a letter."""
    letter = mapped_keys(f"leader_{id}", keymap)
    return f"{shown_keys('leader', keymap)} {display(letter)}" if letter else ""


def every_way(key: KeyBinding, keymap: Mapping[str, str]) -> str:
    """Write a binding's keys for the help, and the first after the leader key: `alt+m · ctrl+o m`."""
    letter = mapped_keys(f"leader_{key.id}", keymap).split(",")[0]
    leader = f"{spell(mapped_keys('leader', keymap))} {spell(letter)}" if letter else ""
    return " · ".join(filter(None, (spell(mapped_keys(key.id, keymap)), leader)))


def spell(keys: str) -> str:
    """Write keys for the help: `ctrl+j · shift+enter`, `alt+=`."""
    spelled = []
    for key in keys.split(","):
        *held, last = key.strip().split("+")
        if last[:1] == "f" and last[1:].isdigit():
            last = last.upper()
        # `ctrl+up` stays in words: an arrow behind a plus sign reads badly.
        spelled.append("+".join([*held, _SIGNS.get(last, last if held else _SYMBOLS.get(last, last))]))
    return " · ".join(spelled)


def is_typed(binding: str, key: str) -> bool:
    """Whether a key types a character where a binding works, so that the binding cannot have it."""
    in_input = any(row.id == binding for row in (*CHAT, *INPUT)) and key not in _DEFAULTS[binding].split(",")
    return in_input and (len(key) == 1 or key == "space" or (key in _SIGNS and len(_SIGNS[key]) == 1))
