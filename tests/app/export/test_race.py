"""Races as files."""

from __future__ import annotations

import hashlib
import re
from base64 import b64encode
from dataclasses import replace
from typing import Any

import pytest

from specchat.app.chat.compare import Mark
from specchat.app.chat.dialogue import Dialogue
from specchat.app.chat.entries import Answer
from specchat.app.chat.pieces import SomePieces
from specchat.app.export.formats import Look, race_chunks
from specchat.app.export.race_html import photo_finish
from specchat.app.race.entry import RaceEntry
from specchat.app.race.race import Race
from specchat.app.race.record import RaceLane, RaceRecord
from specchat.app.theming.themes import load_themes
from specchat.app.tui.race.photo_finish import PhotoFinish
from specchat.app.tui.race.state import standings
from specchat.engine.messages import StepRecord

from ...fakes.races import run
from .test_formats import Page

DARK = load_themes()[0]["dark"]
NASTY = "</span></script><script>alert(1)</script>\x1b[31m\u202e]]>\x00"


def lane(method: str, counts: list[int], step_seconds: float, mark: Mark = "identical", **more: Any) -> RaceLane:
    """A lane whose steps made so many tokens and took so long; the first step's text is hostile."""
    answer = Answer(method, "identical")
    for i, count in enumerate(counts):
        answer.add(
            StepRecord(method, list(range(count)), NASTY if i == 0 else f" word{i}", 6, count - 1, forward_seconds=step_seconds)
        )
    answer.figures.prefill_seconds = 0.5
    answer.finish("eos")
    answer.pieces = SomePieces({0: "a", 1: "b"})
    return RaceLane(method, more.pop("settings", {}), answer, mark=mark, **more)


def race() -> RaceRecord:
    return RaceRecord(
        f"Say it. {NASTY}",
        "builtin",
        [
            lane("greedy", [1] * 12, 0.5, "reference"),
            lane("lookup", [3, 3, 3, 3], 0.5, settings={"max_ngram": 3}),
            lane("fusion", [6, 6], 0.6, "near tie", position=4, gap=0.00012),
        ],
        info={"name": "<b>builtin", "device": "cpu", "dtype": "float32"},
        saved="2026-01-02T03:04:05",
        version="0.1.0",
    )


def whole(record: RaceRecord) -> str:
    return "".join(race_chunks(record, "html", Look(DARK)))


def test_a_bar_is_as_long_as_its_lane_is_fast() -> None:
    first, second, third = photo_finish(race())
    # Greedy decodes for 6 s, lookup for 2 s, fusion for 1.2 s.
    assert [first.share, second.share, third.share] == pytest.approx([0.2, 0.6, 1.0])
    assert second.speedup == pytest.approx(3.0)
    assert third.mark == "≈ near tie"
    assert third.where == "from token 5 on, gap 0.00012"


def ran(dialogue: Dialogue, engine: Any) -> tuple[Race, list[str]]:
    """A race that is over, and the rows of its photo finish on the screen."""
    made = Race(
        dialogue, "Hello", [{"role": "user", "content": "Hello"}], [RaceEntry("greedy"), RaceEntry("lookup"), RaceEntry("soft")]
    )
    dialogue.listener = made.handle
    made.start()
    run(engine, made, [(range(12), 1, 1.3), (range(12), 3, 0.433), ([0, 1, 2, 9, 9, 9], 2, 0.9)])
    chart = PhotoFinish()
    chart.rows = sorted(standings(made), key=lambda row: row.number)
    return made, [row.plain for row in chart._table(160)[1:]]


def test_a_page_tells_the_figures_of_the_screen_and_no_others(dialogue: Dialogue, engine: Any) -> None:
    made, rows = ran(dialogue, engine)
    page = whole(made.record())
    for finish, row in zip(photo_finish(made.record()), rows, strict=True):
        figures = [figure.partition(" tokens")[0] for figure in finish.figures]
        assert set(figures) <= set(re.split(r"\s\s+", row)), "as on the screen"
        assert all(re.search(rf"(?<![\d.]){re.escape(figure)}(?![\d.])", page) for figure in figures)
    speeds = re.findall(r"([\d.,]+) tokens/s\b(?!tep)", page)
    assert len(speeds) == 3, "one for each lane"


def test_a_race_in_slow_motion_tells_passes_and_no_seconds() -> None:
    page = whole(replace(race(), slowed=True))
    assert all(re.search(rf"(?<![\d.]){count}( passes|(</|<| \|))", page) for count in (12, 4, 2))
    assert not re.search(r"\b(6\.50|2\.50|1\.70|6\.5|2\.5|1\.7) s\b", page)


def test_the_page_runs_no_script_but_ours_and_replays_at_the_recorded_pace() -> None:
    text = whole(race())
    page = Page(text)
    assert [tag for tag, _ in page.tags].count("script") == 1
    (script,) = re.findall(r"<script>(.*?)</script>", text, re.DOTALL)
    policy = next(str(attrs["content"]) for _, attrs in page.tags if attrs.get("http-equiv") == "Content-Security-Policy")
    assert f"script-src 'sha256-{b64encode(hashlib.sha256(script.encode()).digest()).decode()}'" in policy
    assert "default-src 'none'" in policy
    assert not [attrs for _, attrs in page.tags for key in attrs if key.startswith("on")]
    # Without the script: no button, nothing hidden, the bars where they stood.
    assert "button" not in {tag for tag, _ in page.tags}
    assert not [attrs for _, attrs in page.tags if "later" in str(attrs.get("class"))]
    widths = [str(attrs["style"]).split(";")[0] for _, attrs in page.tags if attrs.get("class") == "bar"]
    assert widths == ["width: 20.0%", "width: 60.0%", "width: 100.0%"]
    times = [int(str(attrs["data-t"])) for _, attrs in page.tags if "data-t" in attrs]
    assert times[12:16] == [500, 1000, 1500, 2000]
