"""What the process that draws may know of runtimes: options of a load and of sampling, and the models that ship."""

from __future__ import annotations

from ..backends.base import Capabilities, Sampling
from ..backends.loading import builtin_gguf, builtin_path
from ..backends.options import (
    BACKENDS,
    BUILTIN,
    BUILTIN_DRAFT,
    BUILTIN_EAGLE,
    SHIPPED,
    draft_label,
    draft_names,
    rebuild_command,
)
from ..backends.servers.address import PAIR, find_server, is_url, root_of

__all__ = [
    "BACKENDS",
    "BUILTIN",
    "BUILTIN_DRAFT",
    "BUILTIN_EAGLE",
    "PAIR",
    "SHIPPED",
    "Capabilities",
    "Sampling",
    "builtin_gguf",
    "builtin_path",
    "draft_label",
    "draft_names",
    "find_server",
    "is_url",
    "rebuild_command",
    "root_of",
]
