"""Sentences about mistakes: one form for all, and the name that was probably meant."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from specchat.errors import did_you_mean

KEYS = ("system", "template_var", "theme", "max_tokens", "sampling.temperature", "sampling.top_p")


@pytest.mark.parametrize(
    ("typed", "names", "advice"),
    [
        ("themes", KEYS, "did you mean theme?"),
        ("temp", KEYS, "did you mean sampling.temperature?"),
        ("sampling.temp", KEYS, "did you mean sampling.temperature?"),
        ("samplng.top_p", KEYS, "did you mean sampling.top_p?"),
        ("sampling.topp", KEYS, "did you mean sampling.top_p?"),
        ("sampling.max_tokens", KEYS, "did you mean max_tokens?"),
        ("zzz", ("a", "b"), "choose from a, b."),
    ],
)
def test_the_nearest_name(typed: str, names: tuple[str, ...], advice: str) -> None:
    assert did_you_mean(typed, names) == advice
    assert did_you_mean("zzz", ("a", "b"), "it has a and b.") == "it has a and b."


NAMES = (
    "transformers", "llama", "specchat", "huggingface_hub", "int8", "doctor ", "/", "--", "[", "accept ", "context ", "tree.",
    "lookup.", "early-exit.", "there is no ", "a ",
)  # fmt: skip
"""Words that may begin a sentence in small letters: programs, commands, settings, and text behind a file's name."""


def sentences() -> Iterator[tuple[str, str]]:
    """Yield the place and the sentence of each `UserError`, with X for what is put in."""
    for part in ("app", "backends", "decoders", "engine", "builtin"):
        for file in (Path(__file__).parents[1] / part).rglob("*.py"):
            for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
                match node:
                    case ast.Call(ast.Name("UserError" | "ContextFull"), [ast.Constant(str(text)), *_]):
                        yield f"{file}:{node.lineno}", text
                    case ast.Call(ast.Name("UserError" | "ContextFull"), [ast.JoinedStr(values), *_]):
                        parts = [value.value if isinstance(value, ast.Constant) else "X" for value in values]
                        yield f"{file}:{node.lineno}", "".join(map(str, parts))


ADVICE = re.compile(
    r"[.:?] [A-Z`X/]|: X$|not X\.|whole numbers|say why"
    r"|\b([Tt]akes?|must|needs?|only|can|out X|[Ll]eave|[Nn]ame|choose|[Gg]ive|Put|[Uu]se|Press)\b"
)
"""Pattern of advice: a second sentence, an imperative, what is right, or what another program said."""


def test_every_sentence_says_what_helps() -> None:
    """Those that are put together elsewhere aside: of them there is nothing but a frame here."""
    whole = [(place, text) for place, text in sentences() if len(text.replace("X", "").split()) > 3]
    assert not [f"{place}: {text}" for place, text in whole if not ADVICE.search(text)]


def test_every_sentence_is_one_line_that_begins_and_ends_as_a_sentence_does() -> None:
    """It may end with a command, or with what another program said."""
    places = list(sentences())
    assert len(places) > 300
    for place, text in places:
        assert text.isprintable(), place
        assert "  " not in text, place
        assert text[0].isupper() or text.startswith(NAMES), f"{place}: {text}"
        assert text.endswith((".", "?", "X")) or re.search(r"[Rr]un: X", text), f"{place}: {text}"
