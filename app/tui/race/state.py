"""The figures of a race's lanes, during the race and ranked."""

from __future__ import annotations

from dataclasses import dataclass

from ....engine.messages import Loading
from ....errors import counted
from ...chat.compare import SIGNS
from ...race.lane import Racer, Unit, idle
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
    method: str
    """The method with its settings."""
    model: str = ""
    """Name of the lane's model; empty if all lanes have the same."""
    label: str = ""
    """Guarantee about its text: `identical`."""
    doing: str = ""
    """Activity before there are figures, or the reason of an early end."""
    amount: int = 0
    """Tokens or characters written."""
    unit: Unit = "tokens"
    """Unit of `amount`."""
    expected: int = 1
    """Amount of a full bar."""
    passes: int = 0
    seconds: float = 0.0
    """Decoding time on the lane's clock."""
    speed: float = 0.0
    """Amount per second on the clock."""
    tokens_per_step: float = 0.0
    """Mean tokens of a pass; 0 if unknown."""
    acceptance: float | None = None
    speedup: float = 0.0
    """Speed as a multiple of the first lane's; 0 if unknown."""
    sign: str = ""
    mark: str = ""
    """Comparison of its tokens with the first lane's, in words."""
    mark_style: str = "$quiet"
    place: int | None = None
    running: bool = False
    slowed: bool = False
    """Whether the race is in slow motion, where passes replace the clock."""
    line: int = 0
    """Length of the shortest text, at which the lanes are ranked; 0 for texts of the same length."""
    arrival: float = 0.0
    """Time on the lane's clock at `line`."""
    rounds: int = 1
    """Rounds; the figures are those of the median one."""

    @property
    def name(self) -> str:
        """Its method, and its model if the lanes' models differ."""
        return f"{self.method} · {self.model}" if self.model else self.method


def lane_figures(race: Race, racer: Racer) -> LaneFigures:
    """Measure a lane."""
    index, answer = race.racers.index(racer), racer.answer
    sign, mark, mark_style = mark_words(race, racer)
    lengths = {other.clock.amount(race.unit) for other in race.racers if other.through} - {0}
    line = race.finish_line if len(lengths) > 1 else 0
    return LaneFigures(
        index + 1,
        racer.entry.name,
        model=race.model_names[index],
        # A label holds for the lane's own model; next to another model it would promise too much.
        label=answer.label if racer.entry.key == race.racers[0].entry.key else "",
        doing=describe_activity(race, racer),
        amount=racer.clock.amount(race.unit),
        unit=race.unit,
        expected=race.expected,
        passes=answer.figures.steps,
        seconds=racer.clock.seconds,
        speed=racer.clock.speed(race.unit),
        tokens_per_step=answer.figures.tokens_per_step,
        acceptance=answer.figures.acceptance,
        speedup=race.speedup(racer),
        sign=sign,
        mark=mark,
        mark_style=mark_style,
        place=race.place(racer),
        running=not racer.done,
        slowed=race.slowed,
        line=line,
        arrival=racer.clock.time(line, race.unit) if racer.through else 0.0,
        rounds=race.round,
    )


def standings(race: Race) -> list[LaneFigures]:
    """Rank the lanes."""
    return [lane_figures(race, racer) for racer in race.ranking()]


def mark_words(race: Race, racer: Racer) -> tuple[str, str, str]:
    """Compare a lane's tokens with the first lane of its model, in a sign, words and their style."""
    mark = race.mark(racer)
    where = f"from token {racer.position + 1:,}" if racer.position is not None else ""
    sign = SIGNS[mark]
    match mark:
        case "reference" | "another model":
            return sign, mark, "$quiet"
        case "identical":
            first = race.racers.index(race.reference(racer))
            word = f"identical to {first + 1}" if first else "identical"
            return sign, f"{word} so far" if race.running else word, "$success"
        case "near tie":
            return sign, f"near tie {where}, gap {racer.gap or 0:.2g}", "$warning"
        case "lossy":
            gap = f", gap {racer.gap:.2g}" if racer.gap is not None and racer.gap < 1e6 else ""
            word = "lossy" if racer.answer.label == "lossy" else "other draws"
            if racer.label_is_exact or racer.served:
                word = "differs"
            return sign, f"{word} {where}{gap}", "$error"
        case _:
            return sign, f"differs {where}: how near a tie?" if where else "", "$quiet"


def describe_activity(race: Race, racer: Racer) -> str:
    """Describe a lane's activity before there are figures, or its early end."""
    if racer.done:
        return idle(racer.answer) if racer.through else racer.answer.ending
    if racer.tokens:
        return ""
    if race.loading is not None:
        return "reloading the model"
    if (model := race.models.loading) is not None:
        if model.key != racer.entry.key:
            return "waiting for a model"
        event = model.loading
        share = f" {event.done / event.total:.0%}" if event is not None and event.total else ""
        return loading_words(event) + share if event is not None else "its model loads next"
    done, total = racer.answer.prefill
    return f"reading the prompt: {done:,} of {counted(total, 'token')}" if total > done else "getting ready"


def loading_words(event: Loading) -> str:
    """Name the stage of a load."""
    stage = event.stage.removeprefix("draft ")
    return STAGES.get(stage, stage) + (" of the draft model" if stage != event.stage else "")
