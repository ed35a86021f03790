"""The page that the suite writes: Markdown for a person, a section for each model."""

from __future__ import annotations

import os
import platform
import shlex
import subprocess
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

LIBRARIES = ("specchat", "torch", "transformers", "llama-cpp-python")


class Page:
    """The page, written again whenever a part is added, so that a run that was stopped leaves what it had."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._sections: dict[str, list[str]] = {}

    def add(self, model: str, *lines: str) -> None:
        """Append lines to a model's section."""
        self._sections.setdefault(model, []).extend(lines)
        parts = [_heading(), *(["", f"## {name}", "", *body] for name, body in self._sections.items())]
        self.path.write_text("\n".join(line for part in parts for line in part) + "\n", encoding="utf-8")

    def table(self, model: str, title: str, head: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
        """Append a titled table."""
        lines = [f"| {' | '.join(map(str, row))} |" for row in [head, ["---"] * len(head), *rows]]
        self.add(model, f"**{title}**", "", *lines, "")


def _heading() -> list[str]:
    asked = " ".join(f"{name}={shlex.quote(value)}" for name, value in os.environ.items() if name in SETTINGS)
    return [
        "# specchat on real models",
        "",
        f"- Date: {datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
        f"- Machine: {_processor()}, {os.cpu_count()} cores, {platform.system()} {platform.machine()}",
        f"- Versions: Python {platform.python_version()}, {', '.join(_versions())}",
        f"- Command: `{asked} python -m pytest {shlex.join(sys.argv[1:])}`",
    ]


SETTINGS = (
    "SPECCHAT_REAL", "SPECCHAT_REAL_PROMPTS", "SPECCHAT_REAL_TOKENS", "SPECCHAT_REAL_THREADS", "SPECCHAT_REAL_HEAD",
    "SPECCHAT_FULL",
    "OMP_NUM_THREADS",
)  # fmt: skip
"""Variables that decide what is measured."""


def _processor() -> str:
    try:
        told = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or "unknown processor"
    return next((line.partition(":")[2].strip() for line in told if line.startswith("model name")), "unknown processor")


def _versions() -> list[str]:
    found = []
    for name in LIBRARIES:
        try:
            found.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            found.append(f"{name} not installed")
    commit = ["git", "-C", str(Path(__file__).parent), "rev-parse", "--short", "HEAD"]
    told = subprocess.run(commit, capture_output=True, text=True, check=False)
    return [*found, f"commit {told.stdout.strip()}"] if told.returncode == 0 else found
