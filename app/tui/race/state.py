"""What a race's panes say, out of the race as it is, or as it was at a moment of its replay."""

from __future__ import annotations

from dataclasses import replace

from ....errors import counted
from ...chat.compare import SIGNS
from ...race.clock import common
from ...race.guests import RaceGuest
from ...race.lane import Racer
from ...race.race import Race
from ...race.replay import Replay
from ..chat.status import STAGES
from .pane import PaneState
from .photo_finish import mark_words


def live_state(race: Race, index: int) -> PaneState:
    racer, unit = race.racers[index], race.unit
    sign, words, style = mark_words(race, racer, live=racer.position is None and (not racer.done or race.running))
    return replace(
        _lane(race, index),
        doing=doing_of(race, racer),
        amount=racer.track.amount(unit),
        seconds=racer.seconds,
        speed=racer.speed(unit),
        tokens_per_step=racer.answer.figures.tokens_per_step,
        speedup=race.speedup(racer) if index else 0.0,
        sign=sign,
        mark=words,
        mark_style=style,
        place=race.place(racer),
        running=not racer.done,
        paused=race.paused and not racer.done,
        tokens_per_second=racer.speed("tokens"),
        passes=racer.answer.figures.steps,
    )


def _lane(race: Race, index: int) -> PaneState:
    racer, model = race.racers[index], race.model_names[index]
    return PaneState(
        *(index + 1, racer.entry.name, label_of(race, racer)),
        expected=race.expected,
        model=model,
        unit=race.unit,
        slowed=race.slowed,
        unknown=racer.answer.figures.certainty == "unknown",
    )


def label_of(race: Race, racer: Racer) -> str:
    """What is promised of a lane's text. It is a promise about the lane's own model: beside another it would say too much."""
    return racer.answer.label if racer.entry.key == race.racers[0].entry.key else ""


def doing_of(race: Race, racer: Racer) -> str:
    """What goes on before there are figures, or why there are no more."""
    if racer.done:
        return "" if racer.through else racer.answer.ending
    if racer.tokens:
        return ""
    if race.loading is not None:
        return "reloading the model"
    if (guest := race.models.loading) is not None:
        return loading_words(guest) if guest is race.models.get(racer.entry.key) else "waiting for a model"
    done, total = racer.answer.prefill
    if total > done:
        return f"reading the prompt: {done:,} of {counted(total, 'token')}"
    return "at the start" if racer.started else "getting ready"


def loading_words(guest: RaceGuest) -> str:
    """How far a load is."""
    event = guest.loading
    if event is None:
        return "its model loads next"
    stage = event.stage.removeprefix("draft ")
    draft = " of its draft model" if stage != event.stage else ""
    share = f" {event.done / event.total:.0%}" if event.total else ""
    return f"{STAGES.get(stage, stage)}{draft}{share}"


def replay_state(race: Race, replay: Replay, index: int, time: float) -> tuple[PaneState, int]:
    """A lane at a moment of the replay, and how many of its runs there are."""
    racer, first, unit = race.racers[index], race.racers[0], race.unit
    runs = replay.runs(index, time)
    tokens, amount = replay.amount(index, runs), replay.amount(index, runs, unit)
    over = time >= racer.seconds
    clock = min(time, racer.seconds)
    length = common((amount, replay.amount(0, replay.runs(0, time), unit)))
    own = racer.time(length, unit)
    if racer.position is not None and tokens <= racer.position:
        sign, words, style = SIGNS["identical"], "identical so far", "$success"
    else:
        sign, words, style = mark_words(race, racer, live=not over)
    if index and not tokens:
        sign, words = "", ""
    doing = "" if tokens else "reading the prompt"
    if over:
        doing = "" if racer.through else racer.answer.ending
    state = replace(
        _lane(race, index),
        doing=doing,
        amount=amount,
        seconds=clock,
        speed=amount / clock if clock > 0 else 0.0,
        # The last run may be text that had been held back: no step of its own.
        tokens_per_step=tokens / min(runs, len(racer.answer.log)) if tokens else 0.0,
        speedup=first.time(length, unit) / own if index and own and not race.slowed else 0.0,
        sign=sign,
        mark=words,
        mark_style=style,
        place=race.place(racer) if over else None,
        running=not over,
        paused=replay.paused and not over,
        tokens_per_second=tokens / clock if clock > 0 else 0.0,
        passes=min(runs, len(racer.answer.log)),
    )
    return state, runs
