"""Diagnosis of an answer's speed: the cost of each part of its time and of its wrong guesses, and the change that would help
most.

Each cause is weighed by one question: how many times as fast would the answer have come without it? All figures are the
answer's own; plain passes were timed at its end.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from statistics import median
from typing import Literal

from ...engine.catalog import Totals
from ...engine.options import ModelInfo
from ...errors import counted
from .entries import Answer
from .methods import DraftLength, Method, MethodSettings, draft_length, get_method, right_or_accepted

Name = Literal[
    "drafter", "nothing to copy", "too long", "too short", "dear drafter", "dear passes", "busy", "plain", "short", "server"
]
"""Causes that hold an answer back; the last three say why nothing more is known."""

GOOD = 0.8
"""Share of right guesses of a drafter that fits its target, against which acceptance is weighed."""
POOR = 0.4
"""A drafter whose trees hold the right token in a smaller share of passes does not fit."""
FEW_PASSES = 8
"""Answers of fewer timed passes are too short to judge."""
FEW_ENDS = 4
"""Passes below which the rate of a draft position is not shown."""
WORTH = 1.1
"""Smallest gain (times as fast without it) of a cause that is shown."""
SLOWER = 0.95
"""Speedup over plain decoding below which an answer is called slower."""
COSTLY = 1.25
"""Smallest gain from plain passes with which passes of several nodes are called dear."""
DEAR = 0.2
"""Plain passes that a draft token of a dear drafter takes at least."""
WARM = 0.7
"""Temperature from which on samples often miss the likeliest token."""

HINTS: Mapping[str, str] = {
    "drafter": "Look for a drafter of this model's own family: specchat models.",
    "nothing to copy": "Try a draft model or a trained drafter: they need no text to copy from.",
    "too long": "Give it shorter drafts.",
    "too short": "Give it longer drafts: many passes end at their limit.",
    "dear drafter": "Use a smaller draft model, or a method that guesses from the text.",
    "dear passes": "Draft fewer nodes.",
    "busy": "Close what else computes, or give it fewer threads.",
}
"""Cause → the usual remedy, for want of figures."""


@dataclass(frozen=True, slots=True)
class Cause:
    """Something that held an answer back."""

    name: Name
    gain: float
    """Times as fast as the answer would have been without it; 0 if unknown."""
    sentence: str


@dataclass(frozen=True, slots=True)
class Change:
    """The change that would help most."""

    sentence: str
    method: str = ""
    """The method to switch to; empty for a change that no key can make."""
    settings: MethodSettings = field(default_factory=dict)
    """The settings of that method."""
    speedup: float = 0.0
    """Expected speedup over plain decoding; 0 if unknown."""


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The diagnosis of an answer's speed."""

    speedup: float
    """Times as fast as plain decoding: `tokens` ÷ `cost`; 0 if unknown."""
    causes: tuple[Cause, ...]
    """The causes, the most expensive one first."""
    change: Change | None = None
    part: str = ""
    """The method whose part of the answer this is about; empty if it wrote all of it."""
    tokens: float = 0.0
    """Mean tokens of a timed pass."""
    cost: float = 0.0
    """Mean time of a timed pass in plain passes; 0 if unknown."""


def diagnose(answer: Answer, info: ModelInfo, tried: Sequence[Answer] = (), unavailable: Collection[str] = ()) -> Diagnosis:
    """Find out why a finished answer was no faster.

    Args:
        answer: the answer; of several methods that wrote it, the one with the most passes counts.
        tried: other answers of the same model, which may have been faster.
        unavailable: methods that the model refuses, none of which is advised.
    """
    figures = answer.figures
    if figures.certainty:
        return _diagnose_server(answer)
    name, totals = max(answer.by_method.items(), key=lambda item: item[1].steps, default=(answer.method, answer.totals))
    method = get_method(name)
    part = name if len(answer.by_method) > 1 else ""
    if not info.capabilities.chain:
        unavailable = (*unavailable, "auto")
    tried = [other for other in tried if not {*other.methods} & {*unavailable}]
    if method.plain:
        cause = Cause("plain", 0.0, "Plain decoding guesses nothing: each pass gives one token.")
        auto = Change("Let auto choose the method: it guesses only where that pays.", "auto")
        return Diagnosis(1.0, (cause,), _faster(1.0, tried, answer) or (None if "auto" in unavailable else auto), part)
    if figures.contended:
        cause = Cause("busy", 0.0, "Other programs took the processor meanwhile, so its speed is not known.")
        return Diagnosis(0.0, (cause,), Change(HINTS["busy"]), part)
    if totals.timed < FEW_PASSES:
        few = counted(totals.steps, "pass", "passes")
        return Diagnosis(0.0, (Cause("short", 0.0, f"Too short to judge: the answer took only {few}."),), part=part)
    plain = figures.plain_seconds
    if not plain and not figures.rested:  # slowed passes compare with none
        plain = dict(info.pass_seconds).get(1, 0.0)
    case = _Case(answer, totals, method, info, float(plain))
    causes = case.causes()
    tokens = totals.timed_tokens / totals.timed
    return Diagnosis(case.speedup, causes, case.change(causes, tried), part, tokens, case.cost)


def blame(answer: Answer, info: ModelInfo) -> str:
    """Return the main cause as a sentence if a finished answer was slower than plain decoding, else an empty string."""
    if not 0 < answer.figures.speedup < SLOWER or not answer.totals.steps:
        return ""
    causes = diagnose(answer, info).causes
    return causes[0].sentence if causes and causes[0].name != "short" else ""


class _Case:
    """An answer's figures; `plain` is the seconds of a plain pass, 0 if unknown."""

    def __init__(self, answer: Answer, totals: Totals, method: Method, info: ModelInfo, plain: float) -> None:
        self.answer = answer
        self.totals = totals
        self.method = method
        self.info = info
        self.plain = plain
        request = answer.asked
        self.settings: MethodSettings = (
            request.get("settings", {}) if request.get("method", answer.method) == method.name else {}
        )
        depth = next((param for param in method.params if param["name"] == "depth"), None)
        self.depth: DraftLength | None = None
        """The method's setting of the depth of its trees."""
        if depth is not None:
            value = int(self.settings.get("depth", depth["default"]))
            self.depth = DraftLength("depth", value, 1, depth.get("high") or 256)
        self.speedup = totals.speedup(plain)
        self.cost = totals.timed_seconds / totals.timed / plain if plain else 0.0
        """Mean time of a pass in plain passes."""
        self.drafting = sum(map(bool, totals.drafts))
        """Passes that had a draft."""
        self.held = totals.accepted_at[0] if totals.accepted_at else 0
        """Passes whose draft held the right token."""
        self.mean_depth = totals.depth / self.drafting if self.drafting else 0.0
        self.width = totals.drafted / totals.depth if totals.depth else 1.0
        """Nodes of a draft for each token of its depth: 1 for a chain."""
        count = sum(steps >= FEW_ENDS for steps in totals.drafted_at) or len(totals.drafted_at)
        self.rates = totals.position_acceptance[:count]
        """Rate at which each draft position was right if all before it were, as far as there are enough passes."""
        temperature = float(request.get("sampling", {}).get("temperature") or 0.0)
        self.warm = temperature if temperature >= WARM and totals.alpha < GOOD else 0.0
        """The temperature, where it makes samples miss the guesses."""

    def causes(self) -> tuple[Cause, ...]:
        """Find the causes that cost at least WORTH, the most expensive one first."""
        candidates = [self._guesses()]
        if self.plain and self.totals.timed_seconds:
            candidates += [self._drafting(), self._length(), self._verifying()]
        causes = [cause for cause in candidates if cause is not None and (cause.gain >= WORTH or not cause.gain)]
        if not causes and 0 < self.speedup < 1 and self.drafting:
            name: Name = "dear passes" if self.totals.alpha > GOOD else "drafter"
            causes.append(Cause(name, 0.0, f"{self._hits}: too few for what they cost."))
        return tuple(sorted(causes, key=lambda cause: -cause.gain))

    @property
    def _right(self) -> str:
        return right_or_accepted(self.answer.label)

    @property
    def _hits(self) -> str:
        chains = self.totals.depth == self.totals.drafted
        subject = f"Its first guess was {self._right}" if chains else "Its tree held the right token"
        return f"{subject} in {self.held:,} of {counted(self.drafting, 'pass', 'passes')}"

    def _guesses(self) -> Cause | None:
        """Judge whether the drafter guesses often and well enough."""
        totals = self.totals
        copies = self.method.group == "text"
        if not self.drafting:
            if why := self.answer.figures.why_declined:
                return Cause("dear passes", 0.0, f"Its guesses were {why}.")
            if copies:
                return Cause("nothing to copy", 0.0, "Nothing in the text so far was worth a guess.")
            return Cause("drafter", 0.0, "No guess was expected to pay.")
        per_pass = sum(totals.runs) / len(totals.runs)
        share = self.drafting / len(totals.drafts)
        possible = share * sum(GOOD**k for k in range(round(self.mean_depth) + 1)) + 1 - share
        misses = self.held < POOR * self.drafting
        if copies:
            # Repetitions are guessed well; in a text without them, guesses are few or wrong.
            lengths = [length for length, drafted in zip(totals.runs, totals.drafts, strict=True) if drafted]
            possible = max(possible, sum(lengths) / len(lengths))
            copied = f"{100 * share:.0f}% of its passes had something to copy"
            sentence = f"The text repeats little: {copied}. {self._hits}."
            return Cause("nothing to copy", possible / per_pass, sentence) if share < 0.5 or misses else None
        if self.warm:
            habit = "the model often takes another token than the likeliest, which drafts guess"
            return Cause("drafter", possible / per_pass, f"At temperature {self.warm:g} {habit}.")
        if misses and totals.alpha <= GOOD:
            return Cause("drafter", possible / per_pass, f"The drafter seldom knows what this model says. {self._hits}.")
        return None

    def _drafting(self) -> Cause | None:
        """Judge the cost of drafting at the best draft length: longer drafts are another cause."""
        totals = self.totals
        best, _ = self._best()
        token_seconds = totals.draft_token_seconds
        if not totals.depth or not best or token_seconds < DEAR * self.plain:
            return None
        if best > 0:
            drafting = best * token_seconds
            rest = totals.step_seconds(best * self.width + 1, self.plain)
        else:
            drafting = totals.timed_draft_seconds / totals.timed
            rest = totals.timed_seconds / totals.timed - drafting
        sentence = f"A draft token takes {token_seconds / self.plain:.2g} plain passes."
        return Cause("dear drafter", 1 + drafting / max(rest, 1e-9), sentence)

    def _length(self) -> Cause | None:
        """Judge whether another draft length would have been better, at the rate of each position."""
        mean, rates = self.mean_depth, self.rates
        best, gain = self._best()
        if not best or not rates or not self.speedup:
            return None
        if best < mean - 0.5:
            last = f"guess {len(rates)} is {self._right} {100 * rates[-1]:.0f}% of the time"
            sentence = f"Drafts of {mean:.0f} tokens are too long: {last}, and each costs as much as the first."
            return Cause("too long", gain / self.speedup, sentence)
        at = self.totals.accepted_at  # position → passes that accepted it
        full = at[min(self.depth.value, len(at)) - 1 if self.depth else -1]
        if best > mean + 0.5 and full > self.drafting / 4:
            ends = f"{full:,} of {counted(self.drafting, 'pass', 'passes')} ended at their limit"
            return Cause("too short", gain / self.speedup, f"Drafts of {mean:.0f} tokens are too short: {ends}.")
        return None

    def _best(self) -> tuple[int, float]:
        """Find the best depth of a draft as wide as these, and its speedup; (0, 1.0) if none gains, (−1, 0.0) if unknown."""
        if not self.mean_depth or not self.rates or not self.plain:
            return -1, 0.0
        drafted = self.drafting / len(self.totals.drafts)
        rates = [*self.rates, *[self.rates[-1]] * len(self.rates)]  # twice the length would go on as this one ended

        def speedup(length: int) -> float:
            tokens = 1 + sum(prod(rates[:k]) for k in range(1, length + 1))
            seconds = length * self.totals.draft_token_seconds + self.totals.step_seconds(length * self.width + 1, self.plain)
            return (drafted * tokens + 1 - drafted) * self.plain / (drafted * seconds + (1 - drafted) * self.plain)

        gain, best = max((speedup(k), -k) for k in range(1, len(rates) + 1))
        return (-best, gain) if gain > 1 else (0, 1.0)

    def _verifying(self) -> Cause | None:
        totals = self.totals
        nodes = round(totals.timed_nodes / totals.timed)
        costs = (totals.timed_seconds - totals.timed_draft_seconds) / totals.timed / self.plain
        gain = self.cost / (self.cost - max(0.0, costs - 1))
        sentence = f"A pass over {nodes} nodes costs {costs:.1f} plain ones."
        return Cause("dear passes", gain, sentence) if nodes > 1 and gain >= COSTLY else None

    def change(self, causes: Sequence[Cause], tried: Sequence[Answer]) -> Change | None:
        """Choose the most promising change; without figures, the usual remedy for the first cause."""
        options = [_faster(max(self.speedup, 1.0 if self.plain else 0.0), tried, self.answer)]
        if {"too long", "too short"} & {cause.name for cause in causes}:
            options.append(self._other_length())
        if self.speedup and self.speedup < SLOWER:
            options.append(Change("Decode plainly (greedy).", "greedy", {}, 1.0))
        if changes := [change for change in options if change is not None]:
            return max(changes, key=lambda change: change.speedup)
        match causes[0].name if causes else "":
            case "drafter" if self.warm:
                return Change("A lower temperature lets more guesses through.")
            case "dear passes" if self.info.backend == "llama.cpp":
                return Change("Draft fewer nodes, or try transformers, where several cost less: --backend transformers.")
            case name:
                return Change(HINTS[name]) if name in HINTS else None

    def _other_length(self) -> Change | None:
        """Propose shorter or longer drafts if they promise more, by the setting that ended these."""
        best, gain = self._best()
        length = draft_length(self.method, self.settings)
        if best <= 0 or length is None or gain < 1.05 * self.speedup:
            return None
        if self.depth and self.mean_depth > self.depth.value - 0.5:
            length = self.depth
        trees = length.setting == "nodes"
        size = round(length.value * best / self.mean_depth) if trees else best
        size = min(max(size, length.low), length.high)
        # Another setting may have ended these drafts.
        if size == length.value or (size < length.value) != (best < self.mean_depth):
            return None
        sentence = f"Trees of {size} nodes instead." if trees else f"Drafts of {counted(size, 'token')} instead."
        return Change(sentence, self.method.name, {**self.settings, length.setting: size}, gain)


def _faster(than: float, tried: Sequence[Answer], answer: Answer) -> Change | None:
    """Propose the method of the chat's fastest other answer if it was faster by WORTH."""
    by_method: dict[str, list[Answer]] = {}
    for other in tried:
        if other is not answer and len(other.methods) == 1 and other.figures.speedup:
            by_method.setdefault(other.methods[0], []).append(other)
    speedups = {name: median(other.figures.speedup for other in answers) for name, answers in by_method.items()}
    name = max(speedups, key=speedups.__getitem__, default=answer.method)
    if name == answer.method or speedups[name] < WORTH * than:
        return None
    settings = by_method[name][-1].asked.get("settings", {})
    return Change(f"{name}, which was {speedups[name]:.1f}× plain in this chat.", name, settings, speedups[name])


def _diagnose_server(answer: Answer) -> Diagnosis:
    figures = answer.figures
    name: Name = "server"
    change = None
    if not figures.steps:
        sentence = "The server does not show its passes, so nothing is known of its guesses."
    elif figures.drafted and figures.accepted < POOR * figures.drafted:
        name = "drafter"
        sentence = f"{figures.accepted:,} of {counted(figures.drafted, 'guess', 'guesses')} of the server were right."
        change = Change("Give it shorter drafts, or another drafter.")
    elif figures.tokens <= figures.steps * 1.02:
        sentence = "The server does not speculate: each pass gave one token."
    else:
        return Diagnosis(0.0, ())
    return Diagnosis(0.0, (Cause(name, 0.0, sentence),), change)
