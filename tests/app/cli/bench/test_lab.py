"""Tables in narrow terminals: fewer columns, named below, and never a broken word."""

from __future__ import annotations

import io
import sys

import pytest

from specchat.app.cli.bench.lab import show_table
from specchat.app.cli.bench.report import table
from specchat.app.text.cells import width

WIDTHS = (60, 80, 100, 120, 160)
METHODS = ("greedy", "early-exit:layers=2:schedule=constant:tokens=4", "transformers/prompt-lookup", "lookup:nodes=32")


class Terminal(io.StringIO):
    """Standard output that claims to be a terminal."""

    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


def terminal(monkeypatch: pytest.MonkeyPatch, cells: int) -> Terminal:
    """A terminal of so many columns in the place of standard output. (No fixture: pytest puts its own there after them.)"""
    out = Terminal()
    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setenv("COLUMNS", str(cells))
    return out


def bench_table() -> tuple[list[str], list[list[str]]]:
    """As `specchat bench` has it."""
    row = {
        "tokens_per_second": 123.4,
        "speedup": 1.5,
        "speedup_low": 1.41,
        "speedup_high": 1.62,
        "tokens_per_step": 3.21,
        "acceptance_rate": 0.4,
        "nodes_per_token": 2.2,
        "flops_per_token": 41.3e6,
        "identical": 6,
        "prompts": 6,
        "pairs": 6,
        "draft_share": 0.02,
        "forward_share": 0.9,
    }
    return table([{**row, "category": c, "method": m} for c in ("copy", "summarization") for m in METHODS])


@pytest.mark.parametrize("cells", WIDTHS)
def test_a_table_keeps_within_the_width_and_says_what_it_leaves_out(monkeypatch: pytest.MonkeyPatch, cells: int) -> None:
    out = terminal(monkeypatch, cells)
    head, rows = bench_table()
    show_table(head, rows, left=2, spare=("forward", "draft", "nodes/tok", "accepted", "95%"))
    lines = out.getvalue().splitlines()
    assert max(map(width, lines)) <= cells
    title = lines[0].split()
    assert title[:4] == ["category", "method", "tok/s", "speedup"]
    said = " ".join(" ".join(lines).partition("Too narrow to show: ")[2].split())
    gone = said.partition(".")[0].split(", ") if said else []
    assert sorted(title + gone) == sorted(head)
    assert (cells == 160) == (not gone)
    # Names are whole, or go on in the next line behind a sign; figures are never broken.
    for method in METHODS:
        assert method in "".join(line[15:].split("  ")[0] for line in lines)
    assert len([line for line in lines if "123.4" in line and "1.50×" in line]) == len(rows)


def test_a_pipe_gets_all_columns(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    head, rows = bench_table()
    show_table(head, rows, left=2)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == head
    assert len(lines) == 1 + len(rows)
