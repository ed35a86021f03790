"""Dialects of the OpenAI API, and the bodies of requests in them: the fields of each engine, in one row. Any other server gets
those of the API alone."""

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

LLAMA_SERVER, VLLM, SGLANG, OLLAMA, UNKNOWN = "llama-server", "vLLM", "SGLang", "Ollama", "OpenAI-compatible"

USAGE = {"stream_options": {"include_usage": True}}


@dataclass(frozen=True, slots=True)
class Dialect:
    """The fields of one engine."""

    owner: str = ""
    """Value of `owned_by` in its list of models."""
    reporting: Mapping[str, Any] = field(default_factory=lambda: USAGE)
    """Fields that make it report its passes."""
    samples: bool = False
    """Whether it takes every setting of sampling. It then gets every one, as its defaults differ from ours."""
    penalty: str = "repetition_penalty"
    """Field of the repetition penalty."""
    no_top_k: int = 0
    """Value of `top_k` that means no limit."""
    thought: str = ""
    """Field of a message that takes an earlier thought."""
    budget: str = ""
    """Field for the most tokens of a thought; empty if it takes none."""
    templates: bool = False
    """Whether it takes variables for the chat template."""
    effort: bool = False
    """Whether words for how to think are a variable of the chat template."""
    completes: bool = False
    """Whether it takes a schema outside chats too."""
    regex: tuple[str, ...] = ()
    """Path to its field for a regex; empty if it takes none."""
    grammar: tuple[str, ...] = ()
    """Path to its field for a grammar in GBNF; empty if it takes none."""


DIALECTS: Mapping[str, Dialect] = {
    LLAMA_SERVER: Dialect(
        owner="llamacpp",
        reporting={**USAGE, "timings_per_token": True, "return_progress": True, "verbose": True},
        samples=True,
        penalty="repeat_penalty",
        thought="reasoning_content",
        budget="thinking_budget_tokens",
        templates=True,
        effort=True,
        completes=True,
        grammar=("grammar",),
    ),
    VLLM: Dialect(
        owner="vllm",
        reporting={**USAGE, "return_token_ids": True},
        samples=True,
        no_top_k=-1,
        thought="reasoning",
        budget="thinking_token_budget",
        templates=True,
        completes=True,
        regex=("structured_outputs", "regex"),
        grammar=("structured_outputs", "grammar"),
    ),
    SGLANG: Dialect(
        owner="sglang",
        reporting={**USAGE, "return_spec_tokens_details": True},
        samples=True,
        no_top_k=-1,
        thought="reasoning_content",
        templates=True,
        completes=True,
        regex=("regex",),
        grammar=("ebnf",),
    ),
    OLLAMA: Dialect(thought="reasoning"),
    UNKNOWN: Dialect(),
}
"""Engine → its fields."""


PLAIN = "plain"
"""The method of a server that does not speculate."""
SPECULATION = "speculation"
"""The method of a server that speculates and does not say how."""
UNREPORTED = "server"
"""The method of a server that does not report any."""


@dataclass(frozen=True, slots=True)
class Served:
    """Facts about a server, known before it is asked for an answer."""

    engine: str
    api: str
    """Path below the server's root that has `/chat/completions`."""
    model: str
    """The model that requests name; empty if there is no need."""
    models: tuple[str, ...] = ()
    """All models that it lists."""
    version: str = ""
    context: int = 0
    """Tokens; 0 if it does not say."""
    method: str = UNREPORTED
    """Its way of decoding, as far as it says."""
    drafts: bool | None = None
    """Whether it speculates; None if it does not say."""


LONG_ENOUGH = 4096
"""Tokens of a completion without a limit, from a server that would stop after 16 and does not name its context."""


@dataclass(frozen=True, slots=True)
class ServerRequest:
    """A prompt for a server, with the options of its answer."""

    messages: Sequence[Message] | None
    """A chat; None if `prompt` is to be continued as it is."""
    prompt: str = ""
    sampling: Sampling = field(default_factory=Sampling)
    max_tokens: int | None = None
    stop: Sequence[str] = ()
    fresh: bool = False
    """Whether to read the whole prompt, whatever the server has cached: to measure it."""
    constraint: Constraint | None = None
    think: str = ""
    """A word for how to think; this and the next two are those of the engine's `Generate`."""
    think_budget: int | None = None
    template_vars: Mapping[str, Any] = field(default_factory=dict)


def build_body(served: Served, request: ServerRequest, thought_field: str = "") -> tuple[str, dict[str, Any]]:
    """Build the path and the body of a request.

    Args:
        served: facts about the server.
        request: the prompt and its options.
        thought_field: the field that the server's thoughts have come in; "" for none so far.

    Raises:
        UserError: the engine has no such setting.
    """
    dialect, chat = DIALECTS[served.engine], request.messages is not None
    body: dict[str, Any] = {"stream": True}
    if served.model:
        body["model"] = served.model
    if request.messages is not None:
        # A strict API refuses fields that it does not know: without a name a thought stays out.
        name = dialect.thought or thought_field
        body["messages"] = [_message(dict(message), name) for message in request.messages]
        body |= _thinking(served.engine, request)
    else:
        body["prompt"] = request.prompt
    if request.max_tokens is not None:
        body["max_tokens"] = request.max_tokens
    elif not chat and served.engine != LLAMA_SERVER:
        body["max_tokens"] = served.context or LONG_ENOUGH
    if request.stop:
        body["stop"] = list(request.stop)
    if request.constraint is not None:
        body |= _constraint(served.engine, request.constraint, chat)
    body |= _sampling(served.engine, request.sampling) | dict(dialect.reporting)
    if request.fresh and served.engine == LLAMA_SERVER:
        body |= {"cache_prompt": False, "reasoning_format": "none"}  # marks are tokens of the answer too
    elif request.fresh and served.engine == VLLM:
        body["cache_salt"] = token_hex(8)  # a prompt with another salt is another prompt
    return served.api + ("/chat/completions" if chat else "/completions"), body


def _message(message: dict[str, Any], thought_field: str) -> dict[str, Any]:
    """Move a message's thought to the field that takes it, or leave it out."""
    thought = message.pop("thought", "")
    return {**message, thought_field: thought} if thought and thought_field else message


def _thinking(engine: str, request: ServerRequest) -> dict[str, Any]:
    """Build the fields that switch thinking."""
    dialect, budget, think = DIALECTS[engine], request.think_budget, request.think
    variables = dict(request.template_vars)
    if variables and not dialect.templates:
        raise UserError(f"{engine} takes no variables for the chat template. Leave out {', '.join(variables)}.")
    if budget is not None and not dialect.budget:
        raise UserError(f"{engine} takes no budget for thoughts. Leave out think_budget.")
    if engine == LLAMA_SERVER and request.constraint is not None and not request.constraint.is_json:
        think = "off"  # it would hold the thought to the grammar, too
    body: dict[str, Any] = {dialect.budget: budget} if budget is not None else {}
    if think in ("on", "off") and dialect.templates:
        variables = {"enable_thinking": think == "on", "thinking": think == "on", **variables}
    elif think and dialect.effort:
        variables = {"reasoning_effort": think, **variables}
    elif think:
        body["reasoning_effort"] = {"off": "none", "on": "medium"}.get(think, think)
    return body | ({"chat_template_kwargs": variables} if variables else {})


def _sampling(engine: str, sampling: Sampling) -> dict[str, Any]:
    dialect, plain = DIALECTS[engine], Sampling()
    body: dict[str, Any] = {"temperature": sampling.temperature}
    if not sampling.greedy:
        body |= {"top_p": sampling.top_p, "seed": sampling.seed}
    if dialect.samples:
        top_k = sampling.top_k or dialect.no_top_k
        return body | {"top_k": top_k, "min_p": sampling.min_p, dialect.penalty: sampling.repetition_penalty}
    names = [name for name in ("top_k", "min_p", "repetition_penalty") if getattr(sampling, name) != getattr(plain, name)]
    if names and engine == OLLAMA:  # it would ignore them without a word
        raise UserError(f"{engine} does not take {' and '.join(names)}. Leave them out, or ask another server.")
    return body | {name: getattr(sampling, name) for name in names}


def _constraint(engine: str, constraint: Constraint, chat: bool) -> dict[str, Any]:
    kind, text, dialect = constraint.kind, constraint.text, DIALECTS[engine]
    if constraint.is_json and (chat or dialect.completes):
        schema = {"name": "answer", "schema": constraint.schema, "strict": True}
        form = {"type": kind} if kind == "json_object" else {"type": "json_schema", "json_schema": schema}
        # With `none` llama-server refuses a schema behind a thought that the prompt opens.
        return {"response_format": form} | ({"reasoning_format": "deepseek"} if chat and engine == LLAMA_SERVER else {})
    path = {"regex": dialect.regex, "grammar": dialect.grammar}.get(kind, ())
    if not path:
        noun = "a schema" if constraint.is_json else f"a {kind}"
        raise UserError(
            f"{engine} does not take {noun}{'' if chat else ' outside chats'}. Leave it out, or ask another server."
        )
    if kind == "grammar" and not constraint.is_gbnf:
        raise UserError(f"{engine} takes grammars in GBNF alone, not in Lark. Write this one in GBNF.")
    first, *below = path
    return {first: {below[0]: text} if below else text}


SAMPLING_FIELDS = """
    temperature top_p top_k min_p repetition_penalty repeat_penalty seed
    chat_template_kwargs reasoning_effort thinking_budget_tokens thinking_token_budget
""".split()
"""Fields that a request can do without, though its answer is then another one."""
REPORTING_FIELDS = """
    stream_options return_token_ids timings_per_token return_progress verbose
    return_spec_tokens_details cache_prompt cache_salt
""".split()
"""Fields that only tell more about an answer."""


def refused_fields(body: dict[str, Any], refusal: Any, limited: bool) -> dict[str, str]:
    """Find the fields that a server refused and that a request can do without: each with the name to send it by, "" to leave it
    out.

    Args:
        body: of the request.
        refusal: body of the refusal.
        limited: whether `max_tokens` is the user's.
    """
    text = json.dumps(refusal)
    if "max_tokens" in body and "max_completion_tokens" in text:
        return {"max_tokens": "max_completion_tokens"}
    optional = {*SAMPLING_FIELDS, *REPORTING_FIELDS} | (set() if limited else {"max_tokens"})
    patterns = {name: rf"(?<![a-z_]){name.replace('_', '[_ ]?')}(?![a-z_])" for name in body if name in optional}
    return {name: "" for name, pattern in patterns.items() if re.search(pattern, text, re.IGNORECASE)}
