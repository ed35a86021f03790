"""A chat template's form of thoughts: the marks around them, and the way in which a message carries one."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from ...errors import UserError
from ..info import Thinking

TAG = re.compile(r"<[^<>\s]{1,48}>|\[/?[A-Z_ ]{3,48}\]|◁[^◁▷\s]{1,32}▷")
"""Matches a tag in brackets."""

State = Literal["start", "thought", "gap", "answer"]
"""The place in an answer: start is before the first word, gap is behind a thought."""


@dataclass(frozen=True, slots=True)
class Marks:
    """The texts around a thought, without the white space next to them."""

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
        """Determine the place at which a prompt leaves the answer."""
        end = prompt.rstrip()
        if self.open and end.endswith(self.open):
            return "thought"
        if end.endswith(self.close) or (self.answer and end.endswith(self.answer)):
            return "answer"
        # An empty thought, and part of the text before the answer.
        whole = re.compile(rf"{re.escape(self.open)}\s*{re.escape(self.close)}(?P<lead>.*)", re.DOTALL)
        matches = list(whole.finditer(end, max(0, end.rfind(self.open)) if self.open else len(end)))
        return "answer" if matches and self.resume.startswith(matches[-1]["lead"]) else "start"

    def written(self, thought: str, text: str) -> str:
        """Write a whole answer as the template would."""
        return f"{self.lead}{self.open}{self.before}{thought}{self.after}{self.close}{self.gap}{self.resume}{text}"


@dataclass(frozen=True, slots=True)
class Form:
    """A template's handling of thoughts."""

    marks: Marks
    info: Thinking
    words: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Words that `think` accepts → the template's variables for them."""
    shape: tuple[str, ...] = ()
    """For a content in `parts`: type and field of the thought; in `blocks`: the list's name, the types of thought and answer,
    and the field."""

    @property
    def sentence(self) -> str:
        """A description of the model's thinking and its switch."""
        info, (opening, close) = self.info, self.info.marks
        able = "can think" if info.default == "off" else "thinks"
        words = ", ".join(info.words)
        switch = f"--think takes {words} (by default {info.default or 'its own'})" if words else "there is no switch for it"
        return f"It {able} before it answers, between {opening} and {close}; {switch}."

    def message(self, message: Mapping[str, Any]) -> dict[str, Any]:
        """Convert a message for the template, with its `thought` in the template's place or left out."""
        out = dict(message)
        thought, text = out.pop("thought", ""), out["content"]
        match self.info.carrier:
            case _ if not thought:
                pass
            case "parts":
                kind, name = self.shape
                out["content"] = [{"type": kind, name: thought}, {"type": "text", "text": text}]
            case "blocks":
                rows, kind, other, name = self.shape
                out["content"] = {rows: [{"type": kind, name: thought}, {"type": other, name: text}]}
            case "content":
                out["content"] = self.marks.written(thought, text)
            case "":
                pass
            case key:
                out[key] = thought
        return out


def no_variables(think: str, variables: Mapping[str, Any]) -> dict[str, Any]:
    """Return the variables of a model without a chat template: none.

    Raises:
        UserError: some are set.
    """
    if variables or think not in ("", "off"):
        raise UserError("This model has no chat template, so nothing can be set in one. Leave out think and its variables.")
    return {}
