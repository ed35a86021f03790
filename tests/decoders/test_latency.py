"""Latency curves: their arithmetic, and data that is none."""

from __future__ import annotations

from typing import Any

import pytest

from specchat.decoders.latency import LatencyCurve, curve_of

CURVE = LatencyCurve(((1, 0.03), (11, 0.032), (64, 0.05)), prefill_start=0.01, prefill_token=0.0001)


def test_seconds_lie_on_straight_lines_between_the_points_and_beyond_them() -> None:
    assert CURVE.seconds(1) == 0.03
    assert CURVE.seconds(6) == pytest.approx(0.031)
    assert CURVE.seconds(64) == pytest.approx(0.05)
    assert CURVE.seconds(117) == pytest.approx(0.068)
    assert LatencyCurve(((4, 0.5),)).seconds(100) == 0.5


def test_a_falling_curve_never_reaches_zero() -> None:
    assert LatencyCurve(((1, 1.0), (2, 0.9))).seconds(1000) == pytest.approx(0.45)


def test_an_answer_is_its_prefill_and_its_passes() -> None:
    # 100 tokens of prompt: 0.02 s, which gives the first token.
    assert CURVE.plain(100, 11) == pytest.approx(0.02 + 10 * 0.03)
    assert CURVE.drafting(100, {1: 2, 11: 3}, 0.5) == pytest.approx(0.02 + 2 * 0.03 + 3 * 0.032 + 0.5)


def test_a_pass_takes_longer_in_a_long_chat() -> None:
    curve = LatencyCurve(((1, 0.03), (11, 0.04)), context=100, context_pass=1e-6, context_node=1e-6)
    assert curve.seconds(1) == curve.seconds(1, 100) == 0.03
    assert curve.seconds(11, 1100) == pytest.approx(0.04 + 0.001 + 0.01)
    assert curve.seconds(1, 0) == pytest.approx(0.03 - 0.0001)
    # In the middle of its answer of 200 tokens, a prompt of 1,000 has 1,100 before it.
    assert curve.plain(1000, 200) == pytest.approx(199 * 0.031)
    assert curve.drafting(1000, {11: 50}, tokens=200) == pytest.approx(50 * 0.051)
    assert curve_of(curve.as_dict()) == curve


@pytest.mark.parametrize(
    "data",
    [
        [],
        {},
        {"passes": []},
        {"passes": [[0, 1.0]]},
        {"passes": [[1, 1.0], [1, 2.0]]},
        {"passes": [[1, 0.0]]},
        {"passes": [[1, "x"]]},
        {"passes": [[1]]},
        {"passes": [[1, 1.0]], "context": -1},
        {"passes": [[1, 1.0]], "context": None},
    ],
)
def test_what_is_no_curve_is_refused(data: Any) -> None:
    with pytest.raises((KeyError, TypeError, ValueError)):
        curve_of(data)
