"""An answer, step by step: each goes through `verify`, and its tokens become text until something ends the answer.

A Generation is one answer in a Conversation, which owns the KV cache and the drafters. The method may change between any two
steps: the cache and what the drafters have learned stay, and no token changes as long as the methods are labelled identical.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from statistics import mean
from typing import TYPE_CHECKING, Any

from ..backends.base import BLOCK, PREFILL_CHUNK, Message, Model, Sampling, chunk_of
from ..errors import ContextFull, UserError, counted
from .acceptance import EXACT, Acceptance
from .base import Context, Drafter, StepOutcome
from .conversation import Conversation, encode_prompt
from .output import FinishReason, Output
from .stats import Totals
from .step import StepRecord
from .text import Stops, joined
from .tree import Tree
from .verify import StepClock, end_at_near_tie, verify

if TYPE_CHECKING:
    from ..backends.grammars.constraint import Constraint


WARMING = 2
"""Plain steps after passes of another size that take longer than the steps after them."""

THOUGHT_OVER = "The thought had its {}, so its end was put in."
"""A step's note when a thought's budget is used up."""

READ_AGAIN = "Beyond {:,} tokens this model reads a text with other positions, so all of it was read again."
"""A step's note on the model's LongRoPE."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step(StepRecord):
    """The result of one verification pass. Iteration adds the character that is held back to the last step's text; after
    `advance`, `flush` returns it."""

    index: int
    """The step's number within the answer, from 0."""
    tree: Tree
    """The tree that was verified, of one node too; node 0 is the token that was pending before this step."""


class Generation(Iterator[Step]):
    """One answer. Iterate over its steps, or call `advance` to run one forward pass at a time.

    Args:
        conversation: the chat to continue; what its cache shares with the prompt is not evaluated again.
        prompt: one or more token ids.
        method: name of the decoding method.
        settings: the method's settings, by name.
        sampling: how the target picks tokens.
        acceptance: when a draft token is accepted; exact if None.
        max_tokens: the most tokens in the answer; None for as many as the context holds.
        stops: strings that end the answer, besides EOS.
        stop_loops: end the answer if it repeats itself far more than ordinary text does (`LoopGuard`).
        constraint: grammar of the whole answer; tokens that would break it are not chosen. It writes forced tokens itself,
            without a pass.
        think_budget: the most tokens in its thoughts; then the marks that lead to the answer are inserted.

    Raises:
        UserError: the method or a setting is unknown, the model does not have a token of the prompt, or the constraint cannot
            be used.
        ContextFull: the prompt leaves no room for an answer.
    """

    def __init__(
        self,
        conversation: Conversation,
        prompt: Sequence[int],
        method: str = "greedy",
        *,
        settings: Mapping[str, Any] | None = None,
        sampling: Sampling | None = None,
        acceptance: Acceptance | None = None,
        max_tokens: int | None = None,
        stops: Stops | None = None,
        stop_loops: bool = False,
        constraint: Constraint | None = None,
        think_budget: int | None = None,
    ) -> None:
        model = conversation.model
        check_prompt(conversation, prompt)
        if max_tokens is not None and max_tokens < 1:
            raise UserError(f"The token limit must be at least 1, not {max_tokens}.")
        self.conversation = conversation
        self.sampling = sampling or Sampling()
        at_zero = self.sampling.greedy and acceptance is not None and acceptance.rule == "rejection"
        self.acceptance = EXACT if acceptance is None or at_zero else acceptance  # at temperature 0 rejection is exact match
        self.drafter = conversation.drafter(method, settings)
        self.tokens = list(prompt)
        """Prompt and answer."""
        self.prompt_tokens = len(prompt)
        self.totals = Totals()
        able = self._caps = model.info.capabilities
        self._most = able.most if self.acceptance.rule == "exact" else None
        """Nodes of the largest pass, where only passes up to a size have plain decoding's bits."""
        self._blocks = self.acceptance.rule == "exact" and (self._most is not None or not able.exact)
        """Whether results depend on the size of passes, so that every method reads the prompt in the same ones."""
        # Only now, as the drafter may have replaced the session.
        self.reused = conversation.session.align(prompt[:-1], blocks=self._blocks)
        """Number of prompt tokens that were already in the cache."""
        self.prefill_seconds = 0.0
        self.records_probabilities = False
        """Whether steps have the target's probabilities of the tokens that they verified."""
        self.recording_seconds = 0.0
        """Seconds of recording them, which no step counts."""
        self._guard = partial(end_at_near_tie, able.near_tie) if able.exact and able.near_tie else None
        self.output = Output(
            model,
            prompt,
            max_tokens=max_tokens,
            stops=stops,
            stop_loops=stop_loops,
            constraint=constraint,
            think_budget=think_budget,
        )
        self._branching = able.tree and self._most is None
        self._cancelled = False
        self._next_index = 0
        self._next_note = ""
        """A note for the next step, in place of its drafter's."""
        self._settled: tuple[Drafter, Sequence[int]] | None = None
        """A drafter, and tokens that it leaves without a pass: they are the next step."""
        self.drafter.prepare(self._context())
        if self.output.over_budget:
            self._end_thought()

    def __next__(self) -> Step:
        while self.finish_reason is None:
            step = self.advance()
            if step is not None and self.finish_reason is not None:  # the last one includes the text held back
                tail = self.flush()
                return replace(step, text=step.text + tail, held="", spans=joined(step.spans, self.output.text.spans()))
            if step is not None:
                return step
        raise StopIteration

    @property
    def method(self) -> str:
        """Name of the current method."""
        return self.drafter.name

    @property
    def finish_reason(self) -> FinishReason | None:
        """The reason for the end; None while the answer goes on."""
        return self.output.reason

    @property
    def thinking(self) -> bool:
        """Whether a thought is open: the answer, if it ends now, ends inside it."""
        return self.output.text.thinking

    @property
    def valid(self) -> bool | None:
        """Whether the text so far matches the constraint; None without one."""
        return self.output.valid(self.tokens)

    @property
    def answer(self) -> list[int]:
        """The token ids produced so far, including an EOS token."""
        return self.tokens[self.prompt_tokens :]

    def switch(self, method: str, settings: Mapping[str, Any] | None = None) -> None:
        """Continue with another method, or other settings, from the next step on.

        Raises:
            UserError: as `Conversation.drafter`; the current method stays.
        """
        drafter = self.conversation.drafter(method, settings)
        drafter.prepare(self._context())
        if drafter is not self.drafter:
            self._leave()
        self.drafter = drafter

    def cancel(self) -> None:
        """End the answer before the next pass and keep its text, including a beam search's best text so far."""
        self._cancelled = True

    def advance(self) -> Step | None:
        """Run one forward pass: a chunk of the prompt, which returns None, or a step. Once `finish_reason` is set, do nothing
        and return None."""
        if self.finish_reason is not None:
            return None
        if self._cancelled:
            self._leave()
        if self._cancelled or self._settled is not None:
            return self._hand_over()
        session = self.conversation.session
        if len(self.tokens) > self.drafter.horizon(session):
            self._next_note = READ_AGAIN.format(session.horizon)
            session.align(self.tokens[:-1])
        left = len(self.tokens) - 1 - session.length
        if left > PREFILL_CHUNK or (left > 0 and self._reads and session.length < self.prompt_tokens - 1):
            self._prefill(left)
            return None
        forced = self._forced_outcome()
        return self._speculate() if forced is None else self._append(self.drafter, forced, StepClock(session))

    def flush(self) -> str:
        """Return the text still held back (an unfinished character, a possible stop). Call it at the end."""
        return self.output.flush()

    def plain_seconds(self, most: int, seconds: float) -> float:
        """Run plain steps from the end of the text on, undo them, and return the mean of their seconds: at least one step, at
        most `most`, none starting after `seconds`. 0 if the context is full or the cache cannot be rewound."""
        session = self.conversation.session
        if not self._caps.chain or len(self.tokens) >= session.context:
            return 0.0
        length, most = min(session.length, len(self.tokens)), min(most, session.horizon - len(self.tokens))
        if most < 1 or session.shared(self.tokens[:length]) < length:  # the cache's contents would have to be read again
            return 0.0
        times: list[float] = []
        plain = Generation(self.conversation, self.tokens, sampling=self.sampling, max_tokens=most + 1)
        plain.output.eos_ids = frozenset()
        for step in plain:
            if not step.prefilled:
                times.append(step.draft_seconds + step.forward_seconds + step.other_seconds)
            if sum(times) >= seconds:
                break
        session.rewind(min(length, session.length))
        return mean(times[WARMING:] or times) if times else 0.0

    @property
    def _reads(self) -> bool:
        """Whether tokens of the text are read apart from trees, in passes without one."""
        return self.drafter.reads_cache or self._blocks

    def _prefill(self, left: int) -> None:
        """Read a chunk of the `left` tokens that the cache lacks."""
        session, start = self.conversation.session, time.perf_counter()
        size = min(left, BLOCK - session.length % BLOCK) if self._blocks else chunk_of(left)
        session.prefill(self.tokens[session.length : session.length + size])
        self.prefill_seconds += time.perf_counter() - start

    def _leave(self) -> None:
        """Have the current method finish (beam search: its best text is certain now)."""
        if tokens := self.drafter.leave(self._context()):
            self._settled = self.drafter, tokens

    def _hand_over(self) -> Step | None:
        """Make a step of the settled tokens, if there are any, without a pass; a cancelled answer ends with it."""
        step = None
        if self._settled is not None:
            drafter, tokens = self._settled
            self._settled = None
            outcome = StepOutcome(tokens, Tree.chain(self.tokens[-1], tokens), earlier=len(tokens))
            step = self._append(drafter, outcome, StepClock(self.conversation.session))
            self.output.closing = False
        if self._cancelled:
            self.output.reason = "cancelled"
        return step

    def _forced_outcome(self) -> StepOutcome | None:
        """Collect the grammar-forced tokens, if there are any; the next pass reads them with its tree."""
        matcher = self.output.constraint(self.tokens)
        if matcher is None or matcher.before is not None or self.drafter.searches:
            return None
        tokens = matcher.forced()[: self._max_depth() + 1]
        done = not tokens and not matcher.ends and matcher.stopped
        if not tokens and not done:
            return None
        return StepOutcome(tokens, Tree.root(self.tokens[-1]), (0,), grammar=len(tokens), done=done)

    def _speculate(self) -> Step:
        """Draft and verify one tree."""
        session = self.conversation.session
        clock = StepClock(session, self.prompt_tokens)
        if self._reads and session.length < len(self.tokens) - 1:  # tokens that a constraint wrote
            session.prefill(self.tokens[session.length : -1])
        run = partial(verify, clock=clock, guard=self._guard, records=self.records_probabilities)
        outcome = self.drafter.step(self._context(), run)
        return self._append(self.drafter, outcome, clock)

    def _max_depth(self) -> int:
        """Count the draft tokens that a path may have: d of them yield d + 1 tokens and take d + 1 slots."""
        session = self.conversation.session
        depth = self.drafter.horizon(session) - max(session.length, len(self.tokens) - 1) - 1
        return depth if self.output.left is None else min(depth, self.output.left - 1)

    def _context(self) -> Context:
        conversation = self.conversation
        return Context(
            tokens=self.tokens,
            session=conversation.session,
            sampling=self.sampling,
            max_depth=self._max_depth() if self._most is None else min(self._max_depth(), self._most - 1),
            eos_ids=self.output.eos_ids,
            branching=self._branching,
            draft_models=conversation.draft_models,
            model=conversation.model,
            acceptance=self.acceptance,
            head=conversation.head,
            past=conversation.past,
            matcher=self.output.constraint(self.tokens),
        )

    def _append(self, drafter: Drafter, outcome: StepOutcome, clock: StepClock) -> Step:
        note = self._next_note
        self._next_note = ""
        output, session = self.output, self.conversation.session
        held, most = len(output.text.held), len(outcome.tokens)
        full = max(session.length, len(self.tokens) - 1 + most) >= session.context
        new, text = output.push(outcome.tokens, done=outcome.done, full=full)
        outcome = outcome.first(len(new))
        self.tokens.extend(new)
        if output.over_budget and output.reason is None:
            self._end_thought()
        elif len(new) < most and output.reason is None:
            self._rewind()
        spent = clock.stop()
        self.recording_seconds += clock.excluded
        self.prefill_seconds += clock.prefill_seconds
        step = Step(
            drafter.name,
            **outcome.record(),
            **spent,
            text=text,
            carried=min(held, len(text)),
            held=output.text.waiting,
            note=note or drafter.note or outcome.note,
            declined=drafter.sizes.declined if spent["nodes"] and not outcome.drafted else (),
            spans=output.text.spans(),
            index=self._next_index,
            tree=outcome.tree,
        )
        self._next_index += 1
        self.totals.add(step)
        return step

    def _end_thought(self) -> None:
        """Insert the marks that end the thought, as the next step."""
        thoughts = self.conversation.model.thoughts
        assert thoughts is not None
        self._rewind()
        self._settled = self.drafter, thoughts.closing(self.output.text.undecided)
        self.output.closing = True
        self._next_note = THOUGHT_OVER.format(counted(self.output.budget or 0, "token"))

    def _rewind(self) -> None:
        """Drop what the cache holds beyond the text."""
        session = self.conversation.session
        self.drafter.leave(self._context())
        session.rewind(session.shared(self.tokens[:-1], self.prompt_tokens))


def check_prompt(conversation: Conversation, prompt: Sequence[int]) -> None:
    """Check that a prompt can be continued.

    Raises:
        UserError: it is empty, or has a token that the model does not have.
        ContextFull: it leaves no room for an answer.
    """
    info = conversation.model.info
    if not prompt:
        raise UserError("The prompt is empty. Type something to continue from.")
    if len(prompt) >= (most := conversation.session.context):
        raise ContextFull(
            f"The prompt has {counted(len(prompt), 'token')}, but the context holds {most:,}. Shorten the "
            "prompt, start a new chat, or load the model with a larger context."
        )
    if (highest := max(prompt)) >= (ids := info.readable):
        raise UserError(
            f"The prompt has the token {highest:,}, and {info.name} has only {ids:,} tokens: its tokenizer knows more. Write a "
            "prompt without it, or copy the model's own tokenizer files into its folder."
        )


def generate(
    model: Model, prompt: str | Sequence[Message] | Sequence[int], method: str = "greedy", **options: Any
) -> Generation:
    """Answer a prompt: `for step in generate(load_model("builtin"), "Hello", method="lookup"): print(step.text, end="")`.

    Args:
        model: from `load_model`.
        prompt: text (sent as a chat message if the model has a chat template), chat messages, or token ids.
        method: name of the decoding method.
        options: those of Generation.

    Raises:
        UserError: the method or a setting is unknown, or the prompt does not fit.
    """
    return Generation(Conversation(model), encode_prompt(model, prompt), method, **options)
