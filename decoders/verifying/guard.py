"""The guard of identity: where a large pass may round otherwise than a small one, near ties get a pass of their own."""

from __future__ import annotations

from abc import ABC, abstractmethod

from ...backends.base import Model
from .passes import Pass


class Guard(ABC):
    """Has the last word on an accepted path."""

    @abstractmethod
    def checked(self, running: Pass, chosen: list[int], path: list[int]) -> list[int]:
        """The accepted path after a look at it; `chosen` is changed to what was decided.

        Args:
            running: the pass, evaluated.
            chosen: the target's choice after each node.
            path: the accepted one by these choices.
        """


class TieGuard(Guard):
    """Decides near ties as plain decoding would.

    Where the target's two best choices are so close that a pass of one node may pick the other one, that pass decides.

    Args:
        model: the target, whose capabilities say how close that is.
    """

    def __init__(self, model: Model) -> None:
        self._model = model

    def checked(self, running: Pass, chosen: list[int], path: list[int]) -> list[int]:
        if len(running) == 1:
            return path
        model, able = self._model, self._model.info.capabilities
        # Of an exact pass only what lies beside the first path can have moved.
        start = running.exact(path) if able.exact else 0
        at = 0
        ties = dict[int, bool]()
        while (at := max(at, start)) < len(path):
            fresh = [node for node in path[at:] if node not in ties]
            if fresh:
                bound, picks = max(able.near_tie, model.moved), [chosen[node] for node in fresh]
                found = running.near_ties(fresh, picks, bound)
                ties.update(zip(fresh, found, strict=True))
            at = next((i for i in range(at, len(path)) if ties[path[i]]), len(path))
            if at == len(path):
                break
            if able.exact:
                # The next pass begins with this node, as a part of the first path.
                return path[:at]
            node = path[at]
            scores = running.alone(node, last=not able.tree)
            model.moved = max(model.moved, running.scores.moved(node, scores))
            choice = running.choose_alone(scores, node)
            if choice != chosen[node]:
                chosen[node] = choice
                path = running.walk(chosen)
            at += 1
            if not able.tree:
                return path[:at]
        return path
