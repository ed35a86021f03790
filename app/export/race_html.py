"""A race as one web page: the photo finish, the lanes' texts, and, where scripts may run, a replay at the recorded pace."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from ...errors import counted
from ..chat.compare import SIGNS, Mark
from ..race.lane import SHORT, Unit, bars
from ..race.record import RaceLane, RaceRecord
from ..text.amounts import clock_of, rate, times
from ..theming.colouring import bar_name
from .html import STYLE, Look, figures, head, headline, legend, spans, text, top

SERVED = "A server's clock is its own where it tells the time, else that of the arrival."
CLOCK = "Ranked by decoding: each pane's own clock begins when its prompt is read."

SLOWED = "Run in slow motion: passes taken one at a time are slower than passes in a row, so no speeds are compared."

MARK_STYLES: Mapping[Mark, str] = {"identical": "success", "near tie": "warning", "lossy": "error"}
"""Mark of a lane → its colour; any other mark is quiet."""

ENDLESS = 1e9
"""Least gap of a token that could not have been chosen at all."""

HINT = "A bar is as long as its pane is fast."

RACE_STYLE = (
    STYLE.replace("94ch", "200ch")
    + """
.race {
  display: grid; grid-template-columns: max-content minmax(8ch, 1fr) repeat(4, max-content); gap: .5rem 2ch;
  margin: 1.5rem 0; align-items: center; max-width: 130ch;
}
.race .won { font-weight: 700; }
.race .number { text-align: right; color: $quiet; font-size: 13px; font-variant-numeric: tabular-nums; }
.race .gain { color: $primary; font-weight: 700; }
.track { background: $panel; border-radius: 4px; height: .9rem; }
.bar { height: 100%; border-radius: 4px; min-width: 3px; }
.panes { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 38ch), 1fr)); gap: 1.5rem 3ch; }
.pane h2 {
  font-size: 15px; margin: 0 0 .7rem; padding: .35rem 1.5ch; background: $surface; border-radius: 4px;
  display: flex; gap: 1ch; justify-content: space-between;
}
.pane h2 small { font-size: 13px; font-weight: 400; color: $quiet; }
.pane h2 .success { color: $success; }
.pane h2 .warning { color: $warning; }
.pane h2 .error { color: $error; }
.controls { display: flex; gap: 1ch; align-items: center; color: $quiet; font-size: 13px; min-height: 2rem; margin: 0 0 1rem; }
button {
  font: inherit; color: $primary; background: $panel; border: 1px solid $line; border-radius: 4px;
  padding: .2rem 1.2ch; cursor: pointer;
}
button:hover, button:focus-visible { border-color: $primary; }
.later { visibility: hidden; }
@media (max-width: 70ch) { .race { grid-template-columns: max-content 1fr max-content; } .race .detail { display: none; } }
"""
)

SCRIPT = """
(() => {
  const lanes = [...document.querySelectorAll(".pane")].map((pane, i) => ({
    runs: [...pane.querySelectorAll("[data-t]")],
    bar: document.querySelectorAll(".bar")[i],
    seconds: document.querySelectorAll(".seconds")[i],
    end: Number(pane.dataset.end),
    at: 0,
  }));
  for (const lane of lanes) { lane.width = lane.bar.style.width; lane.shown = lane.seconds.textContent; }
  const longest = Math.max(0, ...lanes.map((lane) => lane.end));
  const box = document.querySelector(".controls");
  const play = document.createElement("button");
  const pace = document.createElement("button");
  const paces = [1, 0.5, 0.25, 0.1, 4, 2];
  let speed = 1, frame = 0, last = 0, now = 0;
  const label = () => {
    play.textContent = frame ? "\u25a0 Stop" : "\u25b6 Replay";
    pace.textContent = speed + "\u00d7";
  };
  const draw = () => {
    for (const lane of lanes) {
      const due = (run) => Number(run.dataset.t) <= now;
      while (lane.at < lane.runs.length && due(lane.runs[lane.at])) lane.runs[lane.at++].classList.remove("later");
      lane.bar.style.width = (lane.runs.length ? (100 * lane.at) / lane.runs.length : 100) + "%";
      if (!lane.shown.includes("pass")) lane.seconds.textContent = (Math.min(now, lane.end) / 1000).toFixed(2) + " s";
    }
  };
  const stop = () => {
    cancelAnimationFrame(frame);
    frame = 0;
    for (const lane of lanes) {
      for (const run of lane.runs) run.classList.remove("later");
      lane.bar.style.width = lane.width;
      lane.seconds.textContent = lane.shown;
    }
    label();
  };
  const step = (time) => {
    now += (time - last) * speed;
    last = time;
    draw();
    if (now > longest + 800) { stop(); return; }
    frame = requestAnimationFrame(step);
  };
  play.addEventListener("click", () => {
    if (frame) { stop(); return; }
    for (const lane of lanes) { lane.at = 0; for (const run of lane.runs) run.classList.add("later"); }
    now = 0;
    last = performance.now();
    frame = requestAnimationFrame(step);
    label();
  });
  pace.addEventListener("click", () => { speed = paces[(paces.indexOf(speed) + 1) % paces.length]; label(); });
  label();
  box.prepend(play, pace);
})();
"""
"""Script of the replay, which also adds its buttons: without scripts the page shows the finished race alone."""


class Finish(NamedTuple):
    """The result of a lane: its row of the photo finish."""

    lane: RaceLane
    name: str
    """Name of the lane, with its model if the lanes' models differ."""
    share: float
    """Length of its bar: 0 to 1."""
    speed: float
    """Tokens or characters per second of its clock."""
    unit: Unit
    speedup: float
    """Speedup over the first lane."""
    slowed: bool

    @property
    def figures(self) -> list[str]:
        """Clock (in slow motion passes), speed, tokens a pass, speedup: as on the screen."""
        figures = self.lane.answer.figures
        passes = figures.steps if self.slowed else 0
        return [
            counted(passes, "pass", "passes") if passes else clock_of(self.lane.clock.seconds),
            f"{rate(self.speed)} {SHORT[self.unit]}/s" if self.speed else "–",
            f"{figures.tokens_per_step:.2f} tokens a pass" if figures.tokens_per_step else "–",
            times(self.speedup) if self.speedup else "–",
        ]

    @property
    def mark(self) -> str:
        """Comparison of its tokens with the first lane's."""
        return f"{SIGNS[self.lane.mark]} {self.lane.mark}"

    @property
    def difference(self) -> str:
        """The first token that differs, and its gap; empty if none does."""
        lane = self.lane
        if lane.position is None:
            return ""
        words = f"from token {lane.position + 1:,} on"
        if lane.gap is None:
            return words
        return f"{words}, gap ∞" if lane.gap >= ENDLESS else f"{words}, gap {lane.gap:.2g}"


def photo_finish(record: RaceRecord) -> list[Finish]:
    """Return the lanes' results in their order: the figures of the photo finish on the screen, and its bars."""
    speedups = [record.speedup(lane) for lane in record.lanes]
    speeds = [record.speed(lane) for lane in record.lanes]
    shares = bars(speedups, speeds, [lane.answer.figures.tokens_per_step for lane in record.lanes])
    results = zip(record.lanes, lane_names(record), shares, speeds, speedups, strict=True)
    return [
        Finish(lane, name, share, speed, record.unit, speedup, slowed=record.slowed)
        for lane, name, share, speed, speedup in results
    ]


def lane_names(record: RaceRecord) -> list[str]:
    """Return the lanes' names, with their models if there are several."""
    pairs = zip(record.lanes, record.model_names, strict=True)
    return [f"{lane.name} on {model}" if model and not lane.model else lane.name for lane, model in pairs]


def remarks(record: RaceRecord) -> list[str]:
    """Return the sentences that explain the figures."""
    amounts = {lane.clock.amount(record.unit) for lane in record.lanes if lane.answer.through} - {0}
    sentences = []
    if record.unit == "characters":
        sentences.append("The methods' tokens differ, so their texts are compared in characters.")
    if len(amounts) > 1:
        line = counted(record.finish_line, record.unit.removesuffix("s"))
        sentences.append(f"The texts have different lengths, so they are compared at {line}, where the shortest ends.")
    if any(lane.answer.figures.certainty for lane in record.lanes):
        sentences.append(SERVED)
    return [*sentences, SLOWED if record.slowed else CLOCK]


def model_of(record: RaceRecord) -> dict[str, Any]:
    return {"asked": record.model, **record.info}


def race_html(record: RaceRecord, look: Look) -> Iterator[str]:
    model, where, date = headline(model_of(record), record.saved)
    yield head("specchat race", look, SCRIPT, RACE_STYLE)
    yield f'{top(model, where, date)}<main>\n<div class="prompt">{text(record.prompt.strip(chr(10)))}</div>\n'
    yield '<div class="race">\n'
    finishes = photo_finish(record)
    for finish in finishes:
        yield _bar(finish, look)
    notes = remarks(record) if record.slowed else [HINT, *remarks(record)]
    yield f'</div>\n<div class="controls"><span>{text(" ".join(notes))}</span></div>\n<div class="panes">\n'
    for finish in finishes:
        lane = finish.lane
        mark_style = MARK_STYLES.get(lane.mark, "quiet")
        yield f'<section class="pane" data-end="{lane.clock.seconds * 1000:.0f}"><h2>{text(finish.name)} '
        yield f'<small><span class="{mark_style}">{text(finish.mark)}</span> {text(finish.difference)}</small></h2>\n'
        yield '<div class="answer">'
        yield from spans(lane.answer, look, lane.clock.times())
        yield f"</div>\n{figures(lane.answer, speeds=False)}</section>\n"
    yield f"</div>\n{legend(look)}</main>\n<script>{SCRIPT}</script>\n</body>\n</html>\n"


def _bar(finish: Finish, look: Look) -> str:
    seconds, speed, steps, gain = map(text, finish.figures)
    won = ' class="won"' if finish.share >= 1 else ""
    colour = look.colour(bar_name(finish.lane.answer.figures.tokens_per_step))
    bar = f'<div class="bar" style="width: {finish.share:.1%}; background: {colour}"></div>'
    return (
        f"<span{won}>{text(finish.name)}</span>"
        f'<div class="track">{bar}</div>'
        f'<span class="number seconds">{seconds}</span><span class="number detail">{speed}</span>'
        f'<span class="number detail">{steps}</span><span class="number gain detail">{gain}</span>\n'
    )
