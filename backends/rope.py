"""How rotary positions depend on the length of a text: LongRoPE, dynamic NTK."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RopeRule:
    """Which rotary frequencies a token is read with: others if it is a part of a text of more than `limit` tokens.

    A prompt is read as a whole, so all its tokens get the frequencies for its length; each later token gets those for the text
    that ends with it. That is what transformers' `generate` does, whose passes take their frequencies from the highest position
    in them.
    """

    limit: int
    """Most tokens of a text that is read with the first frequencies."""
    each: bool
    """Whether every length above has frequencies of its own (dynamic NTK); else all share theirs (LongRoPE)."""
    rereads: bool
    """Whether the model reads the whole text again when it grows past `limit`, as Phi-3 does; else what has been read stays."""

    def length(self, length: int) -> int:
        """The one length that stands for all texts whose tokens are read as those of a text of `length` tokens."""
        if length <= self.limit:
            return self.limit
        return length if self.each else self.limit + 1
