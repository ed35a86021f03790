"""One answer as it comes in, and its figures: what `specchat run --json` prints."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ...engine.messages import Started, StepRecord


@dataclass(slots=True)
class Answer:
    """Collects an answer's events. The figures hold at any moment, for an answer that broke off too."""

    model: str
    """As the user named it."""
    method: str
    """The method in force at the end."""
    label: str = ""
    """What holds of its tokens."""
    info: Mapping[str, Any] = field(default_factory=dict)
    """ModelInfo as plain data; empty until the model is loaded."""
    prompt_tokens: int = 0
    steps: list[StepRecord] = field(default_factory=list)
    tail: str = ""
    """Text that had been held back to the end."""
    prefill_seconds: float = 0.0
    finish_reason: str = ""
    """Why it ended; empty while it has not."""

    def start(self, event: Started) -> None:
        """The engine has taken the prompt."""
        self.method, self.label, self.prompt_tokens = event.method, event.label, event.prompt_tokens

    @property
    def text(self) -> str:
        """All text so far."""
        return "".join(step.text for step in self.steps) + self.tail

    def as_dict(self) -> dict[str, Any]:
        """The object of `--json`. `tokens` counts an EOS token that was produced; rates are 0 where nothing was measured."""
        token_ids = [token for step in self.steps for token in step.tokens]
        passes = sum(step.nodes > 0 for step in self.steps)
        draft_tokens = sum(step.drafted for step in self.steps)
        accepted_tokens = sum(step.accepted for step in self.steps)
        decode_seconds = sum(step.draft_seconds + step.forward_seconds + step.other_seconds for step in self.steps) or 0.0
        return {
            "model": self.info.get("name", self.model),
            "backend": self.info.get("backend"),
            "device": self.info.get("device"),
            "method": self.method,
            "label": self.label,
            "prompt_tokens": self.prompt_tokens,
            "tokens": len(token_ids),
            "steps": passes,
            "tokens_per_step": _ratio(len(token_ids), passes),
            "draft_tokens": draft_tokens,
            "accepted_tokens": accepted_tokens,
            "acceptance_rate": _ratio(accepted_tokens, draft_tokens),
            "near_ties_checked": sum(step.checked for step in self.steps),
            "prefill_seconds": self.prefill_seconds,
            "decode_seconds": decode_seconds,
            "tokens_per_second": _ratio(len(token_ids), decode_seconds),
            "finish_reason": self.finish_reason,
            "text": self.text,
            "token_ids": token_ids,
            "runs": [len(step.tokens) for step in self.steps],
        }

    def figures(self) -> str:
        """The line below an answer: how fast, how many tokens a step, how much was accepted, why it ended."""
        data = self.as_dict()
        parts = [
            f"{data['tokens_per_second']:,.1f} tokens/s",
            f"{data['tokens_per_step']:.2f} tokens per step",
            f"{data['acceptance_rate']:.0%} of {data['draft_tokens']:,} draft tokens accepted" if data["draft_tokens"] else "",
            f"{data['tokens']:,} tokens",
            self.method,
            self.finish_reason,
        ]
        return " · ".join(filter(None, parts))


def _ratio(part: float, whole: float) -> float:
    return part / whole if whole else 0.0
