"""/settings: every setting with its value, its default and where it comes from; what is changed is written into the file."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from textual.binding import BindingType

from ...chat.about import default_word
from ...settings.file import variable
from ...settings.keymap import SETTINGS
from ...settings.rows import ListedSetting, SettingRow, detail, entries, setting_rows, typed_form
from ...text.amounts import short_path
from ...text.cells import fit, one_line, width
from ...text.lines import StyledLine, ends, line
from ..keys.context import Hint, bindings_of, hints
from .pick_list import PickList
from .search_screen import SearchScreen

if TYPE_CHECKING:
    from ..host import Host

NAME_CELLS, KEY_CELLS = 25, 28
"""Cells of a setting's name, and of its key in the file, where there is room."""

NARROW, KEYS_FROM = 64, 90
"""Below so many cells names are cut sooner, and where a value comes from is told below the list alone; those from which on keys
stand beside the names."""


class SettingsScreen(SearchScreen[None, SettingRow]):
    """The list of every setting."""

    DEFAULT_CSS = """
    SettingsScreen {
        & > Frame { width: 120; max-height: 46; }
        & #detail { height: 5; }
        & #note { color: $success; }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = bindings_of(SETTINGS)

    def __init__(self, host: Host, query: str = "") -> None:
        listed = PickList[SettingRow](lambda row: row.title if row.option is not None else None, drawn)
        listed.empty = "No setting matches in name, description or value."
        super().__init__(listed, host.live.keymap, "Settings", "Search settings", query)
        self._host, self._live, self._dialogue = host, host.live, host.dialogue
        self._entries: list[ListedSetting] = []

    def on_mount(self) -> None:
        self._entries = entries(self._dialogue.methods)
        self.settings_changed()
        if problems := self._live.layers.read.problems:
            self.say(problems[0], wrong=True)

    def settings_changed(self, key: object = None) -> None:
        rows = setting_rows(self._live.layers, self._entries, self.searched, self._chosen())
        self.listed.show(rows, self.listed.key if key is None else key)
        self.tell()

    def _chosen(self) -> dict[str, str]:
        """Values that the loaded model chose for settings left open."""
        dialogue, info = self._dialogue, self._dialogue.info
        found = {key: str(info.get(key) or "") for key in ("device", "dtype", "context", "backend")}
        drafts = ", ".join(filter(None, (*dialogue.draft_models.values(), dialogue.head)))
        return {**found, "think": default_word(info), "method": dialogue.method, "draft_model": drafts} if info else {}

    def item_hints(self) -> tuple[Hint, ...]:
        undo = [("settings_undo", "")] if self._live.undo else []
        return hints(("list_choose", "change"), ("settings_default", ""), *undo)

    def about(self, item: SettingRow | None) -> list[tuple[str, str]]:
        return detail(item) if item is not None else []

    # Keys

    def search(self, text: str) -> None:
        self.say("")
        self.settings_changed()

    def action_move(self, by: int) -> None:
        if not self.asking:
            self.say("")
        super().action_move(by)

    def action_default(self) -> None:
        if (row := self.under) is None:
            return
        if row.title not in self._live.layers.read.values:
            self.say(f"The settings file does not set {row.title}.", wrong=True)
            return
        self._keep({row.title: None})

    def action_undo(self) -> None:
        undo = self._live.undo
        if not undo or self.asking:
            return
        changes = undo.pop()
        self._live.keep(changes)
        self.settings_changed(next(iter(changes)))
        self.say("Undid the last change.")

    # Changing

    def choose(self, item: SettingRow) -> None:
        from .menu import Menu, MenuItem
        from .text import TextScreen

        option, title = item.option, item.title.removeprefix("methods.")
        assert option is not None, "a heading cannot be chosen"
        if item.title == "system":
            about = "The system prompt for new chats. The model reads it before everything else."
            screen = TextScreen("System prompt", str(item.value or ""), about, self._live.keymap)
            self._host.ask(screen, lambda text: self._keep({item.title: text.rstrip() or None}))
        elif option.words:
            default = typed_form(option.default)
            items = [MenuItem(word, word, "default" if word == default else "") for word in option.words]
            menu = Menu(title, items, typed_form(item.value), self._live.keymap)
            self._host.ask(menu, lambda word: self._keep({item.title: word}))
        else:
            self.ask(fit(one_line(title), 40), typed_form(item.value), "keep", lambda text: self._take(item, text), "nothing")

    def _take(self, row: SettingRow, text: str) -> None:
        def keep() -> None:
            assert row.option is not None
            blank = not text.strip() and (row.option.default is None or row.option.several)
            self._live.keep({row.title: None if blank else text}, undoable=True)

        if self.tried(keep):
            self.end_asking()
            self._kept(row.title)

    def _keep(self, changes: Mapping[str, Any]) -> None:
        if self.tried(lambda: self._live.keep(changes, undoable=True)):
            self._kept(next(iter(changes)))

    def _kept(self, key: str) -> None:
        self._host.changed()
        self.settings_changed(key)
        option = next(entry.option for entry in self._entries if entry.key == key)
        layers = self._live.layers
        said = f"Saved in {short_path(layers.read.path)}; it applies {option.when}."
        warn = ""
        if os.environ.get(variable(key)):  # also where a later word counts for now
            warn = f" ${variable(key)} goes before the file from the next start on."
        elif layers.origin(key).kind == "model":
            warn = f" {one_line(self._dialogue.model)} has its own value, which overrides this."
        elif key == "model":
            said = f"Saved in {short_path(layers.read.path)}; it applies from the next start. /model loads one now."
        self.say(f"{said}{warn}", wrong=bool(warn))


def drawn(row: SettingRow, cells: int) -> tuple[StyledLine]:
    if row.option is None:
        return ((line((fit(row.title, cells), "bold $primary")) if row.title else ()),)
    wide = cells >= NARROW
    room = NAME_CELLS if wide else max(14, cells * 45 // 100)
    name = fit(row.name, room - 2)
    key = fit(row.title.removeprefix("methods."), KEY_CELLS - 2).ljust(KEY_CELLS) if cells >= KEYS_FROM else ""
    mark = row.mark if wide else ""
    left = room - width(name)
    value = fit(row.text, max(4, cells - room - len(key) - (width(mark) + 2 if mark else 0)))
    set_here = bool(row.mark)
    words = (name, "$foreground"), " " * left, (key, "$faint"), (value, "bold $foreground" if set_here else "$quiet")
    return (ends(line(*words), line((mark, "$accent")), cells),)
