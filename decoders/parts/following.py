"""How much of a text that a drafter has taken in still holds."""

from __future__ import annotations

from collections.abc import Sequence


class Following:
    """Compares each text with the one before."""

    def __init__(self) -> None:
        self._text: Sequence[int] = ()

    def same(self, tokens: Sequence[int]) -> int:
        """How many tokens at the beginning are those of the last call. Each answer has a list of its own; within one it only
        grows, so that the full comparison is made once."""
        before, self._text = self._text, tokens
        if before is tokens:
            return len(tokens)
        pairs = enumerate(zip(before, tokens, strict=False))
        return next((i for i, (old, new) in pairs if old != new), min(len(before), len(tokens)))
