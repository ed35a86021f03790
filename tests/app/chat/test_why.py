"""Made-up answers of which it is known what held them back: the first cause named is the true one, and the change helps."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from specchat.app.chat.entries import Answer, Prompt
from specchat.app.chat.transcript import Transcript
from specchat.app.chat.why import blame, diagnose
from specchat.app.render.why_page import why_text
from specchat.app.saved.chat_json import SavedChat, chat_json, read_chat
from specchat.backends.info import Capabilities, ModelInfo, ServerInfo
from specchat.engine.messages import Finished, ServedFigures, Started, StepRecord

PLAIN = 0.010

NONE = ModelInfo()


@dataclass(frozen=True)
class Situation:
    """A machine, a drafter and a text, as an answer's steps follow from them."""

    method: str = "draft"
    passes: int = 60
    length: int = 4
    """Tokens of a draft."""
    rates: Callable[[int], float] = lambda position: 0.85
    """Chance that a position (from 0) is right if all before it were."""
    draft_token: float = 0.0008
    """Seconds."""
    node: float = 0.03
    """Cost of a node in a pass, in plain passes."""
    at_load: Mapping[int, float] = field(default_factory=lambda: {1: PLAIN, 4: PLAIN * 1.09, 8: PLAIN * 1.2})
    temperature: float = 0.0
    settings: Mapping[str, Any] = field(default_factory=dict)
    steps: Sequence[Sequence[Any]] = ()
    """Rows of nodes, draft nodes, accepted ones, the node that the guard left (else −1), parents and path, as they were
    recorded; empty: made up of the figures above."""

    def _chains(self, rng: random.Random) -> Iterator[Sequence[Any]]:
        for _ in range(self.passes):
            accepted = 0
            while accepted < self.length and rng.random() < self.rates(accepted):
                accepted += 1
            parents = [-1, *range(self.length)] if self.length else []
            path = list(range(accepted + 1)) if self.length else []
            yield self.length + 1, self.length, accepted, -1, parents, path

    def answer(self, seed: int) -> Answer:
        rng = random.Random(seed)
        answer = Answer(self.method, "identical")
        constant = {"schedule": "constant", "tokens": self.length}
        settings = constant if self.method == "draft" and not self.steps else self.settings
        answer.asked = {"method": self.method, "settings": settings, "sampling": {"temperature": self.temperature}}
        answer.take(Started(1, "main", self.method, "identical", 60, 0))
        for nodes, drafted, accepted, left, parents, path in self.steps or self._chains(rng):
            depths = [0]
            for parent in parents[1:]:
                depths.append(depths[parent] + 1)
            record = StepRecord(self.method, [*filter(None, path), left], "x" * (accepted + 1), drafted, accepted, nodes)
            answer.add(
                replace(
                    record,
                    draft_seconds=max(depths) * self.draft_token,
                    forward_seconds=PLAIN * (1 + self.node * (nodes - 1)) * max(0.5, rng.gauss(1.0, 0.03)),
                    other_seconds=0.0003,
                    tree_tokens=list(range(len(parents))),  # each token is its node, −1 one that no node has
                    tree_parents=parents,
                    path=path,
                )
            )
        busy = 0.02 + answer.figures.decode_seconds
        answer.take(Finished(1, "eos", "", 0.02, busy, plain_seconds=PLAIN + 0.0003))
        return answer

    def diagnose(self, seed: int = 0) -> Any:
        return diagnose(self.answer(seed), ModelInfo("m", pass_seconds=tuple(self.at_load.items())))


SITUATIONS: dict[str, tuple[Situation, str]] = {
    "a drafter of another family": (Situation(rates=lambda position: 0.15), "drafter"),
    "three words": (Situation(passes=3), "short"),
    "a draft model half as large": (Situation(length=3, draft_token=0.006), "dear drafter"),
}
"""Causes that no recorded answer below has."""


@pytest.mark.parametrize("name", SITUATIONS)
def test_the_first_cause_named_is_the_true_one(name: str) -> None:
    situation, cause = SITUATIONS[name]
    named = [situation.diagnose(seed).causes[0].name for seed in range(20)]
    assert named.count(cause) >= 18, named


RECORDED = {row["name"]: row for row in map(json.loads, (Path(__file__).parent / "answers.jsonl").read_text().splitlines())}
"""Answers of the built-in model: the trees of their passes. What passes cost is the situation's."""

DEAR = {"node": 0.45, "at_load": {1: PLAIN, 4: PLAIN * 2.4, 8: PLAIN * 4.2}}


@pytest.mark.parametrize(
    ("name", "machine", "cause", "advice"),
    [
        ("drafts of one token", {}, "too short", "Drafts of 2 tokens instead."),
        ("drafts of 24 tokens", {"draft_token": 0.002}, "too long", "Drafts of 5 tokens instead."),
        ("a story under lookup", {"draft_token": 0.0}, "nothing to copy", "Decode plainly"),
        ("trees of two levels", {"node": 0.01}, "too short", "Drafts of 4 tokens instead."),
        ("a trained head", {}, "", ""),
        ("a trained head of two levels", {}, "too short", "Drafts of 5 tokens instead."),
        ("plain", {}, "plain", "Let auto choose"),
        ("a trained head at temperature 1.5", {}, "drafter", "A lower temperature"),
        ("one layer as the drafter", {}, "drafter", "Drafts of 1 token instead."),
        ("a draft model", DEAR, "dear passes", "Draft fewer nodes."),
    ],
)
def test_a_recorded_answer_gets_the_right_advice(name: str, machine: Mapping[str, Any], cause: str, advice: str) -> None:
    row = RECORDED[name]
    situation = Situation(**{key: row[key] for key in ("method", "settings", "temperature", "steps")}, **machine)
    diagnosis = situation.diagnose()
    print(why_text(diagnosis))
    assert [cause.name for cause in diagnosis.causes[:1]] == [cause] * bool(cause)
    assert (diagnosis.change.sentence if diagnosis.change else "").startswith(advice)
    assert "another drafter" not in why_text(diagnosis)


def test_only_an_answer_slower_than_plain_is_blamed_on_something() -> None:
    info = ModelInfo("m", pass_seconds=((1, PLAIN), (4, PLAIN * 2.4)))
    slow, fast = Situation(rates=lambda position: 0.15, node=0.45).answer(0), Situation().answer(0)
    assert (slow.figures.speedup < 0.8, fast.figures.speedup > 1.5) == (True, True)
    assert blame(slow, info) == diagnose(slow, info).causes[0].sentence
    assert blame(fast, info) == ""
    assert blame(Situation(passes=3, rates=lambda position: 0.0, node=0.45).answer(0), info) == ""


@pytest.mark.parametrize("why", ["contended", "rested"])
def test_a_speed_that_was_not_measured_is_compared_with_nothing(why: str, tmp_path: Path) -> None:
    """Nor once the chat is opened again: what plain passes took at load is no measure of these."""
    answer = Situation(rates=lambda position: 0.15).answer(0)
    answer.figures.plain_seconds = 0.0
    setattr(answer.figures, why, True)
    file = tmp_path / "chat.json"
    file.write_text("".join(chat_json(SavedChat(Transcript([Prompt("Hello"), answer])))))
    for judged in (answer, read_chat(file).transcript.answers()[0]):
        diagnosis = diagnose(judged, ModelInfo("m", pass_seconds=((1, PLAIN), (4, 2 * PLAIN))))
        assert (diagnosis.speedup, diagnosis.causes[0].name) == (0.0, "busy" if why == "contended" else "drafter")


def test_no_method_is_advised_that_the_model_refuses() -> None:
    plain, won = Situation("greedy", rates=lambda position: 0.0, length=0).answer(0), Situation("lookup").answer(1)
    assert diagnose(plain, NONE).change.method == "auto"  # type: ignore[union-attr]
    assert diagnose(plain, ModelInfo("m", capabilities=Capabilities(chain=False))).change is None
    assert diagnose(plain, NONE, unavailable=["auto"]).change is None
    assert diagnose(plain, NONE, [won], ["auto", "lookup"]).change is None


def test_a_server_is_judged_by_its_counters() -> None:
    def served(**counts: Any) -> Any:
        answer = Answer("server", "")
        answer.take(Started(1, "main", "server", "", 60, 0, certainty="exact"))
        answer.take(Finished(1, "eos", "", 0.1, 1.0, served=ServedFigures("exact", **counts)))
        return diagnose(answer, ModelInfo("m", server=ServerInfo("llama-server", "")))

    assert served(tokens=100, steps=100, drafted=0, accepted=0).causes[0].name == "server"
    assert served(tokens=110, steps=100, drafted=400, accepted=10).causes[0].name == "drafter"
    assert not served(tokens=300, steps=100, drafted=300, accepted=200).causes


def test_the_change_is_expected_to_be_faster_and_is_faster() -> None:
    """Compare the speedup expected of shorter drafts with the one that the same machine and text then give."""
    situation = Situation(length=16, rates=lambda position: 0.9 if position < 3 else 0.3, draft_token=0.002, passes=400)
    diagnosis = situation.diagnose()
    assert diagnosis.change.method == "draft"
    length = diagnosis.change.settings["tokens"]
    assert 2 <= length <= 4
    after = replace(situation, length=length).diagnose().speedup
    assert diagnosis.change.speedup == pytest.approx(after, rel=0.1)
    assert after > 1.3 * diagnosis.speedup


def test_what_was_faster_in_this_chat_is_proposed() -> None:
    """A drafter that does not fit gives way to the method that won before, else to plain decoding."""
    slow = Situation(rates=lambda position: 0.05).answer(0)
    won = Situation("lookup", draft_token=0.0).answer(1)
    assert diagnose(slow, NONE, [slow, won]).change == diagnose(slow, NONE, [won]).change
    assert diagnose(slow, NONE, [slow, won]).change.method == "lookup"  # type: ignore[union-attr]
    alone = diagnose(slow, NONE, [slow]).change
    assert alone is not None
    assert (alone.method, alone.speedup) == ("greedy", 1.0)
