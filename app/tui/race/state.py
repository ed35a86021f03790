"""The figures of a race's lanes, during the race and ranked."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ....errors import counted
from ...chat.compare import SIGNS
from ...race.clock import Unit, idle
from ...race.guests import RaceGuest
from ...race.lane import Racer
from ...race.race import Race

STAGES = {
    "import": "starting the runtime",
    "download": "downloading",
    "weights": "loading the weights",
    "check": "checking what this model can verify",
}
"""Stage of a load → its words on the screen."""


@dataclass(frozen=True, slots=True)
class LaneFigures:
    """The figures of a lane; texts as shown."""

    number: int
    name: str
    label: str = ""
    """Guarantee about its text: `identical`."""
    doing: str = ""
    """Activity before there are figures, or the reason of an early end."""
    amount: int = 0
    """Tokens or characters written."""
    expected: int = 1
    """Amount of a full bar."""
    seconds: float = 0.0
    """Decoding time on the lane's clock."""
    prompt_seconds: float = 0.0
    """Prefill time, which no clock counts: the same for all lanes of a model."""
    speed: float = 0.0
    """Amount per second on the clock."""
    tokens_per_step: float = 0.0
    acceptance: float | None = None
    speedup: float = 0.0
    """Speed as a multiple of the first lane's; 0 if unknown."""
    sign: str = ""
    mark: str = ""
    """Comparison of its tokens with the first lane's, in words."""
    mark_style: str = "$quiet"
    place: int | None = None
    running: bool = False
    paused: bool = False
    model: str = ""
    """Name of the lane's model; empty if all lanes have the same."""
    unit: Unit = "tokens"
    """Unit of `amount`."""
    tokens_per_second: float = 0.0
    """Speed in tokens, for lanes measured in characters."""
    passes: int = 0
    slowed: bool = False
    """Whether the race is in slow motion, where passes replace the clock."""
    unknown: bool = False
    """Whether a server hides its passes."""
    line: int = 0
    """Length of the shortest text, at which the lanes are ranked; 0 for texts of the same length."""
    arrival: float = 0.0
    """Time on the lane's clock at `line`."""
    rounds: int = 1
    """Rounds; the figures are those of the median one."""


def live_state(race: Race, index: int) -> LaneFigures:
    """Measure a lane during the race; the first one has no speed-up."""
    racer = race.racers[index]
    figures = _figures(race, racer, live=racer.position is None and (not racer.done or race.running))
    return figures if index else replace(figures, speedup=0.0)


def standings(race: Race) -> list[LaneFigures]:
    """Rank the lanes."""
    names = dict(zip((racer.lane for racer in race.racers), lane_names(race), strict=True))
    lengths = {racer.track.amount(race.unit) for racer in race.racers if racer.through} - {0}

    def row(racer: Racer) -> LaneFigures:
        figures = _figures(race, racer)
        return replace(
            figures,
            name=names[racer.lane],
            mark="reference" if racer is race.racers[0] else figures.mark,
            doing=idle(racer.answer) if racer.through else racer.answer.ending,
            line=race.finish_line if len(lengths) > 1 else 0,
            arrival=racer.time(race.finish_line, race.unit) if racer.through else 0.0,
            rounds=race.round,
        )

    return [row(racer) for racer in race.ranking()]


def _figures(race: Race, racer: Racer, *, live: bool = False) -> LaneFigures:
    index, figures = race.racers.index(racer), racer.answer.figures
    sign, words, style = mark_words(race, racer, live=live)
    return LaneFigures(
        index + 1,
        racer.entry.name,
        effective_label(race, racer),
        doing=doing_of(race, racer),
        amount=racer.track.amount(race.unit),
        expected=race.expected,
        seconds=racer.seconds,
        prompt_seconds=race.prompt_seconds(racer),
        speed=racer.speed(race.unit),
        tokens_per_step=figures.tokens_per_step,
        acceptance=figures.acceptance,
        speedup=race.speedup(racer),
        sign=sign,
        mark=words,
        mark_style=style,
        place=race.place(racer),
        running=not racer.done,
        paused=race.paused and not racer.done,
        model=race.model_names[index],
        unit=race.unit,
        tokens_per_second=racer.speed("tokens"),
        passes=figures.steps,
        slowed=race.slowed,
        unknown=bool(figures.certainty) and not figures.steps,
    )


def mark_words(race: Race, racer: Racer, *, live: bool = False) -> tuple[str, str, str]:
    """Compare a lane's tokens with the first lane of its model, in a sign, words and their style."""
    mark = race.mark(racer)
    where = f"from token {racer.position + 1:,}" if racer.position is not None else ""
    sign = SIGNS[mark]
    match mark:
        case "reference":
            return sign, "reference for the others", "$quiet"
        case "another model":
            return sign, "another model", "$quiet"
        case "identical":
            first = race.racers.index(race.reference(racer))
            word = f"identical to {first + 1}" if first else "identical"
            return sign, f"{word} so far" if live else word, "$success"
        case "near tie":
            return sign, f"near tie {where}, gap {racer.gap or 0:.2g}", "$warning"
        case "lossy":
            gap = f", gap {racer.gap:.2g}" if racer.gap is not None and racer.gap < 1e6 else ""
            word = "lossy" if racer.answer.label == "lossy" else "other draws"
            if racer.label_is_exact or racer.served:
                word = "differs"
            return sign, f"{word} {where}{gap}", "$error"
        case _:
            return sign, f"differs {where}: how near a tie?" if racer.position is not None else "", "$quiet"


def lane_names(race: Race) -> list[str]:
    """Name the lanes by method, model or both, so that the names differ."""
    names, models = [racer.entry.name for racer in race.racers], race.model_names
    if not any(models):
        return names
    if len(set(names)) == 1 and len(set(models)) == len(models):
        return models
    return [f"{name} · {model}" for name, model in zip(names, models, strict=True)]


def effective_label(race: Race, racer: Racer) -> str:
    """Choose a lane's label. It holds for the lane's own model; next to another model it would promise too much."""
    return racer.answer.label if racer.entry.key == race.racers[0].entry.key else ""


def doing_of(race: Race, racer: Racer) -> str:
    """Describe a lane's activity before there are figures, or its early end."""
    if racer.done:
        return idle(racer.answer) if racer.through else racer.answer.ending
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
    event = guest.loading
    if event is None:
        return "its model loads next"
    stage = event.stage.removeprefix("draft ")
    draft = " of its draft model" if stage != event.stage else ""
    share = f" {event.done / event.total:.0%}" if event.total else ""
    return f"{STAGES.get(stage, stage)}{draft}{share}"
