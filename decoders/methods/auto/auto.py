"""The method picks itself: every step goes to the one from which most tokens per second are expected (docs/auto.md). Discounted
UCB (Garivier and Moulines 2008) in five situations: is the text long, does it repeat itself, is the target sure?"""

from __future__ import annotations

import math
import time
from collections import defaultdict
from dataclasses import dataclass, replace
from typing import Any

from ....backends.base import ROOT
from ...base import Context, Drafter, Elsewhere, Verified, param
from ...parts.costs import MEMORY
from ...parts.drafting import Following
from ...parts.elsewhere import ngram_tree
from ...registry import methods
from ...tree import Tree
from ..fusion import Fusion
from ..lookup import Lookup
from .figures import WRITTEN, Figures, Rounds, figures_of, keep

REPEATING = 3
"""Tokens at the end of the text that must have stood together before for it to repeat itself."""

LONG = 32
"""Tokens of a text that is long: there is something to copy from, and reading it costs a draft model something."""

TRIAL = 4
"""Rounds that each arm gets in a situation before it has to compete, half of them in one answer. A choice is kept as long."""

WIDTH = 0.6
"""Width of the confidence bound: after time n of N a method's speed may be better by this share times √(ln N / n)."""

ANSWER = 32
"""Tokens after which an answer's own rounds (passes: doubts) count as much as all others'; reading is spread over no more."""

PAUSES = 4, 32
"""Plain steps without a look at what else may pay, behind a short prompt: at first, and at most; twice as many each time."""


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
    explains = "Before each pass it estimates what every way of drafting would give, in tokens a second. It takes the best."
    paper = "On Upper-Confidence Bound Policies for Non-Stationary Bandit Problems, Garivier 2008, arXiv:0805.3415"
    note = ""
    Params = AutoParams
    params: AutoParams

    @classmethod
    def elsewhere(cls, params: AutoParams, draft_model: str) -> Elsewhere:
        return ngram_tree(params.nodes)

    def __init__(self, params: AutoParams | None = None) -> None:
        super().__init__(params)
        self._figures, self._choices = Figures(), dict[str, tuple[str, dict[str, float]]]()  # by situation, for some rounds
        self._context: Context | None = None
        self._lookup, self._fusion = Lookup(), Fusion()
        self._reader: Lookup | Fusion = self._lookup
        self._arms, self._following = dict[str, Drafter](), Following()
        self._read = dict[str, int]()  # by arm: how many tokens of the text it has read
        self._before, self._opening = (0, 0.0), 0.0  # nodes and seconds of the pass before; seconds to open this draft's model
        # Of this answer, by situation and whether only the text is read: tokens that came, and how many were expected (passes).
        self._here = defaultdict[tuple[str, bool], Rounds](lambda: Rounds(0, ANSWER, ANSWER))
        self._unread = self._naps = self._judged = 0  # tokens to read before this draft; plain steps to come; rounds
        self._situation, self._best, self._via, self._pause = "", "", "", PAUSES[0]
        self._long, self._doubt = False, Rounds()  # whether the prompt was long; how many words of this answer were in doubt

    def prepare(self, context: Context) -> None:
        """Before an answer, or with other models beside the target: choose for each situation, and open what was chosen."""
        old, self._context, tokens = self._context, context, context.tokens
        if old is not None and tokens is old.tokens and context.draft_models is old.draft_models:
            return
        self._time(0, 0.0)
        self._lookup.close()
        keep(old, self._figures, WRITTEN)
        known, same, self._naps, self._pause = figures_of(context), self._following.same(tokens), 0, PAUSES[0]
        self._read = {name: min(read, same) for name, read in self._read.items()}
        self._figures, self._long, self._doubt = known, len(tokens) >= LONG, Rounds(1, known.doubt.yields)
        self._lookup.reliability, self._reader = known.reliability[self._long], self._fusion if known.free else self._lookup
        self._reader.params = replace(self._reader.params, nodes=self.params.nodes)
        self._choices.clear()
        self._here.clear()
        for situation in ("new", "repeating") if self._long else ("sure, short", "unsure, short", "repeating, short"):
            self._situation = situation
            best, _ = self._choose(context)
            if best not in ("greedy", self._reader.name) and known.rounds[situation][best].yields > 1:
                self._opened(best, context)

    def draft(self, context: Context) -> Tree:
        self.note = ""
        self.prepare(context)
        if self._naps:
            self._naps -= 1
            return Tree([context.pending], [ROOT], via="greedy")
        usual, costs = self._figures.doubt.yields, self._figures.at(len(context.tokens))
        match, one = self._lookup.match(context.tokens), costs.pace
        if context.room < 1 or not costs.known or costs.since >= MEMORY:  # all is held against plain passes
            return self._plain(context, one)
        kind = "repeating" if match >= REPEATING else "sure" if self._doubt.yields < usual else "unsure"
        self._situation = f"{kind}, short" if not self._long else kind if match >= REPEATING else "new"
        best, speeds = self._choices.get(self._situation) or self._choose(context)
        if context.head is not None and best == context.head.info.kind and context.session.length < len(context.tokens) - 1:
            best = "greedy"  # it reads the target's states, of which the first pass makes the last; worth the wait
        self._best, asks = best, best == self._reader.name or self._reader is self._fusion
        beat, past = max(speeds.values()), context.past is not None  # on trial a method counts as much as the best
        gain = costs.seconds, beat / one, self._lookup.floor(context)
        if (asks or past or self._lookup.promises(match, *gain)) and (tree := self._read_out(context, speeds, best)):
            return tree
        if best != "greedy":
            return self._ask(best, context, speeds)
        if not asks and self._before[0] < 2:
            if not self._long:
                self._naps, self._pause = self._pause, min(2 * self._pause, PAUSES[1])
            while self._long and self._naps < PAUSES[0] and not self._lookup.promises(match + self._naps + 1, *gain):
                self._naps += 1  # a match grows by one a token
        return self._plain(context, one)

    def _choose(self, context: Context) -> tuple[str, dict[str, float]]:
        """What is on trial or the best here, and tokens in a one-node pass's time."""
        rounds, tried = self._figures.rounds[self._situation], self._here[self._situation, False].rounds
        arms = [self._reader.name, *self._available(context, self._figures)]
        untried = [name for name in arms if rounds[name].rounds <= TRIAL > 2 * tried]
        every = sum(it.lately for it in rounds.values())
        speeds = {"greedy": 1.0} | {name: self._speed(name, context, every) for name in arms}
        return self._choices.setdefault(self._situation, (max(untried or speeds, key=speeds.__getitem__), speeds))

    def _speed(self, name: str, context: Context, every: float) -> float:
        """An arm's upper confidence bound: tokens per one-node pass's time, reading included. `every`: time of all arms."""
        known, here = self._figures.rounds[self._situation][name], self._here[self._situation, name == self._reader.name]
        reading = self._missing(name, context) * self._figures.reading.get(name, 0.0) / min(context.room + 1, ANSWER)
        return (1 + WIDTH * math.sqrt(math.log(1 + every) / known.lately)) / (1 / (known.yields * here.yields) + reading)

    def _missing(self, name: str, context: Context) -> int:
        """Tokens that an arm's model has to read before it can draft. The target's own layers have read them all."""
        return 0 if name in (self._reader.name, "early-exit") else max(0, len(context.tokens) - 1 - self._read.get(name, 0))

    def _available(self, context: Context, known: Figures) -> list[str]:
        """The arms that run a model here."""
        if not self.params.rivals or context.model is None:
            return []
        drafts = context.draft_models if known.drafts else ()
        names = ["draft"] * bool(drafts) + ["tree"] * (bool(drafts) and context.branching and known.free)
        names += ["pard"] * any(model.info.pard_token is not None for model in drafts)
        names += ["early-exit"] * bool(context.model.info.capabilities.layers)
        return [context.head.info.kind, *names] if context.head is not None else names

    def _read_out(self, context: Context, speeds: dict[str, float], best: str) -> Tree | None:
        """A tree of what the text tells, as far as its nodes pay; None where none does and another arm is the best."""
        begun, self._unread, self._opening, reader = time.perf_counter(), 0, 0.0, self._reader
        tree, probabilities, seconds = reader.draft(context), reader.probabilities, self._figures.costs.seconds
        beat, grown, nodes, expected, passed = max(speeds.values()) / seconds(1), time.perf_counter() - begun, 1, 1.0, 1.0
        for size, probability in enumerate(probabilities[1:], 2):
            passed += probability
            if passed > beat * (taken := seconds(size) + grown):
                beat, nodes, expected = passed / taken, size, passed
        if nodes == 1:
            tree.via = best
            return tree if best == reader.name else None
        del tree.tokens[nodes:], tree.parents[nodes:], probabilities[nodes:]
        return self._by(reader.name, tree, "the text promises {:.1f} tokens a pass, {:.0f} a second", expected, beat)

    def _ask(self, name: str, context: Context, speeds: dict[str, float]) -> Tree:
        """An arm's draft."""
        begun, one = time.perf_counter(), self._figures.costs.pace
        drafter = self._opened(name, context)
        self._opening, self._unread = time.perf_counter() - begun, self._missing(name, context)
        tree, self._read[name] = drafter.draft(context), len(context.tokens)
        others = self._via != name and ", ".join(f"{other} {it / one:.0f}" for other, it in speeds.items() if other != name)
        trial = "on trial, " * (speeds[name] < max(speeds.values()))
        return self._by(name, tree, trial + "{:.0f} tokens a second expected; {}", speeds[name] / one, others)

    def _opened(self, name: str, context: Context) -> Drafter:
        """An arm that can draft at once."""
        if name not in self._arms:
            self._arms[name] = methods()[name]()
            self._arms[name].prepare(context)
        return self._arms[name]

    def _plain(self, context: Context, one: float) -> Tree:
        tree, why = Tree([context.pending], [ROOT], via="greedy"), "no draft would pay, {:.0f} tokens a second"
        return tree if self._via == "greedy" else self._by("greedy", tree, why, one and 1 / one)

    def _by(self, via: str, tree: Tree, why: str, *figures: Any) -> Tree:
        """Remember who drafts; say why if that is another than before, and anything is known."""
        tree.via = via
        if via != self._via:
            name, self._via = via.replace("greedy", "plain decoding"), via
            self.note = f"{name}: {why.format(*figures)}" if all(figures) else ""
        return tree

    def learn(self, verified: Verified) -> None:
        if self._naps:
            return
        via, seconds = verified.tree.via, verified.forward_seconds
        if self._arms and not self._long:
            doubt = max(0.0, 1 - float(verified.scores.probs(0)[verified.chosen[0]]))
            self._doubt.learn(doubt, 1.0, 1 - 1 / ANSWER)
            self._figures.doubt.learn(doubt, 1.0)
        if via != "greedy":
            if drafter := self._arms.get(via, self._fusion if via == "fusion" else None):
                drafter.learn(verified)
            self._read[via] = self._read.get(via, 0) + len(verified.path)  # a round of its own leaves it nothing to read
            self._judge(via, verified)
        self._time(0 if verified.tree.alive else len(verified.tree), seconds)  # early exit leaves the other layers alone to do

    def _time(self, nodes: int, seconds: float) -> None:
        """Learn what passes take. Several nodes have cost what a plain pass behind them takes longer, too (llama.cpp)."""
        costs, (before, taken), self._before = self._figures.costs, self._before, (nodes, seconds)
        costs.since += 1
        if nodes == 1 and ((before == 1 and taken) or not costs.known):
            costs.learn(1, seconds)
        elif before > 1 and taken:
            costs.learn(before, taken + (seconds - costs.seconds(1) if nodes == 1 and seconds else 0.0))

    def _judge(self, name: str, verified: Verified) -> None:
        """Take in an arm's round, less what it had to read. One that began with much of that tells what reading costs."""
        known, tokens = self._figures, len(verified.path)
        one, rounds = known.costs.pace, known.rounds[self._situation][name]
        forward = verified.forward_seconds or known.costs.seconds(len(verified.tree))  # 0: it read the prompt as well
        spent, usual = (verified.draft_seconds + forward) / one, rounds.passes / rounds.rounds
        passes, each = spent - self._opening / one, known.reading.get(name, 0.0)
        if self._unread >= LONG and rounds.rounds > 2:
            known.reading[name] = (each + max(0.0, passes - usual) / self._unread) / 2
        passes = max(forward / one, passes - self._unread * each)
        self._pause, self._judged = PAUSES[0], self._judged + 1
        self._here[self._situation, name == self._reader.name].learn(tokens, passes * rounds.yields)
        known.learn(self._situation, name, tokens, passes, spent)
        if not self._judged % TRIAL or (rounds.yields < 1 and name == self._best):  # what loses time is not kept on
            self._choices.clear()

    def close(self) -> None:
        self._lookup.close()
        keep(self._context, self._figures)
        self._context = None
        while self._arms:
            self._arms.popitem()[1].close()
