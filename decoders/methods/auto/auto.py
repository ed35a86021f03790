"""The method picks itself: every step goes to the one from which most tokens per second are expected (docs/auto.md).

A bandit: discounted UCB (Garivier and Moulines 2008, arXiv:0805.3415) on tokens per second, in four situations: does the text
repeat itself here, and was there a long text to begin with? What only reads the text also tells before the pass how probable
each node of its tree is, and drafts wherever that promises more.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from ...base import Context, Drafter, Elsewhere, Verified, param
from ...parts.elsewhere import ngram_tree
from ...tree import Tree
from ..draft import Draft
from ..early_exit import EarlyExit
from ..fusion import Fusion, FusionParams
from ..lookup import Lookup, LookupParams
from ..token_tree import TokenTree
from ..trained.dflash import DFlash
from ..trained.eagle import Eagle
from ..trained.medusa import Medusa
from ..trained.mtp import Mtp
from ..trained.pard import Pard
from .figures import WIDTH, Figures, figures_of, keep

REPEATING = 3
"""Tokens at the end of the text that must have stood together before for it to repeat itself."""

LONG = 32
"""Tokens of a text that is long: there is something to copy from, and reading it costs a draft model something."""

TRIAL = 8
"""Rounds that each arm gets in a situation before it has to compete."""

EXPLORING = 0.01
"""Share of the time that trials may lose."""

SETTLING = 0.75
"""What a round counts after each further one of the trial: some methods have to learn themselves at first."""

FREE = 1.15
"""Up to this many one-node passes for one over 8 nodes, nodes are nearly free: trees pay that guess in every direction."""

REMEASURED = 128
"""Steps without a plain pass after which two are made: all else is held against them."""


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
        "Before each pass it estimates how many tokens per second every way of drafting would give: copies from the text in "
        "trees of every size, a draft model or a trained head, early exit, or no draft at all. It takes the best and keeps "
        "measuring, so it falls back to plain decoding where nothing pays. The note above the tree says why it changes."
    )
    paper = "On Upper-Confidence Bound Policies for Non-Stationary Bandit Problems, Garivier 2008, arXiv:0805.3415"
    Params = AutoParams
    params: AutoParams

    @classmethod
    def elsewhere(cls, params: AutoParams, draft_model: str) -> Elsewhere:
        return ngram_tree(params.nodes)

    def __init__(self, params: AutoParams | None = None) -> None:
        super().__init__(params)
        self._figures = Figures()
        self._context: Context | None = None
        self._beside: tuple[int, ...] = ()
        nodes = self.params.nodes
        self._lookup = Lookup(LookupParams(nodes=nodes))
        self._fusion = Fusion(FusionParams(nodes=nodes))
        self._arms: dict[str, Drafter] = {}
        self._text: Sequence[int] = ()
        self._read: dict[str, tuple[Sequence[int], int]] = {}  # by arm: the text that it has read, and how many tokens of it
        self._unread = 0  # tokens that the arm of this step has to read first
        self._prompt = self._plainly = 0  # tokens of the prompt, and plain passes in a row
        self._rate = 1.0  # tokens per one-node pass's time that the best method is expected to give
        self._situation = self._via = self._note = ""

    @property
    def note(self) -> str:
        return self._note

    def draft(self, context: Context) -> Tree:
        self._note = ""
        beside = id(context.model), id(context.head), *map(id, context.draft_models)
        if context.tokens is not self._text or beside != self._beside:
            self._begin(context)
        self._context, self._beside = context, beside
        cost = self._figures.costs.seconds
        match, one = self._lookup.match(context.tokens), cost(1)
        if context.room < 1 or not one:  # the first pass on a model is what everything is held against
            return self._plain(context, 0.0)
        self._situation = f"{'copy' if match >= REPEATING else 'new'} {'long' if self._prompt >= LONG else 'short'}"
        free = cost(8) <= FREE * one
        reader = self._fusion if free else self._lookup
        arms = {reader.name: True} | self._available(context, free)
        every = sum(it.rounds for key, it in self._figures.rounds.items() if key.endswith(self._situation))
        speeds = {"greedy": 1 / one} | {name: self._speed(name, context, every) / one for name in arms}
        self._figures.since += 1
        if self._figures.since > REMEASURED:
            return self._plain(context, one)
        untried = [name for name in arms if self._figures.of(name, self._situation).asked < TRIAL]
        best = max((name for name in speeds if name not in untried), key=speeds.__getitem__)
        self._rate = speeds[best] * one
        if untried and self._figures.lost <= EXPLORING * self._figures.spent:
            best = max(untried, key=speeds.__getitem__)
        best = best if arms.get(best, True) else "greedy"  # worth the wait: others would have to read the text first
        worth = best == reader.name or free or context.past is not None or self._promises(match, speeds[best])
        if worth and (tree := self._read_out(reader, context, speeds, best)):
            return tree
        return self._plain(context, one) if best == "greedy" else self._ask(best, context, speeds)

    def _begin(self, context: Context) -> None:
        """Another answer, or other models beside the target."""
        if self._context is not None:
            keep(self._context, self._figures)
        self._figures, tokens = figures_of(context), context.tokens
        for name, (text, read) in self._read.items():
            shared = next((i for i in range(min(read, len(tokens))) if text[i] != tokens[i]), min(read, len(tokens)))
            self._read[name] = (tokens, shared)
        self._text, self._prompt, self._plainly = tokens, len(tokens), 0

    def _speed(self, name: str, context: Context, every: float) -> float:
        """An arm's upper confidence bound: tokens per one-node pass's time, what it has to read shared out over the answer.
        `every` is how many rounds all arms had."""
        known = self._figures.of(name, self._situation)
        reading = self._missing(name, context) * self._figures.reading.get(name, 0.0) / (context.room + 1)
        return (1 + WIDTH * math.sqrt(math.log(1 + every) / known.rounds)) / (known.passes / known.tokens + reading)

    def _missing(self, name: str, context: Context) -> int:
        """Tokens that an arm's model has to read before it can draft. The target's own layers have read them all."""
        own = name in TEXT or name == "early-exit"
        return 0 if own else max(0, len(context.tokens) - 1 - self._read.get(name, ((), 0))[1])

    def _available(self, context: Context, free: bool) -> dict[str, bool]:
        """The arms that run a model here, and whether they can at once: what reads the target's states cannot before the first
        pass of an answer, which takes what is left of the prompt along."""
        names: dict[str, bool] = {}
        if not self.params.rivals or context.model is None:
            return names
        if context.draft_models and self._figures.drafts:
            pard = any(model.info.pard_token is not None for model in context.draft_models)
            names |= {"draft": True, "pard": True} if pard else {"draft": True}
            if context.branching and free:
                names["tree"] = True
        if context.head is not None:
            names[context.head.info.kind] = context.session.length >= len(context.tokens) - 1
        if context.model.info.capabilities.layers:
            names["early-exit"] = True
        return names

    def _read_out(self, reader: Lookup | Fusion, context: Context, speeds: dict[str, float], best: str) -> Tree | None:
        """A tree of what the text tells, as far as its nodes pay; None where none does and another arm is the best."""
        begun, self._unread = time.perf_counter(), 0
        if reader.params.nodes != self.params.nodes:
            reader.params = replace(reader.params, nodes=self.params.nodes)
        tree, probabilities = reader.draft(context), reader.probabilities
        cost, beat = self._figures.costs.seconds, speeds[best]
        grown, nodes, expected, passed = time.perf_counter() - begun, 1, 1.0, 1.0
        for size in range(2, len(tree) + 1):
            passed += probabilities[size - 1]
            if passed > beat * (cost(size) + grown):
                beat, nodes, expected = passed / (cost(size) + grown), size, passed
        if nodes == 1:
            return self._named(tree, best, speeds) if best == reader.name else None
        del tree.tokens[nodes:], tree.parents[nodes:], probabilities[nodes:]
        self._change(tree, reader.name, lambda: f"the text promises {expected:.1f} tokens a pass, {beat:.0f} a second")
        return tree

    def _promises(self, match: int, beat: float) -> bool:
        """Whether a match of so many tokens may lead to a draft that pays: what a chain behind it is expected to give."""
        expected = chance = 1.0
        for nodes in range(2, self.params.nodes + 1) if match else ():
            chance *= self._lookup.chance(match + nodes - 2)
            expected += chance
            if expected > beat * self._figures.costs.seconds(nodes):
                return True
        return False

    def _ask(self, name: str, context: Context, speeds: dict[str, float]) -> Tree:
        """An arm's draft."""
        drafter = self._arms.get(name)
        if drafter is None:
            drafter = self._arms[name] = ARMS[name]()
        self._unread = self._missing(name, context)
        tree = drafter.draft(context)
        self._read[name] = (context.tokens, len(context.tokens))
        return self._named(tree, name, speeds)

    def _named(self, tree: Tree, name: str, speeds: dict[str, float]) -> Tree:
        """An arm's tree, with why it is this arm's and no other's."""
        others = ", ".join(f"{_said(other)} {speeds[other]:.0f}" for other in speeds if other != name)
        self._change(tree, name, lambda: f"{speeds[name]:.0f} tokens a second expected; {others}")
        return tree

    def _plain(self, context: Context, one: float) -> Tree:
        tree = Tree.root(context.pending)
        self._change(tree, "greedy", lambda: f"no draft would pay here, {1 / one:.0f} tokens a second" if one else "")
        return tree

    def _change(self, tree: Tree, via: str, why: Callable[[], str]) -> None:
        """Remember who drafts; say why if that is another than before."""
        tree.via = via
        if via != self._via:
            reason = why()
            self._via, self._note = via, f"{_said(via)}: {reason}" if reason else ""

    def learn(self, verified: Verified) -> None:
        known, via, nodes, spent = self._figures, verified.tree.via, len(verified.tree), verified.forward_seconds
        if one := known.costs.seconds(1):
            known.spent += (spent + verified.draft_seconds) / one
        if drafter := self._arms.get(via, self._fusion if via == "fusion" else None):
            drafter.learn(verified)
        if via in self._arms or via in TEXT:
            self._judge(via, verified)
        self._plainly = self._plainly + 1 if nodes == 1 else 0
        # Of a draft of the first layers, the pass has only the others left to do.
        if not verified.tree.alive and (nodes > 1 or not known.costs.known):
            known.costs.learn(nodes, spent)
        elif self._plainly > 1:  # the first behind another one is slower
            known.costs.learn(1, spent)
            known.since = 0
        self._lookup.learn(verified)

    def _judge(self, name: str, verified: Verified) -> None:
        """Take in an arm's round. One that began with much to read tells what that costs, not what a round does."""
        known, tokens = self._figures, len(verified.path)
        one, rounds = known.costs.seconds(1), known.of(name, self._situation)
        forward = verified.forward_seconds or known.costs.seconds(len(verified.tree))  # 0: it read the prompt as well
        passes, usual = (verified.draft_seconds + forward) / one, rounds.passes / rounds.rounds
        if rounds.asked < TRIAL:
            known.lost += passes - tokens / self._rate
        if self._unread >= LONG:
            each = max(0.0, passes - usual) / self._unread
            known.reading[name] = (known.reading.get(name, each) + each) / 2
            passes = usual
        known.discount(self._situation)
        rounds.learn(tokens, passes, SETTLING if rounds.asked < TRIAL else 1.0)

    def close(self) -> None:
        if self._context is not None:
            keep(self._context, self._figures)
        self._context, self._text, self._prompt = None, (), 0
        for drafter in self._arms.values():
            drafter.close()
        self._arms.clear()


ARMS: dict[str, type[Drafter]] = {
    **{"draft": Draft, "tree": TokenTree, "pard": Pard, "early-exit": EarlyExit},
    **{"eagle": Eagle, "medusa": Medusa, "dflash": DFlash, "mtp": Mtp},
}
"""What runs a model to draft."""

TEXT = ("lookup", "fusion")
"""What only reads the text."""


def _said(name: str) -> str:
    """A method's name in a sentence."""
    return "plain decoding" if name == "greedy" else name
