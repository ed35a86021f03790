"""Drafting ahead: a draft model in a thread of its own, which drafts on while the target verifies.

The post-verification of Liu et al., "PEARL: Parallel Speculative Decoding with Adaptive Draft Length" (2024), arXiv:2408.11850.
The draft model takes its draft to be accepted whole and its own next choice to be the target's, and goes on from there. Where
the verdict says the same, the next draft has begun already; otherwise what was drafted on is thrown away. The tokens do not
change, only who waits for whom. It needs a device or CPU cores that the target leaves alone.
"""

from __future__ import annotations

import threading
import time
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
"""No drafting on where the verdict is less likely to want it. A pass that it wants saves its seconds; of all those that it does
not want only the last one costs any, as the next draft waits for its end. (0.33 gained 11% where this gains 17%; 0.03 gained
19%, but threw away two and a half times as much.)"""

MEMORY = 32
"""Draft tokens after which an older one counts for a third in how often the target agrees."""


class Worker:
    """One thread. Numerical libraries keep a number of CPU threads per calling thread: what is set in here holds for nobody
    else. The thread ends when nobody refers to this any more."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(1, "draft")
        self._thread = self._pool.submit(threading.get_ident).result()

    def submit(self, job: Callable[[], T]) -> Future[T]:
        """Run a job once those before it are done."""
        return self._pool.submit(job)

    def run(self, job: Callable[[], T]) -> T:
        """Run a job and wait for it; its errors are raised here."""
        return job() if threading.get_ident() == self._thread else self.submit(job).result()


class OwnThread(Model):
    """A model that is loaded, and evaluates, in a thread of its own.

    Args:
        load: loads it; an error is raised here.
    """

    def __init__(self, load: Callable[[], Model]) -> None:
        self.worker = Worker()
        self._model = self.worker.run(load)
        self.info = self._model.info

    def open_session(self, context: int | None = None, taps: Sequence[int] = ()) -> Session:
        return _Session(self._model.open_session(context, taps), self.worker)

    def encode(self, text: str) -> list[int]:
        return self._model.encode(text)

    def encode_chat(
        self,
        messages: Sequence[Message],
        cancelled: Callable[[], bool] | None = None,
        variables: Mapping[str, Any] | None = None,
    ) -> list[int]:
        return self._model.encode_chat(messages, cancelled, variables)

    def decode(self, tokens: Sequence[int]) -> str:
        return self._model.decode(tokens)

    def pieces(self) -> list[str]:
        return self._model.pieces()

    def close(self) -> None:
        """Free the weights, once the pass under way is over."""
        self.worker.run(self._model.close)


class _Session(Session):
    """A session whose passes run in a worker. Everything else it does at once: whoever calls knows that no pass is under
    way."""

    def __init__(self, session: Session, worker: Worker) -> None:
        self._session = session
        self._worker = worker
        self.tokens, self.context, self.branches = session.tokens, session.context, session.branches

    def evaluate(
        self, tokens: Sequence[int], parents: Sequence[int], rows: Sequence[int] | None = None, layers: Layers | None = None
    ) -> Scores:
        scores = self._worker.run(partial(self._session.evaluate, tokens, parents, rows, layers))
        inner = self._session
        self.nodes_evaluated, self.forward_seconds = inner.nodes_evaluated, inner.forward_seconds
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
class Made:
    """A node that was evaluated ahead."""

    id: int
    """The node's id in the session."""
    token: int
    scores: Scores
    guesses: Guesses
    """After it."""
    seconds: float
    drawn: tuple[int, int]
    """What the guesses were drawn for: a step, by the length of its text, and the node's number in that."""


class Ahead(DraftModelProposer):
    """A draft model that drafts on while its draft, a chain, is verified.

    What it evaluates then are nodes of the same cache, below the draft's end. A verdict that takes the whole draft, and goes on
    as these do, leaves them alive for the next rounds; any other frees them.

    Args:
        model: the draft model.
        context: most tokens of the conversation.
    """

    def __init__(self, model: OwnThread, context: int) -> None:
        super().__init__(model, context)
        self._worker = model.worker
        self._guesses: list[Guesses] = []
        """After each node of this round [evaluated]."""
        self._made: list[Made] = []
        """A chain below the round's last node; between two rounds below the last commit."""
        self._job: Future[None] | None = None
        self._halt = False
        self._failed: BaseException | None = None
        self._agreed = COUPLED[0]
        """How often the target agrees with a guess where tokens are drawn: a running mean."""
        self._new = self._wasted = 0

    def draft(self, context: Context, grow: Callable[[], Tree], on: int) -> Tree:
        """Draft a chain, and go on behind it until `judge` is called.

        Args:
            context: what to draft after.
            grow: lets the chain grow from here.
            on: most tokens to draft on.

        Raises:
            UserError: what drafting on failed with before.
        """
        self._stop()
        failed, self._failed = self._failed, None
        if failed is not None:
            raise failed
        # One change of threads a draft rather than one a pass, and none for a draft that is there already.
        tree = grow() if self.known(context) else self._worker.run(grow)
        left = context.max_depth - len(tree)
        if self._ids and on > 0 and left > 0:
            self._halt = False
            self._job = self._worker.submit(partial(self._draft_on, min(on, left + 1), len(context.tokens), len(tree)))
        return tree

    def judge(self, verified: Verified) -> None:
        """The draft was verified: `settle`, where what was drafted on stays or goes."""
        self._stop()
        tree, path = verified.tree, verified.path
        drafted = len(tree.as_drafted(())[0])
        whole = len(path) == drafted
        if whole and self._made and self.evaluated < drafted:
            self._take()  # the draft's last token, which the draft itself had no need to evaluate
        if not (whole and self._made and self._made[0].token == verified.chosen[path[-1]]):
            self._free()
        tree.ahead, tree.wasted = self._new, self._wasted
        self._new = self._wasted = 0
        for node in range(1, min(len(path) + 1, drafted)):
            self._agreed += ((node < len(path)) - self._agreed) / MEMORY
        if self._ids:
            ids = [self._ids[node] for node in path if node < self.evaluated]
            self.session.commit([*range(self._ahead), *ids], [made.id for made in self._made])
        self._ids, self._ahead = [], 0

    def known(self, context: Context) -> bool:
        if self._ids and context is self._context:
            return bool(self._made)
        return self._follows(context)

    def begin(self, context: Context, count: int, line: Sequence[int] = ()) -> list[Guesses]:
        known = self._follows(context)
        self._guesses = []
        if not known:
            self._free()
            return super().begin(context, count, line)
        self._start(context)
        return [self._taken(context)]

    def grow(self, tokens: Sequence[int], parents: Sequence[int], count: int) -> list[Guesses]:
        if not self._made:
            return super().grow(tokens, parents, count)
        assert self._context is not None
        return [self._taken(self._context)]

    def forget(self, first: int) -> None:
        del self._guesses[first:]
        super().forget(first)

    def close(self) -> None:
        self._stop()
        super().close()

    def _follows(self, context: Context) -> bool:
        """Whether what was drafted on begins with the pending token, behind the text before it."""
        tokens, made = context.tokens, self._made
        here = self._text is tokens and self.session.length == len(self._read(context)) - 1
        return here and not self._ids and bool(made) and made[0].token == tokens[-1]

    def _take(self) -> Guesses:
        """Make the first node that was evaluated ahead one of this round."""
        made = self._made.pop(0)
        self._ids.append(made.id)
        self._parents.append(len(self._parents) - 1)
        self._path.append([*(self._path[-1] if self._path else ()), made.token])
        self._scores.append((made.scores, 0))
        self._guesses.append(made.guesses)
        self.seconds.append(made.seconds)
        return made.guesses

    def _taken(self, context: Context) -> Guesses:
        """Take a node, with the guesses that it would have had if nobody had drafted on: what is drawn is not to depend on who
        was quicker. Where the step that it was drawn for is another one than was expected, they are drawn anew."""
        made, number = self._made[0], self.evaluated
        guesses = self._take()
        sampling, independent = self._noise(context)
        if independent and made.drawn != (len(context.tokens), number):
            histories = [self._history(number)] if sampling.uses_history else None
            (guesses,) = made.scores.candidates(1, sampling, histories, attempts=[number])
            self._guesses[number] = guesses
            if self._made and self._made[0].token != guesses[0][0]:
                self._free()
        return guesses

    def _free(self) -> None:
        """Throw away what was drafted on."""
        self._wasted += len(self._made)
        self.session.drop([made.id for made in self._made])
        self._made.clear()

    def _timed(
        self, evaluate: Callable[[], Scores | None], paths: list[list[int]], parents: Sequence[int], count: int
    ) -> list[Guesses]:
        guesses = super()._timed(evaluate, paths, parents, count)
        self._guesses += guesses[: self.evaluated - len(self._guesses)]
        return guesses

    def _stop(self) -> None:
        """Wait for the pass under way, if there is one."""
        if self._job is not None:
            self._halt = True
            self._failed, self._job = self._job.exception(), None

    def _draft_on(self, most: int, length: int, nodes: int) -> None:
        """What the worker does meanwhile: one token after the other behind those that are there.

        Args:
            most: tokens.
            length: of the text.
            nodes: of the draft, the pending token included: the step that takes them all gives as many tokens.
        """
        context, session = self._context, self.session
        assert context is not None
        sampling = context.sampling
        line = [*self._guesses, *(made.guesses for made in self._made)]
        path = [*self._path[-1], *(made.token for made in self._made)]
        reached = 1.0
        for guesses in line:
            reached *= guesses[0][1] if sampling.greedy else self._agreed
        while not self._halt and len(self._made) < most and reached >= LEAST:
            ((token, _),) = line[-1]
            alive = self._ahead + len(self._ids) + len(self._made)
            if token in context.eos_ids or session.length + alive >= session.context:
                break
            begun = time.perf_counter()
            path.append(token)
            scores = self._seen(session.evaluate([token], [self._made[-1].id if self._made else self._ids[-1]]))
            histories = [[*context.tokens[:-1], *path]] if sampling.uses_history else None
            number = len(self._ids) + len(self._made)
            drawn = (length, number) if number < nodes else (length + nodes, number - nodes)
            noise, independent = self._noise(context, drawn[0])
            (guesses,) = scores.candidates(1, noise, histories, attempts=drawn[1:] if independent else None)
            # The next pass may overwrite the scores, which are read again only where tokens are drawn from them.
            kept = scores.kept() if independent else scores
            self._made.append(Made(scores.nodes[0], token, kept, guesses, time.perf_counter() - begun, drawn))
            self._new += 1
            line.append(guesses)
            reached *= guesses[0][1] if sampling.greedy else self._agreed
