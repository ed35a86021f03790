"""What a race's panes say, out of the race as it is, or as it was at a moment of its replay."""

from __future__ import annotations

from ..race import Race, Racer
from ..race_record import SIGNS
from ..race_replay import Replay
from ..transcript import REASONS
from .photo_finish import mark_words
from .race_pane import PaneState


def live_state(race: Race, index: int) -> PaneState:
    """A lane as it is now."""
    racer = race.racers[index]
    figures = racer.answer.figures
    sign, words, style = mark_words(race, racer, live=racer.position is None and (not racer.done or race.running))
    return PaneState(
        index + 1,
        racer.entry.name,
        racer.answer.label,
        doing_of(race, racer),
        len(racer.tokens),
        race.expected,
        racer.seconds,
        figures.tokens_per_second,
        figures.tokens_per_step,
        race.speedup(racer) if index else 0.0,
        sign,
        words,
        style,
        race.place(racer),
        not racer.done,
        race.paused and not racer.done,
    )


def doing_of(race: Race, racer: Racer) -> str:
    """What goes on before there are figures, or why there are no more."""
    if racer.done:
        return "" if racer.through else REASONS.get(racer.answer.reason or "", racer.answer.reason or "")
    if racer.tokens:
        return ""
    if race.loading is not None:
        return "the model is being loaded again"
    done, total = racer.prefill
    if total > done:
        return f"reading the prompt: {done:,} of {total:,} tokens"
    return "at the start" if racer.started else "getting ready"


def replay_state(race: Race, replay: Replay, index: int, time: float) -> tuple[PaneState, int]:
    """A lane at a moment of the replay, and how many of its runs there are."""
    racer = race.racers[index]
    runs = replay.runs(index, time)
    tokens = replay.tokens(index, runs)
    over = time >= racer.seconds
    seconds = replay.decode_seconds(index, runs)
    speed = tokens / seconds if seconds > 0 else 0.0
    clock, first_clock = min(time, racer.seconds), min(time, race.racers[0].seconds)
    first = replay.tokens(0, replay.runs(0, time)) / first_clock if first_clock > 0 else 0.0
    pace = tokens / clock if clock > 0 else 0.0
    if racer.position is not None and tokens <= racer.position:
        sign, words, style = SIGNS["identical"], "identical so far", "$success"
    else:
        sign, words, style = mark_words(race, racer, live=not over)
    if index and not tokens:
        sign, words = "", ""
    return PaneState(
        index + 1,
        racer.entry.name,
        racer.answer.label,
        (REASONS.get(racer.answer.reason or "", "") if over and not racer.through else "")
        or ("" if tokens or over else "reading the prompt"),
        tokens,
        race.expected,
        clock,
        speed,
        # The last run may be text that had been held back: no step of its own.
        tokens / min(runs, len(racer.answer.log)) if tokens else 0.0,
        pace / first if index and first else 0.0,
        sign,
        words,
        style,
        race.place(racer) if over else None,
        not over,
        replay.paused and not over,
    ), runs
