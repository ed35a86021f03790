"""Charts of block characters."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from specchat.app.text.charts import bar, columns, percent, portions, resampled


def test_columns() -> None:
    assert columns([0, 1, 4, 8], 8) == [" ▁▄█"]
    assert columns([0, 2, 4, 8], 8, 2) == ["   █", " ▄██"]
    assert columns([0.01, 9], 8) == ["▁█"]  # what is there shows; what is too high is cut
    assert columns([], 8) == [""]
    assert columns([3, 3], 0) == ["  "]


def test_bars() -> None:
    assert bar(0.5, 4) == "━━"
    assert bar(0.6, 4) == "━━╸"
    assert bar(0, 4) == ""
    assert bar(0.0001, 4) == "╸"
    assert bar(7, 4) == "━━━━"


@given(st.lists(st.floats(0, 1e6), max_size=8), st.integers(0, 60))
def test_portions_lose_no_cell(shares: list[float], cells: int) -> None:
    out = portions(shares, cells)
    assert sum(out) == (cells if sum(shares) > 0 else 0)
    for share, portion in zip(shares, out, strict=True):
        assert abs(portion - share / (sum(shares) or 1) * cells) <= 1


def test_percent_rounds_to_neither_end() -> None:
    shares = (0, 0.001, 0.009, 0.01, 0.5, 0.996, 0.9999, 1)
    assert [percent(share) for share in shares] == ["0%", "<1%", "<1%", "1%", "50%", "99%", "99%", "100%"]


@given(st.lists(st.floats(0, 100), max_size=200), st.integers(1, 40))
def test_resampling_keeps_the_range_and_the_width(values: list[float], cells: int) -> None:
    out = resampled(values, cells)
    assert len(out) == min(len(values), cells)
    if values:
        assert min(values) - 1e-6 <= min(out)
        assert max(out) <= max(values) + 1e-6
