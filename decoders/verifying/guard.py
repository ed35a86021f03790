"""The guard of identity: decides how much of an accepted path has plain decoding's bits."""

from __future__ import annotations

from abc import ABC, abstractmethod

from .passes import Pass


class Guard(ABC):
    """Has the last word on an accepted path."""

    @abstractmethod
    def checked(self, running: Pass, chosen: list[int], path: list[int]) -> list[int]:
        """Check an accepted path and return it, possibly shorter; `chosen` is changed to match.

        Args:
            running: the pass, evaluated.
            chosen: the target's choice after each node.
            path: the accepted one by these choices.
        """


class SideGuard(Guard):
    """Ends a path at the first near tie off the tree's first path.

    There the order of a sum may have moved the last bits of a logit. The next pass begins with that node, on its first path,
    and decides as plain decoding does.

    Args:
        near_tie: how close the two best choices must be for that, in logits.
    """

    def __init__(self, near_tie: float) -> None:
        self._near_tie = near_tie

    def checked(self, running: Pass, chosen: list[int], path: list[int]) -> list[int]:
        start = running.exact(path)
        inexact = path[start:]
        if not inexact:
            return path
        ties = running.near_ties(inexact, [chosen[node] for node in inexact], self._near_tie)
        return path[: start + ties.index(True)] if any(ties) else path
