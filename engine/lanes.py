"""Lanes: conversations that share one device, one forward pass at a time, so that a race is fair."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from ..backends.base import PREFILL_CHUNK, ROOT, Model, Sampling
from ..backends.grammars.constraint import parse_constraint
from ..backends.sampling import gumbel_of
from ..decoders.acceptance import Acceptance, probabilities
from ..decoders.base import effective_label
from ..decoders.conversation import Conversation
from ..decoders.loop import Generation
from ..decoders.text import Stops
from ..decoders.tree import Tree
from ..errors import UserError, counted
from .drafts import Drafters, open_conversation
from .failures import failure
from .messages import (
    Event,
    Failed,
    Finished,
    GapMeasured,
    Generate,
    GrantPasses,
    MeasureGap,
    Pace,
    Pause,
    Paused,
    Prefilling,
    RecordProbabilities,
    ScoreStep,
    Started,
    Steps,
    StepScores,
    Switch,
    Switched,
)
from .requests import encode_request

if TYPE_CHECKING:
    from ..decoders.past.index import Past

PLAIN_STEPS, PLAIN_SECONDS = 32, 0.05
"""Plain steps timed at the end of an answer, and the seconds within which they begin, so that a large model takes one."""

LEAST_SHARE, EVEN_SHARE = 0.6, 0.8
"""Least share of a core that plain steps and the answer's must have had to be compared, and least ratio of the two shares. On a
crowded machine a few milliseconds of plain steps may see none of the crowd, or all of it."""

TEXTS = 8
"""Ended answers of a lane whose steps can still be scored."""

FAR = PREFILL_CHUNK
"""Most tokens that scoring a step may make the cache lose and read, together."""

Post = Callable[[Event], None]


class Lane:
    """One conversation's KV cache and drafters, and the answer that runs in it."""

    def __init__(self, name: str, model: Model, drafts: Drafters | None = None) -> None:
        self.name = name
        self.conversation = open_conversation(model, drafts)
        self.id = 0
        """Id of the running answer."""
        self.generation: Generation | None = None
        self.clock = 0.0
        """Seconds of compute, counted from the clock of the race that the answer joined; the least gets the next turn."""
        self.busy_seconds = 0.0
        """Seconds of the running answer's compute."""
        self.compare = False
        """Whether to time plain steps at the end of the answer."""
        self.step_seconds = 0.0
        self.step_cpu_seconds = 0.0
        self.answered: Generation | None = None
        """The running or the last answer."""
        self.texts: dict[int, tuple[list[int], int]] = {}
        """The latest ended answers by id: prompt and answer, and the number of the prompt's tokens."""
        self.paused = False
        self.due = 0
        """Passes that a paused answer may still take."""
        self.pace = self.next = 0.0
        """Steps a second (0: as many as it can), and the time when the next one may begin."""
        self.rested = False
        """Whether the device rested between its steps (see Finished)."""

    @property
    def held(self) -> bool:
        """Whether it is paused, with no pass due."""
        return self.paused and self.due <= 0

    def begin(self, request: Generate, generation: Generation) -> None:
        """Begin an answer with the clocks at 0."""
        self.id = request.id
        self.generation = self.answered = generation
        self.busy_seconds = self.step_seconds = self.step_cpu_seconds = 0.0
        self.paused = self.rested = False
        self.due = 0
        self.compare = request.compare
        self.pace = request.pace
        self.next = 0.0
        generation.records_probabilities = request.record_probabilities

    def close(self) -> None:
        """Free the KV cache."""
        self.conversation.close()


class Lanes:
    """The lanes of all models. `run_pass` gives one forward pass to the lane that has computed least.

    Every method posts events rather than raising: an error in one answer costs only that answer.

    Args:
        post: receives the events.
        clock: monotonic seconds, by which turns are shared.
    """

    def __init__(self, post: Post, clock: Callable[[], float] = time.perf_counter) -> None:
        self._post = post
        self._clock = clock
        self._lanes: dict[str, Lane] = {}
        self._running: list[Lane] = []

    @property
    def rest(self) -> float | None:
        """Seconds until an answer may take its next turn; None if there is none, or all are paused."""
        now = self._clock()
        return min((max(0.0, lane.next - now) for lane in self._running if not lane.held), default=None)

    def start(
        self,
        model: Model | None,
        request: Generate,
        drafts: Drafters | None = None,
        past: Past | None = None,
    ) -> None:
        """Begin an answer; the lane's cache keeps the beginning that it shares with the prompt.

        Args:
            model: the target.
            request: with the prompt.
            drafts: the drafters of a new lane.
            past: past answers to draft from.
        """
        lane = self._lanes.get(request.lane)
        if lane is not None and lane.generation is not None:
            sentence = "An answer is being written here. Wait for it, or cancel it first."
            self._post(Failed(request.id, "user", sentence))
            return
        if lane is not None and lane.conversation.model is not model:  # another model's cache is of no use
            self._discard(lane)
            lane = None
        try:
            if model is None:
                raise UserError("No model is loaded. Load one first.")
            prompt = encode_request(model, request)
            if lane is None:
                lane = self._lanes[request.lane] = Lane(request.lane, model, drafts)
            elif request.fresh:
                lane.conversation.forget_drafters()
            lane.conversation.past = past
            generation = Generation(
                lane.conversation,
                prompt,
                request.method,
                settings=request.settings,
                sampling=Sampling(**request.sampling),
                acceptance=Acceptance.parse(request.accept),
                max_tokens=request.max_tokens,
                stops=Stops(request.stop),
                stop_loops=request.stop_loops,
                constraint=parse_constraint(request.constraint),
                think_budget=request.think_budget,
            )
        except BaseException as error:  # see `failure`
            self._fail(lane, request.id, error)
            return
        lane.begin(request, generation)
        # A lane that joins late starts level with the one furthest behind, else it would have the device to itself.
        lane.clock = min((other.clock for other in self._running), default=0.0)
        self._running.append(lane)
        label = _label(generation)
        self._post(Started(lane.id, lane.name, generation.method, label, generation.prompt_tokens, generation.reused))

    def switch(self, request: Switch) -> None:
        """Change the method of a running answer between two steps."""
        lane = self._find(request.id)
        try:
            if lane is None or lane.generation is None:
                raise UserError("That answer has already ended. The method applies from the next one on.")
            lane.generation.switch(request.method, request.settings)
            self._post(Switched(request.id, lane.generation.method, _label(lane.generation)))
        except BaseException as error:  # see `failure`
            self._post(replace(failure(request.id, error), ended=False))

    def pause(self, request: Pause) -> None:
        """Pause a running answer, or continue it."""
        lane = self._find(request.id)
        if lane is None:
            return
        lane.paused = request.paused
        lane.due = 0
        if not lane.paused:
            # Else it would have the device to itself until it had caught up.
            clocks = (other.clock for other in self._running if other is not lane and not other.held)
            lane.clock = max(lane.clock, min(clocks, default=lane.clock))
        self._post(Paused(lane.id, lane.paused))

    def pace(self, request: Pace) -> None:
        """Slow a running answer down, or let it run at full speed."""
        if (lane := self._find(request.id)) is not None:
            lane.pace = request.passes
            lane.next = 0.0

    def grant_passes(self, request: GrantPasses) -> None:
        if (lane := self._find(request.id)) is not None and lane.paused:
            lane.due += max(0, request.passes)

    def record_probabilities(self, request: RecordProbabilities) -> None:
        """Switch the recording of probabilities in a running answer on or off."""
        if (lane := self._find(request.id)) is not None and lane.generation is not None:
            lane.generation.records_probabilities = request.on

    def measure_gap(self, request: MeasureGap) -> None:
        """Measure the logit gap between two tokens in a pass that no lane is charged for."""
        lane = self._lanes.get(request.lane)
        try:
            if lane is None or lane.answered is None:
                raise UserError("That answer is no longer in memory. Run it again to compare.")
            self._post(logit_gap(request, lane.conversation.model, lane.answered))
        except BaseException as error:  # see `failure`
            self._post(replace(failure(request.id, error), ended=False))

    def score_step(self, request: ScoreStep) -> None:
        """Compute the target's probabilities in a step of an answer by one more pass over its tree, if the cache is near."""
        lane, probs = self._lanes.get(request.lane), list[float]()
        try:
            if lane is not None and lane.generation is None and (text := lane.texts.get(request.id)) is not None:
                probs = step_probs(request, lane.conversation, text)
        except BaseException as error:  # see `failure`
            failure(request.id, error)
        self._post(StepScores(request.id, request.before, probs))

    def cancel(self, id: int) -> bool:
        """End a running answer at once and keep its text; return whether there was one."""
        lane = self._find(id)
        if lane is None or lane.generation is None:
            return False
        lane.generation.cancel()
        self._turn(lane, lane.generation)
        return True

    def close_lane(self, name: str) -> None:
        """Free a lane, its answer cancelled."""
        if lane := self._lanes.get(name):
            self.cancel(lane.id)
            self._discard(lane)

    def close_model(self, model: Model) -> None:
        """Free the lanes of one model."""
        for name in [lane.name for lane in self._lanes.values() if lane.conversation.model is model]:
            self.close_lane(name)

    def cancel_all(self) -> None:
        for lane in tuple(self._running):
            self.cancel(lane.id)

    def run_pass(self) -> None:
        """Give one forward pass to the lane that has computed least, of those that may take one now."""
        now = self._clock()
        ready = (lane for lane in self._running if not lane.held and lane.next <= now)
        lane = min(ready, key=lambda lane: lane.clock)
        assert lane.generation is not None
        self._turn(lane, lane.generation)

    def _find(self, id: int) -> Lane | None:
        return next((lane for lane in self._running if lane.id == id), None)

    def _turn(self, lane: Lane, generation: Generation) -> None:
        """Run a pass on the lane's clock, and post the resulting events."""
        before, recording = generation.prefill_seconds, generation.recording_seconds
        start, cpu, finished = self._clock(), time.process_time(), None
        try:
            step = generation.advance()
            seconds = self._clock() - start - (generation.recording_seconds - recording)
            lane.clock += seconds
            lane.busy_seconds += seconds
            if generation.prefill_seconds > before:
                total = max(1, len(generation.tokens) - len(step.tokens if step is not None else ())) - 1
                done = min(total, generation.conversation.session.length)
                self._post(Prefilling(lane.id, done, total, generation.prefill_seconds))
            if step is not None:
                lane.step_seconds += seconds
                lane.step_cpu_seconds += time.process_time() - cpu
                lane.due -= lane.paused
                lane.rested = lane.rested or lane.paused or lane.pace > 0
                lane.next = start + 1 / lane.pace if lane.pace else 0.0
                self._post(Steps(lane.id, [step]))
            if generation.finish_reason is None:
                return
            finished = _finished(lane, generation)
        except BaseException as error:  # see `failure`
            self._end(lane)
            self._fail(lane, lane.id, error, finished.tail if finished else _tail(generation))
            return
        self._end(lane)
        self._post(finished)

    def _end(self, lane: Lane) -> None:
        self._running.remove(lane)
        if lane.generation is not None:
            lane.texts[lane.id] = (lane.generation.tokens, lane.generation.prompt_tokens)
            if len(lane.texts) > TEXTS:
                del lane.texts[min(lane.texts)]
        lane.generation = None

    def _fail(self, lane: Lane | None, id: int, error: BaseException, tail: str = "") -> None:
        """Report the error that ended an answer; free the lane, whose cache may be broken, unless it is a user error."""
        failed = failure(id, error)
        failed.tail = tail
        if lane is not None and failed.cause != "user":
            self._discard(lane)
        self._post(failed)

    def _discard(self, lane: Lane) -> None:
        del self._lanes[lane.name]
        try:
            lane.close()
        except BaseException as error:  # a session in an unknown state; its memory goes with the last reference
            failure(lane.id, error)


def step_probs(request: ScoreStep, conversation: Conversation, text: tuple[list[int], int]) -> list[float]:
    """Compute the target's probabilities in a step of an answer; none if the cache is too far from the text before the step.

    The cache loses the text behind that, which the next answer reads again.
    """
    tokens, prompt = text
    session, before = conversation.session, tokens[: prompt + request.before]
    shared = session.shared(before[:-1], prompt)
    if session.length - shared + len(before) - 1 - shared > FAR:
        return []
    session.align(before[:-1], prompt)
    session.prefill(before[shared:-1])
    tree = Tree(list(request.tree_tokens), list(request.tree_parents)) if request.tree_tokens else Tree.root(before[-1])
    scores = session.evaluate(tree.tokens, tree.parents)
    probs = probabilities(tree, scores, request.path[-1] if request.path else 0, request.last)
    session.commit(())
    return list(probs)


def _tail(generation: Generation) -> str:
    try:
        return generation.flush()
    except Exception:  # the tokenizer itself may be what failed
        return ""


def _finished(lane: Lane, generation: Generation) -> Finished:
    tail = generation.flush()  # a stop may match in it
    period, repeats = generation.output.loop or (0, 0)
    plain, contended = _plain_seconds(lane, generation)
    return Finished(
        id=lane.id,
        reason=generation.finish_reason or "error",
        tail=tail,
        thinking=generation.thinking,
        prefill_seconds=generation.prefill_seconds,
        busy_seconds=lane.busy_seconds,
        period=period,
        repeats=repeats,
        valid=generation.valid,
        plain_seconds=plain,
        contended=contended,
        rested=lane.rested,
    )


def _plain_seconds(lane: Lane, generation: Generation) -> tuple[float, bool]:
    """Time a plain step at the answer's end.

    Returns:
        Its seconds, and whether other programs kept the two from being compared. Seconds are 0 then, and for a plain answer,
        one that rested, and one of a slow model that was cancelled, whose user would wait.
    """
    totals = generation.totals
    plain = generation.drafter.plain and totals.nodes == totals.tokens
    slow = generation.finish_reason == "cancelled" and totals.forward_seconds > PLAIN_SECONDS * totals.steps
    if not lane.compare or plain or slow or lane.rested or not lane.step_seconds:
        return 0.0, False
    started, cpu = time.perf_counter(), time.process_time()
    seconds = generation.plain_seconds(PLAIN_STEPS, PLAIN_SECONDS)
    plain_share = (time.process_time() - cpu) / (time.perf_counter() - started)
    share = lane.step_cpu_seconds / lane.step_seconds
    even = min(plain_share, share) >= max(LEAST_SHARE, EVEN_SHARE * max(plain_share, share))
    contended = seconds > 0 and not even and generation.conversation.model.info.device == "cpu"
    return 0.0 if contended else seconds, contended


def _label(generation: Generation) -> str:
    capabilities = generation.conversation.model.info.capabilities
    return effective_label(generation.drafter, generation.acceptance, generation.sampling, capabilities)


def logit_gap(request: MeasureGap, model: Model, answer: Generation) -> GapMeasured:
    """Measure the logit gap between an answer's token at a position and another one, by one plain pass over the text before.

    The pass runs in another session, as the answer may still be running in the lane's.

    Raises:
        UserError: the answer has no such position, or a token does not exist.
    """
    tokens = answer.answer
    if not 0 <= request.position < len(tokens):
        raise UserError(f"The answer has {counted(len(tokens), 'token')}, and none at {request.position:,}. Race again.")
    token = tokens[request.position]
    for compared in (token, request.other):
        if not 0 <= compared < model.info.vocabulary:
            raise UserError(f"The model has no token {compared}. Its vocabulary ends at {model.info.vocabulary - 1:,}.")
    before = answer.tokens[: answer.prompt_tokens + request.position]
    sampling = answer.sampling
    session = model.open_session(min(model.info.context, len(before) + 1))
    try:
        session.align(before[:-1], answer.prompt_tokens)
        session.prefill(before[:-1])
        scores = session.evaluate([before[-1]], [ROOT])
        if sampling.greedy and not sampling.uses_history:
            gap = abs(scores.gap(0, token) - scores.gap(0, request.other))
        else:
            probs = scores.probs(0, None if sampling.greedy else sampling, before if sampling.uses_history else None)
            noise = [0.0 if sampling.greedy else gumbel_of(sampling.seed, len(before), t) for t in (token, request.other)]
            scored = [
                math.log(float(probs[t])) + n if probs[t] > 0 else -math.inf
                for t, n in zip((token, request.other), noise, strict=True)
            ]
            # If a filter removed one of them, no small error of the logits can explain the difference.
            gap = abs(scored[0] - scored[1]) if math.isfinite(min(scored)) else math.inf
    finally:
        session.close()
    return GapMeasured(request.id, request.lane, request.position, token, request.other, gap if math.isfinite(gap) else 1e9)
