"""The method picks itself: every step goes to the one from which most tokens per second are expected (docs/auto.md). Discounted
UCB (Garivier and Moulines 2008) in two situations: the text repeats itself, or it does not."""

from __future__ import annotations

import math
import time
from collections import defaultdict
from dataclasses import dataclass, replace

from ....backends.base import ROOT
from ...base import Context, Drafter, Elsewhere, Verified, param
from ...parts.costs import MEMORY
from ...parts.drafting import Following
from ...parts.elsewhere import ngram_tree
from ...registry import methods
from ...tree import Tree
from ..fusion import Fusion
from ..lookup import Lookup
from ..suffix import Suffix
from .figures import WRITTEN, Rounds, TargetFigures, figures_of, keep

REPEATING = 3
"""Tokens at the end of the text that must have stood together before for it to repeat itself."""

LONG = 32
"""Tokens of a text that is long: there is something to copy from, and reading it costs a draft model something."""

TRIAL = 4
"""Rounds that each arm gets in a situation before it has to compete, half of them in one answer. A choice is kept as long."""

TRIALS = 0.05
"""Share of an answer's time that methods which turn out slower may cost it."""

LOSS = 0.5
"""Plain passes that a round of a method on trial is taken to lose."""

WIDTH = 0.6
"""Width of the confidence bound: after time n of N a method's speed may be better by this share times √(ln N / n)."""

ANSWER = 32
"""Tokens after which an answer's own rounds count as much as all others'; reading is spread over no more."""

QUICK = 0.004
"""Seconds of a plain pass up to which a look at the text takes a share of it worth saving."""

PAUSES = 4, 32
"""Plain steps without a look at what else may pay, behind a short prompt: at first, and at most; twice as many each time."""


@dataclass(frozen=True, slots=True)
class AutoParams:
    """Settings of auto."""

    nodes: int = param(24, "Most nodes in a tree, including the last token", low=1, high=256, length=True)
    rivals: bool = param(True, "Also try the draft model or trained head, and early exit, if available")


class Auto(Drafter):
    """Expected tokens per second decide: (1 + draft tokens expected to be accepted) / seconds of drafting and of the pass.

    Example:
        text     the cat sat on the mat, and the cat
        guess    sat on, from lookup: 2.2 tokens expected in the time of 1.1 plain steps, and no other method promises more
        verdict  sat on ✓ → a; what the step took is remembered
    """

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
        self._context: Context | None = None
        self._figures = TargetFigures()

        # What only reads the text: `fusion` where nodes are nearly free, else `lookup`.
        self._lookup = Lookup()
        self._fusion = Fusion()
        self._suffix = Suffix()
        self._reader: Lookup | Fusion = self._lookup

        # What runs a model, by name, once it was opened; how many tokens of the text each has read.
        self._arms = dict[str, Drafter]()
        self._read = dict[str, int]()
        self._following = Following()

        # What was chosen in each situation, with the speeds expected of all; it holds for some rounds.
        self._choices = dict[str, tuple[str, dict[str, float]]]()
        self._situation = ""
        self._best = ""
        self._via = ""
        self._judged = 0
        """Rounds that were judged."""

        # This answer alone. By situation: tokens that came, and how many were expected (as passes). How long its prompt was,
        # and what trials have cost.
        self._here = defaultdict[str, Rounds](lambda: Rounds(0, ANSWER, ANSWER))
        self._begun = 0
        self._lost = 0.0
        self._long = False
        """The prompt was long."""

        # Plain steps to come without a look at what else may pay, and how many there will be after the next look.
        self._naps = 0
        self._pause = PAUSES[0]

        # Of the draft under way: tokens that its model has to read first, and seconds to open that model.
        self._unread = 0
        self._opening = 0.0

        self._before = (0, 0.0)
        """Nodes and seconds of the pass before."""

    # An answer begins and ends

    def prepare(self, context: Context) -> None:
        """Before an answer, or with other models beside the target: choose for each situation, and open what was chosen."""
        old, tokens = self._context, context.tokens
        self._context = context
        if old is not None and tokens is old.tokens and context.draft_models is old.draft_models:
            return
        self._time(0, 0.0)
        self._lookup.close()
        keep(old, self._figures, WRITTEN)
        known = self._figures = figures_of(context)
        same = self._following.same(tokens)
        self._read = {name: min(read, same) for name, read in self._read.items()}
        self._naps, self._pause = 0, PAUSES[0]
        self._long = len(tokens) >= LONG
        self._lookup.reliability = known.reliability
        self._lookup.reliability.restart()
        self._reader = self._fusion if known.free else self._lookup
        self._reader.params = replace(self._reader.params, nodes=self.params.nodes)
        self._choices.clear()
        self._here.clear()
        self._begun, self._lost = len(tokens), 0.0
        for situation in ("new", "repeating"):
            self._situation = situation
            best, _ = self._choose(context)
            if best != "greedy" and known.rounds[situation][best].yields > 1:
                self._opened(best, context)

    def close(self) -> None:
        self._lookup.close()
        keep(self._context, self._figures)
        self._context = None
        while self._arms:
            self._arms.popitem()[1].close()

    # What is expected

    def _available(self, context: Context, known: TargetFigures) -> list[str]:
        if not self.params.rivals or context.model is None:
            return []
        names: list[str] = []
        if context.head is not None:
            names.append(context.head.info.kind)
        if known.drafts and context.draft_models:
            names.append("draft")
            if context.branching and known.free:
                names.append("tree")
            if any(model.info.pard_token is not None for model in context.draft_models):
                names.append("pard")
        if context.model.info.capabilities.layers:
            names.append("early-exit")
        return names

    def _missing(self, name: str, context: Context) -> int:
        """Tokens that a method's model has to read before it can draft. The target's own layers have read them all."""
        if name == "early-exit":
            return 0
        return max(0, len(context.tokens) - 1 - self._read.get(name, 0))

    def _speed(self, name: str, context: Context, every: float) -> float:
        """v of docs/auto.md: tokens in the time of a one-node pass, with the bound's optimism and reading included.

        Args:
            name: of the method.
            context: of the step.
            every: N, what the rounds of all methods took in this situation.
        """
        known = self._figures.rounds[self._situation][name]  # T = known.tokens, S = known.passes, n = known.lately
        here = self._here[self._situation]  # f = here.yields
        still = max(1, min(context.max_depth + 1, ANSWER))  # m
        reading = self._missing(name, context) * self._figures.reading.get(name, 0.0) / still  # c · r / m
        optimism = 1 + WIDTH * math.sqrt(math.log(1 + every) / known.lately)
        return optimism / (1 / (known.yields * here.yields) + reading)

    def _choose(self, context: Context) -> tuple[str, dict[str, float]]:
        """The method that is on trial in this situation, else the best; and the speed expected of each."""
        if self._situation in self._choices:
            return self._choices[self._situation]
        rounds = self._figures.rounds[self._situation]
        names = self._available(context, self._figures)
        every = sum(each.lately for each in rounds.values())
        speeds = {"greedy": 1.0} | {name: self._speed(name, context, every) for name in names}
        # Half of a trial in one answer, as texts differ; and no more than a share of its time.
        untried = [name for name in names if rounds[name].rounds <= TRIAL]
        if 2 * self._here[self._situation].rounds >= TRIAL:
            untried = []
        early = LOSS + self._lost > TRIALS * (len(context.tokens) - self._begun)
        best = max((not early and untried) or speeds, key=speeds.__getitem__)
        if not (early and untried):  # else there may be time for a trial soon
            self._choices[self._situation] = best, speeds
        return best, speeds

    # What is chosen

    def sized(self, tree: Tree, context: Context) -> Tree:
        """All of it: the one that drafted it was asked for its size."""
        return tree

    def draft(self, context: Context) -> Tree:
        self.note, self.sizes.declined = "", ()
        self.prepare(context)
        if self._naps:
            self._naps -= 1
            return Tree([context.pending], [ROOT], via="greedy")
        costs = self._figures.at(len(context.tokens))
        match = self._lookup.match(context.tokens)
        if context.max_depth < 1 or not costs.known or costs.since >= MEMORY:  # all is held against plain passes
            return self._plain(context)
        self._situation = "repeating" if match >= REPEATING else "new"
        best, speeds = self._choose(context)
        if self._lacks_states(best, context):
            best = "greedy"
        self._best = best

        target = max(speeds.values())  # a method on trial counts as much as the best
        reads = self._reader is self._fusion
        gain = [costs.seconds(nodes) / costs.pace for nodes in range(self.params.nodes + 1)], target
        if reads or context.past is not None or self._lookup.promises(match, *gain):
            tree = self._read_out(context, match, target)
            if tree is not None:
                return tree
        if best != "greedy":
            return self._ask(best, context, speeds)
        if not reads and self._before[0] < 2 and costs.pace < QUICK:
            if self._long:
                # A match grows by one with each token.
                while self._naps < PAUSES[0] and not self._lookup.promises(match + self._naps + 1, *gain):
                    self._naps += 1
            else:
                self._naps = self._pause
                self._pause = min(2 * self._pause, PAUSES[1])
        return self._plain(context)

    def _lacks_states(self, name: str, context: Context) -> bool:
        """Whether a trained drafter has to wait a step for the last of the target's states, which the first pass makes."""
        head = context.head
        return head is not None and name == head.info.kind and context.session.length < len(context.tokens) - 1

    def _plain(self, context: Context) -> Tree:
        tree, pace = Tree([context.pending], [ROOT], via="greedy"), self._figures.costs.pace
        if self._via != "greedy":
            self._by("greedy", tree, f"no draft would pay, {1 / pace:.0f} tokens a second" if pace else "")
        return tree

    def _read_out(self, context: Context, match: int, target: float) -> Tree | None:
        """A tree of what the text tells, as far as its nodes pay; None where none does.

        Args:
            context: of the step.
            match: tokens at the end of the text that stood together before.
            target: tokens in a one-node pass's time that it has to beat.
        """
        self._unread, self._opening, self.sizes.declined = 0, 0.0, ()
        seconds = self._figures.costs.seconds
        readers: list[Lookup | Fusion | Suffix] = [self._reader]
        if match >= REPEATING:
            readers.append(self._suffix)
        found: tuple[float, Lookup | Fusion | Suffix, Tree] | None = None
        for reader in readers:
            begun = time.perf_counter()
            drafted = reader.draft(context)
            growing = time.perf_counter() - begun
            costs = [(seconds(nodes) + growing) / seconds(1) for nodes in range(len(drafted) + 1)]
            tree = reader.sizes.cut(drafted, context, costs=costs, rate=target)
            _, speed = reader.sizes.promised
            self.sizes.declined = self.sizes.declined or reader.sizes.declined
            if len(tree) > 1 and (found is None or speed > found[0]):
                found = speed, reader, tree
        if found is None:
            return None
        speed, reader, tree = found
        self.sizes.declined, expected = (), reader.sizes.promised[0]
        rate = speed / seconds(1)
        return self._by(reader.name, tree, f"the text promises {expected:.1f} tokens a pass, {rate:.0f} a second")

    def _ask(self, name: str, context: Context, speeds: dict[str, float]) -> Tree:
        """The draft of a method that runs a model."""
        begun = time.perf_counter()
        drafter = self._opened(name, context)
        self._opening = time.perf_counter() - begun
        self._unread = self._missing(name, context)
        tree = drafter.draft(context)
        self._read[name] = len(context.tokens)
        if name == self._via:
            tree.via = name
            return tree
        pace = self._figures.costs.pace
        trial = "on trial, " if speeds[name] < max(speeds.values()) else ""
        others = ", ".join(f"{other} {speed / pace:.0f}" for other, speed in speeds.items() if other != name)
        return self._by(name, tree, f"{trial}{speeds[name] / pace:.0f} tokens a second expected; {others}")

    def _opened(self, name: str, context: Context) -> Drafter:
        """A method that can draft at once."""
        if name not in self._arms:
            self._arms[name] = methods()[name]()
            self._arms[name].prepare(context)
        return self._arms[name]

    def _by(self, via: str, tree: Tree, why: str) -> Tree:
        """Remember who drafts; say why if that is another than before."""
        tree.via = via
        if via != self._via:
            self._via = via
            self.note = f"{'plain decoding' if via == 'greedy' else via}: {why}" if why else ""
        return tree

    # What is measured

    def learn(self, verified: Verified) -> None:
        if self._naps:
            return
        via, tree = verified.tree.via, verified.tree
        assert self._context is not None
        for reader in (self._reader, self._suffix):
            drafted = tree if via == reader.name else Tree.root(tree.tokens[0])
            reader.sizes.learn(drafted, verified.path, self._context)
        if via != "greedy":
            drafter = self._fusion if via == "fusion" else self._arms.get(via)
            if drafter is not None:
                drafter.learn(verified)
            self._read[via] = self._read.get(via, 0) + len(verified.path)  # a round of its own leaves it nothing to read
            self._pause = PAUSES[0]
            if via in self._arms:
                self._judge(via, verified)
        # Early exit leaves only the other layers to do, so its passes tell nothing of whole ones.
        self._time(0 if tree.pre_evaluated else len(tree), verified.forward_seconds)

    def _time(self, nodes: int, seconds: float) -> None:
        """Learn what passes take. Several nodes have cost what a plain pass behind them takes longer, too (llama.cpp)."""
        costs = self._figures.costs
        (before, taken), self._before = self._before, (nodes, seconds)
        costs.since += 1
        if nodes == 1 and ((before == 1 and taken) or not costs.known):
            costs.learn(1, seconds)
        elif before > 1 and taken:
            longer = seconds - costs.seconds(1) if nodes == 1 and seconds else 0.0
            costs.learn(before, taken + longer)

    def _judge(self, name: str, verified: Verified) -> None:
        """Take in a method's round, less what it had to read. One that began with much of that tells what reading takes."""
        known, tokens = self._figures, len(verified.path)
        pace, rounds = known.costs.pace, known.rounds[self._situation][name]
        forward = verified.forward_seconds or known.costs.seconds(len(verified.tree))  # 0: it read the prompt as well
        spent = (verified.draft_seconds + forward) / pace
        passes = spent - self._opening / pace
        reading = known.reading.get(name, 0.0)
        if self._unread >= LONG and rounds.rounds > 2:
            beyond = max(0.0, passes - rounds.passes / rounds.rounds)
            known.reading[name] = (reading + beyond / self._unread) / 2
        passes = max(forward / pace, passes - self._unread * reading)
        self._here[self._situation].learn(tokens, passes * rounds.yields)
        known.learn(self._situation, name, tokens, passes, spent)
        self._lost += max(0.0, spent - tokens)
        self._judged += 1
        if self._judged % TRIAL == 0 or (rounds.yields < 1 and name == self._best):  # what loses time is not kept on
            self._choices.clear()
