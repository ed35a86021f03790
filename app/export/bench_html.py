"""A run of bench as one web page: the speedups as a chart with their intervals, the table, and the machine."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any

from ..theming.colouring import bar_name
from .html import head, text, top
from .look import Look
from .look import headline as heading
from .race_html import RACE_STYLE

BENCH_STYLE = (
    RACE_STYLE
    + """
h1 { font-size: 17px; margin: 1.6rem 0 .4rem; }
h2 { font-size: 15px; margin: .8rem 0 0; color: $primary; grid-column: 1 / -1; }
.race { grid-template-columns: max-content minmax(8ch, 1fr) repeat(3, max-content); margin: .5rem 0; }
.track { position: relative; }
.plain { position: absolute; top: -.2rem; bottom: -.2rem; border-left: 1px dashed $foreground; }
.range { position: absolute; top: 50%; border-top: 2px solid $foreground; height: 0; }
table { border-collapse: collapse; font-size: 13px; font-variant-numeric: tabular-nums; }
td, th { text-align: right; padding: .15rem 1ch; border-bottom: 1px solid $line; font-weight: 400; }
th { color: $quiet; }
td:nth-child(-n+2), th:nth-child(-n+2) { text-align: left; }
.best td { font-weight: 700; }
.about { color: $quiet; font-size: 13px; overflow-wrap: anywhere; }
.wide { overflow-x: auto; margin-top: 1.6rem; }
"""
)

CHART = (
    "A bar is a method’s speedup, its colour the tokens a pass, the line across it the 95% interval; dashed: plain decoding."
)

REACH = 1.25
"""End of the chart, in times the greatest speedup: an interval of few prompts may go far beyond."""


def bench_html(
    report: Mapping[str, Any],
    about: Sequence[str],
    titles: Sequence[str],
    rows: Sequence[Sequence[str]],
    best: Collection[int],
    look: Look,
) -> Iterator[str]:
    """Yield the page of a report as `bench --json` prints it, with the terminal's table and the numbers of its best rows.
    `about` is the run, the headline, the averaging of rows, and the machine."""
    run, verdict, *more = about
    model, where, _ = heading({"name": report["model"], **report}, "")
    yield head("specchat bench", look, template=BENCH_STYLE)
    yield f"{top(model, where, '')}<main>\n<h1>{text(verdict or run)}</h1>\n"
    yield f'<p class="about">{text(run)}</p>\n' if verdict else ""
    measured = [row for row in report["results"] if row["speedup"] is not None]
    end = REACH * max((row["speedup"] for row in measured), default=1.0)
    order = list(dict.fromkeys(row["category"] for row in measured))
    yield '<div class="race">\n'
    for category, lines in groupby(sorted(measured, key=lambda row: order.index(row["category"])), itemgetter("category")):
        yield f"<h2>{text(category)}</h2>\n"
        yield from (_bar(row, end, look) for row in lines)
    yield "</div>\n"
    yield f'<p class="about">{CHART}</p>\n' if measured else ""
    yield '<div class="wide"><table>\n<tr>' + "".join(f"<th>{text(title)}</th>" for title in titles) + "</tr>\n"
    for i, row in enumerate(rows):
        cells = "".join(f"<td>{text(cell)}</td>" for cell in row)
        yield f'<tr class="best">{cells}</tr>\n' if i in best else f"<tr>{cells}</tr>\n"
    yield "</table></div>\n" + "".join(f'<p class="about">{text(note)}</p>\n' for note in more) + "</main>\n</body>\n</html>\n"


def _bar(row: Mapping[str, Any], end: float, look: Look) -> str:
    """Format a method's row of the chart; its lengths and places are shares of `end`."""
    speedup, low, high, passes = (row[key] for key in ("speedup", "speedup_low", "speedup_high", "tokens_per_step"))
    colour = look.colour(bar_name(passes or 1.0))
    drawn = f'<div class="bar" style="width: {speedup / end:.1%}; background: {colour}"></div>'
    drawn += f'<div class="plain" style="left: {1 / end:.1%}"></div>'
    if low is not None and low < high:
        first, last = min(low / end, 1.0), min(high / end, 1.0)
        drawn += f'<div class="range" style="left: {first:.1%}; width: {last - first:.1%}"></div>'
    pass_text = f"{passes:.2f} tokens a pass" if passes else "–"
    return (
        f'<span>{text(row["method"])}</span><div class="track">{drawn}</div>'
        f'<span class="number detail">{row["tokens_per_second"] or 0:.1f} tokens/s</span>'
        f'<span class="number detail">{pass_text}</span><span class="number gain">{speedup:.2f}×</span>\n'
    )
