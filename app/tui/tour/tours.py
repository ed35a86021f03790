"""How the tour begins and ends: by key, command, or the welcome screen."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from textual.worker import Worker

from ....errors import NotPossible
from ...settings import actions
from ..actions.history import ChatHistory
from ..actions.race import Races
from ..actions.registry import runs
from ..host import Host

if TYPE_CHECKING:
    from .tour import Tour

Start = Literal["begin", "offer", ""]
"""What a chat starts with: the tour, or a line that offers it to somebody new."""


class Tours:
    """Starts the tour and ends it."""

    def __init__(self, host: Host, races: Races, chat_history: ChatHistory) -> None:
        self.host, self._races, self._chat_history = host, races, chat_history
        self._worker: Worker[None] | None = None
        self._tour: Tour | None = None

    @runs(actions.TOUR)
    def start(self) -> None:
        dialogue = self.host.dialogue
        dialogue.must_be_idle("take the tour")
        if dialogue.phase == "unloaded":
            raise NotPossible("The tour needs a model: /model builtin loads one.")
        from .tour import Tour

        self.leave()
        self._tour = Tour(self.host, self._races, self._chat_history)
        self._worker = self.host.box.run_worker(self._tour.play(), group="tour")

    def leave(self) -> bool:
        """End it; False if there is none."""
        worker, self._worker = self._worker, None
        if worker is None or worker.is_finished or self._tour is None:
            return False
        self._tour.clear_box()
        worker.cancel()
        return True
