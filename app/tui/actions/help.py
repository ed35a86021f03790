"""The help: the keys that matter here, notices, every key, command and method, and a glossary."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from textwrap import wrap

from textual.notifications import Notification

from ...chat.methods import Method
from ...settings.actions import ACTIONS, BY_ID, Action
from ...settings.keymap import CHAT, GROUPS, LEADER, KeyBinding, after_leader, display, every_way
from ...text.cells import fit, folded, has_words, one_line, width
from ...text.lines import StyledLine, ends, line
from ...theming.colouring import LABEL_STYLES, Colouring, legend_line
from ..keys.context import KEYS, Hint, KeyContext, hints, shown
from ..pickers.pick_list import PickList
from ..pickers.search_screen import SearchScreen
from .dispatch import Actions

KEY_CELLS = 17
"""Cells of the column of keys: `alt+right  ^o →`."""

TALL = 24
"""Fewest rows of a tall terminal."""

DETAIL_ROWS = (4, 7)
"""Rows about the item under the cursor, with their border: on a low terminal, and on a tall one."""

LIST_ROWS = 5
"""Fewest rows for the box and the list, however long a notice is."""

COLOURS = (
    "The colour says how many tokens one pass of the model gave. Plain text came one token a pass. Several came at once where "
    "the model accepted draft tokens; its own next token comes for free."
)
LABELS = {
    "identical": "plain decoding's own tokens, only sooner",
    "same distribution": "other tokens, drawn with the same probabilities",
    "lossy": "neither: the text may be worse",
}


@dataclass(frozen=True, slots=True)
class HelpRow:
    """A row of the help; without an id a heading, or blank."""

    title: str = ""
    id: str = ""
    keys: str = ""
    """Keys as shown."""
    tag: str = ""
    """End of the row: a command, or a method's label."""
    tag_style: str = "$quiet"
    about: tuple[tuple[str, str], ...] = ()
    """Lines below the list, each with its style."""
    run: Callable[[], object] | None = None
    """Runs the action; None if there is none."""
    notice: bool = False
    """Whether this is a notice, which is shown in full."""

    @property
    def text(self) -> str:
        """Text to search in."""
        return " ".join((self.title, self.id, self.keys, self.tag, *(line for line, _ in self.about)))


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
    named = {id for hint in first for id in hint.ids}
    if notices := [_notice(note) for note in recent]:
        rows += [HelpRow(), HelpRow("Recent notices"), *reversed(notices)]
    rest = [row for row in ACTIONS if row.id not in named | {"help"}]
    rows += [HelpRow(), HelpRow("Keys and commands"), *(_action(row, actions, keymap, in_chat) for row in rest)]
    methods = actions.host.dialogue.methods.values()
    rows += [HelpRow(), HelpRow("Decoding methods"), *(_method(method, actions, in_chat) for method in methods)]
    for place, keys in GROUPS.items():
        if keys not in (CHAT, LEADER) and (unnamed := [key for key in keys if key.id not in named]):
            rows += [HelpRow(), HelpRow(place), *(_key(key, keymap) for key in unnamed)]
    rows += [HelpRow(), HelpRow("What words mean")]
    rows.append(HelpRow("How many tokens one pass gave", "colours of passes", "colours", about=((COLOURS, "$foreground"),)))
    for label, what in LABELS.items():
        rows.append(HelpRow(what, f"label {label}", label, about=((f"{label}: {what}.", LABEL_STYLES[label]),)))
    return rows


def search(rows: Sequence[HelpRow], query: str) -> list[HelpRow]:
    """Find rows with all words of a query, ranked: beginnings, then titles, then the rest."""
    words = folded(query).split()
    if not words:
        return list(rows)

    def rank(row: HelpRow) -> tuple[bool, bool]:
        title = folded(row.title)
        names = (title, folded(row.keys), folded(row.tag).removeprefix("/"))
        begins = any(name.startswith(words[0]) for name in names)
        return not begins, not begins and not all(word in title for word in words)

    return sorted((row for row in rows if row.id and has_words(row.text, query)), key=rank)


def _hint(hint: Hint, context: KeyContext, actions: Actions, keymap: Mapping[str, str]) -> HelpRow:
    label = hint.label[:1].upper() + hint.label[1:]
    if not hint.ids:
        return HelpRow(label, f"keys {hint.keys}", hint.keys)
    keys = [KEYS[id] for id in hint.ids]
    if len(keys) > 1:
        about = tuple((f"{every_way(key, keymap)}  {key.what}", "$foreground") for key in keys)
        return HelpRow(label, " ".join(hint.ids), shown(hint, keymap), about=about)
    row = _key(keys[0], keymap, partial(actions.host.run_action, keys[0].action, context.place))
    return row if hint.label == keys[0].short else replace(row, title=label)


def _key(key: KeyBinding, keymap: Mapping[str, str], run: Callable[[], object] | None = None) -> HelpRow:
    row = BY_ID.get(key.id) or Action(key.id, key.what)
    return replace(_row(row, key, keymap), title=key.what, run=run)


def notice_id(note: Notification) -> str:
    return f"notice {note.identity}"


def _notice(note: Notification) -> HelpRow:
    at, style = datetime.fromtimestamp(note.raised_at), "$quiet" if note.severity == "information" else f"${note.severity}"
    about = ((note.message, "$foreground" if note.severity == "information" else style),)
    return HelpRow(note.message, notice_id(note), f"{at:%H:%M}", about=about, notice=True)


def _action(row: Action, actions: Actions, keymap: Mapping[str, str], in_chat: bool) -> HelpRow:
    run = None
    if in_chat:
        run = partial(actions.do, row.id) if row.keys or not row.arguments else partial(actions.begin, row)
    return replace(_row(row, KEYS.get(row.id), keymap), run=run)


def _row(row: Action, key: KeyBinding | None, keymap: Mapping[str, str]) -> HelpRow:
    """Describe an action: its first keys and command in the row; all of its keys, and their id, below the list."""
    slash = f"/{row.command}" if row.slash else ""
    if key is None:
        return HelpRow(row.what, row.id, "", slash, about=((row.what, "$foreground"), (f"/{row.slash}", "$quiet")))
    keys = "  ".join(filter(None, (display(keymap.get(key.id) or key.keys), after_leader(key.id, keymap))))
    triggers = "   ".join(filter(None, (every_way(key, keymap), f"/{row.slash}" if row.slash else "")))
    about = ((key.what, "$foreground"), (triggers, "$quiet"), (f"[keymap] {key.id}", "$faint"))
    return HelpRow(row.what, key.id, keys, slash, about=about)


def _method(method: Method, actions: Actions, in_chat: bool) -> HelpRow:
    reason = actions.host.dialogue.unavailable.get(method.name)
    lines = [(line, "$foreground" if n == 0 else "$quiet") for n, line in enumerate((method.summary, method.pays)) if line]
    lines += [(f"Not on this model: {reason}", "$warning")] if reason else []
    settings = "   ".join(f"{param['name']}={param['default']}" for param in method.params)
    lines += [(line, "$faint") for line in (settings, method.paper) if line]
    run = partial(actions.do, "method_menu", method.name) if in_chat and not reason else None
    style = LABEL_STYLES.get(method.label, "$quiet")
    return HelpRow(method.summary, f"method {method.name}", method.name, method.label, style, about=tuple(lines), run=run)


class HelpScreen(SearchScreen[Callable[[], object], HelpRow]):
    """The help; answers with the function to run."""

    def __init__(
        self, rows: Sequence[HelpRow], keymap: Mapping[str, str], colouring: Colouring, unread: Notification | None = None
    ) -> None:
        listed = PickList[HelpRow](lambda row: row.id or None, self._draw)
        listed.empty = "No key, command or method matches."
        super().__init__(listed, keymap, "Help", "Search every key, command and method")
        self._rows = rows
        self._legend = tuple(legend_line(colouring))
        self._unread = notice_id(unread) if unread is not None else None

    def on_mount(self) -> None:
        self.listed.show(self._rows, self._unread)

    def tell(self) -> None:
        """Show the item under the cursor: a row within DETAIL_ROWS, a notice in full."""
        item, least = self.listed.item, DETAIL_ROWS[self.app.size.height >= TALL]
        text = " ".join(line for line, _ in self.about(item)) if item is not None and item.notice else ""
        most = max(least, self.frame.size.height - LIST_ROWS)
        self.detail.styles.height = min(most, max(least, len(wrap(text, self.cells)) + 1))
        super().tell()

    def search(self, text: str) -> None:
        self.listed.show(search(self._rows, text))

    def item_hints(self) -> Iterator[Hint]:
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
        tag = fit(one_line(row.tag), cells // 3) if cells >= 60 or not row.keys else ""
        title = fit(one_line(row.title), max(4, cells - room - (width(tag) + 2 if tag else 0)))
        style = "$foreground" if row.run is not None else "$quiet"
        left = line((keys, "bold $foreground"), " " * (room - width(keys)), (title, style))
        return (ends(left, line((tag, row.tag_style)), cells),)
