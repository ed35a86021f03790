"""Full garbage collections wait until nobody would notice them."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pytest

from specchat.app.tui.garbage import BETWEEN_SECONDS, QUIET_SECONDS, WORTH, Sweeper


class Ring:
    """Garbage that only a collection finds."""

    def __init__(self) -> None:
        self.me = self


class Clock:
    """Seconds set by hand."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def sweeper(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> Iterator[Sweeper]:
    before = gc.get_threshold()
    gc.set_threshold(50, 2, 2)  # of its own accord Python would collect everything every few hundred objects
    sweeper = Sweeper(clock)
    sweeper.begin()
    with monkeypatch.context() as patch:
        patch.setattr(gc, "unfreeze", lambda: None)  # to look through all that other tests imported takes seconds
        yield sweeper
    sweeper.end()
    assert gc.get_threshold() == (50, 2, 2)
    assert gc.get_freeze_count() == 0
    gc.set_threshold(*before)


def old_garbage() -> weakref.ref[Ring]:
    """A ring that outlived the young generations, with enough collections behind it to make a full one worth while."""
    ring = Ring()
    found = weakref.ref(ring)
    for _ in range(WORTH + 2):
        gc.collect(1)
    return found


def test_old_garbage_stays_while_keys_are_pressed_and_goes_when_they_rest(sweeper: Sweeper, clock: Clock) -> None:
    ring = old_garbage()
    clock.now += 1.0
    sweeper.key()
    clock.now += QUIET_SECONDS - 0.1
    assert not sweeper.idle(streaming=False)
    assert ring() is not None
    clock.now += 0.2
    assert sweeper.idle(streaming=False)
    assert ring() is None


def test_a_stream_is_held_up_once_a_minute_at_most(sweeper: Sweeper, clock: Clock) -> None:
    clock.now += QUIET_SECONDS
    old_garbage()
    assert not sweeper.idle(streaming=True)
    clock.now += BETWEEN_SECONDS
    assert sweeper.idle(streaming=True)
    old_garbage()
    clock.now += BETWEEN_SECONDS / 2
    assert not sweeper.idle(streaming=True)


def test_no_full_collection_comes_by_itself(sweeper: Sweeper) -> None:
    begun = gc.get_stats()[2]["collections"]
    kept = [[Ring()] for _ in range(4000)]
    assert gc.get_stats()[2]["collections"] == begun
    assert len(kept) == 4000
