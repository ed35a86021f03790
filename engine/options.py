"""The options of loads and answers, and the built-in models, as the drawing process may see them without a runtime."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ..backends.base import Sampling
from ..backends.info import MOST_NODES, Capabilities, flops, least_share, plain_passes
from ..backends.loading import builtin_gguf, builtin_path
from ..backends.options import (
    BACKENDS,
    BUILTIN,
    BUILTIN_DRAFT,
    BUILTIN_EAGLE,
    DEVICE,
    DTYPES,
    SHIPPED,
    LoadOptions,
    at_load,
    draft_label,
    draft_names,
    rebuild_command,
)
from ..backends.remote.address import find_server, is_url, parse_url
from ..option import NEXT_ANSWER, declared_options, option

__all__ = [
    "BACKENDS",
    "BUILTIN",
    "BUILTIN_DRAFT",
    "BUILTIN_EAGLE",
    "DRAFTING",
    "LOADING",
    "MOST_NODES",
    "SHAPES",
    "SHIPPED",
    "AnswerOptions",
    "Capabilities",
    "DraftOptions",
    "LoadOptions",
    "Sampling",
    "builtin_gguf",
    "builtin_path",
    "draft_label",
    "draft_names",
    "find_server",
    "flops",
    "is_url",
    "least_share",
    "parse_url",
    "plain_passes",
    "rebuild_command",
]


@dataclass(frozen=True, kw_only=True)
class DraftOptions:
    """Options of the draft model's load that differ from its target's."""

    draft_device: str | None = at_load(None, "Device of the draft model; by default the model's.", "DEVICE", **DEVICE)
    draft_dtype: str | None = at_load(None, "Data type of the draft model; by default the model's.", "DTYPE", choices=DTYPES)
    draft_threads: int | None = at_load(
        None,
        "CPU threads of the draft model's own, to draft on while the model verifies; by default they take turns.",
        "N",
        low=1,
    )


LIMIT: Any = {"group": "Sampling and limits", "when": NEXT_ANSWER}

SHAPES = {"schema": "json_schema", "regex": "regex", "grammar": "grammar", "json_object": "json_object"}
"""Options that constrain answers, with the kind of constraint that each is. Only one applies: of several in one place the
first; a stronger place overrides the others."""


@dataclass(frozen=True, kw_only=True)
class AnswerOptions:
    """Options of answers, independent of the method."""

    accept: str = option(
        "exact",
        "When a draft token is accepted: exact, rejection, soft:BETA or typical:EPSILON,DELTA.",
        "RULE",
        group="Decoding",
        when=NEXT_ANSWER,
    )
    sampling: Sampling = field(default_factory=Sampling)
    max_tokens: int | None = option(
        None, "Stop an answer after N tokens; by default when the context is full.", "N", **LIMIT, low=1
    )
    stop: tuple[str, ...] = option((), "End an answer at this text.", "TEXT", **LIMIT)
    stop_loops: bool = option(True, "Stop an answer that repeats itself endlessly (the default, but not with JSON).", **LIMIT)
    schema: str = option("", "Answers are JSON that matches this JSON schema, given as a file or as itself.", "FILE", **LIMIT)
    regex: str = option("", "Answers match this regex, from start to end.", "REGEX", **LIMIT)
    grammar: str = option(
        "", "Answers match this grammar (Lark as llguidance reads it, or GBNF), given as a file or as itself.", "FILE", **LIMIT
    )
    json_object: bool = option(False, "Answers are JSON objects, whatever is in them.", **LIMIT)
    think: str = option(
        "",
        "How the model thinks before it answers, in its own words: on, off, low, medium, high, … `specchat doctor MODEL` lists "
        "them; by default as its chat template has it.",
        "WORD",
        **LIMIT,
    )
    think_budget: int | None = option(None, "End a thought after N tokens.", "N", **LIMIT, low=0)
    template_var: tuple[str, ...] = option(
        (),
        "A variable of the chat template.",
        "NAME=VALUE",
        **LIMIT,
        form=r"(?s)\s*[A-Za-z_]\w*\s*=.*",
        shape="texts of the form NAME=VALUE",
    )

    @property
    def constraint(self) -> dict[str, str] | None:
        """The constraint on answers, as in `Generate`; None without one."""
        for name, kind in SHAPES.items():
            if value := getattr(self, name):
                return {"kind": kind, "text": value if isinstance(value, str) else ""}
        return None


LOADING = tuple(declared_options(LoadOptions))
"""Options of a target's load."""
DRAFTING = tuple(declared_options(DraftOptions))
"""Options of a draft model's load."""
