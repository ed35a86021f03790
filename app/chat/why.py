"""Why an answer was no faster: what each part of its time and each wrong guess cost it, and the one change that would help
most.

Each cause is weighed by the same question: how many times as fast would the answer have come without it? All figures are the
answer's own; what a plain pass takes was timed at its end.
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
from ...errors import counted
from .entries import TELLING_STEPS, Answer
from .methods import Method, length_of, method_named, right_or_accepted

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
"""How often a guess is right where a drafter fits its target: what acceptance is weighed against."""
POOR = 0.4
"""A drafter does not fit whose trees hold the right token in fewer passes than this share."""
FEW_PASSES = 8
"""Fewer timed passes tell of an answer only that it was short."""
FEW_ENDS = 4
"""Passes below which the rate of a draft position is not shown."""
WORTH = 1.1
"""A cause is named if the answer would have been this many times as fast without it."""
SLOWER = 0.95
"""Below this times plain decoding's speed an answer is called slower."""
LOOKED_AT = 2000
"""Passes at an answer's end that are looked into one by one: all those of a very long one would hold up the screen."""
SCATTERED = 1.25
"""Passes of one size take this many times their lower quartile on average where something else uses the machine."""
COSTLY = 1.25
"""Passes of several nodes are called dear if the answer would have been this many times as fast with plain ones."""
DEAR = 0.2
"""Plain passes that a draft token takes at least whose drafter is called dear."""
WARM = 0.7
"""Temperature from which on samples often miss the likeliest token."""


@dataclass(frozen=True, slots=True)
class Cause:
    """Something that held an answer back."""

    name: Name
    gain: float
    """How many times as fast the answer would have been without it; 0 where that cannot be told."""
    said: str
    """What it is, in one sentence."""


@dataclass(frozen=True, slots=True)
class Change:
    """What would help most."""

    said: str
    """The change, in one sentence."""
    method: str = ""
    """The method to switch to; empty where it is nothing that a key can do."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """The settings of that method."""
    speedup: float = 0.0
    """Expected × plain; 0 where nothing is known of it."""


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """What there is to say about an answer's speed."""

    speedup: float
    """Times as fast as plain decoding: `tokens` ÷ `cost`; 0 where that is not known."""
    causes: tuple[Cause, ...]
    """The one that cost the most first."""
    change: Change | None = None
    part: str = ""
    """The method whose part of the answer this is about; empty where it wrote all of it."""
    tokens: float = 0.0
    """Tokens of a timed pass, on average."""
    cost: float = 0.0
    """Plain passes that it took as long as, on average; 0 where that is not known."""


def diagnose(
    answer: Answer, info: Mapping[str, Any], tried: Sequence[Answer] = (), unavailable: Collection[str] = ()
) -> Diagnosis:
    """Find out why a finished answer was no faster.

    Args:
        answer: whose; of several methods that wrote it, the one that took the most passes counts.
        tried: other answers of the same model, which may have been faster.
        unavailable: methods that the model refuses, none of which is advised.
    """
    if answer.figures.certainty:
        return _of_server(answer, info)
    name, totals = max(answer.by_method.items(), key=lambda item: item[1].steps, default=(answer.method, answer.totals))
    method, part = method_named(name), name if len(answer.by_method) > 1 else ""
    if not (info.get("capabilities") or {}).get("chain", True):
        unavailable = (*unavailable, "auto")
    tried = [other for other in tried if not {*other.methods} & {*unavailable}]
    if method.plain:
        cause = Cause("plain", 0.0, "Plain decoding guesses nothing: each pass gives one token.")
        auto = Change(AUTO, "auto") if "auto" not in unavailable else None
        return Diagnosis(1.0, (cause,), _faster(1.0, tried, answer) or auto, part)
    if answer.figures.contended:
        cause = Cause("busy", 0.0, "Other programs took the processor meanwhile, so its speed is not known.")
        return Diagnosis(0.0, (cause,), Change(HINTS["busy"]), part)
    at_load = (
        0.0 if answer.figures.rested else dict(info.get("pass_seconds") or ()).get(1, 0.0)
    )  # slowed passes compare with none
    case = _Case(answer, totals, method, info, answer.figures.plain_seconds or float(at_load))
    causes = sorted(filter(None, case.causes()), key=lambda cause: -cause.gain)
    change = case.change(causes, tried)
    return Diagnosis(case.speedup, tuple(causes), change, part, *case.sum)


def blame(answer: Answer, info: Mapping[str, Any]) -> str:
    """What cost the most, in one sentence, if a finished answer came more slowly than plain decoding; empty for any other."""
    if not 0 < answer.figures.speedup < SLOWER or not answer.totals.steps:
        return ""
    causes = diagnose(answer, info).causes
    return causes[0].said if causes and causes[0].name != "short" else ""


AUTO = "Let auto choose the method: it guesses only where that pays."


class _Passes(NamedTuple):
    """The passes of a method that had a draft."""

    drafting: int
    held: int
    """Those whose tree held the right token after the last one."""
    full: int
    """Those in which a whole path was accepted of a tree as deep as it may be: its limit ended it."""
    ties: int
    """Those whose path the guard ended at a near tie although the tree held the model's choice: another pass decided."""

    @classmethod
    def of(cls, steps: Sequence[StepRecord], limit: int) -> _Passes:
        """Look into them; `limit` is how deep a tree may be, 0 for as deep as the deepest."""
        found = list[tuple[bool, int, int, bool]]()
        for step in filter(lambda step: step.drafted, steps):
            last, depths = step.path[-1] if step.path else 0, [0]
            for parent in step.tree_parents[1:]:
                depths.append(depths[parent] + 1)
            nodes = zip(step.tree_tokens, step.tree_parents, strict=True)
            tie = any(parent == last and token == step.tokens[-1] for token, parent in nodes)
            found.append((step.accepted > 0 or tie, max(depths) if step.tree_parents else step.drafted, step.accepted, tie))
        limit = limit or max((depth for _, depth, _, _ in found), default=0)
        full = sum(accepted >= depth >= limit for _, depth, accepted, _ in found)
        return cls(len(found), sum(held for held, *_ in found), full, sum(tie for *_, tie in found))


@dataclass(frozen=True)
class _Case:
    """One answer's figures; `plain` is the seconds of a plain pass, 0 if unknown."""

    answer: Answer
    totals: Totals
    method: Method
    info: Mapping[str, Any]
    plain: float

    @property
    def speedup(self) -> float:
        return self.totals.speedup(self.plain)

    @property
    def sum(self) -> tuple[float, float]:
        """Tokens of a timed pass, and the plain passes that it took as long as."""
        totals = self.totals
        cost = totals.timed_seconds / totals.timed / self.plain if self.plain and totals.timed else 0.0
        return (totals.timed_tokens / totals.timed if totals.timed else 0.0), cost

    @cached_property
    def steps(self) -> list[StepRecord]:
        """The method's passes among the last LOOKED_AT of the answer."""
        log = self.answer.log
        records = map(log.record, range(max(0, len(log) - LOOKED_AT), len(log)))
        return [step for step in records if step.nodes and step.method == self.method.name]

    @cached_property
    def passes(self) -> _Passes:
        return _Passes.of(self.steps, self.deepest[0])

    @property
    def deepest(self) -> tuple[int, int]:
        """The setting of how deep its trees may be, and the most that it takes; zeros for a method without one."""
        param = next((param for param in self.method.params if param["name"] == "depth"), None)
        return (int(self.settings.get("depth", param["default"])), param.get("high") or 256) if param else (0, 0)

    @property
    def settings(self) -> Mapping[str, Any]:
        asked = self.answer.asked
        return asked.get("settings", {}) if asked.get("method", self.answer.method) == self.method.name else {}

    @property
    def warm(self) -> bool:
        """Whether samples miss what drafts guess."""
        temperature = float(self.answer.asked.get("sampling", {}).get("temperature") or 0.0)
        return temperature >= WARM and self.totals.alpha < GOOD

    def causes(self) -> Sequence[Cause | None]:
        """All that held it back by at least WORTH; a short answer says nothing else."""
        totals = self.totals
        if totals.timed < max(TELLING_STEPS, FEW_PASSES):
            few = counted(totals.steps, "pass", "passes")
            return [Cause("short", 0.0, f"Too short to judge: the answer took only {few}.")]
        found = [self._guesses(), self._ties()]
        if self.plain and totals.timed_seconds:
            found += [self._busy(), self._drafting(), self._length(), self._verifying()]
        found = [cause for cause in found if cause is None or cause.gain >= WORTH or not cause.gain]
        if not any(found) and 0 < self.speedup < 1 and self.passes.drafting:
            said = f"{self._held}: too few for what they cost."
            found.append(Cause("dear passes" if totals.alpha > GOOD else "drafter", 0.0, said))
        return found

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
        """Whether passes of one size took very different times."""
        by_size: dict[int, list[float]] = {}
        for step in self.steps:
            if not step.prefilled:
                by_size.setdefault(step.nodes, []).append(step.forward_seconds)
        usual = [(sum(each), quantiles(each, n=4)[0] * len(each)) for each in by_size.values() if len(each) >= FEW_PASSES]
        gain = sum(all_of for all_of, _ in usual) / low if (low := sum(low for _, low in usual)) else 1.0
        said = f"Passes of one size took {gain:.1f}× their best time: something else uses this machine."
        return Cause("busy", gain, said) if gain >= SCATTERED else None

    def _drafting(self) -> Cause | None:
        """What drafting costs at the best length of the drafts: longer ones are another cause."""
        totals, (best, _) = self.totals, self._best()
        if not totals.depth or not best:
            return None
        each, drafting = totals.draft_token_seconds, totals.timed_draft_seconds / totals.timed
        if each < DEAR * self.plain:
            return None
        rest = totals.timed_seconds / totals.timed - drafting
        if best > 0:
            drafting, rest = best * each, totals.step_seconds(best * self._width + 1, self.plain)
        said = f"A draft token takes {each / self.plain:.2g} plain passes."
        return Cause("dear drafter", 1 + drafting / max(rest, 1e-9), said)

    def _length(self) -> Cause | None:
        """Whether another length of the drafts would have been better, at what each position came to."""
        mean, (best, gain) = self._mean_depth, self._best()
        rates, full = self._rates, self.passes.full
        if not best or not rates or not self.speedup:
            return None
        if best < mean - 0.5:
            last = f"guess {len(rates)} is {self._right} {100 * rates[-1]:.0f}% of the time"
            said = f"Drafts of {mean:.0f} tokens are too long: {last}, and each costs as much as the first."
            return Cause("too long", gain / self.speedup, said)
        if best > mean + 0.5 and full > self.passes.drafting / 4:
            ends = f"{full:,} of {counted(self.passes.drafting, 'pass', 'passes')} ended at their limit"
            return Cause("too short", gain / self.speedup, f"Drafts of {mean:.0f} tokens are too short: {ends}.")
        return None

    @property
    def _mean_depth(self) -> float:
        """Draft tokens in depth of the passes that verified some."""
        drafting = sum(1 for drafted in self.totals.drafts if drafted)
        return self.totals.depth / drafting if drafting else 0.0

    @property
    def _width(self) -> float:
        """Nodes of a draft for each token of its depth: 1 where it is a chain."""
        return self.totals.drafted / self.totals.depth if self.totals.depth else 1.0

    @property
    def _rates(self) -> list[float]:
        """Return the rate at which each draft position was right if all before it were, as far as enough passes tell."""
        totals = self.totals
        known = sum(steps >= FEW_ENDS for steps in totals.drafted_at) or len(totals.drafted_at)
        return totals.position_acceptance[:known]

    def _best(self) -> tuple[int, float]:
        """The best depth of a draft as wide as these, and its speedup; (0, 1.0) where none gains, (−1, 0.0) where that cannot
        be told."""
        rates = self._rates
        if not self._mean_depth or not rates or not self.plain:
            return -1, 0.0
        drafted = sum(1 for each in self.totals.drafts if each) / len(self.totals.drafts)
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
        said = f"A pass over {nodes} nodes costs {costs:.1f} plain ones."
        return Cause("dear passes", gain, said) if nodes > 1 and gain >= COSTLY else None

    def _ties(self) -> Cause | None:
        """Judge the cost of near ties, each of which ended a path: another pass decided it."""
        ties, steps = self.passes.ties, len(self.steps)
        said = f"In {ties:,} of {counted(steps, 'pass', 'passes')} the draft was right, but a near tie took another pass."
        return Cause("near ties", steps / (steps - ties), said) if 0 < ties < steps else None

    def _guesses(self) -> Cause | None:
        totals, passes = self.totals, len(self.totals.drafts)
        drafting = [run for run, drafted in zip(totals.runs, totals.drafts, strict=True) if drafted]
        copies = self.method.group == "text"
        if not drafting:
            if why := self.answer.figures.why_declined:
                return Cause("dear passes", 0.0, f"Its guesses were {why}.")
            said = "Nothing in the text so far was worth a guess." if copies else "No guess was expected to pay."
            return Cause("nothing to copy" if copies else "drafter", 0.0, said)
        given, share = sum(totals.runs) / passes, len(drafting) / passes
        depth = totals.depth / len(drafting)
        could = share * sum(GOOD**k for k in range(round(depth) + 1)) + 1 - share
        held = self.passes.held / max(1, self.passes.drafting)
        if copies:
            # What a text repeats is guessed well; where it repeats nothing, guesses are few or wrong.
            could = max(could, sum(drafting) / len(drafting))
            copied = f"{100 * share:.0f}% of its passes had something to copy"
            said = f"The text repeats little: {copied}. {self._held}."
            return Cause("nothing to copy", could / given, said) if share < 0.5 or held < POOR else None
        if self.warm:
            temperature = self.answer.asked["sampling"]["temperature"]
            said = f"At temperature {temperature:g} the model often takes another token than the likeliest, which drafts guess."
            return Cause("drafter", could / given, said)
        if held < POOR and totals.alpha <= GOOD:
            return Cause("drafter", could / given, f"The drafter seldom knows what this model says. {self._held}.")
        return None

    def change(self, causes: Sequence[Cause], tried: Sequence[Answer]) -> Change | None:
        """The change that promises the most; where nothing is known of any, what usually helps against the first cause. Of a
        short answer nothing is."""
        name = causes[0].name if causes else ""
        if name == "short":
            return None
        found = [_faster(max(self.speedup, 1.0 if self.plain else 0.0), tried, self.answer)]
        if {"too long", "too short"} & {cause.name for cause in causes}:
            found.append(self._other_length())
        if self.speedup and self.speedup < SLOWER:
            found.append(Change("Decode plainly (greedy).", "greedy", {}, 1.0))
        known = [change for change in found if change is not None]
        if known:
            return max(known, key=lambda change: change.speedup)
        if name == "drafter" and self.warm:
            return Change("A lower temperature lets more guesses through.")
        if name == "drafter" and self.totals.alpha > GOOD:
            return None
        if name == "dear passes" and self.info.get("backend") == "llama.cpp":
            return Change("Draft fewer nodes, or try transformers, where several nodes cost less: --backend transformers.")
        return Change(HINTS[name]) if name in HINTS else None

    def _other_length(self) -> Change | None:
        """Shorter or longer drafts, where they promise more: by the setting that ended these."""
        (best, gain), mean = self._best(), self._mean_depth
        length = length_of(self.method, self.settings)
        if best <= 0 or length is None or gain < 1.05 * self.speedup:
            return None
        setting, now, low, high = length
        if self.deepest[0] and mean > self.deepest[0] - 0.5:
            setting, low, (now, high) = "depth", 1, self.deepest
        size = round(now * best / mean) if setting == "nodes" else best
        size = min(max(size, low), high)
        if size == now or (size < now) != (best < mean):  # the setting is not what ended these drafts
            return None
        unit = "node" if setting == "nodes" else "token"
        said = f"Trees of {size} nodes instead." if unit == "node" else f"Drafts of {counted(size, unit)} instead."
        return Change(said, self.method.name, {**self.settings, setting: size}, gain)


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
"""Cause → what usually helps, where no figure is known."""


def _faster(than: float, tried: Sequence[Answer], answer: Answer) -> Change | None:
    """The method of another answer of this chat that was the fastest, if it was faster by WORTH."""
    by_method: dict[str, list[Answer]] = {}
    for other in tried:
        if other is not answer and len(other.methods) == 1 and other.figures.speedup:
            by_method.setdefault(other.methods[0], []).append(other)
    ratios = {name: median(each.figures.speedup for each in others) for name, others in by_method.items()}
    name = max(ratios, key=lambda each: ratios[each], default="")
    if not name or name == answer.method or ratios[name] < WORTH * than:
        return None
    settings = by_method[name][-1].asked.get("settings", {})
    return Change(f"{name}, which was {ratios[name]:.1f}× plain in this chat.", name, settings, ratios[name])


SPECULATE: Mapping[str, str] = {
    "llama-server": "llama-server -md DRAFT.gguf --spec-type draft-simple, or --spec-type ngram-simple",
    "vllm": "vllm serve --speculative-config JSON",
    "sglang": "--speculative-algorithm NAME",
}
"""Engine → what makes it speculate."""


def _of_server(answer: Answer, info: Mapping[str, Any]) -> Diagnosis:
    figures = answer.figures
    engine = (info.get("server") or {}).get("engine", "")
    if not figures.steps:
        said = "The server does not show its passes, so nothing is known of its guesses."
        return Diagnosis(0.0, (Cause("server", 0.0, said),))
    if figures.drafted and figures.accepted < POOR * figures.drafted:
        said = f"{figures.accepted:,} of {counted(figures.drafted, 'guess', 'guesses')} of the server were right."
        return Diagnosis(0.0, (Cause("drafter", 0.0, said),), Change("Give it shorter drafts, or another drafter."))
    if figures.steps and figures.tokens <= figures.steps * 1.02:
        start = f" Start it with {SPECULATE[engine]}." if engine in SPECULATE else ""
        said = "The server does not speculate: each pass gave one token."
        return Diagnosis(0.0, (Cause("server", 0.0, said),), Change(start.strip()) if start else None)
    return Diagnosis(0.0, ())
