"""Latency curves: their arithmetic, what a fit recovers, and files that hold none."""

from __future__ import annotations

import json
import random
from pathlib import Path
from statistics import median

import pytest

from specchat.decoders.latency import LatencyCurve, Observed, curve_of, fit_curve, read_curve
from specchat.errors import UserError

CURVE = LatencyCurve(((1, 0.03), (11, 0.032), (64, 0.05)), prefill_start=0.01, prefill_token=0.0001, step=0.002)


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
    assert CURVE.drafting(100, {1: 2, 11: 3}, 0.5) == pytest.approx(0.02 + 2 * 0.032 + 3 * 0.034 + 0.5)
    assert CURVE.speedup(100, 11, {1: 2, 11: 3}) == pytest.approx(0.32 / 0.186)


def test_a_pass_takes_longer_in_a_long_chat() -> None:
    curve = LatencyCurve(((1, 0.03), (11, 0.04)), context=100, context_pass=1e-6, context_node=1e-6)
    assert curve.seconds(1) == curve.seconds(1, 100) == 0.03
    assert curve.seconds(11, 1100) == pytest.approx(0.04 + 0.001 + 0.01)
    assert curve.seconds(1, 0) == pytest.approx(0.03 - 0.0001)
    # In the middle of its answer of 200 tokens, a prompt of 1,000 has 1,100 before it.
    assert curve.plain(1000, 200) == pytest.approx(199 * 0.031)
    assert curve.speedup(1000, 200, {11: 50}) == pytest.approx(199 * 0.031 / (50 * 0.051))
    assert curve_of(curve.as_dict()) == curve


def observations(curve: LatencyCurve, count: int, noise: float, outliers: int = 0) -> list[Observed]:
    draw = random.Random(3)
    out = []
    for i in range(count):
        tokens, prompt = draw.randint(20, 500), draw.randint(30, 2000)
        steps = draw.randint(max(3, tokens // 8), tokens - 1)
        wide = draw.randint(0, steps)
        passes = {1: steps - wide, 11: wide}
        error = 2.0 if i < outliers else 1 + draw.uniform(-noise, noise)
        out.append(Observed(curve.speedup(prompt, tokens, passes) * error, prompt, tokens, passes))
    return out


def test_a_fit_finds_the_curve_that_made_the_speedups() -> None:
    truth = LatencyCurve(((1, 1.0), (11, 1.12)), prefill_start=0.6, prefill_token=0.002, step=0.07)
    found = fit_curve(observations(truth, 40, 0.0))
    assert found.passes[1] == pytest.approx((11, 1.12), rel=1e-3)
    assert found.step == pytest.approx(0.07, rel=1e-2)
    assert found.prefill_start == pytest.approx(0.6, rel=1e-2)
    assert found.prefill_token == pytest.approx(0.002, rel=1e-2)


def test_a_fit_on_half_predicts_the_other_half_beside_noise_and_outliers() -> None:
    truth = LatencyCurve(((1, 1.0), (11, 1.05)), prefill_start=0.4, prefill_token=0.003, step=0.08)
    seen = observations(truth, 120, 0.03, outliers=8)
    found = fit_curve(seen[::2])
    errors = [found.speedup(o.prompt, o.tokens, o.passes) / o.speedup - 1 for o in seen[1::2]]
    assert median(map(abs, errors)) < 0.025
    assert abs(median(errors)) < 0.02


def test_a_fit_gives_the_curve_in_the_seconds_of_a_plain_pass() -> None:
    truth = LatencyCurve(((1, 1.0), (11, 1.2)))
    assert fit_curve(observations(truth, 30, 0.0), plain_seconds=0.03).seconds(11) == pytest.approx(0.036, rel=1e-2)


def test_a_fit_needs_observations() -> None:
    with pytest.raises(UserError, match="at least 8 records"):
        fit_curve(observations(CURVE, 7, 0.0))


def test_a_curve_survives_its_file(tmp_path: Path) -> None:
    path = tmp_path / "curve.json"
    path.write_text(json.dumps(CURVE.as_dict()))
    assert read_curve(path) == CURVE


@pytest.mark.parametrize(
    ("data", "says"),
    [
        ([], "JSON object"),
        ({"passes": []}, "nodes from 1"),
        ({"passes": [[0, 1.0]]}, "nodes from 1"),
        ({"passes": [[1, 1.0], [1, 2.0]]}, "each size once"),
        ({"passes": [[1, 0.0]]}, "more than 0"),
        ({"passes": [[1, "x"]]}, "numbers"),
        ({"passes": [[1, 1.0]], "step": -1}, "0 or more"),
        ({"passes": [[1, 1.0]], "stpe": 1}, "no 'stpe'"),
    ],
)
def test_what_is_no_curve_is_refused_with_the_reason(data: object, says: str) -> None:
    with pytest.raises(UserError, match=says):
        curve_of(data)


def test_a_file_that_holds_no_curve_is_named(tmp_path: Path) -> None:
    path = tmp_path / "curve.json"
    for text in ("", "{}", '{"passes": [[1, 0]]}'):
        path.write_text(text)
        with pytest.raises(UserError, match=r"curve\.json"):
            read_curve(path)


def test_a_file_that_cannot_be_read_says_what_to_give_in_its_place(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"There is no file .*none\.json\. Give a latency curve"):
        read_curve(tmp_path / "none.json")
    with pytest.raises(UserError, match=r"Cannot read the latency curve .* \(Is a directory\)\. Give another file\."):
        read_curve(tmp_path)
    (tmp_path / "curve.json").write_bytes(b"\xff\xfe")
    with pytest.raises(UserError, match=r"curve\.json is not JSON\. Give a latency curve"):
        read_curve(tmp_path / "curve.json")
