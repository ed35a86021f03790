"""Runs, the tokens that one pass of a server gave together, cut from a stream's chunks as far as the server reports them.

*exact*: the server reported which tokens came from one pass, and its own counters agree. *unknown*: it did not, or they do not.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from ...errors import counted
from .events import NO_ID, Chunk, Counters, Timings, count

Certainty = Literal["exact", "unknown"]

LONGEST_RUN = 4096
"""Most tokens of a run; no engine drafts nearly as many, so a larger number is not believed."""

_WORDS = re.compile(r"\s*\S+")

UNREPORTED = "vLLM does not tell its passes. Start it with --per-request-spec-decode-metrics detailed to see them."

HIDDEN = (
    "Some tokens came without text (parts of a character, marks of a thought, white space around JSON), and llama-server does "
    "not show the passes among them: so the runs of this answer are not told."
)


@dataclass(slots=True)
class RemoteRun:
    """The tokens of one pass."""

    text: str
    tokens: list[int]
    """Ids; NO_ID for those that are not known."""
    drafted: int = 0
    accepted: int = 0
    seconds: float = 0.0
    spans: list[list[int]] = field(default_factory=list)
    """Thought and answer, in the rows of `StepRecord.spans`."""


@dataclass(slots=True)
class Outcome:
    """The figures of an answer, as far as it got; None for those that the server does not send."""

    reason: str = ""
    """A reason of the engine's `Finished`; empty until the server gives one."""
    certainty: Certainty = "unknown"
    doubt: str = ""
    """Sentences, if the server contradicts itself or hides something."""
    prompt_tokens: int | None = None
    prompt_ids: tuple[int, ...] = ()
    reused: int | None = None
    """Prompt tokens that were in the server's cache."""
    tokens: int | None = None
    steps: int | None = None
    drafted: int | None = None
    accepted: int | None = None
    prefill_seconds: float = 0.0
    decode_seconds: float = 0.0
    silent: bool = False
    """Whether the server turned out to report nothing of its passes."""

    def add_doubt(self, sentence: str) -> None:
        """Add a sentence, once."""
        if sentence not in self.doubt:
            self.doubt = f"{self.doubt} {sentence}".lstrip()


class Cutter(ABC):
    """Cuts chunks into runs. No text is lost: `finish` returns all that `push` holds back.

    Args:
        outcome: of the answer, whose certainty, doubts and counts it sets.
        certainty: known before the first chunk.
    """

    def __init__(self, outcome: Outcome, certainty: Certainty = "unknown") -> None:
        self._outcome = outcome
        outcome.certainty = certainty
        self._late = ""
        """Text without counters or ids, which goes into the next run."""

    @abstractmethod
    def push(self, chunk: Chunk, now: float) -> list[RemoteRun]:
        """Add a chunk that arrived `now`, in seconds; return the complete runs."""

    @abstractmethod
    def finish(self, final: Counters | None) -> list[RemoteRun]:
        """Return the rest at the end, and set the counts; `final` is None if the stream broke off."""

    def _take(self, text: str = "") -> str:
        """Return text behind the late text, which is used up."""
        text = self._late + text
        self._late = ""
        return text

    def _doubt(self, sentence: str) -> None:
        if self._outcome.certainty == "exact":
            self._outcome.certainty = "unknown"
            self._outcome.add_doubt(sentence)


@dataclass(slots=True)
class _OpenPass:
    """A pass whose tokens are still coming."""

    at: Timings
    first: int
    """The counter at its first token that shows."""
    last: int
    text: str = ""


class ByTimings(Cutter):
    """Cuts llama-server's chunks: tokens with equal `predicted_ms` come from one pass, which gives its accepted tokens and one
    more."""

    def __init__(self, outcome: Outcome) -> None:
        super().__init__(outcome, "exact")
        self._settled = Timings()
        """The counters before the open pass."""
        self._open: _OpenPass | None = None
        self._may_be_longer = False
        """Whether the last pass may be longer than it seems: its first token did not show, so its last may not either."""

    def push(self, chunk: Chunk, now: float) -> list[RemoteRun]:
        timings, runs = chunk.timings, list[RemoteRun]()
        if timings is None:
            self._late += chunk.text
            return runs
        if self._open is not None and timings.milliseconds != self._open.at.milliseconds:
            runs += self._close(self._open)
        if self._open is None and timings.predicted == self._settled.predicted:  # text that a stop word had held back
            self._late += chunk.text
            return runs
        if not self._plausible(timings):
            return [*runs, RemoteRun(self._take(chunk.text), [NO_ID])] if chunk.text else runs
        if self._open is None:
            if self._settled.predicted == 0 and timings.predicted > 1:  # the prompt's pass gives one token, which did not show
                self._settled = Timings(predicted=1)
                runs.append(RemoteRun("", [NO_ID]))
            if self._may_be_longer and timings.predicted != self._settled.predicted + 1:
                self._doubt(HIDDEN)
            self._may_be_longer = False
            self._open = _OpenPass(timings, timings.predicted, timings.predicted)
        running = self._open
        running.text += self._take(chunk.text)
        running.last = max(running.last, timings.predicted)
        end = self._settled.predicted + timings.accepted - self._settled.accepted + 1
        # If its first token shows, nothing is hidden: its length is known before the next pass comes.
        if running.first == self._settled.predicted + 1 and running.last >= end:
            runs += self._close(running)
        return runs

    def finish(self, final: Counters | None) -> list[RemoteRun]:
        runs, outcome, last = list[RemoteRun](), self._outcome, final.timings if final is not None else None
        if self._open is not None:
            same = last is not None and last.milliseconds == self._open.at.milliseconds
            if same and last is not None and self._plausible(last):  # an end token does not show
                self._open.last = max(self._open.last, last.predicted)
            runs += self._close(self._open, ended=same or last is None)
        if last is not None and last.predicted > self._settled.predicted and self._plausible(last):
            runs += self._close(_OpenPass(last, last.predicted, last.predicted), ended=True)
        if self._late:
            runs.append(RemoteRun(self._take(), []))
        if last is not None:
            outcome.tokens = last.predicted
            outcome.drafted = last.drafted
            outcome.accepted = last.accepted
            if last.predicted != self._settled.predicted:
                self._doubt(f"The server counts {counted(last.predicted, 'token')}, its stream {self._settled.predicted:,}.")
        return runs

    def _plausible(self, timings: Timings) -> bool:
        drafted = timings.drafted - self._settled.drafted
        accepted = timings.accepted - self._settled.accepted
        predicted = timings.predicted - self._settled.predicted
        if 0 <= accepted <= drafted <= LONGEST_RUN and 0 < predicted <= LONGEST_RUN:
            return True
        self._doubt("The server's counters contradict each other.")
        return False

    def _close(self, running: _OpenPass, ended: bool = False) -> list[RemoteRun]:
        """Return the pass's run, behind those of the passes before it that did not show."""
        before, at = self._settled, running.at
        self._open = None
        drafted, accepted = at.drafted - before.drafted, at.accepted - before.accepted
        tokens = running.last - before.predicted
        if not ended:  # its last token may not show
            tokens = max(tokens, accepted + 1)
        self._settled = Timings(before.predicted + tokens, at.milliseconds, at.drafted, at.accepted)
        hidden = max(0, tokens - accepted - 1)
        self._may_be_longer = drafted > 0 and running.first > before.predicted + 1
        if drafted and (hidden or (ended and self._may_be_longer and tokens != accepted + 1)):
            self._doubt(HIDDEN)
        seconds = max(0.0, at.milliseconds - before.milliseconds) / 1000 / (hidden + 1)
        tokens -= hidden
        # Tokens that were accepted behind the end of the answer are not in it.
        run = RemoteRun(running.text, [NO_ID] * tokens, drafted, min(accepted, tokens), seconds)
        return [*(RemoteRun("", [NO_ID], seconds=seconds) for _ in range(hidden)), run]


class ByIds(Cutter):
    """Cuts vLLM's chunks, which have the ids of one pass each, unless the server was behind and merged some. At the end its own
    account of the passes proves them right or wrong.

    Args:
        outcome: of the answer.
        drafts: whether the server speculates; without, each token is a pass.
        certainty: known from its answers so far.
    """

    def __init__(self, outcome: Outcome, drafts: bool | None, certainty: Certainty = "exact") -> None:
        super().__init__(outcome, "exact" if drafts is False else certainty)
        self._drafts = drafts
        self._before: float | None = None
        self._lengths: list[int] = []

    def push(self, chunk: Chunk, now: float) -> list[RemoteRun]:
        ids = chunk.ids or ()
        if not ids:
            self._late += chunk.text
            return []
        seconds = now - self._before if self._before is not None else 0.0
        self._before = now
        text = self._take(chunk.text)
        if self._drafts is False:
            share = seconds / len(ids)
            return [RemoteRun("", [id], seconds=share) for id in ids[:-1]] + [RemoteRun(text, [ids[-1]], seconds=share)]
        self._lengths.append(len(ids))
        # The first comes from the prompt's pass.
        return [RemoteRun(text, list(ids), accepted=len(ids) - 1 if len(self._lengths) > 1 else 0, seconds=seconds)]

    def finish(self, final: Counters | None) -> list[RemoteRun]:
        if final is not None:
            if final.speculation is not None:
                self._check(final.speculation)
            elif self._drafts is not False and not final.stopped:  # at a stop text vLLM gives no account
                self._outcome.silent = True
                self._doubt(UNREPORTED)
            self._outcome.tokens = final.tokens
            length = sum(self._lengths)
            if self._drafts is not False and final.tokens not in (None, length):
                self._doubt(f"The server counts {counted(final.tokens or 0, 'token')}, its stream {length:,}.")
        return [RemoteRun(self._take(), [])] if self._late else []

    def _check(self, account: Mapping[str, Any]) -> None:
        """Compare the chunks with the server's account of its passes: a merged chunk has more tokens than a pass accepted."""
        outcome, passes = self._outcome, account.get("per_step_accepted")
        outcome.accepted = count(account.get("num_accepted_draft_tokens"))
        outcome.drafted = count(account.get("num_draft_tokens"))
        outcome.certainty = "exact"
        gains = [length - 1 for length in self._lengths[1:] if length > 1]
        agree = sum(gains) <= (outcome.accepted or 0)
        if isinstance(passes, list):
            counts = list(filter(count, passes))
            agree = gains == counts[:-1]  # the last pass may have been cut
            agree |= len(gains) == len(counts) and gains[:-1] == counts[:-1] and gains[-1:] <= counts[-1:]
        if not agree:
            accepted = counted(outcome.accepted or 0, "accepted token")
            self._doubt(f"The server counts {accepted}, its chunks show {sum(gains):,}. It merged passes into one chunk.")


class Uncut(Cutter):
    """Returns text as it comes, as nothing tells its passes: one chunk need not be one pass."""

    def __init__(self, outcome: Outcome) -> None:
        super().__init__(outcome)
        self._before: float | None = None

    def push(self, chunk: Chunk, now: float) -> list[RemoteRun]:
        if not chunk.text:
            return []
        seconds = now - self._before if self._before is not None else 0.0
        self._before = now
        # Nearly always a token; of a whole answer, words are nearest.
        return [RemoteRun(chunk.text, [NO_ID] * max(1, len(_WORDS.findall(chunk.text))), seconds=seconds)]

    def finish(self, final: Counters | None) -> list[RemoteRun]:
        if final is not None:
            account, outcome = final.speculation or {}, self._outcome
            passes = count(account.get("spec_verify_ct"))
            outcome.tokens = final.tokens
            outcome.steps = None if passes is None else passes + 1
            outcome.drafted = count(account.get("spec_num_proposed_drafts"))
            outcome.accepted = count(account.get("spec_num_correct_drafts"))
        return []
