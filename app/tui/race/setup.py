"""The setup of a race: a menu to choose two to four methods."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from textwrap import wrap
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.content import Content
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from ...race.race import FEWEST, MOST
from ...settings.keymap import HELP, MOVES, SETUP
from ...text.cells import fit, one_line
from ..keys import Hint, bindings_of, hints, pick_bindings
from ..pickers.framed import FramedScreen
from ..pickers.menu import PICKS, Choices, MenuItem, picks
from .pane import BADGE

WIDTH = 130
"""Most cells of the frame."""

AROUND = 10
"""Rows around the list: frame, padding, prompt and lanes."""


class RaceSetup(FramedScreen[list[str]]):
    """The menu of methods for a race; answers with the chosen ones in the order of the panes."""

    DEFAULT_CSS = """
    RaceSetup {
        & > Frame { width: 130; max-width: 94%; }
        & #race-prompt { height: auto; max-height: 3; margin-bottom: 1; }
        & #race-line { height: auto; margin-top: 1; }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [*bindings_of((*MOVES, *SETUP, HELP)), *pick_bindings(PICKS, 0, "setup")]

    def __init__(
        self, items: Sequence[MenuItem], chosen: Sequence[str], prompt: str, source: str, keymap: Mapping[str, str]
    ) -> None:
        super().__init__("Set up a race", keymap)
        self._prompt = prompt
        self._source = source
        self.lanes = list(chosen)
        """Chosen methods, in the order of the panes."""
        self.items = sorted(items, key=lambda item: (bool(item.reason), item.id not in chosen))
        self._refusal = ""
        # Attributes, as a resize may come before the widgets are mounted, or after they are removed.
        self._quoted = Static(id="race-prompt")
        self._line_up = Static(id="race-line")
        self._choices = Choices()

    def hints(self) -> tuple[Hint, ...]:
        pick = Hint((), "add or remove a method", picks(len(self.items), PICKS))
        return (*hints(("setup_start", "")), pick, *hints(("setup_choose", "")))

    def ways_out(self) -> tuple[Hint, ...]:
        return hints(("setup_leave", ""), ("menu_help", ""))

    def compose(self) -> ComposeResult:
        with self.frame:
            yield self._quoted
            yield self._choices
            yield self._line_up

    def on_resize(self) -> None:
        room = self.room(WIDTH, 6)
        lines = wrap(one_line(self._prompt), room - 2, max_lines=2, placeholder=" …") or [""]
        quote = [part for line in lines for part in (("▌ ", "bold $primary"), (f"{line}\n", "$foreground"))]
        self._quoted.update(Content.assemble(*quote, (fit(self._source, room), "$quiet")))
        at = self._choices.highlighted or 0
        self._choices.styles.max_height = max(4, self.app.size.height * 94 // 100 - AROUND)
        self._choices.set_options(Option(self._row(i), id=item.id) for i, item in enumerate(self.items))
        self._choices.highlighted = at
        style = "$warning" if self._refusal else "$quiet"
        named = f" {' · '.join(self.lanes)}" if self.lanes else f"Choose {FEWEST} to {MOST} methods."
        self._line_up.update(Content.styled(fit(self._refusal or named, room), style))

    def _row(self, index: int) -> Content:
        item = self.items[index]
        able = not item.reason
        key = f"{PICKS[index]} " if index < len(PICKS) else "  "
        number = (" · ", "$faint") if able else ("   ", "")
        if item.id in self.lanes:
            number = (f" {self.lanes.index(item.id) + 1} ", BADGE)
        title = item.title.ljust(max(11, *(len(other.title) for other in self.items)))
        tag = "" if item.tag == "identical" else f"{item.tag}  "
        before = len(key) + 5 + len(title)
        first, *lines = wrap(tag + one_line(item.reason or item.detail), max(12, self.room(WIDTH, 9) - before)) or [""]
        return Content.assemble(
            (key, "bold $primary" if able else "$faint"),
            number,
            (f" {title} ", "bold" if able else "$faint"),
            (first[: len(tag)], item.tag_style if able else "$faint"),
            ("\n".join((first[len(tag) :], *(" " * before + line for line in lines))), "$quiet" if able else "$faint"),
        )

    def _toggle(self, index: int) -> None:
        item = self.items[index]
        self._refusal = ""
        if item.reason:
            self._refusal = f"{item.title} cannot run here. {one_line(item.reason)}"
        elif item.id in self.lanes:
            self.lanes.remove(item.id)
        elif len(self.lanes) == MOST:
            self._refusal = f"At most {MOST} can race. Remove one first."
        else:
            self.lanes.append(item.id)
        self.on_resize()

    def action_pick(self, index: int) -> None:
        if index < len(self.items):
            self._choices.highlighted = index
            self._toggle(index)

    def action_choose(self) -> None:
        self._toggle(self._choices.highlighted or 0)

    def action_start(self) -> None:
        if len(self.lanes) < FEWEST:
            self._refusal = f"A race takes {FEWEST} to {MOST} methods. Choose {'one more' if self.lanes else 'some'}."
            self.on_resize()
        else:
            self.dismiss(self.lanes)

    @on(OptionList.OptionSelected)
    def _clicked(self, event: OptionList.OptionSelected) -> None:
        event.stop()
        self._toggle(event.option_index)
