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
    parents: list[int]
    """The parent of each node, an earlier one; −1 for node 0 [n]."""
    path: list[int]
    """Accepted nodes, beginning with 0."""
    choice: int | None
    """The target's own token after the path; None if the answer was cut before it."""
    guesses: int
    """First node of a lookahead window: nodes from there on are no guesses of the next tokens."""
    probs: Sequence[float]
    """The target's probability of the token of each node after 0, then of the choice; empty if not recorded."""
    beams: list[int] | None = None
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
                parents=list(range(-1, len(chain))),
                path=list(range(count)),
                choice=step.tokens[-1] if step.tokens else None,
                guesses=count,
                probs=step.probs[-1:] if not chain else [],  # nodes that are no guesses have no probabilities here
            )
        count = len(step.tree_tokens)
        parents = [-1, *(parent if 0 <= parent < i else 0 for i, parent in enumerate(step.tree_parents[1:count], 1))]
        parents += [0] * (count - len(parents))
        path = [0]
        for node in step.path[1:]:
            if not 0 < node < count or parents[node] != path[-1]:
                break
            path.append(node)
        probs = step.probs if len(step.probs) == count else []
        if not step.drafted:
            depths = [0]
            for parent in parents[1:]:
                depths.append(depths[parent] + 1)
            beams = [node for node, depth in enumerate(depths) if depth == max(depths)]
            if path[-1] and path[-1] not in parents:
                beams = path[-1:]
            return cls(step.tree_tokens, parents, path, choice=None, guesses=count, probs=probs, beams=beams)
        choice = step.tokens[-1] if len(step.tokens) == len(path) else None
        guesses = step.drafted + 1 if step.drafted < count - 1 else count
        sources = step.sources if len(step.drafters) > 1 and len(step.sources) == count else []
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
    """Most refused branches drawn at each node; −1: all of them are counted in one row before the target's choice."""
    lines: int
    """Rows of one branch."""


PLANS = (
    Plan(True, 99, 99, 2),
    Plan(False, 99, 99, 2),
    Plan(False, 99, 99, 1),
    Plan(False, 2, 99, 1),
    Plan(False, 1, 12, 1),
    *(Plan(False, 0, siblings, 1) for siblings in (8, 4, 2, 1, 0, -1)),
)
"""Plans from the most detail to the least; the first that fits is used."""


def visible(text: str) -> str:
    """Return a token's text with visible spaces, cut to PIECE_CELLS."""
    return fit(text.replace(" ", "␣"), PIECE_CELLS)


def tree_rows(tree: StepTree, piece: Callable[[int], str], cells: int, height: int | None = None) -> list[TreeRow]:
    """Lay a tree out in rows.

    Args:
        piece: token id → its text, sanitised, on one line.
        cells: width of a row; at least 16 to be of use.
        height: most rows, at least 3; as many as it takes if None. The others are folded: "… 12 more".
    """
    rows: list[TreeRow] = []
    for plan in PLANS:
        if plan.spread and not tree.probs:  # a token's row would show nothing else
            continue
        rows = _Layout(tree, piece, cells, plan).rows()
        if height is None or len(rows) <= height:
            return rows
    assert height is not None
    return _middle_folded(rows, max(3, height), cells)


def _middle_folded(rows: list[TreeRow], height: int, cells: int) -> list[TreeRow]:
    """Return the first and last rows, with the number of the nodes between them."""
    end = next(i for i, row in enumerate(reversed(rows), 1) if not row.folded)  # the target's choice: always shown
    tail = max(end, (height - 1) // 2) if height >= 6 else 1
    if tail < end:  # no room for the window's row
        rows = [*rows[:-end], *rows[len(rows) - end + 1 :], rows[-end]]
    head = height - 1 - tail
    hidden = rows[head : len(rows) - tail]
    count = sum(len(row.nodes) + row.folded for row in hidden)
    more = TreeRow((Span("┃ ", "trunk"), Span(fit(_more(count), cells - 2), "fold")), folded=count)
    return [*rows[:head], more, *rows[len(rows) - tail :]]


def _more(count: int) -> str:
    return f"… {count} more"


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

    def rows(self) -> list[TreeRow]:
        path = self.tree.path
        root = Span(fit(self.text(0), self.cells - 2), "pending")
        out = [TreeRow((Span("● ", "trunk"), root), nodes=(0,))]
        line: list[int] = []
        apart = self.plan.siblings >= 0
        refused = 0
        for node, following in zip(path, [*path[1:], -1], strict=True):
            if node:
                line.append(node)
            branches = [child for child in self.children[node] if child != following]
            if not apart:
                refused += sum(self.sizes[branch] for branch in branches)
                branches = []
            if branches or following < 0 or self.plan.spread:
                out += self._trunk(line)
                line = []
                out += self._forks(branches)
        if refused:
            out.append(self._fold(refused))
        out.append(self._end())
        if self.window:
            text = fit(f"   … {self.window} more in the window", self.cells)
            out.append(TreeRow((Span(text, "fold"),), folded=self.window))
        return out

    def text(self, node: int) -> str:
        source = self.tree.sources[node] if self.tree.sources else 0
        signs = "".join(sign for i, sign in enumerate(SIGNS) if source >> i & 1)
        return visible(self.piece(self.tree.tokens[node])) + signs

    def _trunk(self, nodes: list[int]) -> list[TreeRow]:
        """Lay out accepted nodes without a branch between them."""
        out = []
        for line in self._wrap(nodes, self.cells - 2)[0]:
            spans = (Span("┃ ", "trunk"), *self._tokens(line, self.cells - 2, "path"))
            probs = [prob for node in line if (prob := self._prob(node)) is not None]
            complete = self.tree.beams is None and len(probs) == len(line)
            out.append(TreeRow(spans, prod(probs) if complete else None, tuple(line)))
        return out

    def _end(self) -> TreeRow:
        tree = self.tree
        if tree.beams is not None:
            text = "one text is left" if tree.beams == tree.path[-1:] else f"{counted(len(tree.beams), 'text')} open"
            return TreeRow((Span("┗━ ", "trunk"), Span(fit(text, self.cells - 3), "fold")))
        if tree.choice is None:
            text = "nothing is certain yet" if len(tree.path) == 1 else "the answer ends here"
            return TreeRow((Span("┗━ ", "trunk"), Span(fit(text, self.cells - 3), "fold")))
        text = fit(visible(self.piece(tree.choice)), self.cells - 3)
        return TreeRow((Span("┗━ ", "trunk"), Span(text, "choice")), tree.probs[-1] if tree.probs else None)

    def _forks(self, nodes: list[int]) -> list[TreeRow]:
        """Lay out the refused or open branches at a node of the path, the likeliest first if that is known."""
        nodes = self._ordered(nodes)
        out: list[TreeRow] = []
        for node in nodes[: self.plan.siblings]:
            cross = Span("─ ", "guide") if node in self.open_shares else Span("× ", "cross")
            start = (Span("┠", "trunk"), Span("─", "guide"), cross)
            out += self._branch(node, start, (Span("┃", "trunk"), Span("   ", "guide")), 0)
        if rest := nodes[self.plan.siblings :]:
            out.append(self._fold(sum(self.sizes[node] for node in rest)))
        return out

    def _fold(self, count: int) -> TreeRow:
        text = fit(_more(count), self.cells - 3)
        return TreeRow((Span("┠", "trunk"), Span("─ ", "guide"), Span(text, "fold")), folded=count)

    def _ordered(self, nodes: list[int]) -> list[int]:
        if not self.tree.probs:
            return nodes
        return sorted(nodes, key=lambda node: (node not in self.open_shares, -(self._prob(node) or 0.0)))

    def _prob(self, node: int) -> float | None:
        return self.tree.prob(node) if self.tree.beams is None else self.open_shares.get(node)

    def _branch(self, node: int, start: tuple[Span, ...], under: tuple[Span, ...], level: int) -> list[TreeRow]:
        """Lay out a refused branch: its chain of only children, then the forks below.

        Args:
            start: spans left of its first row.
            under: spans left of the others.
            level: 0 for a branch of the path, 1 for a branch of that, and so on.
        """
        chain = [node]
        while len(self.children[chain[-1]]) == 1:
            chain.append(self.children[chain[-1]][0])
        forks = self.children[chain[-1]]
        below = sum(self.sizes[fork] for fork in forks)
        room = self.cells - sum(width(span.text) for span in under)
        open_forks = bool(forks) and level < self.plan.levels and room - INDENT >= LEAST_ROOM
        lines, rest = self._wrap(chain, room, self.plan.lines, 0 if open_forks else below)
        hidden = rest + (0 if open_forks and not rest else below)
        out = []
        for i, line in enumerate(lines):
            last = i == len(lines) - 1
            spans = list(start if i == 0 else under)
            if last and hidden:
                more = self._suffix(line, hidden, room)
                spans += [*self._tokens(line, room - width(more), "branch"), Span(more, "fold")]
            else:
                spans += self._tokens(line, room, "branch")
            prob = self._prob(node) if i == 0 else None
            out.append(TreeRow(tuple(spans), prob, tuple(line), hidden if last else 0))
        if not hidden:
            forks = self._ordered(forks)
            for fork in forks:
                end = fork == forks[-1]
                dead = self.tree.beams is not None and fork not in self.open_shares
                corner = Span("└─" if end else "├─", "guide"), Span("×", "cross") if dead else Span(" ", "guide")
                guides = (*under, *corner), (*under, Span("   " if end else "│  ", "guide"))
                out += self._branch(fork, *guides, level + 1)
        return out

    def _wrap(self, nodes: list[int], room: int, lines: int | None = None, below: int = 0) -> tuple[list[list[int]], int]:
        """Wrap nodes to lines, with one blank between tokens; returns the lines and the number of nodes left over.

        Args:
            lines: most lines; as many as it takes if None.
            below: nodes that will be counted at the end of the last line in any case.
        """
        out: list[list[int]] = []
        used = 0
        for node in nodes:
            cells = min(room, width(self.text(node)))
            if not out or used + 1 + cells > room or (self.plan.spread and lines is None):
                if lines is not None and len(out) == lines:
                    break
                out.append([])
                used = cells
            else:
                used += 1 + cells
            out[-1].append(node)
        rest = len(nodes) - sum(map(len, out))
        if rest + below and out:
            # Room for the count, at the cost of the last tokens; the first one of the line stays.
            while len(out[-1]) > 1 and self._cells(out[-1]) + width(_more(rest + below)) + 1 > room:
                out[-1].pop()
                rest += 1
        return out, rest

    def _cells(self, line: Sequence[int]) -> int:
        return sum(width(self.text(node)) + 1 for node in line) - 1

    def _suffix(self, line: Sequence[int], hidden: int, room: int) -> str:
        """Return the note of hidden nodes at the end of a line, as long as fits."""
        free = room - self._cells(line)
        return next((text for text in (f" {_more(hidden)}", f" …{hidden}", " …") if width(text) <= free), " …")

    def _tokens(self, line: Sequence[int], room: int, role: Role) -> list[Span]:
        out: list[Span] = []
        for i, node in enumerate(line):
            if i:
                out.append(Span(" ", "guide"))
            open_branch = role == "branch" and node in self.open_shares
            out.append(Span(fit(self.text(node), room), "open" if open_branch else role))
        return out
