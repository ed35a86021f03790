"""An answer that is asked for once more is drafted by drafters that know nothing of the first."""

from __future__ import annotations

from specchat.engine.lanes import Lanes
from specchat.engine.messages import Event, Generate, Started

from ..fakes.engines import steps_of, text_of
from .test_lanes import model


def passes(fresh: bool) -> tuple[int, int, int]:
    """Passes of the first and of the second answer by a method that learns, and the prompt tokens that the second reused."""
    events: list[Event] = []
    lanes = Lanes(events.append)
    recorded = model(answer="".join(chr(97 + n * n * 7 % 26) + chr(65 + n % 23) for n in range(200)))
    for id, again in ((1, False), (2, fresh)):
        lanes.start(recorded, Generate(id, prompt="hi", method="recycle", fresh=again))
        while lanes.running:
            lanes.advance()
    assert text_of(events, 1) == text_of(events, 2)
    started = next(event for event in events if isinstance(event, Started) and event.id == 2)
    return len(steps_of(events, 1)), len(steps_of(events, 2)), started.reused


def test_a_fresh_answer_begins_with_empty_pools() -> None:
    first, second, reused = passes(fresh=True)
    assert second == first
    assert reused  # the cache stays


def test_without_it_a_drafter_repeats_what_it_has_seen() -> None:
    first, second, _ = passes(fresh=False)
    assert second < first
