"""A search box, a list of matches and details about the item under the cursor, in a frame: the base of the lists of chats,
models, settings, sent messages and the models of a race, and of the help."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import ClassVar, Generic

from textual import events, on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal
from textual.content import Content
from textual.geometry import Offset
from textual.widgets import Input, Static

from ....errors import UserError
from ...settings.keymap import HELP, LISTS, shown_keys
from ..closing import Result
from ..keys.context import KEYS, Hint, bindings_of, hints
from .framed import FramedScreen
from .pick_list import Item, PickList

AROUND = 9
"""Rows around a list that grows: frame, box, four rows about an item."""

MOVES = (
    *hints(
        ("list_above list_below", "move the cursor"),
        ("list_page_up list_page_down", "move by a page"),
        ("list_first list_last", "to the first item or the last"),
    ),
    Hint((), "search the list", "letters"),
)


class SearchBox(Input):
    """The search box. While it is empty, the key for help does not type."""

    BINDINGS: ClassVar[list[BindingType]] = bindings_of((KEYS["list_help"],), after_box=("list_help",))
    searching = True
    """Whether it takes a query, and no other text."""

    async def _on_key(self, event: events.Key) -> None:
        bound = self._bindings.key_to_bindings.get(event.key, ())
        if self.searching and not self.value and any(binding.id == "list_help" for binding in bound):
            event.stop()
            event.prevent_default()
            await self.run_action(KEYS["list_help"].action)
        else:
            await super()._on_key(event)


class SearchScreen(FramedScreen[Result], Generic[Result, Item]):
    """A list with a search box.

    A subclass lists the matches (`search`), acts on the chosen item (`choose`), lists the keys that matter (`item_hints`), and
    may describe the item under the cursor (`about`).
    """

    DEFAULT_CSS = """
    SearchScreen {
        & > Frame { width: 92; height: 92%; padding: 1 0 0 0; }
        & #search { height: 1; padding: 0 2; margin-bottom: 1; }
        & #asks { width: auto; color: $accent; text-style: bold; }
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
        self._glyph = Static("› ", id="asks")
        self._placeholder = placeholder
        self._query = text
        self._accept: Callable[[str], None] | None = None
        self._verb = ""
        self._unsure: object = None
        """Key of the item that a second press deletes."""
        self._by_keys = False
        """Whether the last key moved the cursor, rather than typed."""

    def compose(self) -> ComposeResult:
        with self.frame:
            with Horizontal(id="search"):
                yield self._glyph
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

    def item_hints(self) -> Iterable[Hint]:
        """List the keys that matter now, the most useful first."""
        raise NotImplementedError

    def about(self, item: Item | None) -> Iterable[tuple[str, str]]:
        """Describe the item under the cursor in lines, each with its style."""
        return ()

    def hints(self) -> Iterable[Hint]:
        return (Hint(("list_choose",), self._verb),) if self.asking else self.item_hints()

    def ways_out(self) -> tuple[Hint, ...]:
        help = "help" if self.asking or self.box.value else "list_help"
        return hints(("list_leave", "cancel" if self.asking else ""), (help, ""))

    def moves(self) -> Iterable[Hint]:
        return () if self.asking else MOVES

    # Below the list

    def key(self, id: str) -> str:
        return shown_keys(id, self._keymap)

    @property
    def cells(self) -> int:
        """Cells of a line about an item."""
        return max(20, self.detail.size.width)

    def grow(self, items: int) -> None:
        """Give the list the rows for a number of items, limited by the screen."""
        self.listed.styles.height = max(3, min(items, self.app.size.height * 92 // 100 - AROUND))

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

    def attempt(self, work: Callable[[], object]) -> bool:
        """Call a function; False after a UserError, which is shown below the list."""
        try:
            work()
        except UserError as error:
            self.say(str(error), wrong=True)
            return False
        return True

    def confirm(self, question: str) -> bool:
        """Whether a key that deletes is pressed the second time on an item; the first time show a question."""
        if self._unsure == self.listed.key:
            self._unsure = None
            return True
        self._unsure = self.listed.key
        self.say(question, wrong=True)
        return False

    @on(PickList.Moved)
    def _moved(self, event: PickList.Moved) -> None:
        event.stop()
        if self._unsure not in (None, self.listed.key):
            self._unsure = None
            self.say("")
        self.tell()

    def on_resize(self) -> None:
        self.tell()

    # The box

    @property
    def asking(self) -> bool:
        """Whether the box takes another text than a query."""
        return self._accept is not None

    @property
    def chosen_row(self) -> Offset | None:
        return self.listed.row if self._by_keys and self.item_under_cursor is not None else None

    @property
    def query_text(self) -> str:
        """Query, also while the box takes another text."""
        return self._query if self.asking else self.box.value

    @property
    def item_under_cursor(self) -> Item | None:
        """Item under the cursor, unless the box takes another text."""
        return None if self.asking else self.listed.item

    def ask_in_box(self, what: str, text: str, verb: str, take: Callable[[str], None], placeholder: str = "") -> None:
        """Let the box take another text, until `end_asking`.

        Args:
            what: label before the box.
            text: at first.
            verb: label of enter.
            take: called with the text.
            placeholder: of the empty box.
        """
        self._query = self.box.value
        self._verb = verb
        self._accept = take
        self.box.searching = False
        self._fill(f"{what}: ", text, placeholder)

    def end_asking(self) -> None:
        """Restore the query."""
        self._accept = None
        self.box.searching = True
        self._fill("› ", self._query, self._placeholder)

    def clear_query(self) -> None:
        """Empty the box without a search."""
        self._query = ""
        with self.prevent(Input.Changed):
            self.box.value = ""

    def _fill(self, glyph: str, text: str, placeholder: str) -> None:
        self._glyph.update(Content(glyph))
        self.box.placeholder = placeholder
        with self.prevent(Input.Changed):
            self.box.value = text
        self.box.cursor_position = len(text)
        self.say("")
        self.tell()

    @on(Input.Changed)
    def _typed(self, event: Input.Changed) -> None:
        event.stop()
        self._by_keys = False
        if not self.asking and event.value != self._query:  # Textual reports the initial text as well
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
        if not self.asking:
            self.listed.cursor = event.index
            self.action_choose()

    def action_choose(self) -> None:
        if self._accept is not None:
            self._accept(self.box.value)
        elif (item := self.listed.item) is not None:
            self.choose(item)

    def action_leave(self) -> None:
        if self.asking:
            self.end_asking()
        elif self.box.value:
            self.box.value = ""
        else:
            super().action_leave()

    def action_move(self, by: int) -> None:
        if not self.asking:
            self._by_keys = True
            self.listed.move(by)

    def action_page(self, direction: int) -> None:
        self.action_move(direction * self.listed.page)

    def action_end(self, direction: int) -> None:
        self.action_move(direction * len(self.listed.items))
