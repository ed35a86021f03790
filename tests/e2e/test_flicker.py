"""A stream does not flicker: only what changes is painted, each frame at once, and the screen is never cleared."""

from __future__ import annotations

from ..fakes.painting import measure, record


def test_only_what_changes_is_painted_and_every_frame_appears_at_once() -> None:
    # Slow enough that each step is drawn by itself; a busy machine may draw some together.
    found = measure(*record("", "lookup", pace=0.1))
    assert found["frames"] >= 3
    assert found["painted_lines"] >= 10
    # 3 of 85 lines on an idle machine, more on a busy one: the parts of a line may come in two frames. Whoever paints the whole
    # screen anew paints nine lines of ten in vain.
    assert found["unchanged_share"] <= 0.3
    assert found["bytes_outside"] == 0
    assert found["cleared"] == 0
