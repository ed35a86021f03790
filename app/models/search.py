"""What the list of models finds out, in threads: the models here, the memory that is free, who can draft, what the Hub offers.

`poll` takes in what the threads brought; everything else is read by the thread that polls.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from ...errors import Cancelled, UserError
from ..text.cells import one_line
from .hub import Repository, look_up
from .library import FoundModel, Library, in_order
from .memory import FreeMemory
from .pairing import Pairing, pair
from .places import recent

if TYPE_CHECKING:
    from .servers import FoundServer


class ModelSearch:
    """The search for models while the list is open.

    Args:
        library: what earlier openings found.
        folders: the user's own folders of models.
        measure: what is free for another model; called in a thread.
        servers: those of the settings.
    """

    def __init__(
        self,
        library: Library,
        folders: Sequence[str],
        measure: Callable[[], FreeMemory],
        servers: Mapping[str, Mapping[str, str]] | None = None,
    ) -> None:
        self._library, self._folders, self._measure = library, folders, measure
        self._servers = servers or {}
        self.served: list[FoundServer] = []
        """What the servers of the settings answer."""
        self.room: FreeMemory | None = None
        """None until it is known."""
        self.found: dict[object, FoundModel] = {}
        """Key → the model found."""
        self.scanning = False
        self.repository: Repository | None = None
        """What the Hub told last."""
        self._pairings: dict[object, dict[object, Pairing]] = {}
        self._judged: set[tuple[object, object]] = set()
        self._inbox: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._gone = threading.Event()
        self._asked = 0
        self._again = False  # whether something changed behind the search that is under way

    def close(self) -> None:
        """What threads still find is nobody's business."""
        self._gone.set()

    def poll(self) -> bool:
        """Take in what threads have found; whether there was anything."""
        changed = False
        while True:
            try:
                self._inbox.get_nowait()()
            except queue.Empty:
                return changed
            changed = True

    def models(self) -> list[FoundModel]:
        """The models found so far, in the order of the list."""
        return in_order([*self.found.values()])

    def pairings(self, target: FoundModel) -> dict[object, Pairing]:
        """Who can draft for a target, as far as it has been judged."""
        return self._pairings.setdefault(target.key, {})

    def scan(self) -> None:
        """Look for models, once more if that is under way; those that are gone leave the list at the end."""
        if self.scanning:
            self._again = True
            return
        self.scanning, self._again = True, False
        self._start(self._scan)
        if self._servers:
            self._start(self._ask_servers)

    def _scan(self) -> None:
        put, room = self._inbox.put, self._measure()
        put(lambda: setattr(self, "room", room))
        seen: set[object] = set()

        def take(found: FoundModel) -> Callable[[], None]:
            return lambda: self.found.update({found.key: found})

        for found in self._library.look(recent(), self._folders, stopped=self._gone.is_set):
            seen.add(found.key)
            put(take(found))

        def end() -> None:
            self.scanning = False
            self.found = {key: found for key, found in self.found.items() if key in seen}
            if self._again:
                self.scan()

        put(end)

    def _ask_servers(self) -> None:
        from .servers import ask

        served = ask(self._servers, self._servers)
        self._inbox.put(lambda: setattr(self, "served", served))

    def judge(self, target: FoundModel) -> None:
        """Look at the vocabularies of those that have not been judged beside this target."""
        known = self.pairings(target)
        waiting = [each for each in self.models() if (target.key, each.key) not in self._judged]
        self._judged.update((target.key, each.key) for each in waiting)

        def take(key: object, pairing: Pairing) -> Callable[[], None]:
            return lambda: known.update({key: pairing})

        def work() -> None:
            for each in waiting:
                if self._gone.is_set():
                    return
                self._inbox.put(take(each.key, pair(self._library, target, each)))

        if waiting:
            self._start(work)

    def ask_hub(self, name: str, told: Callable[[str], None]) -> None:
        """Ask the Hub what it offers under a name; `repository` is None until it has answered.

        Args:
            name: `owner/name`.
            told: called by `poll` with what went wrong, empty if nothing did, unless something else was asked since.
        """
        self._asked += 1
        asked, self.repository = self._asked, None

        def answered(repository: Repository | None, sentence: str = "") -> None:
            if asked == self._asked:
                self.repository = repository
                told(one_line(sentence))

        def work() -> None:
            try:
                repository = look_up(name, cancelled=lambda: asked != self._asked or self._gone.is_set())
            except Cancelled:
                return
            except UserError as error:
                sentence = str(error)
                self._inbox.put(lambda: answered(None, sentence))
            except Exception as error:  # the library's own trouble
                sentence = f"Cannot read the Hub's answer about {name} ({type(error).__name__})."
                self._inbox.put(lambda: answered(None, sentence))
            else:
                self._inbox.put(lambda: answered(repository))

        self._start(work)

    def leave_hub(self) -> None:
        """An answer that still comes is not wanted."""
        self._asked += 1
        self.repository = None

    def _start(self, work: Callable[[], None]) -> None:
        threading.Thread(target=work, name="models", daemon=True).start()
