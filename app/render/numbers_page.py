"""The page of figures: how an answer came about, and what other draft lengths would have made of it."""

from __future__ import annotations

from collections.abc import Sequence

from ...engine.catalog import Totals
from ..chat.entries import Answer
from ..chat.methods import method_named
from ..text.amounts import milliseconds
from ..text.cells import fit, one_line, width
from ..text.charts import Trend, bar, columns, percent, portions, resampled
from ..text.lines import Line, cut, ends, line, paragraph, track

LENGTHS = (1, 2, 3, 4, 6, 8)
"""K of the what-if table."""

RATES = (0.5, 0.6, 0.7, 0.8, 0.9)
"""α of the what-if table."""

LONGEST_BEST = 32
"""The best K is looked for up to here."""

POSITION_TITLES = ("Accepted at draft position", "Accepted at position", "Accepted at")

BINS = 6
"""Rows of the histogram and of the acceptance by position."""

SPARK_ROWS, WIDEST = 2, 4
"""Height of the curve, and the width of a column where there are few."""

EVEN = 0.02
"""A speedup this near to 1 is neither gain nor loss."""

SHARES = (("draft", "$run-1"), ("pass", "$run-0"), ("rest", "$run-3"))
"""Parts of the time, with their colours."""


def numbers_lines(answer: Answer | None, method: str, curve: Curve, cells: int) -> list[Line]:
    """The page.

    Args:
        answer: whose figures; None if there is none.
        method: whose part of the answer the detailed figures are of.
        curve: of the answer that was shown last.
        cells: width.
    """
    if answer is None or not answer.totals.steps:
        return paragraph("No figures yet: they come with the first steps of an answer.", cells, "$quiet")
    part = answer.by_method.get(method, answer.totals)
    out = _summary(answer, cells)
    sections = [
        # Where tokens come together that no pass gave together, their number says nothing of the passes.
        _trend(curve.of(answer.totals), cells) if not answer.totals.earlier else [],
        _bins(part, cells) if not part.earlier else [],
        _speedups(part, method, cells),
        _time(part, cells),
        _what_if(part, cells),
    ]
    if len(answer.by_method) > 1:
        sections.insert(
            1, [line((f"Of its {part.steps:,} steps with ", "$quiet"), (one_line(method), "bold $primary"), (":", "$quiet"))]
        )
    for section in sections:
        if section:
            out += [(), *section]
    return [cut(row, cells) for row in out]


class Curve:
    """Tokens of each step of one answer, kept up step by step: drawing costs the same however long the answer is."""

    def __init__(self) -> None:
        self._totals, self._trend = Totals(), Trend()

    def of(self, totals: Totals) -> Trend:
        """The curve up to date, or one from the start for another answer."""
        if totals is not self._totals:
            self._totals, self._trend = totals, Trend()
        for run in totals.runs[self._trend.count :]:
            self._trend.add(run)
        return self._trend


def heading(text: str, note: str, cells: int) -> Line:
    """A section's title, and at the right what it amounts to."""
    return ends(line((text, "bold $primary")), line((note, "$quiet")), cells)


def _summary(answer: Answer, cells: int) -> list[Line]:
    """One row for each method that wrote a part."""
    rows = [(name, totals) for name, totals in answer.by_method.items()]
    name_cells = min(12, max(width(one_line(name)) for name, _ in rows))
    columns_ = (("tok/step", 8), ("accepted", 8), ("× plain", 8), ("tokens/s", 9))
    shown: list[tuple[str, int]] = []
    for title, size in columns_:
        if name_cells + sum(s for _, s in shown) + size + len(shown) + 1 <= cells:
            shown.append((title, size))
    out = [line((" " * name_cells, ""), ("".join(f" {title:>{size}}" for title, size in shown), "$quiet"))]
    for name, totals in rows:
        values = {
            "tok/step": f"{totals.tokens_per_step:.2f}",
            "accepted": percent(totals.acceptance_rate) if totals.drafted else "–",
            "× plain": f"{totals.measured_speedup:.2f}",
            "tokens/s": f"{totals.tokens_per_second:,.0f}",
        }
        figures = "".join(f" {values[title]:>{size}}" for title, size in shown)
        out.append(line((f"{fit(one_line(name), name_cells):<{name_cells}}", "bold $primary"), (figures, "$foreground")))
    return out


def _trend(trend: Trend, cells: int) -> list[Line]:
    """Tokens of each step over the answer."""
    values = resampled(trend.means(), cells)
    each = trend.count / max(1, len(values))
    wide = min(WIDEST, cells // len(values))
    drawn = columns(values, trend.highest, SPARK_ROWS)
    note = f"{trend.count:,} steps" + (f", {each:.0f} a column" if each > 1.5 else "") + f", most {trend.highest:.0f}"
    return [
        heading("Tokens per step", note, cells),
        *((("".join(column * wide for column in row), "$run-0"),) for row in drawn),
    ]


def _bins(totals: Totals, cells: int) -> list[Line]:
    """Run lengths and acceptance by draft position, side by side."""
    half = (cells - 3) // 2
    counts = [totals.histogram[size] for size in range(1, BINS)]
    steps = sum(totals.histogram.values())
    beyond = steps - sum(counts) - totals.histogram[0]
    runs = [(str(size), count) for size, count in enumerate(counts, 1)] + [(f"{BINS}+", beyond)]
    total = max(1, steps)
    left = [_bin(label, count / total, half, "$run-0") for label, count in runs]
    taken = totals.position_acceptance
    if not taken:
        return [
            heading("Run lengths", "share of the steps", cells),
            *(_bin(label, count / total, cells, "$run-0") for label, count in runs),
        ]
    right = [_bin(str(position), rate, half, "$run-2") for position, rate in enumerate(taken[:BINS], 1)]
    right += [()] * (BINS - len(right))
    gap = cells - 2 * half
    title = next((text for text in POSITION_TITLES if width(text) <= half), "Accepted")
    titles = line(
        (f"{fit('Run lengths', half):<{half}}", "bold $primary"),
        " " * gap,
        (title, "bold $primary"),
    )
    return [titles, *((*a, (" " * gap, ""), *b) for a, b in zip(left, right, strict=True))]


def _bin(label: str, share: float, cells: int, style: str) -> Line:
    """Label, bar, percentage."""
    room = max(1, cells - 8)
    return line((f"{label:>2} ", "$quiet"), *track(bar(share, room), room, style), (f"{percent(share):>5}", "$foreground"))


def _time(totals: Totals, cells: int) -> list[Line]:
    """Where the time went, as one stacked bar."""
    parts = (totals.draft_seconds, totals.forward_seconds, totals.other_seconds)
    if not sum(parts):
        return []
    sizes = portions(parts, cells)
    legend: list[tuple[str, str]] = []
    for (name, style), seconds in zip(SHARES, parts, strict=True):
        legend += [("■ ", style), (f"{name} ", "$quiet"), (f"{percent(seconds / sum(parts))}  ", "$foreground")]
    return [
        heading("Where the time goes", f"{milliseconds(totals.seconds / max(1, totals.steps))} ms a step", cells),
        tuple(("█" * size, style) for (_, style), size in zip(SHARES, sizes, strict=True)),
        tuple(legend),
        line((f"{totals.nodes_per_token:.2f}", "bold $foreground"), (" nodes per token: what the speed costs", "$quiet")),
    ]


def _speedups(totals: Totals, method: str, cells: int) -> list[Line]:
    """Measured against predicted."""
    if not totals.drafted:
        return [
            heading("Speedup over plain decoding", "", cells),
            *paragraph(_undrafted(totals, method), cells, "$quiet"),
        ]
    rows = (
        ("measured", totals.measured_speedup, "$run-0"),
        ("predicted", totals.predicted_speedup, "$run-2"),
        ("published", totals.source_speedup, "$run-3"),
    )
    most = max(1.0, *(value for _, value, _ in rows))
    room = cells - 18
    out = [heading("Speedup over plain decoding", "", cells)]
    for name, value, style in rows:
        out.append(
            line((f"{name:<10}", "$quiet"), (f"{value:5.2f}× ", _gain(value)), *track(bar(value / most, room), room, style))
        )
    captions = (
        "predicted: by the acceptance per position",
        "published: (αK+1)/(K·l_d/l_t+1), mean α",
    )
    return out + [row for text in captions for row in paragraph(text, cells, "$quiet", indent="  ")]


def _undrafted(totals: Totals, method: str) -> str:
    """What was done instead of drafting."""
    if totals.earlier:
        each = totals.nodes / max(1, totals.steps)
        return f"Nothing was drafted: each token took a pass over {each:.1f} nodes. Text came once all beams shared it."
    if totals.nodes == totals.tokens:
        return "Nothing was drafted: this is plain decoding."
    each, gave = totals.nodes / totals.steps, totals.tokens_per_step
    said = f"Nothing was drafted: a pass took {each:,.1f} nodes and gave {gave:.2f} tokens."
    return f"{said} {one_line(method_named(method).other_nodes)}".rstrip()


def _what_if(totals: Totals, cells: int) -> list[Line]:
    """The speedup of chains of K draft tokens, each accepted with probability α."""
    if not totals.drafted or not totals.pass_seconds(1):
        return []
    rate = sum(totals.taken) / max(1, sum(totals.offered))
    best, gain = best_length(totals, rate)
    size = max(5, min(7, (cells - 4) // (len(RATES) + 1)))
    times = f"l_d {milliseconds(totals.draft_token_seconds)} ms, l_t {milliseconds(totals.pass_seconds(1))} ms"
    table = totals.what_if(LENGTHS, (*RATES, rate))
    most = max(row[-1] for row in table)
    head = "".join(f"{known:{size}.1f}" for known in RATES)
    out = [
        heading("What if", times, cells),
        line(("K\\α ", "$quiet"), (head, "$quiet"), (f"{rate:{size}.2f}", "bold $accent")),
    ]
    for k, row in zip(LENGTHS, table, strict=True):
        marked = row[-1] == most > 1
        parts: list[tuple[str, str]] = [(f"{k:>4}", "bold $accent" if marked else "$quiet")]
        for value in row[:-1]:
            parts += [(" " * (size - 4), ""), (f"{value:4.2f}"[:4], _gain(value))]
        parts += [(" " * (size - 4), ""), (f"{row[-1]:4.2f}"[:4], f"{'bold reverse ' if marked else ''}{_gain(row[-1])}")]
        out.append(tuple(parts))
    end = f"K = {best} would be best, {gain:.2f}×." if best else "no length would gain."
    text = f"Measured: a draft token is accepted with α = {rate:.2f} if all before it were; {end}"
    return out + paragraph(text, cells, "$quiet")


def best_length(totals: Totals, rate: float) -> tuple[int, float]:
    """The K of the best chain at an acceptance, and its speedup; K = 0 where none gains."""
    lengths: Sequence[int] = range(1, LONGEST_BEST + 1)
    gains = [row[0] for row in totals.what_if(lengths, [rate])]
    best = max(range(len(gains)), key=gains.__getitem__)
    return (lengths[best], gains[best]) if gains[best] > 1 else (0, 1.0)


def _gain(value: float) -> str:
    """Style of a speedup."""
    if abs(value - 1) <= EVEN:
        return "$foreground"
    return "bold $success" if value > 1 else "$error"
