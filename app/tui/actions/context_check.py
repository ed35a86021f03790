"""The check that a message fits the model's context, before it is sent."""

from __future__ import annotations

from collections.abc import Callable

from textual.content import Content

from ....engine.messages import Counted
from ....errors import counted
from ...chat.entries import Prompt
from ...chat.transcript import answer_room, cuts, messages_from, surely_fits
from ...text.cells import fit, one_line
from ..host import Host
from ..pickers.menu import Menu, MenuItem
from .rewrite import MessageEdit


class ContextCheck:
    """Has the engine count the tokens of a long message, and asks how to shorten a chat that is too long.

    Args:
        send: sends a message: its draft and its text.
    """

    def __init__(self, host: Host, message_edit: MessageEdit, send: Callable[[str, str], None]) -> None:
        self._host = host
        self._message_edit = message_edit
        self._send = send
        self._id = 0
        self._draft = ""
        self._message = ""
        self._cuts: list[int] = []
        self.note: Content | None = None
        """Line for the status line once the box is empty."""

    def check(self, draft: str, message: str) -> bool:
        """Whether a message may be sent at once; else the engine counts it and `counted` continues."""
        dialogue = self._host.dialogue
        context = dialogue.info.context
        if dialogue.phase != "ready" or not context:
            return True
        transcript = self._message_edit.base
        if surely_fits(messages_from(transcript, transcript.start, message), context):
            return True
        self._draft = draft
        self._message = message
        self._cuts = cuts(transcript)
        self._id = dialogue.count([messages_from(transcript, start, message) for start in self._cuts], self.counted)
        return False

    def counted(self, event: Counted) -> None:
        """Send a message that fits; ask about one that does not. A draft changed since then stays."""
        if event.id != self._id or self._host.box.text != self._draft:
            return
        most = event.context - answer_room(event.context)
        if not event.tokens:  # it cannot be counted; the engine reports why when it answers
            self._send(self._draft, self._message)
        elif event.tokens[0] <= most:
            self._send(self._draft, self._message)
            self.note = Content.assemble((f"{event.tokens[0]:,}", "bold"), f" of {event.context:,} tokens of context")
        else:
            self._ask(event, most)

    def _ask(self, event: Counted, most: int) -> None:
        transcript = self._message_edit.base
        full, *shorter = event.tokens
        alone = event.tokens[-1]
        cut = next((i for i, tokens in enumerate(shorter[:-1], 1) if tokens <= most), 0)
        lost = [e.text for e in transcript.entries[self._cuts[0] : self._cuts[cut]] if isinstance(e, Prompt)]
        named = f"“{fit(one_line(lost[0]), 24)}”" if lost else ""
        named += f" to “{fit(one_line(lost[-1]), 24)}”" if len(lost) > 1 else ""
        what = f"the {len(lost):,} oldest exchanges" if len(lost) > 1 else "the oldest exchange"
        size = f"takes {counted(alone, 'token')}" if alone > event.context else "leaves too little room for an answer"
        too_long = f"The message alone {size}. Shorten it." if alone > most else ""
        trimmed, why = (
            "Leave out the oldest exchanges.",
            too_long or "The message leaves no room for any of this chat. Start a new one.",
        )
        current = "keep" if too_long else "fresh"
        if cut:
            trimmed = f"The model no longer sees {what}, {named}: {counted(event.tokens[cut], 'token')}."
            current, why = "trim", ""
        fresh = "A new chat with this message" + ("." if too_long else f": {counted(alone, 'token')}.")
        items = [
            MenuItem("trim", "Trim", detail=trimmed, reason=why),
            MenuItem("fresh", "Start a new chat", detail=fresh, reason=too_long),
            MenuItem("keep", "Send nothing", detail="Your message stays in the input box."),
        ]

        def choose(choice: str) -> None:
            if choice == "trim":
                self._message_edit.branch()
                self._host.dialogue.transcript.start = self._cuts[cut]
                self._host.dialogue.notice(f"From here on the model no longer sees {what} of this chat: {named}.", "warning")
            elif choice == "fresh":
                self._message_edit.leave()
                self._host.new_chat()
            if choice in ("trim", "fresh"):
                self._send(self._draft, self._message)

        title = f"{full:,} tokens; the context holds {event.context:,}"
        self._host.ask(Menu(title, items, current, self._host.live.keymap), choose)
