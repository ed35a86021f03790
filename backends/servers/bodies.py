"""What each engine is asked: the same request in its own fields. An unknown one gets those of the OpenAI API alone."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from secrets import token_hex
from typing import Any

from ...errors import UserError
from ..base import Message, Sampling
from ..grammars.constraint import Constraint
from .identify import LLAMA_CPP, LLAMA_SERVER, LM_STUDIO, OLLAMA, SGLANG, VLLM, Served
from .refusals import words_of
from .thoughts import asked, with_thought

LONG_ENOUGH = 4096
"""Tokens of a completion without a limit, where the server would stop after 16 and does not tell its context."""


@dataclass(frozen=True, slots=True)
class ServerRequest:
    """What is asked of a server."""

    messages: Sequence[Message] | None
    """A chat; None if `prompt` is to be continued as it is."""
    prompt: str = ""
    sampling: Sampling = field(default_factory=Sampling)
    max_tokens: int | None = None
    stop: Sequence[str] = ()
    afresh: bool = False
    """Read the whole prompt, whatever the server has kept of earlier ones: to be measured."""
    constraint: Constraint | None = None
    """What the answer must match."""
    think: str = ""
    """How to think, in a word; this and the next two are those of the engine's `Generate`."""
    think_budget: int | None = None
    template_vars: Mapping[str, Any] = field(default_factory=dict)


def body_of(served: Served, request: ServerRequest, under: str = "") -> tuple[str, dict[str, Any]]:
    """Path and body.

    Args:
        served: what the server is.
        request: what is asked.
        under: the field that its thoughts have come in; empty for none so far.

    Raises:
        UserError: the engine has no such setting.
    """
    body: dict[str, Any] = {"stream": True}
    if served.model:
        body["model"] = served.model
    if request.messages is not None:
        path = "/chat/completions"
        body["messages"] = [with_thought(served.engine, dict(message), under) for message in request.messages]
        body |= asked(served.engine, _thinking(served, request), request.think_budget, request.template_vars)
    else:
        path, body["prompt"] = "/completions", request.prompt
    if request.max_tokens is not None:
        body["max_tokens"] = request.max_tokens
    elif path == "/completions" and served.engine != LLAMA_SERVER:
        body["max_tokens"] = served.context or LONG_ENOUGH
    if request.stop:
        body["stop"] = list(request.stop)
    if request.constraint is not None:
        body |= _constraint(served, request.constraint, chat=path == "/chat/completions")
        if served.engine == LLAMA_SERVER and path == "/chat/completions" and request.constraint.is_json:
            body["reasoning_format"] = "deepseek"  # with `none` it refuses a schema behind a thought that the prompt opens
    fields = body | _sampling(served, request.sampling) | _told(served)
    return served.api + path, fields | (_afresh(served) if request.afresh else {})


def _thinking(served: Served, request: ServerRequest) -> str:
    """How to think, in a word. llama-server holds a thought to a grammar, too, so that there is none."""
    if served.engine != LLAMA_SERVER or request.constraint is None or request.constraint.is_json:
        return request.think
    if request.think not in ("", "off"):
        raise UserError(f"{served.engine} holds a thought to the grammar, too. Set think to off, or use a schema.")
    return "off"


SAMPLED = (
    *("temperature", "top_p", "top_k", "min_p", "repetition_penalty", "repeat_penalty", "seed"),
    *("chat_template_kwargs", "reasoning_effort", "thinking_budget_tokens", "thinking_token_budget"),
)
"""Fields without which an answer is another one, but an answer."""
TELLING = (
    *("stream_options", "return_token_ids", "timings_per_token", "return_progress", "verbose"),
    *("return_spec_tokens_details", "cache_prompt", "cache_salt"),
)
"""Fields without which less is known of it."""

_VAGUE = re.compile(
    "field|param|argument|propert|extra|unexpected|unrecogni|not permitted|support|not allowed|schema|validation"
    "|invalid request|bad request",
    re.IGNORECASE,
)
"""Words of a refusal that may be about a field although it names none."""


def without(body: dict[str, Any], status: int, refusal: Any, limited: bool) -> dict[str, Any]:
    """A request without the fields that a server refused; the same where none of those is to blame that can be left out.

    Args:
        body: the request.
        status: of the refusal.
        refusal: what came with it.
        limited: `max_tokens` is the user's own.
    """
    said = json.dumps(refusal)
    own = () if limited else ("max_tokens",)
    inner = {name: (name, *value) if isinstance(value := body[name], dict) else (name,) for name in body}
    named = [name for name in (*SAMPLED, *TELLING, *own) if any(_names(said, each) for each in inner.get(name, ()))]
    if _names(said, "stream") and re.search("support|allow|enabled|disabled|must be false", said, re.IGNORECASE):
        named += ["stream", "stream_options"]  # then the answer comes whole
    if "max_tokens" in body and "max_completion_tokens" in said:  # OpenAI's newer name
        rest = {name: value for name, value in body.items() if name != "max_tokens"}
        return rest | {"max_completion_tokens": body["max_tokens"]}
    if not named and status in (400, 422):
        words = words_of(refusal)
        named = [name for name in TELLING if name in body and (not words or _VAGUE.search(words))]
    return {name: value for name, value in body.items() if name not in named}


def _names(said: str, field: str) -> bool:
    return re.search(rf"(?<![a-z_]){field.replace('_', '[_ ]?')}(ing)?(?![a-z_])", said, re.IGNORECASE) is not None


def _sampling(served: Served, sampling: Sampling) -> dict[str, Any]:
    """Engines that have every setting get every setting: their own defaults differ."""
    body: dict[str, Any] = {"temperature": sampling.temperature}
    rest = {"top_k": sampling.top_k, "min_p": sampling.min_p, "repetition_penalty": sampling.repetition_penalty}
    if not sampling.greedy:
        body |= {"top_p": sampling.top_p, "seed": sampling.seed}
    match served.engine:
        case "llama-server" | "llama_cpp.server":
            rest["repeat_penalty"] = rest.pop("repetition_penalty")
            return body | rest
        case "vLLM" | "SGLang":
            return body | rest | {"top_k": sampling.top_k or -1}
    plain = Sampling()
    given = {name: value for name, value in rest.items() if value != getattr(plain, name)}
    if given and served.engine == OLLAMA:  # it would ignore them without a word
        raise UserError(f"{served.engine} does not take {' and '.join(given)}. Leave them out, or ask another server.")
    return body | given


FORMATTED = (LLAMA_SERVER, VLLM, SGLANG, OLLAMA, LM_STUDIO, LLAMA_CPP, "")
"""Engines that take `response_format` in chats; an unknown one is taken to speak the OpenAI API."""
GRAMMARS = {VLLM: ("structured_outputs", "grammar"), SGLANG: ("ebnf",), LLAMA_SERVER: ("grammar",), LLAMA_CPP: ("grammar",)}
"""Engines that take a grammar, all of them in GBNF → where."""


def _constraint(served: Served, constraint: Constraint, *, chat: bool) -> dict[str, Any]:
    engine, kind, text = served.engine, constraint.kind, constraint.text
    if constraint.is_json and engine in (FORMATTED if chat else (LLAMA_SERVER, VLLM, SGLANG)):
        if kind == "json_object" and engine != LM_STUDIO:  # which knows schemas alone
            return {"response_format": {"type": "json_object"}}
        if engine == LLAMA_CPP:
            return {"response_format": {"type": "json_object", "schema": constraint.schema}}
        schema = {"name": "answer", "schema": constraint.schema, "strict": True}
        return {"response_format": {"type": "json_schema", "json_schema": schema}}
    if kind == "regex" and engine in (VLLM, SGLANG):
        return {"structured_outputs": {"regex": text}} if engine == VLLM else {"regex": text}
    if kind == "grammar" and engine in GRAMMARS:
        if not constraint.is_gbnf:
            raise UserError(f"{engine} takes grammars in GBNF alone, not in Lark. Write this one in GBNF.")
        first, *below = GRAMMARS[engine]
        return {first: {below[0]: text} if below else text}
    what = {"json_schema": "a schema", "json_object": "a schema", "regex": "a regex", "grammar": "a grammar"}[kind]
    where = "" if chat else " outside chats"
    raise UserError(f"{engine or 'This server'} does not take {what}{where}. Leave it out, or ask another server.")


def _afresh(served: Served) -> dict[str, Any]:
    """What makes the server read a prompt that it has in its cache; the others have no such setting."""
    match served.engine:
        case "llama-server":
            return {"cache_prompt": False, "reasoning_format": "none"}  # marks are tokens of the answer, too
        case "vLLM":  # what has another salt is another prompt
            return {"cache_salt": token_hex(8)}
    return {}


def _told(served: Served) -> dict[str, Any]:
    """What makes the server show its passes."""
    usage = {"stream_options": {"include_usage": True}}
    match served.engine:
        case "llama-server":
            return usage | {"timings_per_token": True, "return_progress": True, "verbose": True}
        case "vLLM":
            return usage | {"return_token_ids": True}
        case "SGLang":
            return usage | {"return_spec_tokens_details": True}
        case "transformers serve" | "llama_cpp.server":  # they send none
            return {}
    return usage
