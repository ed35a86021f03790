"""Drafting ahead: a draft model in a thread of its own, which drafts on while the target verifies.

The post-verification of Liu et al., "PEARL: Parallel Speculative Decoding with Adaptive Draft Length" (2024), arXiv:2408.11850.
The draft model takes its draft to be accepted whole and its own next choice to be the target's, and goes on from there. Where
the verdict says the same, the next draft has begun already; otherwise what was drafted on is thrown away. The tokens do not
change, only who waits for whom. It needs a device or CPU cores that the target leaves alone.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import TypeVar

from ...backends.base import Layers, Message, Model, Scores, Session

T = TypeVar("T")


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
        """A new, empty KV cache (see `Model.open_session`)."""
        return _Session(self._model.open_session(context, taps), self.worker)

    def encode(self, text: str) -> list[int]:
        """Token ids of plain text (see `Model.encode`)."""
        return self._model.encode(text)

    def encode_chat(self, messages: Sequence[Message], cancelled: Callable[[], bool] | None = None) -> list[int]:
        """Token ids of a chat (see `Model.encode_chat`)."""
        return self._model.encode_chat(messages, cancelled)

    def decode(self, tokens: Sequence[int]) -> str:
        """Text of token ids (see `Model.decode`)."""
        return self._model.decode(tokens)

    def pieces(self) -> list[str]:
        """For each id its text (see `Model.pieces`)."""
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

    @property
    def tokens(self) -> Sequence[int]:
        return self._session.tokens

    @property
    def context(self) -> int:
        return self._session.context

    def evaluate(
        self,
        tokens: Sequence[int],
        parents: Sequence[int],
        rows: Sequence[int] | None = None,
        layers: Layers | None = None,
    ) -> Scores:
        scores = self._worker.run(partial(self._session.evaluate, tokens, parents, rows, layers))
        self.nodes_evaluated, self.forward_seconds = self._session.nodes_evaluated, self._session.forward_seconds
        return scores

    def exact(self, path: Sequence[int]) -> int:
        return self._session.exact(path)

    def commit(self, path: Sequence[int], keep: Sequence[int] = ()) -> None:
        self._session.commit(path, keep)
        self.sound = self._session.sound

    def drop(self, nodes: Iterable[int]) -> None:
        self._session.drop(nodes)

    def rewind(self, length: int) -> None:
        self._session.rewind(length)
        self.sound = self._session.sound

    def close(self) -> None:
        self._session.close()
