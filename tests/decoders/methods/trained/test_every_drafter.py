"""Every trained drafter on every runtime: the target's own tokens whatever it drafts; one that is right is believed."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import pytest

from specchat.backends import Model, Sampling, UserError
from specchat.backends.heads.base import Head
from specchat.backends.heads.mtp.load import load_mtp
from specchat.decoders import Acceptance, Conversation, Generation, Step
from specchat.engine.drafts import Drafters, open_conversation, refusals
from specchat.engine.messages import Load

from ....cases import FULL
from ....fakes.drafters import heads
from ....fakes.drafters.gguf_heads import (
    counting,
)
from ....fakes.drafters.heads import cyclic_target, right_head
from ....fakes.drafters.mtp_files import FAMILIES, mtp_folder, mtp_target
from ....fakes.models.llama_tiny import needs_llama
from ...worlds import LLAMA, WORLDS

DEEP: dict[str, Any] = {"nodes": 12, "depth": 3, "width": 3, "grow": 2, "floor": 0, "cascade": False}
WIDE: dict[str, Any] = {"nodes": 16, "width": 3, "floor": 0}
TREES = {"eagle": DEEP, "mtp": DEEP, "medusa": WIDE, "dflash": WIDE}
SAMPLED = Sampling(temperature=0.8, seed=11)
MOST = 24 if FULL else 10
"""Tokens of an answer by a drafter that knows nothing."""

GGUF = ("eagle", "assistant", "dflash", "dspark", "dflash2", "mtp")
IN_GGUF = [pytest.param(f"llama.cpp {kind}", marks=needs_llama) for kind in GGUF]
ONE_OF_EACH = ["eagle eagle3", "assistant", "medusa", "dflash", "dflash rnn", "dflash dflash2", "mtp glm4-moe", *IN_GGUF]


RIGHT: dict[str, Callable[[], Head]] = {
    "eagle": heads.right_head,
    "medusa": heads.right_medusa,
    "dflash": heads.right_dflash,
    "dspark": partial(heads.right_paths, False),
    "dflash2": partial(heads.right_paths, True),
}
"""Those that always draft what `cyclic_target` chooses."""


class Pair(NamedTuple):
    """A target and a drafter for it."""

    model: Model
    head: Head

    @property
    def method(self) -> str:
        return self.head.info.kind

    @property
    def tree(self) -> dict[str, Any]:
        return TREES[self.method]

    @property
    def chain(self) -> dict[str, Any]:
        return {**self.tree, "width": 1}

    def talk(self) -> Conversation:
        return Conversation(self.model, head=self.head, context=256)

    def run(self, prompt: Sequence[int], method: str = "", **options: Any) -> tuple[Generation, list[Step]]:
        """An answer and its steps."""
        talk = self.talk()
        generation = Generation(talk, prompt, method or self.method, **{"max_tokens": 32 if FULL else 24, **options})
        steps = list(generation)
        talk.close()
        return generation, steps


def right_mtp(family: str) -> Pair:
    """A model that repeats each token's successor, with MTP layers that know."""
    name, _, layers = family.partition(" ")
    model = mtp_target(name, True, int(layers or 1))
    head = load_mtp(model)
    assert head is not None
    return Pair(model, head)


def pair(name: str) -> Pair:
    """A drafter that knows nothing, beside its target."""
    world = (WORLDS | LLAMA)[name]()
    assert world.head is not None
    return Pair(world.model, world.head)


def prompts(count: int) -> list[list[int]]:
    rng = random.Random(3)
    return [[0, *(rng.randrange(8, 256) for _ in range(12))] for _ in range(count)]


@pytest.mark.parametrize("kind", ONE_OF_EACH)
def test_the_drafts_of_a_conversation_are_those_of_a_fresh_one(kind: str) -> None:
    """What is remembered comes from true states only, whatever was drafted, accepted and rejected before."""
    both, prompt = pair(kind), prompts(1)[0]
    talk = both.talk()
    list(Generation(talk, prompts(2)[1], both.method, settings=both.chain, max_tokens=MOST))
    generation, done = Generation(talk, prompt, both.method, settings=both.tree, max_tokens=MOST), 0
    for step in generation:
        tokens, fresh = [*prompt, *generation.answer[:done]], both.talk()
        if done:  # before that comes the prompt's own pass
            fresh.session.prefill(tokens[:-1])
            tree = next(Generation(fresh, tokens, both.method, settings=both.tree, max_tokens=MOST - done)).tree
            drafted, again = (each.as_drafted(())[0] for each in (step.tree, tree))  # before it was cut
            assert (drafted.tokens, drafted.parents) == (again.tokens, again.parents)
            assert step.drafted or done == MOST - 1
        done += len(step.tokens)
        fresh.close()
    talk.close()


@pytest.mark.parametrize("sampling", [Sampling(), SAMPLED], ids=["greedy", "sampled"])
@pytest.mark.parametrize("kind", [*RIGHT, pytest.param("llama.cpp", marks=needs_llama)])
def test_one_that_is_right_is_accepted_to_the_end_of_its_draft(kind: str, sampling: Sampling) -> None:
    both = Pair(*counting()) if kind == "llama.cpp" else Pair(heads.cyclic_target(), RIGHT[kind]())
    if kind == "llama.cpp" and not sampling.greedy:
        sampling = Sampling(temperature=0.2, seed=3)
    for settings in (both.chain, both.tree):
        generation, steps = both.run([0, 70, 71, 72], settings=settings, sampling=sampling)
        assert generation.answer == list(range(73, 73 + (32 if FULL else 24)))
        assert {len(step.tokens) for step in steps[1:-2]} == {2 if kind == "llama.cpp" else 4}


@pytest.mark.parametrize("family", [*FAMILIES, "glm4-moe 3"])
def test_an_mtp_layer_that_is_right_is_accepted_to_the_depth_of_its_draft(family: str) -> None:
    both = right_mtp(family)
    for sampling, settings, depth in ((Sampling(), {**both.chain, "depth": 4}, 4), (SAMPLED, both.tree, 3)):
        generation, steps = both.run([0, 2, 70, 71], settings=settings, sampling=sampling)
        assert generation.answer == both.run([0, 2, 70, 71], "greedy", sampling=sampling)[0].answer
        assert {len(step.tokens) for step in steps[1:-2]} == {depth + 1}


@pytest.mark.parametrize("kind", ONE_OF_EACH)
def test_under_rejection_its_distributions_travel_along(kind: str) -> None:
    options: dict[str, Any] = {"sampling": Sampling(temperature=1.0, top_k=4, seed=5), "acceptance": Acceptance("rejection")}
    both = pair(kind)
    for settings in (both.tree, {**both.tree, "merge": "recycle"})[: 1 + (both.method == "dflash")]:
        _, steps = both.run(prompts(1)[0], settings=settings, max_tokens=MOST, **options)
        drawn = [(step, parent, draws) for step in steps for parent, draws in (step.tree.probs or {}).items()]
        assert drawn
        for step, parent, draws in drawn:
            assert abs(float(draws.q.sum()) - 1) < 1e-4
            assert (draws.q > 0).sum() <= 4
            assert all(draws.q[step.tree.tokens[node]] > 0 and step.tree.parents[node] == parent for node in draws.nodes)


LOAD = r"\. Load one with --draft-model"


@pytest.mark.parametrize(
    ("method", "loaded", "words"),
    [
        ("eagle", None, "needs an EAGLE head trained for this model" + LOAD),
        ("eagle", "medusa", r"needs an EAGLE head .*, and random-medusa \(Medusa\) is loaded"),
        ("medusa", None, "needs Medusa heads trained for this model" + LOAD),
        ("medusa", "eagle eagle3", r"needs Medusa heads trained for this model, and random-eagle3 \(EAGLE-3\) is loaded"),
        ("dflash", None, "needs a DFlash drafter trained for this model" + LOAD),
        ("dflash", "eagle eagle3", r"needs a DFlash drafter .*, and random-eagle3 \(EAGLE-3\) is loaded"),
        ("draft", "eagle eagle3", r"needs a draft model, and random-eagle3 is a trained drafter \(EAGLE-3\)"),
        ("mtp", None, "needs an MTP layer in the model's own checkpoint, and no other trained drafter as --draft-model"),
        ("mtp", "eagle eagle3", "needs an MTP layer in the model's own checkpoint, and no other trained drafter"),
    ],
)
def test_without_a_drafter_of_its_kind_it_says_what_to_load(method: str, loaded: str | None, words: str) -> None:
    with pytest.raises(UserError, match=words):
        Generation(Conversation(heads.target(), head=pair(loaded).head if loaded else None), [1, 2, 3], method)


CHAIN: dict[str, Any] = {"width": 1, "depth": 5, "floor": 0, "cascade": False}


@pytest.mark.parametrize("sampling", [Sampling(), SAMPLED])
def test_prompt_lookup_drafts_in_the_heads_place_where_the_text_repeats_itself(sampling: Sampling) -> None:
    prompt = [0, 2, *range(40, 120), 7, *range(40, 48)]
    answers = []
    for cascade in (True, False):
        settings = {"depth": 2, "cascade": cascade}
        both = Pair(cyclic_target(), right_head())
        generation, steps = both.run(prompt, settings=settings, sampling=sampling, max_tokens=40)
        answers.append(generation.answer)
        assert (max(step.accepted for step in steps) > 2) is cascade
        assert (generation.totals.tokens_per_step > 4) is cascade
    assert answers[0] == answers[1] == list(range(48, 88))


def test_an_offered_head_is_loaded_by_the_method_that_needs_it_in_the_middle_of_an_answer() -> None:
    prompt = [0, 2, 70, 71, 72]
    loads = []

    def load() -> Any:
        loads.append(len(generation.tokens))
        return right_head()

    conversation = Conversation(cyclic_target(), head=load)
    generation = Generation(conversation, prompt, "greedy", max_tokens=40)
    steps = [next(generation) for _ in range(6)]
    assert not loads
    generation.switch("eagle", CHAIN)
    steps += list(generation)
    assert loads == [len(prompt) + 6]
    assert generation.answer == list(range(73, 113))
    assert [len(step.tokens) for step in steps[6:9]] == [1, 6, 6], "the text is read again before the first draft"
    again = Generation(conversation, prompt, "eagle", settings=CHAIN, max_tokens=40)
    assert again.reused == len(prompt) - 1
    assert len(next(again).tokens) == 6
    conversation.close()


def test_a_model_with_one_offers_the_method_by_itself() -> None:
    model = mtp_target("deepseek-v3")
    drafts = Drafters(Load(1, str(mtp_folder("deepseek-v3")), device="cpu"))
    drafts.join(model)
    found = refusals(model, drafts)
    assert "mtp" not in found
    assert found["eagle"] == "it needs an EAGLE head trained for this model. Load one with --draft-model."
    assert found["draft"] == "it needs a draft model. Load one with --draft-model."
    conversation = open_conversation(model, drafts)
    generation = Generation(conversation, prompts(1)[0], "mtp", max_tokens=8)
    assert any(step.drafted for step in generation)
    conversation.close()
    drafts.close()
