"""Models that say what was written down."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path


def recorded_model(folder: Path, answers: Mapping[str, str], pace: float | None = None) -> str:
    """The name of a model with these answers to prompts, which takes `pace` seconds a pass."""
    path = folder / "answers.jsonl"
    rows = [json.dumps({"prompt": prompt, "response": answer}) for prompt, answer in answers.items()]
    path.write_text("\n".join(rows) + "\n", encoding="utf-8")
    return f"recorded:{path}" if pace is None else f"recorded:{path}?pace={pace}"
