"""Time for programs that are started with this folder on PYTHONPATH: it passes only in a recorded model's passes."""

from __future__ import annotations

import sys
import time

_now, _sleep = 0.0, time.sleep


def sleep(seconds: float) -> None:
    global _now
    if sys._getframe(1).f_globals["__name__"] == "specchat.tests.fakes.recorded":
        _now += seconds
    else:
        _sleep(seconds)


# What waits for something goes by the monotonic clock, which stays as it is.
vars(time).update(sleep=sleep, perf_counter=lambda: _now, process_time=lambda: _now)
