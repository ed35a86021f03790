"""Text to token ids and back as llama.cpp does it. What people and models write is text, never a control token."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from ...errors import UserError
from ..chat_template import TAG_LIKE, Template, any_of, parted_at_marks
from ..codec import Codec
from ..thinking.thoughts import Thoughts, from_vocabulary
from .context import Weights

if TYPE_CHECKING:
    from llguidance import LLTokenizer

UNKNOWN, NORMAL, CONTROL, USER = 1, 4, 8, 16
"""Bits of llama_token_attr."""

NONE = -1
"""llama.cpp's token id for: there is none."""


class LlamaCodec(Codec):
    """The tokenizer in a GGUF file.

    Args:
        weights: the loaded model.
    """

    def __init__(self, weights: Weights) -> None:
        super().__init__()
        self._lib: Any = weights.lib
        self._weights: Weights | None = weights
        self.vocabulary = weights.vocabulary
        lib, vocab = self._lib, self._vocab
        get_attr, is_eog = lib.llama_vocab_get_attr, lib.llama_vocab_is_eog
        attributes = [get_attr(vocab, i) for i in range(self.vocabulary)]
        self._control = frozenset(i for i, attr in enumerate(attributes) if attr & (CONTROL | UNKNOWN))
        self._bos, self._eos = lib.llama_vocab_bos(vocab), lib.llama_vocab_eos(vocab)
        # As the file says, or else the kind of vocabulary. llama.cpp ends the process where there is none to add.
        self._opening = [self._bos] if lib.llama_vocab_get_add_bos(vocab) and self._bos != NONE else []
        ends = {i for i, attr in enumerate(attributes) if attr != NORMAL} | {self._eos, lib.llama_vocab_eot(vocab)}
        ends.discard(NONE)
        # The file's own EOS first, then whatever else llama.cpp takes for an end.
        self.eos_ids = tuple(sorted((i for i in ends if is_eog(vocab, i)), key=lambda i: (i != self._eos, i)))
        self._special = any_of({self._name(i) for i in self._control})
        added = {i: self._name(i) for i, attr in enumerate(attributes) if attr & USER}
        tags = {i for i, name in added.items() if TAG_LIKE.fullmatch(name)} | self._control
        self._names = {self._name(i): i for i in tags}
        """Tokens that stand for a whole tag, by name: control tokens, and others that are parsed in any text."""
        self._tags, self._tag_ids = any_of(self._names), frozenset(tags)
        self._bytes: dict[int, bytes] = {}
        # SentencePiece puts a space before a text; it is no part of it.
        spm = lib.llama_vocab_type(vocab) == lib.LLAMA_VOCAB_TYPE_SPM
        told = weights.metadata("tokenizer.ggml.add_space_prefix")
        self._space_prefix = spm if told is None else told == "true"
        source = lib.llama_model_chat_template(weights.handle, None)
        self._template = Template(source.decode("utf-8", "replace"), self._specials()) if source else None

    @property
    def _vocab(self) -> int:
        """llama.cpp's vocabulary, which goes with the weights."""
        if self._weights is None:
            raise UserError("The model is no longer loaded. Load it again.")
        return self._weights.vocab

    def close(self) -> None:
        """Let go of the weights. What has been decoded before can still be; nothing can be encoded."""
        self._weights = self._for_grammars = None

    def _specials(self) -> dict[str, str]:
        """What a template may name: bos_token and its like."""
        lib, vocab = self._lib, self._vocab
        found = {"bos_token": self._bos, "eos_token": self._eos, "pad_token": lib.llama_vocab_pad(vocab)}
        return {name: "" if i == NONE else self._name(i) for name, i in found.items()}

    def _name(self, token: int) -> str:
        """A token as the file writes it."""
        return str((self._lib.llama_vocab_get_text(self._vocab, token) or b"").decode("utf-8", "replace"))

    def _tokenize(self, text: str, *, parse: bool) -> list[int]:
        """llama_tokenize, without BOS and EOS.

        Args:
            text: anything.
            parse: let the spelling of a special token stand for it.
        """
        # Lone surrogates have no UTF-8; llama.cpp ends the process over bytes that are none.
        data = text.encode("utf-8", "replace")
        room = len(data) + 8
        while True:
            out = (ctypes.c_int32 * room)()
            count = self._lib.llama_tokenize(self._vocab, data, len(data), out, room, False, parse)
            if count >= 0:
                return list(out[:count])
            room = -count

    @property
    def reads_text(self) -> bool:
        # llama.cpp ends the process where there is no vocabulary.
        return bool(self._lib.llama_vocab_type(self._vocab) != self._lib.LLAMA_VOCAB_TYPE_NONE)

    def encode(self, text: str) -> list[int]:
        ids = self._tokenize(text, parse=False)
        return self._opening + (ids if self._control.isdisjoint(ids) else self._halved(text, first=True))

    def _encode_rendered(self, text: str) -> list[int]:
        ids: list[int] = []
        for part, as_text in parted_at_marks(text, self._tags):
            ids += self._part(part, as_text=as_text, first=not ids)
        # As in llama.cpp's server, a model that wants BOS gets one, from the template or else from here.
        return ids if ids[:1] == self._opening else self._opening + ids

    @cached_property
    def thoughts(self) -> Thoughts | None:
        """How thoughts are told from answers; None for a model that does not think."""
        form = (self._template.form or from_vocabulary(self._names)) if self._template is not None else None
        return Thoughts(form, self._names, self._spelled, partial(self._piece, parse=True, first=False)) if form else None

    def _spelled(self, tokens: Sequence[int]) -> str:
        """Text of token ids, special tokens by name."""
        return "".join(self._name(i) if i in self._control else self.decode([i]) for i in tokens)

    def _part(self, part: str, *, as_text: bool, first: bool) -> list[int]:
        """Ids of a part of a chat; no special ones if it is text."""
        ids = self._piece(part, parse=not as_text, first=first)
        if as_text and not self._tag_ids.isdisjoint(ids):
            return self._halved(part, first=first)
        return ids

    def _halved(self, text: str, *, first: bool) -> list[int]:
        """Ids of a text that spells special tokens which the model's pieces merge into: each cut after its first character."""
        ids: list[int] = []
        begin = 0
        for cut in [*(match.start() + 1 for match in self._tags.finditer(text)), len(text)]:
            part = text[begin:cut]
            ids += [i for i in self._piece(part, parse=False, first=first and not ids) if i not in self._control]
            begin = cut
        return ids

    def _piece(self, part: str, *, parse: bool, first: bool) -> list[int]:
        """Ids of a part of a text. SentencePiece puts a space before what starts a string; behind a newline it does not."""
        if not first and self._space_prefix:
            newline = self._tokenize("\n", parse=False)
            ids = self._tokenize("\n" + part, parse=parse)
            if ids[: len(newline)] == newline:
                return ids[len(newline) :]
        return self._tokenize(part, parse=parse)

    def decode(self, tokens: Sequence[int]) -> str:
        known = self._bytes
        parts = [known[token] if token in known else self._token_bytes(token) for token in tokens]
        if self._space_prefix:
            first = next((part for part in parts if part), b"")
            if first.startswith(b" "):
                return b"".join(parts)[1:].decode("utf-8", "replace")
        return b"".join(parts).decode("utf-8", "replace")

    def _token_bytes(self, token: int) -> bytes:
        """What a token adds to the text; nothing if it is special or does not exist."""
        found = b""
        if 0 <= token < self.vocabulary and token not in self._control:
            found = self._to_piece(token)
        self._bytes[token] = found
        return found

    def _grammar_tokenizer(self) -> LLTokenizer:
        """It tokenizes with llama_tokenize itself. What is not text begins with 0xFF there, which no UTF-8 has."""
        from llguidance import LLTokenizer

        lib, vocab = self._lib, self._vocab
        address = ctypes.cast(lib._lib.llama_tokenize, ctypes.c_void_p).value
        tokens = [self._to_piece(i) for i in range(self.vocabulary)]
        tokens = [b"\xff" + piece if i in self._control or self._is_mark(i, piece) else piece for i, piece in enumerate(tokens)]
        return LLTokenizer.from_llamacpp(  # type: ignore[attr-defined,no-any-return]
            tokens=tokens, vocab_ptr=vocab, tokenize_fptr=address, eos_token=list(self.eos_ids), slices=None
        )

    def _is_mark(self, token: int, piece: bytes) -> bool:
        """Whether a token that the file's author added is a mark such as `<tool>` rather than text."""
        added = self._lib.llama_vocab_get_attr(self._vocab, token) & USER
        return bool(added) and piece[:1] == b"<" and piece[-1:] == b">"

    def _to_piece(self, token: int) -> bytes:
        size = 64
        while True:
            buffer = ctypes.create_string_buffer(size)
            length = self._lib.llama_token_to_piece(self._vocab, token, buffer, size, 0, True)
            if length >= 0:
                return buffer.raw[:length]
            size = -length

    def _each_piece(self) -> list[str]:
        return [
            self._name(i) if i in self._control else self._token_bytes(i).decode("utf-8", "replace") or f"<{i}>"
            for i in range(self.vocabulary)
        ]
