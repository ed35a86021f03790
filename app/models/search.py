"""The search behind the list of models, in threads: the models on this machine, free memory, possible draft models, the Hub.

`poll` applies the results of the threads; all other fields belong to the thread that polls.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from ...errors import Cancelled, UserError
from ..text.cells import one_line
from .hub import Repository, look_up
from .library import FoundModel, Library, in_order
from .memory import FreeMemory
from .pairing import Pairing, pair
from .places import recent
from .servers import FoundServer, ask


class ModelSearch:
    """The search for models while the list is open.

    Args:
        library: with the results of earlier searches.
        folders: the user's own folders of models.
        measure: returns the free memory for another model; called in a thread.
        servers: those in the settings.
    """

    def __init__(
        self,
        library: Library,
        folders: Sequence[str],
        measure: Callable[[], FreeMemory],
        servers: Mapping[str, Mapping[str, str]] | None = None,
    ) -> None:
        self._library = library
        self._folders = folders
        self._measure = measure
        self._servers = servers or {}
        self.served: list[FoundServer] = []
        """Answers of the servers in the settings."""
        self.room: FreeMemory | None = None
        """Free memory; None until it is known."""
        self.by_key: dict[object, FoundModel] = {}
        """The models on this machine."""
        self.scanning = False
        self.repository: Repository | None = None
        """The Hub's last answer."""
        self._pairings: dict[object, dict[object, Pairing]] = {}
        self._judged: set[tuple[object, object]] = set()
        self._inbox: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._gone = threading.Event()
        self._queries = 0
        self._again = False  # whether to search once more after the present search

    def close(self) -> None:
        """Discard the results of threads that still run."""
        self._gone.set()

    def poll(self) -> bool:
        """Apply the results of threads; return whether there were any."""
        count = self._inbox.qsize()
        for _ in range(count):
            self._inbox.get_nowait()()
        return count > 0

    def models(self) -> list[FoundModel]:
        """List the models found so far."""
        return in_order([*self.by_key.values()])

    def pairings(self, target: FoundModel) -> dict[object, Pairing]:
        """Return the pairings of a target with the models judged so far."""
        return self._pairings.setdefault(target.key, {})

    def scan(self) -> None:
        """Search for models, once more if a search is under way; deleted models leave the list at its end."""
        self._again = self.scanning
        if self.scanning:
            return
        self.scanning = True
        self._start(self._scan)
        if self._servers:
            self._start(self._ask_servers)

    def _scan(self) -> None:
        self._inbox.put(partial(setattr, self, "room", self._measure()))
        keys: set[object] = set()
        for model in self._library.look(recent(), self._folders, stopped=self._gone.is_set):
            keys.add(model.key)
            self._inbox.put(partial(self.by_key.__setitem__, model.key, model))

        def end() -> None:
            self.scanning = False
            for key in self.by_key.keys() - keys:
                del self.by_key[key]
            if self._again:
                self.scan()

        self._inbox.put(end)

    def _ask_servers(self) -> None:
        self._inbox.put(partial(setattr, self, "served", ask(self._servers, self._servers)))

    def judge(self, target: FoundModel) -> None:
        """Judge the models that are not paired with this target yet, by their vocabularies."""
        pairings = self.pairings(target)
        waiting = [model for model in self.models() if (target.key, model.key) not in self._judged]
        self._judged.update((target.key, model.key) for model in waiting)

        def work() -> None:
            for model in waiting:
                if self._gone.is_set():
                    return
                self._inbox.put(partial(pairings.__setitem__, model.key, pair(self._library, target, model)))

        if waiting:
            self._start(work)

    def ask_hub(self, name: str, report: Callable[[str], None]) -> None:
        """Ask the Hub for its offers under a name; `repository` is None until it has answered.

        Args:
            name: `owner/name`.
            report: called by `poll` with the error message, empty without an error, unless there was another query since.
        """
        self.leave_hub()
        query = self._queries

        def answered(repository: Repository | None, sentence: str = "") -> None:
            if query == self._queries:
                self.repository = repository
                report(one_line(sentence))

        def work() -> None:
            try:
                repository = look_up(name, cancelled=lambda: query != self._queries or self._gone.is_set())
            except Cancelled:
                return
            except UserError as error:
                self._inbox.put(partial(answered, None, str(error)))
            except Exception as error:  # the library's own trouble
                self._inbox.put(partial(answered, None, f"Cannot read the Hub's answer ({type(error).__name__})."))
            else:
                self._inbox.put(partial(answered, repository))

        self._start(work)

    def leave_hub(self) -> None:
        """Discard the Hub's answer, also one that is still to come."""
        self._queries += 1
        self.repository = None

    def _start(self, work: Callable[[], None]) -> None:
        threading.Thread(target=work, name="models", daemon=True).start()
