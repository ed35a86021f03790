"""The method picks itself: every step goes to the drafter from which most tokens per second are expected.

Three things are measured while the answer is written: what a pass over n nodes takes, what each drafter takes and how often it
is right, and what fusion's own probabilities are worth. Fusion (fusion.py) tells before the pass how probable each node of its
tree is, so for it the best number of nodes is known for every single step; a tree of one node is plain decoding. Drafters that
run a model are known by their last rounds only; they are tried now and then, more rarely the worse they did.

The measurements belong to a model on a machine and outlive the conversation.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary

from .base import Context, Drafter, Tree, Verified, param
from .calibration import Calibration
from .costs import PassCosts
from .draft import Draft
from .early_exit import EarlyExit
from .fusion import Fusion, FusionParams
from .proposers import mismatch

FIRST_TRIAL = 4
"""Rounds that a rival gets when it is first tried: the first round of all pays for reading the text."""

WARM_UP = 8
"""Steps before the first rival is tried: there must be something to compare it with."""

REST = 24
"""Steps before a rival that lost is tried again; doubled each time that it loses."""

LONGEST_REST = 768
"""A text may change at any time, so that no rival rests for ever."""

RETRIAL = 2
"""Rounds of a later trial."""

PROMISE = 2.0
"""Where fusion expects this many times plain decoding's speed, no rival is put on trial: a copy is no time for it."""

MARGIN = 1.03
"""A rival must be this much faster to take over, and a draft of fusion's to be made at all: estimates err."""

MEMORY = 40
"""Rounds after which an older one counts for a third."""

LONGEST_NAP = 8
"""After a step in which no draft would have paid, steps without growing a tree at all: 1, 2, 4 … as long as nothing pays.
Growing a tree costs a few per cent of a small model's pass; a longer nap would miss the start of a copy."""

USUAL_ANSWER = 64.0
"""Tokens of an answer, before any has been seen."""

ANSWERS = 8
"""Answers after which an older one counts for a third."""

OPENING = 4
"""Steps at the start of an answer in which no rival is asked where answers have mostly been copies: a copy shows after a token
or two, and a rival's first round would spend the time of several steps on what fusion then drafts for nothing."""

FEW_ANSWERS = 3
"""The same of what tells copies: whoever copies does so for a while."""

COPIES = 0.35
"""Share of an answer's tokens that fusion drafted, as a running mean over answers, from which they are taken to be copies."""

CAUGHT_UP = 16
"""A rival that has at most so many tokens to read is taken to be in its stride."""

REMEASURE = 48
"""Steps after which a tree that promises much is verified against all figures: a machine that was busy when passes over many
nodes were measured may be idle now, and only such a pass tells."""

PROMISING = 3.0
"""Tokens that such a tree must be expected to yield."""


@dataclass(frozen=True, slots=True)
class AutoParams:
    """Settings of auto."""

    nodes: int = param(24, "Most nodes of a tree, the pending token included", low=1, high=256)
    rivals: bool = param(True, "Also try the draft model and early exit, where the model can")


@dataclass(slots=True)
class Record:
    """How a way to go on has done lately."""

    tokens: float = 0.0
    seconds: float = 0.0
    rounds: int = 0

    def learn(self, tokens: int, seconds: float) -> None:
        """Take in a round."""
        keep = 1 - 1 / MEMORY
        self.tokens = self.tokens * keep + tokens
        self.seconds = self.seconds * keep + seconds
        self.rounds += 1

    @property
    def speed(self) -> float:
        """Tokens per second; 0 if nothing is known."""
        return self.tokens / self.seconds if self.seconds else 0.0


@dataclass(slots=True)
class Rival:
    """A drafter that runs a model."""

    record: Record = field(default_factory=Record)
    reading: float = 0.0
    """Seconds for each token of the text that it has yet to read before it can draft, a running mean."""
    left: int = FIRST_TRIAL
    """Rounds left of the trial it is in."""
    rest: int = REST
    wakes: int = WARM_UP
    """The step at which its next trial begins."""


@dataclass(slots=True)
class Experience:
    """All that is measured on one target (with one draft model)."""

    costs: PassCosts = field(default_factory=PassCosts)
    calibration: Calibration = field(default_factory=Calibration)
    growing: float = 0.0
    """Seconds of growing a tree of fusion's and learning from it, a running mean."""
    rivals: dict[str, Rival] = field(default_factory=dict)
    leader: str = ""
    """The rival that is in force."""
    steps: int = 0
    measured: int = 0
    """The last step with a tree."""
    own: Record = field(default_factory=Record)
    """What fusion's trees and plain steps did together."""
    answer: float = USUAL_ANSWER
    """Tokens of an answer, a running mean."""
    copied: float = 0.0
    """Share of an answer's tokens that fusion drafted, a running mean."""


_known: WeakKeyDictionary[Any, dict[int, Experience]] = WeakKeyDictionary()


def experience(context: Context) -> Experience:
    """The measurements of this target with this draft model."""
    if context.model is None:
        return Experience()
    return _known.setdefault(context.model, {}).setdefault(id(context.draft_model), Experience())


class Auto(Drafter):
    """Expected tokens per second decide.

    For a tree of fusion's first b nodes: (1 + Σ corrected probabilities) / seconds of a pass over b nodes; b = 1 is plain
    decoding. For a rival: what it achieved in its last rounds.
    """

    name = "auto"
    summary = "Chooses drafter and number of nodes for every step by the tokens per second that it expects."
    pays = "When you do not want to choose; it turns drafting off where that loses."
    Params = AutoParams
    params: AutoParams

    def __init__(self, params: AutoParams | None = None) -> None:
        super().__init__(params)
        self._fusion = Fusion(FusionParams(nodes=self.params.nodes))
        self._models: dict[str, Drafter] = {}
        self._alone = Experience()
        self._experience = self._alone
        self._via = "plain"
        self._unread = 0
        """Tokens that the rival in force has to read first: where they are many, the round tells nothing about its speed."""
        self._text: Sequence[int] = ()
        self._prompt = 0
        self._steps = 0
        """Of this answer."""
        self._copied = 0
        """Tokens of this answer that fusion drafted."""
        self._read: dict[str, tuple[Sequence[int], int]] = {}
        """By rival: the text that it has read, and how many tokens of it."""
        self._idle, self._nap = 0, 1
        self._growing = 0.0
        self._note = ""

    @property
    def note(self) -> str:
        return self._note

    def draft(self, context: Context) -> Tree:
        self._note = ""
        known = self._experience = self._alone if context.model is None else experience(context)
        known.steps += 1
        if context.tokens is not self._text:
            self._begin(context.tokens, known)
        self._steps += 1
        rival = self._rival(context, known)
        if rival:
            return self._ask(rival, context)
        return self._own(context, known)

    def _begin(self, tokens: Sequence[int], known: Experience) -> None:
        """Another answer begins."""
        self._end(known)
        for name, (text, read) in self._read.items():
            shared = next((i for i in range(min(read, len(tokens))) if text[i] != tokens[i]), min(read, len(tokens)))
            self._read[name] = (tokens, shared)
        self._text, self._prompt, self._copied, self._steps = tokens, len(tokens), 0, 0

    def _end(self, known: Experience) -> None:
        """An answer has ended."""
        if (written := len(self._text) - self._prompt) > 0:
            known.answer += (written - known.answer) / ANSWERS
            known.copied += (min(1.0, self._copied / written) - known.copied) / FEW_ANSWERS

    def _missing(self, name: str, context: Context) -> int:
        """Tokens that a rival has to read before it can draft. The target's own layers have read them all."""
        return 0 if name == "early-exit" else len(context.tokens) - self._read.get(name, ((), 0))[1]

    def _pays(self, name: str, context: Context, known: Experience) -> bool:
        """Whether what a leader has to read first is made up for by what it gains on the rest of an answer, whose length is
        taken to be the usual one however much of it is there (so do lengths that are distributed exponentially)."""
        rival, unread = known.rivals[name], self._missing(name, context)
        if unread <= CAUGHT_UP or not rival.record.speed:
            return True
        left = min(known.answer, context.room + 1)
        without = max(1 / known.costs.seconds(1), known.own.speed)
        return left * (1 / without - 1 / rival.record.speed) > unread * rival.reading

    def _own(self, context: Context, known: Experience, beat: float = 0.0) -> Tree:
        """Fusion's tree as far as its nodes pay, or plain decoding. If no tree is expected to beat a speed, it is plain."""
        if self._idle and not beat:
            self._idle -= 1
            return self._plain(context)
        fusion, costs = self._fusion, known.costs
        one = costs.seconds(1)
        # A node pays if its probability is above what it adds to a pass; what fusion thinks too little of gets a chance.
        floor = 0.0 if not one else min(0.3, 0.5 * max(0.0, costs.seconds(16) - one) / (15 * one))
        if fusion.params.nodes != self.params.nodes or abs(fusion.params.floor - floor) > 0.2 * floor:
            fusion.params = FusionParams(nodes=self.params.nodes, floor=floor)
        begun = time.perf_counter()
        tree = fusion.draft(context)
        self._growing = time.perf_counter() - begun
        best, speed = self._best(known, len(tree))
        if best > 1:
            known.measured = known.steps
        elif not beat and known.steps - known.measured >= REMEASURE and sum(fusion.probabilities) >= PROMISING:
            best, known.measured = min(len(tree), 8), known.steps
        if best > 1 and speed > beat:
            del tree.tokens[best:], tree.parents[best:], fusion.probabilities[best:]
            self._idle, self._nap = 0, 1
            tree.via = "fusion"
            self._change("fusion", lambda: f"fusion: {sum(fusion.probabilities):.1f} tokens expected of {best} nodes")
            return tree
        if beat:
            return Tree.root(context.pending)
        self._idle, self._nap = self._nap, min(2 * self._nap, LONGEST_NAP)
        return self._plain(context)

    def _best(self, known: Experience, size: int) -> tuple[int, float]:
        """The number of nodes with most tokens per second, and how many."""
        costs, probabilities = known.costs, self._fusion.probabilities
        if not costs.known:
            return size, 0.0
        best, top = 1, MARGIN / costs.seconds(1)
        expected = 1.0
        for nodes in range(2, size + 1):
            expected += known.calibration.corrected(probabilities[nodes - 1])
            speed = expected / (costs.seconds(nodes) + known.growing)
            if speed > top:
                best, top = nodes, speed
        return best, top

    def _plain(self, context: Context) -> Tree:
        tree = Tree.root(context.pending)
        tree.via = "greedy"
        self._change("plain", lambda: "plain decoding: no draft would pay here")
        return tree

    def _rival(self, context: Context, known: Experience) -> str:
        """The drafter with a model of its own that takes this step, if one does."""
        names = self._available(context)
        if not names or context.room < 2 or (self._steps <= OPENING and known.copied > COPIES):
            return ""
        for name in names:
            rival = known.rivals.setdefault(name, Rival())
            if known.steps >= rival.wakes and rival.left and self._pays(name, context, known):
                return name
        if known.leader in names and self._pays(known.leader, context, known):
            return known.leader
        return ""

    def _available(self, context: Context) -> list[str]:
        """Rivals that this model can run."""
        if not self.params.rivals or context.model is None:
            return []
        names = ["draft"] if context.draft_model is not None and not mismatch_of(context) else []
        return [*names, "early-exit"] if context.model.info.capabilities.layers else names

    def _ask(self, name: str, context: Context) -> Tree:
        """A rival's draft, or fusion's where that expects more."""
        known = self._experience
        rival = known.rivals[name]
        trial = known.leader != name
        # A round of a rival takes many times as long as growing a tree, and a passage that is copied shows there at once.
        tree = self._own(context, known, beat=PROMISE / known.costs.seconds(1) if trial else MARGIN * rival.record.speed)
        if len(tree) > 1:
            return tree
        drafter = self._models.get(name)
        if drafter is None:
            drafter = self._models[name] = _make(name)
        self._unread = self._missing(name, context)
        tree = drafter.draft(context)
        self._read[name] = (context.tokens, len(context.tokens))
        tree.via = name
        plain = 1 / known.costs.seconds(1)
        word = "on trial" if trial else f"{rival.record.speed:.0f} tokens/s, plain decoding {plain:.0f}"
        self._change(name, lambda: f"{name}: {word}")
        return tree

    def _change(self, via: str, note: Callable[[], str]) -> None:
        """Remember who drafts; say so if that is another than before."""
        if via != self._via:
            self._via, self._note = via, note()

    def learn(self, verified: Verified) -> None:
        known, via = self._experience, self._via
        known.costs.learn(len(verified.tree), verified.forward_seconds)
        tokens = len(verified.path)
        if via in self._models:
            self._models[via].learn(verified)
            self._judge(known, via, tokens, verified)
            return
        known.own.learn(tokens, verified.draft_seconds + verified.forward_seconds)
        if via == "fusion":
            self._copied += tokens - 1
            begun = time.perf_counter()
            known.calibration.learn(self._fusion.probabilities, set(verified.path))
            self._fusion.learn(verified)
            seconds = self._growing + time.perf_counter() - begun
            before = known.growing or seconds
            known.growing = before + (min(seconds, 3 * before) - before) / MEMORY

    def _judge(self, known: Experience, name: str, tokens: int, verified: Verified) -> None:
        """Take in a rival's round; at the end of a trial it leads or rests."""
        rival = known.rivals[name]
        seconds = verified.draft_seconds + verified.forward_seconds
        stride = self._unread <= CAUGHT_UP
        if stride:
            rival.record.learn(tokens, seconds)
        else:
            usual = tokens / rival.record.speed if rival.record.speed else verified.forward_seconds
            each = max(0.0, seconds - usual) / self._unread
            rival.reading = rival.reading + (each - rival.reading) / 4 if rival.reading else each
        plain = 1 / known.costs.seconds(1)
        if known.leader == name:
            if rival.record.speed < plain:
                known.leader = ""
                self._put_to_rest(known, rival)
            return
        if stride:
            rival.left -= 1
        if rival.left > 0:
            return
        leader = known.rivals[known.leader].record.speed if known.leader else 0.0
        if rival.record.speed > MARGIN * max(plain, leader):
            known.leader, rival.rest = name, REST
        self._put_to_rest(known, rival)

    def _put_to_rest(self, known: Experience, rival: Rival) -> None:
        rival.wakes, rival.left = known.steps + rival.rest, RETRIAL
        rival.rest = min(2 * rival.rest, LONGEST_REST)

    def close(self) -> None:
        self._end(self._experience)
        self._text, self._prompt = (), 0
        for drafter in self._models.values():
            drafter.close()
        self._models.clear()


def _make(name: str) -> Drafter:
    """A rival. A draft's length follows its confidence: it changes from word to word, more than averages tell."""
    if name == "draft":
        return Draft()
    return EarlyExit()


_mismatches: WeakKeyDictionary[Any, dict[int, str]] = WeakKeyDictionary()


def mismatch_of(context: Context) -> str:
    """Why the draft model cannot draft for this target, compared once; empty if it can."""
    target, draft = context.model, context.draft_model
    if target is None or draft is None:
        return "there is no draft model"
    reasons = _mismatches.setdefault(target, {})
    if id(draft) not in reasons:
        reasons[id(draft)] = mismatch(target, draft)
    return reasons[id(draft)]
