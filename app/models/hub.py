"""Models on the Hub: what a repository offers, and fetching one of its offers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from glob import escape
from pathlib import Path

from ...backends.files import hub
from ...backends.files.hub_listing import Offer, Repository, look_up
from ...backends.files.hub_transfer import Missing
from ...backends.loading import GGUF_ON_HUB
from ...backends.options import StageProgress

__all__ = ["GGUF_ON_HUB", "Offer", "Repository", "fetch", "look_up"]


def fetch(
    spec: str,
    files: Sequence[str],
    progress: StageProgress,
    cancelled: Callable[[], bool] | None = None,
    planned: Callable[[list[Missing]], None] | None = None,
) -> Path:
    """Fetch a model into huggingface_hub's cache; what is there already is not fetched again.

    Args:
        spec: what loads it: `owner/name`, or `owner/name:Q4_K_M`.
        files: its GGUF files; none for a repository's safetensors.
        progress: told the bytes as they come.
        cancelled: polled; answering True raises Cancelled soon after.
        planned: told what will be fetched, before the first byte.

    Raises:
        UserError: it cannot be fetched; says what to do.
        Cancelled: `cancelled` answered True.
    """
    allow, ignore = ([escape(file) for file in files], ()) if files else (hub.WANTED, hub.UNWANTED)
    return hub.fetch(spec.partition(":")[0], None, progress, cancelled, allow, ignore, planned)
