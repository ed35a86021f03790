"""Answers asked for once more, exchanges taken back, and the way from one variant to the other."""

from __future__ import annotations

import re
from dataclasses import asdict
from secrets import randbelow
from typing import Any

from textual.content import Content

from ....engine.options import Sampling
from ....errors import NotPossible, UserError
from ...chat.compare import name_of
from ...chat.entries import Answer, Prompt
from ...settings import actions
from ...settings.keymap import shown_keys
from ..host import Host
from .registry import runs
from .rewrite import MessageEdit, index_of, lay_aside, marked_prompt, prompts_of
from .switch import method_settings
from .table import pairs

SEEDS = 1_000_000
"""New seeds are below this: short enough to be read out and typed."""

SEEDED = re.compile(r"same|new|seed=\d{1,18}")
"""Words after `/retry` that choose the seed."""


class Retries:
    """Answers again, takes back, and turns to other variants: /retry, /compare, /undo."""

    def __init__(self, host: Host, message_edit: MessageEdit) -> None:
        self.host, self.message_edit = host, message_edit

    # Answers once more

    @runs(actions.COMPARE)
    def compare(self, *words: str) -> None:
        """Answer the last (or the marked) message with `METHOD key=value …`; alone, with the next method that has not."""
        dialogue = self.host.dialogue
        index, answer = self._subject("compare")
        tried = [each.method for each in dialogue.transcript.variants.answers(dialogue.transcript.entries, index)] or [
            answer.method if answer else dialogue.method
        ]
        if words:
            name, *rest = words
            settings = method_settings(dialogue, name, pairs(rest, "/compare METHOD key=value …"))
        else:
            name = self._next(tried)
            settings = dict(dialogue.settings.get(name, {}))
        self._again(index, {**self._request(answer), "method": name, "settings": settings})

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
            words: `same`, `new` or `seed=N`: the same seed, a new one or this one; a new one where empty, if there is a
                temperature. A new one goes with the sampling in force, the others with the answer's own.
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
            sampling = dict(current)  # set since
        if how != "same" and not sampling.get("temperature"):
            raise NotPossible("At temperature 0 the seed changes nothing. Use /set temperature=0.8 first, then retry.")
        if reason := dialogue.unavailable.get(request["method"]):
            raise UserError(f"{request['method']} cannot run on this model: {reason}")
        if how == "new":
            sampling["seed"] = randbelow(SEEDS)
        elif how != "same":
            sampling["seed"] = int(how.removeprefix("seed="))
        self._again(index, {**request, "sampling": sampling})

    def _request(self, answer: Answer | None) -> dict[str, Any]:
        """What to ask with once more: what the answer was asked with as far as that can be used, else what is in force."""
        dialogue = self.host.dialogue
        request = dialogue.request()
        if answer is None or not answer.asked:
            return request
        asked = {key: value for key, value in answer.asked.items() if key in request}
        try:
            asked["sampling"] = asdict(Sampling(**asked["sampling"]))
        except (TypeError, UserError):  # of another version
            asked.pop("sampling")
        if asked["method"] not in dialogue.methods or (dialogue.info.get("server") and asked["method"] in dialogue.unavailable):
            del asked["method"], asked["settings"]
        return {**request, **asked, "model": dialogue.model}

    def _subject(self, what: str) -> tuple[int, Answer | None]:
        """Where the answer to ask for anew is (or would be), and the answer."""
        self.host.dialogue.must_be_idle(what)
        dialogue = self.host.dialogue
        if dialogue.phase != "ready":
            raise UserError(f"No model is ready. Wait for it, or load one with /model, then {what}.")
        prompt = marked_prompt(self.host) or next(reversed(prompts_of(self.host)), None)
        if prompt is None:
            raise NotPossible("There is no message to answer yet. Ask something first.")
        entries = dialogue.transcript.entries
        index = index_of(self.host, prompt) + 1
        found = entries[index] if index < len(entries) else None
        return index, found if isinstance(found, Answer) else None

    def _again(self, index: int, request: dict[str, Any]) -> None:
        self.message_edit.leave()
        transcript = self.host.dialogue.transcript
        if index < len(transcript.entries):
            lay_aside(self.host, index)
        self.host.dialogue.ask_again(request)
        self.host.changed()
        self.host.view.follow()
        self.host.stir()

    @runs(actions.GO_ON)
    def go_on(self) -> None:
        """Let a base model write more, from where the text ends."""
        dialogue = self.host.dialogue
        dialogue.must_be_idle("go on")
        if dialogue.phase != "ready":
            raise UserError("No model is ready. Wait for it, or load one with /model, then go on.")
        if not dialogue.completes:
            raise NotPossible("This model answers messages. Send one that asks it to go on.")
        if not prompts_of(self.host):
            raise NotPossible("There is no text to go on from yet. Type its beginning first.")
        dialogue.submit("")
        self.host.changed()
        self.host.view.follow()
        self.host.stir()

    # From variant to variant

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
        """Show another variant of the marked entry, else of the last one in sight that has any.

        Args:
            step: −1 for the one before, 1 for the one after; round and round.
            index: of the entry, where it is known.
        """
        self.host.dialogue.must_be_idle("look at the other variants")
        transcript, view = self.host.dialogue.transcript, self.host.view
        entries, variants = transcript.entries, transcript.variants
        if index is None:
            index = self._turning()
        fork = variants.of(entries, index) if index is not None else None
        if index is None or fork is None:
            raise NotPossible("There are no other variants here. Edit a message or retry an answer to make one.")
        self.message_edit.leave()
        place = variants.place(entries, index)
        empty = index >= len(entries)
        to = (len(fork.ends) - 2 if step < 0 else 0) if empty else (fork.at + step) % len(fork.ends)
        marked = view.mark.entry is not None
        offset = view.tops[place] - view.scroll_offset.y if not view.following and place < len(view.tops) else None
        variants.turn(entries, place, to)
        transcript.start = transcript.start if transcript.start <= place else 0
        view.rewind(place)
        self.host.changed()
        shown = next((i for i in range(place, len(entries)) if isinstance(entries[i], Prompt | Answer)), place)
        entry = entries[shown]
        view.mark.entry = entry if marked and isinstance(entry, Prompt | Answer) else None
        if offset is not None:
            view.scroll_to(y=max(0, view.tops[place] - offset), animate=False, immediate=True, force=True)
        self._say(entry, fork.at, len(fork.ends))

    def _turning(self) -> int | None:
        """The entry whose variants keys go through; None if there is none."""
        transcript, view = self.host.dialogue.transcript, self.host.view
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
        what = "answer" if isinstance(entry, Answer) else "message"
        parts: list[Any] = [(f"{what} {at + 1} of {of}", "$foreground")]
        if isinstance(entry, Answer):
            parts.append((f"   {name_of(entry)}", "$quiet"))
        keys = " ".join(shown_keys(id, self.host.live.keymap) for id in ("variant_before", "variant_after"))
        self.host.flash(Content.assemble(*parts, "   ", (keys, "bold $primary"), (" the others", "$quiet")))
