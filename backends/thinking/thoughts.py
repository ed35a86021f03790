"""One model's thoughts: told from its answers token by token, and ended where they are long enough."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ..info import Thinking
from .form import Form, Marks
from .split import Splitter, rules_of

END = 64
"""Tokens at the end of a prompt that may say whether a thought is open; generation prompts are shorter."""

PAIRS = (
    ("<think>", "</think>"),
    ("[THINK]", "[/THINK]"),
    ("<thinking>", "</thinking>"),
    ("<seed:think>", "</seed:think>"),
    ("<mm:think>", "</mm:think>"),
    ("◁think▷", "◁/think▷"),
)
"""Marks of models whose template says nothing of thoughts (MiniMax M1, MiMo-VL, Magistral): found where both are tokens."""

FIELDS = ("reasoning_content", "thinking", "reasoning")
"""Names of the thought in a `response_template`."""


class Thoughts:
    """How a model's thoughts are read.

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
        self._rules = rules_of(form.marks, names)
        self.spell = spell
        self._encode = encode

    def splitter(self, prompt: Sequence[int]) -> Splitter:
        """What parts the answer to a prompt."""
        marks, end = self.form.marks, self.spell(prompt[-END:])
        state, bare = marks.state(end), end.rstrip()
        usual = marks.before if state == "thought" else marks.gap if bare.endswith(marks.close) and not marks.resume else ""
        return Splitter(self._rules, state, usual.removeprefix(end[len(bare) :]))

    def closing(self, last: str) -> list[int]:
        """Tokens that end a thought, whose last characters may be half of what does, and lead to the answer."""
        marks = self.form.marks
        after = "" if last.endswith(marks.after) else marks.after
        return self._encode(f"{after}{marks.close}{marks.gap}{marks.resume}")


def usual_pair(names: Collection[str]) -> tuple[()] | tuple[str, str]:
    """The usual marks that a vocabulary has a token for each of; none where it has no such pair."""
    return next((pair for pair in PAIRS if set(pair) <= set(names)), ())


def from_vocabulary(names: Mapping[str, int]) -> Form | None:
    """The marks of a model whose template says nothing, where its vocabulary has a usual pair."""
    pair = usual_pair(names)
    return _bare(Marks(*pair, before="\n", after="\n", gap="\n\n")) if pair else None


def from_response_template(spec: Any) -> Form | None:
    """The marks in a `response_template` of transformers (tokenizer_config.json), where they are plain texts."""
    fields = spec.get("fields") if isinstance(spec, Mapping) else None
    if not isinstance(fields, Mapping):
        return None
    thought: Any = next((fields[name] for name in FIELDS if isinstance(fields.get(name), Mapping)), {})
    answer: Any = fields["content"] if isinstance(fields.get("content"), Mapping) else {}

    def text(field: Any, name: str) -> str:
        told = field.get(name)
        told = told[0] if isinstance(told, list) and told else told
        return told if isinstance(told, str) else ""

    opening, close = text(thought, "open"), text(thought, "close").strip()
    if not opening.strip() or not close:
        return None
    before = opening[len(opening.rstrip()) :]
    return _bare(Marks(opening.strip(), close, before=before, answer=text(answer, "open").strip()))


def _bare(marks: Marks) -> Form:
    return Form(marks, Thinking(marks=(marks.open, marks.close)))
