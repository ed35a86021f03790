"""Why an answer was no faster: what each part of its time and each wrong guess cost it, and the one change that would help
most.

Each cause is weighed by the same question: how many times as fast would the answer have come without it? All figures are the
answer's own; what a plain pass takes was timed at its end.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from statistics import median, quantiles
from typing import Any, Literal

from ...engine.catalog import Totals
from ...engine.options import MOST_NODES, plain_passes
from ...errors import counted
from ..text.amounts import time_of
from .entries import TELLING_STEPS, Answer
from .methods import Method, length_of, method_named, right_or_accepted

Name = Literal[
    "plain",
    "short",
    "reading",
    "busy",
    "server",
    "unguessed",
    "declined",
    "stopped",
    "nothing to copy",
    "sampling",
    "drafter",
    "dear drafter",
    "too long",
    "too short",
    "long text",
    "experts",
    "wide passes",
    "overhead",
]
"""What can hold an answer back."""

GOOD = 0.8
"""How often a guess is right where a drafter fits its target: what acceptance is weighed against."""
POOR = 0.4
"""A drafter whose first guesses are right less often than this does not fit."""
FEW_PASSES = 8
"""Fewer timed passes tell of an answer only that it was short."""
WORTH = 1.1
"""A cause is named if the answer would have been this many times as fast without it."""
SLOWER = 0.95
"""Below this times plain decoding's speed an answer is called slower."""
LOOKED_AT = 2000
"""Passes at an answer's end whose times are compared: looking into all those of a very long one would hold up the screen."""
SCATTERED = 1.25
"""Passes of one size take this many times their lower quartile on average where something else uses the machine."""
GROWN = 1.25
"""A pass of several nodes has become dearer by the text's length if it costs this many times what it did at load."""
LONG = 1024
"""Tokens of a text that is called long."""
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
    """Times as fast as plain decoding; 0 where that is not known."""
    causes: tuple[Cause, ...]
    """The one that cost the most first."""
    change: Change | None = None
    part: str = ""
    """The method whose part of the answer this is about; empty where it wrote all of it."""


def diagnose(answer: Answer, info: Mapping[str, Any], tried: Sequence[Answer] = ()) -> Diagnosis:
    """Find out why a finished answer was no faster.

    Args:
        answer: whose; of several methods that wrote it, the one that took the most passes counts.
        tried: other answers of the same model, which may have been faster.
    """
    if answer.figures.certainty:
        return _of_server(answer, info)
    name, totals = max(answer.by_method.items(), key=lambda item: item[1].steps, default=(answer.method, answer.totals))
    method, part = method_named(name), name if len(answer.by_method) > 1 else ""
    if method.plain:
        cause = Cause("plain", 0.0, "Plain decoding guesses nothing: each pass gives one token.")
        return Diagnosis(1.0, (cause,), _faster(1.0, tried, answer) or Change(AUTO, "auto"), part)
    load = dict(info.get("pass_seconds") or ())
    case = _Case(answer, totals, method, info, load, answer.figures.plain_seconds or float(load.get(1, 0.0)))
    causes = sorted(filter(None, case.causes()), key=lambda cause: -cause.gain)
    return Diagnosis(case.speedup, tuple(causes), case.change(causes[0].name if causes else "", tried), part)


def blame(answer: Answer, info: Mapping[str, Any]) -> str:
    """What cost the most, in one sentence, if a finished answer came more slowly than plain decoding; empty for any other."""
    if not 0 < answer.figures.speedup < SLOWER or not answer.totals.steps or not answer.counted:
        return ""
    causes = diagnose(answer, info).causes
    return causes[0].said if causes and causes[0].name != "short" else ""


AUTO = "Let auto choose the method: it guesses only where that pays."


@dataclass(frozen=True)
class _Case:
    """One answer's figures; `plain` is the seconds of a plain pass, 0 if unknown."""

    answer: Answer
    totals: Totals
    method: Method
    info: Mapping[str, Any]
    load: Mapping[int, float]
    """Seconds of passes by their nodes, when the model was loaded."""
    plain: float

    @property
    def speedup(self) -> float:
        return self.totals.speedup(self.plain)

    @property
    def settings(self) -> Mapping[str, Any]:
        asked = self.answer.asked
        return asked.get("settings", {}) if asked.get("method", self.answer.method) == self.method.name else {}

    def causes(self) -> Sequence[Cause | None]:
        """All that held it back by at least WORTH; a short answer says nothing else."""
        totals, figures = self.totals, self.answer.figures
        if totals.timed < max(TELLING_STEPS, FEW_PASSES):
            few = counted(totals.steps, "pass", "passes")
            return [Cause("short", 0.0, f"Too short to judge: the answer took only {few}."), self._reading()]
        found = [self._reading(), self._guesses()]
        if self.plain and totals.timed_seconds:
            found += [self._busy(), self._drafting(), self._length(), self._verifying()]
        found = [cause for cause in found if cause is None or cause.gain >= WORTH or not cause.gain]
        if not any(found) and self.speedup < 1 and figures.drafted:
            found.append(
                Cause("drafter", 0.0, f"{self._rate()} of its guesses were {self._right}, too few for what they cost.")
            )
        return found

    @property
    def _pass_seconds(self) -> tuple[float, float]:
        """Mean seconds of a timed step, and of its drafting."""
        return self.totals.timed_seconds / self.totals.timed, self.totals.timed_draft_seconds / self.totals.timed

    @property
    def _other(self) -> float:
        """Mean seconds of a step that neither model nor drafter took."""
        return self.totals.other_seconds / max(1, self.totals.steps)

    @property
    def _right(self) -> str:
        return right_or_accepted(self.answer.label)

    def _rate(self) -> str:
        return f"{100 * self.totals.acceptance_rate:.0f}%"

    def _reading(self) -> Cause | None:
        figures = self.answer.figures
        if figures.prefill_seconds <= figures.decode_seconds:
            return None
        gain = figures.seconds / max(figures.decode_seconds, 1e-9)
        took = f"{time_of(figures.prefill_seconds)} of {time_of(figures.seconds)}"
        return Cause("reading", gain, f"Reading the prompt took {took}; no method makes that faster.")

    def _busy(self) -> Cause | None:
        """Whether passes of one size took very different times, or plain ones much longer than when the model was loaded."""
        by_size: dict[int, list[float]] = {}
        log = self.answer.log
        for step in map(log.record, range(max(0, len(log) - LOOKED_AT), len(log))):
            if step.nodes and not step.prefilled and step.method == self.method.name:
                by_size.setdefault(step.nodes, []).append(step.forward_seconds)
        usual = [(sum(each), quantiles(each, n=4)[0] * len(each)) for each in by_size.values() if len(each) >= FEW_PASSES]
        gain = sum(all_of for all_of, _ in usual) / low if (low := sum(low for _, low in usual)) else 1.0
        if gain >= SCATTERED:
            said = f"Passes of one size took {gain:.1f}× their best time: something else uses this machine."
            return Cause("busy", gain, said)
        # What a step does besides its passes was not timed at load.
        slower = (self.plain - self._other) / self.load[1] if self.load.get(1) else 1.0
        if slower < 1.5 or self._context >= LONG:
            return None
        return Cause(
            "busy", slower, f"Plain passes take {slower:.1f}× what they took at load: something else uses this machine."
        )

    @property
    def _context(self) -> int:
        """Tokens of the text at its end."""
        return self.answer.figures.prompt_tokens + self.answer.figures.tokens

    def _drafting(self) -> Cause | None:
        """What drafting costs at the best length of the drafts: longer ones are another cause."""
        totals, (whole, drafting) = self.totals, self._pass_seconds
        best, _ = self._best()
        if not totals.depth or not best:
            return None
        each, rest = totals.draft_token_seconds, whole - drafting
        if best > 0:
            drafting, rest = best * each, totals.step_seconds(best + 1, self.plain)
        said = f"A draft token takes {each / self.plain:.2g} plain passes."
        return Cause("dear drafter", 1 + drafting / max(rest, 1e-9), said)

    def _length(self) -> Cause | None:
        """Whether another length of the drafts would have been better, at what each position came to."""
        mean, (best, gain) = self._mean_depth, self._best()
        if not best or not mean:
            return None
        at = [100 * rate for rate in self.totals.position_acceptance]
        if best < mean - 0.5:
            last = f"guess {len(at)} is {self._right} {at[-1]:.0f}% of the time" if at else ""
            said = f"Drafts of {mean:.0f} tokens are too long: {last}, and each costs as much as the first."
            return Cause("too long", gain / self.speedup, said)
        if best > mean + 0.5:
            said = f"Drafts of {mean:.0f} tokens are too short: even the last guess is {self._right} {at[-1]:.0f}% of the time."
            return Cause("too short", gain / self.speedup, said)
        return None

    @property
    def _mean_depth(self) -> float:
        """Draft tokens in depth of the passes that verified some; 0 where drafts branch."""
        drafting = sum(1 for drafted in self.totals.drafts if drafted)
        chains = self.totals.depth == self.totals.drafted
        return self.totals.depth / drafting if drafting and chains else 0.0

    def _best(self) -> tuple[int, float]:
        """The best length of a chain and its speedup; (0, 1.0) where none gains, (−1, 0.0) where that cannot be told."""
        rates = self.totals.position_acceptance
        if not self._mean_depth or not rates:
            return -1, 0.0
        drafted = sum(1 for each in self.totals.drafts if each) / len(self.totals.drafts)
        rates = [*rates, *[rates[-1]] * len(rates)]  # a draft of twice the length would go on as this one ended

        def speedup(length: int) -> float:
            tokens = 1 + sum(prod(rates[:k]) for k in range(1, length + 1))
            seconds = length * self.totals.draft_token_seconds + self.totals.step_seconds(length + 1, self.plain)
            return (drafted * tokens + 1 - drafted) * self.plain / (drafted * seconds + (1 - drafted) * self.plain)

        gain, best = max((speedup(k), -k) for k in range(1, len(rates) + 1))
        return (-best, gain) if gain > 1 else (0, 1.0)

    def _verifying(self) -> Cause | None:
        totals, (whole, drafting) = self.totals, self._pass_seconds
        gain = whole / (drafting + min(self.plain, whole - drafting))
        nodes = round(totals.timed_nodes / totals.timed)
        forward = totals.forward_seconds / totals.seconds * whole
        other = self._other
        if other > 0.3 * whole:
            said = f"{100 * other / whole:.0f}% of a pass is neither model nor drafter: the model is too small for its methods."
            return Cause("overhead", whole / (whole - other), said)
        ratio = forward / self.plain
        then = plain_passes(curve)[min(nodes, MOST_NODES)] if len(curve := tuple(self.load.items())) > 1 else 0.0
        costs = f"A pass over {counted(nodes, 'node')} costs {ratio:.1f} plain ones"
        if then and ratio >= GROWN * then and self._context >= LONG:
            said = f"{costs}, and {then:.1f} behind a short text: each node reads {self._context:,} tokens again."
            return Cause("long text", gain, said)
        active = self.info.get("active", 1.0)
        if active < 1 and nodes > 1:
            return Cause(
                "experts", gain, f"{costs}: each token wakes {100 * active:.0f}% of the experts, and several wake more."
            )
        return Cause("wide passes", gain, f"{costs}.") if nodes > 1 else None

    def _guesses(self) -> Cause | None:
        totals, passes = self.totals, len(self.totals.drafts)
        drafting = [run for run, drafted in zip(totals.runs, totals.drafts, strict=True) if drafted]
        if not drafting:
            if why := self.answer.figures.why_declined:
                return Cause("declined", 0.0, f"Its guesses were {why}.")
            text = self.method.group == "text"
            said = "Nothing in the text so far was worth a guess." if text else "No guess was expected to pay."
            return Cause("nothing to copy" if text else "unguessed", 0.0, said)
        given, share = sum(totals.runs) / passes, len(drafting) / passes
        last = max(index for index, drafted in enumerate(totals.drafts) if drafted) + 1
        if share < 0.6 and passes - last >= FEW_PASSES and len(drafting) / last > 0.7:
            gain = sum(drafting) / len(drafting) / given
            return Cause("stopped", gain, f"Nothing was drafted after pass {last:,} of {passes:,}.")
        depth = self._mean_depth or totals.depth / len(drafting)
        could = share * sum(GOOD**k for k in range(round(depth) + 1)) + 1 - share
        first = totals.position_acceptance[0] if totals.position_acceptance else 0.0
        if self.method.group == "text":
            # What a text repeats is guessed well; where it repeats nothing, guesses are few or wrong.
            could = max(could, sum(drafting) / len(drafting))
            copied = f"{100 * share:.0f}% of its passes had something to copy, {self._rate()} of it {self._right}"
            said = f"The text repeats little: {copied}."
            return Cause("nothing to copy", could / given, said) if share < 0.5 or first < POOR else None
        temperature = float(self.answer.asked.get("sampling", {}).get("temperature") or 0.0)
        if temperature >= WARM and totals.alpha < GOOD:
            said = f"At temperature {temperature:g} the model often takes another token than the likeliest, which drafts guess."
            return Cause("sampling", could / given, said)
        if first < POOR:
            often = f"its first guess is {self._right} {100 * first:.0f}% of the time"
            said = f"The drafter seldom knows what this model says: {often}."
            return Cause("drafter", could / given, said)
        return None

    def change(self, first: Name | Literal[""], tried: Sequence[Answer]) -> Change | None:
        """The change that promises the most; where nothing is known of any, what usually helps against the first cause. Of a
        short answer nothing is."""
        if first == "short":
            return None
        found = [_faster(max(self.speedup, 1.0 if self.plain else 0.0), tried, self.answer)]
        best, gain = self._best()
        length = length_of(self.method, self.settings)
        if best > 0 and length is not None and best != length.value and gain >= 1.05 * self.speedup:
            size = min(max(best, length.low), length.high)
            told = {**self.settings, length.setting: size}
            found.append(Change(f"Drafts of {counted(size, 'token')} instead.", self.method.name, told, gain))
        if self.speedup and self.speedup < SLOWER:
            found.append(Change("Decode plainly (greedy).", "greedy", {}, 1.0))
        known = [change for change in found if change is not None]
        if known:
            return max(known, key=lambda change: change.speedup)
        if first == "wide passes" and self.info.get("backend") == "llama.cpp":
            return Change("Draft fewer nodes, or try transformers, where several nodes cost less: --backend transformers.")
        return Change(HINTS[first]) if first in HINTS else None


HINTS: Mapping[str, str] = {
    "reading": "Keep the beginning of the prompt as it is: what was read once is not read again.",
    "busy": "Close what else computes, or give it fewer threads.",
    "unguessed": "Try a method that guesses from something else, such as auto.",
    "declined": "Take a file whose passes over several tokens cost less, such as Q4_0 (docs/models.md).",
    "stopped": "A draft model with a longer context would go on.",
    "nothing to copy": "Try a draft model or a trained drafter: they need no text to copy from.",
    "sampling": "A lower temperature lets more guesses through.",
    "drafter": "Look for a drafter of this model's own family: specchat models.",
    "dear drafter": "Use a smaller draft model, or a method that guesses from the text.",
    "long text": "Draft fewer nodes in long texts.",
    "experts": "Draft fewer nodes: each wakes experts of its own.",
    "wide passes": "Draft fewer nodes.",
    "overhead": "A larger model gains more.",
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
