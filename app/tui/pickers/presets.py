"""/preset: the presets there are, used, saved, edited, renamed, deleted and brought back."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, ClassVar

from textual.binding import BindingType

from ...settings.key_path import split
from ...settings.keymap import PRESETS
from ...settings.presets import MOST_CELLS, Preset, delete_preset, last_deleted, presets, rename_preset, restore_preset
from ...text.cells import fit, one_line, sanitise, width
from ...text.lines import StyledLine, line
from ..keys.context import Hint, bindings_of, hints
from .pick_list import PickList
from .search_screen import SearchScreen

if TYPE_CHECKING:
    from ..live_settings import LiveSettings

NAME_CELLS = 22
"""Cells of a preset's name in the list."""

PREVIEW_ROWS = 6


class PresetsScreen(SearchScreen[None, Preset]):
    """The list of presets."""

    DEFAULT_CSS = """
    PresetsScreen {
        & > Frame { width: 88; height: 80%; max-height: 30; min-height: 16; }
        & #detail { max-height: 7; min-height: 4; }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = bindings_of(PRESETS)

    def __init__(
        self,
        live: LiveSettings,
        use: Callable[[str], None],
        save: Callable[..., None],
        edit: Callable[[str, Callable[[], object]], None],
    ) -> None:
        listed = PickList[Preset](lambda preset: preset.name, self._row)
        super().__init__(listed, live.keymap, "Presets", "Search presets")
        self._live, self._use, self._save, self._edit = live, use, save, edit
        self._all: list[Preset] = []
        self._gone = False
        self._refused = ""

    def on_mount(self) -> None:
        self.tell()
        self._load(self._live.layers.preset_name)

    def _load(self, at: str = "") -> None:
        async def run() -> None:
            self._all = await asyncio.to_thread(presets)
            self._gone = bool(await asyncio.to_thread(last_deleted))
            if self.is_attached:
                self._show(at)

        self.run_worker(run(), group="presets")

    def _show(self, at: object = None) -> None:
        none = f"There are no presets yet. {self.key('presets_save')} makes one from this chat."
        self.listed.empty = "No preset contains that." if self._all else none
        query = self.searched.casefold().strip()
        self.listed.show([preset for preset in self._all if query in f"{preset.name} {preset.summary}".casefold()], at)

    def _row(self, preset: Preset, cells: int) -> tuple[StyledLine]:
        used = preset.name == self._live.layers.preset_name
        name = fit(one_line(preset.name), NAME_CELLS)
        gap = " " * (NAME_CELLS + 2 - width(name))
        wrong = bool(preset.problems)
        said = "its file has mistakes" if wrong and not preset.values else preset.summary
        summary = fit(said, max(0, cells - NAME_CELLS - 4))
        mark = ("● ", "$primary") if used else "  "
        return (line(mark, (name, "bold"), gap, (summary, "$warning" if wrong else "$quiet")),)

    def about(self, item: Preset | None) -> Iterator[tuple[str, str]]:
        if item is None:
            return
        cells, system = self.cells, sanitise(str(item.values.get("system", ""))).splitlines()
        lines = [(fit(row, cells), "$foreground") for row in system[:3]]
        lines += [("…", "$quiet")] if len(system) > 3 else []
        parts = []
        for key, value in item.values.items():
            if key != "system":
                shown = ", ".join(map(repr, value)) if isinstance(value, tuple) else str(value)
                name = " ".join(split(key)[1:]) if split(key)[0] in ("methods", "sampling") else key
                parts.append(one_line(f"{name}={shown}"))
        lines += [(fit("  ".join(parts), 2 * cells), "$quiet")] if parts else []
        lines += [(fit(problem, 2 * cells), "$warning") for problem in item.problems[:2]]
        yield from lines[:PREVIEW_ROWS]

    def item_hints(self) -> tuple[Hint, ...]:
        there = ("presets_edit", ""), ("presets_delete", ""), ("presets_rename", "")
        some = self.listed.item is not None
        return hints(
            *((("list_choose", "use"),) if some else ()),
            ("presets_save", "save this chat's"),
            *(there if some else ()),
            *((("presets_undo", ""),) if self._gone else ()),
        )

    def search(self, text: str) -> None:
        self._show(self.listed.key)

    # Keys

    def choose(self, item: Preset) -> None:
        if self.tried(lambda: self._use(item.name)):
            self.dismiss(None)

    def action_save(self) -> None:
        if not self.asking:
            self._refused = ""
            self._ask_name("Save as", self._live.layers.preset_name, "save", self._save_as)

    def action_rename(self) -> None:
        if (preset := self.under) is not None:
            self._ask_name("Name", preset.name, "rename", lambda name: self._rename(preset.name, name))

    def action_edit(self) -> None:
        if (preset := self.under) is not None:
            self.tried(lambda: self._edit(preset.name, lambda: self._load(preset.name)))

    def action_delete(self) -> None:
        if (preset := self.under) is None:
            return
        if self.sure(f"Press {self.key('presets_delete')} again to delete “{preset.name}”."):
            undo = self.key("presets_undo")
            self.tried(lambda: self.say(f"Deleted “{delete_preset(preset.name)}”. {undo} undoes this."))
            self._load()

    def action_undo(self) -> None:
        name = last_deleted()
        if name and not self.asking:
            self.tried(lambda: self.say(f"Restored “{restore_preset(name)}”."))
            self._load(name)

    # Names

    def _ask_name(self, what: str, name: str, verb: str, take: Callable[[str], None]) -> None:
        def named(text: str) -> None:
            if self.tried(lambda: take(text)):
                self.end_asking()
                self.forget()  # or the preset might not be listed
                self._load(" ".join(text.split()))

        self.ask(what, name, verb, named, "a name")
        self.box.max_length = MOST_CELLS

    def end_asking(self) -> None:
        """What is searched for may be longer than a name."""
        self.box.max_length = 0
        super().end_asking()

    def _save_as(self, name: str) -> None:
        # The name of one that is there already, typed in full, means that one: its comments stay.
        again, self._refused = self._refused == name, name  # enter was pressed once more
        self._save(name, again=again)

    def _rename(self, old: str, name: str) -> None:
        new = rename_preset(old, name)
        if self._live.layers.preset_name == old:
            self._live.rename(new)
