"""A stream does not flicker: only what changes is painted, each frame at once, and the screen is never cleared."""

from __future__ import annotations

from ..fakes.painting import measure, record


def test_only_what_changes_is_painted_and_every_frame_appears_at_once() -> None:
    # Slow enough that a busy machine draws each step by itself.
    found = measure(*record("", "lookup", pace=0.25))
    assert found["frames"] >= 8
    assert found["painted_lines"] >= 10
    # 3 of 85 lines on an idle machine, 5 on a busy one: the parts of a line may come in two frames.
    assert found["unchanged_share"] <= 0.1
    assert found["bytes_outside"] == 0
    assert found["cleared"] == 0
