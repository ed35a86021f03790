"""The setup of a race: a menu to choose two to four methods, on the chat's model or on others."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from textwrap import wrap
from typing import ClassVar, NamedTuple

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.content import Content
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from ...chat.methods import SELDOM
from ...race.choices import ModelChoice
from ...race.race import FEWEST, MOST
from ...settings.keymap import HELP, MOVES, SETUP
from ...text.cells import fit, one_line
from ..keys import Hint, bindings_of, hints, pick_bindings
from ..pickers.framed import FramedScreen
from ..pickers.menu import PICKS as MENU_PICKS
from ..pickers.menu import MenuItem, picks
from .pane import BADGE

PICKS = MENU_PICKS.replace("m", "")
"""Keys of the methods; m is for models."""

AskModel = Callable[[str, Collection[str], str, Callable[[ModelChoice | None], None]], None]
"""Asks for a model: title, keys of models in the race, a sentence about those, a function for the answer."""

ROWS = 9
"""Methods before the row for more."""

WIDTH = 130
"""Most cells of the frame."""

AROUND = 10
"""Rows around the list: frame, padding, prompt and line-up."""


class LanePick(NamedTuple):
    """A chosen lane: a method, and its model if that is not the chat's."""

    method: str
    choice: ModelChoice | None = None

    @property
    def name(self) -> str:
        return f"{self.method} on {self.choice.title}" if self.choice is not None else self.method


class RaceSetup(FramedScreen[list[LanePick]]):
    """The menu of methods for a race; answers with the lanes in the order of the panes."""

    DEFAULT_CSS = """
    RaceSetup {
        & > Frame { width: 130; max-width: 94%; }
        & #race-prompt { height: auto; max-height: 3; margin-bottom: 1; }
        & #race-line { height: auto; margin-top: 1; }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [*bindings_of((*MOVES, *SETUP, HELP)), *pick_bindings(PICKS, 0, "setup")]

    def __init__(
        self,
        items: Sequence[MenuItem],
        chosen: Sequence[str],
        prompt: str,
        source: str,
        ask_model: AskModel,
        keymap: Mapping[str, str],
    ) -> None:
        super().__init__("Set up a race", keymap)
        self._ask_model = ask_model
        self._prompt = prompt
        self._source = source
        self.lanes = [LanePick(name) for name in chosen]
        """Chosen lanes, in the order of the panes."""
        ranked = sorted(items, key=lambda item: (bool(item.reason), item.id not in chosen))
        useful = [item for item in ranked if item.id in chosen or not (item.reason or item.id in SELDOM)]
        self._items = (ranked if len(items) <= ROWS else useful)[:ROWS]
        self._rest = [item for item in items if item not in self._items]
        """Methods behind the row for more."""
        self._refusal = ""
        # Attributes, as a resize may come before the widgets are mounted, or after they are removed.
        self._quoted = Static(id="race-prompt")
        self._lanes_row = Static(id="race-line")
        self._choices = OptionList()

    def hints(self) -> tuple[Hint, ...]:
        pick = Hint((), "add or remove a method", picks(len(self._items), PICKS))
        return (*hints(("setup_start", "")), pick, *hints(("setup_choose", ""), ("setup_model", "")))

    def ways_out(self) -> tuple[Hint, ...]:
        return hints(("setup_leave", ""), ("menu_help", ""))

    def compose(self) -> ComposeResult:
        with self.frame:
            yield self._quoted
            yield self._choices
            yield self._lanes_row

    def on_mount(self) -> None:
        self._choices.set_options(self._options())
        methods = [lane.method for lane in self.lanes]
        self._choices.highlighted = next((i for i, item in enumerate(self._items) if item.id in methods), 0)
        self._layout()

    def on_resize(self) -> None:
        self._layout()

    def _layout(self) -> None:
        room = self.room(WIDTH, 6)
        lines = wrap(one_line(self._prompt), room - 2)
        if len(lines) > 2:
            lines = [lines[0], fit(f"{lines[1]} {lines[2]}", room - 2)]
        quote = [part for line in lines or [""] for part in (("▌ ", "bold $primary"), (f"{line}\n", "$foreground"))]
        self._quoted.update(Content.assemble(*quote, (fit(self._source, room), "$quiet")))
        choices = self._choices
        choices.styles.max_height = max(4, self.app.size.height * 94 // 100 - AROUND)
        at = choices.highlighted
        choices.set_options(self._options())
        choices.highlighted = at
        self._lanes_row.update(self._line_up(room))

    def _options(self) -> Iterator[Option]:
        for i, item in enumerate(self._items):
            yield Option(self._line(i), id=item.id)
        if self._rest:
            yield Option(Content.assemble(("      more methods", "$primary"), (f"  {len(self._rest)}", "$quiet")))

    def _line(self, index: int) -> Content:
        item = self._items[index]
        able = not item.reason
        room = self.room(WIDTH, 9)
        key = f"{PICKS[index]} " if index < len(PICKS) else "  "
        numbers = [number for number, lane in enumerate(self.lanes, 1) if lane.method == item.id]
        box = (" · ", "$faint") if able else ("   ", "")
        if numbers:
            box = ((" " if len(numbers) < 3 else "").join(map(str, numbers[:3])).center(3), BADGE)
        title = item.title.ljust(max(11, *(len(other.title) for other in self._items)))
        tag = "" if item.tag == "identical" else f"{item.tag}  "
        before = len(key) + 5 + len(title)
        first, *lines = wrap(tag + one_line(item.detail if able else item.reason), max(12, room - before)) or [""]
        detail = "\n".join((first[len(tag) :], *(" " * before + line for line in lines)))
        return Content.assemble(
            (key, "bold $primary" if able else "$faint"),
            box,
            (f" {title} ", "bold" if able else "$faint"),
            (first[: len(tag)], item.tag_style if able else "$faint"),
            (detail, "$quiet" if able else "$faint"),
        )

    def _line_up(self, room: int) -> Content:
        if self._refusal:
            return Content.styled(fit(self._refusal, room), "$warning")
        if not self.lanes:
            return Content.styled(f"Choose {FEWEST} to {MOST} methods.", "$quiet")
        first, *opponents = [lane.name for lane in self.lanes]
        if not opponents:
            return Content.styled(f"Choose one more to race against {first}.", "$quiet")
        parts = [(f" {first} ", "bold $primary")]
        for number, name in enumerate(opponents, 2):
            parts += [(" against " if number == 2 else " · ", "$quiet"), (name, "bold $primary")]
        return Content.assemble(*parts).truncate(room, ellipsis=True)

    def _toggle(self, index: int) -> None:
        self._refusal = ""
        if index == len(self._items):
            self._items += self._rest
            self._rest = []
        elif (item := self._items[index]).reason:
            self._refusal = f"{item.title} cannot run here. {one_line(item.reason)}"
        else:
            self._toggle_lane(LanePick(item.id))
        self._layout()

    def _toggle_lane(self, lane: LanePick) -> None:
        if lane in self.lanes:
            self.lanes.remove(lane)
        elif len(self.lanes) == MOST:
            self._refusal = f"At most {MOST} can race. Remove one first."
        else:
            self.lanes.append(lane)

    def action_model(self) -> None:
        """Add the method under the cursor on another model, or remove it."""
        at = self._choices.highlighted
        if at is None or at == len(self._items):
            return
        method = self._items[at].id

        def choose(choice: ModelChoice | None) -> None:
            self._refusal = ""
            if choice is not None and not choice.key:
                self._toggle(at)
            elif choice is not None:
                self._toggle_lane(LanePick(method, choice))
            self._layout()

        added = {lane.choice.key if lane.choice is not None else "" for lane in self.lanes if lane.method == method}
        self._ask_model(f"{method} on which model?", added, "Already added; enter removes it.", choose)

    def action_pick(self, index: int) -> None:
        if index < len(self._items):
            self._choices.highlighted = index
            self._toggle(index)

    def action_choose(self) -> None:
        at = self._choices.highlighted
        if at is not None:
            self._toggle(at)

    def action_start(self) -> None:
        if len(self.lanes) < FEWEST:
            self._refusal = f"A race takes {FEWEST} to {MOST} methods. Choose {'one more' if self.lanes else 'some'}."
            self._layout()
        else:
            self.dismiss(self.lanes)

    @on(OptionList.OptionSelected)
    def _clicked(self, event: OptionList.OptionSelected) -> None:
        event.stop()
        self._toggle(event.option_index)
