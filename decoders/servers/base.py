"""A server's own speculation, and how it would have decoded a recorded answer."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import ClassVar

from ...backends.base import Model
from ..base import Configured
from ..stats import Totals
from ..step import StepRecord


class ServerMethod(Configured, ABC):
    """A way in which a server drafts, with settings named as its flags name them.

    An instance stands for one server: what the server keeps from one request to the next, it keeps too.
    """

    engine: ClassVar[str]
    """The server's name, as people write it."""
    summary: ClassVar[str]
    """What it does, in one sentence."""
    needs_draft_model: ClassVar[bool] = False
    """It drafts with a second, smaller model, which a replay has to run too."""

    def read(self, record: Sequence[int], prompt: int, draft: Model | None) -> None:
        """Begin a request.

        Args:
            record: token ids of prompt and answer. Only the draft model may look at the answer beforehand: it is asked what it
                would choose after every token.
            prompt: tokens of the prompt.
            draft: the draft model.
        """

    @abstractmethod
    def guess(self, record: Sequence[int], known: int) -> tuple[int, int]:
        """What it drafts in one pass.

        Args:
            record: as in `read`.
            known: tokens of it that are known, the last of them chosen and not evaluated yet.

        Returns:
            (tokens drafted, those of them in front that the record goes on with).
        """

    def verified(self, drafted: int, accepted: int) -> None:
        """Learn what became of a draft."""

    @abstractmethod
    def flags(self, draft_model: str) -> str:
        """The server's options for its settings, as one writes them in a shell."""

    @classmethod
    @abstractmethod
    def grid(cls) -> Sequence[Mapping[str, str]]:
        """The settings that `tune` compares."""


class TextMethod(ServerMethod):
    """One that drafts from the text alone."""

    @abstractmethod
    def draft(self, tokens: Sequence[int], known: int) -> Sequence[int]:
        """The tokens that it drafts behind the first `known` ones; it must not look at the others."""

    def guess(self, record: Sequence[int], known: int) -> tuple[int, int]:
        line = self.draft(record, known)
        right = 0
        while right < len(line) and known + right < len(record) and line[right] == record[known + right]:
            right += 1
        return len(line), right


def predict(method: ServerMethod, prompt: Sequence[int], response: Sequence[int], draft: Model | None = None) -> Totals:
    """How a server would have decoded a recorded answer. The counting is that of `replay`: the prompt's pass gives the first
    token, and the last pass is cut where the answer ends.

    Args:
        method: the server's.
        prompt: token ids, at least one.
        response: token ids, with the end token at the end unless it was cut off.
        draft: the draft model, where it takes one.

    Returns:
        the totals; their seconds are 0.
    """
    totals = Totals()
    if not response:
        return totals
    record = [*prompt, *response]
    method.read(record, len(prompt), draft)
    totals.add(StepRecord(method.name, record[len(prompt) : len(prompt) + 1], nodes=len(prompt)))
    known = len(prompt) + 1
    while known < len(record):
        drafted, right = method.guess(record, known)
        method.verified(drafted, right)
        given = min(right + 1, len(record) - known)
        accepted = min(right, given)
        totals.add(StepRecord(method.name, record[known : known + given], "", drafted, accepted, drafted + 1))
        known += given
    return totals
