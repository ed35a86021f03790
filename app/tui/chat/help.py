"""F1: every key as it is mapped, every command, what the colours mean, and what each method does."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from textwrap import wrap
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Static

from ...chat.methods import Method
from ...settings.keymap import GROUPS, Key, spell
from ...text.cells import width
from ...theming.colouring import LABEL_STYLES, Way, legend_line
from ..actions.table import COMMANDS

ABOUT = (
    "Every answer shows how it was decoded: the colour says how many tokens one pass of the model gave. Plain text came one "
    "token a pass. Several came at once where the model accepted draft tokens; its own next token comes with them."
)
LABELS = {
    "identical": "the plain method's own tokens, only sooner",
    "same distribution": "other tokens, equally probable",
    "lossy": "neither: the text may be worse",
}


class HelpScreen(ModalScreen[None]):
    """The help, made from the bindings, the commands and the methods themselves.

    Args:
        keymap: binding id → keys, where not the default.
        methods: every method.
        unavailable: method → why this model cannot run it.
        way: of colouring, as `effective` has it.
    """

    DEFAULT_CSS = """
    HelpScreen {
        align: center middle;
        background: $background 60%;
        & > VerticalScroll {
            width: 92; max-width: 94%; height: auto; max-height: 92%;
            background: $surface; border: round $border; padding: 1 2; scrollbar-size-vertical: 1;
            scrollbar-background: $surface; scrollbar-background-hover: $surface; scrollbar-background-active: $surface;
            border-title-color: $primary; border-title-style: bold; border-subtitle-color: $quiet;
        }
        & .heading { color: $primary; text-style: bold; margin-top: 1; }
        & .about { color: $foreground; }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,f1,q,enter,ctrl+c", "close", "Close", id="help.close", tooltip="Close the help")
    ]

    def __init__(self, keymap: Mapping[str, str], methods: Iterable[Method], unavailable: Mapping[str, str], way: Way) -> None:
        super().__init__()
        self._keymap, self._methods, self._unavailable, self._way = keymap, list(methods), unavailable, way

    def compose(self) -> ComposeResult:
        """One long page."""
        with VerticalScroll() as page:
            page.border_title = "Help"
            page.border_subtitle = "↑↓ scroll · esc close"
            yield Static(Content(ABOUT), classes="about")
            yield Static(Content.assemble("\n", *legend_line(self._way)))
            for heading, keys in GROUPS.items():
                yield Static(heading, classes="heading")
                yield Static(self._keys(keys))
            yield Static("Commands", classes="heading")
            yield Static(table(((f"/{row.slash}", row.what) for row in COMMANDS), self._cells))
            yield Static("Decoding methods", classes="heading")
            for method in self._methods:
                yield Static(self._method(method))
            yield Static("Labels", classes="heading")
            yield Static(
                Content("\n").join(
                    Content.assemble((label, LABEL_STYLES[label]), (f"  {what}", "$quiet")) for label, what in LABELS.items()
                )
            )

    def on_mount(self) -> None:
        """The page takes the keys."""
        self.query_one(VerticalScroll).focus()

    @property
    def _cells(self) -> int:
        """Cells of a line of text."""
        return min(92, self.app.size.width * 94 // 100) - 8  # frame, padding, scrollbar

    def _keys(self, keys: Iterable[Key]) -> Content:
        return table(((spell(self._keymap.get(key.id, key.keys)), key.what) for key in keys), self._cells)

    def _method(self, method: Method) -> Content:
        parts: list[tuple[str, str]] = [
            (f"\n{method.name}", "bold $foreground"),
            (f"  {method.label}", LABEL_STYLES.get(method.label, "")),
        ]
        parts += [(f"\n{line}", "$quiet") for line in (method.summary, method.pays, method.paper) if line]
        if reason := self._unavailable.get(method.name):
            parts.append((f"\nNot on this model: {reason}", "$warning"))
        for param in method.params:
            parts.append((f"\n  {param['name']}={param['default']}", "$foreground"))
            parts.append((f"  {param['doc']}", "$quiet"))
        return Content.assemble(*parts)

    def action_close(self) -> None:
        """Back to the chat."""
        self.dismiss(None)


def table(rows: Iterable[tuple[str, str]], cells: int) -> Content:
    """Two columns in `cells`; a long first cell pushes the second on to lines of its own."""
    column = 24 if cells >= 64 else 4
    lines: list[Content] = []
    for left, right in rows:
        first, *rest = wrap(right, cells - column) or [""]
        beside = width(left) <= column - 2
        gap = " " * (column - width(left)) if beside else "\n" + " " * column
        parts = [(left, "bold $foreground"), (gap + first, "$quiet")]
        parts += [("\n" + " " * column + line, "$quiet") for line in rest]
        lines.append(Content.assemble(*parts))
    return Content("\n").join(lines)
