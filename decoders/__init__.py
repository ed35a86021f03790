"""Decoding methods: each grows a token tree, one loop verifies it.

`model = load_model("builtin"); for step in generate(model, "Hello", method="lookup"): print(step.text, end="")`
"""

from __future__ import annotations

from .base import Context, Drafter, Label, NoParams, Tree, describe_params, param, parse_params
from .loop import Conversation, Generation, Step, encode_prompt, generate
from .registry import describe, methods
from .text import Stops, TextStream

__all__ = [
    "Context",
    "Conversation",
    "Drafter",
    "Generation",
    "Label",
    "NoParams",
    "Step",
    "Stops",
    "TextStream",
    "Tree",
    "describe",
    "describe_params",
    "encode_prompt",
    "generate",
    "methods",
    "param",
    "parse_params",
]
