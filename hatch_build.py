"""Makes the link through which a checkout is imported, where it is missing: an sdist cannot hold it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class LinkHook(BuildHookInterface[Any]):
    """Runs before an editable install."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        link = Path(self.root) / ".import" / "specchat"
        if version == "editable" and not link.is_symlink():
            link.parent.mkdir(exist_ok=True)
            link.symlink_to("..")
