"""/preset: the presets there are, used, saved, edited, renamed, deleted and brought back."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar

from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option

from ....errors import UserError
from ...settings.key_path import split
from ...settings.keymap import PRESETS, display
from ...settings.presets import MOST_CELLS, Preset, delete_preset, last_deleted, presets, rename_preset, restore_preset
from ...text.cells import fit, one_line, sanitise, width

if TYPE_CHECKING:
    from ..live_settings import Configuring

NAME_CELLS = 22
"""Of a preset's name in the list."""

PREVIEW_ROWS = 6


class PresetsScreen(ModalScreen[None]):
    """The presets.

    Args:
        live: the settings in force.
        use: uses the preset of this name.
        save: makes a preset of this chat; `again`: also where there is one of that name.
        edit: edits the preset of this name; calls what is given once it is kept.
    """

    DEFAULT_CSS = """
    PresetsScreen {
        align: center middle;
        background: $background 60%;
        & > Vertical {
            width: 88; max-width: 96%; height: 80%; max-height: 30; min-height: 16;
            background: $surface; border: round $border; padding: 1 1 0 1;
            border-title-color: $primary; border-title-style: bold; border-subtitle-color: $quiet;
        }
        & #presets-search { height: 1; padding: 0 1; margin-bottom: 1; }
        & #presets-glyph { width: auto; color: $accent; text-style: bold; }
        & #presets-input {
            height: 1; width: 1fr; border: none; padding: 0; background: $surface; color: $foreground;
            &:focus { border: none; background-tint: $surface 0%; }
            & .input--placeholder { color: $faint; }
        }
        & OptionList {
            height: 1fr; background: $surface; border: none; padding: 0; scrollbar-size-vertical: 1;
            & > .option-list--option { padding: 0 1; }
            & > .option-list--option-highlighted { color: $foreground; background: $block-cursor-background; text-style: none; }
        }
        & #presets-preview { height: auto; max-height: 7; min-height: 4; padding: 0 1; color: $quiet; border-top: solid $line; }
        & #presets-note { height: auto; max-height: 2; padding: 0 1; color: $warning; }
    }
    """
    AUTO_FOCUS = "#presets-input"
    BINDINGS: ClassVar[list[BindingType]] = [
        # What is typed fast goes through the box first: this key must not overtake it.
        Binding(key.keys, key.action, key.what, show=False, priority=key.id != "presets_use", id=key.id, tooltip=key.what)
        for key in PRESETS
    ]

    def __init__(
        self,
        live: Configuring,
        use: Callable[[str], None],
        save: Callable[..., None],
        edit: Callable[[str, Callable[[], object]], None],
    ) -> None:
        super().__init__()
        self._live, self._use, self._save, self._edit = live, use, save, edit
        self._all: list[Preset] = []
        self._shown: list[Preset] = []
        self._asking = ""
        """`save` or the name of the preset that is renamed while a name is typed."""

    @property
    def box(self) -> Input:
        """What is searched for, or a name while one is asked."""
        return self.query_one("#presets-input", Input)

    @property
    def preset(self) -> Preset | None:
        """The preset under the cursor."""
        at = self.query_one(OptionList).highlighted
        return self._shown[at] if at is not None and at < len(self._shown) else None

    def compose(self) -> ComposeResult:
        """A box to search in, the presets, what the one under the cursor holds."""
        with Vertical() as frame:
            frame.border_title = "Presets"
            with Horizontal(id="presets-search"):
                yield Static("› ", id="presets-glyph")
                box = Input(placeholder="Search in the presets", id="presets-input", select_on_focus=False)
                box.cursor_blink = False
                yield box
            choices = OptionList()
            choices.can_focus = False
            yield choices
            yield Static(id="presets-preview")
            yield Static(id="presets-note")

    def on_mount(self) -> None:
        """Read the files."""
        self._keys()
        self._load(self._live.layers.preset_name)

    def on_resize(self) -> None:
        """Names and summaries take the room there is."""
        self._keys()
        self._show(keep=True)

    def _load(self, at: str = "") -> None:
        async def run() -> None:
            self._all = await asyncio.to_thread(presets)
            self._gone = bool(await asyncio.to_thread(last_deleted))
            if self.is_attached:
                self._show(at)
                self._keys()

        self.run_worker(run(), group="presets")

    _gone = False

    def _show(self, at: str = "", keep: bool = False) -> None:
        choices = self.query_one(OptionList)
        at = self.preset.name if keep and self.preset is not None else at
        query = self.box.value.casefold().strip() if not self._asking else ""
        self._shown = [preset for preset in self._all if query in f"{preset.name} {preset.summary}".casefold()]
        choices.clear_options()
        choices.add_options([Option(self._row(preset)) for preset in self._shown])
        names = [preset.name for preset in self._shown]
        if names:
            choices.highlighted = names.index(at) if at in names else 0
        self._preview()

    def _row(self, preset: Preset) -> Content:
        cells = max(20, min(88, self.app.size.width * 96 // 100) - 8)
        used = preset.name == self._live.layers.preset_name
        name = fit(one_line(preset.name), NAME_CELLS)
        gap = " " * (NAME_CELLS + 2 - width(name))
        wrong = bool(preset.problems)
        room = cells - NAME_CELLS - 4
        said = "its file has something wrong in it" if wrong and not preset.values else preset.summary
        return Content.assemble(
            ("● ", "$primary") if used else "  ", (name, "bold"), gap, (fit(said, room), "$warning" if wrong else "$quiet")
        )

    def _preview(self) -> None:
        preset, cells = self.preset, max(20, min(88, self.app.size.width * 96 // 100) - 8)
        preview = self.query_one("#presets-preview", Static)
        if preset is None:
            keys = self._names()
            text = (
                "No preset has that in it."
                if self._all
                else f"There is none yet: {keys['presets_save']} makes one of this chat."
            )
            preview.update(Content(text))
            return
        system = str(preset.values.get("system", ""))
        lines = [Content.styled(fit(row, cells), "$foreground") for row in sanitise(system).splitlines()[:3]]
        if len(system.splitlines()) > 3:
            lines.append(Content.styled("…", "$quiet"))
        parts = []
        for key, value in preset.values.items():
            if key != "system":
                shown = ", ".join(map(repr, value)) if isinstance(value, tuple) else str(value)
                name = " ".join(split(key)[1:]) if split(key)[0] in ("methods", "sampling") else key
                parts.append(one_line(f"{name}={shown}"))
        if parts:
            lines.append(Content.styled(fit("  ".join(parts), 2 * cells), "$quiet"))
        lines += [Content.styled(fit(problem, 2 * cells), "$warning") for problem in preset.problems[:2]]
        preview.update(Content("\n").join(lines[:PREVIEW_ROWS]))

    def _names(self) -> dict[str, str]:
        return {key.id: display(self._live.keymap.get(key.id, key.keys)) for key in PRESETS}

    def _keys(self) -> None:
        keys = self._names()
        if self._asking:
            what = "save" if self._asking == "save" else "rename"
            parts = [f"enter {what}", f"{keys['presets_leave']} leave it"]
        else:
            wide = self.app.size.width >= 80
            parts = ["enter use", f"{keys['presets_save']} save this chat's", f"{keys['presets_edit']} edit"]
            parts += [f"{keys['presets_rename']} rename"] if wide else []
            parts += [f"{keys['presets_delete']} delete"]
            parts += [f"{keys['presets_undo']} undo"] if self._gone and wide else []
        self.query_one(Vertical).border_subtitle = " · ".join(parts)

    def _say(self, text: str) -> None:
        self.query_one("#presets-note", Static).update(Content(text))

    def _ask(self, what: str, glyph: str, text: str) -> None:
        self._asking = what
        self.query_one("#presets-glyph", Static).update(glyph)
        self.box.placeholder = "a name" if what else "Search in the presets"
        with self.prevent(Input.Changed):
            self.box.value = text
        self.box.cursor_position = len(text)
        self.box.max_length = MOST_CELLS if what else 0
        self._say("")
        self._keys()

    @on(Input.Changed)
    def _typed(self, event: Input.Changed) -> None:
        event.stop()
        if not self._asking:
            self._show(keep=True)

    @on(OptionList.OptionHighlighted)
    def _highlighted(self, event: OptionList.OptionHighlighted) -> None:
        event.stop()
        self._preview()

    @on(OptionList.OptionSelected)
    def _clicked(self, event: OptionList.OptionSelected) -> None:
        event.stop()
        self.action_choose()

    @on(Input.Submitted)
    def _submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self.action_choose()

    def on_click(self, event: events.Click) -> None:
        """A click outside closes."""
        if event.widget is self:
            self.dismiss(None)

    # Keys

    def action_move(self, by: int) -> None:
        """Move the cursor."""
        choices = self.query_one(OptionList)
        if choices.highlighted is not None and not self._asking:
            choices.highlighted = max(0, min(choices.option_count - 1, choices.highlighted + by))

    def action_page(self, direction: int) -> None:
        """Move it by a page."""
        self.action_move(direction * max(1, self.query_one(OptionList).size.height - 1))

    def action_leave(self) -> None:
        """Ask no longer, empty the search, or go back to the chat."""
        if self._asking:
            self._ask("", "› ", "")
        elif self.box.value:
            self.box.value = ""
        else:
            self.dismiss(None)

    def action_choose(self) -> None:
        """Use the preset under the cursor, or take the name that was typed."""
        preset = self.preset
        try:
            if self._asking == "save":
                # The name of one that is there already, typed in full, means that one: its comments stay.
                self._save(self.box.value, again=self._asked_again())
                self._done(" ".join(self.box.value.split()))
            elif self._asking:
                new = rename_preset(self._asking, self.box.value)
                layers = self._live.layers
                if layers.preset_name == self._asking:
                    self._live.rename(new)
                self._done(new)
            elif preset is not None:
                self._use(preset.name)
                self.dismiss(None)
        except UserError as error:
            self._say(str(error))

    _refused = ""

    def _asked_again(self) -> bool:
        """Whether enter was pressed once more on a name that is taken."""
        again, self._refused = self._refused == self.box.value, self.box.value
        return again

    def _done(self, name: str) -> None:
        self._ask("", "› ", "")
        self._load(name)

    def action_save(self) -> None:
        """Ask for the name under which this chat's settings are saved."""
        if not self._asking:
            self._refused = ""
            self._ask("save", "Save as: ", self._live.layers.preset_name)

    def action_rename(self) -> None:
        """Ask for another name."""
        if self.preset is not None and not self._asking:
            self._ask(self.preset.name, "Name: ", self.preset.name)

    def action_edit(self) -> None:
        """Edit the file."""
        if self.preset is None or self._asking:
            return
        name = self.preset.name
        try:
            self._edit(name, lambda: self._load(name))
        except UserError as error:
            self._say(str(error))

    def action_delete(self) -> None:
        """Delete the preset under the cursor."""
        if self.preset is None or self._asking:
            return
        undo = self._names()["presets_undo"]
        try:
            self._say(f"“{delete_preset(self.preset.name)}” is deleted: {undo} brings it back.")
        except UserError as error:
            self._say(str(error))
        self._load()

    def action_undo(self) -> None:
        """Bring back what was deleted last."""
        name = last_deleted()
        if not name or self._asking:
            return
        try:
            self._say(f"“{restore_preset(name)}” is back.")
        except UserError as error:
            self._say(str(error))
        self._load(name)
