"""Constraints on an answer: a JSON schema, any JSON object, a regex or a grammar, with explanations of those that cannot be
used. Imports llguidance when first used."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast, get_args

from ...errors import UserError, first_line

Kind = Literal["json_schema", "json_object", "regex", "grammar"]

NAMES: Mapping[str, str] = {
    "json_schema": "The schema",
    "json_object": "The schema",
    "regex": "The regex",
    "grammar": "The grammar",
}

TIGHT: dict[str, Any] = {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": "}
"""White space as `json.dumps` writes it: all punctuation is forced, and a weak model cannot write spaces for ever."""


@dataclass(frozen=True, slots=True)
class Constraint:
    """A pattern that the whole answer must match. Tokens that would break it are never chosen."""

    kind: Kind
    text: str = ""
    """The schema as JSON, the regex, or the grammar in llguidance's Lark or llama.cpp's GBNF; empty for json_object."""

    @property
    def is_json(self) -> bool:
        """Whether the answer is JSON."""
        return self.kind in ("json_schema", "json_object")

    @property
    def schema(self) -> dict[str, Any]:
        """The JSON schema.

        Raises:
            UserError: it is none.
        """
        return _schema(self.text) if self.kind == "json_schema" else {"type": "object"}

    @property
    def is_gbnf(self) -> bool:
        """Whether a grammar is in GBNF, not in Lark."""
        return "::=" in self.text

    @property
    def name(self) -> str:
        """A word or two for headers: the schema's title, or its kind."""
        if self.kind == "json_schema":
            title = json.loads(self.text).get("title") if self.text.lstrip().startswith("{") else None
            return title if isinstance(title, str) and title.strip() else "schema"
        return {"json_object": "JSON", "regex": "regex", "grammar": "grammar"}[self.kind]

    def compiled(self) -> str:
        """Compile it for llguidance.

        Raises:
            UserError: it cannot be used; says which part.
        """
        from llguidance import LLMatcher

        match self.kind:
            case "json_schema" | "json_object":
                return LLMatcher.grammar_from_json_schema(json.dumps(self.schema), overrides=cast("Any", TIGHT))
            case "regex":
                return LLMatcher.grammar_from_regex(self.text)
            case "grammar":
                return LLMatcher.grammar_from_lark(_lark(self.text))

    def matches(self, text: str) -> bool:
        """Tell whether a given text matches: JSON by the schema, with any white space, anything else by the grammar."""
        from llguidance import LLMatcher, LLTokenizer, TokenizerWrapper

        if self.is_json:
            try:
                return _by_schema(self.schema, json.loads(text))
            except (ValueError, RecursionError):
                return False
        matcher = LLMatcher(LLTokenizer(TokenizerWrapper(Bytes())), self.compiled(), log_level=0)
        data = list(text.encode("utf-8", "replace"))
        return matcher.try_consume_tokens(data) == len(data) and matcher.is_accepting() and not matcher.is_error()

    def check(self) -> None:
        """Check that it can be used, without a model.

        Raises:
            UserError: it cannot; says which part.
        """
        from llguidance import LLMatcher

        try:
            bad, messages = LLMatcher.validate_grammar_with_warnings(self.compiled())
        except ValueError as error:
            raise self.refused(str(error)) from None
        if bad:
            raise self.refused(messages[0])

    def refused(self, message: str) -> UserError:
        """Explain an error message of llguidance."""
        lines = [line.strip() for line in message.strip().splitlines() if line.strip()] or ["unknown"]
        first = next((line.removeprefix("error: ") for line in lines if line.startswith("error: ")), lines[0])
        first = re.sub(r"^at \d+\(\d+\): ", "", first).rstrip(".")
        return UserError(f"{NAMES[self.kind]} cannot be used: {first}. Change that part, or leave it out.")


class Bytes:
    """A vocabulary of all bytes and an end token, in llguidance's interface."""

    eos_token_id, bos_token_id = 256, None
    tokens: Sequence[bytes] = [*(bytes([i]) for i in range(256)), b"<end>"]
    special_token_ids = (256,)

    def __call__(self, text: str | bytes) -> list[int]:
        return list(text.encode() if isinstance(text, str) else text)


def parse_constraint(fields: Mapping[str, Any] | None) -> Constraint | None:
    """Make a constraint from its fields; None without any.

    Raises:
        UserError: its kind is unknown.
    """
    if not fields:
        return None
    kind = fields.get("kind")
    if kind not in get_args(Kind):
        raise UserError(f"A constraint is one of {', '.join(get_args(Kind))}, not {kind!r}.")
    return Constraint(cast("Kind", kind), str(fields.get("text", "")))


def _by_schema(schema: Mapping[str, Any], value: Any) -> bool:
    """Validate a value with jsonschema, which fetches nothing. A schema that it cannot follow counts as matched."""
    from jsonschema import Draft202012Validator
    from jsonschema.validators import validator_for
    from referencing import Registry

    kind = validator_for(schema, default=Draft202012Validator)
    try:
        return bool(kind(schema, registry=Registry(), format_checker=kind.FORMAT_CHECKER).is_valid(value))
    except Exception:  # a regex in Rust's syntax, a reference that leads nowhere
        return True


def _schema(text: str) -> dict[str, Any]:
    try:
        schema = json.loads(text)
        if schema is True:
            schema = {}
        if not isinstance(schema, dict):
            raise UserError('The schema must be a JSON object such as {"type": "object"}.')
    except json.JSONDecodeError as error:
        raise UserError(
            f"The schema is not JSON (line {error.lineno}, column {error.colno}: {error.msg.lower()}). Correct it there."
        ) from None
    except RecursionError:
        raise UserError("The schema is nested too deeply to follow. Use a smaller part of it.") from None
    return schema


def _lark(text: str) -> str:
    """Translate a grammar to Lark, if it is GBNF."""
    if not Constraint("grammar", text).is_gbnf:
        return text
    from llguidance.gbnf_to_lark import gbnf_to_lark

    try:
        return str(gbnf_to_lark(text))
    except Exception as error:  # its parser can raise anything
        raise UserError(f"The grammar cannot be read: {first_line(error)}. Correct it there.") from None
