"""Decoding methods: each method grows a token tree, and one loop verifies it.

`model = load_model("builtin"); for step in generate(model, "Hello", method="lookup"): print(step.text, end="")`
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..backends.info import Label
    from .acceptance import Acceptance
    from .base import Context, Drafter, NoParams, StepOutcome, Verified, describe_params, option, parse_params
    from .conversation import Conversation, encode_prompt
    from .loop import Generation, Step, generate
    from .registry import describe
    from .text import Stops, TextStream
    from .tree import Tree

__all__ = [
    "Acceptance",
    "Context",
    "Conversation",
    "Drafter",
    "Generation",
    "Label",
    "NoParams",
    "Step",
    "StepOutcome",
    "Stops",
    "TextStream",
    "Tree",
    "Verified",
    "describe",
    "describe_params",
    "encode_prompt",
    "generate",
    "option",
    "parse_params",
]


def __getattr__(name: str) -> Any:
    """Import an exported name on first use, so that reading one record does not load every method."""
    for submodule in ("acceptance", "base", "conversation", "loop", "registry", "text", "tree"):
        if name in __all__ and hasattr(module := import_module(f".{submodule}", __name__), name):
            return getattr(module, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
