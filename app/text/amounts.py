"""Sizes, counts, times, as people write them."""

from __future__ import annotations

from pathlib import Path

from .cells import one_line


def size_of(count: float) -> str:
    """Bytes: `4.1 GB`, `380 MB`."""
    for unit, size in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= size * 0.9995:
            number = count / size
            return f"{number:.0f} {unit}" if number >= 99.5 else f"{number:.1f} {unit}"
    return f"{count:.0f} B"


def progress_of(done: float, total: float) -> str:
    """Bytes that have come, in a unit that stays the same meanwhile: `412 of 1,234 MB`."""
    return f"{done / 1e6:,.0f} of {total / 1e6:,.0f} MB"


def short_path(path: Path) -> str:
    """A path on a line, with ~ for the home folder: `~/models/x.gguf`."""
    try:
        return one_line(f"~/{path.relative_to(Path.home())}")
    except (ValueError, RuntimeError):
        return one_line(str(path))


def count_of(count: float) -> str:
    """Parameters in three digits: `6.75M`, `8.03B`."""
    for unit, size in (("T", 1e12), ("B", 1e9), ("M", 1e6), ("K", 1e3)):
        if count >= size:
            return f"{count / size:.3g}{unit}"
    return f"{count:.0f}" if count else ""


def time_of(seconds: float) -> str:
    """A time that is left: `40 s`, `3 min`, `2 h 10 min`."""
    if seconds < 60:
        return f"{max(1, round(seconds))} s"
    minutes = round(seconds / 60)
    if minutes < 60:
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if minutes and hours < 24 else f"{hours} h"


def clock_of(seconds: float) -> str:
    """A clock: `47 ms`, `1.42 s`, `12.3 s`, `2:05`."""
    if seconds < 0.9995:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 10:
        return f"{seconds:.2f} s"
    if seconds < 100:
        return f"{seconds:.1f} s"
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"


def rate(each_second: float) -> str:
    """A number a second in three digits: `1,204`, `267`, `52.3`, `7.31`."""
    if each_second >= 99.95:
        return f"{each_second:,.0f}"
    return f"{each_second:.1f}" if each_second >= 9.995 else f"{each_second:.2f}"


def pace_of(passes: float) -> str:
    """Passes a second that answers are slowed down to: `4 passes a second`."""
    return f"{passes:.2g} {'pass' if passes == 1 else 'passes'} a second"


def times(ratio: float) -> str:
    """Format a ratio in two digits, since it repeats no better: `12×`, `2.3×`, `0.93×`, `<0.01×`."""
    if ratio < 0.005:
        return "<0.01×"
    if ratio >= 9.95:
        return f"{ratio:.0f}×"
    return f"{ratio:.1f}×" if ratio >= 0.945 else f"{ratio:.2f}×"


def milliseconds(seconds: float) -> str:
    """Seconds as milliseconds in three digits."""
    value = seconds * 1e3
    return f"{value:.3g}" if value < 1000 else f"{value:,.0f}"
