"""Automatic choice: every step goes to the method from which most tokens per second are expected (docs/auto.md). Discounted UCB
(Garivier and Moulines 2008) in two situations: the text repeats itself, or it does not."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace

from ....backends.base import ROOT
from ....option import option
from ...base import Context, Drafter, Verified
from ...parts.drafting import Following
from ...parts.elsewhere import ngram_tree
from ...registry import methods
from ...tree import Tree
from ..fusion import Fusion
from ..lookup import Lookup
from ..suffix import Suffix
from .figures import TargetFigures, load_figures, save_figures

REPEATING = 3
"""Least match at the end of a text that counts as repeating itself, in tokens."""

LONG = 32
"""Tokens that a draft model has to read before a round from which on the round shows what reading costs."""

TRIAL = 4
"""Rounds that each arm gets in a situation before it has to compete, half of them in one answer; a choice holds as long."""

TRIALS = 0.05
"""Share of an answer's time that methods which turn out slower may cost it."""

LOSS = 0.5
"""Plain passes that a round of a method on trial is taken to lose."""

WIDTH = 0.6
"""Width of the confidence bound: after time n of N a method's speed may be better by this share times √(ln N / n)."""

ANSWER = 32
"""Tokens of the answer to come over which reading is spread at most."""

YARDSTICK = 128
"""Passes over several nodes after which a plain one measures the pace again."""


@dataclass(frozen=True, slots=True)
class AutoParams:
    nodes: int = option(24, "Most nodes in a tree, including the last token", low=1, high=256, length=True)


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
    explains = "Before each pass it estimates how many tokens a second each way of drafting would give. It takes the best."
    paper = "On Upper-Confidence Bound Policies for Non-Stationary Bandit Problems, Garivier 2008, arXiv:0805.3415"
    note = ""
    Params = AutoParams
    params: AutoParams

    @classmethod
    def elsewhere(cls, params: AutoParams, draft_model: str) -> Mapping[str, str]:
        return ngram_tree(params.nodes)

    def __init__(self, params: AutoParams | None = None) -> None:
        super().__init__(params)
        self._context: Context | None = None
        self._figures = TargetFigures()

        # Drafters that only read the text: `fusion` where nodes are nearly free, else `lookup`.
        self._lookup = Lookup()
        self._fusion = Fusion()
        self._suffix = Suffix()
        self._reader: Lookup | Fusion = self._lookup

        # Drafters that run a model, by name, once they are open; the number of the text's tokens that each has read.
        self._arms = dict[str, Drafter]()
        self._read = dict[str, int]()
        self._following = Following()

        # The choice in each situation, with the speeds expected of all; it holds for some rounds.
        self._choices = dict[str, tuple[str, dict[str, float]]]()
        self._situation = self._best = self._via = ""
        self._rounds = 0

        # This answer alone: rounds of models by situation, its prompt's length, and the cost of trials.
        self._answer = Counter[str]()
        self._prompt = 0
        self._lost = 0.0

        # Of the current draft: tokens that its model has to read first, and seconds to open that model.
        self._unread = 0
        self._opening = 0.0

        self._last_pass = (0, 0.0)
        """Nodes and seconds."""

    # An answer begins and ends

    def prepare(self, context: Context) -> None:
        """Choose for each situation, and open the choice, before an answer or with other draft models."""
        old, tokens = self._context, context.tokens
        self._context = context
        if old is not None and tokens is old.tokens and context.draft_models is old.draft_models:
            return
        self._time(0, 0.0)
        self._lookup.close()
        figures = self._figures = load_figures(context)
        same = self._following.same(tokens)
        self._read = {name: min(read, same) for name, read in self._read.items()}
        self._lookup.reliability = figures.reliability
        self._lookup.reliability.restart()
        self._reader = self._fusion if figures.free else self._lookup
        self._reader.params = replace(self._reader.params, nodes=self.params.nodes)
        self._choices.clear()
        self._answer.clear()
        self._prompt = len(tokens)
        self._lost = 0.0
        for situation in ("new", "repeating"):
            self._situation = situation
            best, _ = self._choose(context)
            if best != "greedy" and figures.rounds[situation][best].yields > 1:
                self._opened(best, context)

    def close(self) -> None:
        self._lookup.close()
        save_figures(self._context, self._figures)
        self._context = None
        while self._arms:
            self._arms.popitem()[1].close()

    # Expected speeds

    def _available(self, context: Context) -> list[str]:
        if context.model is None:
            return []
        names: list[str] = []
        if context.head is not None:
            names.append(context.head.info.kind)
        if self._figures.drafts and context.draft_models:
            names.append("draft")
            if context.branching and self._figures.free:
                names.append("tree")
            if any(model.info.pard_token is not None for model in context.draft_models):
                names.append("pard")
        if context.model.info.capabilities.layers:
            names.append("early-exit")
        return names

    def _missing(self, name: str, context: Context) -> int:
        """Count the tokens that a method's model has to read before it drafts. The target's layers have read them all."""
        if name == "early-exit":
            return 0
        return max(0, len(context.tokens) - 1 - self._read.get(name, 0))

    def _speed(self, name: str, context: Context, every: float) -> float:
        """Compute v of docs/auto.md: tokens in the time of a one-node pass, with the bound's optimism and reading included.

        `every` is N, the time of all methods' rounds in this situation.
        """
        rounds = self._figures.rounds[self._situation][name]  # T = rounds.tokens, S = rounds.passes, n = rounds.lately
        still = max(1, min(context.max_depth + 1, ANSWER))  # m
        reading = self._missing(name, context) * self._figures.reading.get(name, 0.0) / still  # c · r / m
        optimism = 1 + WIDTH * math.sqrt(math.log(1 + every) / rounds.lately)
        return optimism / (1 / rounds.yields + reading)

    def _choose(self, context: Context) -> tuple[str, dict[str, float]]:
        """Choose the method on trial in this situation, else the best; return it and the speed expected of each."""
        if self._situation in self._choices:
            return self._choices[self._situation]
        rounds = self._figures.rounds[self._situation]
        names = self._available(context)
        every = sum(record.lately for record in rounds.values())
        speeds = {"greedy": 1.0} | {name: self._speed(name, context, every) for name in names}
        # Half of a trial in one answer, as texts differ; and no more than a share of its time.
        untried = [name for name in names if rounds[name].rounds <= TRIAL]
        if 2 * self._answer[self._situation] >= TRIAL:
            untried = []
        early = LOSS + self._lost > TRIALS * (len(context.tokens) - self._prompt)
        best = max((not early and untried) or speeds, key=speeds.__getitem__)
        if not (early and untried):  # else there may be time for a trial soon
            self._choices[self._situation] = best, speeds
        return best, speeds

    # The choice

    def sized(self, tree: Tree, context: Context) -> Tree:
        """Return the whole tree: its drafter has cut it already."""
        return tree

    def draft(self, context: Context) -> Tree:
        self.note = ""
        self.sizes.declined = ()
        self.prepare(context)
        costs = self._figures.costs
        match = self._lookup.match(context.tokens)
        if context.max_depth < 1 or not costs.known or costs.since >= YARDSTICK:
            return self._plain(context)
        self._situation = "repeating" if match >= REPEATING else "new"
        best, speeds = self._choose(context)
        if self._lacks_states(best, context):
            best = "greedy"
        self._best = best
        target = max(speeds.values())  # a method on trial counts as much as the best
        looks = self._reader is self._fusion or context.past is not None
        if looks or self._lookup.promises(match, costs.units, target):
            tree = self._draft_from_text(context, match, target)
            if tree is not None:
                return tree
        return self._plain(context) if best == "greedy" else self._draft_with(best, context, speeds)

    def _lacks_states(self, name: str, context: Context) -> bool:
        """Return whether a trained drafter has to wait a step for the last of the target's states."""
        head = context.head
        return head is not None and name == head.info.kind and context.session.length < len(context.tokens) - 1

    def _plain(self, context: Context) -> Tree:
        tree, pace = Tree([context.pending], [ROOT], via="greedy"), self._figures.costs.pace
        if self._via != "greedy":
            self._credit("greedy", tree, f"no draft would pay, {1 / pace:.0f} tokens a second" if pace else "")
        return tree

    def _draft_from_text(self, context: Context, match: int, target: float) -> Tree | None:
        """Draft from the text, as far as nodes pay; None where none does. `target` is the number of tokens to beat in the time
        of a one-node pass."""
        self._unread = 0
        self._opening = 0.0
        costs = self._figures.costs
        readers: list[Lookup | Fusion | Suffix] = [self._reader]
        if match >= REPEATING:
            readers.append(self._suffix)
        best: tuple[float, Lookup | Fusion | Suffix, Tree] | None = None
        for reader in readers:
            started = time.perf_counter()
            drafted = reader.draft(context)
            growing = (time.perf_counter() - started) / costs.pace
            passes = [units + growing for units in costs.units[: len(drafted) + 1]]
            tree = reader.sizes.cut(drafted, context, costs=passes, rate=target)
            _, speed = reader.sizes.promised
            self.sizes.declined = self.sizes.declined or reader.sizes.declined
            if len(tree) > 1 and (best is None or speed > best[0]):
                best = speed, reader, tree
        if best is None:
            return None
        speed, reader, tree = best
        self.sizes.declined = ()
        expected, rate = reader.sizes.promised[0], speed / costs.pace
        return self._credit(reader.name, tree, f"the text promises {expected:.1f} tokens a pass, {rate:.0f} a second")

    def _draft_with(self, name: str, context: Context, speeds: Mapping[str, float]) -> Tree:
        started = time.perf_counter()
        drafter = self._opened(name, context)
        self._opening = time.perf_counter() - started
        self._unread = self._missing(name, context)
        tree = drafter.draft(context)
        self._read[name] = len(context.tokens)
        if name == self._via:
            tree.via = name
            return tree
        pace = self._figures.costs.pace
        trial = "on trial, " if speeds[name] < max(speeds.values()) else ""
        rivals = ", ".join(f"{rival} {speed / pace:.0f}" for rival, speed in speeds.items() if rival != name)
        return self._credit(name, tree, f"{trial}{speeds[name] / pace:.0f} tokens a second expected; {rivals}")

    def _opened(self, name: str, context: Context) -> Drafter:
        if name not in self._arms:
            self._arms[name] = methods()[name]()
            self._arms[name].prepare(context)
        return self._arms[name]

    def _credit(self, via: str, tree: Tree, reason: str) -> Tree:
        """Mark the tree's drafter; note the reason if it is another than before."""
        tree.via = via
        if via != self._via:
            self._via = via
            self.note = f"{'plain decoding' if via == 'greedy' else via}: {reason}" if reason else ""
        return tree

    # Measurements

    def learn(self, verified: Verified) -> None:
        via, tree = verified.tree.via, verified.tree
        assert self._context is not None
        for reader in (self._reader, self._suffix):
            drafted = tree if via == reader.name else Tree.root(tree.tokens[0])
            reader.sizes.learn(drafted, verified.path, self._context)
        if via != "greedy":
            drafter = self._fusion if via == "fusion" else self._arms.get(via)
            if drafter is not None:
                drafter.learn(verified)
            self._read[via] = self._read.get(via, 0) + len(verified.path)  # its own draft it has read already
            if via in self._arms:
                self._learn_round(via, verified)
        # Early exit leaves only the other layers to evaluate, so its passes say nothing about whole ones.
        self._time(0 if tree.pre_evaluated else len(tree), verified.forward_seconds)

    def _time(self, nodes: int, seconds: float) -> None:
        """Learn the cost of passes. A pass over several nodes may also slow the plain pass behind it (llama.cpp)."""
        costs = self._figures.costs
        last_nodes, last_seconds = self._last_pass
        self._last_pass = (nodes, seconds)
        costs.since += 1
        if nodes == 1 and ((last_nodes == 1 and last_seconds) or not costs.known):
            costs.learn(1, seconds)
        elif last_nodes > 1 and last_seconds:
            slowdown = seconds - costs.seconds(1) if nodes == 1 and seconds else 0.0
            costs.learn(last_nodes, last_seconds + slowdown)

    def _learn_round(self, name: str, verified: Verified) -> None:
        """Learn from a method's round, less its reading. A round that began with much reading shows the cost of reading."""
        figures, tokens = self._figures, len(verified.path)
        pace, rounds = figures.costs.pace, figures.rounds[self._situation][name]
        forward = verified.forward_seconds or figures.costs.seconds(len(verified.tree))  # 0: it read the prompt as well
        spent = (verified.draft_seconds + forward) / pace
        passes = spent - self._opening / pace
        reading = figures.reading.get(name, 0.0)
        if self._unread >= LONG and rounds.rounds > 2:
            beyond = max(0.0, passes - rounds.passes / rounds.rounds)
            figures.reading[name] = (reading + beyond / self._unread) / 2
        passes = max(forward / pace, passes - self._unread * reading)
        self._answer[self._situation] += 1
        figures.learn(self._situation, name, tokens, passes, spent)
        self._lost += max(0.0, spent - tokens)
        self._rounds += 1
        if self._rounds % TRIAL == 0 or (rounds.yields < 1 and name == self._best):  # a method that loses time is dropped
            self._choices.clear()
