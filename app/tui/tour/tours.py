"""Start and end of the tour, by key, command, or the welcome screen."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from textual.worker import Worker

from ....errors import NotPossible
from ...settings import actions
from ..actions.dispatch import runs
from ..actions.history import ChatHistory
from ..host import Host
from ..race.races import Races

if TYPE_CHECKING:
    from .tour import Tour

TourStart = Literal["begin", "offer", ""]
"""The start of a new chat: begin the tour, offer it to a new user in a line, or neither."""


class Tours:
    """Starts the tour and ends it; at most one runs."""

    def __init__(self, host: Host, races: Races, chat_history: ChatHistory) -> None:
        self.host = host
        self._races = races
        self._chat_history = chat_history
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
        """End the tour; False if there is none."""
        worker, self._worker = self._worker, None
        if worker is None or worker.is_finished or self._tour is None:
            return False
        self._tour.clear_box()
        worker.cancel()
        return True
