"""Fill-in-the-middle prompts: a text with a gap, in the tokens that a code model was trained to fill one with.

Each family writes it in its own way (documented in the model's own README, or its tokenizer's source):

- Qwen2.5-Coder, CodeGemma, Granite: `<|fim_prefix|>before<|fim_suffix|>after<|fim_middle|>`
- StarCoder, StarCoder 2, CodeQwen, StableCode: `<fim_prefix>before<fim_suffix>after<fim_middle>`; SantaCoder with hyphens
- Code Llama: `<PRE> before <SUF>after <MID>`, where the spaces belong to the tokens
- DeepSeek-Coder: `<｜fim▁begin｜>before<｜fim▁hole｜>after<｜fim▁end｜>`
- Codestral: `[SUFFIX]after[PREFIX] before`
- Seed-Coder: `<[fim-suffix]>after<[fim-prefix]>before<[fim-middle]>`
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from ..errors import UserError

BEFORE_SHARE = 0.75
"""Of the context goes to the text before the gap where both are too long, as in llama.cpp's own server: what comes next depends
more on what stands right before."""

ANSWER_TOKENS = 256
"""Kept free for the answer where no limit says how long it may be; never more than half of the context."""


@dataclass(frozen=True, slots=True)
class Format:
    """How a family writes a gap."""

    prefix: str
    suffix: str
    middle: str | None
    """None: the answer follows right behind the text before the gap."""
    suffix_first: bool = False
    ends: tuple[str, ...] = ()
    """Tokens besides EOS and the format's own that end the answer."""


FORMATS = (
    Format(
        "<|fim_prefix|>",
        "<|fim_suffix|>",
        "<|fim_middle|>",
        ends=("<|endoftext|>", "<|end_of_text|>", "<|fim_pad|>", "<|repo_name|>", "<|file_sep|>", "<|file_separator|>"),
    ),
    Format("<fim_prefix>", "<fim_suffix>", "<fim_middle>", ends=("<|endoftext|>", "<fim_pad>", "<file_sep>", "<repo_name>")),
    Format("<fim-prefix>", "<fim-suffix>", "<fim-middle>", ends=("<|endoftext|>", "<fim-pad>")),
    Format("▁<PRE>", "▁<SUF>", "▁<MID>", ends=("▁<EOT>",)),
    Format("<｜fim▁begin｜>", "<｜fim▁hole｜>", "<｜fim▁end｜>", ends=("<｜end▁of▁sentence｜>", "<|EOT|>")),
    Format("<[fim-prefix]>", "<[fim-suffix]>", "<[fim-middle]>", suffix_first=True, ends=("<[end▁of▁sentence]>",)),
    Format("[PREFIX]", "[SUFFIX]", None, suffix_first=True),
)


class Codec(Protocol):
    """What a tokenizer must be able to do."""

    def token_id(self, name: str) -> int | None:
        """Id of the special token of this name; None if there is none."""

    def text_ids(self, text: str, *, first: bool, never: re.Pattern[str]) -> list[int]:
        """Ids of a text without BOS and EOS. The spellings of special tokens, and what `never` finds, stay text.

        Args:
            text: anything.
            first: SentencePiece may put its space before it.
            never: spellings of tokens.
        """

    def encode(self, text: str) -> list[int]:
        """Ids of a text as the tokenizer opens it."""


@dataclass(frozen=True, slots=True)
class Gap:
    """A text with a gap, as tokens."""

    head: tuple[int, ...]
    """What the tokenizer opens a text with (BOS)."""
    marks: tuple[int, int, int | None]
    """Ids of the tokens for prefix, suffix and middle."""
    before: tuple[int, ...]
    after: tuple[int, ...]
    suffix_first: bool
    ends: tuple[int, ...]
    """Tokens that end the answer."""
    anchor: tuple[int, ...] = ()
    """Tokens of a text; behind them an answer's first space is not dropped when it is decoded."""
    dropped: tuple[int, int] = (0, 0)
    """Tokens that were left out at the very beginning and at the very end."""

    @property
    def ids(self) -> list[int]:
        """The prompt."""
        prefix, suffix, middle = self.marks
        parts = [(prefix, *self.before), (suffix, *self.after)]
        if self.suffix_first:
            parts.reverse()
        return [*self.head, *parts[0], *parts[1], *(() if middle is None else (middle,))]

    def fitted(self, context: int, max_tokens: int | None = None) -> Gap:
        """The same within a context: the text before the gap loses its beginning, the one after it its end.

        Args:
            context: tokens that it holds.
            max_tokens: of the answer; None for as many as fit.
        """
        answer = min(max_tokens or ANSWER_TOKENS, context // 2)
        room = max(0, context - answer - (len(self.ids) - len(self.before) - len(self.after)))
        before, after = len(self.before), len(self.after)
        if before + after > room:
            share = int(room * BEFORE_SHARE)
            after = min(after, max(room - share, room - before))
            before = min(before, room - after)
        return Gap(
            self.head,
            self.marks,
            self.before[len(self.before) - before :],
            self.after[:after],
            self.suffix_first,
            self.ends,
            self.anchor,
            (len(self.before) - before, len(self.after) - after),
        )


def gap(
    codec: Codec,
    model: str,
    prefix: str,
    suffix: str,
    told: Sequence[int] = (),
    names: Sequence[str] = (),
) -> Gap:
    """A text with a gap in the tokenizer's own format.

    Args:
        codec: the tokenizer.
        model: its model's name.
        prefix: the text before the gap.
        suffix: the text after it.
        told: ids for prefix, suffix and middle where the model's file tells them; their order is then the usual one,
            unless their names say otherwise.
        names: the names of those.

    Raises:
        UserError: the tokenizer has no tokens for it.
    """
    format, marks = _format(codec, told, names)
    if format is None:
        raise nowhere(model)
    spellings = [format.prefix, format.suffix, *filter(None, [format.middle]), *format.ends]
    never = re.compile("|".join(map(re.escape, sorted(spellings, key=len, reverse=True))))
    found = [codec.token_id(name) for name in format.ends]
    # A model that begins another gap, or another file, has filled this one.
    ends = {*filter(lambda mark: mark is not None, marks), *filter(lambda end: end is not None, found)}
    return Gap(
        tuple(codec.encode("")),
        marks,
        tuple(codec.text_ids(prefix, first=True, never=never)) if prefix else (),
        tuple(codec.text_ids(suffix, first=False, never=never)) if suffix else (),
        format.suffix_first,
        tuple(sorted(end for end in ends if end is not None)),
        tuple(codec.text_ids("x", first=True, never=never)),
    )


def nowhere(model: str) -> UserError:
    """What to say of a model without such tokens."""
    return UserError(
        f"{model} has no fill-in-the-middle tokens, so it cannot take a suffix. Use a code model that has them, such as "
        "--model Qwen/Qwen2.5-Coder-1.5B, or leave out the suffix."
    )


def _format(codec: Codec, told: Sequence[int], names: Sequence[str]) -> tuple[Format | None, tuple[int, int, int | None]]:
    """The format that a tokenizer has the tokens of, and their ids."""
    if told:
        prefix, suffix, middle = told
        known = next((format for format in FORMATS if format.prefix == names[0]), None)
        return known or Format(names[0], names[1], names[2]), (prefix, suffix, middle)
    for format in FORMATS:
        first, second = codec.token_id(format.prefix), codec.token_id(format.suffix)
        third = codec.token_id(format.middle) if format.middle is not None else None
        if first is not None and second is not None and (format.middle is None or third is not None):
            return format, (first, second, third)
    return None, (0, 0, None)


def parted(text: str, *patterns: re.Pattern[str]) -> list[str]:
    """A text in parts none of which spells a token: each spelling is cut after its first character."""
    places = sorted({match.start() + 1 for pattern in patterns for match in pattern.finditer(text) if match[0]})
    return [text[a:b] for a, b in zip([0, *places], [*places, len(text)], strict=True) if a < b]
