"""Drafting ahead: a draft model in another thread, which drafts on while the target verifies.

The post-verification of Liu et al., "PEARL: Parallel Speculative Decoding with Adaptive Draft Length" (2024), arXiv:2408.11850.
The draft model assumes that its whole draft is accepted and that the target chooses the same token next, and drafts on from
there. If so, the next draft has begun already; otherwise the tokens drafted ahead are thrown away. The text does not change,
only the waiting. It needs a device or CPU cores that the target leaves idle.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from ...backends.base import Layers, Message, Model, Scores, Session
from ..base import Context, Verified
from ..tree import Tree
from .drafting import COUPLED
from .proposers import DraftModelProposer, Guesses

T = TypeVar("T")

LEAST = 0.1
"""Least probability that a token drafted ahead is used. A used pass saves its seconds; of the unused ones only the last costs
any, as the next draft waits for its end. (0.33 gained 11% where this gains 17%; 0.03 gained 19%, but threw away two and a half
times as much.)"""


class Worker(ThreadPoolExecutor):
    """A thread. Numerical libraries keep a number of CPU threads per calling thread: one that is set here holds here alone. The
    thread ends when the last reference to this is gone."""

    def __init__(self) -> None:
        super().__init__(1, "draft")
        self._thread = self.submit(threading.get_ident).result()

    def run(self, job: Callable[[], T]) -> T:
        """Run a job and wait for it; its errors are raised here."""
        return job() if threading.get_ident() == self._thread else self.submit(job).result()


class OwnThread(Model):
    """A model that is loaded by `load`, and evaluates, in another thread."""

    def __init__(self, load: Callable[[], Model]) -> None:
        self.worker = Worker()
        self._model = self.worker.run(load)
        self.info = self._model.info

    def open_session(self, context: int | None = None, taps: Sequence[int] = ()) -> Session:
        return _Session(self._model.open_session(context, taps), self.worker)

    def encode(self, text: str) -> list[int]:
        return self._model.encode(text)

    def encode_chat(self, messages: Sequence[Message], variables: Mapping[str, Any] | None = None) -> list[int]:
        return self._model.encode_chat(messages, variables)

    def decode(self, tokens: Sequence[int]) -> str:
        return self._model.decode(tokens)

    def pieces(self) -> list[str]:
        return self._model.pieces()

    def close(self) -> None:
        """Free the weights, once the pass under way is over."""
        self.worker.run(self._model.close)


class _Session(Session):
    """A session whose passes run in a worker. All other calls are direct: they must not come during a pass."""

    def __init__(self, session: Session, worker: Worker) -> None:
        self._session = session
        self._worker = worker
        self.tokens = session.tokens
        self.context = session.context
        self.branches = session.branches

    def evaluate(
        self, tokens: Sequence[int], parents: Sequence[int], rows: Sequence[int] | None = None, layers: Layers | None = None
    ) -> Scores:
        scores = self._worker.run(partial(self._session.evaluate, tokens, parents, rows, layers))
        self.nodes_evaluated = self._session.nodes_evaluated
        self.forward_seconds = self._session.forward_seconds
        return scores

    def exact(self, path: Sequence[int]) -> int:
        return self._session.exact(path)

    def commit(self, path: Sequence[int], keep: Sequence[int] = ()) -> None:
        self._session.commit(path, keep)
        self.exact_length = self._session.exact_length

    def drop(self, nodes: Iterable[int]) -> None:
        self._session.drop(nodes)

    def rewind(self, length: int) -> None:
        self._session.rewind(length)
        self.exact_length = self._session.exact_length

    def close(self) -> None:
        self._session.close()


@dataclass(frozen=True, slots=True)
class AheadNode:
    """A node that was evaluated ahead."""

    id: int
    """The node's id in the session."""
    token: int
    scores: Scores
    guesses: Guesses
    """The guesses after it."""
    drawn: tuple[int, int]
    """The step that the guesses were drawn for, by the length of its text, and the node's number in it."""


class Ahead(DraftModelProposer):
    """A draft model that drafts on while its draft, a chain, is verified.

    It then evaluates nodes of the same cache, below the draft's end. If the whole draft is accepted and the target chooses the
    first of them next, they stay alive for the next rounds; otherwise they are freed.
    """

    def __init__(self, model: OwnThread, context: int) -> None:
        super().__init__(model, context)
        self._worker = model.worker
        self._guesses: list[Guesses] = []
        """After each node of this round [evaluated]."""
        self._nodes_ahead: list[AheadNode] = []
        """A chain below the round's last node; between two rounds below the last commit."""
        self._job: Future[None] | None = None
        self._halt = False
        self._error: BaseException | None = None
        self._drafted_ahead = self._wasted = 0

    def draft(self, context: Context, grow: Callable[[], Tree], most: int) -> Tree:
        """Draft a chain with `grow`, then up to `most` tokens ahead of it until `judge` is called.

        Raises:
            UserError: drafting ahead failed before.
        """
        self._stop()
        if (error := self._error) is not None:
            self._error = None
            raise error
        # One change of threads a draft rather than one a pass, and none for a draft that exists already.
        tree = grow() if self.known(context) else self._worker.run(grow)
        left = context.max_depth - len(tree)
        if self._ids and most > 0 and left > 0:
            self._halt = False
            self._job = self._worker.submit(partial(self._draft_ahead, min(most, left + 1), len(context.tokens), len(tree)))
        return tree

    def judge(self, verified: Verified) -> None:
        """Settle the verified draft; keep or discard the nodes ahead."""
        self._stop()
        tree, path = verified.tree, verified.path
        drafted = len(tree.as_drafted(())[0])
        whole = len(path) == drafted
        if whole and self._nodes_ahead and self.evaluated < drafted:
            self._adopt()  # the draft's last token, which the draft itself had no need to evaluate
        if not (whole and self._nodes_ahead and self._nodes_ahead[0].token == verified.chosen[path[-1]]):
            self._discard()
        tree.ahead = self._drafted_ahead
        tree.wasted = self._wasted
        self._drafted_ahead = self._wasted = 0
        if self._ids:
            ids = [self._ids[node] for node in path if node < self.evaluated]
            self.session.commit([*range(self._before), *ids], [node.id for node in self._nodes_ahead])
        self._ids = []
        self._before = 0

    def known(self, context: Context) -> bool:
        if self._ids and context is self._context:
            return bool(self._nodes_ahead)
        return self._follows(context)

    def begin(self, context: Context, count: int, line: Sequence[int] = ()) -> list[Guesses]:
        follows = self._follows(context)
        self._guesses = []
        if not follows:
            self._discard()
            return super().begin(context, count, line)
        self._start(context)
        return [self._adopt_guesses(context)]

    def grow(self, tokens: Sequence[int], parents: Sequence[int], count: int) -> list[Guesses]:
        if not self._nodes_ahead:
            return super().grow(tokens, parents, count)
        assert self._context is not None
        return [self._adopt_guesses(self._context)]

    def forget(self, first: int) -> None:
        del self._guesses[first:]
        super().forget(first)

    def close(self) -> None:
        self._stop()
        super().close()

    def _follows(self, context: Context) -> bool:
        """Return whether the nodes ahead begin with the pending token, behind the text before it."""
        tokens, nodes = context.tokens, self._nodes_ahead
        up_to_date = self._text is tokens and self.session.length == len(self._read(context)) - 1
        return up_to_date and not self._ids and bool(nodes) and nodes[0].token == tokens[-1]

    def _adopt(self) -> Guesses:
        """Make the first node ahead one of this round."""
        node = self._nodes_ahead.pop(0)
        self._ids.append(node.id)
        self._parents.append(len(self._parents) - 1)
        self._path.append([*(self._path[-1] if self._path else ()), node.token])
        self._scores.append((node.scores, 0))
        self._guesses.append(node.guesses)
        return node.guesses

    def _adopt_guesses(self, context: Context) -> Guesses:
        """Adopt a node with the guesses that it would have without drafting ahead: a draw must not depend on timing. If it was
        drawn for another step, its guesses are drawn again."""
        node, number = self._nodes_ahead[0], self.evaluated
        guesses = self._adopt()
        sampling, independent = self._noise(context)
        if independent and node.drawn != (len(context.tokens), number):
            histories = [self._history(number)] if sampling.uses_history else None
            (guesses,) = node.scores.candidates(1, sampling, histories, attempts=[number])
            self._guesses[number] = guesses
            if self._nodes_ahead and self._nodes_ahead[0].token != guesses[0][0]:
                self._discard()
        return guesses

    def _discard(self) -> None:
        self._wasted += len(self._nodes_ahead)
        self.session.drop([node.id for node in self._nodes_ahead])
        self._nodes_ahead.clear()

    def _guess(
        self, evaluate: Callable[[], Scores | None], paths: list[list[int]], parents: Sequence[int], count: int
    ) -> list[Guesses]:
        guesses = super()._guess(evaluate, paths, parents, count)
        self._guesses += guesses[: self.evaluated - len(self._guesses)]
        return guesses

    def _stop(self) -> None:
        if self._job is not None:
            self._halt = True
            self._error = self._job.exception()
            self._job = None

    def _draft_ahead(self, most: int, length: int, nodes: int) -> None:
        """Evaluate one token after the other behind the chain, in the worker.

        Args:
            most: tokens.
            length: of the text.
            nodes: of the draft, the pending token included: a step that accepts all of them gives as many tokens.
        """
        context, session = self._context, self.session
        assert context is not None
        sampling = context.sampling
        line = [*self._guesses, *(node.guesses for node in self._nodes_ahead)]
        path = [*self._path[-1], *(node.token for node in self._nodes_ahead)]
        reached = 1.0
        for guesses in line:
            reached *= guesses[0][1] if sampling.greedy else COUPLED[0]
        while not self._halt and len(self._nodes_ahead) < most and reached >= LEAST:
            ((token, _),) = line[-1]
            alive = self._before + len(self._ids) + len(self._nodes_ahead)
            if token in context.eos_ids or session.length + alive >= session.context:
                break
            path.append(token)
            parent = self._nodes_ahead[-1].id if self._nodes_ahead else self._ids[-1]
            scores = self._as_target(session.evaluate([token], [parent]))
            histories = [[*context.tokens[:-1], *path]] if sampling.uses_history else None
            number = len(self._ids) + len(self._nodes_ahead)
            drawn = (length, number) if number < nodes else (length + nodes, number - nodes)
            noise, independent = self._noise(context, drawn[0])
            (guesses,) = scores.candidates(1, noise, histories, attempts=drawn[1:] if independent else None)
            # The next pass may overwrite the scores, which are read again only where tokens are drawn from them.
            lasting = scores.kept() if independent else scores
            self._nodes_ahead.append(AheadNode(scores.nodes[0], token, lasting, guesses, drawn))
            self._drafted_ahead += 1
            line.append(guesses)
            reached *= guesses[0][1] if sampling.greedy else COUPLED[0]
