"""An answer's output: fed with tokens, it gives the text that may be shown, and finds the token that ends the answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from ..backends.base import Model
from .detokenize import RUN
from .text import Stops, TextStream

if TYPE_CHECKING:
    from ..backends.grammars.constraint import Constraint
    from ..backends.grammars.matcher import Matcher
    from .repeats import Loop, LoopGuard

FinishReason = Literal["eos", "length", "context", "stop", "loop", "cancelled"]
"""eos: the model ended its answer; length: the token limit; context: the context is full; stop: a stop string;
loop: the answer repeated itself."""


class Output:
    """The tokens of one answer as text, up to EOS, a limit, a stop string or a loop.

    Args:
        model: of the answer.
        prompt: its token ids.
        max_tokens: the most tokens in the answer; None for as many as the context holds.
        stops: strings that end the answer.
        stop_loops: end the answer if it repeats itself far more than ordinary text does (`LoopGuard`).
        constraint: grammar of the whole answer.
        think_budget: the most tokens in its thoughts.
    """

    def __init__(
        self,
        model: Model,
        prompt: Sequence[int],
        *,
        max_tokens: int | None,
        stops: Stops | None,
        stop_loops: bool,
        constraint: Constraint | None,
        think_budget: int | None,
    ) -> None:
        splitter = model.thoughts.splitter(prompt) if model.thoughts is not None else None
        behind = () if model.info.has_template and constraint is None else prompt[-RUN:]
        self.text = TextStream(model.decode, stops, splitter, behind)
        self.reason: FinishReason | None = None
        """The reason for the end; None before it."""
        self.loop: Loop | None = None
        """The repetition that ended the answer, if one did."""
        self.left = max_tokens
        """Tokens up to the limit; None without one."""
        self.eos_ids = frozenset(model.info.eos_ids)
        self.closing = False
        """Whether the next tokens end a thought, whose budget is used up."""
        self.budget = think_budget
        self._matcher: Matcher | None = None
        if constraint is not None:
            from ..backends.grammars.matcher import Matcher

            self._matcher = Matcher(model.grammar_tokenizer(), constraint, model.info.eos_ids)
        self._constrained_from: int | None = None
        """Index of the first constrained token; None before it."""
        self._guard: LoopGuard | None = None
        if stop_loops:
            from .repeats import LoopGuard  # NumPy, which listing the methods should not import

            self._guard = LoopGuard(model.decode)

    @property
    def over_budget(self) -> bool:
        """Whether the open thought has used up its tokens."""
        return self.budget is not None and not self.closing and self.text.thinking and self.text.thought >= self.budget

    def constraint(self, tokens: Sequence[int]) -> Matcher | None:
        """Return the constraint behind prompt and answer; None without one, and inside a thought, which may say anything."""
        matcher = self._matcher
        if matcher is None or self.text.free:
            self._constrained_from = None
            return None
        started = self.text.answer_started
        if self._constrained_from is None or not started:
            self._constrained_from = len(tokens)
        matcher.follow(tokens, self._constrained_from)
        matcher.before = None if started else self.text.leads
        return matcher

    def valid(self, tokens: Sequence[int]) -> bool | None:
        """Return whether the text so far matches the constraint; None without one. A stop takes text away, so then it does
        not."""
        if self._matcher is None:
            return None
        return self.reason != "stop" and self.constraint(tokens) is not None and self._matcher.matches

    def push(self, tokens: Sequence[int], *, done: bool, full: bool) -> tuple[list[int], str]:
        """Add a step's tokens up to the one that ends the answer, a stop, a loop, the budget of a thought, or a thought before
        a constrained answer; return these and their text.

        Args:
            tokens: of the step.
            done: the constraint ends the answer behind them.
            full: they fill the context.
        """
        new = list(tokens)
        if done:
            self.reason = "eos"
        if self.left is not None and len(new) >= self.left:
            self.reason = "length"
            del new[self.left :]
        elif full:
            self.reason = "context"
        text, stream, free = "", self.text, self._matcher is not None and self.text.free
        for i, token in enumerate(new):
            ends = token in self.eos_ids and not stream.ends_thought(token)
            bound = self._matcher is not None and not (ends or stream.free or stream.leads(token))
            text += stream.push(token, bound)
            if stream.stopped:
                self.reason = "stop"
            elif ends:
                self.reason = "eos"
            elif self.over_budget or (free and not stream.free):
                self.reason = self.reason if i + 1 == len(new) else None
            elif self._guard is not None and (loop := self._guard.push(token)):
                self.reason = "loop"
                self.loop = loop
            else:
                continue
            del new[i + 1 :]
            break
        if self.left is not None:
            self.left -= len(new)
        return new, text

    def flush(self) -> str:
        """Return the text still held back (an unfinished character, a possible stop), at the end."""
        tail = self.text.flush()
        if self.text.stopped:
            self.reason = "stop"
        return tail
