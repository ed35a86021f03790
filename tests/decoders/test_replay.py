"""Replaying a recorded answer: the counting, and that a drafter cannot see ahead."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from specchat.backends import Model
from specchat.backends.sessions.tree import TreeSession
from specchat.decoders.base import Context, Drafter, Verified
from specchat.decoders.methods.plain import Greedy
from specchat.decoders.replay import replay
from specchat.decoders.tree import Tree
from specchat.decoders.verifying.passes import Pass

EOS = 2


class Spy(Drafter):
    """Drafts one line, and notes what it is shown."""

    name = "spy"
    summary = pays = ""

    def __init__(self, line: list[int]) -> None:
        super().__init__()
        self.line = line
        self.seen: list[list[int]] = []
        self.rooms: set[int] = set()

    def draft(self, context: Context) -> Tree:
        self.seen.append(list(context.tokens))
        self.rooms.add(context.max_depth)
        assert list(context.session.tokens) == list(context.tokens[:-1])
        return Tree.chain(context.pending, self.line)


def test_the_prefill_is_a_pass_and_eos_is_a_token() -> None:
    totals = replay([5, 6], [7, 8, 9, EOS], Greedy(), eos_ids=(EOS,))
    assert (totals.tokens, totals.steps, totals.tokens_per_step) == (4, 4, 1)
    # After the prefill's 7 one pass takes the three drafted tokens, EOS among them.
    totals = replay([5, 6], [7, 8, 9, EOS], Spy([8, 9, EOS]), eos_ids=(EOS,))
    assert (totals.tokens, totals.steps, totals.accepted) == (4, 2, 3)
    assert totals.runs == [1, 3]


def test_a_drafter_sees_no_more_than_what_is_written() -> None:
    spy = Spy([8])
    replay([5, 6], [7, 8, 9, 8, 4, EOS], spy, eos_ids=(EOS,))
    assert spy.seen == [[5, 6, 7], [5, 6, 7, 8, 9], [5, 6, 7, 8, 9, 8, 4]]
    assert len(spy.rooms) == 1


@pytest.mark.parametrize("response", [[7, 8], [7], []])
def test_an_answer_that_was_cut_off_ends_where_it_ends(response: list[int]) -> None:
    totals = replay([5, 6], response, Spy([8, 8, 8]), eos_ids=(EOS,))
    assert totals.tokens == len(response)


def test_what_follows_eos_is_not_replayed() -> None:
    assert replay([5], [6, EOS, 7, 7], Greedy(), eos_ids=(EOS,)).tokens == 2


def test_off_the_record_the_choices_of_a_forced_model_are_none(builtin_model: Model) -> None:
    """The session of the model is what the drafter sees, and what is committed there is the record."""
    seen: list[Sequence[int]] = []

    class Watching(Spy):
        def learn(self, verified: Verified) -> None:
            seen.append(verified.chosen)

    spy = Watching([8, 70, 71])
    replay([5, 6], [7, 8, 9, 8, 4, EOS], spy, eos_ids=(EOS,), over=builtin_model, forced=True)
    assert spy.seen == [[5, 6, 7], [5, 6, 7, 8, 9], [5, 6, 7, 8, 9, 8, 4]]
    assert [chosen[:2] for chosen in seen] == [[8, 9], [8, 4], [EOS, 256]]
    assert {token for chosen in seen for token in chosen[2:]} == {256}, "the record's own end"


def test_a_pass_that_takes_text_along_is_no_drafting(builtin_model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was accepted with other bits than plain decoding's is evaluated again, by the pass that comes next."""

    class Drafting(Greedy):
        def draft(self, context: Context) -> Tree:
            return Tree.chain(context.pending, [8, 9])

    seconds, along, evaluate = [0.0], set[int](), Pass.evaluate

    def slow(running: Pass) -> Any:
        seconds[0] += 1
        along.add(len(running.lacking))
        return evaluate(running)

    monkeypatch.setattr(Pass, "evaluate", slow)
    monkeypatch.setattr(TreeSession, "exact", lambda session, path: 1)
    for module in ("replay", "verifying.clock"):
        monkeypatch.setattr(f"specchat.decoders.{module}.time", SimpleNamespace(perf_counter=lambda: seconds[0]))
    totals = replay([5, 6], [7, 8, 9, 8, 9, 8, 9, EOS], Drafting(), eos_ids=(EOS,), over=builtin_model, forced=True)
    assert max(along) > 0
    assert totals.draft_seconds == pytest.approx(0, abs=1e-6), "of the clock above, which passes alone move"
