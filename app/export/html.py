"""A chat as one web page without scripts, further files or network, and the look of runs outside the terminal."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from html import escape
from typing import Any

from ...errors import counted
from ..chat.entries import Answer, Notice, Prompt
from ..chat.runs import Run
from ..render.thoughts import thought_line
from ..render.verdict import verdict
from ..saved.chat_json import SavedChat
from ..settings.fields import Settings
from ..settings.locations import themes_folder
from ..text.cells import one_line, sanitise
from ..theming import colouring as colours
from ..theming.colouring import INKS, Colouring, Ink, ink_name, parse_colouring, run_inks
from ..theming.themes import Palette, load_themes

STYLE = """
* { box-sizing: border-box; }
:root { color-scheme: $scheme; }
html { background: $background; color: $foreground; -webkit-text-size-adjust: 100%; }
body {
  margin: 0;
  font: 15px/1.65 ui-monospace, "SF Mono", "Cascadia Mono", "JetBrains Mono", Menlo, Consolas, "DejaVu Sans Mono", monospace;
}
main { max-width: 94ch; margin: 0 auto; padding: 0 3ch 3rem; }
header { background: $surface; color: $quiet; border-bottom: 1px solid $line; }
header div {
  max-width: 94ch; margin: 0 auto; padding: .5rem 3ch;
  display: flex; flex-wrap: wrap; gap: 0 2ch; justify-content: space-between;
}
header b { color: $primary; }
header .model { color: $foreground; }
.prompt, .system, .answer, .notice { white-space: pre-wrap; overflow-wrap: anywhere; tab-size: 4; unicode-bidi: isolate; }
.prompt, .system {
  background: $surface; border-left: 3px solid $primary; border-radius: 0 4px 4px 0;
  margin: 2.4rem 0 1.1rem; padding: .35rem 2ch; font-weight: 600;
}
.system { border-color: $accent; color: $quiet; font-weight: 400; }
.system::before { content: "system prompt"; display: block; font-size: 12px; color: $accent; }
.figures { color: $quiet; font-size: 13px; margin: .7rem 0 0; }
.figures .success { color: $success; }
.figures .warning { color: $warning; }
.figures .error { color: $error; }
.thought { color: $quiet; border-left: 2px solid $line; padding-left: 1.5ch; margin-bottom: .6rem; }
.thought summary { cursor: pointer; }
.thought .run { opacity: .75; }
.notice { color: $quiet; font-style: italic; margin: 1.2rem 0; }
.notice.warning { color: $warning; font-style: normal; }
.notice.error { color: $error; font-style: normal; }
.mark { color: $accent; font-style: italic; }
.mark::before { content: "\\25c6" attr(data-method); }
.run { border-radius: 3px; padding: .12em 0; -webkit-box-decoration-break: clone; box-decoration-break: clone; }
.run[title]:hover { outline: 1px solid $quiet; }
.legend {
  color: $quiet; font-size: 13px; margin: 3rem 0 0; padding-top: .8rem; border-top: 1px solid $line;
  display: flex; flex-wrap: wrap; gap: .3rem 2ch; justify-content: space-between;
}
.legend .scale { white-space: pre; }
.empty { color: $quiet; font-style: italic; margin-top: 2rem; }
@media print {
  html { print-color-adjust: exact; -webkit-print-color-adjust: exact; }
  .prompt { break-after: avoid; }
  .hint { display: none; }
}
""".strip()
"""The page's style; $names are the theme's colours."""


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


def text(raw: str) -> str:
    """Escape text for a page: none of it is markup, none is invisible."""
    return escape(visible(raw), quote=True)


def style(look: Look, template: str = STYLE) -> str:
    """Return the page's style in the theme's colours, with a class for each ink."""
    out = template.replace("$scheme", "dark" if look.palette.dark else "light")
    out = re.sub(r"\$([a-z-]+)", lambda name: look.colour(name[1]), out)
    return out + "\n" + "\n".join(rule(name, ink) for name, ink in look.inks.items())


def rule(name: str, ink: Ink) -> str:
    """Return the CSS class of an ink."""
    parts = [f"color: {ink.colour};"]
    if ink.behind:
        parts.append(f"background: {ink.behind};")
    if ink.underline:
        parts.append("text-decoration: underline; text-underline-offset: 3px;")
    if ink.bold:
        parts.append("font-weight: 700;")
    return f".{name} {{ {' '.join(parts)} }}"


def head(title: str, look: Look, script: str = "", template: str = STYLE) -> str:
    """Return the page up to its body; `script` is the only one that may run."""
    # Whatever a text holds, nothing may be fetched, and no other script may run.
    policy = "default-src 'none'; style-src 'unsafe-inline'"
    if script:
        policy += f"; script-src 'sha256-{b64encode(sha256(script.encode()).digest()).decode()}'"
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{text(title)}</title>\n<style>\n{style(look, template)}\n</style>\n</head>\n<body>\n"
    )


def chat_html(chat: SavedChat, look: Look) -> Iterator[str]:
    model, where, date = headline(chat.heading, chat.saved)
    yield head(f"specchat: {model}" if model else "specchat", look)
    yield top(model, where, date) + "<main>\n"
    if chat.transcript.system:
        yield f'<div class="system">{text(chat.transcript.system)}</div>\n'
    for entry in chat.transcript.entries:
        match entry:
            case Prompt() as prompt:
                yield f'<div class="prompt">{text(prompt.display_text.strip(chr(10)))}</div>\n'
            case Notice(severity=severity):
                yield f'<p class="notice {severity}">{text(entry.text)}</p>\n'
            case Answer():
                yield '<div class="answer">'
                yield from spans(entry, look, unfolded=look.thoughts)
                yield f"</div>\n{figures(entry, chat.model_of(entry))}"
    if not chat.transcript.entries:
        yield '<p class="empty">This chat is empty.</p>\n'
    yield legend(look)
    yield "</main>\n</body>\n</html>\n"


def top(model: str, where: str, date: str) -> str:
    name = f'<span class="model">{text(model)}</span>' if model else ""
    left = " · ".join(part for part in ("<b>specchat</b>", name, text(where)) if part)
    return f"<header><div><span>{left}</span><span>{text(date)}</span></div></header>\n"


def spans(answer: Answer, look: Look, clock: Sequence[float] = (), *, unfolded: bool = True) -> Iterator[str]:
    """Yield the runs of an answer.

    Args:
        look: theme and colouring.
        clock: time of each run in seconds, for a replay.
        unfolded: whether its thoughts are unfolded.
    """
    method = ""
    thinking = False
    summary = thought_line(answer.totals.thought)
    for index, run in enumerate(answer.runs):
        when = f' data-t="{clock[index] * 1000:.0f}"' if clock else ""
        if run.method != method:
            if method:
                yield f'<span class="mark" data-method="{text(run.method)} "{when}></span>'
            method = run.method
        for thought, piece in answer.own_pieces(index):
            if thought != thinking:
                opening = f'<details class="thought"{" open" * unfolded}><summary>{text(summary)}</summary>'
                yield opening if thought else "</details>"
                thinking = thought
                summary = "Thought on"
            yield span(piece, look.ink(run), tooltip(answer, index), when)
    if thinking:
        yield "</details>"


def figures(answer: Answer, model: str = "", *, speeds: bool = True) -> str:
    """Format the verdict below an answer; `model` and `speeds` as for `verdict`."""
    parts = [f'<span class="{css}">{text(part)}</span>' for part, css in verdict(answer, model, speeds=speeds)]
    return f'<p class="figures">{"".join(parts)}</p>\n'


def span(piece: str, ink: str, title: str, attributes: str = "") -> str:
    """Format text of a run in an ink."""
    shown = text(piece)
    rest = shown.lstrip() or shown  # a gap shows where the run begins
    return f'{shown[: len(shown) - len(rest)]}<span class="run {ink}" title="{text(title)}"{attributes}>{rest}</span>'


def legend(look: Look) -> str:
    samples = "".join(
        f'<span class="run {ink}">{text(words)}</span>' if ink else text(words) for words, ink in colours.legend(look.colouring)
    )
    hint = '<span class="hint">Hover over a pass to see its details.</span>'
    return f'<p class="legend"><span class="scale">{samples}</span>{hint}</p>\n'
