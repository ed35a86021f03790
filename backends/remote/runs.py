"""From a stream's chunks to runs, the tokens that one pass of the server gave together, where it says which those are.

*exact*: the server told which tokens came from one pass, and its own counters agree. *unknown*: it did not, or they do not.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from ...errors import counted
from .chunks import NO_ID, Chunk, Timings
from .connection import count

Certainty = Literal["exact", "unknown"]

LONGEST_RUN = 4096
"""Tokens; no engine drafts nearly as many, so a larger number is not believed."""

_WORDS = re.compile(r"\s*\S+")

UNTOLD = "vLLM does not tell its passes. Start it with --per-request-spec-decode-metrics detailed to see them."

HIDDEN = (
    "Some tokens came without text (parts of a character, marks of a thought, white space around JSON), and llama-server does "
    "not show the passes among them: so the runs of this answer are not told."
)


@dataclass(slots=True)
class Run:
    """The tokens of one pass."""

    text: str
    tokens: list[int]
    """Ids; NO_ID where they are not known."""
    drafted: int = 0
    accepted: int = 0
    seconds: float = 0.0
    spans: list[list[int]] = field(default_factory=list)
    """As in `StepRecord`."""


@dataclass(slots=True)
class Told:
    """What a server counted; None where it did not."""

    tokens: int | None = None
    steps: int | None = None
    drafted: int | None = None
    accepted: int | None = None


class Cutter(ABC):
    """Makes runs of chunks. Text is never lost: what `push` keeps back, `finish` hands out."""

    def __init__(self) -> None:
        self.certainty: Certainty = "unknown"
        self.doubt = ""
        """A sentence where the server contradicts itself, or something is hidden."""
        self.told = Told()
        self.untold = False
        """It turned out that the server tells nothing of its passes."""

    @abstractmethod
    def push(self, chunk: Chunk, now: float) -> list[Run]:
        """Take a chunk that arrived `now`, in seconds; the runs that are complete."""

    @abstractmethod
    def finish(self, last: Chunk | None) -> list[Run]:
        """The rest, at the end. `last` has the server's final counters; None if the stream broke off."""


@dataclass(slots=True)
class _Open:
    """A pass whose tokens are coming."""

    at: Timings
    first: int
    """The counter at its first token that shows."""
    last: int
    text: str = ""


class ByTimings(Cutter):
    """llama-server's: tokens with equal `predicted_ms` are of one pass, and a pass gives its accepted tokens and one more."""

    def __init__(self) -> None:
        super().__init__()
        self.certainty = "exact"
        self._settled = Timings(0, 0.0, 0, 0, 0, 0, 0.0)
        """The counters before the open pass."""
        self._open: _Open | None = None
        self._asked = False
        """Whether the last pass is as long as it seems is still a question: its first token did not show, its last may not."""
        self._late = ""
        """Text that came without counters of its own."""

    def push(self, chunk: Chunk, now: float) -> list[Run]:
        timings, out = chunk.timings, list[Run]()
        if timings is None:
            self._late += chunk.text
            return out
        if self._open is not None and timings.milliseconds != self._open.at.milliseconds:
            out += self._close(self._open)
        if self._open is None and timings.predicted == self._settled.predicted:  # text that a stop word had held back
            self._late += chunk.text
            return out
        if not self._plausible(timings):
            return [*out, Run(self._take(chunk.text), [NO_ID])] if chunk.text else out
        if self._open is None:
            if self._settled.predicted == 0 < timings.predicted - 1:  # the prompt's pass gives one token, which shows nothing
                self._settled = Timings(1, 0.0, 0, 0, 0, 0, 0.0)
                out.append(Run("", [NO_ID]))
            if self._asked and timings.predicted != self._settled.predicted + 1:
                self._doubt(HIDDEN)
            self._asked = False
            self._open = _Open(timings, timings.predicted, timings.predicted)
        pending = self._open
        pending.text += self._take(chunk.text)
        pending.last = max(pending.last, timings.predicted)
        whole = self._settled.predicted + timings.accepted - self._settled.accepted + 1
        # Where its first token shows nothing is hidden, so its length is known before the next pass comes.
        if pending.first == self._settled.predicted + 1 and pending.last >= whole:
            out += self._close(pending)
        return out

    def finish(self, last: Chunk | None) -> list[Run]:
        out = list[Run]()
        final = last.timings if last is not None else None
        if final is not None:
            self.told = Told(final.predicted, None, final.drafted, final.accepted)
        if self._open is not None:
            same = final is not None and final.milliseconds == self._open.at.milliseconds
            if same and final is not None and self._plausible(final):  # an end token shows nothing
                self._open.last = max(self._open.last, final.predicted)
            out += self._close(self._open, ended=same or final is None)
        if final is not None and final.predicted > self._settled.predicted and self._plausible(final):
            out += self._close(_Open(final, final.predicted, final.predicted), ended=True)
        if self._late:
            out.append(Run(self._take(""), []))
        if final is not None and self.certainty == "exact" and final.predicted != self._settled.predicted:
            self._doubt(f"The server counts {counted(final.predicted, 'token')}, its stream {self._settled.predicted:,}.")
        return out

    def _take(self, text: str) -> str:
        text, self._late = self._late + text, ""
        return text

    def _doubt(self, sentence: str) -> None:
        self.certainty, self.doubt = "unknown", self.doubt or sentence

    def _plausible(self, timings: Timings) -> bool:
        before = self._settled
        more = (timings.drafted - before.drafted, timings.accepted - before.accepted)
        if min(more) >= 0 and more[1] <= more[0] <= LONGEST_RUN and 0 < timings.predicted - before.predicted <= LONGEST_RUN:
            return True
        self._doubt("The server's counters contradict each other.")
        return False

    def _close(self, pending: _Open, ended: bool = False) -> list[Run]:
        """The pass's run, after the passes before it of which nothing showed."""
        before, at, self._open = self._settled, pending.at, None
        drafted, accepted = at.drafted - before.drafted, at.accepted - before.accepted
        tokens = pending.last - before.predicted
        if not ended:  # its last token may show nothing
            tokens = max(tokens, accepted + 1)
        self._settled = Timings(before.predicted + tokens, at.milliseconds, at.drafted, at.accepted, 0, 0, 0.0)
        hidden = max(0, tokens - accepted - 1)
        self._asked = drafted > 0 and pending.first > before.predicted + 1
        if drafted and (hidden or (ended and self._asked and tokens != accepted + 1)):
            self._doubt(HIDDEN)
        seconds = max(0.0, at.milliseconds - before.milliseconds) / 1000 / (hidden + 1)
        out = [Run("", [NO_ID], seconds=seconds) for _ in range(hidden)]
        own = tokens - hidden
        # What was accepted behind the end of the answer is not in it.
        return [*out, Run(pending.text, [NO_ID] * own, drafted, min(accepted, own), seconds)]


class ByIds(Cutter):
    """vLLM's: a chunk has the ids of one pass, unless the server was behind and merged some. At the end its own account of the
    passes proves the chunks right or wrong.

    Args:
        drafts: whether the server speculates; without, each token is a pass.
        certainty: what is known of its answers so far.
    """

    def __init__(self, drafts: bool | None, certainty: Certainty = "exact") -> None:
        super().__init__()
        self.certainty = "exact" if drafts is False else certainty
        self._drafts = drafts
        self._before: float | None = None
        self._lengths: list[int] = []
        self._late = ""

    def push(self, chunk: Chunk, now: float) -> list[Run]:
        text, self._late = self._late + chunk.text, ""
        ids = chunk.ids or ()
        if not ids or len(ids) > LONGEST_RUN:
            self._late = text
            return []
        seconds = now - self._before if self._before is not None else 0.0
        self._before = now
        if self._drafts is False:
            each = seconds / len(ids)
            return [Run(text if i == len(ids) - 1 else "", [id], seconds=each) for i, id in enumerate(ids)]
        self._lengths.append(len(ids))
        # The first comes from the prompt's pass.
        return [Run(text, list(ids), accepted=len(ids) - 1 if len(self._lengths) > 1 else 0, seconds=seconds)]

    def finish(self, last: Chunk | None) -> list[Run]:
        told = last.speculation if last is not None else None
        if told is not None:
            self._check(told)
        elif last is not None and self._drafts is not False and not last.stopped:  # at a stop text vLLM gives no account
            self.doubt = UNTOLD if self.certainty == "exact" else ""
            self.certainty, self.untold = "unknown", True
        if last is not None and last.tokens is not None:
            self.told.tokens = last.tokens
            if self._drafts is not False and last.tokens != sum(self._lengths):
                self._merged(f"The server counts {counted(last.tokens, 'token')}, its stream {sum(self._lengths):,}.")
        return [Run(self._late, [])] if self._late else []

    def _check(self, told: object) -> None:
        assert isinstance(told, dict)
        accepted, drafted = count(told.get("num_accepted_draft_tokens")), count(told.get("num_draft_tokens"))
        self.told.accepted, self.told.drafted = accepted, drafted
        mine = sum(length - 1 for length in self._lengths[1:])
        self.certainty = "exact"
        passes = told.get("per_step_accepted", [] if drafted == 0 else None)
        if isinstance(passes, list) and all(count(each) is not None for each in passes):
            if not _agree(self._lengths, passes):
                self._merged(
                    f"The server counts {counted(len(passes), 'pass', 'passes')} with drafts and {accepted or sum(passes):,} "
                    f"accepted tokens; its chunks show {sum(length > 1 for length in self._lengths[1:]):,} and {mine:,}."
                )
        elif accepted is None or mine > accepted:
            self._merged(f"The server counts {counted(accepted or 0, 'accepted token')}, its chunks show {mine:,}.")

    def _merged(self, sentence: str) -> None:
        self.certainty = "unknown"
        self.doubt = self.doubt or f"{sentence} It merged passes into one chunk."


def _agree(lengths: Sequence[int], passes: Sequence[int]) -> bool:
    """Whether chunks are the passes that a server says it took.

    Args:
        lengths: tokens of each chunk; the first is the prompt's pass.
        passes: accepted tokens of each pass that had a draft. The last may have been cut; its chunk is shorter then.
    """
    gave = [length - 1 for length in lengths[1:]]
    shown = [each for each in gave if each]
    kept = [each for each in passes if each]
    # A pass without accepted tokens shows as a chunk of one, like one without a draft.
    if len(passes) - len(kept) > len(gave) - len(shown) + 1:
        return False
    if shown == kept:
        return True
    if not kept or shown[:-1] != kept[: len(shown) - 1]:
        return shown == kept[:-1]
    cut = len(shown) == len(kept) and shown[-1] <= kept[-1]
    return cut or shown == kept[:-1]


class Uncut(Cutter):
    """Text whose passes nothing tells: what came together need not be of one."""

    def __init__(self) -> None:
        super().__init__()
        self._before: float | None = None

    def push(self, chunk: Chunk, now: float) -> list[Run]:
        if not chunk.text:
            return []
        seconds = now - self._before if self._before is not None else 0.0
        self._before = now
        # Nearly always a token; of a whole answer, words are nearest.
        return [Run(chunk.text, [NO_ID] * max(1, len(_WORDS.findall(chunk.text))), seconds=seconds)]

    def finish(self, last: Chunk | None) -> list[Run]:
        if last is not None:
            told, passes = last.speculation or {}, count((last.speculation or {}).get("spec_verify_ct"))
            drafted, accepted = count(told.get("spec_num_proposed_drafts")), count(told.get("spec_num_correct_drafts"))
            self.told = Told(last.tokens, None if passes is None else passes + 1, drafted, accepted)
        return []
