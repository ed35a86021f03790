"""Checks of a session against reference logits: a five-node tree, chains, rewinds and hidden states."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from ..errors import Cancelled, UserError
from .base import ROOT

logger = logging.getLogger("specchat.proof")
"""Without a handler, warnings go to standard error: the engine's log."""

PREFIX = 6
"""Tokens before the tree: more than `hf/proof.py` has in its windows, so that these matter."""
PARENTS = (ROOT, 0, 0, 1, 2)
"""The tree: one root, two children, one grandchild below each."""
PATHS = ((0, 1, 3), (0, 2, 4))
NODES = tuple(range(len(PARENTS)))


def difference(logits: Tensor, reference: Tensor) -> float:
    """Return the root-mean-square difference of logits [rows, vocab], in units of their standard deviation; NaN for NaN."""
    logits, reference = logits.float(), reference.to(logits.device).float()
    return float((logits - reference).square().mean().sqrt() / reference.std().clamp_min(1e-6))


def alike(logits: Tensor, reference: Tensor, limit: float) -> bool:
    """Whether logits or states [rows, width] differ by `limit` at most."""
    error = difference(logits, reference)
    if error <= limit:
        return True
    logger.warning("proof: values differ by %.3g, at most %g (expected %.3g)", error, limit, reference.mean())
    return False


def out_of_memory(error: BaseException) -> bool:
    """Whether torch could not get memory, on any device."""
    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    text = str(error)
    return isinstance(error, RuntimeError) and ("not enough memory" in text or "out of memory" in text)


def attempt(check: Callable[..., bool], *args: Any) -> bool:
    """Return a check's answer; an error inside the model counts as a no.

    Raises:
        Cancelled, and an error that is not the model's fault (out of memory).
    """
    try:
        return check(*args)
    except Cancelled:
        raise
    except Exception as error:
        # Models fail in every way there is; here a failure is an answer.
        if out_of_memory(error) or (isinstance(error, UserError) and "memory" in str(error)):
            raise
        logger.warning("proof: %s: %s", type(error).__name__, error)
        return False


class SessionProof:
    """Checks of sessions that have read a prefix.

    Args:
        text: ids of a text, the prefix and the tree's at least.
        prefix: tokens of the prefix.
        tick: called after each pass; may raise Cancelled.
    """

    reference: Tensor
    """Expected logits of the tree's paths [2, 3, vocab]."""
    limit: float
    """Greatest difference of logits that rounding explains."""

    def __init__(self, text: Sequence[int], prefix: int, tick: Callable[[], None]) -> None:
        self.tick = tick
        self.prefix = list(text[:prefix])
        self.tree = list(text[prefix : prefix + len(PARENTS)])
        self.paths = [[self.tree[node] for node in path] for path in PATHS]

    def evaluate(self, session: Any, tokens: Sequence[int], parents: Sequence[int], **options: Any) -> Tensor:
        """Run a pass; return a copy of its logits [rows, vocab]."""
        logits: Tensor = session.evaluate(tokens, parents, **options).logits.clone()
        self.tick()
        return logits

    def chain(self, session: Any, tokens: Sequence[int]) -> Tensor:
        """Run a chain behind the committed tokens; return a copy of its logits [tokens, vocab]."""
        return self.evaluate(session, tokens, range(ROOT, len(tokens) - 1))

    def expected(self, nodes: Sequence[int]) -> Tensor:
        """Select the expected logits of some of the tree's nodes [nodes, vocab]."""
        places = (next((path, line.index(node)) for path, line in enumerate(PATHS) if node in line) for node in nodes)
        return torch.stack([self.reference[path, depth] for path, depth in places])

    def alike(self, logits: Tensor, nodes: Sequence[int]) -> bool:
        """Whether logits [nodes, vocab] are those expected of some of the tree's nodes."""
        return alike(logits, self.expected(nodes), self.limit)

    def trees(self, session: Any) -> bool:
        """Whether the branching tree, grown in two passes, has the expected logits."""
        rows = [self.evaluate(session, self.tree[a:b], PARENTS[a:b]) for a, b in ((0, 3), (3, 5))]
        return self.alike(torch.cat(rows), NODES)

    def chains(self, session: Any) -> bool:
        """Whether chains have the expected logits before and after rewinds: twice in a row a part of a draft is rejected, the
        text goes on without one, and back to the start of the answer."""
        first, second = self.paths
        rows, nodes = [self.chain(session, second)], [*PATHS[1]]
        session.commit((0,))
        rows.append(self.chain(session, [*first[1:], second[1]])[:2])
        session.commit((0,))
        rows.append(self.chain(session, first[2:]))
        session.rewind(len(self.prefix))
        rows.append(self.chain(session, first))
        nodes += [*PATHS[0][1:], PATHS[0][2], *PATHS[0]]
        return self.alike(torch.cat(rows), nodes)

    def states(self, session: Any, tree: bool) -> Tensor:
        """Read the second path in a session with taps, through a branch of the tree or as a chain; return the states
        [tokens, taps × width] after a commit."""
        if tree:
            self.evaluate(session, self.tree, PARENTS, rows=())
        else:
            self.evaluate(session, self.paths[1], (ROOT, 0, 1), rows=())
        session.commit(PATHS[1] if tree else (0, 1, 2))
        states: Tensor = session.states(0, session.length)
        return states
