"""Retries, comparisons and undo, and turning from one variant to the next."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass
from secrets import randbelow
from typing import Any

from textual.content import Content

from ....engine.options import Sampling
from ....errors import NotPossible, UserError
from ...chat.compare import name_of
from ...chat.entries import Answer, ChatEntry, Prompt
from ...settings import actions
from ...settings.keymap import shown_keys
from ..host import Host
from .dispatch import runs
from .rewrite import MessageEdit, index_of, lay_aside, marked_prompt, prompts_of
from .switch import method_settings
from .table import pairs

SEEDS = 1_000_000
"""New seeds are below this: short enough to be read out and typed."""

SEEDED = re.compile(r"same|new|seed=\d{1,18}")
"""Words after `/retry` that choose the seed."""


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
        transcript = dialogue.transcript
        tried = [variant.method for variant in transcript.variant_answers(index)]
        tried = tried or [answer.method if answer else dialogue.method]
        if words:
            name, *rest = words
            settings = method_settings(dialogue, name, pairs(rest, "/compare METHOD key=value …"))
        else:
            name = self._next(tried)
            settings = dict(dialogue.settings.get(name, {}))
        self._ask_again(index, {**self._request(answer), "method": name, "settings": settings})

    def _next(self, tried: list[str]) -> str:
        dialogue = self.host.dialogue
        names = dialogue.shortlist()
        at = names.index(tried[-1]) if tried[-1] in names else -1
        order = [*names[at + 1 :], *names[: at + 1]]
        if not any(name != tried[-1] for name in order):
            raise NotPossible("This model has only one method, so there is no other to compare with.")
        return next((name for name in order if name not in tried), order[0])

    @runs(actions.RETRY)
    def retry(self, *words: str) -> None:
        """Answer the last (or the marked) message again with the same method and settings.

        Args:
            words: `same`, `new` or `seed=N`; by default a new seed at a temperature, else the same. A new seed comes with
                the sampling in force, the others with the answer's.
        """
        dialogue = self.host.dialogue
        index, answer = self._subject("retry")
        how = words[0] if words else ""
        if words and (len(words) > 1 or not SEEDED.fullmatch(how)):
            raise UserError(f"/retry takes same, new or seed=N. /compare {how} answers with another method.")
        request = self._request(answer)
        sampling, current = dict(request["sampling"]), dialogue.request()["sampling"]
        how = how or ("new" if sampling["temperature"] or current["temperature"] else "same")
        if (how == "new" and current["temperature"]) or (how != "same" and not sampling["temperature"]):
            sampling = dict(current)  # changed since the answer
        if how != "same" and not sampling.get("temperature"):
            raise NotPossible("At temperature 0 the seed changes nothing. Use /set temperature=0.8 first, then retry.")
        if reason := dialogue.unavailable.get(request["method"]):
            raise UserError(f"{request['method']} cannot run on this model: {reason}")
        if how == "new":
            sampling["seed"] = randbelow(SEEDS)
        elif how != "same":
            sampling["seed"] = int(how.removeprefix("seed="))
        self._ask_again(index, {**request, "sampling": sampling})

    def _request(self, answer: Answer | None) -> dict[str, Any]:
        """Build a request from the answer's, where still possible, and the settings in force."""
        dialogue = self.host.dialogue
        current = dialogue.request()
        if answer is None or not answer.asked:
            return current
        request = {key: value for key, value in answer.asked.items() if key in current}
        method = request["method"]
        try:
            request["sampling"] = asdict(Sampling(**request["sampling"]))
        except (TypeError, UserError):  # of another version
            request.pop("sampling")
        if method not in dialogue.methods or (dialogue.info.server and method in dialogue.unavailable):
            del request["method"], request["settings"]
        return {**current, **request, "model": dialogue.model}

    def _subject(self, what: str) -> tuple[int, Answer | None]:
        """Find the answer to replace: its index in the transcript (even if missing), and the answer.

        Raises:
            UserError: there is none, or nothing can be asked now.
        """
        self.host.dialogue.must_be_idle(what)
        dialogue = self.host.dialogue
        if dialogue.phase != "ready":
            raise UserError(f"No model is ready. Wait for it, or load one with /model, then {what}.")
        prompt = marked_prompt(self.host) or next(reversed(prompts_of(self.host)), None)
        if prompt is None:
            raise NotPossible("There is no message to answer yet. Ask something first.")
        entries = dialogue.transcript.entries
        index = index_of(self.host, prompt) + 1
        entry = entries[index] if index < len(entries) else None
        return index, entry if isinstance(entry, Answer) else None

    def _ask_again(self, index: int, request: dict[str, Any]) -> None:
        self.message_edit.leave()
        transcript = self.host.dialogue.transcript
        if index < len(transcript.entries):
            lay_aside(self.host, index)
        self.host.dialogue.ask_again(request)
        self._follow()

    def _follow(self) -> None:
        self.host.changed()
        self.host.view.follow()
        self.host.expect_events()

    @runs(actions.GO_ON)
    def go_on(self) -> None:
        """Let a base model continue the text."""
        dialogue = self.host.dialogue
        dialogue.must_be_idle("go on")
        if dialogue.phase != "ready":
            raise UserError("No model is ready. Wait for it, or load one with /model, then go on.")
        if not dialogue.completes:
            raise NotPossible("This model answers messages. Send one that asks it to go on.")
        if not prompts_of(self.host):
            raise NotPossible("There is no text to go on from yet. Type its beginning first.")
        dialogue.submit("")
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
    def turn(self, step: int, index: int | None = None) -> None:
        """Show another variant of the entry at `index`, else of the marked one, else of the last visible one with variants.

        Args:
            step: −1 for the previous variant, 1 for the next, cyclically.
            index: of the entry in the transcript.
        """
        self.host.dialogue.must_be_idle("look at the other variants")
        transcript, view = self.host.dialogue.transcript, self.host.view
        entries = transcript.entries
        if index is None:
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
        transcript.start = transcript.start if transcript.start <= place else 0
        view.rewind(place)
        self.host.changed()
        entry = next((entry for entry in entries[place:] if isinstance(entry, Prompt | Answer)), entries[place])
        view.mark.entry = entry if marked and isinstance(entry, Prompt | Answer) else None
        if offset is not None:
            view.scroll_to(y=max(0, view.tops[place] - offset), animate=False, immediate=True, force=True)
        self._flash(entry, fork.at, len(fork.ends))

    def _entry_with_variants(self) -> int | None:
        """Choose the entry whose variants keys go through, by its index; None if there is none."""
        transcript, view = self.host.dialogue.transcript, self.host.view
        entries = transcript.entries

        def several(index: int) -> bool:
            fork = transcript.fork_of(index)
            return fork is not None and len(fork.ends) > 1

        marked = view.mark.entry
        if marked is not None and marked in entries:
            at = entries.index(marked)
            return next((index for index in (at, at + 1) if index < len(entries) and several(index)), None)
        if several(len(entries)):  # undo has removed its end
            return len(entries)
        candidates = [index for index in range(len(entries)) if several(index)]
        top, bottom = view.scroll_offset.y, view.scroll_offset.y + view.size.height
        spans = enumerate(zip(view.tops, view.blocks, strict=True))
        visible = {n for n, (first, block) in spans if first + block.height > top and first < bottom}
        return max(visible.intersection(candidates), default=max(candidates, default=None))

    def _flash(self, entry: ChatEntry, at: int, of: int) -> None:
        answer = isinstance(entry, Answer)
        number = (f"{'answer' if answer else 'message'} {at + 1} of {of}", "$foreground")
        name = (f"   {name_of(entry)}" if isinstance(entry, Answer) else "", "$quiet")
        keys = " ".join(shown_keys(id, self.host.live.keymap) for id in ("variant_before", "variant_after"))
        self.host.flash(Content.assemble(number, name, "   ", (keys, "bold $primary"), (" the others", "$quiet")))
