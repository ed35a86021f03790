"""Editing a message: it returns to the input box, and sending replaces it and everything after it."""

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
from .dispatch import runs
from .table import is_command


class MessageEdit:
    """The message being edited, if any: /edit."""

    def __init__(self, host: Host) -> None:
        self.host = host
        self.files: dict[str, Attachment] = {}
        """Placeholder in the input box → the file of the edited message that it stands for."""
        self._prompt: Prompt | None = None
        """The edited message."""
        self._original = ""
        """Its text as first put into the box."""
        self._base: Transcript | None = None
        self._branched = False
        """Whether the transcript already ends before the edited message."""
        self._abandoned: dict[int, tuple[Prompt, str]] = {}  # texts of abandoned edits, by the id of the message

    @property
    def active(self) -> bool:
        """Whether a message is being edited."""
        return self._prompt is not None

    @property
    def base(self) -> Transcript:
        """Chat that the next message continues: the one on the screen, up to the edited message."""
        transcript = self.host.dialogue.transcript
        if self._prompt is None or self._branched:
            return transcript
        if self._base is None:
            entries = transcript.entries[: index_of(self.host, self._prompt)]
            self._base = Transcript(entries, transcript.system, transcript.start if transcript.start <= len(entries) else 0)
        return self._base

    @runs(actions.EDIT)
    def edit(self, *words: str) -> None:
        """Put a message back into the input box: number N (from 1), else the marked one, else the last."""
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
        self._prompt = prompt
        box.set_aside = "" if is_command(box.text) else box.text
        _, text = self._abandoned.pop(id(prompt), (prompt, ""))
        self._original = self._fold(prompt)
        box.put(text or self._original)
        box.focus()
        self._show()

    def _fold(self, prompt: Prompt) -> str:
        """Rebuild the text as typed, with placeholders for files and pasted texts."""
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
        """Stop editing and restore the draft; False if no message was being edited."""
        if self._prompt is None:
            return False
        box = self.host.box
        if box.text.strip() and box.text != self._original:
            self._abandoned[id(self._prompt)] = (self._prompt, box.text)
        self._end()
        return True

    def _end(self) -> None:
        box = self.host.box
        self._prompt = self._base = None
        self._branched = False
        box.put(box.set_aside)
        box.set_aside = ""
        self._show()

    def _show(self) -> None:
        composer = self.host.box.parent
        assert isinstance(composer, Widget)
        composer.set_class(self.active, "-edit")
        composer.border_title = composer.border_subtitle = ""
        if self._prompt is not None:
            prompts = prompts_of(self.host)
            number = next((n for n, prompt in enumerate(prompts, 1) if prompt is self._prompt), 0)
            composer.border_title = f"editing message {number} of {len(prompts)}"
            leave = "restores what you were typing" if self.host.box.set_aside else "cancels"
            composer.border_subtitle = f"enter sends · esc {leave}"

    def branch(self) -> None:
        """End the transcript before the edited message; the rest becomes a variant."""
        if self._prompt is None or self._branched:
            return
        base = self.base
        lay_aside(self.host, index_of(self.host, self._prompt))
        self.host.dialogue.transcript.start = base.start
        self._branched = True

    def submit(self, sent: str, draft: str) -> bool:
        """Send a message, in place of the edited one if any; False if it has to wait."""
        dialogue = self.host.dialogue
        if dialogue.phase in ("prefill", "writing") or dialogue.queued is not None:
            return False
        self.branch()
        return dialogue.submit(sent, draft)

    def finish(self) -> None:
        """Restore the draft, once the message sent has left the input box."""
        if self._prompt is not None:
            self._abandoned.pop(id(self._prompt), None)
            self.host.box.set_aside = self.host.box.set_aside or self.host.box.text
            self._end()


def prompts_of(host: Host) -> list[Prompt]:
    """List the user's messages on the screen."""
    return [entry for entry in host.dialogue.transcript.entries if isinstance(entry, Prompt)]


def marked_prompt(host: Host) -> Prompt | None:
    """Find the marked message, or the one whose answer is marked."""
    marked, entries = host.view.mark.entry, host.dialogue.transcript.entries
    at = next((i for i, entry in enumerate(entries) if entry is marked), -1)
    return next((entry for entry in reversed(entries[: at + 1]) if isinstance(entry, Prompt)), None)


def index_of(host: Host, prompt: Prompt) -> int:
    return next(i for i, entry in enumerate(host.dialogue.transcript.entries) if entry is prompt)


def lay_aside(host: Host, index: int) -> None:
    """End the transcript before the entry at `index`; the rest becomes a variant."""
    transcript, view = host.dialogue.transcript, host.view
    place = transcript.begin_variant(index)
    transcript.start = transcript.start if transcript.start <= place else 0
    view.mark.clear()
    view.rewind(place)
