"""Schemas of real life are compiled, or refused with the name of the part; broken ones get a sentence."""

from __future__ import annotations

import json
from typing import Any

import pytest

from specchat.backends.base import Model
from specchat.backends.grammars.constraint import constraint_of, grammar, json_schema, regex
from specchat.backends.grammars.matcher import Matcher
from specchat.errors import UserError

from .real_schemas import BROKEN, REFUSED, TAKEN


@pytest.mark.parametrize("name", TAKEN)
def test_a_schema_is_compiled_and_begun(builtin_model: Model, name: str) -> None:
    asked = json_schema(TAKEN[name])
    asked.check()
    matcher = Matcher(builtin_model.grammar_tokenizer(), asked)
    assert matcher.mask(()).any()


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_enforced_is_named(name: str) -> None:
    schema, said = REFUSED[name]
    with pytest.raises(UserError, match=said):
        json_schema(schema).check()


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_schema_gets_one_sentence(name: str) -> None:
    text, said = BROKEN[name]
    with pytest.raises(UserError, match=said) as found:
        json_schema(text).check()
    assert "\n" not in str(found.value)
    assert str(found.value).startswith("The schema ")


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (regex("(a"), "The regex cannot be used: unclosed group."),
        (regex("(?=a)b"), "look-around"),
        (grammar("start: nowhere"), 'unknown name: "nowhere"'),
        (grammar("root ::= ("), "The grammar cannot be read"),
    ],
)
def test_a_broken_pattern_gets_one_sentence(asked: Any, said: str) -> None:
    with pytest.raises(UserError) as found:
        asked.check()
    assert said in str(found.value)
    assert "\n" not in str(found.value)


@pytest.mark.parametrize("text", ["start: start", 'start: start "a"'])
def test_a_grammar_of_nothing_ends_before_it_begins(builtin_model: Model, text: str) -> None:
    with pytest.raises(UserError):
        Matcher(builtin_model.grammar_tokenizer(), grammar(text))


def test_an_exploding_grammar_ends_with_a_sentence_or_goes_on(builtin_model: Model) -> None:
    """Nobody waits: what grows beyond the limits is given up."""
    for asked in (regex("(.*a.{200}b){30}"), regex("((a{1,500}){1,500}){1,500}"), grammar('start: start start | "a" | "b"')):
        matcher = Matcher(builtin_model.grammar_tokenizer(), asked)
        (token,) = builtin_model.encode("a")[-1:]
        said = "The "
        try:
            for length in range(0, 200, 20):
                matcher.mask([token] * length)
        except UserError as error:
            said = str(error)
        assert said.startswith("The ")


def test_plain_data_makes_a_constraint() -> None:
    assert constraint_of(None) is None
    made = constraint_of({"kind": "json_schema", "text": json.dumps({"title": "Person"})})
    assert made is not None
    assert made.name == "Person"
    with pytest.raises(UserError, match="json_schema, json_object, regex, grammar"):
        constraint_of({"kind": "xml"})
