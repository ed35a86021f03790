"""Diagnosis of an answer's speed: the cost of each part of its time and of its wrong guesses, and the change that would help
most.

Each cause is weighed by one question: how many times as fast would the answer have come without it? All figures are the
answer's own; plain passes were timed at its end.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import prod
from statistics import median, quantiles
from typing import Any, Literal, NamedTuple

from ...engine.catalog import Totals
from ...engine.messages import StepRecord
from ...engine.options import ModelInfo
from ...errors import counted
from .entries import TELLING_STEPS, Answer
from .methods import DraftLength, Method, draft_length, get_method, right_or_accepted

Name = Literal[
    "drafter",
    "nothing to copy",
    "too long",
    "too short",
    "near ties",
    "dear drafter",
    "dear passes",
    "busy",
    "plain",
    "short",
    "server",
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
INSPECTED = 2000
"""Passes at an answer's end that are inspected one by one: all those of a very long one would hold up the screen."""
SCATTERED = 1.25
"""Mean time of passes of one size, in their lower quartiles, from which something else is using the machine."""
COSTLY = 1.25
"""Smallest gain from plain passes with which passes of several nodes are called dear."""
DEAR = 0.2
"""Plain passes that a draft token of a dear drafter takes at least."""
WARM = 0.7
"""Temperature from which on samples often miss the likeliest token."""


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
    settings: Mapping[str, Any] = field(default_factory=dict)
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
    if answer.figures.certainty:
        return _of_server(answer, info)
    name, totals = max(answer.by_method.items(), key=lambda item: item[1].steps, default=(answer.method, answer.totals))
    method = get_method(name)
    part = name if len(answer.by_method) > 1 else ""
    if not info.capabilities.chain:
        unavailable = (*unavailable, "auto")
    tried = [other for other in tried if not {*other.methods} & {*unavailable}]
    if method.plain:
        cause = Cause("plain", 0.0, "Plain decoding guesses nothing: each pass gives one token.")
        auto = Change(AUTO, "auto") if "auto" not in unavailable else None
        return Diagnosis(1.0, (cause,), _faster(1.0, tried, answer) or auto, part)
    if answer.figures.contended:
        cause = Cause("busy", 0.0, "Other programs took the processor meanwhile, so its speed is not known.")
        return Diagnosis(0.0, (cause,), Change(HINTS["busy"]), part)
    plain = answer.figures.plain_seconds
    if not plain and not answer.figures.rested:  # slowed passes compare with none
        plain = dict(info.pass_seconds).get(1, 0.0)
    case = _Case(answer, totals, method, info, float(plain))
    causes = sorted(filter(None, case.causes()), key=lambda cause: -cause.gain)
    change = case.change(causes, tried)
    return Diagnosis(case.speedup, tuple(causes), change, part, *case.sum)


def blame(answer: Answer, info: ModelInfo) -> str:
    """Return the main cause as a sentence if a finished answer was slower than plain decoding, else an empty string."""
    if not 0 < answer.figures.speedup < SLOWER or not answer.totals.steps:
        return ""
    causes = diagnose(answer, info).causes
    return causes[0].sentence if causes and causes[0].name != "short" else ""


AUTO = "Let auto choose the method: it guesses only where that pays."


class _Passes(NamedTuple):
    """Counts over the passes of a method that had a draft."""

    drafting: int
    """Passes that had a draft."""
    held: int
    """Passes whose tree held the right token after the last one."""
    full: int
    """Passes that accepted a whole path of a tree of the greatest depth: its limit ended it."""
    ties: int
    """Passes whose path the guard ended at a near tie although the tree held the model's choice: another pass decided."""

    @classmethod
    def of(cls, steps: Sequence[StepRecord], limit: int) -> _Passes:
        """Count over some steps; `limit` is the greatest depth of a tree, 0 for that of the deepest."""
        drafting = [step for step in steps if step.drafted]
        ties = [_ends_in_tie(step) for step in drafting]
        depths = [_depth(step) for step in drafting]
        limit = limit or max(depths, default=0)
        held = sum(step.accepted > 0 or tie for step, tie in zip(drafting, ties, strict=True))
        full = sum(step.accepted >= depth >= limit for step, depth in zip(drafting, depths, strict=True))
        return cls(len(drafting), held, full, sum(ties))


def _ends_in_tie(step: StepRecord) -> bool:
    """Whether the tree held the token after the accepted path, which the guard left to another pass."""
    last = step.path[-1] if step.path else 0
    nodes = zip(step.tree_tokens, step.tree_parents, strict=True)
    return any(parent == last and token == step.tokens[-1] for token, parent in nodes)


def _depth(step: StepRecord) -> int:
    """Return the depth of a step's tree; that of a chain if its tree is unknown."""
    if not step.tree_parents:
        return step.drafted
    depths = [0]
    for parent in step.tree_parents[1:]:
        depths.append(depths[parent] + 1)
    return max(depths)


@dataclass(frozen=True)
class _Case:
    """An answer's figures; `plain` is the seconds of a plain pass, 0 if unknown."""

    answer: Answer
    totals: Totals
    method: Method
    info: ModelInfo
    plain: float

    @property
    def speedup(self) -> float:
        return self.totals.speedup(self.plain)

    @property
    def sum(self) -> tuple[float, float]:
        """Mean tokens of a timed pass, and its mean time in plain passes."""
        totals = self.totals
        cost = totals.timed_seconds / totals.timed / self.plain if self.plain and totals.timed else 0.0
        return (totals.timed_tokens / totals.timed if totals.timed else 0.0), cost

    @cached_property
    def steps(self) -> list[StepRecord]:
        """The method's passes among the last INSPECTED of the answer."""
        log = self.answer.log
        records = map(log.record, range(max(0, len(log) - INSPECTED), len(log)))
        return [step for step in records if step.nodes and step.method == self.method.name]

    @cached_property
    def passes(self) -> _Passes:
        return _Passes.of(self.steps, self.deepest[0])

    @property
    def deepest(self) -> tuple[int, int]:
        """Value and maximum of the method's depth setting; zeros for a method without one."""
        param = next((param for param in self.method.params if param["name"] == "depth"), None)
        return (int(self.settings.get("depth", param["default"])), param.get("high") or 256) if param else (0, 0)

    @property
    def settings(self) -> Mapping[str, Any]:
        request = self.answer.asked
        return request.get("settings", {}) if request.get("method", self.answer.method) == self.method.name else {}

    @property
    def warm(self) -> bool:
        """Whether the temperature makes samples miss the guesses."""
        temperature = float(self.answer.asked.get("sampling", {}).get("temperature") or 0.0)
        return temperature >= WARM and self.totals.alpha < GOOD

    def causes(self) -> Sequence[Cause | None]:
        """Find the causes that cost at least WORTH; for a short answer, that it is short."""
        totals = self.totals
        if totals.timed < max(TELLING_STEPS, FEW_PASSES):
            few = counted(totals.steps, "pass", "passes")
            return [Cause("short", 0.0, f"Too short to judge: the answer took only {few}.")]
        causes = [self._guesses(), self._ties()]
        if self.plain and totals.timed_seconds:
            causes += [self._busy(), self._drafting(), self._length(), self._verifying()]
        causes = [cause for cause in causes if cause is None or cause.gain >= WORTH or not cause.gain]
        if not any(causes) and 0 < self.speedup < 1 and self.passes.drafting:
            sentence = f"{self._held}: too few for what they cost."
            causes.append(Cause("dear passes" if totals.alpha > GOOD else "drafter", 0.0, sentence))
        return causes

    @property
    def _right(self) -> str:
        return right_or_accepted(self.answer.label)

    @property
    def _held(self) -> str:
        passes = self.passes
        chains = self.totals.depth == self.totals.drafted
        what = f"Its first guess was {self._right}" if chains else "Its tree held the right token"
        return f"{what} in {passes.held:,} of {counted(passes.drafting, 'pass', 'passes')}"

    def _busy(self) -> Cause | None:
        """Judge whether passes of one size took very different times."""
        by_size: dict[int, list[float]] = {}
        for step in self.steps:
            if not step.prefilled:
                by_size.setdefault(step.nodes, []).append(step.forward_seconds)
        groups = [seconds for seconds in by_size.values() if len(seconds) >= FEW_PASSES]
        best = sum(quantiles(seconds, n=4)[0] * len(seconds) for seconds in groups)
        gain = sum(map(sum, groups)) / best if best else 1.0
        sentence = f"Passes of one size took {gain:.1f}× their best time: something else uses this machine."
        return Cause("busy", gain, sentence) if gain >= SCATTERED else None

    def _drafting(self) -> Cause | None:
        """Judge the cost of drafting at the best draft length: longer drafts are another cause."""
        totals = self.totals
        best, _ = self._best()
        if not totals.depth or not best:
            return None
        token_seconds = totals.draft_token_seconds
        if token_seconds < DEAR * self.plain:
            return None
        if best > 0:
            drafting = best * token_seconds
            rest = totals.step_seconds(best * self._width + 1, self.plain)
        else:
            drafting = totals.timed_draft_seconds / totals.timed
            rest = totals.timed_seconds / totals.timed - drafting
        sentence = f"A draft token takes {token_seconds / self.plain:.2g} plain passes."
        return Cause("dear drafter", 1 + drafting / max(rest, 1e-9), sentence)

    def _length(self) -> Cause | None:
        """Judge whether another draft length would have been better, at the rate of each position."""
        mean, rates, full = self._mean_depth, self._rates, self.passes.full
        best, gain = self._best()
        if not best or not rates or not self.speedup:
            return None
        if best < mean - 0.5:
            last = f"guess {len(rates)} is {self._right} {100 * rates[-1]:.0f}% of the time"
            sentence = f"Drafts of {mean:.0f} tokens are too long: {last}, and each costs as much as the first."
            return Cause("too long", gain / self.speedup, sentence)
        if best > mean + 0.5 and full > self.passes.drafting / 4:
            ends = f"{full:,} of {counted(self.passes.drafting, 'pass', 'passes')} ended at their limit"
            return Cause("too short", gain / self.speedup, f"Drafts of {mean:.0f} tokens are too short: {ends}.")
        return None

    @property
    def _mean_depth(self) -> float:
        """Mean depth of the drafts, over the passes that verified some."""
        drafting = sum(1 for drafted in self.totals.drafts if drafted)
        return self.totals.depth / drafting if drafting else 0.0

    @property
    def _width(self) -> float:
        """Nodes of a draft for each token of its depth: 1 for a chain."""
        return self.totals.drafted / self.totals.depth if self.totals.depth else 1.0

    @property
    def _rates(self) -> list[float]:
        """Rate at which each draft position was right if all before it were, as far as there are enough passes."""
        totals = self.totals
        count = sum(steps >= FEW_ENDS for steps in totals.drafted_at) or len(totals.drafted_at)
        return totals.position_acceptance[:count]

    def _best(self) -> tuple[int, float]:
        """Find the best depth of a draft as wide as these, and its speedup; (0, 1.0) if none gains, (−1, 0.0) if unknown."""
        rates = self._rates
        if not self._mean_depth or not rates or not self.plain:
            return -1, 0.0
        drafted = sum(map(bool, self.totals.drafts)) / len(self.totals.drafts)
        rates = [*rates, *[rates[-1]] * len(rates)]  # a draft of twice the length would go on as this one ended

        def speedup(length: int) -> float:
            tokens = 1 + sum(prod(rates[:k]) for k in range(1, length + 1))
            nodes = length * self._width + 1
            seconds = length * self.totals.draft_token_seconds + self.totals.step_seconds(nodes, self.plain)
            return (drafted * tokens + 1 - drafted) * self.plain / (drafted * seconds + (1 - drafted) * self.plain)

        gain, best = max((speedup(k), -k) for k in range(1, len(rates) + 1))
        return (-best, gain) if gain > 1 else (0, 1.0)

    def _verifying(self) -> Cause | None:
        totals, nodes = self.totals, round(self.totals.timed_nodes / self.totals.timed)
        costs = (totals.timed_seconds - totals.timed_draft_seconds) / totals.timed / self.plain
        gain = self.sum[1] / (self.sum[1] - max(0.0, costs - 1))
        sentence = f"A pass over {nodes} nodes costs {costs:.1f} plain ones."
        return Cause("dear passes", gain, sentence) if nodes > 1 and gain >= COSTLY else None

    def _ties(self) -> Cause | None:
        """Judge the cost of near ties, each of which ended a path and took another pass."""
        ties, steps = self.passes.ties, len(self.steps)
        sentence = f"In {ties:,} of {counted(steps, 'pass', 'passes')} the draft was right, but a near tie took another pass."
        return Cause("near ties", steps / (steps - ties), sentence) if 0 < ties < steps else None

    def _guesses(self) -> Cause | None:
        totals, passes = self.totals, len(self.totals.drafts)
        drafting = [run for run, drafted in zip(totals.runs, totals.drafts, strict=True) if drafted]
        copies = self.method.group == "text"
        if not drafting:
            if why := self.answer.figures.why_declined:
                return Cause("dear passes", 0.0, f"Its guesses were {why}.")
            if copies:
                return Cause("nothing to copy", 0.0, "Nothing in the text so far was worth a guess.")
            return Cause("drafter", 0.0, "No guess was expected to pay.")
        per_pass = sum(totals.runs) / passes
        share = len(drafting) / passes
        depth = totals.depth / len(drafting)
        could = share * sum(GOOD**k for k in range(round(depth) + 1)) + 1 - share
        held = self.passes.held / max(1, self.passes.drafting)
        if copies:
            # Repetitions are guessed well; in a text without them, guesses are few or wrong.
            could = max(could, sum(drafting) / len(drafting))
            copied = f"{100 * share:.0f}% of its passes had something to copy"
            sentence = f"The text repeats little: {copied}. {self._held}."
            return Cause("nothing to copy", could / per_pass, sentence) if share < 0.5 or held < POOR else None
        if self.warm:
            temperature = self.answer.asked["sampling"]["temperature"]
            habit = "the model often takes another token than the likeliest, which drafts guess"
            return Cause("drafter", could / per_pass, f"At temperature {temperature:g} {habit}.")
        if held < POOR and totals.alpha <= GOOD:
            return Cause("drafter", could / per_pass, f"The drafter seldom knows what this model says. {self._held}.")
        return None

    def change(self, causes: Sequence[Cause], tried: Sequence[Answer]) -> Change | None:
        """Choose the most promising change; without figures, the usual remedy for the first cause. None for a short answer."""
        name = causes[0].name if causes else ""
        if name == "short":
            return None
        options = [_faster(max(self.speedup, 1.0 if self.plain else 0.0), tried, self.answer)]
        if {"too long", "too short"} & {cause.name for cause in causes}:
            options.append(self._other_length())
        if self.speedup and self.speedup < SLOWER:
            options.append(Change("Decode plainly (greedy).", "greedy", {}, 1.0))
        changes = [change for change in options if change is not None]
        if changes:
            return max(changes, key=lambda change: change.speedup)
        if name == "drafter" and self.warm:
            return Change("A lower temperature lets more guesses through.")
        if name == "drafter" and self.totals.alpha > GOOD:
            return None
        if name == "dear passes" and self.info.backend == "llama.cpp":
            return Change("Draft fewer nodes, or try transformers, where several nodes cost less: --backend transformers.")
        return Change(HINTS[name]) if name in HINTS else None

    def _other_length(self) -> Change | None:
        """Propose shorter or longer drafts if they promise more, by the setting that ended these."""
        mean = self._mean_depth
        best, gain = self._best()
        length = draft_length(self.method, self.settings)
        if best <= 0 or length is None or gain < 1.05 * self.speedup:
            return None
        depth, deepest = self.deepest
        if depth and mean > depth - 0.5:
            length = DraftLength("depth", depth, 1, deepest)
        trees = length.setting == "nodes"
        size = round(length.value * best / mean) if trees else best
        size = min(max(size, length.low), length.high)
        # Another setting may have ended these drafts.
        if size == length.value or (size < length.value) != (best < mean):
            return None
        sentence = f"Trees of {size} nodes instead." if trees else f"Drafts of {counted(size, 'token')} instead."
        return Change(sentence, self.method.name, {**self.settings, length.setting: size}, gain)


HINTS: Mapping[str, str] = {
    "drafter": "Look for a drafter of this model's own family: specchat models.",
    "nothing to copy": "Try a draft model or a trained drafter: they need no text to copy from.",
    "too long": "Give it shorter drafts.",
    "too short": "Give it longer drafts: many passes end at their limit.",
    "near ties": "Draft chains: a near tie takes another pass only beside a tree's first path.",
    "dear drafter": "Use a smaller draft model, or a method that guesses from the text.",
    "dear passes": "Draft fewer nodes.",
    "busy": "Close what else computes, or give it fewer threads.",
}
"""Cause → the usual remedy, for want of figures."""


def _faster(than: float, tried: Sequence[Answer], answer: Answer) -> Change | None:
    """Propose the method of the chat's fastest other answer if it was faster by WORTH."""
    by_method: dict[str, list[Answer]] = {}
    for other in tried:
        if other is not answer and len(other.methods) == 1 and other.figures.speedup:
            by_method.setdefault(other.methods[0], []).append(other)
    speedups = {name: median(other.figures.speedup for other in answers) for name, answers in by_method.items()}
    if not speedups:
        return None
    name, speedup = max(speedups.items(), key=lambda item: item[1])
    if name == answer.method or speedup < WORTH * than:
        return None
    settings = by_method[name][-1].asked.get("settings", {})
    return Change(f"{name}, which was {speedup:.1f}× plain in this chat.", name, settings, speedup)


SPECULATE: Mapping[str, str] = {
    "llama-server": "llama-server -md DRAFT.gguf --spec-type draft-simple, or --spec-type ngram-simple",
    "vllm": "vllm serve --speculative-config JSON",
    "sglang": "--speculative-algorithm NAME",
}
"""Engine → the options that make it speculate."""


def _of_server(answer: Answer, info: ModelInfo) -> Diagnosis:
    figures = answer.figures
    engine = info.server.engine if info.server else ""
    if not figures.steps:
        cause = Cause("server", 0.0, "The server does not show its passes, so nothing is known of its guesses.")
        return Diagnosis(0.0, (cause,))
    if figures.drafted and figures.accepted < POOR * figures.drafted:
        guesses = counted(figures.drafted, "guess", "guesses")
        cause = Cause("drafter", 0.0, f"{figures.accepted:,} of {guesses} of the server were right.")
        return Diagnosis(0.0, (cause,), Change("Give it shorter drafts, or another drafter."))
    if figures.tokens <= figures.steps * 1.02:
        cause = Cause("server", 0.0, "The server does not speculate: each pass gave one token.")
        start = Change(f"Start it with {SPECULATE[engine]}.") if engine in SPECULATE else None
        return Diagnosis(0.0, (cause,), start)
    return Diagnosis(0.0, ())
