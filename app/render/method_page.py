"""The page that explains the method in force, with its figures in this chat."""

from __future__ import annotations

from collections.abc import Mapping

from ...engine.catalog import Totals
from ...errors import counted
from ..chat.methods import LABELS, Method, draft_length, hits, right_or_accepted, why_no_length
from ..text.cells import one_line
from ..text.charts import percent
from ..text.lines import StyledLine, cut, ends, figures_rows, flowed, line, paragraph
from ..theming.colouring import LABEL_STYLES

NONE: Mapping[str, str] = {}


def method_lines(
    method: Method,
    label: str,
    settings: Mapping[str, object],
    totals: Totals | None,
    cells: int,
    *,
    unavailable: str = "",
    models: Mapping[str, str] = NONE,
    keys: tuple[str, str] = ("", ""),
) -> list[StyledLine]:
    """Lay out the page.

    Args:
        label: its label under the acceptance rule in force.
        settings: settings that differ from the defaults.
        totals: totals of its steps in the last answer that it had a part in; None if there is none.
        unavailable: reason why this model cannot run it.
        models: labels of the loaded draft models → their names.
        keys: keys for shorter and for longer drafts.
    """
    out = [ends(line((one_line(method.name), "bold $primary")), line((label, LABEL_STYLES.get(label, "$quiet"))), cells)]
    if unavailable:
        out += paragraph(f"Not on this model: {one_line(unavailable)}", cells, "$warning")
    if totals is not None and totals.steps:
        figures = [
            (f"{totals.tokens_per_step:.2f}", "tokens a pass"),
            (f"{totals.steps:,}", "pass" if totals.steps == 1 else "passes"),
        ]
        out += figures_rows([*figures, *([hits(totals, label)] if totals.drafted else [])], cells)
        if len(totals.parts) > 1:
            out += _parts(totals, label, models, cells)
    length = draft_length(method, settings)
    if length is None:
        free = totals.grammar if totals is not None and method.plain else 0
        more = f" The grammar wrote {counted(free, 'token')} more, without a pass." if free else ""
        out += paragraph(why_no_length(method) + more, cells, "$quiet")
    else:
        value = line(("drafts: ", "$quiet"), (f"{length.setting} = {length.value}", "bold $accent"))
        shorter, longer = keys
        hint = line((shorter, "bold $primary"), (" less  ", "$quiet"), (longer, "bold $primary"), (" more", "$quiet"))
        out.append(ends(value, hint, cells))
    out += [(), *_prose(method.explains or method.summary, cells)]
    if method.pays:
        out += [(), line(("When it pays", "bold $primary")), *_prose(method.pays, cells)]
    if label in LABELS and not method.plain:
        out += [(), line((label.capitalize(), f"bold {LABEL_STYLES.get(label, '$primary')}"))]
        out += paragraph(LABELS[label], cells, "$foreground")
    out += [(), line(("Settings", "bold $primary")), *_settings(method, settings, cells)]
    if method.paper:
        out += [(), line(("Paper", "bold $primary"))]
        for paper in method.paper.split(";"):
            out += paragraph(one_line(paper), cells, "$quiet", indent="  ")
    return out


def _prose(text: str, cells: int) -> list[StyledLine]:
    """Wrap a method's text, with names between backticks in bold."""
    parts = one_line(text).split("`")
    return flowed(tuple((part, "bold $foreground" if i % 2 else "$foreground") for i, part in enumerate(parts) if part), cells)


def _parts(totals: Totals, label: str, models: Mapping[str, str], cells: int) -> list[StyledLine]:
    """Lay out the figures of several drafters of one tree: the share of each draft model, and its right guesses."""
    out: list[StyledLine] = [(), line(("Who drafts", "bold $primary"))]
    for name, part in totals.parts.items():
        share = line((percent(part.share), "bold $accent"), (" of the nodes", "$quiet")) if part.share else ()
        out.append(ends(line((one_line(name), "bold $foreground")), share, cells))
        model = line((f"  {one_line(models.get(name, ''))}", "$quiet"))
        right = line((f"{part.accepted:,} of {part.drafted:,} guesses {right_or_accepted(label)}", "$quiet"))
        out += [model, ends((), right, cells)]
    return [*(cut(row, cells) for row in out), ()]


def _settings(method: Method, settings: Mapping[str, object], cells: int) -> list[StyledLine]:
    """List the settings with values and meanings; those that differ from the default stand out."""
    out: list[StyledLine] = []
    if not method.params:
        return paragraph("It has none.", cells, "$quiet")
    for param in method.params:
        name, default = str(param["name"]), param.get("default")
        value = settings.get(name, default)
        text = one_line(str(value).lower() if isinstance(value, bool) else str(value)) or "–"
        changed = value != default
        tail = (f"  (default {default})", "$quiet") if changed else ("", "")
        style = "bold $accent" if changed else "bold $foreground"
        out.append(cut(line((name, "$foreground"), (" = ", "$quiet"), (text, style), tail), cells))
        doc = one_line(str(param.get("doc", ""))).replace("`", "")
        out += paragraph(doc, cells, "$quiet", indent="  ")
    return out
