"""The method picks itself: every step goes to the drafter from which most tokens per second are expected.

Three things are measured while the answer is written: what a pass over n nodes takes, what each drafter takes and how often
it is right, and what fusion's own probabilities are worth. Fusion (fusion.py) tells before the pass how probable each node of
its tree is, so for it the best number of nodes is known for every single step; a tree of one node is plain decoding. Drafters
that run a model are known by what a token of theirs takes, which two rounds tell, and by how many are right, which depends on
the text at least as much as on the drafter: what little one of them has seen is filled up with what the others have. They are
tried now and then, more rarely the more a trial cost, and have to beat all that goes on without them. Where a pass is so
short that growing fusion's tree is dear beside it (a small quantized model), prompt lookup drafts instead, which takes a
tenth of the time and tells probabilities too.

The measurements belong to a model on a machine and outlive the conversation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

from ....backends.base import Model
from ....errors import counted
from ...base import Context, Drafter, Elsewhere, Verified, param
from ...parts.elsewhere import ngram_tree
from ...parts.proposers import mismatch
from ...tree import Tree
from ..draft import Draft
from ..early_exit import EarlyExit
from ..trained.dflash import DFlash
from ..trained.eagle import Eagle
from ..trained.medusa import Medusa
from ..trained.mtp import Mtp
from ..trained.pard import Pard
from .experience import CAUGHT_UP, EXPLORING, REST, WARM_UP, Experience, Rival, experience
from .text_drafters import MARGIN, Readers

LONGEST_REST = 1024
"""A text may change at any time, so that no rival rests for ever."""

RETRIAL = 6
"""Rounds of a later trial; the first of them tells nothing about speed."""

HOPE = 0.5
"""Passes that a rival may save for each token that is left to it: where these are fewer than a trial costs, there is none but
the first."""

READING = 0.05
"""Passes that a token takes which a rival has to read first, before it is known."""

COPYING = 16
"""Tokens of an answer after which the share of copied ones in it tells something."""

PROMISE = 2.0
"""Where fusion expects this many times plain decoding's speed, no rival is put on trial: a copy is no time for it."""

USUAL_TREE = 8
"""Nodes of a rival's."""

LEAD = 1.05
"""A rival must be expected to go this much faster than what goes on without it: what it does to caches and memory beside its
own passes is not in its seconds."""

STAY = 0.97
"""The same for the rival that is in force: to go back and forth costs more than a wrong estimate."""

ANSWERS = 8
"""Answers after which an older one counts for a third."""

FEW_ANSWERS = 3
"""The same of what tells copies: whoever copies does so for a while."""

OPENING = 3
"""Steps at the start of an answer in which no rival is asked where answers have mostly been copies: a copy shows after a token
or two, and a rival's first round would spend the time of several steps on what fusion then drafts for nothing."""

COPIES = 0.35
"""Share of an answer's tokens that needed no model to draft, from which answers are taken to be copies; a running mean."""


@dataclass(frozen=True, slots=True)
class AutoParams:
    """Settings of auto."""

    nodes: int = param(24, "Most nodes in a tree, including the pending token", low=1, high=256, length=True)
    rivals: bool = param(True, "Also try the draft model or trained head, and early exit, if available")


class Auto(Drafter):
    """Expected tokens per second decide.

    For a tree of fusion's first b nodes: (1 + Σ corrected probabilities) / seconds of growing it, of a pass over b nodes, and
    by which one-node passes take longer behind that; b = 1 is plain decoding. For a rival: (1 + tokens accepted in a usual
    round) / seconds of that draft and of its verifying pass.
    """

    name = "auto"
    group = "automatic"
    reads_cache = False
    summary = "Chooses the drafter and the number of nodes for every pass, by the tokens per second it expects."
    pays = "When you do not want to choose. It stops drafting where that would only cost time."
    explains = (
        "Before each pass it estimates how many tokens per second every way of drafting would give: fusion's trees of every "
        "size, a draft model or a trained head, early exit, or no draft at all. It takes the best and keeps measuring, so it "
        "falls back to plain decoding where nothing pays. The note above the tree shows when it changes its mind."
    )
    Params = AutoParams
    params: AutoParams

    @classmethod
    def elsewhere(cls, params: AutoParams, draft_model: str) -> Elsewhere:
        return ngram_tree(params.nodes)

    def __init__(self, params: AutoParams | None = None) -> None:
        super().__init__(params)
        self._readers = Readers()
        self._models: dict[str, Drafter] = {}
        self._alone = Experience()
        self._experience = self._alone
        self._via = "plain"
        self._leader = ""
        """The rival that is in force."""
        self._trial = False
        """Whether the rival of this step is on trial."""
        self._calm = False
        """Whether no rival was asked in the last step that was more than one of a nap."""
        self._beside: Model | None = None
        """The draft model that there was then."""
        self._unread = 0
        """Tokens that the rival in force has to read first: where they are many, the round tells nothing about its speed."""
        self._cold = False
        """Whether the step before was none of its own."""
        self._text: Sequence[int] = ()
        self._prompt = 0
        self._steps = 0
        """Of this answer."""
        self._copied = 0
        """Tokens of this answer that fusion or prompt lookup drafted."""
        self._read: dict[str, tuple[Sequence[int], int]] = {}
        """By rival: the text that it has read, and how many tokens of it."""
        self._plainly = 0
        """One-node passes since the last bigger one or the start of the answer."""
        self._pace = 0.0
        """Seconds per token expected of this step without a rival."""
        self._note = ""

    @property
    def note(self) -> str:
        return self._note

    def draft(self, context: Context) -> Tree:
        self._note = ""
        napping = self._readers.napping(context.tokens)
        if napping and self._calm and context.tokens is self._text and context.draft_model is self._beside:
            # The step of a nap: as little as can be done, since a small model's pass may take a thousandth of a second.
            self._experience.steps += 1
            self._steps += 1
            return self._plain(context)
        known = self._alone if context.model is None else experience(context)
        if known is not self._experience:
            self._experience, self._plainly = known, 0
        known.steps += 1
        if context.tokens is not self._text:
            self._begin(context.tokens, known)
        self._steps += 1
        self._beside = context.draft_model
        if known.steps <= WARM_UP and not known.settled:
            return self._plain(context)  # what everything else is held against, undisturbed
        rival = self._rival(context, known)
        # The first pass of an answer reads the prompt, and early exit is asked only after it.
        self._calm = not rival and context.session.length >= len(context.tokens) - 1
        if rival:
            return self._ask(rival, context)
        return self._plain(context) if napping else self._own(context, known)

    def _begin(self, tokens: Sequence[int], known: Experience) -> None:
        """Another answer begins."""
        self._end(known)
        for name, (text, read) in self._read.items():
            shared = next((i for i in range(min(read, len(tokens))) if text[i] != tokens[i]), min(read, len(tokens)))
            self._read[name] = (tokens, shared)
        self._text, self._prompt, self._copied, self._steps, self._plainly = tokens, len(tokens), 0, 0, 0
        self._calm = False
        known.last = 0
        known.own.doubt()

    def _end(self, known: Experience) -> None:
        """An answer has ended."""
        if (written := len(self._text) - self._prompt) > 0:
            known.answer += (written - known.answer) / ANSWERS
            known.copied += (min(1.0, self._copied / written) - known.copied) / FEW_ANSWERS

    def _missing(self, name: str, context: Context) -> int:
        """Tokens that a rival has to read before it can draft. The target's own layers have read them all."""
        return 0 if name == "early-exit" else len(context.tokens) - self._read.get(name, ((), 0))[1]

    def _left(self, context: Context, known: Experience) -> float:
        """Tokens of this answer that are left to a rival: what the text itself tells is drafted without one."""
        written = len(context.tokens) - self._prompt
        here = self._copied / written if written >= COPYING else 0.0
        return min(known.answer, context.room + 1) * (1 - min(1.0, max(here, known.copied)))

    def _gain(self, name: str, context: Context, known: Experience) -> float:
        """Seconds that a rival saves on the rest of an answer, whose length is taken to be the usual one however much of it is
        there (so do lengths that are distributed exponentially), less those of what it has to read first. What fusion drafts,
        it drafts beside any rival."""
        speed = known.speed(name)
        if not speed:
            return 0.0
        left = self._left(context, known)
        unread = self._missing(name, context)
        reading = unread * known.rivals[name].reading if unread > CAUGHT_UP else 0.0
        lead = STAY if name == self._leader else LEAD
        return left * (known.pace - lead / speed) - reading - (known.back(USUAL_TREE) if self._plainly else 0.0)

    def _own(self, context: Context, known: Experience, beat: float = 0.0) -> Tree:
        """Fusion's or prompt lookup's tree as far as its nodes pay, or plain decoding; plain too where no tree beats `beat`."""
        readers = self._readers
        tree, speed = readers.grow(context, known, self.params.nodes, self._plainly > 0, beat)
        self._pace = 1 / speed if speed else 0.0
        if len(tree) > 1:
            name, chances = tree.via, readers.reader.probabilities
            self._change(name, lambda: f"{name}: {sum(chances):.1f} tokens expected from {counted(len(tree), 'node')}")
            return tree
        return tree if beat else self._plain(context)

    def _plain(self, context: Context) -> Tree:
        tree = Tree.root(context.pending)
        tree.via = "greedy"
        self._change("plain", lambda: "plain decoding: a draft would not pay here")
        return tree

    def _rival(self, context: Context, known: Experience) -> str:
        """The drafter with a model of its own that takes this step, if one does."""
        names = self._available(context)
        if not names or not known.costs.known or context.room < 2 or (self._steps <= OPENING and known.copied > COPIES):
            return ""
        gains: dict[str, float] = {}
        for name in names:
            rival = known.rivals.setdefault(name, Rival())
            gains[name] = self._gain(name, context, known)
            due = known.steps >= rival.wakes and rival.left
            unread = self._missing(name, context)
            if (
                due
                and (gains[name] > 0 or unread <= CAUGHT_UP or not rival.each)
                and (not rival.each or HOPE * self._left(context, known) > rival.left + READING * unread)
            ):
                self._trial = True
                return name
        self._trial = False
        best = max(names, key=gains.__getitem__)
        if gains[best] <= 0:
            best = ""
        if best != self._leader:
            if best:
                known.rivals[best].rest = REST
            self._leader = best
        return best

    def _available(self, context: Context) -> list[str]:
        """Rivals that this model can run."""
        if not self.params.rivals or context.model is None:
            return []
        names = []
        if context.draft_model is not None and not mismatch_of(context):
            # A PARD model can draft as any draft model does, but takes one pass for a draft where that takes several.
            names.append("draft" if context.draft_model.info.pard_token is None else "pard")
        # The first pass of an answer takes what is left of the prompt along; what reads the target could not draft before it.
        if context.session.length >= len(context.tokens) - 1:
            names += [context.head.info.kind] if context.head is not None else []
            names += ["early-exit"] if context.model.info.capabilities.layers else []
        return names

    def _ask(self, name: str, context: Context) -> Tree:
        """A rival's draft, or prompt lookup's where that expects more."""
        known = self._experience
        # A round of a rival takes many times as long as growing a tree, and a passage that is copied shows there at once.
        tree = self._own(context, known, beat=PROMISE / known.costs.seconds(1) if self._trial else MARGIN * known.speed(name))
        if len(tree) > 1:
            return tree
        drafter = self._models.get(name)
        if drafter is None:
            drafter = self._models[name] = RIVALS[name]()
        self._unread = self._missing(name, context)
        self._cold = self._via != name and self._via != self._readers.reader.name
        tree = drafter.draft(context)
        self._read[name] = (context.tokens, len(context.tokens))
        tree.via = name
        plain = 1 / known.costs.seconds(1)
        word = "on trial" if self._trial else f"{known.speed(name):.0f} tokens/s expected, plain decoding {plain:.0f}"
        self._change(name, lambda: f"{name}: {word}")
        return tree

    def _change(self, via: str, note: Callable[[], str]) -> None:
        """Remember who drafts; say so if that is another than before."""
        if via != self._via:
            self._via, self._note = via, note()

    def learn(self, verified: Verified) -> None:
        known, via = self._experience, self._via
        if via in self._models:
            self._models[via].learn(verified)
            self._judge(known, via, verified)
            # How this stretch would have gone on without it nobody knows, only how it would have begun.
            known.own.learn(1, self._pace or known.costs.seconds(1))
            known.last = len(verified.tree)
        else:
            known.passed(len(verified.tree), self._plainly, verified.forward_seconds)
            if known.rivals:
                grown = known.growing[via].median if via in known.growing else 0.0
                known.own.learn(len(verified.path), known.costs.seconds(len(verified.tree)) + grown)
        self._plainly = self._plainly + 1 if len(verified.tree) == 1 else 0
        self._copied += self._readers.learn(verified, known, via)

    def _judge(self, known: Experience, name: str, verified: Verified) -> None:
        """Take in a rival's round; at the end of a trial it rests, unless it leads."""
        rival, drafted, accepted = known.rivals[name], len(verified.tree) - 1, len(verified.path) - 1
        spent, forward, unit = verified.draft_seconds, verified.forward_seconds, known.costs.seconds(1)
        rival.learn(drafted, accepted, spent, forward, self._unread, self._cold, unit)
        if drafted:
            known.luck.learn(drafted, accepted)
        if not self._trial:
            return
        rival.lost += verified.draft_seconds + verified.forward_seconds - len(verified.path) * known.pace
        if self._unread > CAUGHT_UP:
            return
        rival.left -= 1
        if rival.left <= 0 or known.loses(name):
            worth = round(rival.lost / (EXPLORING * known.pace)) if known.pace else 0
            rival.wakes, rival.left, rival.lost = known.steps + max(rival.rest, min(worth, LONGEST_REST)), RETRIAL, 0.0
            rival.rest = min(2 * rival.rest, LONGEST_REST)

    def close(self) -> None:
        self._end(self._experience)
        self._text, self._prompt = (), 0
        for drafter in self._models.values():
            drafter.close()
        self._models.clear()


RIVALS: dict[str, type[Drafter]] = {
    **{"draft": Draft, "pard": Pard, "early-exit": EarlyExit},
    **{"eagle": Eagle, "medusa": Medusa, "dflash": DFlash, "mtp": Mtp},
}
"""A draft's length follows its confidence: it changes from word to word, more than averages tell."""


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
