"""The look of runs outside the terminal: the theme's colours and the colouring in force."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ...errors import counted
from ..chat.entries import Answer
from ..chat.runs import Run
from ..settings.fields import Settings
from ..settings.locations import themes_folder
from ..text.cells import one_line, sanitise
from ..theming.colouring import INKS, Colouring, ink_name, legend, parse_colouring, run_inks
from ..theming.themes import Palette, load_themes

_NO_CHARACTER = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]")
"""Characters that XML 1.0 and HTML exclude, besides those that no terminal may get."""


def visible(raw: str) -> str:
    """Replace characters that a page or a picture cannot hold by visible text; tabs and newlines stay."""
    return _NO_CHARACTER.sub(lambda match: f"\\u{ord(match[0]):04x}", sanitise(raw))


def headline(model: Mapping[str, Any], saved: str) -> tuple[str, str, str]:
    """Return the headline's parts: the model's name, its device and kind of weights, the time."""
    name = one_line(str(model.get("name") or model.get("asked") or ""))
    where = " ".join(one_line(str(model[key])) for key in ("device", "dtype") if model.get(key))
    return name, where, one_line(saved[:16].replace("T", " "))


class Look:
    """A theme and a colouring; `thoughts`: whether thoughts are shown too."""

    def __init__(self, palette: Palette, colouring: Colouring = "length", *, thoughts: bool = False) -> None:
        self.palette = palette
        self.colouring = colouring
        self.thoughts = thoughts
        self._variables = {**palette.variables(), **palette.colours}
        self.inks = {name: INKS[name].of(self._variables) for name in run_inks(colouring)}
        """Every ink of runs by its name, in the theme's colours."""

    def colour(self, name: str) -> str:
        """Return one of the theme's colours or variables, such as `quiet` and `line`."""
        return self._variables[name]

    def ink(self, run: Run) -> str:
        return ink_name(self.colouring, run.shade, run.together)

    def legend(self) -> list[tuple[str, str]]:
        """Return the legend's samples with their inks, then words without one; empty without colours."""
        return legend(self.colouring)


def settings_look(settings: Settings, *, thoughts: bool = False) -> Look:
    """Return the theme and the colouring of the settings."""
    palettes, _ = load_themes(themes_folder())
    palette = palettes.get(settings.theme, palettes["dark"])
    return Look(palette, parse_colouring(settings.colours), thoughts=thoughts)


def tooltip(answer: Answer, index: int) -> str:
    """Describe a run: its method, its pass, the success of its draft, its time."""
    run = answer.runs[index]
    if not len(answer.log):
        return f"{run.method} · how it was decoded is not known"
    parts = [run.method, f"pass {answer.pass_of(index)[0]}", counted(run.tokens, "token")]
    if run.earlier:
        parts.append("a pass for each")
    parts.append(f"{run.accepted} of {run.drafted} drafted accepted" if run.drafted else "nothing drafted")
    parts.append(f"{run.seconds * 1000:.1f} ms")
    return " · ".join(parts)
