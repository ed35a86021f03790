"""From a stream's chunks to runs, the tokens that one pass of the server gave together, and how sure that is.

*exact*: the server told which tokens came from one pass, and its own counters agree. *reported*: its chunks are passes as far
as it says, but it may have merged some. *estimated*: guessed from when text arrived. *unknown*: nothing tells.
"""

from __future__ import annotations

import math
import re
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Literal

from ...errors import counted
from .chunks import NO_ID, Chunk, Timings
from .connection import count

Certainty = Literal["exact", "reported", "estimated", "unknown"]

LONGEST_RUN = 4096
"""Tokens; no engine drafts nearly as many, so a larger number is not believed."""

SOON = 0.001
"""Seconds between two chunks of one pass, at most, until the stream's own pace is known: servers send them back to back, and
no pass is that short."""
LATEST_SOON = 0.004
"""The same at any pace."""
APART = 4.0
"""How many times as long the pauses between passes are as those within: else there are no bursts."""
PACE = 64
"""Pauses that the pace is taken from."""
FEWEST = 8
"""Pauses without which there is none."""

TELLING = 5
"""Pairs of bursts, at the least, whose times do not explain their sizes: else they are no passes."""
MOSTLY = 0.6
"""Their share, at the least, of all pairs that differ in size."""
SPREAD = 0.5
"""Variance of their sizes, as a part of the mean, at the least. Of even tokens that a clock counts it is 0.2 or less."""
CLOCK, CLOCK_ERROR = 0.05, 0.003
"""Seconds: what sends every 50, 100, 250 or 500 ms is a clock."""
LONGEST_DRAFT = 64
"""Tokens that engines draft at the most; what comes in larger bursts was held back."""

_WORDS = re.compile(r"\s*\S+")

HIDDEN = (
    "Some tokens came without text (parts of a character, marks of a thought, white space around JSON), and llama-server does "
    "not show the passes among them: there the runs may be cut wrongly."
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
        self.due = 0.0
        """Seconds after which `flush` should be called if no chunk comes; 0 for never."""

    @abstractmethod
    def push(self, chunk: Chunk, now: float) -> list[Run]:
        """Take a chunk that arrived `now`, in seconds; the runs that are complete."""

    def flush(self) -> list[Run]:
        """What is complete because nothing followed for `due` seconds."""
        return []

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
        self.certainty, self.doubt = "reported", self.doubt or sentence

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
    passes, where it gives one, proves the chunks right or wrong.

    Args:
        drafts: whether the server speculates; without, each token is a pass.
    """

    def __init__(self, drafts: bool | None) -> None:
        super().__init__()
        self.certainty = "reported" if drafts is not False else "exact"
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
        passes = told.get("per_step_accepted", [] if drafted == 0 else None)
        if isinstance(passes, list) and all(count(each) is not None for each in passes):
            if _agree(self._lengths, passes):
                self.certainty = "exact"
            else:
                self._merged(
                    f"The server counts {counted(len(passes), 'pass', 'passes')} with drafts and {accepted or sum(passes):,} "
                    f"accepted tokens; its chunks show {sum(length > 1 for length in self._lengths[1:]):,} and {mine:,}."
                )
        elif accepted is not None and mine > accepted:
            self._merged(f"The server counts {counted(accepted, 'accepted token')}, its chunks show {mine:,}.")

    def _merged(self, sentence: str) -> None:
        self.certainty = "reported"
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


class ByCounts(Cutter):
    """SGLang's: a chunk for each pass, and the tokens so far in it; a slow reader gets several at once."""

    def __init__(self) -> None:
        super().__init__()
        self.certainty = "reported"
        self._tokens = self._chunks = 0
        self._before: float | None = None
        self._late = ""

    def push(self, chunk: Chunk, now: float) -> list[Run]:
        text, self._late = self._late + chunk.text, ""
        more = (chunk.tokens or 0) - self._tokens
        if not 0 < more <= LONGEST_RUN:
            self._late = text
            return []
        seconds = now - self._before if self._before is not None else 0.0
        self._before, self._tokens = now, self._tokens + more
        self._chunks += 1
        accepted, ids = more - 1 if self._chunks > 1 else 0, list(chunk.ids or ())
        return [Run(text, ids[-more:] if len(ids) >= more else [NO_ID] * more, accepted=accepted, seconds=seconds)]

    def finish(self, last: Chunk | None) -> list[Run]:
        told = last.speculation if last is not None else None
        if told is not None:
            self.told.drafted = count(told.get("spec_num_proposed_drafts"))
            self.told.accepted = count(told.get("spec_num_correct_drafts"))
            if (passes := count(told.get("spec_verify_ct"))) is not None:
                self.told.steps = passes + 1
                if self._chunks in (passes, passes + 1):
                    self.certainty = "exact"
                else:
                    took = counted(passes, "pass", "passes")
                    self.doubt = f"The server counts {took} with drafts, its stream has {counted(self._chunks, 'chunk')}."
        self.told.tokens = last.tokens if last is not None else None
        return [Run(self._late, [])] if self._late else []


class ByArrival(Cutter):
    """Text alone. Chunks that come back to back may be of one pass, or something on their way held them back, so that they are
    taken for passes only where time does not explain how many came: a proxy's buffer or clock, or a reader that was kept from
    reading, gives as many tokens as there was time for, a draft gives one or nine in the same time. Until there is such
    evidence, each token is a run of its own.

    Args:
        drafts: whether the server speculates. If it says so, a chunk of several words is one pass.
    """

    def __init__(self, drafts: bool | None) -> None:
        super().__init__()
        self._drafts = drafts
        self.certainty = "estimated" if drafts else "unknown"
        self._pauses: deque[float] = deque(maxlen=PACE)
        self._before: float | None = None
        self._pending: Run | None = None
        self._chunks = 0
        self._pace = SOON
        self._begun, self._size = 0.0, 0
        """When the burst began that is coming, and its tokens so far."""
        self._last: tuple[int, float] | None = None
        """Tokens of the burst before it, and the seconds until it began."""
        self._start, self._bursts = 0.0, 0
        self._tokens = self._spread = 0
        """Figures of all bursts but the first: their tokens, and the squares of what each differs by from the one before."""
        self._telling = self._unexplained = 0
        """Pairs of bursts that differ in size, and those among them whose times do not."""

    def push(self, chunk: Chunk, now: float) -> list[Run]:
        if not chunk.text:
            return []
        self._chunks += 1
        words = _WORDS.findall(chunk.text)
        words = [*words[:-1], words[-1] + chunk.text[sum(map(len, words)) :]] if words else [chunk.text]
        pause = now - self._before if self._before is not None else 0.0
        soon = self._soon()
        if self._before is not None:
            self._pauses.append(max(pause, 1e-6))
        within = self._before is not None and pause < soon
        if within:
            self._size += len(words)
        else:
            self._weigh(now)
            self._begun, self._size = now, len(words)
        self._before = now
        if not self._grouped and self._drafts is not True:
            each = pause / len(words)
            return [*self.flush(), *(Run(word, [NO_ID], seconds=each) for word in words)]
        out = list[Run]()
        if self._pending is not None and within and self._grouped and len(self._pending.tokens) < LONGEST_DRAFT:
            self._pending.text += chunk.text
            self._pending.tokens += [NO_ID] * len(words)
            self._pending.seconds += pause
        else:
            out += self.flush()
            self._pending = Run(chunk.text, [NO_ID] * len(words), seconds=pause)
        self.due = soon if self._grouped else 0.0
        return out if self.due else [*out, *self.flush()]

    def flush(self) -> list[Run]:
        run, self._pending, self.due = self._pending, None, 0.0
        return [run] if run is not None else []

    def finish(self, last: Chunk | None) -> list[Run]:
        if self._grouped:
            self.certainty = "estimated"
        self.told.tokens = last.tokens if last is not None else None
        return self.flush()

    @property
    def _grouped(self) -> bool:
        """Whether bursts are passes: enough of them differ in size and not in time, and by more than even tokens would that are
        counted by a clock."""
        enough = self._unexplained >= TELLING and self._unexplained >= MOSTLY * self._telling
        return enough and self._spread >= 2 * SPREAD * self._tokens

    def _weigh(self, now: float) -> None:
        """Compare the burst that is over with the one before it: their sizes, and the time from one beginning to the next."""
        before, (began, size) = self._last, (self._begun, self._size)
        if not size or self._drafts is False:
            return
        took = began - self._start
        self._start = began
        self._last = (size, took) if self._bursts else None
        self._bursts += 1
        if before is None or not self._last or took <= 0:
            return
        other, time = before
        self._tokens, self._spread = self._tokens + size, self._spread + (size - other) ** 2
        if abs(size - other) < max(2, (size + other) / 3):
            return
        self._telling += 1
        apart = abs(math.log(size / other))
        clocked = all(abs(each - CLOCK * max(1, round(each / CLOCK))) < CLOCK_ERROR for each in (took, time))
        if max(size, other) <= LONGEST_DRAFT and not clocked and abs(math.log(took / time)) < apart / 2:
            self._unexplained += 1

    def _soon(self) -> float:
        """The longest pause within a burst; 0 where the stream has none."""
        if self._chunks % FEWEST == 1:  # looked at again now and then: at every chunk it would be a third of the work
            self._pace = self._pause_within()
        return self._pace

    def _pause_within(self) -> float:
        if len(self._pauses) < FEWEST:
            return SOON
        logs = sorted(map(math.log, self._pauses))
        jump, at = max((b - a, i) for i, (a, b) in enumerate(pairwise(logs)))
        low, high = math.exp(logs[at]), math.exp(logs[at + 1])
        return math.sqrt(low * high) if jump > math.log(APART) and low < LATEST_SOON else 0.0
