"""One model's thoughts: their separation from answers token by token, and their end after a budget."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace

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
    return Form(Marks(*pair, before="\n", after="\n", gap="\n\n"), Thinking(marks=pair)) if pair else None
