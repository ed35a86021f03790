"""/settings: every setting with its value, its default and where it comes from; what is changed is written into the file."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Input, Static

from ....errors import UserError
from ...chat.dialogue import Dialogue
from ...settings.file import from_text, takes_many, variable
from ...settings.key_path import join, split
from ...settings.keymap import SETTINGS, display
from ...settings.precedence import default_of
from ...settings.rows import Row, detail, rows_of, typed_form
from ...settings.table import NEXT_LOAD, Entry, entries
from ...text.amounts import short
from ...text.cells import fit, one_line
from .setting_list import SettingList

if TYPE_CHECKING:
    from ..live_settings import Configuring


class SettingsScreen(ModalScreen[None]):
    """Every setting.

    Args:
        live: the settings in force.
        dialogue: whose methods and model they are for.
        changed: called when one was changed.
        query: what to search for to begin with.
    """

    DEFAULT_CSS = """
    SettingsScreen {
        align: center middle;
        background: $background 60%;
        & > Vertical {
            width: 100; max-width: 96%; height: 92%; max-height: 46;
            background: $surface; border: round $border; padding: 1 0 0 0;
            border-title-color: $primary; border-title-style: bold; border-subtitle-color: $quiet;
        }
        & #settings-search { height: 1; padding: 0 2; margin-bottom: 1; }
        & #settings-glyph { width: auto; color: $accent; text-style: bold; }
        & #settings-input {
            height: 1; width: 1fr; border: none; padding: 0; background: $surface; color: $foreground;
            &:focus { border: none; background-tint: $surface 0%; }
            & .input--placeholder { color: $faint; }
        }
        & #settings-list { height: 1fr; }
        & #settings-detail { height: 5; padding: 0 2; border-top: solid $line; color: $quiet; }
        & #settings-note { height: auto; max-height: 2; padding: 0 2; color: $success; }
        & #settings-note.-wrong { color: $warning; }
    }
    """
    AUTO_FOCUS = "#settings-input"
    BINDINGS: ClassVar[list[BindingType]] = [
        # What is typed fast goes through the box first: this key must not overtake it.
        Binding(key.keys, key.action, key.what, show=False, priority=key.id != "settings_change", id=key.id, tooltip=key.what)
        for key in SETTINGS
    ]

    def __init__(self, live: Configuring, dialogue: Dialogue, changed: Callable[[], None], query: str = "") -> None:
        super().__init__()
        self._live, self._dialogue, self._changed, self._query = live, dialogue, changed, query
        self._entries: list[Entry] = []
        self._model_only = False
        self._changing: Row | None = None

    @property
    def list(self) -> SettingList:
        """The list."""
        return self.query_one("#settings-list", SettingList)

    @property
    def box(self) -> Input:
        """What is searched for, or the value while one is changed."""
        return self.query_one("#settings-input", Input)

    def compose(self) -> ComposeResult:
        """A box to search in, the list, what there is to say of the setting under the cursor."""
        with Vertical():
            with Horizontal(id="settings-search"):
                yield Static("› ", id="settings-glyph")
                box = Input(self._query, placeholder="Search in the settings", id="settings-input", select_on_focus=False)
                box.cursor_blink = False
                yield box
            yield SettingList(id="settings-list")
            yield Static(id="settings-detail")
            yield Static(id="settings-note")

    def on_mount(self) -> None:
        """List the settings."""
        self._entries = entries(self._dialogue.methods)
        self._show()
        if problems := self._live.layers.read.problems:
            self._say(problems[0], wrong=True)

    def settings_changed(self) -> None:
        """The file says something else now."""
        self._show(self.list.row.title if self.list.row is not None else "")
        if problems := self._live.layers.read.problems:
            self._say(problems[0], wrong=True)

    @property
    def _model(self) -> str | None:
        return self._dialogue.model if self._model_only else None

    def _show(self, key: str = "") -> None:
        query = self._query if self._changing is not None else self.box.value
        self.list.show(rows_of(self._live.layers, self._entries, query, self._model), key)
        scope = f"only {one_line(self._dialogue.model)}" if self._model_only else "every model"
        self.query_one(Vertical).border_title = Content(f"Settings · {fit(scope, 40)}")
        self._keys()
        self._tell()

    def _tell(self) -> None:
        pane, row = self.query_one("#settings-detail", Static), self.list.row
        if row is None or row.entry is None:
            pane.update("")
            return
        pane.update(Content("\n").join(Content.styled(text, style) for text, style in detail(row)))

    def _say(self, text: str, wrong: bool = False) -> None:
        note = self.query_one("#settings-note", Static)
        note.set_class(wrong, "-wrong")
        note.update(Content(text))

    def _keys(self) -> None:
        """The keys that count now, as they are mapped."""
        keys = {key.id: display(self._live.keymap.get(key.id, key.keys)) for key in SETTINGS}
        if self._changing is not None:
            parts = ["enter keep", f"{keys['settings_leave']} leave it as it is"]
        else:
            wide = self.app.size.width >= 84
            scope = "every model" if self._model_only else "this model"
            parts = ["enter change", f"{keys['settings_scope']} {scope}", f"{keys['settings_default']} default"]
            parts += [f"{keys['settings_undo']} undo"] if self._live.undo else []
            parts += [keys["settings_leave"]] if wide else []
        self.query_one(Vertical).border_subtitle = " · ".join(parts)

    # What is typed

    @on(Input.Changed)
    def _typed(self, event: Input.Changed) -> None:
        event.stop()
        if self._changing is None:
            self._say("")
            self._show(self.list.row.title if self.list.row is not None else "")

    @on(SettingList.Moved)
    def _moved(self, event: SettingList.Moved) -> None:
        event.stop()
        self._tell()

    @on(SettingList.Chosen)
    def _clicked(self, event: SettingList.Chosen) -> None:
        event.stop()
        if self._changing is None:
            self.action_choose()

    @on(Input.Submitted)
    def _submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self.action_choose()

    def on_click(self, event: events.Click) -> None:
        """A click outside closes."""
        if event.widget is self:
            self.dismiss(None)

    def on_resize(self) -> None:
        """Keys that no longer fit leave the frame."""
        self._keys()

    # Keys

    def action_move(self, by: int) -> None:
        """Move the cursor by some settings."""
        if self._changing is None:
            self._say("")
            self.list.move(by)

    def action_page(self, direction: int) -> None:
        """Move the cursor by a page."""
        self.action_move(direction * max(1, self.list.size.height - 2))

    def action_end(self, direction: int) -> None:
        """To the first setting or the last."""
        self.action_move(direction * self.list.count)

    def action_leave(self) -> None:
        """Leave the value as it is, empty the search, or go back to the chat."""
        if self._changing is not None:
            self._end()
        elif self.box.value:
            self.box.value = ""
        else:
            self.dismiss(None)

    def action_scope(self) -> None:
        """Settings of every model, or of the loaded one alone."""
        if self._changing is None:
            self._model_only = not self._model_only
            self._say("")
            self._show(self.list.row.title if self.list.row is not None else "")

    def action_choose(self) -> None:
        """Change the setting under the cursor, or take what was typed."""
        row = self.list.row
        if self._changing is not None:
            self._take(self._changing)
        elif row is not None and row.entry is not None:
            self._change(row, row.entry)

    def action_default(self) -> None:
        """Take the setting out of the file."""
        row = self.list.row
        if row is None or self._changing is not None:
            return
        if row.key not in self._live.layers.read.values:
            self._say(f"The settings file does not set {row.title}.", wrong=True)
            return
        self._keep({row.key: None}, row.title)

    def action_undo(self) -> None:
        """Take the last change back."""
        undo = self._live.undo
        if not undo or self._changing is not None:
            return
        changes = undo.pop()
        self._live.keep(changes)
        self._show(_name(next(iter(changes))))
        self._say("The last change is taken back.")

    # Changing

    def _change(self, row: Row, entry: Entry) -> None:
        from .key import KeyScreen
        from .menu import Item, Menu
        from .text import TextScreen

        head = split(entry.key)[0]
        if head == "keymap":

            def pressed(changes: Mapping[str, str] | None) -> None:
                if changes is not None:
                    self._keep({join(("keymap", id)): keys for id, keys in changes.items()}, row.title)

            self.app.push_screen(KeyScreen(split(entry.key)[1], self._live.keymap), pressed)
        elif entry.key == "system":

            def written(text: str | None) -> None:
                if text is not None:
                    self._keep({row.key: text.rstrip() or None}, row.title)

            about = "The system prompt that a chat starts with: the model reads it before everything else."
            self.app.push_screen(TextScreen("System prompt", str(row.value or ""), about, self._live.keymap), written)
        elif entry.choices:

            def chosen(word: str | None) -> None:
                if word is not None:
                    self._keep({row.key: from_text(row.key, word)}, row.title)

            default = typed_form(default_of(entry.key))
            items = [Item(word, word, "default" if word == default else "") for word in entry.choices]
            self.app.push_screen(Menu(_title(entry), items, typed_form(row.value)), chosen)
        else:
            self._changing, self._query = row, self.box.value
            self.query_one("#settings-glyph", Static).update(f"{fit(one_line(_title(entry)), 40)}: ")
            self.box.placeholder = "nothing"
            with self.prevent(Input.Changed):
                self.box.value = typed_form(row.value)
            self.box.cursor_position = len(self.box.value)
            self._say("")
            self._keys()

    def _take(self, row: Row) -> None:
        text = self.box.value
        try:
            value: Any = from_text(row.key, text)
            if not text.strip() and (default_of(row.key) is None or takes_many(row.key) or split(row.key)[0] == "models"):
                value = None  # nothing is set
            self._keep({row.key: value}, row.title)
        except UserError as error:
            self._say(str(error), wrong=True)
            return
        self._end(said=False)

    def _end(self, said: bool = True) -> None:
        title = self._changing.title if self._changing is not None else ""
        self._changing = None
        self.query_one("#settings-glyph", Static).update("› ")
        self.box.placeholder = "Search in the settings"
        with self.prevent(Input.Changed):
            self.box.value = self._query
        if said:
            self._say("")
        self._show(title)

    def _keep(self, changes: Mapping[str, Any], title: str) -> None:
        """Change something, and say what that does.

        Raises:
            UserError: only while a value is typed; else it is said.
        """
        try:
            self._live.keep(changes, undoable=True)
        except UserError as error:
            if self._changing is not None:
                raise
            self._say(str(error), wrong=True)
            return
        self._changed()
        if self._changing is None:
            self._show(title)
        first = next(iter(changes))
        entry = next(entry for entry in self._entries if entry.key == _name(first))
        layers = self._live.layers
        said = f"Kept in {short(layers.read.path)}; it {entry.when}."
        warn = ""
        if _in_environment(entry.key):
            warn = f" ${variable(entry.key)} goes before the file from the next start on."
        elif split(first)[0] != "models" and layers.origin(entry.key).kind == "model":
            warn = f" {one_line(self._dialogue.model)} has its own, which goes before it: tab shows that."
        elif entry.when == NEXT_LOAD and entry.key == "model":
            said = f"Kept in {short(layers.read.path)}; it counts from the next start on, /model loads one now."
        self._say(f"{said}{warn}", wrong=bool(warn))


def _in_environment(key: str) -> bool:
    """Whether the environment sets it, also where a later word counts for now."""
    return bool(os.environ.get(variable(key)))


def _name(key: str) -> str:
    """A setting without its model's name."""
    parts = split(key)
    return join(parts[2:]) if parts[0] == "models" else key


def _title(entry: Entry) -> str:
    """A setting's name where there is no heading above it."""
    return entry.key.removeprefix("keymap.").removeprefix("methods.")
