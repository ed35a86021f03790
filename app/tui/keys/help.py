"""What the help lists: the keys that matter here, then every key, command and method, and what words mean."""

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
from ..actions.dispatch import Actions
from ..pickers.pick_list import PickList
from ..pickers.search_screen import SearchScreen
from .context import KEYS, Hint, KeyContext, hints, shown

KEY_CELLS = 17
"""Cells of the keys before what they do: `alt+right  ^o →`."""

TALL = 24
"""Rows of a terminal from which on it is tall."""

DETAIL_ROWS = (4, 7)
"""Rows about the item under the cursor, the line above them among them: on a low terminal, and on a tall one."""

LIST_ROWS = 5
"""Rows that are left to the box and the list, however long a notice is."""


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
    """The keys as they stand before it."""
    tag: str = ""
    """What stands at the end of the row: a command, or a method's label."""
    tag_style: str = "$quiet"
    about: tuple[tuple[str, str], ...] = ()
    """Lines below the list, each with its style."""
    run: Callable[[], object] | None = None
    """Does it; None where there is nothing to do."""
    notice: bool = False
    """What was said beside the chat, however long it is."""

    @property
    def text(self) -> str:
        """What is searched."""
        return " ".join((self.title, self.id, self.keys, self.tag, *(line for line, _ in self.about)))


def entries(
    here: KeyContext, actions: Actions, keymap: Mapping[str, str], recent: Iterable[Notification] = (), *, in_chat: bool
) -> list[HelpRow]:
    """All rows, below headings.

    Args:
        here: what the user is doing; its keys come first.
        actions: everything that can be done.
        recent: notices, the oldest first.
        in_chat: whether the chat is what one looks at: only then is more than what is here done.
    """
    first = [hint for hint in here.hints if not hint.ids or hint.ids[0].rpartition("_")[2] != "help"]
    rows = [HelpRow(here.name), *(_here(hint, here, actions, keymap) for hint in first)]
    named = {id for hint in first for id in hint.ids}
    if notices := [_notice(note) for note in recent]:
        rows += [HelpRow(), HelpRow("Recent notices"), *reversed(notices)]
    rest = [row for row in ACTIONS if row.id not in named | {"help"}]
    rows += [HelpRow(), HelpRow("Keys and commands"), *(_action(row, actions, keymap, in_chat) for row in rest)]
    methods = actions.host.dialogue.methods.values()
    rows += [HelpRow(), HelpRow("Decoding methods"), *(_method(method, actions, in_chat) for method in methods)]
    for place, keys in GROUPS.items():
        if keys not in (CHAT, LEADER) and (others := [key for key in keys if key.id not in named]):
            rows += [HelpRow(), HelpRow(place), *(_key(key, keymap) for key in others)]
    return [*rows, HelpRow(), HelpRow("What words mean"), *_words()]


def found(rows: Sequence[HelpRow], query: str) -> list[HelpRow]:
    """Rows that have all words of a search: first those that begin with it, then those that have it in what they do."""
    words = folded(query).split()
    if not words:
        return list(rows)

    def rank(entry: HelpRow) -> int:
        title = folded(entry.title)
        names = (title, folded(entry.keys), folded(entry.tag).removeprefix("/"))
        return 0 if any(name.startswith(words[0]) for name in names) else 1 if all(word in title for word in words) else 2

    return sorted((row for row in rows if row.id and has_words(row.text, query)), key=rank)


def _here(hint: Hint, here: KeyContext, actions: Actions, keymap: Mapping[str, str]) -> HelpRow:
    """What keys do now, in the words of the context where it has some."""
    label = hint.label[:1].upper() + hint.label[1:]
    if not hint.ids:
        return HelpRow(label, f"keys {hint.keys}", hint.keys)
    key, *others = [KEYS[id] for id in hint.ids]
    if others:
        about = tuple((f"{every_way(each, keymap)}  {each.what}", "$foreground") for each in (key, *others))
        return HelpRow(label, " ".join(hint.ids), shown(hint, keymap), about=about)
    entry = _key(key, keymap, partial(actions.host.run_action, key.action, here.place))
    return entry if hint.label == key.short else replace(entry, title=label)


def _key(key: KeyBinding, keymap: Mapping[str, str], run: Callable[[], object] | None = None) -> HelpRow:
    row = BY_ID.get(key.id)
    slash = f"/{row.command}" if row is not None and row.slash else ""
    return HelpRow(key.what, key.id, _column(key, keymap), slash, about=_ways(key, keymap, row), run=run)


def notice_id(note: Notification) -> str:
    return f"notice {note.identity}"


def _notice(note: Notification) -> HelpRow:
    at, style = datetime.fromtimestamp(note.raised_at), "$quiet" if note.severity == "information" else f"${note.severity}"
    about = ((note.message, "$foreground" if note.severity == "information" else style),)
    return HelpRow(note.message, notice_id(note), f"{at:%H:%M}", about=about, notice=True)


def _action(row: Action, actions: Actions, keymap: Mapping[str, str], in_chat: bool) -> HelpRow:
    key = KEYS.get(row.id)
    slash = f"/{row.command}" if row.slash else ""
    keys = _column(key, keymap) if key is not None else ""
    run = None
    if in_chat:
        run = partial(actions.do, row.id) if row.keys or not row.arguments else partial(actions.begin, row)
    return HelpRow(row.what, row.id, keys, slash, about=_ways(key, keymap, row), run=run)


def _column(key: KeyBinding, keymap: Mapping[str, str]) -> str:
    """A binding's first key, and the way after the leader key."""
    return "  ".join(filter(None, (display(keymap.get(key.id) or key.keys), after_leader(key.id, keymap))))


def _ways(key: KeyBinding | None, keymap: Mapping[str, str], row: Action | None) -> tuple[tuple[str, str], ...]:
    parts = [every_way(key, keymap)] if key is not None else []
    parts += [f"/{row.slash}"] if row is not None and row.slash else []
    what = key.what if key is not None else row.what if row is not None else ""
    id = key.id if key is not None else ""
    return ((what, "$foreground"), ("   ".join(parts), "$quiet"), *(((f"[keymap] {id}", "$faint"),) if id else ()))


def _method(method: Method, actions: Actions, in_chat: bool) -> HelpRow:
    reason = actions.host.dialogue.unavailable.get(method.name)
    lines = [(line, "$foreground" if n == 0 else "$quiet") for n, line in enumerate((method.summary, method.pays)) if line]
    lines += [(f"Not on this model: {reason}", "$warning")] if reason else []
    settings = "   ".join(f"{param['name']}={param['default']}" for param in method.params)
    lines += [(line, "$faint") for line in (settings, method.paper) if line]
    run = partial(actions.do, "method_menu", method.name) if in_chat and not reason else None
    style = LABEL_STYLES.get(method.label, "$quiet")
    return HelpRow(method.summary, f"method {method.name}", method.name, method.label, style, tuple(lines), run)


def _words() -> Iterator[HelpRow]:
    yield HelpRow("How many tokens one pass gave", "colours of passes", "colours", about=((COLOURS, "$foreground"),))
    for label, what in LABELS.items():
        yield HelpRow(what, f"label {label}", label, about=((f"{label}: {what}.", LABEL_STYLES[label]),))


class HelpScreen(SearchScreen[Callable[[], object], HelpRow]):
    """The help; answers with what is to be done."""

    def __init__(
        self, rows: Sequence[HelpRow], keymap: Mapping[str, str], way: Colouring, unread: Notification | None = None
    ) -> None:
        listed = PickList[HelpRow](lambda entry: entry.id or None, self._row)
        listed.empty = "No key, command or method matches."
        super().__init__(listed, keymap, "Help", "Search every key, command and method")
        self._rows = rows
        self._legend = tuple(legend_line(way))
        self._unread = notice_id(unread) if unread is not None else None

    def on_mount(self) -> None:
        self.listed.show(found(self._rows, ""), self._unread)

    def tell(self) -> None:
        """Little is told of a row where the terminal is low; a notice is told in full."""
        item, least = self.listed.item, DETAIL_ROWS[self.app.size.height >= TALL]
        text = " ".join(line for line, _ in self.about(item)) if item is not None and item.notice else ""
        most = max(least, self.frame.size.height - LIST_ROWS)
        self.detail.styles.height = min(most, max(least, len(wrap(text, self.cells)) + 1))
        super().tell()

    def search(self, text: str) -> None:
        self.listed.show(found(self._rows, text))

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

    def _row(self, entry: HelpRow, cells: int) -> tuple[StyledLine]:
        if not entry.id:
            legend = self._legend if entry is self._rows[0] else ()
            return (ends(((entry.title, "bold $primary"),), legend, cells) if entry.title else (),)
        room = min(KEY_CELLS, cells // 3)
        keys = fit(entry.keys, room - 1)
        tag = fit(one_line(entry.tag), cells // 3) if cells >= 60 or not entry.keys else ""
        left = line((keys, "bold $foreground"), " " * (room - width(keys)))
        told = fit(one_line(entry.title), max(4, cells - room - (width(tag) + 2 if tag else 0)))
        return (
            ends((*left, (told, "$foreground" if entry.run is not None else "$quiet")), line((tag, entry.tag_style)), cells),
        )
