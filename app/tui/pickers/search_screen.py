"""A search box, a list of matches and details about the item under the cursor, in a frame: the base of the lists of chats,
models and settings, and of the help."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import ClassVar, Generic

from textual import events, on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal
from textual.content import Content
from textual.widgets import Input, Static

from ...settings.keymap import HELP, LISTS, shown_keys
from ..keys import KEYS, Hint, bindings_of, hints
from ..terminal_app import Result
from .framed import FramedScreen
from .pick_list import Item, PickList


class SearchBox(Input):
    """The search box. While it is empty, the key for help does not type."""

    BINDINGS: ClassVar[list[BindingType]] = bindings_of((KEYS["list_help"],), after_box=("list_help",))

    async def _on_key(self, event: events.Key) -> None:
        bound = self._bindings.key_to_bindings.get(event.key, ())
        if not self.value and any(binding.id == "list_help" for binding in bound):
            event.stop()
            event.prevent_default()
            await self.run_action(KEYS["list_help"].action)
        else:
            await super()._on_key(event)


class SearchScreen(FramedScreen[Result], Generic[Result, Item]):
    """A list with a search box.

    A subclass lists the matches (`search`), acts on the chosen item (`choose`), lists the keys that matter (`hints`), and
    may describe the item under the cursor (`about`).
    """

    DEFAULT_CSS = """
    SearchScreen {
        & > Frame { width: 92; height: 92%; padding: 1 0 0 0; }
        & #search { height: 1; padding: 0 2; margin-bottom: 1; }
        & #glyph { width: auto; color: $accent; text-style: bold; }
        & Input {
            height: 1; width: 1fr; border: none; padding: 0; background: $surface; color: $foreground;
            &:focus { border: none; background-tint: $surface 0%; }
            & .input--placeholder { color: $faint; }
        }
        & #detail { height: auto; padding: 0 2; border-top: solid $line; color: $quiet; }
        & #note { height: auto; max-height: 2; padding: 0 2; color: $quiet; display: none; }
        & #note.-shown { display: block; }
        & #note.-wrong { color: $warning; }
    }
    """
    AUTO_FOCUS = "Input"
    # The key for help is the box's.
    BINDINGS: ClassVar[list[BindingType]] = bindings_of(
        (*(key for key in LISTS if key.id != "list_help"), HELP), after_box=("list_choose",)
    )

    def __init__(self, listed: PickList[Item], keymap: Mapping[str, str], title: str, placeholder: str, text: str = "") -> None:
        super().__init__(title, keymap)
        self.listed = listed
        self.box = SearchBox(text, placeholder=placeholder, select_on_focus=False)
        self.box.cursor_blink = False  # it would repaint the screen twice a second
        self.detail = Static(id="detail")
        self.note = Static(id="note")
        self._query = text

    def compose(self) -> ComposeResult:
        with self.frame:
            with Horizontal(id="search"):
                yield Static("› ", id="glyph")
                yield self.box
            yield self.listed
            yield self.detail
            yield self.note

    # For subclasses

    def search(self, text: str) -> None:
        """List the matches of a query."""
        raise NotImplementedError

    def choose(self, item: Item) -> None:
        """Act on the chosen item."""
        raise NotImplementedError

    def about(self, item: Item | None) -> Iterable[tuple[str, str]]:
        """Describe the item under the cursor in lines, each with its style."""
        return ()

    def ways_out(self) -> tuple[Hint, ...]:
        return hints(("list_leave", ""), ("help" if self.box.value else "list_help", ""))

    # Below the list

    def key(self, id: str) -> str:
        return shown_keys(id, self._keymap)

    @property
    def cells(self) -> int:
        """Cells of a line about an item."""
        return max(20, self.detail.size.width)

    def tell(self) -> None:
        """Redraw the lines about the item and the keys."""
        lines = self.about(self.listed.item)
        self.detail.update(Content("\n").join(Content.styled(text, style) for text, style in lines))
        self.show_keys()

    def say(self, text: str, wrong: bool = False) -> None:
        """Show a sentence below the list; an empty one removes it."""
        if self.is_attached:  # it may have closed during work
            self.note.set_class(wrong, "-wrong")
            self.note.set_class(bool(text), "-shown")
            self.note.update(Content(text))

    @on(PickList.Moved)
    def _moved(self, event: PickList.Moved) -> None:
        event.stop()
        self.tell()

    def on_resize(self) -> None:
        self.tell()

    # The box

    @on(Input.Changed)
    def _typed(self, event: Input.Changed) -> None:
        event.stop()
        if event.value != self._query:  # Textual reports the initial text as well
            self._query = event.value
            self.search(event.value)
        self.show_keys()

    # Keys

    @on(Input.Submitted)
    def _submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self.action_choose()

    @on(PickList.Clicked)
    def _clicked(self, event: PickList.Clicked) -> None:
        event.stop()
        self.listed.cursor = event.index
        self.action_choose()

    def action_choose(self) -> None:
        if (item := self.listed.item) is not None:
            self.choose(item)

    def action_leave(self) -> None:
        if self.box.value:
            self.box.value = ""
        else:
            super().action_leave()

    def action_move(self, by: int) -> None:
        self.listed.move(by)

    def action_page(self, direction: int) -> None:
        self.action_move(direction * self.listed.page)

    def action_end(self, direction: int) -> None:
        self.action_move(direction * len(self.listed.items))
