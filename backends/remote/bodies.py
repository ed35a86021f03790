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
from .dialects import DIALECTS, LLAMA_SERVER, OLLAMA
from .identify import Served
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
    fields = body | _sampling(served, request.sampling) | dict(DIALECTS[served.engine].telling)
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


def without(body: dict[str, Any], refusal: Any, limited: bool) -> dict[str, Any]:
    """A request without the fields that a server refused; the same where none of those is to blame that can be left out.

    Args:
        body: the request.
        refusal: what came with the refusal.
        limited: `max_tokens` is the user's own.
    """
    said = json.dumps(refusal)
    if "max_tokens" in body and "max_completion_tokens" in said:  # OpenAI's newer name
        rest = {name: value for name, value in body.items() if name != "max_tokens"}
        return rest | {"max_completion_tokens": body["max_tokens"]}
    own = () if limited else ("max_tokens",)
    named = [name for name in (*SAMPLED, *TELLING, *own) if _names(said, name)]
    return {name: value for name, value in body.items() if name not in named}


def _names(said: str, field: str) -> bool:
    return re.search(rf"(?<![a-z_]){field.replace('_', '[_ ]?')}(ing)?(?![a-z_])", said, re.IGNORECASE) is not None


def _sampling(served: Served, sampling: Sampling) -> dict[str, Any]:
    body: dict[str, Any] = {"temperature": sampling.temperature}
    if not sampling.greedy:
        body |= {"top_p": sampling.top_p, "seed": sampling.seed}
    rest = {"top_k": sampling.top_k, "min_p": sampling.min_p, "repetition_penalty": sampling.repetition_penalty}
    dialect, plain = DIALECTS[served.engine], Sampling()
    if dialect.samples:
        rest[dialect.penalty] = rest.pop("repetition_penalty")
        return body | rest | {"top_k": sampling.top_k or dialect.no_top_k}
    given = {name: value for name, value in rest.items() if value != getattr(plain, name)}
    if given and served.engine == OLLAMA:  # it would ignore them without a word
        raise UserError(f"{served.engine} does not take {' and '.join(given)}. Leave them out, or ask another server.")
    return body | given


def _constraint(served: Served, constraint: Constraint, *, chat: bool) -> dict[str, Any]:
    engine, kind, text = served.engine, constraint.kind, constraint.text
    dialect = DIALECTS[engine]
    if constraint.is_json and (chat or dialect.completes):
        if kind == "json_object":
            return {"response_format": {"type": "json_object"}}
        schema = {"name": "answer", "schema": constraint.schema, "strict": True}
        return {"response_format": {"type": "json_schema", "json_schema": schema}}
    path = {"regex": dialect.regex, "grammar": dialect.grammar}.get(kind, ())
    if not path:
        what = "a schema" if constraint.is_json else f"a {kind}"
        where = "" if chat else " outside chats"
        raise UserError(f"{engine} does not take {what}{where}. Leave it out, or ask another server.")
    if kind == "grammar" and not constraint.is_gbnf:
        raise UserError(f"{engine} takes grammars in GBNF alone, not in Lark. Write this one in GBNF.")
    first, *below = path
    return {first: {below[0]: text} if below else text}


def _afresh(served: Served) -> dict[str, Any]:
    """What makes the server read a prompt that it has in its cache; the others have no such setting."""
    match served.engine:
        case "llama-server":
            return {"cache_prompt": False, "reasoning_format": "none"}  # marks are tokens of the answer, too
        case "vLLM":  # what has another salt is another prompt
            return {"cache_salt": token_hex(8)}
    return {}
