"""Every step of an answer in a few bytes: what inspection, the tree view and exports look up."""

from __future__ import annotations

from array import array
from collections.abc import Iterator

from ...engine.messages import StepRecord


class StepLog:
    """Step records in flat arrays: about 60 bytes a step, 6 a tree node and 4 a token, where the records themselves would take
    kilobytes. Seconds are kept as 32-bit floats."""

    def __init__(self) -> None:
        self._methods: list[str] = []
        self._method = array("H")
        self._counts = array("I")  # drafted, accepted, nodes, carried of each step
        self._seconds = array("f")  # draft, forward, other of each step
        self._flops = array("f")  # all, drafting's of each step
        self._ends = array("I")  # where each step's tokens, tree, path and probs end
        self.tokens = array("i")
        """The token ids of the whole answer."""
        self._tree = array("i")
        self._parents = array("i")
        self._path = array("i")
        self._probs = array("f")
        self._late: dict[int, list[float]] = {}  # probabilities that came after their step
        self._rare: dict[int, tuple[str, int, int, int, int, int]] = {}
        """Note, prefilled, earlier, checked, ahead and wasted of the steps that have any."""
        self._drafters: list[list[str]] = []
        self._merged: dict[int, tuple[int, array[int], array[float]]] = {}  # which drafters, sources, shares

    def __len__(self) -> int:
        return len(self._method)

    def __iter__(self) -> Iterator[StepRecord]:
        return (self.record(index) for index in range(len(self)))

    def append(self, step: StepRecord) -> None:
        """Keep a step; its text is not kept (the run has it)."""
        if not self._methods or self._methods[-1] != step.method:
            self._methods.append(step.method)
        rare = (step.note, step.prefilled, step.earlier, step.checked, step.ahead, step.wasted)
        if any(rare):
            self._rare[len(self)] = rare
        if step.drafters:
            if not self._drafters or self._drafters[-1] != step.drafters:
                self._drafters.append(step.drafters)
            self._merged[len(self)] = len(self._drafters) - 1, array("I", step.sources), array("f", step.shares)
        self._method.append(len(self._methods) - 1)
        self._counts.extend((step.drafted, step.accepted, step.nodes, step.carried))
        self._seconds.extend((step.draft_seconds, step.forward_seconds, step.other_seconds))
        self._flops.extend((step.flops, step.draft_flops))
        self.tokens.extend(step.tokens)
        self._tree.extend(step.tree_tokens)
        self._parents.extend(step.tree_parents)
        self._path.extend(step.path)
        self._probs.extend(step.probs)
        self._ends.extend((len(self.tokens), len(self._tree), len(self._path), len(self._probs)))

    def record(self, index: int) -> StepRecord:
        """Step number `index`, from 0, without its text.

        Raises:
            IndexError: there is no such step.
        """
        if not 0 <= index < len(self):
            raise IndexError(f"no step {index} of {len(self)}")
        at = index * 4
        token, tree, path, prob = self._ends[at - 4 : at] if index else (0, 0, 0, 0)
        token_end, tree_end, path_end, prob_end = self._ends[at : at + 4]
        drafted, accepted, nodes, carried = self._counts[at : at + 4]
        draft, forward, other = self._seconds[index * 3 : index * 3 + 3]
        flops, draft_flops = self._flops[index * 2 : index * 2 + 2]
        note, prefilled, earlier, checked, ahead, wasted = self._rare.get(index, ("", 0, 0, 0, 0, 0))
        merged = self._merged.get(index)
        return StepRecord(
            self._methods[self._method[index]],
            self.tokens[token:token_end].tolist(),
            "",
            drafted,
            accepted,
            nodes,
            draft,
            forward,
            other,
            self._tree[tree:tree_end].tolist(),
            self._parents[tree:tree_end].tolist(),
            self._path[path:path_end].tolist(),
            carried,
            self._probs[prob:prob_end].tolist() or self._late.get(index, []),
            note,
            prefilled,
            earlier,
            checked=checked,
            ahead=ahead,
            wasted=wasted,
            flops=flops,
            draft_flops=draft_flops,
            drafters=self._drafters[merged[0]] if merged else [],
            sources=merged[1].tolist() if merged else [],
            shares=[round(share, 4) for share in merged[2]] if merged else [],
        )

    def tokens_before(self, index: int) -> int:
        """How many tokens the steps before a step have."""
        return self._ends[index * 4 - 4] if index else 0

    def weigh(self, index: int, probs: list[float]) -> None:
        """Give a step the probabilities that it came without; none where they cannot be had."""
        self._late[index] = probs

    def weighed(self, index: int) -> bool:
        """Whether a step has its probabilities, or cannot have them."""
        return index in self._late or bool(self.record(index).probs)

    def seconds(self, index: int) -> float:
        """Seconds of a step's own compute: draft, forward and the rest."""
        return float(sum(self._seconds[index * 3 : index * 3 + 3]))
