"""Decoding methods: each method grows a token tree, and one loop verifies it.

`model = load_model("builtin"); for step in generate(model, "Hello", method="lookup"): print(step.text, end="")`
"""

from __future__ import annotations

from ..backends.base import Label
from .acceptance import Acceptance
from .base import Context, Drafter, NoParams, Outcome, Verified, describe_params, param, parse_params
from .conversation import Conversation
from .loop import Generation, Step, encode_prompt, generate
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
    "Outcome",
    "Step",
    "Stops",
    "TextStream",
    "Tree",
    "Verified",
    "describe",
    "describe_params",
    "encode_prompt",
    "generate",
    "param",
    "parse_params",
]
