"""Base classes of the tokenizers of models in memory, and of such models."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..errors import UserError
from .base import Message, Model
from .chat_template import Template, marked
from .proof_text import proof_text
from .thinking.form import no_variables

if TYPE_CHECKING:
    from llguidance import LLTokenizer


AHEAD = ("\n", "a")
"""Texts to tokenize a part behind, so that it does not start a text: the second where the part merges with the first."""


@dataclass(frozen=True, slots=True)
class GrammarVocabulary:
    """A vocabulary as llguidance takes one: what a grammar forces is cut as the model's own tokenizer cuts text."""

    tokens: Sequence[bytes]
    special_token_ids: Sequence[int]
    """Tokens that no grammar can ask for."""
    eos_token_id: int
    cut: Callable[[str], list[int]]
    bos_token_id: None = None

    def __call__(self, text: bytes) -> list[int]:
        return self.cut(text.decode())


class Codec(ABC):
    """Text to token ids and back. What people and models write is text, never a control token."""

    _template: Template | None
    _protected: re.Pattern[str]
    """Control tokens, and other tags that the template writes: those that are spelled out where a message has them."""
    _protected_ids: frozenset[int]
    ends: tuple[int, ...]
    """The tokens that end an answer."""

    def __init__(self) -> None:
        self._pieces: list[str] | None = None
        self._for_grammars: LLTokenizer | None = None

    @property
    def has_template(self) -> bool:
        """Whether there is a chat template."""
        return self._template is not None

    def variables(self, think: str, values: Mapping[str, Any]) -> dict[str, Any]:
        """Collect the template's variables (see `Model.variables`)."""
        return self._template.variables(think, values) if self._template is not None else no_variables(think, values)

    @property
    def reads_text(self) -> bool:
        """Whether there is a vocabulary to encode text with."""
        return True

    @abstractmethod
    def encode(self, text: str) -> list[int]:
        """Encode plain text, with BOS if the model wants one, never with EOS: a prompt goes on."""

    def encode_chat(self, messages: Sequence[Message], variables: Mapping[str, Any] | None = None) -> list[int]:
        """Encode a chat up to where the next answer starts (see `Template.render`). Protected tags become text where a
        message spells them."""
        if self._template is None:
            raise UserError("This model has no chat template. Use plain completion (--raw).")
        chat = [{name: marked(value, self._protected) for name, value in message.items()} for message in messages]
        return self._encode_rendered(self._template.render(chat, variables))

    @abstractmethod
    def _encode_rendered(self, text: str) -> list[int]:
        """Encode a template's output, in which everything between marks is text."""

    @abstractmethod
    def decode(self, tokens: Sequence[int]) -> str:
        """Decode token ids: special tokens left out, spaces as they are."""

    def pieces(self) -> list[str]:
        """List the text of each id when alone; special tokens by name, ids without text as <id>."""
        if self._pieces is None:
            self._pieces = self._each_piece()
        return self._pieces

    @abstractmethod
    def _each_piece(self) -> list[str]: ...

    def grammar_tokenizer(self) -> LLTokenizer:
        """Build the vocabulary as llguidance reads it, unless it has parts that llguidance does not know."""
        if self._for_grammars is None:
            from llguidance import LLTokenizer, TokenizerWrapper

            tokens, special = self._bytes_of_tokens(), sorted(self._protected_ids)
            if not (ends := list(self.ends)):  # llguidance wants one: none that the model could choose
                ends = [len(tokens)]
                tokens, special = [*tokens, b"<end>"], [*special, *ends]
            vocabulary = GrammarVocabulary(tokens, special, ends[0], self._cut)
            self._for_grammars = LLTokenizer(TokenizerWrapper(vocabulary), eos_token=ends)
        return self._for_grammars

    @abstractmethod
    def _bytes_of_tokens(self) -> list[bytes]:
        """List the bytes of each token, control tokens by name."""

    @abstractmethod
    def _cut(self, text: str) -> list[int]:
        """Encode a text in the middle of another without protected ids."""


class CodecModel(Model):
    """A model in memory with its tokenizer."""

    _codec: Codec

    def size(self, context: int | None) -> int:
        """Limit the context of a session to the model's; None for that."""
        size = self.info.context if context is None else min(context, self.info.context)
        if size < 1:
            raise UserError("context must be 1 or more.")
        return size

    def proof_ids(self, count: int) -> list[int]:
        """Return ids of the text that proofs read (see `proof_text`)."""
        return proof_text(self._codec, self.info.readable, count)

    def encode(self, text: str) -> list[int]:
        return self._codec.encode(text)

    def variables(self, think: str, values: Mapping[str, Any]) -> dict[str, Any]:
        return self._codec.variables(think, values)

    def encode_chat(self, messages: Sequence[Message], variables: Mapping[str, Any] | None = None) -> list[int]:
        return self._codec.encode_chat(messages, variables)

    def decode(self, tokens: Sequence[int]) -> str:
        return self._codec.decode(tokens)

    def pieces(self) -> list[str]:
        return self._codec.pieces()

    def grammar_tokenizer(self) -> LLTokenizer:
        return self._codec.grammar_tokenizer()
