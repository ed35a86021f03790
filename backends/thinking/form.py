"""How a chat template writes thoughts: the marks around them, and how a message carries one."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from ...errors import UserError
from ..info import Thinking

TAG = re.compile(r"<[^<>\s]{1,48}>|\[/?[A-Z_ ]{3,48}\]|◁[^◁▷\s]{1,32}▷")
"""A tag in brackets."""

State = Literal["start", "thought", "gap", "answer"]
"""Where an answer is: start: nothing yet but white space; gap: behind a thought."""


@dataclass(frozen=True, slots=True)
class Marks:
    """What stands around a thought, as text without the white space next to it."""

    open: str = ""
    close: str = ""
    resume: str = ""
    """Between the closing mark and the answer: `<|start|>assistant<|channel|>final<|message|>`."""
    answer: str = ""
    """Before an answer without a thought: `<|channel|>final<|message|>`."""
    finish: str = ""
    """Behind an answer; the last tag of it usually ends the turn."""
    lead: str = ""
    """White space before the opening mark."""
    before: str = ""
    """White space that the template writes between the opening mark and the thought."""
    after: str = ""
    """White space that the template writes between the thought and the closing mark."""
    gap: str = ""
    """White space that the template writes between the closing mark and the answer."""

    def state(self, prompt: str) -> State:
        """Where an answer begins behind a prompt."""
        end = prompt.rstrip()
        if self.open and end.endswith(self.open):
            return "thought"
        if end.endswith(self.close) or (self.answer and end.endswith(self.answer)):
            return "answer"
        # An empty thought, and part of what leads to the answer.
        whole = re.compile(rf"{re.escape(self.open)}\s*{re.escape(self.close)}(?P<lead>.*)", re.DOTALL)
        found = list(whole.finditer(end, max(0, end.rfind(self.open)) if self.open else len(end)))
        return "answer" if found and self.resume.startswith(found[-1]["lead"]) else "start"

    def written(self, thought: str, text: str) -> str:
        """A whole answer, as the template would write it."""
        return f"{self.lead}{self.open}{self.before}{thought}{self.after}{self.close}{self.gap}{self.resume}{text}"


@dataclass(frozen=True, slots=True)
class Form:
    """What is found out about a template."""

    marks: Marks
    info: Thinking
    words: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """What `think` may be → the template's variables for it."""
    shape: tuple[str, ...] = ()
    """Where the content carries the thought as `parts`: type and field; as `blocks`: the list's name, the types of thought and
    answer, and the field."""

    @property
    def sentence(self) -> str:
        """How the model thinks and how to switch it."""
        info, (opening, close) = self.info, self.info.marks
        able = "can think" if info.default == "off" else "thinks"
        words = ", ".join(info.words)
        switch = f"--think takes {words} (by default {info.default or 'its own'})" if words else "there is no switch for it"
        kept = {"none": "no thought", "last": "the last thought", "all": "all thoughts"}[info.kept]
        return f"It {able} before it answers, between {opening} and {close}; {switch}. Later prompts keep {kept}."

    def message(self, message: Mapping[str, Any]) -> dict[str, Any]:
        """A message for the template: its `thought` where the template wants it, or left out."""
        made = dict(message)
        thought, text = made.pop("thought", ""), made["content"]
        match self.info.carrier:
            case _ if not thought:
                pass
            case "parts":
                kind, name = self.shape
                made["content"] = [{"type": kind, name: thought}, {"type": "text", "text": text}]
            case "blocks":
                rows, kind, other, name = self.shape
                made["content"] = {rows: [{"type": kind, name: thought}, {"type": other, name: text}]}
            case "content":
                made["content"] = self.marks.written(thought, text)
            case "":
                pass
            case key:
                made[key] = thought
        return made


def no_variables(think: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """The variables of a model without a chat template."""
    if given or think not in ("", "off"):
        raise UserError("This model has no chat template, so nothing can be set in one. Leave out think and its variables.")
    return {}
