"""Which model a lane of a race runs on: those on this machine, or whatever name is typed."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable
from time import monotonic
from typing import ClassVar

from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option

from ...race.choices import Choice
from ...text.cells import fit, one_line, width

WIDEST = 84
AROUND = 9
"""Rows that are not the list's: frame, padding, the box and the note."""

MOST_ROWS = 14

NEWS_SECONDS = 0.15
"""Between two looks of the list at what has been found."""


class RaceModel(ModalScreen[Choice | None]):
    """Ask for a model; answers None if none was chosen.

    Args:
        title: what is asked.
        taken: keys of models that are in already.
        note: what is said of those.
        own: the chat's model.
        look: finds the others, as long as what it is given is false; called in a thread.
    """

    DEFAULT_CSS = """
    RaceModel {
        align: center middle;
        background: $background 60%;
        & > Vertical {
            width: 84; max-width: 96%; height: auto; max-height: 96%;
            background: $surface; border: round $border; padding: 1 2;
            border-title-color: $primary; border-title-style: bold; border-subtitle-color: $quiet;
        }
        & #race-model-search { height: 1; margin-bottom: 1; }
        & #race-model-glyph { width: auto; color: $accent; text-style: bold; }
        & Input {
            height: 1; width: 1fr; border: none; padding: 0; background: $surface; color: $foreground;
            &:focus { border: none; background-tint: $surface 0%; }
            & .input--placeholder { color: $faint; }
        }
        & OptionList {
            height: auto; background: $surface; border: none; padding: 0; scrollbar-size-vertical: 1;
            & > .option-list--option { padding: 0; }
            & > .option-list--option-highlighted { color: $foreground; background: $block-cursor-background; text-style: none; }
        }
        & #race-model-note { height: 2; padding-top: 1; }
    }
    """
    AUTO_FOCUS = "Input"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,ctrl+c", "leave", "Close", priority=True, id="race_model.close", tooltip="Leave all as it was"),
        Binding("enter", "take", "Take", priority=True, id="race_model.take", tooltip="Take the model under the cursor"),
        Binding("up", "move(-1)", "Up", priority=True, show=False, id="race_model.up", tooltip="The model above"),
        Binding("down", "move(1)", "Down", priority=True, show=False, id="race_model.down", tooltip="The model below"),
    ]

    def __init__(
        self, title: str, taken: Collection[str], note: str, own: Choice, look: Callable[[Callable[[], bool]], Iterable[Choice]]
    ) -> None:
        super().__init__()
        self._title, self._taken, self._note, self._look = title, taken, note, look
        self._choices = [own]
        self._shown: list[Choice] = []
        self._gone = threading.Event()
        self._looking = True

    def compose(self) -> ComposeResult:
        """A box to search or name in, the models, a line about the one under the cursor."""
        with Vertical() as frame:
            frame.border_title = self._title
            frame.border_subtitle = "↑↓ choose · enter takes · esc"
            with Horizontal(id="race-model-search"):
                yield Static("› ", id="race-model-glyph")
                box = Input(placeholder="Search, or a FILE.gguf, a folder, owner/name", select_on_focus=False)
                box.cursor_blink = False  # a blinking one would repaint the screen twice a second for nothing
                yield box
            choices = OptionList()
            choices.can_focus = False
            yield choices
            yield Static(id="race-model-note")

    def on_mount(self) -> None:
        """Begin to look for models."""
        self._fill()
        self.run_worker(self._find, thread=True, group="race-models")

    def on_unmount(self) -> None:
        """Stop looking."""
        self._gone.set()

    def on_resize(self) -> None:
        """Keep to the screen."""
        self._fill()

    def _find(self) -> None:
        waiting: list[Choice] = []
        told = monotonic()
        for choice in self._look(self._gone.is_set):
            waiting.append(choice)
            if monotonic() - told > NEWS_SECONDS and not self._gone.is_set():
                self.app.call_from_thread(self._found, waiting, False)
                waiting, told = [], monotonic()
        if not self._gone.is_set():
            self.app.call_from_thread(self._found, waiting, True)

    def _found(self, found: list[Choice], all_there: bool) -> None:
        known = {choice.key: choice for choice in (*found[::-1], *self._choices[::-1])}  # of two the first stays
        self._choices += [choice for choice in found if known.pop(choice.key, None) is choice]
        self._looking = not all_there
        self._fill()

    @on(Input.Changed)
    def _typed(self, event: Input.Changed) -> None:
        event.stop()
        self._fill()

    @on(OptionList.OptionHighlighted)
    def _moved(self, event: OptionList.OptionHighlighted) -> None:
        event.stop()
        self._tell()

    @on(OptionList.OptionSelected)
    def _clicked(self, event: OptionList.OptionSelected) -> None:
        event.stop()
        self.action_take()

    @property
    def _cells(self) -> int:
        return max(12, min(WIDEST, self.app.size.width * 96 // 100) - 8)

    def _fill(self) -> None:
        query = self.query_one(Input).value.strip()
        choices = self.query_one(OptionList)
        at = choices.highlighted
        before = self._shown[at] if at is not None and at < len(self._shown) else None
        words = query.lower().split()
        self._shown = [c for c in self._choices if all(word in f"{c.title} {c.what} {c.place}".lower() for word in words)]
        if query and all(query not in (c.model, c.title) for c in self._choices):
            self._shown.append(Choice(query, "", one_line(query), "as typed"))
        most = min(MOST_ROWS, max(2, self.app.size.height * 96 // 100 - AROUND))
        # As high for few as for many, or it would jump about as one types.
        choices.styles.height = max(2, min(most, len(self._choices)))
        choices.clear_options()
        choices.add_options(Option(self._row(choice)) for choice in self._shown)
        if self._shown:
            choices.highlighted = self._shown.index(before) if before in self._shown else 0
        self._tell()

    def _row(self, choice: Choice) -> Content:
        room = self._cells
        able = not choice.problem
        mark = ("● ", "$primary") if choice.key in self._taken else ("  ", "")
        place = choice.place if room >= 60 else ""
        name = fit(choice.title, max(8, room - 24 - width(place)))
        said = fit(choice.what, max(0, room - 6 - width(name) - width(place)))
        gap = max(1, room - 2 - width(name) - width(said) - width(place) - 2 * bool(place))
        return Content.assemble(
            mark,
            (name, "bold" if able else "$faint"),
            " " * gap,
            (said, "$quiet" if able else "$faint"),
            ("  " + place if place else "", "$faint"),
        )

    def _tell(self) -> None:
        at = self.query_one(OptionList).highlighted
        choice = self._shown[at] if at is not None and at < len(self._shown) else None
        text, style = "", "$quiet"
        if choice is not None and choice.problem:
            text, style = choice.problem, "$warning"
        elif self._looking:
            text = "Looking for models …"
        elif choice is not None and choice.key in self._taken:
            text = self._note
        elif choice is not None and choice.model:
            text = "Loaded for the race, beside the chat's model."
        self.query_one("#race-model-note", Static).update(Content.styled(fit(one_line(text), self._cells), style))

    def action_move(self, step: int) -> None:
        """Another model."""
        if self._shown:
            choices = self.query_one(OptionList)
            choices.highlighted = ((choices.highlighted or 0) + step) % len(self._shown)

    def action_take(self) -> None:
        """Answer with the model under the cursor."""
        at = self.query_one(OptionList).highlighted
        if at is None or at >= len(self._shown):
            return
        if self._shown[at].problem:
            self.app.bell()
            return
        self.dismiss(self._shown[at])

    def action_leave(self) -> None:
        """Leave without a choice."""
        self.dismiss(None)

    def on_click(self, event: events.Click) -> None:
        """A click outside closes."""
        if event.widget is self:
            self.dismiss(None)
