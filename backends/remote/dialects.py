"""How engines differ in what they are asked: one row of fields for each; any other server gets those of the OpenAI API."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

LLAMA_SERVER, VLLM, SGLANG, OLLAMA, UNKNOWN = "llama-server", "vLLM", "SGLang", "Ollama", "OpenAI-compatible"

USAGE = {"stream_options": {"include_usage": True}}


@dataclass(frozen=True, slots=True)
class Dialect:
    """The fields of one engine."""

    telling: Mapping[str, Any] = field(default_factory=lambda: USAGE)
    """What makes it show its passes."""
    samples: bool = False
    """It takes every setting of sampling, and gets every one: its own defaults differ."""
    penalty: str = "repetition_penalty"
    """What it calls the repetition penalty."""
    no_top_k: int = 0
    """Its word for no `top_k`."""
    thought: str = ""
    """The field of a message in which it takes an earlier thought."""
    budget: str = ""
    """Its field for the most tokens of a thought; empty if it takes none."""
    templates: bool = False
    """It takes variables for the chat template."""
    effort: bool = False
    """Words for how to think are a variable of the chat template."""
    completes: bool = False
    """It takes a schema outside chats, too."""
    regex: tuple[str, ...] = ()
    """The path to its field for a regex; empty if it takes none."""
    grammar: tuple[str, ...] = ()
    """The same for a grammar in GBNF."""


DIALECTS: Mapping[str, Dialect] = {
    LLAMA_SERVER: Dialect(
        telling={**USAGE, "timings_per_token": True, "return_progress": True, "verbose": True},
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
        telling={**USAGE, "return_token_ids": True},
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
        telling={**USAGE, "return_spec_tokens_details": True},
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
