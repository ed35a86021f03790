"""Every method's text on one model, compared with a reference's: the same tokens, or what else came of it."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Literal
from unittest.mock import patch

from specchat.backends import base
from specchat.backends.base import Model, Sampling
from specchat.decoders.base import Drafter
from specchat.decoders.conversation import Conversation
from specchat.decoders.loop import Generation
from specchat.decoders.needs import Pard
from specchat.decoders.registry import methods, unavailable
from specchat.errors import UserError

from .architectures import line

ANSWER = 24
"""Tokens of an answer."""
CHUNK = 40
"""Tokens of a prompt per pass, so that short ones take several."""
TIE = 1e-4
"""Two logits as close as this are a near tie, which float32 may decide either way."""
SEEDS = (1, 2)
TEMPERATURE = 0.8
SWITCHING = "switching"
"""What answers are listed as that all methods write in turn."""
SWITCHED = 2
"""Steps after which the method is switched."""

Verdict = Literal["equal", "near tie", "differs", "crashed", "refused", "plain", "unavailable", "not covered"]
"""plain: the model decodes plainly only; unavailable: this method is not offered; refused: the model, or an answer, with a
reason; not covered: the zoo has no such model."""

WRONG: tuple[Verdict, ...] = ("differs", "crashed")


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of one method on one prompt of one model."""

    model: str
    method: str
    prompt: str
    verdict: Verdict
    detail: str = ""

    def __str__(self) -> str:
        return f"{self.model:22} {self.method:12} {self.prompt:12} {self.verdict:11} {self.detail}".rstrip()


@dataclass(frozen=True, slots=True)
class Reference:
    """What the model's own library does with it."""

    name: str
    writes: Callable[[Sequence[int], int], list[int]]
    """Its greedy answer of so many tokens to a prompt."""
    gap: Callable[[Sequence[int], int, int], float]
    """How far apart two tokens' logits are after a text."""


def offered(model: Model) -> tuple[list[str], dict[str, str]]:
    """The methods labelled identical that a model with a draft model can run, and why it cannot run the others."""
    own = [name for name, method in methods().items() if method.label == "identical" and not _trained(method)]
    why = {name: unavailable(methods()[name], model.info.capabilities) for name in own}
    return [name for name in own if not why[name]], {name: reason for name, reason in why.items() if reason}


def _trained(method: type[Drafter]) -> bool:
    return bool(method.head_kind()) or method.needs(Pard)


def compare(
    reference: Reference,
    model: Model,
    draft: Model,
    prompts: Mapping[str, Sequence[int]],
    *,
    only: Iterable[str] | None = None,
    seeds: Sequence[int] = SEEDS,
) -> Iterator[Outcome]:
    """Run every method on every prompt, as one conversation each.

    Args:
        reference: the library that the model is from.
        model: the target.
        draft: a draft model of the same vocabulary.
        prompts: by name; a second turn is made of the first, and the first comes once more in the end.
        only: methods to try, SWITCHING among them; None for all.
        seeds: of answers at TEMPERATURE, compared with plain decoding's.
    """
    model = copy.copy(model)
    model.info = replace(model.info, eos_ids=())  # random weights may end anywhere
    names, missing = offered(model)
    plainly = not model.info.capabilities.chain
    for name, reason in missing.items():
        if only is None or name in only:
            yield Outcome(reference.name, name, "", "plain" if plainly else "unavailable", reason)
    chosen = [name for name in names if only is None or name in only]
    if len(names) > 1 and (only is None or SWITCHING in only):
        chosen.append(SWITCHING)
    wanted = {}
    for name, prompt in prompts.items():
        room = min(ANSWER, model.info.context - len(prompt))
        try:
            wanted[name] = list(prompt), reference.writes(prompt, room)
        except Exception as error:
            yield Outcome(reference.name, "reference", name, "refused", line(error))
    if not wanted:
        return
    first = next(iter(wanted))
    turn = [*wanted[first][0], *wanted[first][1], *wanted[first][0][:3]]
    if len(turn) + ANSWER <= model.info.context:
        wanted["next turn"] = turn, reference.writes(turn, ANSWER)
    wanted["again"] = wanted[first]
    with patch.object(base, "PREFILL_CHUNK", CHUNK):
        for method in chosen:
            yield from _greedy(reference, model, draft, method, names, wanted)
        yield from _sampled(reference, model, draft, chosen, names, wanted[first][0], seeds)


def _greedy(
    reference: Reference,
    model: Model,
    draft: Model,
    method: str,
    names: Sequence[str],
    wanted: Mapping[str, tuple[list[int], list[int]]],
) -> Iterator[Outcome]:
    """One method on all prompts, in one conversation."""
    conversation = Conversation(model, draft_model=draft)
    for turn, (name, (prompt, answer)) in enumerate(wanted.items()):
        order = [*names[turn % len(names) :], *names[: turn % len(names)]] if method == SWITCHING else [method]
        found, verdict, detail = _answer(conversation, prompt, order, len(answer), Sampling())
        if found != answer and verdict == "equal":
            verdict, detail = _difference(reference, prompt, found, answer)
        yield Outcome(reference.name, method, name, verdict, detail)
    conversation.close()


def _sampled(
    reference: Reference,
    model: Model,
    draft: Model,
    chosen: Sequence[str],
    names: Sequence[str],
    prompt: list[int],
    seeds: Sequence[int],
) -> Iterator[Outcome]:
    """The methods with the same seeds."""
    for seed in seeds:
        sampling = Sampling(temperature=TEMPERATURE, seed=seed)
        wanted: list[int] | None = None
        for method in chosen:
            conversation = Conversation(model, draft_model=draft)
            order = names if method == SWITCHING else [method]
            found, verdict, detail = _answer(conversation, prompt, order, ANSWER, sampling)
            conversation.close()
            wanted = found if wanted is None else wanted
            if found != wanted and verdict == "equal":
                verdict, detail = "differs", f"at {_parting(found, wanted)}"
            yield Outcome(reference.name, method, f"seed {seed}", verdict, detail)


def _answer(
    conversation: Conversation, prompt: list[int], order: Sequence[str], count: int, sampling: Sampling
) -> tuple[list[int], Verdict, str]:
    """An answer by one method, or by several in turn: its tokens, and what came of it if it is not one."""
    found: list[int] = []
    try:
        generation = Generation(conversation, prompt, order[0], max_tokens=count, sampling=sampling)
        for step, _ in enumerate(generation, 1):
            found = generation.answer
            if len(order) > 1 and step % SWITCHED == 0 and generation.finish_reason is None:
                with suppress(UserError):  # the method stays; one of its own tells why the other is refused
                    generation.switch(order[step // SWITCHED % len(order)])
        return generation.answer, "equal", f"{generation.totals.accepted} accepted"
    except UserError as error:
        return found, "refused", str(error)
    except Exception as error:
        return found, "crashed", line(error)


def _difference(
    reference: Reference, prompt: Sequence[int], found: Sequence[int], wanted: Sequence[int]
) -> tuple[Verdict, str]:
    """Where an answer parts from the reference's, and by how much."""
    at = _parting(found, wanted)
    where = f"at {at} (position {len(prompt) + at})"
    if at >= min(len(found), len(wanted)):
        return "differs", f"{where}: {len(found)} tokens, not {len(wanted)}"
    gap = reference.gap([*prompt, *wanted[:at]], found[at], wanted[at])
    return ("near tie" if gap < TIE else "differs"), f"{where}, by {gap:.2g} logits"


def _parting(found: Sequence[int], wanted: Sequence[int]) -> int:
    """Where two answers part."""
    pairs = enumerate(zip(found, wanted, strict=False))
    return next((at for at, (one, other) in pairs if one != other), min(len(found), len(wanted)))


def totals(outcomes: Iterable[Outcome]) -> str:
    """How many came out how, in one line."""
    counted = Counter(outcome.verdict for outcome in outcomes)
    return ", ".join(f"{count} {verdict}" for verdict, count in counted.most_common())
