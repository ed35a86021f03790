"""One model's thoughts: their separation from answers token by token, and their end after a budget."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ..info import Thinking
from .form import Form, Marks
from .split import Splitter, compile_rules

END = 64
"""Tokens at the end of a prompt that show whether a thought is open; generation prompts are shorter."""

PAIRS = (
    ("<think>", "</think>"),
    ("[THINK]", "[/THINK]"),
    ("<thinking>", "</thinking>"),
    ("<seed:think>", "</seed:think>"),
    ("<mm:think>", "</mm:think>"),
    ("◁think▷", "◁/think▷"),
)
"""Marks of models whose template does not handle thoughts (MiniMax M1, MiMo-VL, Magistral), used if both are tokens."""

FIELDS = ("reasoning_content", "thinking", "reasoning")
"""Names of the thought in a `response_template`."""


class Thoughts:
    """The reader of a model's thoughts.

    Args:
        form: how its template writes them.
        names: text of every token that stands for a whole tag → its id.
        spell: token ids to text with every token in it.
        encode: text of a template, in the middle of a text, to token ids.
    """

    def __init__(
        self, form: Form, names: Mapping[str, int], spell: Callable[[Sequence[int]], str], encode: Callable[[str], list[int]]
    ) -> None:
        self.form = form
        self.info = replace(form.info, sentence=form.sentence)
        self._rules = compile_rules(form.marks, names)
        self.spell = spell
        self._encode = encode

    def splitter(self, prompt: Sequence[int]) -> Splitter:
        """Make the splitter for the answer to a prompt."""
        marks, end = self.form.marks, self.spell(prompt[-END:])
        state, bare = marks.state(end), end.rstrip()
        usual = ""
        if state == "thought":
            usual = marks.before
        elif bare.endswith(marks.close) and not marks.resume:
            usual = marks.gap
        return Splitter(self._rules, state, usual.removeprefix(end[len(bare) :]))

    def closing(self, last: str) -> list[int]:
        """Encode the end of a thought and the beginning of the answer, given the thought's last characters."""
        marks = self.form.marks
        after = "" if last.endswith(marks.after) else marks.after
        return self._encode(f"{after}{marks.close}{marks.gap}{marks.resume}")


def usual_pair(names: Collection[str]) -> tuple[()] | tuple[str, str]:
    """Return the usual marks that are both tokens of a vocabulary; empty if there are none."""
    return next((pair for pair in PAIRS if set(pair) <= set(names)), ())


def from_vocabulary(names: Mapping[str, int]) -> Form | None:
    """Make the form of a model whose template does not handle thoughts from its vocabulary; None without a usual pair."""
    pair = usual_pair(names)
    return _bare(Marks(*pair, before="\n", after="\n", gap="\n\n")) if pair else None


def from_response_template(spec: Any) -> Form | None:
    """Read the marks in a `response_template` of transformers (tokenizer_config.json); None if they are not plain texts."""
    fields = spec.get("fields") if isinstance(spec, Mapping) else None
    if not isinstance(fields, Mapping):
        return None
    thought: Any = next((fields[name] for name in FIELDS if isinstance(fields.get(name), Mapping)), {})
    answer: Any = fields["content"] if isinstance(fields.get("content"), Mapping) else {}

    def text(field: Any, name: str) -> str:
        value = field.get(name)
        value = value[0] if isinstance(value, list) and value else value
        return value if isinstance(value, str) else ""

    opening, close = text(thought, "open"), text(thought, "close").strip()
    if not opening.strip() or not close:
        return None
    before = opening[len(opening.rstrip()) :]
    return _bare(Marks(opening.strip(), close, before=before, answer=text(answer, "open").strip()))


def _bare(marks: Marks) -> Form:
    return Form(marks, Thinking(marks=(marks.open, marks.close)))
