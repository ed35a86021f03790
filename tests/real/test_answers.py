"""Answers of real models: what every method writes is what plain decoding writes, as far as its label says."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random

import pytest

from specchat.backends import Model, Sampling
from specchat.backends.grammars.constraint import Constraint
from specchat.decoders import Conversation

from ..cases import FULL
from .models import GREEDY, TOKENS, WARM, Tally, answer, fresh, methods, opened, parting, suite, switching, texts
from .page import Page
from .prompts import sentences

pytestmark = suite

Prompts = Sequence[tuple[str, list[int]]]
Write = Callable[[Conversation, Sequence[int], Sampling, Tally, int], list[int]]

HEAD = ("answers of", "answers", "differ", "tokens a pass", "CPU ÷ plain", "where they part")


class Comparison:
    """Answers of several kinds beside plain decoding's, of the same prompts."""

    def __init__(self, model: Model, prompts: Prompts, samplings: Sequence[Sampling]) -> None:
        self._model, self._prompts, self._samplings = model, prompts, samplings
        self.plain = Tally()
        self._wanted = {
            (i, sampling): fresh(model, prompt, sampling, tally=self.plain)
            for sampling in samplings
            for i, (_, prompt) in enumerate(prompts)
        }
        self.rows: list[Sequence[object]] = [self._row("greedy", self.plain)]

    def run(self, name: str, write: Write) -> Tally:
        """Write all answers, in one conversation for each sampling, and note what differs."""
        tally = Tally()
        for sampling in self._samplings:
            conversation = opened(self._model)
            try:
                for i, (kind, prompt) in enumerate(self._prompts):
                    plain = self._wanted[i, sampling]
                    written = write(conversation, prompt, sampling, tally, i)
                    if where := parting(self._model, prompt, plain, written, sampling):
                        tally.different.append(f"{kind} {i}, temperature {sampling.temperature:g}, {where}")
            finally:
                conversation.close()
        self.rows.append(self._row(name, tally))
        return tally

    def _row(self, name: str, tally: Tally) -> Sequence[object]:
        cost = tally.seconds / tally.tokens / (self.plain.seconds / self.plain.tokens) if tally.tokens else 0.0
        rate = tally.tokens / tally.passes if tally.passes else 0.0
        figures = [f"{figure:.2f}" if figure else "" for figure in (rate, cost)]
        return [
            *(f"`{name}`", tally.answers or len(self._wanted), len(tally.different), *figures),
            "; ".join(tally.different[:3]),
        ]


def _method(name: str) -> Write:
    return lambda conversation, prompt, sampling, tally, _: answer(conversation, prompt, name, sampling, tally=tally)


def _switching(names: Sequence[str]) -> Write:
    return lambda conversation, prompt, sampling, _, i: switching(conversation, prompt, names, sampling, seed=i)


def _compare(model: Model, prompts: Prompts, samplings: Sequence[Sampling]) -> tuple[Comparison, list[str]]:
    """All methods on all prompts, then what switches between them, then plain decoding after all that; and what differs of
    what is labelled identical."""
    identical = methods(model, "identical")
    promised = [*methods(model, model.info.capabilities.identical)]
    compared = Comparison(model, prompts, samplings)
    found = {name: compared.run(name, _method(name)) for name in promised}
    found["switching"] = compared.run("switching", _switching(["greedy", *promised]))
    found["greedy"] = compared.run("greedy, after all these", _method("greedy"))
    wrong = {"greedy": found["greedy"]} | ({name: found[name] for name in [*identical, "switching"]} if identical else {})
    return compared, [f"{name}: {where}" for name, tally in wrong.items() for where in tally.different]


def test_every_method_writes_plain_decodings_text(model: Model, path: Path, page: Page) -> None:
    """At temperature 0 and, with a seed, at 0.8; in a conversation that has had other prompts before."""
    compared, wrong = _compare(model, texts(model), (GREEDY, WARM))
    page.table(path.name, f"Answers of {TOKENS} tokens beside plain decoding's", HEAD, compared.rows)
    assert not wrong


WINDOW = 512
"""Tokens of the sliding window of Gemma 3, and of others."""


def test_across_a_window(model: Model, path: Path, page: Page) -> None:
    """An answer that crosses the end of the model's window, and one in a text that is longer than it."""
    long = model.encode(sentences(Random(5), WINDOW // 5))
    assert len(long) > WINDOW + 100
    # A conversation reads the half of them that is the same once. They part before the first answer, which other passes read.
    half = WINDOW // 2
    prompts = [("crossing", long[: WINDOW - TOKENS // 2]), ("beyond", long[:half] + long[-half - 100 :])]
    compared, wrong = _compare(model, prompts, (GREEDY, WARM) if FULL else (GREEDY,))
    page.table(path.name, f"Around {WINDOW:,} tokens", HEAD, compared.rows)
    assert not wrong


SCHEMA = {
    "type": "object",
    "properties": {
        "city": {"enum": ["Vienna", "Porto", "Oslo"]},
        "age": {"type": "integer", "minimum": 0, "maximum": 120},
        "name": {"type": "string", "maxLength": 12},
    },
    "required": ["city", "age", "name"],
    "additionalProperties": False,
}


@pytest.mark.parametrize("kind", ["json_schema", "regex"])
def test_structured_answers(model: Model, path: Path, page: Page, kind: str) -> None:
    """A schema and a regex, with the model's own vocabulary: every method's answer matches, and is plain decoding's."""
    text = json.dumps(SCHEMA) if kind == "json_schema" else r"(yes|no|maybe), because [a-z ]{8,24}\."
    constraint = Constraint("json_schema" if kind == "json_schema" else "regex", text)
    prompt = model.encode("Anna Miller is 31 years old and lives in Vienna. Asked about it, she says:")
    plain = fresh(model, prompt, constraint=constraint, tokens=80)
    rows, wrong = [], []
    for name in methods(model, model.info.capabilities.identical):
        conversation, tally = opened(model), Tally()
        try:
            written = answer(conversation, prompt, name, constraint=constraint, tokens=80, tally=tally)
        finally:
            conversation.close()
        same = written == plain
        rows.append([f"`{name}`", "yes" if same else "no", f"{tally.tokens / tally.passes:.2f}"])
        wrong += [] if same else [name]
        if kind == "json_schema":
            assert json.loads(model.decode(written)).keys() == {"city", "age", "name"}, name
    title = f"Structured answers ({kind}): `{model.decode(plain).strip()}`"
    page.table(path.name, title, ("method", "plain decoding's", "tokens a pass"), rows)
    assert not wrong or model.info.capabilities.identical != "identical"
