"""A message written anew: it is put back into the input box, and what is sent goes on from its place."""

from __future__ import annotations

from textual.widget import Widget

from ....errors import NotPossible, UserError, counted
from ...attach.attachments import Attachment, escape, split_attachments
from ...chat.entries import Prompt
from ...chat.transcript import Transcript
from ...settings import actions
from ...text.amounts import size_of
from ...text.cells import FOLDED, one_line
from ..host import Host
from .registry import runs
from .table import is_command


class MessageEdit:
    """The message that is being written anew, if one is: /edit."""

    def __init__(self, host: Host) -> None:
        self.host = host
        self.files: dict[str, Attachment] = {}
        """What stands in the input box for a file of a message that was put back there → that file."""
        self._prompt: Prompt | None = None
        """The message that is written anew."""
        self._first = ""
        """The message as it was put into the box."""
        self._base: Transcript | None = None
        self._cut = False
        """What follows is laid aside already."""
        self._left: dict[int, tuple[Prompt, str]] = {}  # texts of edits that were left, by the id of the message

    @property
    def active(self) -> bool:
        """Whether a message is being written anew."""
        return self._prompt is not None

    @property
    def base(self) -> Transcript:
        """The chat that the next message goes to: the one on the screen, or its beginning up to the message written anew."""
        transcript = self.host.dialogue.transcript
        if self._prompt is None or self._cut:
            return transcript
        if self._base is None:
            entries = transcript.entries[: index_of(self.host, self._prompt)]
            self._base = Transcript(entries, transcript.system, transcript.start if transcript.start <= len(entries) else 0)
        return self._base

    @runs(actions.EDIT)
    def edit(self, *words: str) -> None:
        """Put a message back into the input box: number N (from 1 on), the marked one or the last."""
        number = int(words[0]) if len(words) == 1 and words[0].isdecimal() and len(words[0]) < 10 else None
        if words and number is None:
            raise UserError("/edit takes the number of one of your messages, 1 for the first; alone it edits the last one.")
        prompts = prompts_of(self.host)
        if not prompts:
            raise NotPossible("There is no message to edit yet. Ask something first.")
        if number is not None and not 1 <= number <= len(prompts):
            raise UserError(f"You have sent {counted(len(prompts), 'message')} here, but no number {number}. Name one of them.")
        prompt = prompts[number - 1] if number is not None else marked_prompt(self.host) or prompts[-1]
        if prompt is self._prompt:
            return
        self.leave()
        box = self.host.box
        self._prompt, self._cut, self._base = prompt, False, None
        box.set_aside = "" if is_command(box.text) else box.text
        _, text = self._left.pop(id(prompt), (prompt, ""))
        self._first = self._typed(prompt)
        box.put(text or self._first)
        box.focus()
        self._show()

    def _typed(self, prompt: Prompt) -> str:
        """A message as it may have been typed; its files and pasted texts fold."""
        message, attachments = split_attachments(prompt.text)
        box = self.host.box
        chips = []
        for attachment in attachments:
            name = one_line(attachment.name)
            size = f" · {size_of(attachment.size)}" if attachment.file else ""
            chip = box.chip_for(f"{FOLDED}{name}{size}]", attachment.text)
            self.files[chip] = attachment
            chips.append(chip)
        return "\n".join([*chips, *filter(None, [escape(message)])])

    def leave(self) -> bool:
        """No longer write a message anew: the draft comes back. False if none was."""
        if self._prompt is None:
            return False
        box = self.host.box
        if box.text.strip() and box.text != self._first:
            self._left[id(self._prompt)] = (self._prompt, box.text)
        self._end()
        return True

    def _end(self) -> None:
        box = self.host.box
        self._prompt, self._base, self._cut = None, None, False
        box.put(box.set_aside)
        box.set_aside = ""
        self._show()

    def _show(self) -> None:
        composer = self.host.box.parent
        assert isinstance(composer, Widget)
        composer.set_class(self.active, "-edit")
        composer.border_title = ""
        composer.border_subtitle = ""
        if self._prompt is not None:
            prompts = prompts_of(self.host)
            number = next((n for n, prompt in enumerate(prompts, 1) if prompt is self._prompt), 0)
            composer.border_title = f"editing message {number} of {len(prompts)}"
            composer.border_subtitle = (
                ("enter sends · esc restores what you were typing") if self.host.box.set_aside else "enter sends · esc cancels"
            )

    def branch(self) -> None:
        """Lay aside the message that is written anew, and what follows it; once."""
        if self._prompt is None or self._cut:
            return
        base = self.base
        lay_aside(self.host, index_of(self.host, self._prompt))
        self.host.dialogue.transcript.start = base.start
        self._cut = True

    def submit(self, sent: str, draft: str) -> bool:
        """Ask, in the place of the message that is written anew if one is; False if that must wait."""
        dialogue = self.host.dialogue
        if dialogue.phase in ("prefill", "writing") or dialogue.queued is not None:
            return False
        self.branch()
        return dialogue.submit(sent, draft)

    def sent(self) -> None:
        """The message is out of the input box: the draft may come back."""
        if self._prompt is not None:
            self._left.pop(id(self._prompt), None)
            self.host.box.set_aside = self.host.box.set_aside or self.host.box.text
            self._end()


def prompts_of(host: Host) -> list[Prompt]:
    """The person's messages on the screen."""
    return [entry for entry in host.dialogue.transcript.entries if isinstance(entry, Prompt)]


def marked_prompt(host: Host) -> Prompt | None:
    """The message that is marked, or the one whose answer is."""
    marked, entries = host.view.mark.entry, host.dialogue.transcript.entries
    at = next((i for i, entry in enumerate(entries) if entry is marked), -1)
    return next((entry for entry in reversed(entries[: at + 1]) if isinstance(entry, Prompt)), None)


def index_of(host: Host, prompt: Prompt) -> int:
    """Where a message is in the transcript."""
    return next(i for i, entry in enumerate(host.dialogue.transcript.entries) if entry is prompt)


def lay_aside(host: Host, index: int) -> None:
    """Go on anew from before the entry at `index`; what follows becomes a variant."""
    transcript, view = host.dialogue.transcript, host.view
    place = transcript.variants.begin(transcript.entries, index)
    transcript.start = transcript.start if transcript.start <= place else 0
    view.mark.clear()
    view.rewind(place)
