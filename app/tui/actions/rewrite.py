"""Sending a message; editing one, answering it again, and turning from one variant to the next."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from secrets import randbelow

from textual.content import Content
from textual.widget import Widget

from ....engine.messages import Counted
from ....errors import NotPossible, UserError
from ...attach.attachments import Attachment, escape, split_attachments
from ...chat.compare import name_of
from ...chat.entries import Answer, ChatEntry, Prompt
from ...chat.transcript import Transcript, answer_room, messages_with, surely_fits
from ...settings import actions
from ...settings.keymap import shown_keys
from ...text.amounts import size_of
from ...text.cells import FOLDED, one_line
from ..host import Host
from .dispatch import is_command, pairs, runs
from .switch import method_settings

SEEDS = 1_000_000
"""New seeds are below this: short enough to be read out and typed."""


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
        self._count_id = 0
        """Id of the last count of a chat's tokens."""

    @property
    def active(self) -> bool:
        """Whether a message is being edited."""
        return self._prompt is not None

    @runs(actions.EDIT)
    def edit(self) -> None:
        """Put the marked message, else the last one, back into the input box."""
        prompts = prompts_of(self.host)
        if not prompts:
            raise NotPossible("There is no message to edit yet. Ask something first.")
        prompt = marked_prompt(self.host) or prompts[-1]
        if prompt is self._prompt:
            return
        self.leave()
        box = self.host.box
        self._prompt = prompt
        box.set_aside = "" if is_command(box.text) else box.text
        self._original = self._fold(prompt)
        box.put(self._original)
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
        """Stop editing and restore the draft; a changed text becomes an earlier message. False if no message was edited."""
        if self._prompt is None:
            return False
        box = self.host.box
        if box.text.strip() and box.text != self._original:
            box.sent.append(box.text)
        self._end()
        return True

    def _end(self) -> None:
        box = self.host.box
        self._prompt = None
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

    # Sending

    def fits(self, draft: str, message: str, send: Callable[[str, str], None]) -> bool:
        """Whether a message may be sent at once; else the engine counts the chat's tokens, and it is sent if it fits."""
        dialogue = self.host.dialogue
        if dialogue.phase != "ready" or not dialogue.info.context:
            return True
        transcript = dialogue.transcript
        if self._prompt is not None:
            transcript = Transcript(transcript.entries[: index_of(self.host, self._prompt)], transcript.system)
        messages = messages_with(transcript, message)
        if surely_fits(messages, dialogue.info.context):
            return True

        def counted(event: Counted) -> None:
            if event.id != self._count_id or self.host.box.text != draft:  # changed since then
                return
            if event.tokens <= event.context - answer_room(event.context):  # or unknown: the answer says why
                send(draft, message)
                return
            key = shown_keys("new_chat", self.host.live.keymap)
            self.host.tell(
                f"Not sent: the chat would take {event.tokens:,} tokens, and the context holds {event.context:,}. Your message "
                f"stays in the input box. {key} starts a new chat with it; if it is too long by itself, shorten it.",
                "warning",
            )

        self._count_id = dialogue.count(messages, counted)
        return False

    def submit(self, sent: str, draft: str) -> bool:
        """Send a message, in place of the edited one if any; False if it has to wait."""
        dialogue = self.host.dialogue
        if dialogue.phase in ("prefill", "writing") or dialogue.queued is not None:
            return False
        if self._prompt is not None:
            lay_aside(self.host, index_of(self.host, self._prompt))
        return dialogue.submit(sent, draft)

    def finish(self) -> None:
        """Restore the draft, once the message sent has left the input box."""
        if self._prompt is not None:
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
    view.mark.clear()
    view.rewind(place)


@dataclass(eq=False)
class Retries:
    """Retries answers, undoes exchanges and shows other variants: /retry, /compare, /undo."""

    host: Host
    message_edit: MessageEdit

    # Further answers

    @runs(actions.COMPARE)
    def compare(self, *words: str) -> None:
        """Answer the last (or the marked) message with `METHOD key=value …`; without words, with the next untried method."""
        dialogue = self.host.dialogue
        index, answer = self._subject("compare")
        if words:
            name, *rest = words
            settings = method_settings(dialogue, name, pairs(rest, "/compare METHOD key=value …"))
        else:
            transcript = dialogue.transcript
            tried = [variant.method for variant in transcript.variant_answers(index)]
            name = self._next(tried or [answer.method if answer else dialogue.method])
            settings = dict(dialogue.settings.get(name, {}))
        self._ask_again(index, answer, method=name, settings=settings)

    def _next(self, tried: list[str]) -> str:
        names = self.host.dialogue.shortlist()
        at = names.index(tried[-1]) if tried[-1] in names else -1
        order = [name for name in (*names[at + 1 :], *names[: at + 1]) if name != tried[-1]]
        if not order:
            raise NotPossible("This model has only one method, so there is no other to compare with.")
        return next((name for name in order if name not in tried), order[0])

    @runs(actions.RETRY)
    def retry(self) -> None:
        """Answer the last (or the marked) message again with the same method, the sampling in force, and a new seed."""
        index, answer = self._subject("retry")
        sampling = dict(self.host.dialogue.request()["sampling"])
        if sampling["temperature"]:
            sampling["seed"] = randbelow(SEEDS)
        self._ask_again(index, answer, sampling=sampling)

    def _subject(self, what: str) -> tuple[int, Answer | None]:
        """Find the answer to replace: its index in the transcript (even if missing), and the answer.

        Raises:
            UserError: there is none, or nothing can be asked now.
        """
        self._must_be_ready(what)
        prompt = marked_prompt(self.host) or next(reversed(prompts_of(self.host)), None)
        if prompt is None:
            raise NotPossible("There is no message to answer yet. Ask something first.")
        entries = self.host.dialogue.transcript.entries
        index = index_of(self.host, prompt) + 1
        entry = entries[index] if index < len(entries) else None
        return index, entry if isinstance(entry, Answer) else None

    def _must_be_ready(self, what: str) -> None:
        self.host.dialogue.must_be_idle(what)
        if self.host.dialogue.phase != "ready":
            raise UserError(f"No model is ready. Wait for it, or load one with /model, then {what}.")

    def _ask_again(self, index: int, answer: Answer | None, **changes: object) -> None:
        """Request an answer once more: as before, where that is still possible, but for some changes."""
        dialogue = self.host.dialogue
        current = dialogue.request()
        earlier = answer.asked if answer is not None else {}
        request = {**current, **{key: earlier[key] for key in current if key in earlier}, "model": dialogue.model}
        if request["method"] not in dialogue.methods or request["method"] in dialogue.unavailable:
            request |= {"method": current["method"], "settings": current["settings"]}
        self.message_edit.leave()
        if index < len(dialogue.transcript.entries):
            lay_aside(self.host, index)
        dialogue.ask_again({**request, **changes})
        self._follow()

    def _follow(self) -> None:
        self.host.changed()
        self.host.view.follow()
        self.host.expect_events()

    @runs(actions.GO_ON)
    def go_on(self) -> None:
        """Let a base model continue the text."""
        self._must_be_ready("go on")
        if not self.host.dialogue.completes:
            raise NotPossible("This model answers messages. Send one that asks it to go on.")
        if not prompts_of(self.host):
            raise NotPossible("There is no text to go on from yet. Type its beginning first.")
        self.host.dialogue.submit("")
        self._follow()

    # Other variants

    @runs(actions.UNDO)
    def undo(self) -> None:
        self.host.dialogue.must_be_idle("take it back")
        prompts = prompts_of(self.host)
        if not prompts:
            raise NotPossible("There is nothing to undo: you have not sent a message in this chat.")
        self.message_edit.leave()
        lay_aside(self.host, index_of(self.host, prompts[-1]))
        self.host.changed()
        self.host.tell(
            f"Removed your last message and its answer. {shown_keys('variant_before', self.host.live.keymap)} restores them."
        )

    @runs(actions.VARIANT_BEFORE, -1)
    @runs(actions.VARIANT_AFTER, 1)
    def turn(self, step: int) -> None:
        """Show the previous variant (`step` −1) or the next (1) of the marked entry, else of the last one with variants."""
        self.host.dialogue.must_be_idle("look at the other variants")
        transcript, view = self.host.dialogue.transcript, self.host.view
        entries = transcript.entries
        index = self._entry_with_variants()
        fork = transcript.fork_of(index) if index is not None else None
        if index is None or fork is None:
            raise NotPossible("There are no other variants here. Edit a message or retry an answer to make one.")
        self.message_edit.leave()
        place = transcript.fork_place(index)
        to = (fork.at + step) % len(fork.ends)
        if index >= len(entries):  # the variant in force is the one that undo left empty
            to = len(fork.ends) - 2 if step < 0 else 0
        marked = view.mark.entry is not None
        offset = view.tops[place] - view.scroll_offset.y if not view.following and place < len(view.tops) else None
        transcript.turn_variant(place, to)
        view.rewind(place)
        self.host.changed()
        entry = next((entry for entry in entries[place:] if isinstance(entry, Prompt | Answer)), entries[place])
        view.mark.entry = entry if marked and isinstance(entry, Prompt | Answer) else None
        if offset is not None:
            view.scroll_to(y=max(0, view.tops[place] - offset), animate=False, immediate=True, force=True)
        self._flash(entry, fork.at, len(fork.ends))

    def _entry_with_variants(self) -> int | None:
        """Choose the entry whose variants keys go through, by its index; None if there is none."""
        transcript, marked = self.host.dialogue.transcript, self.host.view.mark.entry
        entries = transcript.entries
        candidates = range(len(entries), -1, -1)  # from the end that undo has removed
        if marked is not None and marked in entries:
            at = entries.index(marked)
            candidates = range(at, min(at + 2, len(entries)))
        forks = ((index, transcript.fork_of(index)) for index in candidates)
        return next((index for index, fork in forks if fork is not None and len(fork.ends) > 1), None)

    def _flash(self, entry: ChatEntry, at: int, of: int) -> None:
        answer = isinstance(entry, Answer)
        number = (f"{'answer' if answer else 'message'} {at + 1} of {of}", "$foreground")
        name = (f"   {name_of(entry)}" if isinstance(entry, Answer) else "", "$quiet")
        keys = " ".join(shown_keys(id, self.host.live.keymap) for id in ("variant_before", "variant_after"))
        self.host.flash(Content.assemble(number, name, "   ", (keys, "bold $primary"), (" the others", "$quiet")))
