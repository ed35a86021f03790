"""The page of figures: an answer's speed, its acceptance, the parts of its time, and the speedups of other draft lengths."""

from __future__ import annotations

from collections.abc import Mapping

from ...engine.catalog import Totals
from ...errors import counted
from ..chat.entries import Answer
from ..chat.methods import get_method, hits
from ..text.amounts import milliseconds, rate
from ..text.cells import fit, one_line, width
from ..text.charts import bar, columns, percent, portions, resampled
from ..text.lines import StyledLine, cut, ends, figures_rows, line, paragraph, track
from ..theming.colouring import bar_name

BINS = 6
"""Positions in a draft whose acceptance is shown."""

SPARK_ROWS, WIDEST = 2, 4
"""Height of the curve, and greatest width of a column."""

WHAT_IF_LENGTHS = (1, 2, 3, 4, 6, 8)
"""Draft lengths whose speedup is estimated."""

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


def numbers_lines(answer: Answer | None, method: str, cells: int) -> list[StyledLine]:
    """Lay out the page; with sections only for what is known, of a server's answer.

    Args:
        answer: the answer; None if there is none.
        method: the method whose part of the answer has detailed figures.
    """
    if answer is None or not answer.totals.steps:
        return paragraph("No figures yet: they come with the first passes of an answer.", cells, "$quiet")
    part = answer.by_method.get(method, answer.totals)
    plain = answer.figures.plain_seconds
    certainty = one_line(answer.figures.certainty)
    several = len(answer.by_method) > 1 and not certainty
    out = _by_method(answer, plain) if several else _speed(answer, cells)
    if certainty:
        out += [(), *paragraph(f"Passes: {certainty}. {SURE.get(certainty, '')}".rstrip(), cells, "$quiet")]
    passes = counted(part.steps, "pass", "passes")
    sections = [
        _thought(answer),
        # Beam search's steps have tokens of several passes, whose number says nothing about a pass.
        _trend(answer.totals, cells) if not answer.totals.earlier and certainty != "unknown" else [],
        [line((f"Of its {passes} with ", "$quiet"), (one_line(method), "bold $primary"), (":", "$quiet"))] if several else [],
        _acceptance(part, method, cells) if part.drafted or not certainty else [],
        _time(part, cells) if not certainty else [],
        _lengths(part, plain, cells) if not certainty else [],
    ]
    for section in filter(None, sections):
        out += [(), *section]
    return [cut(row, cells) for row in out]


def heading(text: str, note: str, cells: int) -> StyledLine:
    """Lay out a section's title with a note at the right."""
    return ends(line((text, "bold $primary")), line((note, "$quiet")), cells)


def _speed(answer: Answer, cells: int) -> list[StyledLine]:
    figures, totals = answer.figures, answer.totals
    rows = [(f"{figures.tokens_per_step:.2f}", "tokens a pass")] if figures.steps else []
    if totals.grammar:
        rows.append((f"{totals.own_tokens_per_step:.2f}", "without the grammar's"))
    if figures.tokens_per_second:
        rows.append((rate(figures.tokens_per_second), "tokens/s"))
    rows.append((f"{figures.tokens:,}", "tokens"))
    if totals.grammar:
        rows.append((f"{totals.grammar:,}", "by the grammar"))
    if totals.drafted and not figures.certainty:
        rows.append(hits(totals, answer.label))
    if figures.first_seconds:
        rows.append((f"{milliseconds(figures.first_seconds)} ms", "to the first token"))
    return figures_rows(rows, cells)


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


def _trend(totals: Totals, cells: int) -> list[StyledLine]:
    """Draw the tokens of the passes, from the first to the last."""
    count = len(totals.runs)
    if not count:
        return []
    highest = max(totals.runs)
    values = resampled(totals.runs, cells)
    column_width = min(WIDEST, cells // len(values))
    per_column = f", {count / len(values):.0f} a column" if count > 1.5 * len(values) else ""
    rows = columns(values, highest, SPARK_ROWS)
    return [
        heading("Tokens a pass", f"{counted(count, 'pass', 'passes')}{per_column}, longest {highest}", cells),
        *(tuple((text * column_width, f"${bar_name(value)}") for text, value in zip(row, values, strict=True)) for row in rows),
    ]


def _acceptance(totals: Totals, method: str, cells: int) -> list[StyledLine]:
    """Draw the share of right guesses by position in the draft, and α."""
    if not totals.drafted:
        return [heading("Acceptance", "", cells), *paragraph(_undrafted(totals, method), cells, "$quiet")]
    ahead = f"Drafted on while the model verified: {counted(totals.ahead, 'token')}, {totals.wasted:,} of them for nothing."
    return [
        heading("Acceptance", f"α = {totals.alpha:.2f}", cells),
        line(("right at position n", "$quiet")),
        *(positions(totals.position_acceptance[:BINS], cells)),
        *paragraph("α: how often a guess is accepted if all before it in its draft were.", cells, "$quiet"),
        *(paragraph(ahead, cells, "$quiet") if totals.ahead else []),
    ]


def positions(rates: list[float], cells: int) -> list[StyledLine]:
    """Draw the acceptance at each position of a draft as a bar."""
    room = max(1, cells - 8)
    return [
        line((f"{at:>2} ", "$quiet"), *track(bar(share, room), room, NEUTRAL), (f"{percent(share):>5}", "$foreground"))
        for at, share in enumerate(rates, 1)
    ]


def _undrafted(totals: Totals, method: str) -> str:
    nodes = totals.nodes / max(1, totals.steps)
    if totals.earlier:
        return f"Nothing was drafted: each token took a pass over {nodes:.1f} nodes. Text appears once all beams share it."
    if totals.nodes == totals.tokens:
        return "Nothing was drafted: this is plain decoding."
    sentence = f"Nothing was drafted: a pass took {nodes:,.1f} nodes and gave {totals.tokens_per_step:.2f} tokens."
    return f"{sentence} {one_line(get_method(method).other_nodes)}".rstrip()


def _time(totals: Totals, cells: int) -> list[StyledLine]:
    parts = (totals.draft_seconds, totals.forward_seconds, totals.other_seconds)
    if not totals.seconds:
        return []
    sizes = portions(parts, cells)
    legend: list[tuple[str, str]] = []
    for (name, block), seconds in zip(SHARES, parts, strict=True):
        legend += [(f"{block} ", NEUTRAL), (f"{name} ", "$quiet"), (f"{percent(seconds / totals.seconds)}  ", "$foreground")]
    return [
        heading("Where the time goes", f"{milliseconds(totals.seconds / max(1, totals.steps))} ms a pass", cells),
        (("".join(block * size for (_, block), size in zip(SHARES, sizes, strict=True)), NEUTRAL),),
        tuple(legend),
    ]


def _lengths(totals: Totals, plain: float, cells: int) -> list[StyledLine]:
    """Draw the speedup of chains of K draft tokens at the answer's acceptance."""
    if not totals.drafted or not plain:
        return []
    speedups = {length: totals.what_if(length, totals.alpha, plain) for length in WHAT_IF_LENGTHS}
    most = max(speedups.values())
    room = max(1, cells - 9)
    out = [heading("If each draft were K tokens long", "× plain", cells)]
    for length, speedup in speedups.items():
        marked = speedup == most > 1
        number = (f"{speedup:>6.2f}", "bold $success" if marked else _gain(speedup))
        label = (f"{length:>2} ", "bold $accent" if marked else "$quiet")
        out.append(line(label, *track(bar(speedup / max(1.0, most), room), room, NEUTRAL), number))
    best, gain = totals.best_length(totals.alpha, plain)
    end = f"K = {best} would be best here, {gain:.2f}×." if best else "no length would gain here."
    costs = f"A draft token takes {milliseconds(totals.draft_token_seconds)} ms, a plain pass {milliseconds(plain)} ms"
    return [*out, *paragraph(f"{costs}: {end}", cells, "$quiet")]


def _gain(value: float) -> str:
    if abs(value - 1) <= EVEN:
        return "$foreground"
    return "$success" if value > 1 else "$error"
