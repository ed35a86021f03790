"""Dialects of the OpenAI API: the fields of each engine, in one row; any other server gets those of the API alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

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
