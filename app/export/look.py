"""How runs look outside the terminal: the theme's colours, in the way of colouring that is in force."""

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
from ..theming.colouring import INKS, Colouring, ink_name, inks_of, legend, way_named
from ..theming.themes import Palette, load_themes

_NO_CHARACTER = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]")
"""What neither XML 1.0 nor HTML has, beyond what no terminal may get."""


def visible(raw: str) -> str:
    """`raw` with everything that a page or a picture cannot hold as visible text; tabs and newlines stay."""
    return _NO_CHARACTER.sub(lambda match: f"\\u{ord(match[0]):04x}", sanitise(raw))


def headline(model: Mapping[str, Any], saved: str) -> tuple[str, str, str]:
    """What stands at the top: the model's name, where it ran, and when."""
    name = one_line(str(model.get("name") or model.get("asked") or ""))
    where = " ".join(one_line(str(model[key])) for key in ("device", "dtype") if model.get(key))
    return name, where, one_line(saved[:16].replace("T", " "))


class Look:
    """A theme and a way of colouring; `thoughts`: thoughts are shown too."""

    def __init__(self, palette: Palette, way: Colouring = "length", *, thoughts: bool = False) -> None:
        self.palette = palette
        self.way = way
        self.thoughts = thoughts
        self._variables = {**palette.variables(), **palette.colours}
        self.inks = {name: INKS[name].of(self._variables) for name in inks_of(way)}
        """Every ink that a run can have, by its name, in the theme's colours."""

    def colour(self, name: str) -> str:
        """One of the theme's colours, or of those made from them, such as `quiet` and `line`."""
        return self._variables[name]

    def ink(self, run: Run) -> str:
        return ink_name(self.way, run.shade, run.together)

    def legend(self) -> list[tuple[str, str]]:
        """What the colours mean: samples with their inks, then words in none; empty where there are no colours."""
        return legend(self.way)


def look_of(settings: Settings, *, thoughts: bool = False) -> Look:
    """The theme and the colours of the settings."""
    palettes, _ = load_themes(themes_folder())
    return Look(palettes.get(settings.theme, palettes["dark"]), way_named(settings.colours), thoughts=thoughts)


def told(answer: Answer, index: int) -> str:
    """A run in words: who made it, in which step, how its draft fared, how long it took."""
    run = answer.runs[index]
    if not len(answer.log):
        return f"{run.method} · how it was decoded is not known"
    parts = [run.method, f"pass {answer.pass_of(index)[0]}", counted(run.tokens, "token")]
    if run.earlier:
        parts.append("a pass for each")
    parts.append(f"{run.accepted} of {run.drafted} drafted accepted" if run.drafted else "nothing drafted")
    parts.append(f"{run.seconds * 1000:.1f} ms")
    return " · ".join(parts)
