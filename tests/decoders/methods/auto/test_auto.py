"""auto: what it picks when passes, drafts and texts cost and yield what the test says. Its clock, its figures and their file
are replaced: what this machine took before must not decide."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import pytest

from specchat.backends import Model, Sampling
from specchat.decoders import Context, Verified, encode_prompt
from specchat.decoders.acceptance import walk
from specchat.decoders.methods.auto import figures
from specchat.decoders.methods.auto.auto import TRIAL, Auto, AutoParams

from ....fakes.answers import plain
from ....fakes.models.toy import ToyModel

TOKENS = 160


def drive(
    auto: Auto,
    model: Model,
    prompt: Sequence[int],
    cost: Callable[[int], float],
    *,
    draft_model: Model | None = None,
    draft_cost: float = 0.0,
    tokens: int = TOKENS,
) -> tuple[list[int], Counter[str], list[str]]:
    """Decode with invented seconds: `cost` of a pass over n nodes, `draft_cost` for each token of a model's draft.

    Returns:
        the answer, how many steps each drafter took, and the notes.
    """
    session = model.open_session()
    session.prefill(prompt[:-1])
    text, models = list(prompt), [draft_model] if draft_model is not None else []
    taken: Counter[str] = Counter()
    notes: list[str] = []
    while len(text) < len(prompt) + tokens:
        room = len(prompt) + tokens - len(text) - 1
        tree = auto.draft(Context(text, session, Sampling(), room, frozenset(), True, models, model))
        taken[tree.via] += 1
        if auto.note:
            notes.append(auto.note)
        if tree.pre_evaluated:
            scores = session.evaluate(tree.tokens[tree.pre_evaluated :], tree.parents[tree.pre_evaluated :], range(len(tree)))
        else:
            scores = session.evaluate(tree.tokens, tree.parents)
        chosen = scores.choose(Sampling())
        path = walk(tree, chosen)
        session.commit(path)
        text += [*(tree.tokens[node] for node in path[1:]), chosen[path[-1]]]
        drafted = draft_cost * (len(tree) - 1) if tree.via in ("draft", "tree", "pard", "early-exit") else 0.0
        auto.learn(Verified(tree, chosen, path, scores, drafted, cost(len(tree))))
    auto.close()
    return text[len(prompt) :], taken, notes


@pytest.fixture
def draft_model(draft_model: Model, monkeypatch: pytest.MonkeyPatch) -> Model:
    """An ordinary one, which does not pass for a PARD model."""
    monkeypatch.setattr(draft_model, "info", replace(draft_model.info, pard_token=None))
    return draft_model


@pytest.fixture
def auto(monkeypatch: pytest.MonkeyPatch) -> Auto:
    """One that knows nothing yet, and whose own work takes no time."""
    monkeypatch.setattr(figures, "_loaded", WeakKeyDictionary())
    monkeypatch.setattr("specchat.decoders.methods.auto.auto.time.perf_counter", lambda: 0.0)
    return Auto()


def looping() -> ToyModel:
    """A target that soon repeats itself."""
    return ToyModel(1, memory=1, vocabulary=6)


def test_where_nodes_are_free_and_the_text_repeats_it_drafts(auto: Auto) -> None:
    model = looping()
    answer, taken, notes = drive(auto, model, [1, 2, 3], lambda nodes: 1.0)
    assert answer[:TOKENS] == plain(model, [1, 2, 3], len(answer))[:TOKENS]
    assert taken["fusion"] + taken["lookup"] > taken["greedy"]
    assert len(answer) / sum(taken.values()) > 4
    assert any(note.startswith(("fusion: ", "lookup: ")) for note in notes)


@pytest.mark.parametrize(("slope", "reader", "other"), [(0.0, "fusion", "lookup"), (0.1, "lookup", "fusion")])
def test_what_nodes_cost_decides_which_trees_take_part(
    auto: Auto, builtin_model: Model, draft_model: Model, monkeypatch: Any, slope: float, reader: str, other: str
) -> None:
    monkeypatch.setattr(builtin_model, "info", replace(builtin_model.info, pass_seconds=()))
    prompt = encode_prompt(builtin_model, "Tell me a story about a dog.")

    def cost(nodes: int) -> float:
        return 1 + slope * (nodes - 1)

    every: Counter[str] = Counter()
    for _ in range(2):
        _, taken, _ = drive(auto, builtin_model, prompt, cost, draft_model=draft_model, draft_cost=0.02, tokens=200)
        every += taken
    assert taken[other] == 0
    assert every[reader] > 0 or reader == "lookup", "this text has nothing to copy"
    context = Context(prompt, builtin_model.open_session(), Sampling(), 50, frozenset(), True, [draft_model], builtin_model)
    assert ("tree" in auto._available(context)) == (slope == 0)


def test_where_every_node_costs_a_pass_it_decodes_plainly(auto: Auto) -> None:
    model = ToyModel(5, memory=3, vocabulary=60)
    answer, taken, notes = drive(auto, model, [1, 2, 3], float)
    assert answer[:TOKENS] == plain(model, [1, 2, 3], len(answer))[:TOKENS]
    assert taken["greedy"] > 0.9 * sum(taken.values())
    assert any(note.startswith("plain decoding: no draft would pay") for note in notes)


@pytest.mark.parametrize(("seconds", "low", "high"), [(0.02, 0.6, 1.0), (2.0, 0.0, 0.4)])
def test_a_quick_draft_model_takes_over_and_a_slow_one_does_not(
    auto: Auto, builtin_model: Model, draft_model: Model, seconds: float, low: float, high: float
) -> None:
    prompt = encode_prompt(builtin_model, "Tell me a story about a dog.")
    expected = plain(builtin_model, prompt, max_tokens=60)
    for _ in range(2):  # the first time each is tried
        answer, taken, _ = drive(
            auto, builtin_model, prompt, lambda nodes: 1 + 0.05 * nodes, draft_model=draft_model, draft_cost=seconds, tokens=240
        )
    assert answer[: len(expected)] == expected[: len(answer)]
    # What the text itself tells (it ends in a loop) is no rival's to take.
    models = taken["draft"] + taken["tree"] + taken["early-exit"]
    share = models / (models + taken["greedy"]) if seconds < 1 else models / sum(taken.values())
    assert low <= share <= high
    known = auto._figures.rounds  # this text repeats itself at its end alone
    assert all(known[situation]["draft"].rounds > 1 for situation in ("new", "repeating"))


def test_trials_that_come_to_nothing_end(auto: Auto, builtin_model: Model, draft_model: Model) -> None:
    prompt = encode_prompt(builtin_model, "Tell me a story about a dog.")
    auto.params, arms = AutoParams(nodes=1), ("draft", "tree", "early-exit")

    def cost(nodes: int) -> float:
        return 1 + 0.5 * nodes

    _, first, _ = drive(auto, builtin_model, prompt, cost, draft_model=draft_model, draft_cost=2.0, tokens=160)
    assert 0 < max(first[name] for name in arms) <= 2 * TRIAL  # where the text repeats itself, and where it does not
    for _ in range(3):  # not every situation comes at once, and an answer gives half a trial
        _, then, _ = drive(auto, builtin_model, prompt, cost, draft_model=draft_model, draft_cost=2.0, tokens=160)
    assert sum(then[name] for name in arms) < 0.05 * sum(then.values())


def test_figures_are_kept_for_the_next_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(figures, "file", tmp_path / "cache" / "auto.json")
    monkeypatch.setattr(figures, "_loaded", WeakKeyDictionary())
    model = looping()
    context = Context([1], model.open_session(), Sampling(), 5, frozenset(), model=model)
    known = figures.load_figures(context)
    for _ in range(3):
        known.costs.learn(1, 1.0)
    known.rounds["new"]["draft"].learn(5, 2.0)
    figures.save_figures(context, known)
    monkeypatch.setattr(figures, "_loaded", WeakKeyDictionary())
    read = figures.load_figures(context)
    assert read is not known
    assert read.costs.seconds(1) == pytest.approx(known.costs.seconds(1), rel=0.1)
    assert read.rounds == known.rounds


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{",
        '{"x": 3}',
        "null",
        '{"KEY": {"methods": {"new": {"draft": [0, 1, 1, 1]}}}}',
    ],
)
def test_a_damaged_file_of_figures_is_no_error(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = looping()
    context = Context([1], model.open_session(), Sampling(), 5, frozenset(), model=model)
    monkeypatch.setattr(figures, "file", tmp_path / "auto.json")
    monkeypatch.setattr(figures, "_loaded", WeakKeyDictionary())
    (tmp_path / "auto.json").write_text(text.replace("KEY", figures._key(context)), "utf-8")
    known = figures.load_figures(context)
    assert not known.costs.known
    assert not known.rounds
    for _ in range(3):
        known.costs.learn(1, 1.0)
    figures.save_figures(context, known)
    assert figures._read_file()[figures._key(context)]["passes"] == {"0": [[1, 1.0]]}
