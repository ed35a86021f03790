"""Seconds of passes by size, on a session and a clock that are made up: no measured time decides here."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from specchat.backends import Model
from specchat.backends.kept import GIVEN, identity
from specchat.backends.pass_times import BEHIND, MOST_ROUNDS, SIZES, TOKENS, Curve, given_curve, kept_curve, pass_seconds
from specchat.backends.proof_text import proof_text
from specchat.errors import UserError

COSTS = {1: 1.0, 2: 2.6, 3: 3.2, 4: 3.7, 6: 4.1, 8: 3.8, 12: 5.0, 16: 5.5, 24: 7.0, 32: 9.0}
"""As of Q8_0: two nodes cost a leap, eight less than six."""


class Clocked:
    """A session whose passes move the clocks on."""

    context = 4096

    def __init__(self, monkeypatch: pytest.MonkeyPatch, busy: Sequence[float] = ()) -> None:
        self.own = self.wall = 0.0
        self.passes: list[list[int]] = []
        self._busy = iter(busy)
        monkeypatch.setattr("specchat.backends.pass_times.time.thread_time", lambda: self.own)
        monkeypatch.setattr("specchat.backends.pass_times.time.perf_counter", lambda: self.wall)

    def rewind(self, length: int) -> None:
        assert length == 0

    def prefill(self, tokens: Sequence[int]) -> None:
        self.read = list(tokens)

    def evaluate(self, tokens: Sequence[int], parents: Sequence[int]) -> None:
        assert list(parents) == list(range(-1, len(tokens) - 1))
        slowed = next(self._busy, 1.0)
        self.passes.append(list(tokens))
        self.own += 0.001 * COSTS[len(tokens)]
        self.wall += 0.001 * COSTS[len(tokens)] * slowed

    def commit(self, path: Sequence[int]) -> None:
        pass


@pytest.fixture(autouse=True)
def measuring(monkeypatch: pytest.MonkeyPatch) -> None:
    """No curve is given in place of a measurement."""
    monkeypatch.delenv(GIVEN, raising=False)


def test_the_curve_keeps_its_leaps_and_dips(monkeypatch: pytest.MonkeyPatch) -> None:
    session: Any = Clocked(monkeypatch)
    text = list(range(1000, 1000 + TOKENS))
    curve = pass_seconds(session, text, lambda: None, cpu=True)
    assert [nodes for nodes, _ in curve] == list(SIZES)
    assert {nodes: round(1000 * seconds, 6) for nodes, seconds in curve} == COSTS
    assert session.read == text[:BEHIND]
    assert all(tokens == text[BEHIND : BEHIND + len(tokens)] for tokens in session.passes)


def test_what_other_programs_took_is_left_out_and_measured_again(monkeypatch: pytest.MonkeyPatch) -> None:
    session: Any = Clocked(monkeypatch, busy=[3.0] * 2 * len(SIZES))
    curve = pass_seconds(session, list(range(TOKENS)), lambda: None, cpu=True)
    assert {nodes: round(1000 * seconds, 6) for nodes, seconds in curve} == COSTS
    assert len(session.passes) == MOST_ROUNDS * len(SIZES), "two rounds were disturbed, two were not"


def test_a_slow_model_is_measured_at_fewer_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    session: Any = Clocked(monkeypatch, busy=[100.0] * 99)
    curve = pass_seconds(session, list(range(TOKENS)), lambda: None, cpu=False)
    assert [nodes for nodes, _ in curve] == [1, 2, 4, 8, 16]


def test_a_curve_is_kept_for_each_file_until_it_is_old(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPECCHAT_CACHE", str(tmp_path / "cache"))
    now = 1_000_000.0
    monkeypatch.setattr("specchat.backends.pass_times.time.time", lambda: now)
    file = tmp_path / "model.gguf"
    file.write_bytes(b"weights")
    curves = iter([((1, 1.0), (2, 2.5)), ((1, 2.0), (2, 2.1)), ((1, 3.0),), ((1, 4.0),)])

    def measured(threads: int = 2) -> tuple[Curve, float]:
        return kept_curve((identity([file]), "1.0", threads), lambda: next(curves))

    first = measured()
    now += 86_400
    assert measured() == first == (((1, 1.0), (2, 2.5)), 1_000_000.0)
    assert measured(threads=1)[0] == ((1, 2.0), (2, 2.1))
    file.write_bytes(b"others!!")
    assert measured()[0] == ((1, 3.0),)
    now += 31 * 86_400
    assert measured() == (((1, 4.0),), now)
    with monkeypatch.context() as patch:
        patch.setenv(GIVEN, "1:1 64:1.001")
        curves = iter([((1, 9.0),)])
        assert measured()[0] == ((1, 9.0),)
    assert measured() == (((1, 4.0),), now), "what was given is not taken for a measurement later"


def test_what_was_kept_is_measured_again_where_the_file_is_damaged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPECCHAT_CACHE", str(tmp_path))
    kept_curve(("a",), lambda: ((1, 1.0),))
    (kept,) = (tmp_path / "passes").iterdir()
    for content in ("", "[]", '{"measured": 1}', '{"measured": 9e99, "seconds": [[1, -1]]}'):
        kept.write_text(content)
        assert kept_curve(("a",), lambda: ((1, 2.0),))[0] == ((1, 2.0),)


def test_a_curve_may_be_given(monkeypatch: pytest.MonkeyPatch) -> None:
    assert given_curve() == ()
    monkeypatch.setenv(GIVEN, "8:17.6 1:6.5")
    assert given_curve() == ((1, 0.0065), (8, 0.0176))
    for wrong in ("2:3", "1:x", "1:0", "one"):
        monkeypatch.setenv(GIVEN, wrong)
        with pytest.raises(UserError, match="SPECCHAT_PASSES takes nodes"):
            given_curve()


def test_the_text_is_prose_in_the_models_own_tokens(builtin_model: Model) -> None:
    codec = builtin_model._codec  # type: ignore[attr-defined]
    ids = proof_text(codec, builtin_model.info.vocabulary, 300)
    assert builtin_model.decode(ids).startswith("The harbour town of Ellerby")
    assert proof_text(codec, builtin_model.info.vocabulary, 5000)[:300] == ids
    assert len(proof_text(None, 100, 300)) == 300
