"""Sources of guesses for the methods that draft with a model: a draft model with its own cache, or the target's first layers in
the target's cache. Both grow the nodes of one token tree level by level."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from ...backends.base import PREFILL_CHUNK, ROOT, Layers, Model, Sampling, Scores
from ...backends.files.vocabulary import difference
from ...backends.sampling import Purpose, noise_key
from ...errors import UserError, counted
from ..acceptance import compared
from ..base import Context

Guesses = list[tuple[int, float]]
"""(token id, probability), the best first; where a draft model samples, in the order of drawing."""

BEHIND = 64
"""Tokens that a draft model may lag behind and still catch up within the pass over the pending token."""


class Proposer(ABC):
    """A model that guesses what follows the nodes of a tree.

    A round is `begin`, any number of `grow`, and, once the tree is verified, `settle`. Nodes are numbered in the order in
    which they are evaluated here, the pending token first; the methods keep the tree's own numbers apart.
    """

    def __init__(self, number: int = 0) -> None:
        """`number`: among several that grow one tree together."""
        self._number = number
        self._path: list[list[int]] = []
        self._parents: list[int] = []
        """The parent of each node that has been evaluated [n]."""
        self._context: Context | None = None
        self._scores: list[tuple[Scores, int]] = []
        self.note = ""
        """The reason why it guesses nothing in this round, if worth saying."""

    @property
    def evaluated(self) -> int:
        """Number of this round's nodes evaluated so far."""
        return len(self._path)

    @property
    def branches(self) -> int | None:
        """The most leaves that the nodes of a round may have; None for any number."""
        return None

    def capacity(self, context: Context) -> int:
        """Return the most nodes that may be alive in a round, the pending token included."""
        return context.session.context - context.session.length

    def readable(self, line: Sequence[int]) -> Sequence[int]:
        """Cut a line of the target's tokens before the first that it cannot read."""
        return line

    def known(self, context: Context) -> bool:
        """Return whether the next pass's guess has been made already."""
        return False

    def begin(self, context: Context, count: int, line: Sequence[int] = ()) -> list[Guesses]:
        """Evaluate the pending token, and a line expected to follow it.

        Args:
            context: its tokens end with the pending one.
            count: most guesses after each node.
            line: tokens that may turn out to be the proposer's own guesses.

        Returns:
            guesses after the pending token and after each of the line [1 + n]; none if the draft has no more room.
        """
        self._start(context)
        paths = [[context.pending, *line[:end]] for end in range(len(line) + 1)]
        return self._guess(lambda: self._open(context, line), paths, range(ROOT, len(line)), count)

    def grow(self, tokens: Sequence[int], parents: Sequence[int], count: int) -> list[Guesses]:
        """Evaluate tokens below earlier nodes, or below tokens before them in `tokens`.

        Returns:
            guesses for each of them [n]; none for those that there is no room for.
        """
        fitting = self._fitting(parents)
        if len(fitting) < len(tokens):
            first = self.evaluated
            place = {first + i: first + at for at, i in enumerate(fitting)}
            new_parents = [place.get(parents[i], parents[i]) for i in fitting]
            guesses = dict(zip(fitting, self.grow([tokens[i] for i in fitting], new_parents, count), strict=True))
            return [guesses.get(i, []) for i in range(len(tokens))]
        paths, first = list(self._path), len(self._path)
        for token, parent in zip(tokens, parents, strict=True):
            paths.append([*paths[parent], token])
        return self._guess(lambda: self._extend(tokens, parents), paths[first:], parents, count)

    def _fitting(self, parents: Sequence[int]) -> Sequence[int]:
        """Choose the new nodes that fit, earlier ones first: a first child takes its parent's place among the leaves."""
        if self.branches is None:
            return range(len(parents))
        inner = set(self._parents)
        leaves, first = len(self._parents) + 1 - len(inner), len(self._parents)
        fitting: list[int] = []
        for i, parent in enumerate(parents):
            if (parent < first or parent - first in fitting) and leaves + (parent in inner) <= self.branches:
                leaves += parent in inner
                inner.add(parent)
                fitting.append(i)
        return fitting

    def distribution(self, node: int) -> Any:
        """Compute q [vocab], from which the guesses after a node were drawn; at temperature 0 the plain softmax (numpy
        float32)."""
        context = self._context
        assert context is not None
        scores, row = self._scores[node]
        sampling = compared(context.sampling)
        q = scores.probs(row, sampling, self._history(node) if sampling.uses_history else None)
        lacking = context.model.info.vocabulary - len(q) if context.model is not None else 0
        if lacking <= 0:
            return q
        import numpy as np  # here alone: listing the methods needs no arrays

        return np.pad(q, (0, lacking))

    def forget(self, first: int) -> None:
        """Free the nodes from number `first` on: the proposer would not have guessed them."""
        del self._path[first:], self._scores[first:], self._parents[first:]
        self._drop(first)

    def _start(self, context: Context) -> None:
        self._context = context
        self._scores = []
        self._path = []
        self._parents = []

    @abstractmethod
    def _open(self, context: Context, line: Sequence[int]) -> Scores | None:
        """Evaluate the pending token and the line behind it; None where that is not possible."""

    def _extend(self, tokens: Sequence[int], parents: Sequence[int]) -> Scores | None:
        """Evaluate new nodes; None where only the first pass guesses."""
        return None

    def _drop(self, first: int) -> None:  # noqa: B027
        """Free the session's nodes from number `first` on."""

    def settle(self, path: Sequence[int]) -> None:  # noqa: B027
        """Keep the accepted nodes, a path from node 0 on, and free all others. Most proposers hold none: accepted tokens come
        with the target's own states."""

    def close(self) -> None:  # noqa: B027
        """Free the session."""

    def _noise(self, context: Context, length: int | None = None) -> tuple[Sampling, bool]:
        """Return the settings to draw guesses with, and whether their noise is the draft's own.

        Rejection sampling needs draws that are independent of the other drafters' and of earlier steps', which decided where
        those ended. With a node's number in its round, `length` (the text's tokens at the step that is drawn for; None for
        this one) determines a draw, whenever it is made.
        """
        sampling = context.sampling
        if context.acceptance.rule not in ("rejection", "soft"):
            return sampling, False
        at = len(context.tokens) if length is None else length
        return replace(sampling, seed=noise_key(sampling.seed, at, Purpose.DRAFT, self._number)), True

    def _history(self, node: int) -> list[int]:
        assert self._context is not None
        return [*self._context.tokens[:-1], *self._path[node]]

    def _guess(
        self, evaluate: Callable[[], Scores | None], paths: list[list[int]], parents: Sequence[int], count: int
    ) -> list[Guesses]:
        """Evaluate nodes with these paths and parents, and guess what follows each."""
        context = self._context
        assert context is not None
        scores = evaluate()
        if scores is None:
            return [[] for _ in paths]
        first = len(self._path)
        self._path += paths
        self._parents += parents
        self._scores += [(scores, row) for row in range(len(paths))]
        nodes = range(first, len(self._path))
        histories = [self._history(node) for node in nodes] if context.sampling.uses_history else None
        sampling, independent = self._noise(context)
        return scores.candidates(count, sampling, histories, attempts=nodes if independent else None)


class DraftModelProposer(Proposer):
    """A draft model whose session follows the target's text.

    One of the two may have ids that the other lacks: tokens added to a vocabulary, padding. Those that the target lacks are
    never guessed. Those that the draft model lacks it reads as their text, or, if they have none as control tokens do, not at
    all; it guesses nothing right behind one.

    Args:
        model: its tokenizer must give tokens the target's ids, as far as both have them.
        context: most tokens of the conversation.
        number: among several that grow one tree together.

    Raises:
        UserError: there is no memory for its cache.
    """

    def __init__(self, model: Model, context: int, number: int = 0) -> None:
        super().__init__(number)
        self.model = model
        self.session = model.open_session(min(context, model.info.context))
        self._ids: list[int] = []
        self._before = 0
        """Tokens of the text that this round's first pass read: the session numbers them first."""
        self._text: Sequence[int] | None = None
        """The text whose start is in the cache."""
        self._spelled: list[int] = []
        """The first `_known` tokens of `_source` in tokens that the model has."""
        self._source: Sequence[int] | None = None
        self._known = 0
        self._later = 0
        """Number of tokens by which the target's text is longer."""

    @property
    def branches(self) -> int | None:
        return self.session.branches

    def capacity(self, context: Context) -> int:
        return min(super().capacity(context), self.session.context - len(self._read(context)) + 1)

    def readable(self, line: Sequence[int]) -> Sequence[int]:
        ids = self.model.info.readable
        return line[: next((i for i, token in enumerate(line) if token >= ids), len(line))]

    def _read(self, context: Context) -> list[int]:
        """Spell the text in tokens that the model has."""
        # Each answer is another list, which only grows.
        if self._source is not context.tokens or self._known > len(context.tokens):
            self._source = context.tokens
            self._spelled = []
            self._known = self._later = 0
        new, ids = context.tokens[self._known :], self.model.info.readable
        self._known += len(new)
        if max(new, default=0) < ids:
            self._spelled += new
            return self._spelled
        start = self.model.encode("")
        for token in new:
            if token < ids:
                self._spelled.append(token)
            elif context.model is not None and (text := context.model.decode([token])):
                spelled = self.model.encode(text)
                has_start = spelled[: len(start)] == start
                self._spelled += [piece for piece in spelled[len(start) if has_start else 0 :] if piece < ids]
        self._later = self._known - len(self._spelled)
        return self._spelled

    def _as_target(self, scores: Scores) -> Scores:
        """Convert scores to the target's ids and positions."""
        context = self._context
        if context is None or context.model is None:
            return scores
        return scores.as_seen(context.model.info.vocabulary, self._later)

    def _open(self, context: Context, line: Sequence[int]) -> Scores | None:
        session, tokens = self.session, self._read(context)
        self.note = ""
        self._ids = []
        self._before = 0
        session.commit(())
        if not self.readable([context.pending]):
            self.note = (
                f"The draft model {self.model.info.name} does not have the last token, so it drafts nothing right behind it."
            )
            return None
        # The full comparison is made once for each answer.
        if self._text is not context.tokens or session.length >= len(tokens) or len(tokens) > session.horizon:
            session.align(tokens[:-1])
            self._text = context.tokens
        missing = tokens[session.length : -1]
        if session.length + len(missing) + 1 + len(line) > session.context:
            self.note = shorter(self.model, session.context)
            return None
        if len(missing) > BEHIND:
            session.prefill(missing)
            missing = []
        self._before = len(missing)
        chain = [*missing, tokens[-1], *line]
        ids = range(self._before, len(chain))
        scores = session.evaluate(chain, range(ROOT, len(chain) - 1), rows=ids)
        self._ids = list(ids)
        return self._as_target(scores)

    def _extend(self, tokens: Sequence[int], parents: Sequence[int]) -> Scores | None:
        session = self.session
        first = self._before + len(self._ids)
        if session.length + first + len(tokens) > session.context or len(tokens) > PREFILL_CHUNK:
            return None
        # Where nodes lived on after the last commit, the numbers do not begin at 0.
        first = self._ids[-1] + 1
        ids = [*self._ids, *range(first, first + len(tokens))]
        scores = session.evaluate(tokens, [ids[parent] for parent in parents])
        self._ids = ids
        return self._as_target(scores)

    def _drop(self, first: int) -> None:
        self.session.drop(self._ids[first:])
        del self._ids[first:]

    def settle(self, path: Sequence[int]) -> None:
        if self._ids:
            self.session.commit([*range(self._before), *(self._ids[node] for node in path)])
        self._ids = []
        self._before = 0

    def close(self) -> None:
        self.session.close()


class FirstLayers(Proposer):
    """The target's first N layers with its final norm and head. Their keys and values are the target's: the verifying pass
    continues from layer N.

    Args:
        layers: N, or a list of the layers and blocks to run.
    """

    def __init__(self, layers: Layers) -> None:
        super().__init__()
        self.layers = layers
        self._before = 0
        """Tokens of the prompt that this round's first pass read: the session numbers them first."""

    def _open(self, context: Context, line: Sequence[int]) -> Scores | None:
        context.session.commit(())  # an error may have ended the last round
        missing = context.tokens[context.session.length : -1]
        before = self._before = len(missing)
        tokens = [*missing, context.pending, *line]
        rows = range(before, len(tokens))
        return context.session.evaluate(tokens, range(ROOT, len(tokens) - 1), rows, layers=self.layers)

    def _extend(self, tokens: Sequence[int], parents: Sequence[int]) -> Scores | None:
        assert self._context is not None
        before = self._before
        return self._context.session.evaluate(tokens, [before + parent for parent in parents], layers=self.layers)

    def _drop(self, first: int) -> None:
        assert self._context is not None
        self._context.session.drop([self._before + first])


def shorter(draft: Model, context: int) -> str:
    """Note that a draft model has a shorter context than the target."""
    return (
        f"The draft model {draft.info.name} reads at most {counted(context, 'token')} of text and drafts nothing behind them."
    )


def mismatch(target: Model | None, draft: Model) -> str:
    """Say why a draft model's token ids are not the target's (`difference` of their vocabularies); "" if they are."""
    if target is draft or target is None:
        return ""
    ours, theirs = target.pieces(), draft.pieces()
    i = difference(ours, theirs)
    if i is None:
        return ""
    return f"token {i} is {ours[i]!r} to {target.info.name} and {theirs[i]!r} to {draft.info.name}"


def require_same_tokens(target: Model | None, draft: Model) -> None:
    """Check that a draft model has the target's tokenizer.

    Raises:
        UserError: it has not.
    """
    if reason := mismatch(target, draft):
        raise UserError(
            f"The draft model's tokenizer differs from the target's ({reason}). Choose a draft model of the same family."
        )
