"""Text to token ids and back as llama.cpp does it. What people and models write is text, never a control token."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Sequence
from functools import cached_property, partial
from typing import Any

from ...errors import UserError
from ..chat_template import TAG_LIKE, Template, any_of, parted_at_marks
from ..codec import AHEAD, Codec
from ..thinking.split import Thoughts, from_vocabulary, usual_pair
from .context import Weights

UNKNOWN, NORMAL, CONTROL, USER = 1, 4, 8, 16
"""Bits of llama_token_attr."""

NONE = -1
"""llama.cpp's token id for: there is none."""


class LlamaCodec(Codec):
    """The tokenizer in a GGUF file. A `template` takes the place of the file's own."""

    def __init__(self, weights: Weights, template: str = "") -> None:
        super().__init__()
        self._lib: Any = weights.lib
        self._weights: Weights | None = weights
        self.vocabulary = weights.vocabulary
        lib, vocab = self._lib, self._vocab
        get_attr, is_eog = lib.llama_vocab_get_attr, lib.llama_vocab_is_eog
        attributes = [get_attr(vocab, i) for i in range(self.vocabulary)]
        self._bos = lib.llama_vocab_bos(vocab)
        self._eos = lib.llama_vocab_eos(vocab)
        source = template or (lib.llama_model_chat_template(weights.handle, None) or b"").decode("utf-8", "replace")
        self._template = Template(source, self._specials()) if source else None
        names = {i: self._name(i) for i, attr in enumerate(attributes) if attr & (CONTROL | UNKNOWN | USER)}
        marks = {i for i, name in names.items() if attributes[i] & USER and TAG_LIKE.fullmatch(name)}
        written = {i for i in names if self._template is not None and names[i] in self._template.source}
        # llama.cpp takes some names for control tokens, whatever the file says of them: `</s>`, which may be HTML.
        renamed = {i for i in names if attributes[i] & CONTROL and attributes[i] & (USER | NORMAL)}
        text = renamed - written - self._ends_of_file(weights)
        self._control = frozenset(i for i in names if attributes[i] & (CONTROL | UNKNOWN)) - text
        self._overruled = {names[i]: i for i in text if attributes[i] & USER}
        """Tokens that are text, by name, but parsed by llama.cpp only where control tokens are."""
        self._overruled_names = re.compile(f"({any_of(self._overruled).pattern})")
        # As the file says, or else the kind of vocabulary. llama.cpp ends the process where there is none to add.
        self._opening = [self._bos] if lib.llama_vocab_get_add_bos(vocab) and self._bos != NONE else []
        ends = {i for i, attr in enumerate(attributes) if attr != NORMAL} | {self._eos, lib.llama_vocab_eot(vocab)}
        ends -= {NONE, *text}
        # The file's own EOS first, then whatever else llama.cpp takes for an end.
        self.ends = tuple(sorted((i for i in ends if is_eog(vocab, i)), key=lambda i: (i != self._eos, i)))
        self._special = any_of(names[i] for i in self._control)
        self._names = {names[i]: i for i in marks | self._control}
        """Tokens that stand for a whole tag, by name: control tokens, and others that are parsed in any text."""
        self._protected_ids = self._control | (marks & written) | {self._names[mark] for mark in usual_pair(self._names)}
        self._protected = any_of(names[i] for i in self._protected_ids)
        self._bytes: dict[int, bytes] = {}
        # SentencePiece puts a space before a text; it is no part of it.
        spm = lib.llama_vocab_type(vocab) == lib.LLAMA_VOCAB_TYPE_SPM
        prefix = weights.metadata("tokenizer.ggml.add_space_prefix")
        self._space_prefix = spm if prefix is None else prefix == "true"

    @property
    def _vocab(self) -> int:
        """llama.cpp's vocabulary, which goes with the weights."""
        if self._weights is None:
            raise UserError("The model is no longer loaded. Load it again.")
        return self._weights.vocab

    def close(self) -> None:
        """Let go of the weights. What has been decoded before can still be; nothing can be encoded."""
        self._weights = self._for_grammars = None

    def _ends_of_file(self, weights: Weights) -> set[int]:
        """Collect the ids that the file itself declares as ends of a text, a turn or a message."""
        ends = (weights.metadata(f"tokenizer.ggml.{end}_token_id") for end in ("eot", "eom"))
        return {self._eos, *(int(i) for i in ends if i is not None)}

    def _specials(self) -> dict[str, str]:
        lib, vocab = self._lib, self._vocab
        specials = {"bos_token": self._bos, "eos_token": self._eos, "pad_token": lib.llama_vocab_pad(vocab)}
        return {name: "" if i == NONE else self._name(i) for name, i in specials.items()}

    def _name(self, token: int) -> str:
        return str((self._lib.llama_vocab_get_text(self._vocab, token) or b"").decode("utf-8", "replace"))

    def _tokenize(self, text: str, *, parse: bool) -> list[int]:
        """Call llama_tokenize, without BOS and EOS; with `parse`, the spelling of a special token stands for it."""
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
        return self._opening + self._text(text, self._special, self._control, first=True)

    def _encode_rendered(self, text: str) -> list[int]:
        ids: list[int] = []
        for part, as_text in parted_at_marks(text, self._protected):
            ids += self._part(part, as_text=as_text, first=not ids)
        # As in llama.cpp's server, a model that wants BOS gets one, from the template or else from here.
        return ids if ids[:1] == self._opening else self._opening + ids

    @cached_property
    def thoughts(self) -> Thoughts | None:
        """Splits thoughts from answers; None for a model that does not think."""
        form = (self._template.form or from_vocabulary(self._names)) if self._template is not None else None
        return Thoughts(form, self._names, self._spelled, partial(self._piece, parse=True, first=False)) if form else None

    def _spelled(self, tokens: Sequence[int]) -> str:
        return "".join(self._name(i) if i in self._control else self.decode([i]) for i in tokens)

    def _part(self, part: str, *, as_text: bool, first: bool) -> list[int]:
        """Encode a part of a chat; without protected ids if it is text."""
        if as_text:
            return self._text(part, self._protected, self._protected_ids, first=first)
        return self._piece(part, parse=True, first=first)

    def _text(self, text: str, marks: re.Pattern[str], forbidden: frozenset[int], *, first: bool) -> list[int]:
        """Encode a text without forbidden ids. Where its pieces merge into `marks`, each of these is cut after its first
        character."""
        ids = self._pieces_of(text, first=first)
        if forbidden.isdisjoint(ids):
            return ids
        ids = []
        begin = 0
        for cut in [*(match.start() + 1 for match in marks.finditer(text)), len(text)]:
            ids += [i for i in self._pieces_of(text[begin:cut], first=first and not ids) if i not in forbidden]
            begin = cut
        return ids

    def _pieces_of(self, text: str, *, first: bool) -> list[int]:
        ids: list[int] = []
        for index, part in enumerate(self._overruled_names.split(text)):
            if index % 2:
                ids.append(self._overruled[part])
            elif part:
                ids += self._piece(part, parse=False, first=first and not ids)
        return ids

    def _piece(self, part: str, *, parse: bool, first: bool) -> list[int]:
        """Encode a part of a text. SentencePiece puts a space before the start of a text."""
        for before in AHEAD if self._space_prefix and not first else ():
            skipped = self._tokenize(before, parse=False)
            ids = self._tokenize(before + part, parse=parse)
            if ids[: len(skipped)] == skipped:
                return ids[len(skipped) :]
        return self._tokenize(part, parse=parse)

    def decode(self, tokens: Sequence[int]) -> str:
        cache = self._bytes
        parts = [cache[token] if token in cache else self._token_bytes(token) for token in tokens]
        if self._space_prefix:
            first = next((part for part in parts if part), b"")
            if first.startswith(b" "):
                return b"".join(parts)[1:].decode("utf-8", "replace")
        return b"".join(parts).decode("utf-8", "replace")

    def _token_bytes(self, token: int) -> bytes:
        """Return the bytes that a token adds to the text; none if it is special or does not exist."""
        text = b""
        if 0 <= token < self.vocabulary and token not in self._control:
            text = self._to_piece(token)
        self._bytes[token] = text
        return text

    def _bytes_of_tokens(self) -> list[bytes]:
        return [self._to_piece(i) for i in range(self.vocabulary)]

    def _cut(self, text: str) -> list[int]:
        return self._text(text, self._protected, self._protected_ids, first=False)

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
