"""/settings: every setting with its value, default and source; changes go to the settings file."""

from __future__ import annotations

from typing import ClassVar

from textual.binding import BindingType

from ....option import Option
from ...chat.about import default_word
from ...settings.keymap import SETTINGS
from ...settings.rows import SettingRow, detail, entries, setting_rows, typed_form
from ...text.amounts import short_path
from ...text.cells import fit, one_line, width
from ...text.lines import StyledLine, ends, line
from ..host import Host
from ..keys import Hint, bindings_of, hints
from .menu import Menu, MenuItem
from .pick_list import PickList
from .search_screen import SearchScreen
from .text import TextScreen

NAME_CELLS = 27
"""Cells of the column of names."""

WIDE_FROM = 64
"""Fewest cells of a row with full names and the sources of values."""


class SettingsScreen(SearchScreen[None, SettingRow]):
    """The list of every setting."""

    DEFAULT_CSS = """
    SettingsScreen {
        & > Frame { width: 100; max-height: 46; }
        & #detail { height: 5; }
        & #note { color: $success; }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = bindings_of(SETTINGS)

    def __init__(self, host: Host, query: str = "") -> None:
        listed = PickList[SettingRow](lambda row: row.key_or_heading if row.option is not None else None, drawn)
        listed.empty = "No setting matches in name, description or value."
        super().__init__(listed, host.live.keymap, "Settings", "Search settings", query)
        self._host = host
        self._live = host.live
        self._dialogue = host.dialogue
        self._entries: dict[str, Option] = {}

    def on_mount(self) -> None:
        self._entries = entries(self._dialogue.methods)
        self.settings_changed()
        if problems := self._live.layers.read.problems:
            self.say(problems[0], wrong=True)

    def settings_changed(self, key: object = None) -> None:
        rows = setting_rows(self._live.layers, self._entries, self.box.value, self._chosen())
        self.listed.show(rows, self.listed.key if key is None else key)
        self.tell()

    def _chosen(self) -> dict[str, str]:
        """Return the values in use, by key, for settings that leave the choice to specchat."""
        dialogue, info = self._dialogue, self._dialogue.info
        if not info:
            return {}
        values = {key: str(getattr(info, key) or "") for key in ("device", "dtype", "context", "backend")}
        drafts = ", ".join(filter(None, (*dialogue.draft_models.values(), dialogue.head)))
        return {**values, "think": default_word(info), "method": dialogue.method, "draft_model": drafts}

    def hints(self) -> tuple[Hint, ...]:
        return hints(("list_choose", "change"), ("settings_default", ""))

    def about(self, item: SettingRow | None) -> list[tuple[str, str]]:
        return detail(item) if item is not None else []

    # Keys

    def search(self, text: str) -> None:
        self.say("")
        self.settings_changed()

    def action_move(self, by: int) -> None:
        self.say("")
        super().action_move(by)

    def action_default(self) -> None:
        if (row := self.listed.item) is not None:
            self._keep(row.key_or_heading, None)

    # Changing

    def choose(self, item: SettingRow) -> None:
        option, key = item.option, item.key_or_heading
        assert option is not None, "a heading cannot be chosen"
        if option.words:
            default = typed_form(option.default)
            items = [MenuItem(word, word, "default" if word == default else "") for word in option.words]
            menu = Menu(key.removeprefix("methods."), items, typed_form(item.value), self._live.keymap)
            self._host.ask(menu, lambda word: self._keep(key, word))
            return

        def keep(text: str) -> None:
            emptied = not text.strip() and (option.default is None or option.several)
            self._keep(key, None if emptied else text.rstrip())

        text = str(item.value or "") if key == "system" else typed_form(item.value)
        self._host.ask(TextScreen(key, text, option.help, self._live.keymap, keep, one_line=key != "system"))

    def _keep(self, key: str, value: object) -> None:
        """Change a setting; say where that was saved, when it applies, and what overrides it."""
        self._live.keep({key: value})
        self._host.changed()
        self.settings_changed(key)
        option = self._entries[key]
        layers = self._live.layers
        applies = "from the next start. /model loads one now" if key == "model" else option.when
        warning = ""
        if layers.origin(key).kind == "model":
            warning = f" {one_line(self._dialogue.model)} has its own value, which overrides this."
        self.say(f"Saved in {short_path(layers.read.path)}; it applies {applies}.{warning}", wrong=bool(warning))


def drawn(row: SettingRow, cells: int) -> tuple[StyledLine]:
    if row.option is None:
        return ((line((fit(row.key_or_heading, cells), "bold $primary")) if row.key_or_heading else ()),)
    wide = cells >= WIDE_FROM
    room = NAME_CELLS if wide else max(14, cells * 45 // 100)
    name = fit(row.name, room - 2)
    mark = row.mark if wide else ""
    value = fit(row.text, max(4, cells - room - (width(mark) + 2 if mark else 0)))
    style = "bold $foreground" if row.mark else "$quiet"
    left = line((name, "$foreground"), " " * (room - width(name)), (value, style))
    return (ends(left, line((mark, "$accent")), cells),)
