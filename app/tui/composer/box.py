"""The input box: it grows with the message, sends on enter and keeps every draft."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from textual import events
from textual.binding import BindingType
from textual.message import Message
from textual.widgets.text_area import Edit, EditResult, Location

from ...attach.attachments import paste_chip
from ...history.typed import Typed, step_back
from ...settings.keymap import INPUT
from ...text.cells import FOLDED, enterable
from ..keys import bindings_of
from .text_box import TextBox

ASK = "Ask something, or / for commands"
BEGIN = "Begin a text, or / for commands"
"""Placeholders for a model that answers messages, and for a base model."""


class PromptInput(TextBox):
    """The input box."""

    DEFAULT_CSS = """
    PromptInput { height: auto; max-height: 8; width: 1fr; padding: 0; background: $background; }
    """
    BINDINGS: ClassVar[list[BindingType]] = bindings_of(INPUT, priority=False)

    @dataclass
    class Unused(Message):
        """Up, Down, End, Enter or ? was pressed, and has no effect in the box."""

        key: str

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(tab_behavior="focus", placeholder=ASK, id=id)
        # Functions, not messages: keys typed after the enter would be in the box before a message is handled.
        self.submit: Callable[[str], None] = lambda text: None
        """Handles enter; clears the box once it has taken the text."""
        self.choose: Callable[[int], None] = lambda step: None
        """Moves through the suggestions."""
        self.complete: Callable[[], None] = lambda: None
        """Handles tab."""
        self.sent: list[str] = []
        """Messages of this chat and, with a history, of earlier ones; oldest first."""
        self.keep: Callable[[Typed], None] = lambda typed: None
        """Stores a sent message for later chats."""
        self._at: int | None = None  # index in `sent`; None at the draft
        self._draft = ""
        self._prefix = ""  # beginning of the messages to walk through
        self.pastes: dict[str, str] = {}
        """Placeholder → the long text pasted. Entries stay, as an earlier message may have the placeholder."""
        self.set_aside = ""
        """Draft that an edited message replaced for now."""
        self.offering = False
        """Whether suggestions are shown, so that up and down move through them."""

    # Control characters are made visible, as the drawing would hide them: a pasted escape sequence is sent as ␛[31m.

    def load_text(self, text: str) -> None:
        super().load_text(enterable(text))

    def edit(self, edit: Edit) -> EditResult:
        """Change the text. A placeholder goes or stays as a whole; text typed inside moves behind it."""
        edit.text = enterable(edit.text)
        start, end = sorted((edit.from_location, edit.to_location))
        edit.from_location = self._outside(start, 1 if start == end else -1)
        edit.to_location = self._outside(end, 1)
        return super().edit(edit)

    def _outside(self, location: Location, step: int) -> Location:
        """Move a location inside a placeholder to its start (−1) or end (1)."""
        row, column = location
        line = self.document.get_line(row) if row < self.document.line_count else ""  # ctrl+k uses the line after the last
        start = line.rfind(FOLDED, 0, column + 1)
        chip = max((chip for chip in self.pastes if start >= 0 and line.startswith(chip, start)), key=len, default="")
        if start < column < start + len(chip):
            column = start if step < 0 else start + len(chip)
        return row, column

    def take(self, text: str) -> None:
        """Move a sent message from the box to the history; text typed after it stays."""
        if text.strip() and self.sent[-1:] != [text]:
            self.sent.append(text)
            self.keep(self.typed(text))
        self.put(self.text.removeprefix(text))

    def recall(self, history: list[Typed]) -> None:
        """Add the messages of other chats, oldest first, before those of this one."""
        if self.walking:
            return  # the index must stay valid
        texts = {typed.text for typed in history}
        self.sent = [self._import(typed) for typed in history] + [text for text in self.sent if text not in texts]

    @property
    def draft(self) -> Typed:
        """Text being typed, also while an earlier message is shown."""
        return self.typed(self._draft if self.walking else self.text)

    def typed(self, text: str) -> Typed:
        """Collect a message with its pasted texts."""
        return Typed(text, {chip: whole for chip, whole in self.pastes.items() if chip in text})

    def _import(self, typed: Typed) -> str:
        """Rename the placeholders of another chat's message where they are taken here."""
        text = typed.text
        for chip, whole in typed.pastes.items():
            text = text.replace(chip, self.chip_for(chip, whole))
        return text

    def bring(self, text: str) -> None:
        """Put a text into the box; the draft becomes an earlier message."""
        if self.sent[-1:] == [text]:  # a command that was refused
            self.sent.pop()
        if self.draft.text.strip() and self.draft.text not in (text, *self.sent):
            self.sent.append(self.draft.text)
        self.put(text)

    def go_on(self, typed: Typed) -> None:
        """Continue a draft of another chat."""
        self.bring(self._import(typed))

    def rewrite(self, text: str) -> None:
        """Replace the draft; ctrl+z restores it."""
        if text != self.text:
            self._at = None
            self.replace(text, (0, 0), self.document.end)
        self.move_cursor(self.document.end)

    def put(self, text: str) -> None:
        """Replace the draft; the cursor moves to its end."""
        self._at = None
        self.text = text
        self.move_cursor(self.document.end)

    def put_paste(self, name: str, text: str) -> None:
        """Put a folded text before the draft."""
        chip = f"{FOLDED}{name}]"
        self.pastes[chip] = text
        self.put(f"{chip} {self.text}")

    def action_send(self) -> None:
        if self.text.strip():
            self.submit(self.text)
        else:
            self.post_message(self.Unused("enter"))

    def action_newline(self) -> None:
        self._replace_via_keyboard("\n", *self.selection)

    def action_history(self, step: int) -> None:
        """Walk through earlier messages at the box's edges; inside it move the cursor."""
        if self.offering:
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
            # Only messages that begin with the draft, if there are any.
            self._prefix = self.text if step_back(self.sent, len(self.sent), self.text, -1) is not None else ""
        to = step_back(self.sent, len(self.sent) if self._at is None else self._at, self._prefix, step)
        if to is not None:
            self.rewrite(self.sent[to])
            self._at = to
        elif step > 0:
            self.rewrite(self._draft)

    def action_complete(self) -> None:
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
        """Whether the box shows an unchanged earlier message."""
        return self._at is not None

    @property
    def before(self) -> str:
        """Text of the cursor's line up to the cursor."""
        row, column = self.cursor_location
        return self.document.get_line(row)[:column]

    def chip(self) -> str:
        """Find the placeholder right before the cursor; empty if there is none."""
        return next((chip for chip in self.pastes if self.before.endswith(chip)), "")

    def unfold(self) -> bool:
        if not (chip := self.chip()):
            return False
        row, column = self.cursor_location
        self.replace(self.pastes[chip], (row, column - len(chip)), (row, column))
        return True

    async def _on_paste(self, event: events.Paste) -> None:
        text = enterable(event.text)  # with line breaks for the terminal's carriage returns
        if chip := paste_chip(text):
            event.prevent_default()
            event.stop()
            self._replace_via_keyboard(self.chip_for(chip, text), *self.selection)

    def chip_for(self, chip: str, text: str) -> str:
        """Register a placeholder for a text: `chip`, numbered if it stands for another text."""
        number, first = 1, chip
        while self.pastes.get(chip, text) != text:
            number += 1
            chip = f"{first[:-1]}, no. {number}]"
        self.pastes[chip] = text
        return chip

    async def _on_key(self, event: events.Key) -> None:
        if self.app.focused is not self:  # a key that arrived with this one has moved the focus or opened a screen
            event.stop()
            event.prevent_default()
            self.app.post_message(type(event)(event.key, event.character))
            return
        # Textual inserts text at once, but runs bindings only after a key has bubbled up to the app: of keys that arrive
        # together (a fast typist, ssh) a backspace or an enter would come after the letters behind it.
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
        """Make an edited earlier message the draft."""
        if self._at is not None and self.text != self.sent[self._at]:
            self._at = None
            # The draft before the walk stays reachable as the last message.
            if self._draft.strip() and self._draft not in (self.text, *self.sent[-1:]):
                self.sent.append(self._draft)
