"""A race as Markdown and as JSON, and its photo finish: what all formats tell of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from ...errors import counted
from ..chat.compare import SIGNS, Mark
from ..race.clock import SHORT, Unit, bars, in_words
from ..race.record import RaceLane, RaceRecord
from ..render.verdict import verdict_text
from ..text.amounts import times
from ..text.cells import sanitise
from .markdown import closed, inert, plain, quoted

SERVED = "A server's clock is its own where it tells the time, else that of the arrival."
CLOCK = "By each pane's own clock, the prompt's prefill included."

SLOWED = "Run in slow motion: passes taken one at a time are slower than passes in a row, so no speeds are compared."

MARK_STYLES: Mapping[Mark, str] = {"identical": "success", "near tie": "warning", "lossy": "error"}
"""How alike a lane is → the theme's colour that tells it; any other is quiet."""

ENDLESS = 1e9
"""A gap from here on stands for a token that could not have been chosen at all."""


class Finish(NamedTuple):
    """The result of a lane: its row of the photo finish."""

    lane: RaceLane
    name: str
    """What the lane is called: with its model, where the lanes' models differ."""
    share: float
    """Length of its bar: 0 to 1."""
    seconds: float
    amount: int
    """Length of its whole text, in tokens or characters."""
    speed: float
    """Tokens or characters per second of its own clock."""
    unit: Unit
    tokens_per_step: float
    speedup: float
    """How many times sooner than the first lane it had written what both have."""
    passes: int
    """How many it took, where the race ran in slow motion and they stand for its clock; else 0."""

    @property
    def figures(self) -> list[str]:
        """Clock or passes, speed, tokens a pass, speedup: as on the screen."""
        speedup = times(self.speedup) if self.speedup else "–"
        return [
            counted(self.passes, "pass", "passes") if self.passes else in_words(self.seconds),
            f"{self.speed:,.0f} {SHORT[self.unit]}/s" if self.speed else "–",
            f"{self.tokens_per_step:.2f} tokens a pass" if self.tokens_per_step else "–",
            speedup,
        ]

    @property
    def mark(self) -> str:
        """How its tokens compare with the first lane's."""
        return f"{SIGNS[self.lane.mark]} {self.lane.mark}"

    @property
    def where(self) -> str:
        """The token from which on it differs, and how near a tie it was; empty where it does not."""
        lane = self.lane
        if lane.position is None:
            return ""
        gap = "" if lane.gap is None else ", gap ∞" if lane.gap >= ENDLESS else f", gap {lane.gap:.2g}"
        return f"from token {lane.position + 1:,} on{gap}"


def photo_finish(record: RaceRecord) -> list[Finish]:
    """Each lane's result, in the lanes' order: the figures of the photo finish on the screen, and its bars."""
    speedups, speeds = ([find(lane) for lane in record.lanes] for find in (record.speedup, record.speed))
    each = [lane.answer.figures.tokens_per_step for lane in record.lanes]
    shares = bars(speedups, speeds, each)
    return [
        Finish(
            *(lane, name, share, lane.seconds, lane.track.amount(record.unit), speed, record.unit, per_step, speedup),
            passes=lane.answer.figures.steps if record.slowed else 0,
        )
        for lane, name, share, speed, per_step, speedup in zip(
            record.lanes, called(record), shares, speeds, each, speedups, strict=True
        )
    ]


def called(record: RaceRecord) -> list[str]:
    """What each lane is called; lanes on the race's own model have its name too where others have their own."""
    named = zip(record.lanes, record.model_names, strict=True)
    return [f"{lane.name} on {model}" if model and not lane.model else lane.name for lane, model in named]


def remarks(record: RaceRecord) -> list[str]:
    """What must be known to read the figures, a sentence each."""
    amounts = {lane.track.amount(record.unit) for lane in record.lanes if lane.answer.through} - {0}
    said = []
    if record.unit == "characters":
        said.append("The methods' tokens differ, so their texts are compared in characters.")
    if len(amounts) > 1:
        line = counted(record.finish_line, record.unit.removesuffix("s"))
        said.append(f"The texts have different lengths, so they are compared at {line}, where the shortest ends.")
    if any(lane.answer.figures.certainty for lane in record.lanes):
        said.append(SERVED)
    return [*said, SLOWED if record.slowed else CLOCK]


def model_of(record: RaceRecord) -> dict[str, Any]:
    return {"asked": record.model, **record.info}


def race_markdown(record: RaceRecord) -> Iterator[str]:
    what = [plain(text) for text in (str(record.info.get("name") or record.model), record.saved) if text]
    yield f"# specchat race{': ' if what else ''}{' · '.join(what)}\n\n{quoted(record.prompt)}\n\n"
    unit = SHORT[record.unit]
    clock = "passes" if record.slowed else "clock"
    yield f"| pane | {clock} | {unit}/s | tokens a pass | speedup | {unit} | compared |\n|---|---:|---:|---:|---:|---:|---|\n"
    finishes = photo_finish(record)
    for finish in finishes:
        cells = [
            plain(finish.name),
            f"{finish.passes:,}" if finish.passes else finish.figures[0],
            *(words.split(" ")[0] for words in finish.figures[1:]),
            f"{finish.amount:,}",
            plain(f"{finish.mark} {finish.where}"),
        ]
        yield f"| {' | '.join(cells)} |\n"
    yield "".join(f"\n{plain(said)}\n" for said in remarks(record))
    for number, (lane, finish) in enumerate(zip(record.lanes, finishes, strict=True), 1):
        yield f"\n## {number}. {plain(finish.name)}\n"
        first = next(i for i, other in enumerate(record.lanes, 1) if other.model == lane.model)
        if number > first and lane.mark == "identical":
            yield f"\n*Token for token the text of {'the first pane' if first == 1 else f'pane {first}'}.*\n"
        elif said := closed(inert(sanitise(lane.answer.text)).strip("\n")):
            yield f"\n{said}\n"
        yield f"\n*{plain(verdict_text(lane.answer, speeds=False))}*\n"
