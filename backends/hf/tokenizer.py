"""Text to token ids and back for transformers models. What people and models write is text, never a control token."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from ...errors import UserError, first_line
from ..chat_template import TAG_LIKE, Template, any_of, marked, parted_at_marks
from ..codec import AHEAD, Codec
from ..files.checkpoint import tokenizer_problem
from ..thinking.split import Thoughts, from_vocabulary, usual_pair


class TextCodec(Codec):
    """The tokenizer of one model.

    Args:
        folder: of the tokenizer's files.
        vocabulary: rows of the model's LM head; `pieces` has as many.
        template: a chat template in place of the tokenizer's own; empty for that.
    """

    def __init__(self, folder: Path, vocabulary: int, template: str = "") -> None:
        super().__init__()
        self._tokenizer = open_tokenizer(folder)
        self.vocabulary = vocabulary
        self.ends = ()
        special = {str(token) for token in self._tokenizer.all_special_tokens}
        added = {i: token.content for i, token in self._tokenizer.added_tokens_decoder.items()}
        special |= {token.content for token in self._tokenizer.added_tokens_decoder.values() if token.special}
        self._special = any_of(special)
        self._template = self._open_template(template)
        tags = {name for name in added.values() if TAG_LIKE.fullmatch(name)}
        self._names = {name: i for i, name in added.items() if name in special | tags}
        """Tokens that stand for a whole tag, by name: special ones, and others that are parsed in any text."""
        source = self._template.source if self._template is not None else ""
        protected = special | {name for name in tags if name in source} | set(usual_pair(self._names))
        self._protected = any_of(protected)
        self._protected_ids = frozenset(i for name, i in self._names.items() if name in protected)
        self._opening = self._find_opening()

    def _open_template(self, override: str) -> Template | None:
        source = override or self._tokenizer.chat_template
        if isinstance(source, dict):  # by name
            source = source.get("default")
        specials = {
            name: [str(token) for token in value] if isinstance(value, list | tuple) else str(value)
            for name, value in self._tokenizer.special_tokens_map.items()
        }
        return Template(source, specials) if isinstance(source, str) and source else None

    @property
    def eos_id(self) -> int | None:
        """The tokenizer's own end-of-sequence token."""
        eos = self._tokenizer.eos_token_id
        return eos if isinstance(eos, int) else None

    def _find_opening(self) -> list[int]:
        """Find the ids that the tokenizer puts before a text (BOS). Those behind it (EOS) would end an unfinished prompt."""
        whole = self._tokenize("a", split_special_tokens=True)
        alone = self._tokenize("a", add_special_tokens=False, split_special_tokens=True)
        return whole[: next((i for i in range(len(whole)) if whole[i : i + len(alone)] == alone), 0)]

    def encode(self, text: str) -> list[int]:
        if self._special.search(text):
            return self._opening + self._encode_rendered(marked(text, self._special))
        return self._opening + self._tokenize(text, add_special_tokens=False, split_special_tokens=True)

    @cached_property
    def thoughts(self) -> Thoughts | None:
        """Splits thoughts from answers; None for a model that does not think."""
        names = self._names
        if self._template is None:
            return None
        form = self._template.form or from_vocabulary(names)
        return Thoughts(form, names, self._spelled, partial(self._encode_part, as_text=False, first=False)) if form else None

    def _spelled(self, tokens: Sequence[int]) -> str:
        return str(self._tokenizer.decode(list(tokens), skip_special_tokens=False, clean_up_tokenization_spaces=False))

    def _encode_rendered(self, text: str) -> list[int]:
        ids: list[int] = []  # as in transformers, no BOS is added to what a template writes
        for part, as_text in parted_at_marks(text, self._protected):
            new = self._encode_part(part, as_text=as_text, first=not ids)
            if as_text and self._tokenizer.convert_tokens_to_ids(part) in new:
                # Unigram models find the token among their pieces all the same; not so its halves.
                new = self._encode_part(part[:1], as_text=True, first=not ids)
                new += self._encode_part(part[1:], as_text=True, first=False)
            ids += new
        return ids

    def _encode_part(self, part: str, *, as_text: bool, first: bool) -> list[int]:
        """Encode a part of a text. SentencePiece puts a space before the start of a text."""
        for before in () if first else AHEAD:
            skipped = self._tokenize(before, add_special_tokens=False)
            ids = self._tokenize(before + part, add_special_tokens=False, split_special_tokens=as_text)
            if ids[: len(skipped)] == skipped:
                return ids[len(skipped) :]
        return self._tokenize(part, add_special_tokens=False, split_special_tokens=as_text)

    def _tokenize(self, text: str, **options: bool) -> list[int]:
        # Lone surrogates have no UTF-8, and tokenizers takes no text that has some.
        return list(self._tokenizer.encode(text.encode("utf-8", "replace").decode(), **options))

    def decode(self, tokens: Sequence[int]) -> str:
        return str(self._tokenizer.decode(list(tokens), skip_special_tokens=True, clean_up_tokenization_spaces=False))

    def _each_piece(self) -> list[str]:
        count = min(self.vocabulary, len(self._tokenizer))
        names = self._tokenizer.convert_ids_to_tokens(range(count))
        texts = self._tokenizer.batch_decode([[i] for i in range(count)], clean_up_tokenization_spaces=False)
        pieces = [self._piece(i, name, text) for i, (name, text) in enumerate(zip(names, texts, strict=True))]
        return pieces + [f"<{i}>" for i in range(count, self.vocabulary)]

    def _bytes_of_tokens(self) -> list[bytes]:
        from llguidance import LLTokenizer
        from tokenizers import Tokenizer

        try:
            fast = Tokenizer.from_str(self._tokenizer.backend_tokenizer.to_str())  # a copy: padding is state
            fast.no_padding()
            fast.no_truncation()
            read = LLTokenizer(fast.to_str(), n_vocab=self.vocabulary, eos_token=[0], slices=[])
        except Exception as error:  # a tokenizer in Python alone, or of a kind of its own
            raise UserError(
                f"This model's tokenizer cannot follow a schema ({first_line(error)}). Leave the schema out, or load the model "
                "as GGUF."
            ) from None
        return [read.decode_bytes([i]) for i in range(self.vocabulary)]

    def _cut(self, text: str) -> list[int]:
        if not self._protected.search(text):
            return self._encode_part(text, as_text=True, first=False)
        return self._encode_rendered(marked(text, self._protected))

    @staticmethod
    def _piece(index: int, name: str | None, text: str) -> str:
        if name is None:
            return f"<{index}>"
        # SentencePiece writes a leading space as ▁ and drops it where a text starts.
        if name.startswith("▁") and not text.startswith(" "):
            return " " * (len(name) - len(name.lstrip("▁"))) + text.lstrip(" ")
        return text


def open_tokenizer(folder: Path) -> Any:
    """Open the tokenizer in a folder.

    Raises:
        UserError: there is none, or it cannot be read.
    """
    from transformers import AutoTokenizer

    if problem := tokenizer_problem(folder):
        raise UserError(f"Cannot load {folder}. {problem}")
    try:
        tokenizer = AutoTokenizer.from_pretrained(str(folder), local_files_only=True, trust_remote_code=False)
        tokenizer.decode(tokenizer.encode("a é"))  # some are found out only here
        return tokenizer
    except Exception as error:
        raise UserError(f"The tokenizer in {folder} cannot be read ({first_line(error)}). Copy its files again.") from None


def eos_ids(module: Any, codec: TextCodec) -> tuple[int, ...]:
    """Collect the tokens that end an answer: the generation configuration's, the configuration's and the tokenizer's."""
    ends: list[int] = []
    sources = (getattr(module, "generation_config", None), module.config, module.config.get_text_config(decoder=True))
    for source in sources:
        ids = getattr(source, "eos_token_id", None)
        if isinstance(ids, list | tuple):
            ends += ids
        elif isinstance(ids, int):
            ends.append(ids)
    if codec.eos_id is not None:
        ends.append(codec.eos_id)
    return tuple(dict.fromkeys(i for i in ends if 0 <= i < codec.vocabulary))
