"""A step's token tree as rows of text: the accepted path runs straight down, refused branches leave it. Each piece of text has
a role, to which the page gives a style.

    ● ␣the
    ┠─× ␣old
    ┃ ␣lamp ␣and ␣wrote
    ┠─× ␣a ␣poem
    ┃   ├─ ␣about
    ┃   └─ ␣of
    ┗━ ␣the
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Literal, NamedTuple

from ...engine.messages import StepRecord
from ...errors import counted
from ..text.cells import fit, width

Role = Literal["trunk", "guide", "cross", "pending", "path", "choice", "open", "branch", "fold"]

PIECE_CELLS = 24
"""Longest token text: some vocabularies have tokens of a hundred spaces."""

INDENT = 3
"""Cells of each level of branches below a refused one."""

SIGNS = "¹²³⁴⁵⁶⁷⁸⁹"
"""Signs of a tree's drafters, after the tokens that they guessed."""

LEAST_ROOM = 8
"""Cells that a branch needs; one with fewer is counted, not drawn."""


class Span(NamedTuple):
    """A part of a tree's row, of one role."""

    text: str
    role: Role


class TreeRow(NamedTuple):
    """A row of a drawn tree. Over all rows every node of the tree is in `nodes` once, or counted in `folded`."""

    spans: tuple[Span, ...]
    prob: float | None = None
    """The target's probability of a branch's first token, or of a whole row of the path. Under beam search, the branch's share
    among the open texts."""
    nodes: tuple[int, ...] = ()
    folded: int = 0

    @property
    def text(self) -> str:
        return "".join(span.text for span in self.spans)


@dataclass(frozen=True, slots=True)
class StepTree:
    """The tree of a step and the outcome of its verification."""

    tokens: Sequence[int]
    """The token of each node; node 0 was pending before the step [n]."""
    parents: Sequence[int]
    """The parent of each node, an earlier one; −1 for node 0 [n]."""
    path: Sequence[int]
    """Accepted nodes, beginning with 0."""
    choice: int | None
    """The target's own token after the path; None if the answer was cut before it."""
    guesses: int
    """First node of a lookahead window: nodes from there on are no guesses of the next tokens."""
    probs: Sequence[float]
    """The target's probability of the token of each node after 0, then of the choice; empty if not recorded."""
    beams: Sequence[int] | None = None
    """Under beam search, the last nodes of the texts that go on or have just ended; None under other methods."""
    sources: Sequence[int] = ()
    """Bits of each node if several drafters grew the tree: bit i is set if the one with SIGNS[i] guessed it [n]."""

    def shares(self) -> dict[int, float]:
        """Return the share of each node of the open beams in the probability of all beams; all 0 if none was recorded."""
        likely = [1.0]
        for node, parent in enumerate(self.parents[1:], 1):
            likely.append(likely[parent] * (self.probs[node - 1] if self.probs else 0.0))
        out = dict[int, float]()
        beams = self.beams or []
        total = sum(likely[beam] for beam in beams)
        for beam in beams:
            node = beam
            while node > 0:
                out[node] = out.get(node, 0.0) + (likely[beam] / total if total else 0.0)
                node = self.parents[node]
        return out

    @classmethod
    def of(cls, step: StepRecord, pending: int) -> StepTree:
        """Build the tree of a step; `pending` is the token before it, which a step without a draft does not have."""
        if not step.tree_tokens:
            chain = step.tokens[:-1]
            count = len(chain) + 1
            return cls(
                [pending, *chain],
                parents=range(-1, len(chain)),
                path=range(count),
                choice=step.tokens[-1] if step.tokens else None,
                guesses=count,
                probs=step.probs[-1:] if not chain else [],  # nodes that are no guesses have no probabilities here
            )
        count = len(step.tree_tokens)
        parents, path = step.tree_parents, step.path
        probs = step.probs if len(step.probs) == count else []
        if not step.drafted:
            depths = [0]
            for parent in parents[1:]:
                depths.append(depths[parent] + 1)
            beams = [node for node, depth in enumerate(depths) if depth == max(depths)]
            if path[-1] and path[-1] not in parents:
                beams = [path[-1]]
            return cls(step.tree_tokens, parents, path, choice=None, guesses=count, probs=probs, beams=beams)
        choice = step.tokens[-1] if len(step.tokens) == len(path) else None
        guesses = min(step.drafted + 1, count)
        sources = step.sources if len(step.drafters) > 1 else []
        return cls(step.tree_tokens, parents, path, choice, guesses, probs, sources=sources)

    def prob(self, node: int) -> float | None:
        """Return the target's probability of a node's token; None for node 0, and if it was not recorded."""
        return self.probs[node - 1] if self.probs and node else None


class Plan(NamedTuple):
    """The level of detail of a tree's layout."""

    spread: bool
    """Whether every token of the path has a row."""
    levels: int
    """Greatest depth of drawn branches of branches."""
    siblings: int
    """Most refused branches drawn at each node."""


PLANS = (
    Plan(True, 99, 99),
    Plan(False, 99, 99),
    Plan(False, 1, 12),
    *(Plan(False, 0, siblings) for siblings in (8, 4, 2, 1, 0)),
)
"""Plans from the most detail to the least; the first that fits is used."""


def visible(text: str) -> str:
    """Return a token's text with visible spaces, cut to PIECE_CELLS."""
    return fit(text.replace(" ", "␣"), PIECE_CELLS)


def tree_rows(tree: StepTree, piece: Callable[[int], str], cells: int, height: int = 10_000) -> list[TreeRow]:
    """Lay a tree out in rows.

    Args:
        piece: token id → its text, sanitised, on one line.
        cells: width of a row; at least 16 to be of use.
        height: most rows, at least 3. The others are folded: "… 12 more".
    """
    for plan in PLANS:
        if plan.spread and not tree.probs:  # a token's row would show nothing else
            continue
        rows = _Layout(tree, piece, cells, plan).rows()
        if len(rows) <= height:
            return rows
    return _Layout(tree, piece, cells, PLANS[-1]).path_rows(max(3, height))


class _Layout:
    """A layout of a tree by one plan."""

    def __init__(self, tree: StepTree, piece: Callable[[int], str], cells: int, plan: Plan) -> None:
        self.tree = tree
        self.piece = piece
        self.cells = cells
        self.plan = plan
        self.children: list[list[int]] = [[] for _ in tree.tokens]
        self.sizes = [1] * len(tree.tokens)
        """Nodes in each node's branch, itself included."""
        self.open_shares = tree.shares()
        accepted = set(tree.path)
        drawn = [node for node in range(1, len(tree.tokens)) if node < tree.guesses or node in accepted]
        self.window = len(tree.tokens) - 1 - len(drawn)
        """Number of window nodes off the path, which are counted, not drawn."""
        for node in drawn:
            self.children[tree.parents[node]].append(node)
        for node in reversed(drawn):
            self.sizes[tree.parents[node]] += self.sizes[node]
        for nodes in self.children if tree.probs else ():  # the open ones first, then the likeliest
            nodes.sort(key=lambda node: (node not in self.open_shares, -(self._prob(node) or 0.0)))

    def rows(self) -> list[TreeRow]:
        path = self.tree.path
        out = [self._root()]
        run: list[int] = []  # accepted nodes without a branch between them
        for node, following in zip(path, [*path[1:], -1], strict=True):
            if node:
                run.append(node)
            branches = [child for child in self.children[node] if child != following]
            if branches or following < 0 or self.plan.spread:
                out += self._trunk(run)
                run = []
            for branch in branches[: self.plan.siblings]:
                cross = Span("─ ", "guide") if branch in self.open_shares else Span("× ", "cross")
                start = (Span("┠", "trunk"), Span("─", "guide"), cross)
                out += self._branch(branch, start, (Span("┃", "trunk"), Span("   ", "guide")), 0)
            out += self._fold(sum(self.sizes[branch] for branch in branches[self.plan.siblings :]))
        out.append(self._end())
        if self.window:
            text = fit(f"   … {self.window} more in the window", self.cells)
            out.append(TreeRow((Span(text, "fold"),), folded=self.window))
        return out

    def path_rows(self, height: int) -> list[TreeRow]:
        """Lay out the accepted path alone, with the number of all other nodes."""
        path = self._trunk(self.tree.path[1:])[: height - 3]
        drawn = 1 + sum(len(row.nodes) for row in path)
        return [self._root(), *path, *self._fold(len(self.tree.tokens) - drawn), self._end()]

    def _root(self) -> TreeRow:
        return TreeRow((Span("● ", "trunk"), Span(fit(self._text(0), self.cells - 2), "pending")), nodes=(0,))

    def _fold(self, count: int) -> list[TreeRow]:
        more = Span(fit(f"… {count} more", self.cells - 3), "fold")
        return [TreeRow((Span("┠", "trunk"), Span("─ ", "guide"), more), folded=count)] if count else []

    def _text(self, node: int) -> str:
        source = self.tree.sources[node] if self.tree.sources else 0
        signs = "".join(sign for i, sign in enumerate(SIGNS) if source >> i & 1)
        return visible(self.piece(self.tree.tokens[node])) + signs

    def _prob(self, node: int) -> float | None:
        return self.tree.prob(node) if self.tree.beams is None else self.open_shares.get(node)

    def _trunk(self, nodes: Sequence[int]) -> list[TreeRow]:
        """Lay out accepted nodes without a branch between them."""
        out = []
        while nodes:
            count = self._fitting(nodes, self.cells - 2)
            line, nodes = nodes[:count], nodes[count:]
            probs = [prob for node in line if (prob := self._prob(node)) is not None]
            complete = self.tree.beams is None and len(probs) == len(line)
            spans = (Span("┃ ", "trunk"), *self._tokens(line, self.cells - 2, "path"))
            out.append(TreeRow(spans, prod(probs) if complete else None, tuple(line)))
        return out

    def _end(self) -> TreeRow:
        tree = self.tree
        if tree.beams is not None:
            text = "one text is left" if len(tree.beams) == 1 else f"{counted(len(tree.beams), 'text')} open"
        elif tree.choice is None:
            text = "the answer ends here"
        else:
            text = visible(self.piece(tree.choice))
        chosen = tree.choice is not None
        span = Span(fit(text, self.cells - 3), "choice" if chosen else "fold")
        return TreeRow((Span("┗━ ", "trunk"), span), tree.probs[-1] if tree.probs and chosen else None)

    def _branch(self, node: int, start: tuple[Span, ...], under: tuple[Span, ...], level: int) -> list[TreeRow]:
        """Lay out a refused branch: its chain of only children on a row, then the forks below.

        Args:
            start: spans left of its first row.
            under: spans left of the others.
            level: 0 for a branch of the path, 1 for a branch of that, and so on.
        """
        chain = [node]
        while len(self.children[chain[-1]]) == 1:
            chain += self.children[chain[-1]]
        forks = self.children[chain[-1]]
        room = self.cells - sum(width(span.text) for span in under)
        count = self._fitting(chain, room)
        opened = count == len(chain) and level < self.plan.levels and room - INDENT >= LEAST_ROOM
        hidden = self.sizes[node] - len(chain) if not opened else 0
        more = ""
        if hidden or count < len(chain):
            # Room for the number of the others, at the cost of the last tokens; the first one stays.
            count = self._fitting(chain, room - len(f" … {self.sizes[node]} more"))
            hidden = self.sizes[node] - count
            free = room - sum(width(self._text(node)) + 1 for node in chain[:count]) + 1
            more = next((text for text in (f" … {hidden} more", f" …{hidden}") if len(text) <= free), " …")
        tokens = self._tokens(chain[:count], room - len(more), "branch")
        spans = (*start, *tokens, *([Span(more, "fold")] if more else []))
        out = [TreeRow(spans, self._prob(node), tuple(chain[:count]), hidden)]
        for fork in forks if opened else ():
            last = fork == forks[-1]
            dead = self.tree.beams is not None and fork not in self.open_shares
            corner = Span("└─" if last else "├─", "guide"), Span("×", "cross") if dead else Span(" ", "guide")
            out += self._branch(fork, (*under, *corner), (*under, Span("   " if last else "│  ", "guide")), level + 1)
        return out

    def _fitting(self, nodes: Sequence[int], room: int) -> int:
        """Return the number of nodes, at least one, whose texts fit in a row with a blank between them."""
        used = width(self._text(nodes[0]))
        for count, node in enumerate(nodes[1:], 1):
            used += 1 + width(self._text(node))
            if used > room:
                return count
        return len(nodes)

    def _tokens(self, nodes: Sequence[int], room: int, role: Role) -> list[Span]:
        out: list[Span] = []
        for i, node in enumerate(nodes):
            if i:
                out.append(Span(" ", "guide"))
            opened: Role = "open" if role == "branch" and node in self.open_shares else role
            out.append(Span(fit(self._text(node), room), opened))
        return out
