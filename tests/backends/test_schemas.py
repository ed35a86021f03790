"""Schemas of real life are compiled, or refused with the name of the part; broken ones get a sentence."""

from __future__ import annotations

import json
from typing import Any

import pytest

from specchat.backends import Model, UserError
from specchat.backends.grammars.constraint import grammar, json_schema, parse_constraint, regex
from specchat.backends.grammars.matcher import Matcher

S, I, N, B = {"type": "string"}, {"type": "integer"}, {"type": "number"}, {"type": "boolean"}  # noqa: E741


def obj(required: str = "", more: Any = False, **properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": required.split(), "additionalProperties": more}


def arr(items: Any, **more: Any) -> dict[str, Any]:
    return {"type": "array", "items": items, **more}


def text(**more: Any) -> dict[str, Any]:
    return {"type": "string", **more}


def by_draft(draft: str, **words: Any) -> dict[str, Any]:
    return {"$schema": f"http://json-schema.org/{draft}", **words}


UUID = text(format="uuid")
TREE = {"$defs": {"node": obj("value", value=I, children=arr({"$ref": "#/$defs/node"}))}, "$ref": "#/$defs/node"}

TAKEN: dict[str, Any] = {
    # APIs
    "json patch": arr(obj("op path", op={"enum": ["add", "remove", "replace"]}, path=text(pattern="^/"), value={})),
    "geo point": obj("type coordinates", type={"const": "Point"}, coordinates=arr(N, minItems=2, maxItems=3)),
    "nullable": obj("name nick", name=S, nick={"type": ["string", "null"]}),
    "either": obj("id", id={"anyOf": [I, UUID]}),
    "headers": {"type": "object", "patternProperties": {"^x-[a-z]+$": S}, "additionalProperties": False},
    "ip": obj("v4", v4=text(format="ipv4"), v6=text(format="ipv6"), host=text(format="hostname")),
    "times": obj("at for", at=text(format="time"), **{"for": text(format="duration")}),
    # Extraction, classification, reasoning
    "tree": TREE,
    "expression": {
        "$defs": {"e": {"anyOf": [N, obj("op of", op={"enum": ["+", "*"]}, of=arr({"$ref": "#/$defs/e"}, minItems=2))]}},
        "$ref": "#/$defs/e",
    },
    "all of": {"allOf": [{"type": "object", "properties": {"a": S}, "required": ["a"]}, {"properties": {"b": I}}]},
    "any json": {},
    "draft 7": by_draft("draft-07/schema#", properties={"prefixItems": {"const": {"prefixItems": 1}}}),
    # Recursion that can end
    "list": {"type": ["object", "null"], "properties": {"next": {"$ref": "#"}}, "required": ["next"]},
    "rows": {"type": ["array", "null"], "items": {"$ref": "#"}, "minItems": 1},
    "anchor": {"$defs": {"t": {"$anchor": "t", **obj("kids", kids=arr({"$ref": "#t"}))}}, "$ref": "#t"},
}
"""Those that can be enforced."""

REFUSED: dict[str, tuple[Any, str]] = {
    "unique tags": (arr(S, uniqueItems=True), "uses uniqueItems"),
    "conditional": ({"if": {"properties": {"a": S}}, "then": {"required": ["b"]}}, "uses if and then"),
    "not empty": ({"not": {"const": ""}}, "uses not"),
    "contains": (arr(S, contains={"const": "x"}), "uses contains"),
    "names": ({"type": "object", "propertyNames": {"pattern": "^a"}}, "uses propertyNames"),
    "tuple in draft 7": (
        by_draft("draft-07/schema#", properties={"const": {"prefixItems": [I]}}),
        "uses prefixItems, which its",
    ),
    "tuple in 2019-09": (by_draft("draft/2019-09/schema", anyOf=[{"prefixItems": [I]}]), "uses prefixItems, which its"),
    "two words": (
        by_draft("draft-07/schema#", items={"dependentRequired": {}, "unevaluatedItems": False}),
        "uses dependentRequired and unevaluatedItems, which its",
    ),
    "constant in draft 4": (by_draft("draft-04/schema#", const={"contains": 1}), "uses const, which its"),
    "overlap": ({"oneOf": [S, text(maxLength=3)]}, "uses oneOf with alternatives that overlap"),
    "iban": (text(format="iban"), "uses the format 'iban'"),
}
"""Those that cannot, each with what is said of it."""

BROKEN: dict[str, tuple[str, str]] = {
    "no JSON": ('{"type": "object",}', r"is not JSON \(line 1, column 19"),
    "no schema": ("[1, 2]", "must be a JSON object"),
    "too short": ('{"type": "string", "minLength": 5, "maxLength": 2}', "contradicts itself"),
    "two types": ('{"allOf": [{"type": "string"}, {"type": "integer"}]}', "contradicts itself"),
    "never": ('{"type": "object", "required": ["a"], "properties": {"a": false}}', "contradicts itself"),
    "missing": ('{"$ref": "#/$defs/nowhere"}', "refers to #/.defs/nowhere, which it does not have"),
    "remote": ('{"$ref": "https://example.com/x.json"}', "nothing is fetched"),
    "too deep": ('{"items":' * 2000 + "{}" + "}" * 2000, "nested too deeply"),
    "too long": ('{"description": "' + "x" * 1_000_001 + '"}', "more than 1,000,000"),
    "too many": ('{"enum": [' + ",".join(f'"i{i}"' for i in range(100_000)) + "]}", "too large to follow"),
}
"""Texts that are no schemas that anything could match, with what is said."""


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
    assert parse_constraint(None) is None
    made = parse_constraint({"kind": "json_schema", "text": json.dumps({"title": "Person"})})
    assert made is not None
    assert made.name == "Person"
    with pytest.raises(UserError, match="json_schema, json_object, regex, grammar"):
        parse_constraint({"kind": "xml"})
