"""The method picks itself: every step goes to the one from which most tokens per second are expected (docs/auto.md).

A bandit: discounted UCB (Garivier and Moulines 2008, arXiv:0805.3415) on tokens per second, in four situations: does the text
repeat itself here, and was it long to begin with? What only reads the text also tells how probable each node of its tree is.
"""

from __future__ import annotations

import math
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, replace

from ....backends.base import ROOT
from ...base import Context, Drafter, Elsewhere, Verified, param
from ...parts.drafting import Following
from ...parts.elsewhere import ngram_tree
from ...registry import methods
from ...tree import Tree
from ..fusion import Fusion, FusionParams
from ..lookup import Lookup, LookupParams
from .figures import WIDTH, WRITTEN, Figures, Rounds, figures_of, keep

REPEATING = 3
"""Tokens at the end of the text that must have stood together before for it to repeat itself."""

LONG = 32
"""Tokens of a text that is long: there is something to copy from, and reading it costs a draft model something."""

TRIAL = 8
"""Rounds that each arm gets in a situation before it has to compete."""

ANSWER = 32
"""Tokens after which what an answer's own rounds gave counts as much as what all others let expect."""

READERS = "lookup", "fusion"

REMEASURED = 128
"""Steps without a plain pass after which two are made: all else is held against them."""

Choice = tuple[str, dict[str, float], Lookup | Fusion]
"""In a situation: what is on trial or the best, tokens in a one-node pass's time, what reads the text."""


@dataclass(frozen=True, slots=True)
class AutoParams:
    """Settings of auto."""

    nodes: int = param(24, "Most nodes in a tree, including the pending token", low=1, high=256, length=True)
    rivals: bool = param(True, "Also try the draft model or trained head, and early exit, if available")


class Auto(Drafter):
    """Expected tokens per second decide: (1 + draft tokens expected to be accepted) / seconds of drafting and of the pass."""

    name = "auto"
    group = "automatic"
    reads_cache = False
    summary = "Chooses the drafter and the number of nodes for every pass, by the tokens per second it expects."
    pays = "When you do not want to choose. It stops drafting where that would only cost time."
    explains = (
        "Before each pass it estimates how many tokens per second every way of drafting would give: copies from the text, a "
        "draft model or a trained head, early exit, or no draft at all. It takes the best and keeps measuring. "
        "The note above the tree says why it changes."
    )
    paper = "On Upper-Confidence Bound Policies for Non-Stationary Bandit Problems, Garivier 2008, arXiv:0805.3415"
    note = ""
    Params = AutoParams
    params: AutoParams

    @classmethod
    def elsewhere(cls, params: AutoParams, draft_model: str) -> Elsewhere:
        return ngram_tree(params.nodes)

    def __init__(self, params: AutoParams | None = None) -> None:
        super().__init__(params)
        self._figures, self._choices = Figures(), dict[str, Choice]()  # by situation, as long as they hold
        self._context: Context | None = None
        nodes = self.params.nodes
        self._lookup, self._fusion = Lookup(LookupParams(nodes=nodes)), Fusion(FusionParams(nodes=nodes))
        self._arms, self._following = dict[str, Drafter](), Following()
        self._read = dict[str, int]()  # by arm: how many tokens of the text it has read
        self._before = 0, 0.0  # nodes and seconds of the pass before
        # Of this answer, by situation and whether only the text is read: tokens that came, and how many were expected (passes).
        self._here = defaultdict[tuple[str, bool], Rounds](lambda: Rounds(0, ANSWER, ANSWER))
        self._unread = self._naps = 0  # tokens to read before this draft; steps for which plain decoding is sure to be best
        self._floor = 0.0  # lookup drafts nothing that is less probable
        self._situations, self._situation, self._via = ("", ""), "", ""  # of this answer: as new text, or as it repeats itself

    def prepare(self, context: Context) -> None:
        """Open what drafts here: no step shall wait for that."""
        for name in self._available(context, figures_of(context)):
            self._arms.setdefault(name, methods()[name]()).prepare(context)

    def draft(self, context: Context) -> Tree:
        self.note, old = "", self._context
        if old is None or context.tokens is not old.tokens or context.draft_models is not old.draft_models:
            self._begin(context)
        elif self._naps:
            self._naps -= 1
            return Tree([context.pending], [ROOT], via="greedy")
        self._context, known = context, self._figures
        known.at(len(context.tokens))
        match, one = self._lookup.match(context.tokens), known.costs.seconds(1)
        if context.room < 1 or not known.costs.known or known.costs.since >= REMEASURED:  # all is held against plain passes
            return self._plain(context, one)
        self._situation = self._situations[match >= REPEATING]
        best, speeds, reader = self._choices.get(self._situation) or self._choose(context)
        if context.head is not None and best == context.head.info.kind and context.session.length < len(context.tokens) - 1:
            best = "greedy"  # it reads the target's states, of which the first pass makes the last; worth the wait
        pays = best == reader.name or reader is self._fusion or context.past is not None
        if not pays:
            rate, settled = speeds[best] / one, best == "greedy" and self._situation in self._choices
            longest = max(match, REPEATING - 1) if settled else match
            while longest >= match and self._lookup.promises(longest, known.costs.seconds, rate, self._floor):
                longest -= 1
            pays, self._naps = longest < match, max(0, longest - match)  # a match grows by one a token: none can pay before
        tree = self._read_out(reader, context, speeds, best) if pays else None
        return tree or (self._plain(context, one) if best == "greedy" else self._ask(best, context, speeds))

    def _choose(self, context: Context) -> Choice:
        """Compare the methods. Plain decoding stays best until another's round is over: till then there's only more to read."""
        known, situation = self._figures, self._situation
        reader = self._fusion if known.free else self._lookup
        arms = [reader.name, *self._available(context, known)]
        untried = [name for name in arms if known.rounds[situation][name].rounds <= TRIAL]
        every = sum(it.lately for it in known.rounds[situation].values())
        speeds = {"greedy": 1.0} | {name: self._speed(name, context, every) for name in arms}
        best = max(untried or speeds, key=speeds.__getitem__)
        if best == "greedy":
            self._choices[situation] = best, speeds, reader
        return best, speeds, reader

    def _begin(self, context: Context) -> None:
        """Another answer, or other models beside the target."""
        self._time(0, 0.0)
        keep(self._context, self._figures, WRITTEN)
        self._figures, tokens = figures_of(context), context.tokens
        same, self._naps = self._following.same(tokens), 0
        self._read = {name: min(read, same) for name, read in self._read.items()}
        length = "long" if len(tokens) >= LONG else "short"
        self._situations, self._lookup.reliability = (f"new {length}", f"copy {length}"), self._figures.reliability[length]
        self._floor = self._lookup.floor(context)
        self._choices.clear()
        self._here.clear()

    def _speed(self, name: str, context: Context, every: float) -> float:
        """An arm's upper confidence bound: tokens per one-node pass's time, reading included. `every`: rounds of all arms."""
        known, here = self._figures.rounds[self._situation][name], self._here[self._situation, name in READERS]
        passes = known.passes / known.tokens * here.passes / here.tokens
        reading = self._missing(name, context) * self._figures.reading.get(name, 0.0) / (context.room + 1)
        return (1 + WIDTH * math.sqrt(math.log(1 + every) / known.lately)) / (passes + reading)

    def _missing(self, name: str, context: Context) -> int:
        """Tokens that an arm's model has to read before it can draft. The target's own layers have read them all."""
        return 0 if name in (*READERS, "early-exit") else max(0, len(context.tokens) - 1 - self._read.get(name, 0))

    def _available(self, context: Context, known: Figures) -> list[str]:
        """The arms that run a model here."""
        if not self.params.rivals or context.model is None:
            return []
        drafts = context.draft_models if known.drafts else ()
        names: list[str] = [context.head.info.kind] if context.head is not None else []
        names += ["draft"] * bool(drafts) + ["tree"] * (bool(drafts) and context.branching and known.free)
        names += ["pard"] * any(model.info.pard_token is not None for model in drafts)
        return names + ["early-exit"] * bool(context.model.info.capabilities.layers)

    def _read_out(self, reader: Lookup | Fusion, context: Context, speeds: dict[str, float], best: str) -> Tree | None:
        """A tree of what the text tells, as far as its nodes pay; None where none does and another arm is the best."""
        begun, self._unread = time.perf_counter(), 0
        if reader.params.nodes != self.params.nodes:
            reader.params = replace(reader.params, nodes=self.params.nodes)
        tree, probabilities = reader.draft(context), reader.probabilities
        cost = self._figures.costs.seconds
        beat, grown, nodes, expected, passed = speeds[best] / cost(1), time.perf_counter() - begun, 1, 1.0, 1.0
        for size in range(2, len(tree) + 1):
            passed += probabilities[size - 1]
            if passed > beat * (cost(size) + grown):
                beat, nodes, expected = passed / (cost(size) + grown), size, passed
        if nodes == 1:
            return self._by(best, tree, lambda: self._compared(best, speeds)) if best == reader.name else None
        del tree.tokens[nodes:], tree.parents[nodes:], probabilities[nodes:]
        return self._by(reader.name, tree, lambda: f"the text promises {expected:.1f} tokens a pass, {beat:.0f} a second")

    def _ask(self, name: str, context: Context, speeds: dict[str, float]) -> Tree:
        """An arm's draft."""
        drafter = self._arms.get(name) or self._arms.setdefault(name, methods()[name]())
        self._unread = self._missing(name, context)
        tree = drafter.draft(context)
        self._read[name] = len(context.tokens)
        return self._by(name, tree, lambda: self._compared(name, speeds))

    def _plain(self, context: Context, one: float) -> Tree:
        why = f"no draft would pay here, {1 / one:.0f} tokens a second" if one else ""
        return self._by("greedy", Tree.root(context.pending), lambda: why)

    def _by(self, via: str, tree: Tree, why: Callable[[], str]) -> Tree:
        """Remember who drafts; say why if that is another than before."""
        tree.via = via
        if via != self._via:
            reason = why()
            self._via, self.note = via, f"{via}: {reason}".replace("greedy", "plain decoding") if reason else ""
        return tree

    def _compared(self, name: str, speeds: dict[str, float]) -> str:
        """Why it is this arm and no other."""
        one = self._figures.costs.seconds(1)
        others = ", ".join(f"{other} {speeds[other] / one:.0f}" for other in speeds if other != name)
        return f"{speeds[name] / one:.0f} tokens a second expected; {others}"

    def learn(self, verified: Verified) -> None:
        via, seconds = verified.tree.via, verified.forward_seconds
        if via == "greedy":
            self._time(1, seconds)
            return
        if drafter := self._arms.get(via, self._fusion if via == "fusion" else None):
            drafter.learn(verified)
        self._read[via] = self._read.get(via, 0) + len(verified.path)  # a round of its own leaves it nothing to read
        self._judge(via, verified)
        self._time(0 if verified.tree.alive else len(verified.tree), seconds)  # early exit leaves the other layers alone to do

    def _time(self, nodes: int, seconds: float) -> None:
        """Learn what passes take. One over several nodes counts when the next is over: a plain one may be slower behind it
        (llama.cpp plans each size anew), which they have cost too."""
        costs, (before, taken), self._before = self._figures.costs, self._before, (nodes, seconds)
        costs.since += 1
        if nodes == 1 and ((before == 1 and taken) or not costs.known):
            costs.learn(1, seconds)
        elif before > 1 and taken:
            costs.learn(before, taken + (seconds - costs.seconds(1) if nodes == 1 and seconds else 0.0))

    def _judge(self, name: str, verified: Verified) -> None:
        """Take in an arm's round. One that began with much to read tells what that costs, not what a round does."""
        known, tokens = self._figures, len(verified.path)
        one, rounds = known.costs.seconds(1), known.rounds[self._situation][name]
        forward = verified.forward_seconds or known.costs.seconds(len(verified.tree))  # 0: it read the prompt as well
        passes, usual = (verified.draft_seconds + forward) / one, rounds.passes / rounds.rounds
        if self._unread >= LONG:
            each = max(0.0, passes - usual) / self._unread
            known.reading[name] = (known.reading.get(name, each) + each) / 2
            passes = usual
        self._choices.clear()
        self._here[self._situation, name in READERS].learn(tokens, passes * rounds.tokens / rounds.passes)
        known.learn(self._situation, name, tokens, passes)

    def close(self) -> None:
        keep(self._context, self._figures)
        self._context = None
        for drafter in self._arms.values():
            drafter.close()
        self._arms.clear()
