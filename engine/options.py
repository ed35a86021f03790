"""What the process that draws may know of runtimes: options of a load, of sampling, of thinking, and the models that ship."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from ..backends.base import Sampling
from ..backends.info import Capabilities, Thinking
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
from ..backends.servers.address import PAIR, find_server, is_url, root_of
from ..errors import UserError
from ..option import NEXT_ANSWER, option, options_of

__all__ = [
    "BACKENDS",
    "BUILTIN",
    "BUILTIN_DRAFT",
    "BUILTIN_EAGLE",
    "DRAFTING",
    "LOADING",
    "PAIR",
    "SHIPPED",
    "Capabilities",
    "DraftOptions",
    "LoadOptions",
    "Sampling",
    "Thinking",
    "ThinkingOptions",
    "builtin_gguf",
    "builtin_path",
    "draft_label",
    "draft_names",
    "find_server",
    "is_url",
    "rebuild_command",
    "root_of",
    "template_vars",
]


@dataclass(frozen=True, kw_only=True)
class DraftOptions:
    """How to load the draft model, where it is not as for its target."""

    draft_device: str | None = at_load(None, "Device of the draft model; by default the model's.", "DEVICE", **DEVICE)
    draft_dtype: str | None = at_load(None, "Number type of the draft model; by default the model's.", "DTYPE", choices=DTYPES)
    draft_threads: int | None = at_load(
        None,
        "CPU threads of the draft model's own, to draft on while the model verifies; by default they take turns.",
        "N",
        low=1,
    )


in_answers = partial(option, group="Sampling and limits", when=NEXT_ANSWER)


@dataclass(frozen=True, kw_only=True)
class ThinkingOptions:
    """How a model that thinks does so. Generate has the same fields (`template_var` as `template_vars`)."""

    think: str = in_answers(
        "", "Thinking: off, on, or a level such as low or high, as the model has them; by default its own.", "WORD"
    )
    think_budget: int | None = in_answers(None, "End a thought after N tokens.", "N", low=1)
    template_var: tuple[str, ...] = in_answers(
        (), "A variable for the model's chat template; the value is JSON, or else text.", "NAME=VALUE"
    )


def template_vars(told: Sequence[str]) -> dict[str, Any]:
    """Variables of `template_var`, as Generate takes them.

    Raises:
        UserError: one is not NAME=VALUE.
    """
    made: dict[str, Any] = {}
    for each in told:
        name, equals, value = each.partition("=")
        if not equals or not name.isidentifier():
            raise UserError(f"A template variable is written NAME=VALUE, not {each!r:.60}.")
        try:
            made[name] = json.loads(value)
        except (ValueError, RecursionError):
            made[name] = value
    return made


LOADING = tuple(options_of(LoadOptions))
"""Options of how a target is loaded."""
DRAFTING = tuple(options_of(DraftOptions))
"""Options of how a draft model is."""
