"""The models to test, how much of each, answers of theirs, and the page that the suite writes."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import pytest

from specchat.app.cli import doctor
from specchat.backends import LoadOptions, Model, Sampling
from specchat.backends.heads.base import Head
from specchat.backends.loading import find_model
from specchat.decoders import Conversation, Generation, encode_prompt, registry
from specchat.decoders.acceptance import EXACT
from specchat.decoders.base import effective_label

from ..cases import FULL
from .prompts import prompts

FOLDER = os.environ.get("SPECCHAT_REAL", "")
PROMPTS = int(os.environ.get("SPECCHAT_REAL_PROMPTS", "20" if FULL else "6"))
TOKENS = int(os.environ.get("SPECCHAT_REAL_TOKENS", "64" if FULL else "32"))
HEAD = os.environ.get("SPECCHAT_REAL_HEAD", "")
"""A trained drafter for all of them, which `eagle` and its like are tested with."""
THREADS = int(os.environ.get("SPECCHAT_REAL_THREADS", "0")) or None

GREEDY = Sampling()
WARM = Sampling(temperature=0.8, seed=7)

suite = [
    pytest.mark.skipif(not FOLDER, reason="SPECCHAT_REAL names a folder of models: make test-real runs it"),
    pytest.mark.timeout(7200),
]
"""Marks of its tests."""


def found() -> list[Path]:
    """GGUF files and transformers folders in SPECCHAT_REAL."""
    folder = Path(FOLDER)
    return sorted([*folder.glob("*.gguf"), *(file.parent for file in folder.glob("*/config.json"))]) if FOLDER else []


def options(**more: Any) -> LoadOptions:
    """The options of a load: those that a user gets, but for the number of threads."""
    return LoadOptions(threads=THREADS, **more)


@cache
def head_of(model: Model) -> Head | None:
    return find_model(HEAD, options()).beside(HEAD, model) if HEAD else None


def opened(model: Model) -> Conversation:
    return Conversation(model, head=head_of(model))


def texts(model: Model) -> list[tuple[str, list[int]]]:
    return [(kind, encode_prompt(model, text)) for kind, text in prompts(PROMPTS)]


def methods(model: Model, label: str | None = None) -> list[str]:
    """Methods that the model offers without a draft model; those of a label, or all that draft."""
    able, head = model.info.capabilities, head_of(model)
    name_of_head = None if head is None else head.info
    offered = {
        name: effective_label(method, EXACT, GREEDY, able)
        for name, method in registry.methods().items()
        if method.drafts and not registry.unavailable(method, able, draft_model=False, pard=False, head=name_of_head)
    }
    return [name for name in offered if label is None or offered[name] == label]


@dataclass
class Tally:
    """Answers of one method."""

    answers: int = 0
    tokens: int = 0
    passes: int = 0
    seconds: float = 0.0
    """CPU seconds."""
    different: list[str] = field(default_factory=list)
    """Places at which answers part from plain decoding's."""


def answer(
    conversation: Conversation,
    prompt: Sequence[int],
    method: str = "greedy",
    sampling: Sampling = GREEDY,
    *,
    tokens: int = TOKENS,
    tally: Tally | None = None,
    **more: Any,
) -> list[int]:
    """Write an answer; count it."""
    start = time.process_time()
    generation = Generation(conversation, prompt, method, sampling=sampling, max_tokens=tokens, **more)
    for step in generation:
        if tally is not None:
            tally.passes += step.nodes > 0
    if tally is not None:
        tally.answers += 1
        tally.tokens += len(generation.answer)
        tally.seconds += time.process_time() - start
    return generation.answer


def fresh(
    model: Model, prompt: Sequence[int], sampling: Sampling = GREEDY, *, tally: Tally | None = None, **more: Any
) -> list[int]:
    """Write the plain answer in a new conversation."""
    conversation = opened(model)
    try:
        return answer(conversation, prompt, sampling=sampling, tally=tally, **more)
    finally:
        conversation.close()


def switching(
    conversation: Conversation, prompt: Sequence[int], names: Sequence[str], sampling: Sampling, seed: int
) -> list[int]:
    """Write an answer whose method changes at random, between any two passes."""
    rng = Random(seed)
    generation = Generation(conversation, prompt, rng.choice(names), sampling=sampling, max_tokens=TOKENS)
    while generation.finish_reason is None:
        generation.advance()
        if rng.random() < 0.4:
            generation.switch(rng.choice(names))
    return generation.answer


def parting(model: Model, prompt: Sequence[int], plain: Sequence[int], other: Sequence[int], sampling: Sampling) -> str:
    """Describe where an answer parts from plain decoding's, and by how little its token lost there; empty if it does
    not."""
    if list(plain) == list(other):
        return ""
    at = next((i for i, pair in enumerate(zip(plain, other, strict=False)) if pair[0] != pair[1]), min(len(plain), len(other)))
    if at >= min(len(plain), len(other)) or not sampling.greedy:
        return f"at token {at}"
    session = model.open_session(len(prompt) + at + 1)
    try:
        before = [*prompt, *plain[:at]]
        session.prefill(before[:-1])
        return f"at token {at}, {session.evaluate(before[-1:], (-1,)).gap(0, other[at]):.2f} logits below"
    finally:
        session.close()


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
        lines = [f"| {' | '.join(map(str, row))} |" for row in [head, ["---"] * len(head), *rows]]
        self.add(model, f"**{title}**", "", *lines, "")


def _heading() -> list[str]:
    settings = " ".join(f"{name}={shlex.quote(value)}" for name, value in os.environ.items() if name in SETTINGS)
    commit = ["git", "-C", str(Path(__file__).parent), "rev-parse", "--short", "HEAD"]
    revision = subprocess.run(commit, capture_output=True, text=True, check=False).stdout.strip() or "unknown"
    computer, packages = doctor.machine(), doctor.versions()
    return [
        "# specchat on real models",
        "",
        f"- Date: {datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
        f"- Machine: {computer.processor}, {computer.threads} threads, {computer.system}",
        f"- Versions: commit {revision}, {', '.join(f'{name} {version}' for name, version in packages.items() if version)}",
        f"- Command: `{settings} python -m pytest {shlex.join(sys.argv[1:])}`",
    ]


SETTINGS = {
    "OMP_NUM_THREADS",
    "SPECCHAT_FULL",
    *(f"SPECCHAT_REAL{end}" for end in ("", "_PROMPTS", "_TOKENS", "_THREADS", "_HEAD")),
}
"""Variables that decide what is measured."""
