"""The widgets around the transcript: header, welcome, strip about a run, and line of figures."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from time import monotonic

from textual import events
from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.content import Content
from textual.timer import Timer
from textual.widget import Widget
from textual.widgets import Static

from ....errors import counted
from ...chat.about import default_word, word_for
from ...chat.dialogue import Dialogue
from ...chat.entries import Figures, Notice, Severity
from ...chat.methods import right_or_accepted
from ...chat.runs import Pieces
from ...race.models import short_name
from ...render.inspection import RUN, inspection_rows, strip_rows
from ...settings.keymap import shown_keys
from ...settings.rows import constraint_name
from ...text.amounts import count_of, pace_of, progress_of, rate
from ...text.cells import fit, one_line
from ...text.charts import eighths
from ...text.lines import PAD
from ...theming.colouring import INKS, LABEL_STYLES, Colouring, effective, ink_name, legend_line
from ..composer.starters import OPENINGS, STARTERS, TITLE_WIDTH, TOUR, Starter
from ..keys import LEGEND_FROM
from ..race.state import loading_words
from ..transcript.rows import LineView
from ..transcript.view import TranscriptView

BASE = "base model: goes on from a text"
"""Badge of a model without a chat template."""


class ChatHeader(Widget):
    """The line at the top, which never wraps: parts that do not fit are left out, the method last."""

    DEFAULT_CSS = """
    ChatHeader { height: 1; padding: 0 1; background: $surface; color: $quiet; }
    """

    def __init__(self, dialogue: Dialogue, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.dialogue = dialogue
        self._state: tuple[object, ...] = ()

    def update(self) -> None:
        """Redraw after a change; most frames change nothing here."""
        dialogue, options = self.dialogue, self.dialogue.options
        model = (dialogue.model, bool(dialogue.info), dialogue.completes, dialogue.recommended)
        method = (dialogue.method, dialogue.switching, self._label)
        state = (*model, *method, options.sampling.temperature, options.constraint, options.think)
        if state != self._state:
            self._state = state
            self.refresh()

    @property
    def _label(self) -> str:
        answer = self.dialogue.answer
        return answer.label if answer is not None else self.dialogue.effective_label(self.dialogue.method)

    def render(self) -> Content:
        dialogue, room = self.dialogue, self.size.width
        right = self._method()
        left = Content.styled("specchat", "bold $primary")
        info = dialogue.info
        parts = [short_name(dialogue.model)]
        if info:
            parts = [short_name(info.name)]
            if (word := word_for(info, dialogue.options.think)) and word != default_word(info):
                parts.append(f"thinking {one_line(word)}")
            if dialogue.completes:
                parts.append(BASE)
        if name := constraint_name(dialogue.options.constraint):
            parts.append(f"{{}} {fit(one_line(name), 20)}")
        if temperature := dialogue.options.sampling.temperature:
            parts.append(f"temperature {temperature:g}" + (", recommended for it" if dialogue.recommended else ""))
        if info:
            parts.append(" ".join(map(one_line, filter(None, (info.device, info.dtype)))))
            if info.parameters:
                parts.append(f"{count_of(info.parameters)} parameters")
        for i, part in enumerate(filter(None, parts)):
            spare = room - left.cell_length - right.cell_length - 5
            if spare < 8 and i:
                break
            style = "bold $accent" if part == BASE else "$quiet"
            text = fit(part, spare)
            if i and text != part:
                break
            left = Content.assemble(left, ("  ·  ", "$faint"), (text, style if i else "$foreground"))
        gap = max(1, room - left.cell_length - right.cell_length)
        return Content.assemble(left, " " * gap, right)

    async def on_click(self, event: events.Click) -> None:
        if event.x >= self.size.width - self._method().cell_length:
            await self.run_action("app.do('method_menu')")

    def _method(self) -> Content:
        dialogue, label, name = self.dialogue, self._label, self.dialogue.method
        if dialogue.switching not in (None, name):
            name = f"{name} → {dialogue.switching}"
        style = LABEL_STYLES.get(label, "$quiet")
        return Content.assemble(
            (f" ◆ {name} ", "bold $primary on $panel"),
            (f" {label} " if label else "", f"{style} on $panel"),
        )


STYLES: dict[Severity, str] = {"information": "italic $quiet", "warning": "$warning", "error": "$error"}
"""Severity of a notice → its style."""


class Welcome(VerticalScroll, can_focus=False):
    """The welcome of an empty chat: notices, three lines, and prompts to start with."""

    DEFAULT_CSS = """
    Welcome {
        align: center middle; height: 1fr; scrollbar-size-vertical: 1; padding: 1 0;
        & > Static { width: 76; max-width: 92%; height: auto; color: $quiet; }
        & > #starters {
            margin-top: 1; text-wrap: nowrap; text-overflow: ellipsis;
            link-color: $foreground; link-background: transparent; link-style: none;
            link-color-hover: $foreground; link-background-hover: $panel; link-style-hover: none;
        }
    }
    """

    def __init__(self, keymap: Mapping[str, str], *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._keymap = keymap
        self._state: tuple[object, ...] = ()
        self._starters: dict[str, Starter] = {}
        self._text = Static(id="welcome-text")
        self._rows = Static(id="starters")

    def compose(self) -> ComposeResult:
        yield self._text
        yield self._rows

    def show(self, *, tiny: bool, base: bool, offer: bool, notices: Iterable[object]) -> None:
        """Adapt to the loaded model.

        Args:
            tiny: whether it is the built-in one.
            base: whether it is a base model.
            offer: offer the tour.
            notices: entries of the chat.
        """
        state = (tiny, base, offer, *notices)
        if state == self._state:
            return
        self._state = state
        starters = (TOUR, *(OPENINGS if base else STARTERS))
        self._starters = {str(number): starter for number, starter in enumerate(starters, 1)}
        parts = [Content.styled(f"{note.text}\n\n", STYLES[note.severity]) for note in notices if isinstance(note, Notice)]
        letters = ("spec", f"bold {INKS['heat-3'].style}"), ("chat", f"bold {INKS['heat-5'].style}")
        parts += [Content.assemble(*letters, "  see how every token is decoded\n\n"), self._introduction(base), Content("\n\n")]
        if offer:
            enter = ("enter", "bold $accent")
            parts.append(Content.assemble("New here? Press ", enter, " for the tour, or just type.\n\n"))
        model = " · builtin is a tiny demo model" if tiny else ""
        parts.append(Content(f"Try one: type its number, then enter{model}"))
        self._text.update(Content("").join(parts))
        self._rows.update(Content("\n").join(self._row(number, starter) for number, starter in self._starters.items()))
        self.scroll_home(animate=False)

    def _row(self, number: str, starter: Starter) -> Content:
        title = Content(f"{starter.title:<{TITLE_WIDTH}}").stylize(f"@click=screen.starter('{number}')")
        return Content.assemble(f"{number} ", title, f"  {starter.why}")

    def _introduction(self, base: bool) -> Content:
        if base:
            return Content.assemble(
                "This is a base model: it goes on from a text, and answers no messages. Type a beginning; ",
                (shown_keys("go_on", self._keymap), "bold $foreground"),
                " lets it write more. The stronger the colour, the more tokens came out of one pass.",
            )
        return Content.assemble(
            "A chat that shows how the model decodes. The stronger the colour, the more tokens came out of one pass; ",
            ("ctrl+n", "bold $foreground"),
            " changes the method, even in the middle of an answer, and the text stays the same.",
        )

    def pick(self, number: str) -> Starter | None:
        """Return the prompt with a number, as typed; None if there is none, or while they are hidden."""
        return self._starters.get(number.strip()) if self.display else None


class Inspector(LineView, can_focus=False):
    """The strip about a run, over the lower rows of the transcript."""

    DEFAULT_CSS = """
    Inspector { height: 4; background: $surface; overflow: hidden hidden; }
    """

    def __init__(self, keymap: Mapping[str, str], *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._keymap = keymap
        self._shown: tuple[object, ...] = ()

    @property
    def keys(self) -> str:
        moves = "".join(shown_keys(f"inspect_{name}", self._keymap) for name in ("previous", "next", "above", "below"))
        return f"{moves} other passes · {shown_keys('cancel', self._keymap)} back"

    def tell(self, view: TranscriptView, pieces: Pieces) -> None:
        """Describe the run under a view's cursor; `pieces` has the token texts for answers without any."""
        answer, spot, margin = view.cursor.answer, view.cursor.spot, view.margin
        assert answer is not None
        assert spot is not None
        colouring = effective(view.colouring, self.app.no_color)
        state = (answer, spot.run, answer.done, pieces, margin, view.size, colouring)
        if state == self._shown:
            return
        self._shown = state
        height = strip_rows(view.size.height)
        run = answer.runs[spot.run]
        ink = INKS[ink_name(colouring, run.shade, run.together)]
        pieces = answer.pieces if len(answer.pieces) else pieces
        cells = max(20, view.size.width - 2 * margin)
        rows = inspection_rows(answer, spot.run, pieces, cells, height, self.keys)
        bar = (" " * max(0, margin - 2 - PAD), ""), ("▌ ", f"${ink.colour}")
        self.styles.height = height
        run_style = ink.style if ink.behind else "bold $foreground"
        styled = [tuple((text, run_style if style == RUN else style) for text, style in row) for row in rows]
        self.show([(*bar, *row) for row in [*styled, *[()] * (height - len(styled))]])


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
        """Redraw, while an answer is being written no faster than figures can be read."""
        still = self.dialogue.phase != "writing" or self.dialogue.paused
        if still or monotonic() - self._drawn >= FIGURES_SECONDS:
            self._drawn = monotonic()
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
            return [_working("stopping" if stopping else "writing")]
        hinted, speed = self._hint is not None, figures.recent_tokens_per_second
        if self.dialogue.pace and not stopping:
            return [_working(pace_of(self.dialogue.pace)), *_per_pass(figures)]
        parts = [_figure(rate(speed), "tokens/s")] if figures.tokens else []
        parts += _per_pass(figures, "a pass" if hinted else "tokens a pass")
        if figures.drafted and not hinted and self.dialogue.answer:
            right = right_or_accepted(self.dialogue.answer.label)
            parts.append(_figure(f"{figures.accepted:,} of {figures.drafted:,}", f"guesses {right}"))
        if (why := figures.why_declined) and not hinted:
            parts.append(Content.styled(why, "$quiet"))
        if figures.tokens and not hinted:
            parts.append(_figure(f"{figures.tokens:,}", "tokens"))
        return [_working("stopping"), *parts] if stopping else [_working("") + parts[0], *parts[1:]]

    def _joined(self, parts: list[Content]) -> Content:
        """Join as many parts as fit, at least the first."""
        line = parts[0]
        for part in parts[1:]:
            if line.cell_length + 3 + part.cell_length > self.size.width:
                break
            line = Content.assemble(line, ("   ", ""), part)
        return line.truncate(self.size.width, ellipsis=True)

    def _loading(self) -> list[Content]:
        loading = self.dialogue.loading
        if loading is None:
            parts = [_working("starting the engine")]
        else:
            parts = [_working(loading_words(loading))]
            if loading.total:
                parts.append(bar(loading.done, loading.total))
                amount = progress_of(loading.done, loading.total) if loading.stage.endswith("download") else ""
                parts.append(Content(amount or f"{loading.done / loading.total:.0%}"))
        if self.dialogue.queued is not None:  # first, since a narrow line drops the last parts
            return [_working("your message waits for the model"), parts[0][2:], *parts[1:]]
        return parts

    def _prefill(self) -> list[Content]:
        answer = self.dialogue.answer
        done, total = answer.prefill if answer else (0, 0)
        if self.dialogue.loading is not None:
            return self._loading()
        parts = [_working("reading the text again" if answer and answer.runs else "reading the prompt")]
        if total:
            parts += [bar(done, total), Content(f"{done:,} / {counted(total, 'token')}")]
        return parts

    def _ready(self) -> list[Content]:
        slowly = f", {pace_of(pace)}" if (pace := self.dialogue.pace) else ""
        ready = [_working(f"ready{slowly}")]
        if self.colouring and self.app.size.width - 2 < LEGEND_FROM and self.dialogue.transcript.entries:
            legend = ((text.removeprefix(" tokens"), style) for text, style in legend_line(self.colouring))
            ready.append(Content.assemble(*legend))
        if context := self.dialogue.info.context:
            last = next(reversed(self.dialogue.transcript.answers()), None)
            used = last.figures.prompt_tokens + last.figures.tokens if last is not None else 0
            ready.append(Content(f"{used:,} of {context:,} tokens of context" if used else f"{context:,} tokens of context"))
        return ready


def _working(words: str) -> Content:
    return Content.assemble(("● ", "$success"), (words, "$foreground"))


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
