"""Messages written anew, answers asked for once more, and the way from one variant to the other, on the chat screen."""

from __future__ import annotations

from secrets import randbelow
from typing import TYPE_CHECKING, Any

from textual.content import Content

from ..backends.base import Sampling, UserError
from .attachments import Attachment, escaped, parted, size_of
from .cells import one_line
from .slash import is_command, pairs
from .transcript import Answer, Prompt, Transcript
from .variants_table import name_of

if TYPE_CHECKING:
    from .chat import SpecchatApp

SEEDS = 1_000_000
"""New seeds are below this: short enough to be read out and typed."""


class Rewriting:
    """Edits, retries, takes back and turns to other variants.

    Args:
        chat: the app.
    """

    def __init__(self, chat: SpecchatApp) -> None:
        self.chat = chat
        self.files: dict[str, Attachment] = {}
        """What stands in the input box for a file of a message that was put back there → that file."""
        self._prompt: Prompt | None = None
        """The message that is written anew."""
        self._draft = ""
        """What was in the input box before."""
        self._first = ""
        """The message as it was put into the box."""
        self._base: Transcript | None = None
        self._cut = False
        """What follows is laid aside already."""
        self._left: dict[int, tuple[Prompt, str]] = {}  # texts of edits that were left, by the id of the message

    def command(self, name: str, arguments: list[str]) -> None:
        """What /edit, /retry, /regenerate and /undo do.

        Raises:
            UserError: it cannot be done; nothing has changed.
        """
        match name, arguments:
            case "edit", []:
                self.edit()
            case "edit", [number] if number.isdecimal() and len(number) < 10:
                self.edit(int(number))
            case "edit", _:
                raise UserError("/edit takes the number of a message of yours, 1 for the first; alone, it takes the last one.")
            case "retry", _:
                self.retry(arguments)
            case "regenerate", _:
                self.regenerate(arguments)
            case _:
                self.undo()

    # Editing

    @property
    def active(self) -> bool:
        """Whether a message is being written anew."""
        return self._prompt is not None

    @property
    def base(self) -> Transcript:
        """The chat that the next message goes to: the one on the screen, or its beginning up to the message written anew."""
        transcript = self.chat.dialogue.transcript
        if self._prompt is None or self._cut:
            return transcript
        if self._base is None:
            entries = transcript.entries[: self._index(self._prompt)]
            self._base = Transcript(entries, transcript.system, transcript.start if transcript.start <= len(entries) else 0)
        return self._base

    def edit(self, number: int | None = None) -> None:
        """Put a message back into the input box.

        Args:
            number: which of the person's messages, from 1 on; the marked or the last one if None.

        Raises:
            UserError: there is none of that number.
        """
        prompts = self._prompts()
        if not prompts:
            raise UserError("There is no message to edit yet: ask something first.")
        if number is not None and not 1 <= number <= len(prompts):
            some = "one message" if len(prompts) == 1 else f"{len(prompts)} messages"
            raise UserError(f"This chat has {some} of yours: there is no number {number}.")
        prompt = prompts[number - 1] if number is not None else self._marked_prompt() or prompts[-1]
        if prompt is self._prompt:
            return
        self.leave()
        box = self.chat.chat_screen.input
        self._prompt, self._draft, self._cut, self._base = prompt, "" if is_command(box.text) else box.text, False, None
        _, text = self._left.pop(id(prompt), (prompt, ""))
        self._first = self._typed(prompt)
        box.put(text or self._first)
        box.focus()
        self._show()

    def _typed(self, prompt: Prompt) -> str:
        """A message as it may have been typed; its files and pasted texts fold."""
        message, attachments = parted(prompt.text)
        box = self.chat.chat_screen.input
        chips = []
        for attachment in attachments:
            name = one_line(attachment.name)
            chip = box.chip_for(f"[{name} · {size_of(attachment.size)}]" if attachment.file else f"[{name}]", attachment.text)
            self.files[chip] = attachment
            chips.append(chip)
        return "\n".join([*chips, *filter(None, [escaped(message)])])

    def leave(self) -> bool:
        """No longer write a message anew: the draft comes back. False if none was."""
        if self._prompt is None:
            return False
        box = self.chat.chat_screen.input
        if box.text.strip() and box.text != self._first:
            self._left[id(self._prompt)] = (self._prompt, box.text)
        self._end()
        return True

    def _end(self) -> None:
        box = self.chat.chat_screen.input
        self._prompt, self._base, self._cut = None, None, False
        box.put(self._draft)
        self._draft = ""
        self._show()

    def _show(self) -> None:
        """Say at the input box what is in it."""
        composer = self.chat.chat_screen.query_one("#composer")
        composer.set_class(self.active, "-edit")
        composer.border_title = ""
        composer.border_subtitle = ""
        if self._prompt is not None:
            prompts = self._prompts()
            number = next((n for n, prompt in enumerate(prompts, 1) if prompt is self._prompt), 0)
            composer.border_title = f"message {number} of {len(prompts)}, anew"
            composer.border_subtitle = "enter sends · esc back to the draft" if self._draft else "enter sends · esc leaves it"

    def branch(self) -> None:
        """Lay aside the message that is written anew, and what follows it; once."""
        if self._prompt is None or self._cut:
            return
        base = self.base
        self._lay_aside(self._index(self._prompt))
        self.chat.dialogue.transcript.start = base.start
        self._cut = True

    def submit(self, sent: str, draft: str) -> bool:
        """Ask, in the place of the message that is written anew if one is; False if that must wait."""
        dialogue = self.chat.dialogue
        if dialogue.phase in ("prefill", "writing") or dialogue.queued is not None:
            return False
        self.branch()
        return dialogue.submit(sent, draft)

    def sent(self) -> None:
        """The message is out of the input box: the draft may come back."""
        if self._prompt is not None:
            self._left.pop(id(self._prompt), None)
            self._draft = self._draft or self.chat.chat_screen.input.text
            self._end()

    # Answers once more

    def retry(self, arguments: list[str]) -> None:
        """Answer the last (or the marked) message with another method.

        Args:
            arguments: `METHOD key=value …`; the next method that has not answered it where empty.

        Raises:
            UserError: it cannot be done; nothing has changed.
        """
        from ..engine.catalog import get, parse_params

        dialogue = self.chat.dialogue
        index, answer = self._subject("retry")
        tried = [each.method for each in dialogue.transcript.variants.answers(dialogue.transcript.entries, index)] or [
            answer.method if answer else dialogue.method
        ]
        if arguments:
            name, *rest = arguments
            given = pairs(rest, "/retry METHOD key=value …")
            if name not in dialogue.methods:
                get(name)  # raises with the nearest name
            if reason := dialogue.unavailable.get(name):
                raise UserError(f"{name} cannot run on this model: {reason}")
            settings = {**dialogue.settings.get(name, {}), **given}
            if given:
                parse_params(get(name), settings)
        else:
            name = self._next(tried)
            settings = dict(dialogue.settings.get(name, {}))
        self._again(index, {**self._wish(answer), "method": name, "settings": settings})

    def _next(self, tried: list[str]) -> str:
        dialogue = self.chat.dialogue
        names = [name for name in dialogue.methods if name not in dialogue.unavailable]
        at = names.index(tried[-1]) if tried[-1] in names else -1
        order = [*names[at + 1 :], *names[: at + 1]]
        if not any(name != tried[-1] for name in order):
            raise UserError("This model can run one method only: there is no other to retry with.")
        return next((name for name in order if name not in tried), order[0])

    def regenerate(self, arguments: list[str]) -> None:
        """Answer the last (or the marked) message with the same method, settings and seed; with a new seed if that is asked.

        Args:
            arguments: nothing, `new`, or `seed=N`.

        Raises:
            UserError: it cannot be done; nothing has changed.
        """
        dialogue = self.chat.dialogue
        index, answer = self._subject("regenerate")
        wish = self._wish(answer)
        sampling = dict(wish["sampling"])
        if arguments and not sampling["temperature"]:  # one may have been set since
            sampling = dialogue.wish()["sampling"]
        match arguments:
            case []:
                pass
            case ["new"]:
                sampling["seed"] = randbelow(SEEDS)
            case [text] if text.startswith("seed=") and text[5:].isdecimal() and len(text) < 24:
                sampling["seed"] = int(text[5:])
            case _:
                raise UserError("/regenerate takes nothing (the same seed), new (a new one) or seed=N.")
        if arguments and not sampling.get("temperature"):
            raise UserError("At temperature 0 a seed changes nothing: /set temperature=0.8 first, then regenerate.")
        if reason := dialogue.unavailable.get(wish["method"]):
            raise UserError(f"{wish['method']} cannot run on this model: {reason}")
        self._again(index, {**wish, "sampling": sampling})

    def _wish(self, answer: Answer | None) -> dict[str, Any]:
        """What to ask with once more: what the answer was asked with as far as that can be used, else what is in force."""
        dialogue = self.chat.dialogue
        wish = dialogue.wish()
        if answer is None or not answer.asked:
            return wish
        asked = {key: value for key, value in answer.asked.items() if key in wish}
        try:
            Sampling(**asked["sampling"])
        except (TypeError, UserError):  # of another version
            asked.pop("sampling")
        if asked["method"] not in dialogue.methods:
            del asked["method"], asked["settings"]
        return {**wish, **asked, "model": dialogue.model}

    def _subject(self, what: str) -> tuple[int, Answer | None]:
        """Where the answer to ask for anew is (or would be), and the answer.

        Raises:
            UserError: there is none, or it must wait.
        """
        self._idle(what)
        dialogue = self.chat.dialogue
        if dialogue.phase != "ready":
            raise UserError(f"No model is ready: wait for it or load one with /model, then {what}.")
        prompt = self._marked_prompt() or next(iter(self._prompts()[::-1]), None)
        if prompt is None:
            raise UserError("There is no message to answer yet: ask something first.")
        entries = dialogue.transcript.entries
        index = self._index(prompt) + 1
        found = entries[index] if index < len(entries) else None
        return index, found if isinstance(found, Answer) else None

    def _again(self, index: int, wish: dict[str, Any]) -> None:
        self.leave()
        transcript = self.chat.dialogue.transcript
        if index < len(transcript.entries):
            self._lay_aside(index)
        self.chat.dialogue.ask_again(wish)
        self.chat.chat_screen.refresh_dialogue()
        self.chat.chat_screen.view.follow()
        self.chat.stir()

    # From variant to variant

    def undo(self) -> None:
        """Take back the last message and its answer.

        Raises:
            UserError: there is none, or it must wait.
        """
        self._idle("take it back")
        prompts = self._prompts()
        if not prompts:
            raise UserError("There is nothing to take back: this chat has no message of yours.")
        self.leave()
        self._lay_aside(self._index(prompts[-1]))
        self.chat.changed()
        self.chat.tell(f"Taken back. {self._key('variant_before')} brings it back.")

    def turn(self, step: int, index: int | None = None) -> None:
        """Show another variant of the marked entry, else of the last one in sight that has any.

        Args:
            step: −1 for the one before, 1 for the one after; round and round.
            index: of the entry, where it is known.

        Raises:
            UserError: there is none, or it must wait.
        """
        self._idle("look at the other variants")
        transcript, view = self.chat.dialogue.transcript, self.chat.chat_screen.view
        entries, variants = transcript.entries, transcript.variants
        if index is None:
            index = self._turning()
        fork = variants.of(entries, index) if index is not None else None
        if index is None or fork is None:
            raise UserError("There is no other variant here: edit a message or retry an answer, and there will be.")
        self.leave()
        place = variants.place(entries, index)
        empty = index >= len(entries)
        to = (len(fork.ends) - 2 if step < 0 else 0) if empty else (fork.at + step) % len(fork.ends)
        marked = view.mark.entry is not None
        offset = view.tops[place] - view.scroll_offset.y if not view.following and place < len(view.tops) else None
        variants.turn(entries, place, to)
        transcript.start = transcript.start if transcript.start <= place else 0
        view.rewind(place)
        self.chat.changed()
        shown = next((i for i in range(place, len(entries)) if isinstance(entries[i], Prompt | Answer)), place)
        entry = entries[shown]
        view.mark.entry = entry if marked and isinstance(entry, Prompt | Answer) else None
        if offset is not None:
            view.scroll_to(y=max(0, view.tops[place] - offset), animate=False, immediate=True, force=True)
        self._say(entry, fork.at, len(fork.ends))

    def attempt(self, what: str, *arguments: Any) -> None:
        """For keys and the palette: do it, or tell what is in the way."""
        try:
            getattr(self, what)(*arguments)
        except UserError as error:
            self.chat.tell(str(error), "warning")

    def _turning(self) -> int | None:
        """The entry whose variants keys go through; None if there is none."""
        transcript, view = self.chat.dialogue.transcript, self.chat.chat_screen.view
        entries, variants = transcript.entries, transcript.variants

        def several(index: int) -> bool:
            fork = variants.of(entries, index)
            return fork is not None and len(fork.ends) > 1

        marked = view.mark.entry
        if marked is not None and marked in entries:
            at = entries.index(marked)
            return next((index for index in (at, at + 1) if index < len(entries) and several(index)), None)
        if several(len(entries)):  # its end was taken back
            return len(entries)
        every = [index for index in range(len(entries)) if several(index)]
        top, bottom = view.scroll_offset.y, view.scroll_offset.y + view.size.height
        shown = [index for index in every if index < len(view.tops)]
        seen = [index for index in shown if top - view.blocks[index].height < view.tops[index] < bottom]
        return seen[-1] if seen else every[-1] if every else None

    def _say(self, entry: Any, at: int, of: int) -> None:
        """Name the variant in the status line."""
        what = "answer" if isinstance(entry, Answer) else "message"
        parts: list[Any] = [(f"{what} {at + 1} of {of}", "$foreground")]
        if isinstance(entry, Answer):
            parts.append((f"   {name_of(entry)}", "$quiet"))
        keys = f"{self._key('variant_before')} {self._key('variant_after')}"
        from .widgets.status import StatusLine

        status = self.chat.chat_screen.query_one(StatusLine)
        status.flash(Content.assemble(*parts, "   ", (keys, "bold $primary"), (" the others", "$quiet")))

    # What they share

    def _lay_aside(self, index: int) -> None:
        transcript = self.chat.dialogue.transcript
        place = transcript.variants.begin(transcript.entries, index)
        transcript.start = transcript.start if transcript.start <= place else 0
        view = self.chat.chat_screen.view
        view.mark.clear()
        view.rewind(place)

    def _prompts(self) -> list[Prompt]:
        return [entry for entry in self.chat.dialogue.transcript.entries if isinstance(entry, Prompt)]

    def _marked_prompt(self) -> Prompt | None:
        """The message that is marked, or the one whose answer is."""
        marked, entries = self.chat.chat_screen.view.mark.entry, self.chat.dialogue.transcript.entries
        at = next((i for i, entry in enumerate(entries) if entry is marked), -1)
        return next((entry for entry in reversed(entries[: at + 1]) if isinstance(entry, Prompt)), None)

    def _index(self, entry: Prompt) -> int:
        return next(i for i, other in enumerate(self.chat.dialogue.transcript.entries) if other is entry)

    def _idle(self, what: str) -> None:
        if self.chat.dialogue.busy or self.chat.dialogue.queued is not None:
            raise UserError(f"An answer is under way: stop it with esc, then {what}.")

    def _key(self, id: str) -> str:
        from .keymap import CHAT, display

        keys = next(key.keys for key in CHAT if key.id == id)
        return display(self.chat.settings.keymap.get(id, keys))
