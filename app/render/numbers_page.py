"""The page of figures: an answer's speed, its acceptance, the parts of its time, and the speedups of other draft lengths."""

from __future__ import annotations

from collections.abc import Mapping

from ...engine.catalog import Totals
from ...errors import counted
from ..chat.answer_json import WHAT_IF_LENGTHS
from ..chat.entries import Answer
from ..chat.methods import get_method, hits
from ..text.amounts import milliseconds, rate
from ..text.cells import fit, one_line, width
from ..text.charts import Trend, bar, columns, percent, portions, resampled
from ..text.lines import StyledLine, cut, ends, figures_rows, line, paragraph, track
from ..theming.colouring import bar_name

RATES = (0.5, 0.6, 0.7, 0.8, 0.9)
"""α of the table of draft lengths."""

BINS = 6
"""Positions in a draft whose acceptance is shown."""

SPARK_ROWS, WIDEST = 2, 4
"""Height of the curve, and greatest width of a column."""

EVEN = 0.02
"""Distance of a speedup to 1 up to which it is neither gain nor loss."""

SURE = {
    "exact": "The server says which tokens came from one pass.",
    "unknown": "The server does not show its passes.",
}
"""Certainty of a server's runs → its sentence."""

NEUTRAL = "$quiet"
"""Style of bars that are not about tokens a pass, which have the colours of the text."""

SHARES = (("draft", "▒"), ("pass", "█"), ("rest", "░"))
"""Parts of the time, and their block characters."""


def numbers_lines(answer: Answer | None, method: str, curve: Curve, cells: int) -> list[StyledLine]:
    """Lay out the page.

    Args:
        answer: the answer; None if there is none.
        method: the method whose part of the answer has detailed figures.
        curve: the curve of the answer that was shown last.
    """
    if answer is None or not answer.totals.steps:
        return paragraph("No figures yet: they come with the first passes of an answer.", cells, "$quiet")
    part = answer.by_method.get(method, answer.totals)
    plain = answer.figures.plain_seconds
    if answer.figures.certainty:
        return _served(answer, part, curve, method, cells)
    several = len(answer.by_method) > 1
    out = _by_method(answer, plain) if several else _speed(answer, part, cells)
    sections = [
        _thought(answer),
        # Beam search's steps have tokens of several passes, whose number says nothing about a pass.
        _trend(curve.follow(answer.totals), cells) if not answer.totals.earlier else [],
        _acceptance(part, method, cells),
        _time(part, cells),
        _lengths(part, plain, cells),
    ]
    if several:
        passes = counted(part.steps, "pass", "passes")
        sections.insert(2, [line((f"Of its {passes} with ", "$quiet"), (one_line(method), "bold $primary"), (":", "$quiet"))])
    for section in sections:
        if section:
            out += [(), *section]
    return [cut(row, cells) for row in out]


def _served(answer: Answer, part: Totals, curve: Curve, method: str, cells: int) -> list[StyledLine]:
    """Lay out the page of a server's answer with the figures that are known."""
    figures = answer.figures
    certainty = one_line(figures.certainty)
    rows = [
        *([(f"{figures.tokens_per_step:.2f}", "tokens a pass")] if figures.steps else []),
        (rate(figures.tokens_per_second), "tokens/s"),
        (f"{figures.tokens:,}", "tokens"),
        *_first_token(answer),
    ]
    out = figures_rows(rows, cells)
    out += [(), *paragraph(f"Passes: {certainty}. {SURE.get(certainty, '')}".rstrip(), cells, "$quiet")]
    for section in (
        _thought(answer),
        _trend(curve.follow(answer.totals), cells) if certainty != "unknown" else [],
        _acceptance(part, method, cells) if part.drafted else [],
    ):
        if section:
            out += [(), *section]
    return [cut(row, cells) for row in out]


class Curve:
    """The tokens of each step of an answer, extended step by step, so that drawing costs the same at any length."""

    def __init__(self) -> None:
        self._totals = Totals()
        self._trend = Trend()

    def follow(self, totals: Totals) -> Trend:
        """Add the new steps; starts over for the totals of another answer."""
        if totals is not self._totals:
            self._totals = totals
            self._trend = Trend()
        for run in totals.runs[self._trend.count :]:
            self._trend.add(run)
        return self._trend


def heading(text: str, note: str, cells: int) -> StyledLine:
    """Lay out a section's title with a note at the right."""
    return ends(line((text, "bold $primary")), line((note, "$quiet")), cells)


def _first_token(answer: Answer) -> list[tuple[str, str]]:
    seconds = answer.figures.first_seconds
    return [(f"{milliseconds(seconds)} ms", "to the first token")] if seconds else []


def _speed(answer: Answer, totals: Totals, cells: int) -> list[StyledLine]:
    figures = [
        (f"{totals.tokens_per_step:.2f}", "tokens a pass"),
        *([(rate(speed), "tokens/s")] if (speed := answer.figures.tokens_per_second) else []),
        (f"{totals.tokens:,}", "tokens"),
    ]
    if totals.grammar:
        figures[1:1] = [(f"{totals.own_tokens_per_step:.2f}", "without the grammar's")]
        figures.append((f"{totals.grammar:,}", "by the grammar"))
    if totals.drafted:
        figures.append(hits(totals, answer.label))
    return figures_rows([*figures, *_first_token(answer)], cells)


def _by_method(answer: Answer, plain: float) -> list[StyledLine]:
    rows = {
        one_line(name): {
            "a pass": f"{totals.tokens_per_step:.2f}",
            "α": f"{totals.alpha:.2f}" if totals.drafted else "–",
            **({"× plain": f"{totals.speedup(plain):.2f}"} if plain else {}),
            **({} if answer.figures.rested else {"tokens/s": rate(totals.tokens_per_second)}),
        }
        for name, totals in answer.by_method.items()
    }
    return _table(rows, min(12, max(map(width, rows))))


def _table(rows: Mapping[str, Mapping[str, str]], name_cells: int) -> list[StyledLine]:
    """Lay out rows of figures after their names, below the columns' titles."""
    titles = next(iter(rows.values()))
    out = [line((" " * name_cells, ""), ("".join(f" {title:>8}" for title in titles), "$quiet"))]
    for name, values in rows.items():
        figures = "".join(f" {value:>8}" for value in values.values())
        out.append(line((f"{fit(name, name_cells):<{name_cells}}", "bold $primary"), (figures, "$foreground")))
    return out


def _thought(answer: Answer) -> list[StyledLine]:
    """Lay out the figures of the thought and of the answer after it."""
    figures = answer.figures
    if not answer.totals.thought.tokens:
        return []
    rows = {}
    for name, share in (("thought", answer.totals.thought), ("answer", figures.answer)):
        rows[name] = {"tokens": f"{share.tokens:,}", "seconds": f"{share.seconds:.1f}"}
        if figures.certainty != "unknown":
            rows[name]["a pass"] = f"{share.tokens_per_pass:.2f}" if share.passes else "–"
            rows[name]["accepted"] = "–" if share.acceptance is None else percent(share.acceptance)
    return _table(rows, 7)


def _trend(trend: Trend, cells: int) -> list[StyledLine]:
    values = resampled(trend.means(), cells)
    passes = trend.count / max(1, len(values))
    column_width = min(WIDEST, cells // len(values))
    per_column = f", {passes:.0f} a column" if passes > 1.5 else ""
    note = f"{counted(trend.count, 'pass', 'passes')}{per_column}, longest {trend.highest:.0f}"
    rows = columns(values, trend.highest, SPARK_ROWS)
    return [
        heading("Tokens a pass", note, cells),
        *(tuple((text * column_width, f"${bar_name(value)}") for text, value in zip(row, values, strict=True)) for row in rows),
    ]


def _acceptance(totals: Totals, method: str, cells: int) -> list[StyledLine]:
    """Draw the share of right guesses by position in the draft, and α."""
    if not totals.drafted:
        return [heading("Acceptance", "", cells), *paragraph(_undrafted(totals, method), cells, "$quiet")]
    return [
        heading("Acceptance", f"α = {totals.alpha:.2f}", cells),
        line(("right at position n", "$quiet")),
        *(_bin(str(at), rate, cells) for at, rate in enumerate(totals.position_acceptance[:BINS], 1)),
        *paragraph("α: how often a guess is accepted if all before it in its draft were.", cells, "$quiet"),
        *(paragraph(_ahead(totals), cells, "$quiet") if totals.ahead else []),
    ]


def _ahead(totals: Totals) -> str:
    """Report the tokens that a draft model drafted ahead on another device."""
    return f"Drafted on while the model verified: {counted(totals.ahead, 'token')}, {totals.wasted:,} of them for nothing."


def _bin(label: str, share: float, cells: int) -> StyledLine:
    room = max(1, cells - 8)
    return line((f"{label:>2} ", "$quiet"), *track(bar(share, room), room, NEUTRAL), (f"{percent(share):>5}", "$foreground"))


def _time(totals: Totals, cells: int) -> list[StyledLine]:
    parts = (totals.draft_seconds, totals.forward_seconds, totals.other_seconds)
    if not sum(parts):
        return []
    sizes = portions(parts, cells)
    legend: list[tuple[str, str]] = []
    for (name, block), seconds in zip(SHARES, parts, strict=True):
        legend += [(f"{block} ", NEUTRAL), (f"{name} ", "$quiet"), (f"{percent(seconds / sum(parts))}  ", "$foreground")]
    return [
        heading("Where the time goes", f"{milliseconds(totals.seconds / max(1, totals.steps))} ms a pass", cells),
        (("".join(block * size for (_, block), size in zip(SHARES, sizes, strict=True)), NEUTRAL),),
        tuple(legend),
    ]


def _undrafted(totals: Totals, method: str) -> str:
    nodes = totals.nodes / max(1, totals.steps)
    if totals.earlier:
        return f"Nothing was drafted: each token took a pass over {nodes:.1f} nodes. Text appears once all beams share it."
    if totals.nodes == totals.tokens:
        return "Nothing was drafted: this is plain decoding."
    sentence = f"Nothing was drafted: a pass took {nodes:,.1f} nodes and gave {totals.tokens_per_step:.2f} tokens."
    return f"{sentence} {one_line(get_method(method).other_nodes)}".rstrip()


def _lengths(totals: Totals, plain: float, cells: int) -> list[StyledLine]:
    """Tabulate the speedup of chains of K draft tokens, each accepted with probability α."""
    if not totals.drafted or not plain:
        return []
    alpha = totals.alpha
    best, gain = totals.best_length(alpha, plain)
    table = [[totals.what_if(k, a, plain) for a in (*RATES, alpha)] for k in WHAT_IF_LENGTHS]
    most = max(row[-1] for row in table)
    size = max(5, min(7, (cells - 4) // (len(RATES) + 1)))
    head = "".join(f"{rate:>{size}.1f}" for rate in RATES)
    out = [
        heading("If each draft were K tokens long", "× plain", cells),
        line(("K\\α ", "$quiet"), (head, "$quiet"), (f"{alpha:>{size}.2f}", "bold $accent")),
    ]
    for k, row in zip(WHAT_IF_LENGTHS, table, strict=True):
        marked = row[-1] == most > 1
        parts: list[tuple[str, str]] = [(f"{k:>4}", "bold $accent" if marked else "$quiet")]
        for value in row[:-1]:
            parts += [(" " * (size - 4), ""), (f"{value:4.2f}"[:4], _gain(value))]
        parts += [(" " * (size - 4), ""), (f"{row[-1]:4.2f}"[:4], f"{'bold reverse ' if marked else ''}{_gain(row[-1])}")]
        out.append(tuple(parts))
    end = f"K = {best} would be best here, {gain:.2f}×." if best else "no length would gain here."
    costs = f"A draft token takes {milliseconds(totals.draft_token_seconds)} ms, a plain pass {milliseconds(plain)} ms"
    return [*out, *paragraph(f"{costs}: {end}", cells, "$quiet")]


def _gain(value: float) -> str:
    if abs(value - 1) <= EVEN:
        return "$foreground"
    return "bold $success" if value > 1 else "$error"
