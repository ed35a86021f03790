"""The line of live figures between the transcript and the input box."""

from __future__ import annotations

from collections.abc import Mapping
from time import monotonic

from textual.content import Content
from textual.timer import Timer
from textual.widget import Widget

from ....errors import counted
from ...chat.dialogue import Dialogue
from ...chat.entries import Figures
from ...chat.methods import right_or_accepted
from ...settings import actions
from ...settings.keymap import spell
from ...text.amounts import pace_of, progress_of, rate
from ...text.charts import eighths
from ...theming.colouring import Colouring, legend_line
from ..keys import LEGEND_FROM
from ..race.state import STAGES

BAR_CELLS = 16

FIGURES_SECONDS = 0.12
"""Between two updates of the live figures."""

FLASH_SECONDS = 4.0
"""Seconds that a line about an action stays."""


class StatusLine(Widget):
    """The line of live figures. A hint takes its place; while an answer is being written it stands behind the speed."""

    DEFAULT_CSS = """
    StatusLine { height: 1; padding: 0 3; color: $quiet; }
    """

    def __init__(self, dialogue: Dialogue, keymap: Mapping[str, str], *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.dialogue = dialogue
        self._keymap = keymap
        self._hint: Content | None = None
        self._flash: Timer | None = None
        self._pulse = 0
        self._state: tuple[str, bool] = ("", False)
        self._drawn = 0.0
        self.colouring: Colouring | None = None
        """Colouring whose legend stands here where the bar of keys has no room for it."""

    def hint(self, content: Content | None) -> None:
        """Show a hint; None removes it."""
        if content is not self._hint:  # contents that differ in style alone compare equal
            self._hint = content
            self.refresh()

    def flash(self, content: Content) -> None:
        if self._flash is not None:
            self._flash.stop()
        self.hint(content)
        self._flash = self.set_timer(FLASH_SECONDS, lambda: self.hint(None) if self._hint is content else None)

    def update(self) -> None:
        """Redraw: at once after a change of phase, else no faster than figures can be read."""
        now, state = monotonic(), (self.dialogue.phase, self.dialogue.paused)
        if state != self._state or state[0] == "ready" or self.dialogue.paused or now - self._drawn >= FIGURES_SECONDS:
            self._state = state
            self._drawn = now
            self.refresh()

    def pulse(self) -> None:
        self._pulse += 1
        self.refresh()

    def render(self) -> Content:
        dialogue = self.dialogue
        writing = dialogue.phase in ("writing", "stopping") and not dialogue.paused
        if self._hint is not None:
            line = Content.assemble(self._joined(self._writing()), "   ", self._hint) if writing else self._hint
            return line.truncate(self.size.width, ellipsis=True)
        match dialogue.phase:
            case "loading":
                parts = self._loading()
            case "unloaded":
                parts = [Content.styled("no model is loaded", "$warning"), Content("/model NAME loads one")]
            case "prefill" | "writing" if dialogue.paused:
                parts = [Content.assemble(("‖ ", "bold $accent"), ("paused", "$foreground"))]
                if dialogue.answer is not None and dialogue.answer.figures.steps:
                    parts += _per_pass(dialogue.answer.figures)
            case "prefill":
                parts = self._prefill()
            case "writing" | "stopping":
                parts = self._writing()
            case _:
                parts = self._ready()
        return self._joined(parts)

    def _writing(self) -> list[Content]:
        """Show the figures of the answer being written; before a hint the speed alone."""
        stopping = self.dialogue.phase == "stopping"
        figures = self.dialogue.answer.figures if self.dialogue.answer else Figures()
        if not figures.steps:
            return [self._lively("stopping" if stopping else "writing")]
        hinted, speed = self._hint is not None, figures.recent_tokens_per_second
        if self.dialogue.pace and not stopping:
            key = spell((self._keymap.get("next_method") or actions.NEXT_METHOD.keys).split(",")[0])
            parts = [self._lively(pace_of(self.dialogue.pace)), *_per_pass(figures)]
            switch = Content.assemble((key, "bold $primary"), (" switches the method now", "$quiet"))
            return parts if hinted or len(self.dialogue.shortlist()) == 1 else [*parts, switch]
        parts = [_figure(rate(speed), "tokens/s")] if figures.tokens else []
        parts += _per_pass(figures, "a pass" if hinted else "tokens a pass")
        if figures.drafted and not hinted and self.dialogue.answer:
            right = right_or_accepted(self.dialogue.answer.label)
            parts.append(_figure(f"{figures.accepted:,} of {figures.drafted:,}", f"guesses {right}"))
        if (why := figures.why_declined) and not hinted:
            parts.append(Content.styled(why, "$quiet"))
        if figures.tokens and not hinted:
            parts.append(_figure(f"{figures.tokens:,}", "tokens"))
        return [self._lively("stopping"), *parts] if stopping else [self._lively("") + parts[0], *parts[1:]]

    def _joined(self, parts: list[Content]) -> Content:
        """Join as many parts as fit, at least the first."""
        line = parts[0]
        for part in parts[1:]:
            if line.cell_length + 3 + part.cell_length > self.size.width:
                break
            line = Content.assemble(line, ("   ", ""), part)
        return line.truncate(self.size.width, ellipsis=True)

    def _lively(self, word: str) -> Content:
        dim = self._pulse % 2 and self.dialogue.phase != "writing"
        return Content.assemble(("● ", "$faint" if dim else "$success"), (word, "$foreground"))

    def _loading(self) -> list[Content]:
        loading = self.dialogue.loading
        if loading is None:
            parts = [self._lively("starting the engine")]
        else:
            stage = loading.stage.removeprefix("draft ")
            draft = " of the draft model" if stage != loading.stage else ""
            parts = [self._lively(STAGES.get(stage, stage) + draft)]
            if loading.total:
                parts.append(bar(loading.done, loading.total))
                amount = progress_of(loading.done, loading.total) if stage == "download" else ""
                parts.append(Content(amount or f"{loading.done / loading.total:.0%}"))
        if self.dialogue.queued is not None:  # first, since a narrow line drops the last parts
            return [self._lively("your message waits for the model"), parts[0][2:], *parts[1:]]
        return parts

    def _prefill(self) -> list[Content]:
        answer = self.dialogue.answer
        done, total = answer.prefill if answer else (0, 0)
        if self.dialogue.loading is not None:
            return self._loading()
        parts = [self._lively("reading the text again" if answer and answer.runs else "reading the prompt")]
        if total:
            parts += [bar(done, total), Content(f"{done:,} / {counted(total, 'token')}")]
        return parts

    def _ready(self) -> list[Content]:
        slowly = f", {pace_of(pace)}" if (pace := self.dialogue.pace) else ""
        ready = [Content.assemble(("● ", "$success"), (f"ready{slowly}", "$foreground"))]
        if self.colouring and self.app.size.width - 2 < LEGEND_FROM and self.dialogue.transcript.entries:
            legend = ((text.removeprefix(" tokens"), style) for text, style in legend_line(self.colouring))
            ready.append(Content.assemble(*legend))
        if context := self.dialogue.info.context:
            last = next(reversed(self.dialogue.transcript.answers()), None)
            used = last.figures.prompt_tokens + last.figures.tokens if last is not None else 0
            ready.append(Content(f"{used:,} of {context:,} tokens of context" if used else f"{context:,} tokens of context"))
        return ready


def _figure(value: str, unit: str) -> Content:
    return Content.assemble((value, "bold $foreground"), (f" {unit}", "$quiet"))


def _per_pass(figures: Figures, unit: str = "tokens a pass") -> list[Content]:
    """Show the mean tokens of a pass; for a beam search without certain tokens yet, the number of passes."""
    if not figures.tokens:
        count, _, noun = counted(figures.steps, "pass", "passes").partition(" ")
        return [_figure(count, noun), Content("no token is certain yet")]
    return [_figure(f"{figures.tokens_per_step:.1f}", unit)]


def bar(done: int, total: int, cells: int = BAR_CELLS) -> Content:
    return Content.styled(eighths(done / total, cells).ljust(cells), "$primary on $panel")
