"""Every step of an answer in a few bytes: what inspection, the tree view and exports look up."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from typing import Any

from ...engine.messages import FIELDS, StepRecord

USUAL = {
    **dict.fromkeys(("drafted", "accepted", "nodes", "carried"), "I"),
    **dict.fromkeys(("draft_seconds", "forward_seconds", "other_seconds"), "f"),
}
"""Fields that nearly every step fills, with their array types."""
LISTS = {
    **dict.fromkeys(("tokens", "tree_tokens", "tree_parents", "path"), "i"),
    **dict.fromkeys(("probs", "shares", "declined"), "f"),
    "sources": "I",
}
"""Fields that hold several values a step, with their array types."""
SHOWN = ("text", "held", "spans")
"""Fields that are not kept here, as the answer's runs have them."""
NAMES = ("method", "drafters")
"""Fields whose values most steps share with the step before."""
RARE = {name: nothing for name, nothing in FIELDS.items() if name not in {*USUAL, *LISTS, *SHOWN, *NAMES}}
"""Fields that few steps fill, with the value that stands for nothing."""


class StepLog:
    """Step records in flat arrays: about 60 bytes a step, 6 a tree node and 4 a token, where the records themselves would take
    kilobytes. Seconds are kept as 32-bit floats."""

    def __init__(self) -> None:
        self._usual = {name: array(kind) for name, kind in USUAL.items()}
        self._lists = {name: array(kind) for name, kind in LISTS.items()}
        self._ends = array("I")  # where each step's part of each list ends
        self._names: list[tuple[str, Sequence[str]]] = []
        self._name = array("H")
        self._rare: dict[int, dict[str, Any]] = {}
        self._late: dict[int, list[float]] = {}  # probabilities that came after their step

    @property
    def tokens(self) -> array[int]:
        return self._lists["tokens"]

    def __len__(self) -> int:
        return len(self._name)

    def __iter__(self) -> Iterator[StepRecord]:
        return (self.record(index) for index in range(len(self)))

    def append(self, step: StepRecord) -> None:
        """Keep a step; its text is not kept (the run has it)."""
        if rare := {name: value for name, default in RARE.items() if (value := getattr(step, name)) != default}:
            self._rare[len(self)] = rare
        names = step.method, step.drafters
        if not self._names or self._names[-1] != names:
            self._names.append(names)
        self._name.append(len(self._names) - 1)
        for name, column in self._usual.items():
            column.append(getattr(step, name))
        for name, column in self._lists.items():
            column.extend(getattr(step, name))
            self._ends.append(len(column))

    def record(self, index: int) -> StepRecord:
        """Step number `index`, from 0, without its text.

        Raises:
            IndexError: there is no such step.
        """
        if not 0 <= index < len(self):
            raise IndexError(f"no step {index} of {len(self)}")
        at = index * len(LISTS)
        begins = self._ends[at - len(LISTS) : at] if index else [0] * len(LISTS)
        ends = self._ends[at : at + len(LISTS)]
        method, drafters = self._names[self._name[index]]
        values: dict[str, Any] = {name: column[index] for name, column in self._usual.items()}
        for (name, column), begin, end in zip(self._lists.items(), begins, ends, strict=True):
            values[name] = column[begin:end].tolist()
        if index in self._late:
            values["probs"] = self._late[index]
        for name in ("shares", "declined"):
            values[name] = [round(share, 4) for share in values[name]]
        return StepRecord(method=method, drafters=drafters, **values, **self._rare.get(index, {}))

    def tokens_before(self, index: int) -> int:
        """How many tokens the steps before a step have."""
        return self._ends[(index - 1) * len(LISTS)] if index else 0

    def set_probs(self, index: int, probs: list[float]) -> None:
        """Give a step the probabilities that it came without; none where they cannot be had."""
        self._late[index] = probs

    def has_probs(self, index: int) -> bool:
        """Whether a step has its probabilities, or cannot have them."""
        return index in self._late or bool(self.record(index).probs)

    def seconds(self, index: int) -> float:
        """Seconds of a step's own compute: draft, forward and the rest."""
        return sum(self._usual[name][index] for name in ("draft_seconds", "forward_seconds", "other_seconds"))
