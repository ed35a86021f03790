"""A session for llama.cpp models whose cache cannot branch or go back: recurrent and hybrid ones. Plain decoding only."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence

import torch

from ...errors import ContextFull, UserError
from ..base import PREFILL_CHUNK, Layers, Session
from ..scores import TorchScores
from .context import Context


class LlamaPlainSession(Session):
    """One conversation on a cache that only goes forward. Nodes form a chain; what was not committed, and what was rewound,
    stays in the state, so the next pass starts from the first token again.

    Args:
        context: its own; nobody else uses it.
        size: most tokens.
    """

    def __init__(self, context: Context, size: int) -> None:
        self._run: Context | None = context
        self._vocabulary = context.weights.vocabulary
        self._context = size
        self._tokens: list[int] = []
        self._chain: list[int] = []
        self._held: list[int] = []
        """What the state has seen."""

    @property
    def tokens(self) -> Sequence[int]:
        """The committed token ids (live)."""
        return self._tokens

    @property
    def context(self) -> int:
        """Most tokens."""
        return self._context

    def evaluate(
        self,
        tokens: Sequence[int],
        parents: Sequence[int],
        rows: Sequence[int] | None = None,
        layers: Layers | None = None,
    ) -> TorchScores:
        """Add nodes, which must continue the chain, and evaluate them (see `Session.evaluate`)."""
        begun = time.perf_counter()
        first, n = len(self._chain), len(tokens)
        if layers is not None or list(parents) != list(range(first - 1, first - 1 + n)):
            raise UserError("This model decodes plainly: it evaluates neither branching trees nor single layers.")
        if tokens and not (min(tokens) >= 0 and max(tokens) < self._vocabulary):
            raise ValueError(f"token ids must be from 0 to {self._vocabulary - 1}")
        wanted = list(range(first, first + n) if rows is None else rows)
        if any(not first <= row < first + n for row in wanted):
            raise ValueError(f"rows {wanted} are not all of this pass's nodes {first} to {first + n - 1}")
        if len(self._tokens) + first + n > self._context:
            raise ContextFull(f"{n:,} more tokens do not fit in the context of {self._context:,}: start a new chat.")
        if not n:
            return TorchScores(torch.empty((0, 0)), (), ())
        run = self._run
        if run is None:
            raise UserError("This conversation has been closed: start a new one.")
        behind = self._tokens + self._chain
        if self._held != behind[: len(self._held)]:
            run.clear()
            self._held = []
        parts = self._feed(run, behind + list(tokens), {len(behind) + row - first for row in wanted})
        self._chain.extend(tokens)
        self.nodes_evaluated += n
        self.forward_seconds += time.perf_counter() - begun
        logits = (
            torch.stack([parts[len(behind) + row - first] for row in wanted]) if wanted else torch.empty((0, self._vocabulary))
        )
        return TorchScores(logits, tuple(wanted), tuple(len(self._tokens) + row + 1 for row in wanted))

    def _feed(self, run: Context, text: list[int], wanted: set[int]) -> dict[int, torch.Tensor]:
        """Evaluate what the state has not seen of `text`; logits after each wanted index. The state is lost if it fails."""
        out: dict[int, torch.Tensor] = {}
        while len(self._held) < len(text):
            begin = len(self._held)
            end = min(len(text), begin + PREFILL_CHUNK)
            flagged = [i for i in range(begin, end) if i in wanted]
            if len(flagged) > run.rows:
                end, flagged = flagged[run.rows], flagged[: run.rows]
            code = run.decode(text[begin:end], range(begin, end), [1] * (end - begin), [i - begin for i in flagged])
            if code:
                run.clear()
                self._held = []
                raise UserError(
                    f"llama.cpp could not evaluate {end - begin} tokens (code {code}): use a smaller context or model."
                )
            self._held = text[:end]
            logits = run.logits(len(flagged)).clone() if flagged else None
            if logits is not None:
                out.update(zip(flagged, logits, strict=True))
        return out

    def commit(self, path: Sequence[int], keep: Sequence[int] = ()) -> None:
        """Make the first nodes of the chain the committed tail. No node outlives a commit here: `keep` is not for models that
        decode plainly."""
        if list(path) != list(range(len(path))) or len(path) > len(self._chain):
            raise ValueError(f"{list(path)} is not a chain of living nodes from the committed tail")
        self._tokens.extend(self._chain[: len(path)])
        self._chain.clear()

    def drop(self, nodes: Iterable[int]) -> None:
        """Free these nodes and those after them."""
        del self._chain[min(nodes, default=len(self._chain)) :]

    def rewind(self, length: int) -> None:
        """Forget every node, and all committed tokens after the first `length`."""
        if not 0 <= length <= len(self._tokens):
            raise ValueError(f"cannot rewind to {length} of {len(self._tokens)} tokens")
        self._chain.clear()
        del self._tokens[length:]

    def close(self) -> None:
        """Free the state."""
        self.rewind(0)
        self._held = []
        self._run = None
