"""Requests to each engine: constraints, thoughts and words for thinking in its own fields, or refused with the reason."""

from __future__ import annotations

from typing import Any

import pytest

from specchat.backends import Message, UserError
from specchat.backends.grammars.constraint import Constraint, grammar, json_object, json_schema, regex
from specchat.backends.remote.bodies import ServerRequest, build_body
from specchat.backends.remote.dialects import LLAMA_SERVER, OLLAMA, SGLANG, UNKNOWN, VLLM
from specchat.backends.remote.identify import Served
from specchat.engine.messages import Generate
from specchat.engine.remote import make_server_request

SCHEMA: dict[str, Any] = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
FORMAT = {"type": "json_schema", "json_schema": {"name": "answer", "schema": SCHEMA, "strict": True}}
GBNF = 'root ::= "yes" | "no"'
CHAT: list[Message] = [{"role": "user", "content": "hi"}]
NONE = "does not take"

TAKEN: list[tuple[str, Constraint, Any, Any]] = [
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


@pytest.mark.parametrize(("engine", "constraint", "chat", "text"), TAKEN)
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
    for think in ("", "off"):
        _, body = build_body(served, ServerRequest(CHAT, constraint=grammar(GBNF), think=think))
        assert body["chat_template_kwargs"]["enable_thinking"] is False
    with pytest.raises(UserError, match="Set think to off, or use a schema"):
        build_body(served, ServerRequest(CHAT, constraint=grammar(GBNF), think="on"))


def test_what_comes_back_is_looked_at() -> None:
    """White space and the order of keys are the server's own affair; what the schema says is not."""
    schema = {**SCHEMA, "properties": {"b": {"type": "string"}, **SCHEMA["properties"]}, "required": ["b", "a"]}
    asked = json_schema(schema)
    assert asked.matches('{ "a":3,\n "b": "ü" }')
    assert not asked.matches('{"a": 3}')
    assert not asked.matches('{"a": "3", "b": "x"}')
    assert not asked.matches('{"a": 3, "b": "x"')
    owner = {
        "type": "object",
        "properties": {"name": {"type": "string"}, "id": {"type": "integer"}},
        "required": ["name", "id"],
    }
    nested = json_schema({"type": "object", "properties": {"id": {"type": "integer"}, "owner": owner}})
    assert nested.matches('{"id": 1, "owner": {"name": "Ana", "id": 2}}')
    assert nested.matches('{"owner": {"id": 2.0, "name": "Ana"}, "id": 1e0}')
    assert not nested.matches('{"id": 1, "owner": {"name": "Ana", "id": 2.5}}')
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
    """Build the body that a server of this engine gets."""
    return build_body(Served(engine, "/v1", "m"), request, under)[1]


def test_a_thought_goes_back_where_the_engine_takes_it() -> None:
    """To an unknown server under the name that it came under."""
    fields = {LLAMA_SERVER: "reasoning_content", VLLM: "reasoning", SGLANG: "reasoning_content", OLLAMA: "reasoning"}
    for engine, field in {**fields, UNKNOWN: ""}.items():
        back = request_of(engine, ServerRequest(BACK))["messages"][1]
        assert back == {"role": "assistant", "content": "Hi"} | ({field: "Hm"} if field else {}), engine
    for field in ("reasoning", "reasoning_content"):
        assert request_of(UNKNOWN, ServerRequest(BACK), field)["messages"][1][field] == "Hm"


@pytest.mark.parametrize(
    ("engine", "think", "sent"),
    [
        (LLAMA_SERVER, "off", {"chat_template_kwargs": {"enable_thinking": False, "thinking": False}}),
        (LLAMA_SERVER, "high", {"chat_template_kwargs": {"reasoning_effort": "high"}}),
        (VLLM, "on", {"chat_template_kwargs": {"enable_thinking": True, "thinking": True}}),
        (VLLM, "low", {"reasoning_effort": "low"}),
        (OLLAMA, "off", {"reasoning_effort": "none"}),
        (UNKNOWN, "high", {"reasoning_effort": "high"}),
        (UNKNOWN, "", {}),
    ],
)
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
