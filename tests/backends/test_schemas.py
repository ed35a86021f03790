"""Schemas of real life are compiled, or refused by name; servers get constraints and thoughts in their own fields."""

from __future__ import annotations

import json
from typing import Any

import pytest

from specchat.backends import Message, Model, UserError
from specchat.backends.grammars.constraint import Constraint, parse_constraint
from specchat.backends.grammars.matcher import Matcher
from specchat.backends.remote.bodies import LLAMA_SERVER, OLLAMA, SGLANG, UNKNOWN, VLLM, Served, ServerRequest, build_body
from specchat.engine.messages import Generate
from specchat.engine.remote import make_server_request

from ..fakes.constraints import grammar, json_object, json_schema, regex

S, I = {"type": "string"}, {"type": "integer"}  # noqa: E741


def obj(required: str = "", more: Any = False, **properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": required.split(), "additionalProperties": more}


def arr(items: Any, **more: Any) -> dict[str, Any]:
    return {"type": "array", "items": items, **more}


def text(**more: Any) -> dict[str, Any]:
    return {"type": "string", **more}


TREE = {"$defs": {"node": obj("value", value=I, children=arr({"$ref": "#/$defs/node"}))}, "$ref": "#/$defs/node"}

TAKEN: dict[str, Any] = {
    "json patch": arr(obj("op path", op={"enum": ["add", "remove", "replace"]}, path=text(pattern="^/"), value={})),
    "either": obj("id", id={"anyOf": [I, text(format="uuid")]}, nick={"type": ["string", "null"]}),
    "headers": {"type": "object", "patternProperties": {"^x-[a-z]+$": S}, "additionalProperties": False},
    "formats": obj("v4 at", v4=text(format="ipv4"), host=text(format="hostname"), at=text(format="time")),
    "tree": TREE,
    "all of": {"allOf": [{"type": "object", "properties": {"a": S}, "required": ["a"]}, {"properties": {"b": I}}]},
    "any json": {},
    "rows": {"type": ["array", "null"], "items": {"$ref": "#"}, "minItems": 1},
}
"""Those that can be enforced."""

REFUSED: dict[str, tuple[Any, str]] = {
    "unique tags": (arr(S, uniqueItems=True), "cannot be used: .*uniqueItems"),
    "conditional": ({"if": {"properties": {"a": S}}, "then": {"required": ["b"]}}, "if.*then"),
    "overlap": ({"oneOf": [S, text(maxLength=3)]}, "oneOf"), "iban": (text(format="iban"), "iban"),
    "no JSON": ('{"type": "object",}', r"is not JSON \(line 1, column 19"), "no schema": ("[1, 2]", "must be a JSON object"),
    "too short": (text(minLength=5, maxLength=2), "Unsatisfiable"), "missing": ({"$ref": "#/$defs/nowhere"}, "nowhere"),
    "remote": ({"$ref": "https://example.com/x.json"}, "example.com"),
    "too deep": ('{"items":' * 2000 + "{}" + "}" * 2000, "nested too deeply"),
    "too many": ({"enum": [f"i{i}" for i in range(100_000)]}, "cannot be used: "),
}  # fmt: skip
"""Schemas that cannot, each with what is said of it."""


@pytest.mark.parametrize("name", TAKEN)
def test_a_schema_is_compiled_and_begun(builtin_model: Model, name: str) -> None:
    constraint = json_schema(TAKEN[name])
    constraint.check()
    matcher = Matcher(builtin_model.grammar_tokenizer(), constraint)
    assert matcher.mask(()).any()


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_enforced_is_one_sentence(name: str) -> None:
    schema, sentence = REFUSED[name]
    with pytest.raises(UserError, match=sentence) as caught:
        json_schema(schema).check()
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith("The schema ")


@pytest.mark.parametrize(("constraint", "sentence"), [
    (regex("(a"), "The regex cannot be used: unclosed group."), (regex("(?=a)b"), "look-around"),
    (grammar("start: nowhere"), 'unknown name: "nowhere"'), (grammar("root ::= ("), "The grammar cannot be read"),
])  # fmt: skip
def test_a_broken_pattern_gets_one_sentence(constraint: Any, sentence: str) -> None:
    with pytest.raises(UserError) as found:
        constraint.check()
    assert sentence in str(found.value)
    assert "\n" not in str(found.value)


def test_a_grammar_of_nothing_is_refused_and_an_exploding_one_ends_with_a_sentence_or_goes_on(builtin_model: Model) -> None:
    with pytest.raises(UserError):
        Matcher(builtin_model.grammar_tokenizer(), grammar("start: start"))
    for constraint in (
        regex("(.*a.{200}b){30}"),
        regex("((a{1,500}){1,500}){1,500}"),
        grammar('start: start start | "a" | "b"'),
    ):
        matcher = Matcher(builtin_model.grammar_tokenizer(), constraint)
        (token,) = builtin_model.encode("a")[-1:]
        sentence = "The "
        try:
            for length in range(0, 200, 20):
                matcher.mask([token] * length)
        except UserError as error:
            sentence = str(error)
        assert sentence.startswith("The ")


def test_plain_data_makes_a_constraint() -> None:
    assert parse_constraint(None) is None
    constraint = parse_constraint({"kind": "json_schema", "text": json.dumps({"title": "Person"})})
    assert constraint is not None
    assert constraint.name == "Person"
    with pytest.raises(UserError, match="json_schema, json_object, regex, grammar"):
        parse_constraint({"kind": "xml"})


SCHEMA: dict[str, Any] = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
FORMAT = {"type": "json_schema", "json_schema": {"name": "answer", "schema": SCHEMA, "strict": True}}
GBNF = 'root ::= "yes" | "no"'
CHAT: list[Message] = [{"role": "user", "content": "hi"}]
NONE = "does not take"

BY_ENGINE: list[tuple[str, Constraint, Any, Any]] = [
    ("llama-server", json_schema(SCHEMA), {"response_format": FORMAT}, {"response_format": FORMAT}),
    ("vLLM", json_schema(SCHEMA), {"response_format": FORMAT}, {"response_format": FORMAT}),
    ("SGLang", json_schema(SCHEMA), {"response_format": FORMAT}, {"response_format": FORMAT}),
    ("Ollama", json_schema(SCHEMA), {"response_format": FORMAT}, "does not take a schema outside chats"),
    ("OpenAI-compatible", json_schema(SCHEMA), {"response_format": FORMAT}, NONE),
    ("vLLM", json_object(), {"response_format": {"type": "json_object"}}, {"response_format": {"type": "json_object"}}),
    ("vLLM", regex("[a-c]+"), {"structured_outputs": {"regex": "[a-c]+"}}, {"structured_outputs": {"regex": "[a-c]+"}}),
    ("SGLang", regex("[a-c]+"), {"regex": "[a-c]+"}, {"regex": "[a-c]+"}),
    ("llama-server", regex("[a-c]+"), "llama-server does not take a regex.", NONE),
    ("vLLM", grammar(GBNF), {"structured_outputs": {"grammar": GBNF}}, {"structured_outputs": {"grammar": GBNF}}),
    ("SGLang", grammar(GBNF), {"ebnf": GBNF}, {"ebnf": GBNF}),
    ("llama-server", grammar(GBNF), {"grammar": GBNF}, {"grammar": GBNF}),
    ("llama-server", grammar('start: "yes"'), "GBNF alone, not in Lark", "GBNF alone"),
    ("Ollama", grammar(GBNF), "Ollama does not take a grammar.", NONE),
]


@pytest.mark.parametrize(("engine", "constraint", "chat", "text"), BY_ENGINE)
def test_each_engine_gets_its_own_fields(engine: str, constraint: Constraint, chat: Any, text: Any) -> None:
    served = Served(engine, "/v1", "model")
    for request, expected in (
        (ServerRequest(CHAT, constraint=constraint), chat),
        (ServerRequest(None, "hi", constraint=constraint), text),
    ):
        if isinstance(expected, str):
            with pytest.raises(UserError, match=expected):
                build_body(served, request)
            continue
        _, body = build_body(served, request)
        fields = ("response_format", "structured_outputs", "grammar", "regex", "ebnf")
        assert {name: body[name] for name in fields if name in body} == expected


def test_llama_server_thinks_freely_before_a_schema_and_not_at_all_before_a_grammar() -> None:
    """It would hold the thought to the grammar; and refuses a schema where the prompt opens a thought that it does not take out
    (seen on 0.5.0, build 0c1e570)."""
    served = Served("llama-server", "/v1", "model")
    _, body = build_body(served, ServerRequest(CHAT, constraint=json_schema(SCHEMA), think="on"))
    assert (body["reasoning_format"], body["chat_template_kwargs"]["enable_thinking"]) == ("deepseek", True)
    for think in ("", "off", "on"):
        _, body = build_body(served, ServerRequest(CHAT, constraint=grammar(GBNF), think=think))
        assert body["chat_template_kwargs"]["enable_thinking"] is False


def test_what_comes_back_is_looked_at() -> None:
    """White space and the order of keys are the server's own affair; what the schema says is not."""
    schema = {**SCHEMA, "properties": {"b": {"type": "string"}, **SCHEMA["properties"]}, "required": ["b", "a"]}
    constraint = json_schema(schema)
    assert constraint.matches('{ "a":3,\n "b": "ü" }')
    assert not constraint.matches('{"a": 3}')
    assert not constraint.matches('{"a": "3", "b": "x"}')
    assert not constraint.matches('{"a": 3, "b": "x"')
    assert constraint.matches('{"b": "x", "a": 3.0}')
    assert not constraint.matches('{"b": "x", "a": 2.5}')
    assert json_schema({"$ref": "https://example.com/schema"}).matches("1")
    assert json_schema({"type": "string", "format": "time"}).matches('"12:30:03-05:03"')
    assert not json_schema({"type": "string", "format": "ipv4"}).matches('"1.2.3"')
    assert regex("[a-c]+ é").matches("abc é")
    assert not grammar(GBNF).matches("yes, no")


BACK: list[Message] = [
    {"role": "user", "content": "hi"},
    {"role": "assistant", "content": "Hi", "thought": "Hm"},
    {"role": "user", "content": "?"},
]


def request_of(engine: str, request: ServerRequest, under: str = "") -> dict[str, Any]:
    return build_body(Served(engine, "/v1", "m"), request, under)[1]


def test_a_thought_goes_back_where_the_engine_takes_it() -> None:
    """Unknown servers get it under the name that it came under."""
    fields = {LLAMA_SERVER: "reasoning_content", VLLM: "reasoning", SGLANG: "reasoning_content", OLLAMA: "reasoning"}
    for engine, field in {**fields, UNKNOWN: ""}.items():
        back = request_of(engine, ServerRequest(BACK))["messages"][1]
        assert back == {"role": "assistant", "content": "Hi"} | ({field: "Hm"} if field else {}), engine
    for field in ("reasoning", "reasoning_content"):
        assert request_of(UNKNOWN, ServerRequest(BACK), field)["messages"][1][field] == "Hm"


@pytest.mark.parametrize(("engine", "think", "sent"), [
    (LLAMA_SERVER, "off", {"chat_template_kwargs": {"enable_thinking": False, "thinking": False}}),
    (LLAMA_SERVER, "high", {"chat_template_kwargs": {"reasoning_effort": "high"}}),
    (VLLM, "on", {"chat_template_kwargs": {"enable_thinking": True, "thinking": True}}),
    (VLLM, "low", {"reasoning_effort": "low"}), (OLLAMA, "off", {"reasoning_effort": "none"}),
    (UNKNOWN, "high", {"reasoning_effort": "high"}), (UNKNOWN, "", {}),
])  # fmt: skip
def test_a_word_goes_out_as_the_engine_takes_it(engine: str, think: str, sent: dict[str, Any]) -> None:
    request = make_server_request(Generate(1, prompt="hi", think=think))
    body = request_of(engine, request)
    assert {name: body[name] for name in ("chat_template_kwargs", "reasoning_effort") if name in body} == sent


def test_budgets_and_variables() -> None:
    request = make_server_request(
        Generate(1, prompt="hi", think="on", think_budget=9, template_vars={"enable_thinking": "maybe", "x": 1})
    )
    body = request_of(LLAMA_SERVER, request)
    assert body["thinking_budget_tokens"] == 9
    assert body["chat_template_kwargs"] == {"enable_thinking": "maybe", "thinking": True, "x": 1}
    for wrong in ({"think_budget": 9}, {"template_vars": {"x": 1}}):
        with pytest.raises(UserError, match="Leave out"):
            request_of(UNKNOWN, make_server_request(Generate(1, prompt="hi", **wrong)))
