"""Key contexts and hints, bindings, the bar of keys that matter now, and the leader key."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.dom import DOMNode
from textual.reactive import reactive
from textual.screen import ModalScreen
from textual.widget import Widget
from textual.widgets import Static

from ..settings.actions import BY_ID
from ..settings.keymap import ALL, LEADER, KeyBinding, display, shown_keys
from ..theming.colouring import Colouring, legend_line
from .terminal_app import ClosingScreen

KEYS = {key.id: key for key in ALL}
"""Every binding by its id."""


@dataclass(frozen=True, slots=True)
class Hint:
    """Keys with one effect in a context."""

    ids: tuple[str, ...]
    """Ids of the bindings: one, or several that belong together, like arrows."""
    label: str
    """Effect in a word or two."""
    keys: str = ""
    """Keys as shown, for those of a widget that have no ids."""


@dataclass(frozen=True, slots=True)
class KeyContext:
    """A task of the user, and the keys that matter for it."""

    name: str
    """Heading: `An answer is being written`."""
    hints: tuple[Hint, ...]
    """Keys, the most useful first."""
    place: DOMNode
    """Node whose actions the keys run."""


def hints(*pairs: tuple[str, str]) -> tuple[Hint, ...]:
    """Make hints of pairs: ids separated by spaces, and a label; an empty one for the binding's."""
    return tuple(Hint(tuple(ids.split()), label or KEYS[ids.split()[0]].short) for ids, label in pairs)


def shown(hint: Hint, keymap: Mapping[str, str]) -> str:
    """Format the keys of a hint for the bar: `^n`, `1–3`, `←→↑↓`, `^o ↑↓`."""
    if hint.keys:
        return hint.keys
    keys = [shown_keys(id, keymap) for id in hint.ids]
    if len(keys) > 1 and all(key.isdecimal() for key in keys):
        return f"{keys[0]}–{keys[-1]}"
    leader = f"{shown_keys('leader', keymap)} "
    if len(keys) > 1 and all(key.startswith(leader) for key in keys):
        return leader + "".join(key.removeprefix(leader) for key in keys)
    return ("" if all(len(key) == 1 for key in keys) else "/").join(keys)


def bindings_of(keys: Iterable[KeyBinding], after_box: Collection[str] = (), *, priority: bool = True) -> list[BindingType]:
    """Make bindings for a screen (with priority, before those of the focused widget) or a widget.

    Args:
        after_box: ids of keys without priority: they must not overtake text typed before them.
    """

    def bind(key: KeyBinding) -> Binding:
        first = priority and key.id not in after_box
        return Binding(key.keys, key.action, key.what, show=False, priority=first, id=key.id, tooltip=key.what)

    return [bind(key) for key in keys]


def pick_bindings(keys: str, first: int, what: str) -> list[BindingType]:
    """Make a binding for each item of a menu, numbered from `first`."""
    return [
        Binding(key, f"pick({n})", f"Choose {key}", show=False, id=f"{what}.pick{n}", tooltip=f"Choose item {key}")
        for n, key in enumerate(keys, first)
    ]


GAP = 3
"""Cells between two keys."""

HELP_KEYS = {"help", "ask_help", "race_help"}
"""Bindings that open the help."""

LEGEND_FROM = 90
"""Fewest cells of a bar with a legend."""


class KeyBar(Widget):
    """The keys of a context with their effects, as many as fit; each can be clicked."""

    DEFAULT_CSS = """
    KeyBar {
        height: 1; padding: 0 1; background: $surface; color: $quiet;
        link-color: $quiet; link-background: transparent; link-style: none;
        link-color-hover: $foreground; link-background-hover: $panel; link-style-hover: none;
    }
    """

    colouring: reactive[Colouring | None] = reactive[Colouring | None](None)
    """Colouring whose legend stands at the end, if there is room."""
    key_context: reactive[KeyContext | None] = reactive[KeyContext | None](None)

    def __init__(self, keymap: Mapping[str, str], *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._keymap = keymap

    def render(self) -> Content:
        about = Content.assemble(*(legend_line(self.colouring) if self.colouring and self.size.width >= LEGEND_FROM else ()))
        room = self.size.width - (about.cell_length + GAP if about else 0)
        hints = list(self.key_context.hints if self.key_context is not None else ())
        line = self._line(hints)
        while line.cell_length > room and hints:
            # The key for help stays, since the help lists all keys.
            hints.remove(next((hint for hint in reversed(hints) if not HELP_KEYS.intersection(hint.ids)), hints[-1]))
            line = self._line(hints)
        return Content.assemble(line, " " * (self.size.width - line.cell_length - about.cell_length), about) if about else line

    def _line(self, hints: Sequence[Hint]) -> Content:
        parts = []
        for hint in hints:
            label = Content(f" {hint.label}")
            if len(hint.ids) == 1:
                label = label.stylize(f"@click=press('{hint.ids[0]}')")
            parts.append(Content.assemble((shown(hint, self._keymap), "bold $primary"), label))
        return Content(" " * GAP).join(parts)

    async def action_press(self, id: str) -> None:
        if self.key_context is not None:
            await self.app.run_action(KEYS[id].action, self.key_context.place)


COLUMN_CELLS = 19
"""Cells of a letter with its effect: `↑  message before`, and a gap."""


class LeaderScreen(ClosingScreen[None], ModalScreen[None]):
    """The letters that may follow the leader key, over the lowest rows."""

    DEFAULT_CSS = """
    LeaderScreen {
        align: center bottom; background: $background 0%;
        & > Static {
            width: 1fr; height: auto; max-height: 100%; background: $surface; padding: 0 1;
            border-top: solid $border; border-title-color: $primary; border-title-style: bold;
            link-color: $quiet; link-background: transparent; link-style: none;
            link-color-hover: $foreground; link-background-hover: $panel; link-style-hover: none;
        }
        & > Static.-repeat { border: none; }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        *bindings_of(LEADER),
        Binding("ctrl+o", "close", "Close", show=False, priority=True, id="leader", tooltip="Close"),
        Binding("escape,ctrl+c", "close", "Close", show=False, priority=True, tooltip="Close"),
    ]

    def __init__(self, keymap: Mapping[str, str], do: Callable[[str], None]) -> None:
        super().__init__()
        self._keymap = keymap
        self._do = do
        self._letters = Static()
        self._repeatable: tuple[KeyBinding, ...] = ()
        """Letters that may follow one that repeats."""

    def compose(self) -> ComposeResult:
        self._letters.border_title = f"{shown_keys('leader', self._keymap)}, then a letter, or esc"
        yield self._letters

    def on_resize(self) -> None:
        cells = self.app.size.width - 2
        keys = self._repeatable or LEADER
        columns = max(1, cells // COLUMN_CELLS)
        rows = -(-len(keys) // columns)
        lines = [Content("").join(self._item(key, cells // columns) for key in keys[row::rows]) for row in range(rows)]
        if self._repeatable:
            lines[-1] = Content.assemble(lines[-1], ("esc", "bold $primary"), (" done", "$quiet"))
        self._letters.update(Content("\n").join(lines))

    def _item(self, key: KeyBinding, cells: int) -> Content:
        letter = display(self._keymap.get(key.id) or key.keys)
        label = Content(f"  {key.short}").stylize(f"@click=screen.{key.action}")
        item = Content.assemble((letter, "bold $primary"), label).truncate(cells - 1, ellipsis=True)
        return item.pad_right(cells - item.cell_length)

    def action_do(self, id: str) -> None:
        row = BY_ID[id]
        if row.repeat:
            # With its counterpart: shorter and longer, before and after.
            self._repeatable = tuple(key for key in LEADER if BY_ID[key.id.removeprefix("leader_")].repeat == row.repeat)
            self._letters.add_class("-repeat")
            self.on_resize()
        else:
            self.dismiss(None)
        self._do(id)

    def action_close(self) -> None:
        self.dismiss(None)

    def on_key(self, event: events.Key) -> None:
        """Close; ring the bell for an unbound letter, and pass any other key to the chat."""
        event.stop()
        event.prevent_default()
        self.dismiss(None)
        if event.is_printable and not self._repeatable:
            self.app.bell()
        else:
            self.app.post_message(events.Key(event.key, event.character))

    def on_click(self, event: events.Click) -> None:
        if event.widget is self:
            self.dismiss(None)
