"""The help: the keys that matter here, notices, every key and command, and what the labels of methods mean."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial

from textual.notifications import Notification

from ...settings.actions import ACTIONS, Action
from ...settings.keymap import CHAT, GROUPS, LEADER, KeyBinding, after_leader, display, every_way
from ...text.cells import fit, folded, has_words, one_line, width
from ...text.lines import StyledLine, ends, line
from ...theming.colouring import LABEL_STYLES, Colouring, legend_line
from ..keys import KEYS, Hint, KeyContext, hints, shown
from ..pickers.pick_list import PickList
from ..pickers.search_screen import SearchScreen
from .dispatch import Actions

KEY_CELLS = 17
"""Cells of the column of keys: `alt+right  ^o →`."""

LABELS = {
    "identical": "Plain decoding's own tokens, only sooner",
    "same distribution": "Other tokens, drawn with the same probabilities",
    "lossy": "Neither: the text may be worse",
}


@dataclass(frozen=True, slots=True)
class HelpRow:
    """A row of the help; without an id a heading, or blank."""

    title: str = ""
    id: str = ""
    keys: str = ""
    """Keys as shown."""
    command: str = ""
    about: tuple[tuple[str, str], ...] = ()
    """Lines below the list, each with its style."""
    run: Callable[[], object] | None = None
    """Runs the action; None if there is none."""

    @property
    def text(self) -> str:
        """Text to search in."""
        return " ".join((self.title, self.id, self.keys, self.command, *(line for line, _ in self.about)))


def entries(
    context: KeyContext, actions: Actions, keymap: Mapping[str, str], recent: Iterable[Notification] = (), *, in_chat: bool
) -> list[HelpRow]:
    """List all rows, below headings.

    Args:
        context: its keys come first.
        actions: runs the rows.
        recent: notices, the oldest first.
        in_chat: whether the chat's screen is on top; else only the keys of the context can be run.
    """
    first = [hint for hint in context.hints if not hint.ids or hint.ids[0].rpartition("_")[2] != "help"]
    rows = [HelpRow(context.name), *(_hint(hint, context, actions, keymap) for hint in first)]
    named = {"help", *(id for hint in first for id in hint.ids)}
    if notices := [_notice(note) for note in recent]:
        rows += [HelpRow(), HelpRow("Recent notices"), *reversed(notices)]
    rows += [HelpRow(), HelpRow("Keys and commands")]
    for row in ACTIONS:
        if row.id not in named:
            run = partial(actions.do, row.id) if row.keys or not row.arguments else partial(actions.begin, row)
            rows.append(replace(_row(row, KEYS.get(row.id), keymap), run=run if in_chat else None))
    for place, keys in GROUPS.items():
        if keys not in (CHAT, LEADER) and (unnamed := [key for key in keys if key.id not in named]):
            rows += [HelpRow(), HelpRow(place), *(_row(Action(key.id, key.what), key, keymap) for key in unnamed)]
    rows += [HelpRow(), HelpRow("Labels of methods")]
    rows += [HelpRow(what, label, label, about=((f"{label}: {what}.", LABEL_STYLES[label]),)) for label, what in LABELS.items()]
    return rows


def search(rows: Sequence[HelpRow], query: str) -> list[HelpRow]:
    """Find rows with all words of a query; those whose title, key or command begins with it come first."""

    def begins(row: HelpRow) -> bool:
        names = (row.title, row.keys, row.command.removeprefix("/"))
        return any(folded(name).startswith(folded(query.strip())) for name in names)

    if not query.strip():
        return list(rows)
    return sorted((row for row in rows if row.id and has_words(row.text, query)), key=begins, reverse=True)


def _hint(hint: Hint, context: KeyContext, actions: Actions, keymap: Mapping[str, str]) -> HelpRow:
    label = hint.label[:1].upper() + hint.label[1:]
    keys = [KEYS[id] for id in hint.ids]
    if len(keys) != 1:
        about = tuple((f"{every_way(key, keymap)}  {key.what}", "$foreground") for key in keys)
        return HelpRow(label, " ".join(hint.ids) or f"keys {hint.keys}", shown(hint, keymap), about=about)
    key = keys[0]
    row = next((row for row in ACTIONS if row.id == key.id), Action(key.id, key.what))
    title = key.what if hint.label == key.short else label
    run = partial(actions.host.run_action, key.action, context.place)
    return replace(_row(row, key, keymap), title=title, run=run)


def _notice(note: Notification) -> HelpRow:
    style = "$foreground" if note.severity == "information" else f"${note.severity}"
    at = datetime.fromtimestamp(note.raised_at)
    return HelpRow(note.message, f"notice {note.identity}", f"{at:%H:%M}", about=((note.message, style),))


def _row(row: Action, key: KeyBinding | None, keymap: Mapping[str, str]) -> HelpRow:
    """Describe an action: its first keys and command in the row; all of its keys, and their id, below the list."""
    usage = f"/{row.slash}" if row.slash else ""
    command = usage.partition(" ")[0]
    if key is None:
        return HelpRow(row.what, row.id, "", command, about=((row.what, "$foreground"), (usage, "$quiet")))
    keys = "  ".join(filter(None, (display(keymap.get(key.id) or key.keys), after_leader(key.id, keymap))))
    triggers = "   ".join(filter(None, (every_way(key, keymap), usage)))
    about = ((key.what, "$foreground"), (triggers, "$quiet"), (f"[keymap] {key.id}", "$faint"))
    return HelpRow(row.what, key.id, keys, command, about=about)


class HelpScreen(SearchScreen[Callable[[], object], HelpRow]):
    """The help; answers with the function to run."""

    DEFAULT_CSS = "HelpScreen #detail { min-height: 4; max-height: 75%; }"

    def __init__(
        self, rows: Sequence[HelpRow], keymap: Mapping[str, str], colouring: Colouring, unread: Notification | None = None
    ) -> None:
        listed = PickList[HelpRow](lambda row: row.id or None, self._draw)
        listed.empty = "No key or command matches."
        super().__init__(listed, keymap, "Help", "Search every key and command")
        self._rows = rows
        self._legend = tuple(legend_line(colouring))
        self._unread = f"notice {unread.identity}" if unread is not None else None

    def on_mount(self) -> None:
        self.listed.show(self._rows, self._unread)

    def search(self, text: str) -> None:
        self.listed.show(search(self._rows, text))

    def hints(self) -> Iterator[Hint]:
        if self.listed.item is not None and self.listed.item.run is not None:
            yield Hint(("list_choose",), "run it")
        yield Hint((), "to search", "type")

    def ways_out(self) -> tuple[Hint, ...]:
        return hints(("list_leave", ""))

    def about(self, item: HelpRow | None) -> Iterable[tuple[str, str]]:
        return item.about if item is not None else ()

    def choose(self, item: HelpRow) -> None:
        if item.run is None:
            self.app.bell()
        else:
            self.dismiss(item.run)

    def _draw(self, row: HelpRow, cells: int) -> tuple[StyledLine]:
        if not row.id:
            legend = self._legend if row is self._rows[0] else ()
            return (ends(((row.title, "bold $primary"),), legend, cells) if row.title else (),)
        room = min(KEY_CELLS, cells // 3)
        keys = fit(row.keys, room - 1)
        command = fit(row.command, cells // 3) if cells >= 60 or not row.keys else ""
        title = fit(one_line(row.title), max(4, cells - room - (width(command) + 2 if command else 0)))
        style = "$foreground" if row.run is not None else "$quiet"
        left = line((keys, "bold $foreground"), " " * (room - width(keys)), (title, style))
        return (ends(left, line((command, "$quiet")), cells),)
