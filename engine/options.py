"""What the process that draws may know of runtimes: options of a load and of sampling, and the models that ship."""

from __future__ import annotations

from dataclasses import dataclass

from ..backends.base import Sampling
from ..backends.info import Capabilities, node_cost
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
from ..backends.servers.images import kind_of_image, without_images
from ..option import options_of

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
    "builtin_gguf",
    "builtin_path",
    "draft_label",
    "draft_names",
    "find_server",
    "is_url",
    "kind_of_image",
    "node_cost",
    "rebuild_command",
    "root_of",
    "without_images",
]


@dataclass(frozen=True, kw_only=True)
class DraftOptions:
    """How to load the draft model, where it is not as for its target."""

    draft_device: str | None = at_load(None, "Device of the draft model; by default the model's.", "DEVICE", **DEVICE)
    draft_dtype: str | None = at_load(None, "Data type of the draft model; by default the model's.", "DTYPE", choices=DTYPES)
    draft_threads: int | None = at_load(
        None,
        "CPU threads of the draft model's own, to draft on while the model verifies; by default they take turns.",
        "N",
        low=1,
    )


LOADING = tuple(options_of(LoadOptions))
"""Options of how a target is loaded."""
DRAFTING = tuple(options_of(DraftOptions))
"""Options of how a draft model is."""
