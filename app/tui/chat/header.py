"""The line at the top: what runs where, and the decoding method in force."""

from __future__ import annotations

from textual import events
from textual.content import Content
from textual.widget import Widget

from ...chat.about import default_word, word_for
from ...chat.dialogue import Dialogue
from ...race.models import short_name
from ...settings.rows import constraint_name
from ...text.amounts import count_of
from ...text.cells import fit, one_line
from ...theming.colouring import LABEL_STYLES

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
