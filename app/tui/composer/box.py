"""The input box: grows with the message, sends on enter, keeps every draft."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from textual import events
from textual.binding import BindingType
from textual.document._document import Location
from textual.message import Message
from textual.widgets.text_area import Edit, EditResult

from ...attach.attachments import paste_chip
from ...history.typed import Typed, step_back
from ...settings.keymap import INPUT
from ...text.cells import FOLDED, enterable
from ..keys.context import bindings_of
from .text_box import TextBox

ASK = "Ask something, or / for commands"
BEGIN = "Begin a text, or / for commands"
"""The empty box says what a model takes: messages, or a text to go on from."""


class PromptInput(TextBox):
    """The input box: a message of several lines."""

    DEFAULT_CSS = """
    PromptInput { height: auto; max-height: 8; width: 1fr; padding: 0; background: $background; }
    """
    BINDINGS: ClassVar[list[BindingType]] = bindings_of(INPUT, priority=False)

    @dataclass
    class Unused(Message):
        """Up, Down, End, Enter or ? was pressed where it has nothing to do in the box."""

        key: str

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(tab_behavior="focus", placeholder=ASK, id=id)
        self.offer: Callable[[str], None] | None = None
        """Told the text when enter is pressed, at once: were it a message, what is typed behind the enter would be in the box
        before it is handled. Whoever takes the text clears the box: nothing typed is ever lost."""
        self.choose: Callable[[int], None] | None = None
        """Told the step when up or down is pressed while names are offered, at once as well: enter may follow."""
        self.complete: Callable[[], None] | None = None
        """Told when tab is pressed."""
        self.sent: list[str] = []
        """What was sent, in this chat and, where a history is kept, in those before; oldest first."""
        self.keep: Callable[[Typed], None] | None = None
        """Told what is sent, to keep it for later chats."""
        self._at: int | None = None  # place in the history; None: the draft itself
        self._draft = ""
        self._prefix = ""  # what the messages that are walked through begin with
        self.pastes: dict[str, str] = {}
        """What stands in the box for a long text that was pasted → that text. None is taken out: the history may show it."""
        self.set_aside = ""
        """The draft in whose place a message that was sent is edited."""
        self.offering = False
        """Names are offered above the box, so up and down go through them."""

    # What the screen leaves out when it draws should be seen: an escape sequence that was pasted is shown, and sent, as ␛[31m.

    def load_text(self, text: str) -> None:
        super().load_text(enterable(text))

    def edit(self, edit: Edit) -> EditResult:
        """Change the text. What stands for a pasted text goes or stays as a whole; what is typed into it comes behind it."""
        edit.text = enterable(edit.text)
        start, end = sorted((edit.from_location, edit.to_location))
        edit.from_location = self._outside(start, 1 if start == end else -1)
        edit.to_location = self._outside(end, 1)
        return super().edit(edit)

    def get_cursor_left_location(self) -> Location:
        return self._outside(super().get_cursor_left_location(), -1)

    def get_cursor_right_location(self) -> Location:
        return self._outside(super().get_cursor_right_location(), 1)

    def get_cursor_word_left_location(self) -> Location:
        return self._outside(super().get_cursor_word_left_location(), -1)

    def get_cursor_word_right_location(self) -> Location:
        return self._outside(super().get_cursor_word_right_location(), 1)

    def _outside(self, location: Location, step: int) -> Location:
        """A place that is not within what stands for a pasted text: its start (-1) or end (1) in place of one that is."""
        row, column = location
        line = self.document.get_line(row) if row < self.document.line_count else ""  # ctrl+k names the line behind the last
        start = line.rfind(FOLDED, 0, column + 1)
        chip = max((chip for chip in self.pastes if start >= 0 and line.startswith(chip, start)), key=len, default="")
        if start < column < start + len(chip):
            column = start if step < 0 else start + len(chip)
        return row, column

    def take(self, text: str) -> None:
        """Move a message that was sent out of the box and into the history; what was typed after it stays."""
        if text.strip() and (not self.sent or self.sent[-1] != text):
            self.sent.append(text)
            if self.keep is not None:
                self.keep(self.typed(text))
        self.put(self.text.removeprefix(text))

    def recall(self, history: list[Typed]) -> None:
        """Take over what was sent in other chats, oldest first; what only this one knows stays the newest."""
        if self._at is not None:
            return  # a walk is under way: its places must not move
        known = {typed.text for typed in history}
        own = [text for text in self.sent if text not in known]
        self.sent = [self._told(typed) for typed in history] + own

    @property
    def draft(self) -> Typed:
        """What is being typed: not an earlier message that is walked through."""
        return self.typed(self._draft if self.walking else self.text)

    def typed(self, text: str) -> Typed:
        """A message with the pasted texts that it names."""
        return Typed(text, {chip: whole for chip, whole in self.pastes.items() if chip in text})

    def go_on(self, typed: Typed) -> None:
        """Go on with a draft; one that is in the box already becomes an earlier message."""
        if self.text.strip() and self.text not in self.sent:
            self.sent.append(self.text)
        self.put(self._told(typed))

    def _told(self, typed: Typed) -> str:
        """A message of another chat, with its pasted texts under names that are free here."""
        text = typed.text
        for chip, whole in typed.pastes.items():
            text = text.replace(chip, self.chip_for(chip, whole))
        return text

    def bring(self, text: str) -> None:
        """Put an earlier message into the box, as if it had been gone back to: the draft comes after it. With another text the
        draft comes before it."""
        if self._at is None:
            self._draft = self.text
        at = len(self.sent) - 1 - self.sent[::-1].index(text) if text in self.sent else None
        if at is None and self._draft.strip() and self._draft != text:
            self.sent.append(self._draft)
        self._prefix = ""
        self.put(text)
        self._at = at

    def rewrite(self, text: str) -> None:
        """Replace the draft in a way that ctrl+z takes back."""
        if text != self.text:
            self._at = None
            self.replace(text, (0, 0), self.document.end)
        self.move_cursor(self.document.end)

    def put(self, text: str) -> None:
        """Replace the draft; the cursor goes to its end."""
        self._at = None
        self.text = text
        self.move_cursor(self.document.end)

    def action_send(self) -> None:
        if not self.text.strip():
            self.post_message(self.Unused("enter"))
        elif self.offer is not None:
            self.offer(self.text)

    def action_newline(self) -> None:
        self._replace_via_keyboard("\n", *self.selection)

    def action_history(self, step: int) -> None:
        """Go through earlier messages at the box's edges; inside it the cursor moves."""
        if self.offering and self.choose is not None:
            self.choose(step)
            return
        edge = self.cursor_at_first_line if step < 0 else self.cursor_at_last_line
        if not edge:
            (self.action_cursor_up if step < 0 else self.action_cursor_down)()
            return
        if self._at is None:
            if step > 0 or not self.sent:
                if not self.text:
                    self.post_message(self.Unused("up" if step < 0 else "down"))
                return
            self._draft = self.text
            # What was typed is looked for; where nothing begins so, every message will do.
            self._prefix = self.text if step_back(self.sent, len(self.sent), self.text, -1) is not None else ""
        to = step_back(self.sent, len(self.sent) if self._at is None else self._at, self._prefix, step)
        if to is not None:
            self.rewrite(self.sent[to])
            self._at = to
        elif step > 0:
            self.rewrite(self._draft)

    def action_complete(self) -> None:
        if self.complete is not None:
            self.complete()

    def action_ask_help(self) -> None:
        self.post_message(self.Unused("help"))

    def action_line_end(self) -> None:
        if not self.text:
            self.post_message(self.Unused("end"))
            return
        self.action_cursor_line_end()

    @property
    def walking(self) -> bool:
        """Whether an earlier message is in the box, as it was sent."""
        return self._at is not None

    @property
    def before(self) -> str:
        """The cursor's line up to the cursor."""
        row, column = self.cursor_location
        return self.document.get_line(row)[:column]

    def chip(self) -> str:
        """What stands for a pasted text right before the cursor; empty if nothing does."""
        return next((chip for chip in self.pastes if self.before.endswith(chip)), "")

    def unfold(self) -> bool:
        if not (chip := self.chip()):
            return False
        row, column = self.cursor_location
        self.replace(self.pastes[chip], (row, column - len(chip)), (row, column))
        return True

    async def _on_paste(self, event: events.Paste) -> None:
        text = enterable(event.text)  # terminals send what enter sends, a carriage return, for each line break
        # Textual calls the handler of TextArea too, unless it is told not to.
        if not (chip := paste_chip(text)):
            return
        event.prevent_default()
        event.stop()
        self._replace_via_keyboard(self.chip_for(chip, text), *self.selection)

    def chip_for(self, chip: str, text: str) -> str:
        """What stands for a pasted text from now on: `chip`, with a number behind it if another text has that."""
        number, first = 1, chip
        while self.pastes.get(chip, text) != text:
            number += 1
            chip = f"{first[:-1]}, no. {number}]"
        self.pastes[chip] = text
        return chip

    async def _on_key(self, event: events.Key) -> None:
        if self.app.focused is not self:  # the key before it, which came with it, has moved the focus or opened a screen
            event.stop()
            event.prevent_default()
            self.app.post_message(type(event)(event.key, event.character))
            return
        # Textual looks for a widget's bindings only when a key has bubbled up to the app, while text is put in at once: of
        # keys that arrive together (a fast typist, ssh) a backspace or an enter would come after the letters behind it.
        for binding in self._bindings.key_to_bindings.get(event.key, ()):
            if not binding.priority and binding.action != "" and not (binding.action == "ask_help" and self.text):
                event.stop()
                event.prevent_default()
                await self.run_action(binding.action)
                return
        # Enter is a binding here; TextArea would put a newline.
        if event.key == "enter":
            event.prevent_default()
            return
        await super()._on_key(event)

    def on_text_area_changed(self) -> None:
        """An edited message from the history is a draft of its own."""
        if self._at is not None and self.text != self.sent[self._at]:
            self._at = None
            # The draft that the walk began with is not lost: it is the last message to go back to.
            if self._draft.strip() and self._draft not in (self.text, *self.sent[-1:]):
                self.sent.append(self._draft)
