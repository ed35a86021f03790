"""What `auto` measures on a model and a machine: what passes and drafts take, and how often drafts are right."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary

from ...base import Context
from ...parts.costs import PassCosts, Recent
from ...parts.learned import Calibration

FIRST_TRIAL = 16
"""Rounds that a rival gets when it is first tried, after the one that pays for reading the text: how many of a few drafts are
right is luck."""

DOUBT = 0.6
"""A rival's speed after n rounds is uncertain by this share, divided by the root of n: the luck of a few drafts. One that loses
by more need not finish its trial."""

ENOUGH = 3
"""Rounds before which none is given up."""

EXPLORING = 0.02
"""Share of the time that trials may take which come to nothing: the dearer one was, the longer its rival rests."""

WARM_UP = 8
"""First steps on a model, all plain: there must be something to compare the others with."""

REST = 24
"""Steps before a rival that lost is tried again; doubled each time that it loses."""

MEMORY = 40
"""Rounds after which an older one counts for a third."""

STRETCH = 48
"""Tokens of text after which the pace of an earlier one counts for a third."""

DOUBTED = 0.25
"""What of that counts still when another answer begins."""

CAUGHT_UP = 16
"""A rival that has at most so many tokens to read is taken to be in its stride."""

DEAR = 0.12
"""Share of a one-node pass above which growing fusion's tree costs more than it is better than prompt lookup's."""

FIRST_TREES = 4
"""Trees of fusion's before that is decided."""

FIRST_RETURNS = (0.1, 0.1, 0.1, 0.1)
"""What a return to one-node passes is taken to cost before it was seen several times, over what the bigger pass before it took
more than they do."""

BIGGER = 2
"""A tree that follows a pass over more than so many times as many nodes tells nothing of what such trees take."""

SETTLING = 4
"""One-node passes after a bigger one until they take what they usually take."""

EVERY = 16
"""Of a long series of one-node passes only each so-manieth is learned from, and of the first ones each SETTLING-th: to learn
takes a per cent of a small model's pass."""

USUAL_ANSWER = 64.0
"""Tokens of an answer, before any has been seen."""

SLOWLY = 700
"""Steps after which a size of prompt lookup's probabilities is forgiven two thirds. Lookup itself learns from what is not
drafted too: this has only to remember which drafts were chosen too boldly."""

OTHERS = 4.0
"""Rounds for which what all rivals have seen of the text counts in the estimate of one of them."""

LATEST = 9
"""Drafts of a rival whose median tells what they take."""


@dataclass(slots=True)
class Luck:
    """How rivals' rounds went lately: a property of the text as well."""

    rounds: float = 0.0
    drafted: float = 0.0
    accepted: float = 0.0

    def learn(self, drafted: int, accepted: int) -> None:
        """Take in a round."""
        keep = 1 - 1 / MEMORY
        self.rounds = self.rounds * keep + 1
        self.drafted = self.drafted * keep + drafted
        self.accepted = self.accepted * keep + accepted


@dataclass(slots=True)
class Rival:
    """A drafter that runs a model."""

    luck: Luck = field(default_factory=Luck)
    drafts: Recent = field(default_factory=lambda: Recent(LATEST))
    """What a draft takes for each of its tokens, in one-node passes of the target at that time: a machine that is busy, or hot,
    is slower at everything."""
    rounds: int = 0
    """How many rounds that is of."""
    passes: PassCosts = field(default_factory=PassCosts)
    """Of its verifying passes, in the same unit: early exit's have half of the layers done, and others' begin with caches that
    the draft model's weights have been through."""
    reading: float = 0.0
    """Seconds for each token of the text that it has yet to read before it can draft, a running mean."""
    first: tuple[int, float, int] | None = None
    """Tokens drafted, seconds and tokens read of a round that did both, until `each` tells the one from the other."""
    left: int = FIRST_TRIAL
    """Rounds left of the trial it is in."""
    rest: int = REST
    wakes: int = WARM_UP
    """The step at which its next trial begins."""
    lost: float = 0.0
    """Seconds by which the rounds of this trial took longer than their tokens would have without it."""

    @property
    def each(self) -> float:
        """What a draft takes for each of its tokens, in one-node passes; 0 before it is known."""
        return self.drafts.median

    def learn(
        self, drafted: int, accepted: int, seconds: float, forward: float, unread: int, cold: bool, unit: float = 1.0
    ) -> None:
        """Take in a round.

        Args:
            drafted: tokens of the draft.
            accepted: how many of them were right.
            seconds: of drafting.
            forward: of the verifying pass; 0 if it read the prompt as well.
            unread: tokens that the round had to read first.
            cold: the step before was none of its own: caches and memory hold other weights, and that passes.
            unit: seconds of a one-node pass of the target, as far as is known now.
        """
        if drafted < 1:
            return
        self.luck.learn(drafted, accepted)
        if unread > CAUGHT_UP:
            self.first = (drafted, seconds, unread)
        elif not cold or not self.rounds:
            if not cold and not self.rounds:  # what a cold round told was better than nothing
                self.drafts = Recent(LATEST)
                self.passes.reset()
            self.drafts.learn(seconds / drafted / unit)
            self.passes.learn(1 + drafted, forward / unit)
            self.rounds += not cold
        if self.first is not None and self.each:
            drafted, seconds, unread = self.first
            reading = max(0.0, seconds - drafted * self.each * unit) / unread
            self.reading = self.reading + (reading - self.reading) / 4 if self.reading else reading
            self.first = None


@dataclass(slots=True)
class Pace:
    """Seconds per token, lately."""

    tokens: float = 0.0
    seconds: float = 0.0

    def learn(self, tokens: float, seconds: float) -> None:
        """Take in what came of a step."""
        keep = (1 - 1 / STRETCH) ** tokens
        self.tokens = self.tokens * keep + tokens
        self.seconds = self.seconds * keep + seconds

    def doubt(self) -> None:
        """Another answer may go on at another pace."""
        self.tokens *= DOUBTED
        self.seconds *= DOUBTED


@dataclass(slots=True)
class Experience:
    """All that is measured on one target (with one draft model)."""

    costs: PassCosts = field(default_factory=PassCosts)
    growing: dict[str, Recent] = field(default_factory=lambda: {"fusion": Recent(), "lookup": Recent()})
    """Seconds of growing a tree that was verified, and of learning from it."""
    calibration: dict[str, Calibration] = field(
        default_factory=lambda: {"fusion": Calibration(), "lookup": Calibration(SLOWLY)}
    )
    """What their probabilities are worth in trees that were verified, each given that its parent was right."""
    last: int = 0
    """Nodes of the last tree; 0 after a prompt."""
    lone: bool = False
    """Whether SETTLING one-node passes preceded it."""
    after: float = 0.0
    """Seconds by which the one-node passes since then took longer than usual."""
    returns: Recent = field(default_factory=lambda: Recent(first=FIRST_RETURNS))
    """That, for each second that the tree's pass took more than a one-node pass, of all returns to plain decoding."""
    settled: bool = False
    """Whether a one-node pass after SETTLING others has been seen."""
    fusion: Recent = field(default_factory=Recent)
    """Seconds of growing a tree of fusion's alone."""
    dear: bool = False
    """Whether prompt lookup drafts in fusion's place."""
    rivals: dict[str, Rival] = field(default_factory=dict)
    luck: Luck = field(default_factory=Luck)
    """Of all rivals together."""
    own: Pace = field(default_factory=Pace)
    """Of plain decoding and the readers' trees together, which is what a rival has to beat."""
    steps: int = 0
    verified: int = 0
    """The last step in which fusion or prompt lookup drafted."""
    answer: float = USUAL_ANSWER
    """Tokens of an answer, a running mean."""
    copied: float = 0.0
    """Share of an answer's tokens that fusion or prompt lookup drafted, a running mean."""

    def passed(self, nodes: int, plain: int, seconds: float) -> None:
        """Take in a pass of no rival's.

        Args:
            nodes: of the pass.
            plain: one-node passes right before it, since the last bigger one or the start of the answer.
            seconds: of the pass.
        """
        if nodes > 1:
            # What follows a bigger pass, or the prompt, takes longer than it would among its equals.
            if plain >= SETTLING or (not plain and 0 < self.last <= BIGGER * nodes) or not self.costs.known:
                self.costs.learn(nodes, seconds)
            self.last, self.lone, self.after = nodes, plain >= SETTLING, 0.0
            return
        if plain >= SETTLING:
            if not self.settled:  # what was taken for the cost of a plain pass was that of one right after something else
                self.costs.reset()
                self.costs.learn(1, seconds)
                self.settled = True
                return
            stride = SETTLING if plain < EVERY else EVERY
            if plain % stride == 0:
                self.costs.learn(1, seconds, stride)
            return
        if not self.settled:
            self.costs.learn(1, seconds)
            return
        if not self.lone or not self.last:
            return
        usual = self.costs.seconds(1)
        self.after += seconds - usual
        more = self.costs.seconds(self.last) - usual
        if plain == SETTLING - 1 and more > 0:
            self.returns.learn(min(1.0, max(0.0, self.after / more)))

    def grew(self, seconds: float) -> None:
        """Take in what a tree took to grow, whether it was verified or not: fusion's may be too dear."""
        if self.dear:
            return
        self.fusion.learn(seconds)
        if len(self.fusion) >= FIRST_TREES and self.fusion.median > DEAR * self.costs.seconds(1) > 0:
            self.dear = True

    def back(self, nodes: int) -> float:
        """Seconds by which the SETTLING one-node passes after one over so many nodes take longer than later ones, together.
        Caches and the processor's clock are not what they were: for a model of a few MB that can be several passes."""
        usual = self.costs.seconds(1)
        return self.returns.median * (self.costs.seconds(nodes) - usual)

    @property
    def pace(self) -> float:
        """Seconds per token without a rival: no more than plain decoding takes, for drafts that lose are not made."""
        plain = self.costs.seconds(1)
        return min(plain, self.own.seconds / self.own.tokens) if self.own.tokens else plain

    def loses(self, name: str) -> bool:
        """Whether a rival is slower than what goes on without it, beyond doubt."""
        rounds = self.rivals[name].rounds
        return rounds >= ENOUGH and self.speed(name) * self.pace < 1 - DOUBT / math.sqrt(rounds)

    def speed(self, name: str) -> float:
        """Tokens per second that a rival makes once it has read the text; 0 if nothing is known of it."""
        rival = self.rivals[name]
        if not rival.each:
            return 0.0
        every, own = self.luck, rival.luck
        rounds = own.rounds + OTHERS
        drafted = (own.drafted + OTHERS * every.drafted / every.rounds) / rounds
        accepted = (own.accepted + OTHERS * every.accepted / every.rounds) / rounds
        nodes, unit = 1 + round(drafted), self.costs.seconds(1)
        verifying = rival.passes.seconds(nodes) * unit if rival.passes.known else self.costs.seconds(nodes)
        return (1 + accepted) / (drafted * rival.each * unit + verifying)


_known: WeakKeyDictionary[Any, dict[int, Experience]] = WeakKeyDictionary()


def experience(context: Context) -> Experience:
    """The measurements of this target with this draft model."""
    if context.model is None:
        return Experience()
    return _known.setdefault(context.model, {}).setdefault(id(context.draft_model), Experience())
