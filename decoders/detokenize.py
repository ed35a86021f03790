"""Incremental detokenization: the text given out so far is always a prefix of decode(all tokens).

Decoding each token alone is wrong (a character may span tokens; SentencePiece drops the first space of a text), decoding
everything again at each token is O(n²). So a short window is decoded: a few tokens whose text is known, the *anchor*, followed
by those not given out yet; the text beyond the anchor's is new.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

Decode = Callable[[Sequence[int]], str]
"""Token ids to text: invalid UTF-8 as U+FFFD, no clean-up that changes earlier text."""

INVALID = "\ufffd"
HELD_INVALID = 3
"""Most U+FFFD at the end of a text that may yet become a character: of its 4 bytes at most 3 are there, and some decoders show
one U+FFFD for each."""
WINDOW = 32
"""Most tokens in the window; only endless invalid bytes reach it."""
TAIL = 16
"""Tokens kept when such a window is cut. UTF-8 resynchronises within 3 bytes, so any 16 tokens end in the same text."""
RUN = 64
"""Most tokens of a run of byte tokens that are held back, and decoded again at each token. A longer run is taken to stay
valid, the one case in which the text given out can differ from decode(all tokens)."""
BYTE_IDS = 512
"""Byte tokens stand among the first ids in every SentencePiece vocabulary we know (at 3 in Llama 2, at 217 in Gemma)."""

Kind = Literal["byte", "text", "nothing"]
KINDS: dict[str, Kind] = {INVALID * 3: "byte", INVALID * 2: "nothing"}
"""Text of a token between two invalid bytes → its kind."""


class Detokenizer:
    """Incremental decoding for any tokenizer that can decode a list of ids.

    Args:
        decode: token ids to text. Called a few times per token, with some tokens only; at the start also on single ids
            up to BYTE_IDS, to learn what byte tokens do.
        behind: tokens whose text this one continues; none for a new text, whose first space SentencePiece drops.
    """

    def __init__(self, decode: Decode, behind: Sequence[int] = ()) -> None:
        self._decode = decode
        self._anchor = list(behind)
        """Tokens given out already, with some text (or the answer's first tokens, while they show nothing)."""
        self._fresh: list[int] = []
        """Tokens after the anchor that are not, or not entirely, given out."""
        self._shown = len(decode(behind)) if behind else 0
        """Characters of decode(anchor + fresh) that were given out."""
        self._alone: dict[int, str] = {}
        self._kinds: dict[int, Kind] = {}
        self._probe: int | None = None
        self._hopeless = False
        """Whether the run of byte tokens in `fresh` can never become valid."""
        self._started = False

    def push(self, token: int) -> str:
        """Add a token; return the text that is certain now, often "" in the middle of a character."""
        if not self._started:
            self._started = True
            self._probe = fusing_byte(self._decode)
        return self._push(token) if self._probe is None else self._push_fusing(token, self._probe)

    def flush(self) -> str:
        """Return the rest of the text at the end: an unfinished character becomes U+FFFD."""
        text = self._window()[self._shown :]
        self._fresh = []
        self._hopeless = False
        self._shown = len(self._window())
        return text

    def _window(self) -> str:
        return self._decode(self._anchor + self._fresh)

    def _settle(self, token: int) -> None:
        """Start a new window behind `token`, once all text is given out."""
        if token not in self._alone:
            self._alone[token] = self._decode([token])
        if self._alone[token]:
            self._anchor = [token]
        elif not self._decode(self._anchor):
            # Only at the start of an answer: special tokens, or a space that the decoder drops there.
            self._anchor = self._anchor + self._fresh
            if not self._decode(self._anchor):
                self._anchor = self._anchor[:WINDOW]
        self._fresh = []
        self._shown = len(self._decode(self._anchor))

    def _push(self, token: int) -> str:
        """Add a token with a decoder that concatenates bytes: only an unfinished character at the end can change."""
        self._fresh.append(token)
        text = self._window()
        waiting = min(len(text) - len(text.rstrip(INVALID)), HELD_INVALID)
        end = len(text) - waiting
        out = text[self._shown : end]
        self._shown = max(self._shown, end)
        if not waiting:
            self._settle(token)
        elif len(self._fresh) > WINDOW:
            pending = len(text) - self._shown
            self._anchor = []
            self._fresh = self._fresh[-TAIL:]
            self._shown = len(self._window()) - pending
        return out

    def _push_fusing(self, token: int, probe: int) -> str:
        """Add a token with a decoder that turns a *whole run* of byte tokens into U+FFFD if any of it is invalid
        (`ByteFallback` of tokenizers: Llama 2, Mistral, Gemma). A run is certain once it has ended or can never be valid."""
        kind = self._kind(token, probe)
        if kind == "nothing":
            return ""
        self._fresh.append(token)
        text = self._window()
        if kind == "text":
            out = text[self._shown :]
            self._hopeless = False
            self._settle(token)
            return out
        if self._hopeless:
            # The bytes before suffice to show the next one as invalid: the window need not grow.
            self._fresh.pop()
            return text[self._shown :]
        run = self._fresh
        valid = next((k for k in range(HELD_INVALID + 1) if not self._invalid(run[: len(run) - k])), None)
        if valid is None:
            self._hopeless = True
            out = text[self._shown :]
            self._shown = len(text)
            return out
        if len(run) < RUN:
            return ""
        done = run[: len(run) - valid]
        self._fresh = run[len(run) - valid :]
        out = self._decode(self._anchor + done)[self._shown :]
        if not self._decode(self._anchor):
            self._anchor = self._anchor + done
        self._shown = len(self._decode(self._anchor))
        return out

    def _invalid(self, run: list[int]) -> bool:
        """Return whether a run of byte tokens shows one U+FFFD per byte (a real U+FFFD is one for three)."""
        return bool(run) and self._decode(run) == INVALID * len(run)

    def _kind(self, token: int, probe: int) -> Kind:
        """Classify a token by decoding it between two invalid bytes."""
        if token not in self._kinds:
            text = self._decode([probe, token, probe])
            self._kinds[token] = KINDS.get(text, "text")
        return self._kinds[token]


def fusing_byte(decode: Decode) -> int | None:
    """Find the token of byte 0x80, if `decode` shows a valid character as invalid once an invalid byte follows; else None."""
    try:
        byte = next((i for i in range(BYTE_IDS) if decode([i]) == INVALID), None)
        if byte is None or byte < 0x80:
            return None
        # SentencePiece lists its byte tokens in order, and 0x80 is the first that shows as invalid; é is C3 A9.
        char = [byte - 0x80 + 0xC3, byte - 0x80 + 0xA9]
        return byte if decode(char) == "é" and decode([*char, byte]) == INVALID * 3 else None
    except (IndexError, KeyError, OverflowError, TypeError, ValueError):
        return None  # a vocabulary smaller than that
