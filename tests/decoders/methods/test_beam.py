"""Beam search: transformers' sequences and scores, what streams, and what happens when another method takes over. That no node
is left in the cache shows in a private field alone; that the search would go on to the end is patched in."""

from __future__ import annotations

import random
from collections.abc import Sequence
from copy import copy
from dataclasses import replace
from typing import Any

import pytest
import torch

from specchat.backends import Model, Sampling, load_model
from specchat.decoders import Conversation, Generation, registry
from specchat.decoders.methods.beam import Beam
from specchat.decoders.needs import DraftModel, TrainedDrafter

from ...cases import FULL
from ...fakes.models.tiny import VOCAB, reference, tiny_model

EARLY = {"guess": False, "full": True, "never": "never"}
"""Our names for transformers' `early_stopping`."""
TOKENS = 24


def searched(model: Model, prompt: Sequence[int], settings: dict[str, Any], **options: Any) -> tuple[Generation, Beam]:
    """An answer by beam search, gone through to its end, and the method."""
    conversation = Conversation(model)
    generation = Generation(conversation, prompt, "beam", settings=settings, **options)
    for step in generation:
        assert step.nodes <= settings.get("beams", 4)
        assert conversation.session.length == len(generation.tokens) - 1 or generation.finish_reason is not None
    drafter = conversation.drafter("beam", settings)
    assert isinstance(drafter, Beam)
    return generation, drafter


def theirs(network: Any, prompt: Sequence[int], settings: dict[str, Any], eos: Sequence[int], **options: Any) -> list[Any]:
    """transformers' (tokens, score) of every beam, best first."""
    beams = settings["beams"]
    ids = torch.tensor([list(prompt)])
    out = network.generate(
        ids,
        attention_mask=torch.ones_like(ids),
        do_sample=False,
        num_beams=beams,
        num_return_sequences=beams,
        length_penalty=settings["length_penalty"],
        early_stopping=EARLY[settings["early_stopping"]],
        eos_token_id=list(eos) or None,
        pad_token_id=VOCAB + 10**6,
        return_dict_in_generate=True,
        output_scores=True,
        **options,
    )
    found = []
    for row, score in zip(out.sequences.tolist(), out.sequences_scores.tolist(), strict=True):
        found.append(([token for token in row[len(prompt) :] if token != VOCAB + 10**6], score))
    return found


def compare(model: Model, network: Any, prompt: Sequence[int], settings: dict[str, Any], penalty: float = 1.0) -> list[int]:
    """The answer, after checking all finished texts and their scores; the same where the search stops once it is known."""
    wanted = theirs(network, prompt, settings, model.info.eos_ids, max_new_tokens=TOKENS, repetition_penalty=penalty)
    sampling = Sampling(repetition_penalty=penalty)
    sooner, _ = searched(model, prompt, settings, max_tokens=TOKENS, sampling=sampling)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Beam, "_settled", lambda *_: False)
        generation, drafter = searched(model, prompt, settings, max_tokens=TOKENS, sampling=sampling)
    assert sooner.answer == generation.answer == wanted[0][0]
    assert sooner.totals.steps <= generation.totals.steps
    assert [tokens for tokens, _ in drafter.hypotheses] == [tokens for tokens, _ in wanted]
    for (_, mine), (_, its) in zip(drafter.hypotheses, wanted, strict=True):
        # transformers adds up in float32, which shows where a negative penalty makes sums of hundreds.
        assert mine == pytest.approx(its, abs=1e-4, rel=1e-6)
    ended = generation.answer[-1] in model.info.eos_ids
    assert generation.finish_reason == ("eos" if ended else "length")
    return generation.answer


def ending(kind: str) -> Model:
    """A tiny model that ends its answers often: a fifth of its vocabulary are EOS tokens for it."""
    model = copy(tiny_model(kind))
    model.info = replace(model.info, eos_ids=tuple(range(4, VOCAB, 5)))
    return model


def settings_of(beams: int, penalty: float, early: str) -> dict[str, Any]:
    return {"beams": beams, "length_penalty": penalty, "early_stopping": early}


@pytest.mark.parametrize("early", EARLY)
@pytest.mark.parametrize(("beams", "penalty"), [(2, 1.0), (3, 0.0), (5, 2.0), (4, -0.7)])
@pytest.mark.parametrize("kind", ["llama", "gpt2", "gemma3", "qwen3-moe", "mistral"] if FULL else ["gemma3"])
def test_sequences_and_scores_are_those_of_transformers(kind: str, beams: int, penalty: float, early: str) -> None:
    rng = random.Random(repr((kind, beams, penalty, early)))
    settings = settings_of(beams, penalty, early)
    for model in (tiny_model(kind), ending(kind)):  # some prompts reach beyond the window of 32
        compare(model, reference(kind), [rng.randrange(4, VOCAB) for _ in range(rng.randint(1, 50))], settings)


def test_the_search_ends_once_nothing_better_can_come() -> None:
    model = load_model("builtin")
    generation, drafter = searched(model, model.encode_chat([{"role": "user", "content": "hello"}]), {"beams": 4})
    (best, _), *_ = drafter.hypotheses
    assert generation.answer == best
    assert generation.finish_reason == "eos"
    assert generation.totals.steps == len(best), "the others would go on for as long as the context lasts"


@pytest.mark.parametrize("penalty", [1.5, 0.5])
def test_repetition_penalty_is_that_of_transformers_beam_search(penalty: float) -> None:
    rng = random.Random(3)
    for model in (tiny_model("llama"), ending("llama")):
        prompt = [rng.randrange(4, VOCAB) for _ in range(100)]
        found = compare(model, reference("llama"), prompt, settings_of(4, 1.0, "guess"), penalty)
        assert found != compare(model, reference("llama"), prompt, settings_of(4, 1.0, "guess"))


def test_the_shared_beginning_streams_before_the_end() -> None:
    conversation = Conversation(tiny_model("llama"))
    streamed = 0
    for start in range(5):
        generation = Generation(conversation, list(range(20 + start, 30)), "beam", settings={"beams": 2}, max_tokens=60)
        steps = list(generation)
        assert [token for step in steps for token in step.tokens] == generation.answer
        assert len(steps) == 60, "one step a token"
        streamed += sum(len(step.tokens) for step in steps[:-1])
        assert all(step.drafted == step.accepted == 0 for step in steps)
    assert streamed > 60


@pytest.mark.parametrize("kind", ["llama", "gemma2"])
def test_another_method_goes_on_from_the_best_beam(kind: str) -> None:
    rng = random.Random(kind)
    left = 0
    for _ in range(6):
        model = tiny_model(kind)
        prompt = [rng.randrange(4, VOCAB) for _ in range(10)]
        conversation = Conversation(model)
        generation = Generation(conversation, prompt, "beam", settings={"beams": 4}, max_tokens=50)
        for _ in range(rng.randint(1, 20)):
            generation.run_pass()
        steps, before = generation.totals.steps, len(generation.answer)
        generation.switch("lookup")
        settling = generation.run_pass()
        assert settling is not None
        assert settling.method == "beam"
        assert settling.nodes == 0
        left += len(settling.tokens)
        # The best beam so far is what transformers finds within as many tokens.
        settings = settings_of(4, 1.0, "guess")
        best = theirs(reference(kind), prompt, settings, model.info.eos_ids, max_new_tokens=steps)[0][0]
        assert generation.answer == best
        assert len(best) >= before
        assert list(conversation.session.tokens) == generation.tokens[:-1]
        list(generation)
        # From there on it is the plain method's text.
        plain = Generation(Conversation(model), prompt + best, max_tokens=50 - len(best))
        list(plain)
        assert generation.answer == best + plain.answer
    assert left, "the beams never differed, so this proves little"


def test_switching_to_and_fro_never_loses_the_cache() -> None:
    rng = random.Random(2)
    names = [name for name, method in registry.methods().items() if not method.needs(DraftModel, TrainedDrafter)]
    for _ in range(4):
        conversation = Conversation(tiny_model("qwen3"))
        session: Any = conversation.session
        generation = Generation(conversation, [rng.randrange(4, VOCAB) for _ in range(30)], "beam", max_tokens=60)
        for _ in generation:
            if generation.method != "beam":
                assert not session._nodes
            assert list(session.tokens) == generation.tokens[: session.length]
            if rng.random() < 0.4:
                generation.switch(rng.choice([*names, "beam", "beam"]))
        assert len(generation.answer) == 60 or generation.finish_reason == "eos"


def test_a_cancelled_search_keeps_its_best_text() -> None:
    rng = random.Random(5)
    model, kept = tiny_model("llama"), 0
    for _ in range(6):
        prompt = [rng.randrange(4, VOCAB) for _ in range(10)]
        generation = Generation(Conversation(model), prompt, "beam", settings={"beams": 4}, max_tokens=50)
        steps = [step for _ in range(rng.randint(2, 20)) if (step := generation.run_pass()) is not None]
        passes, before = len(steps), len(generation.answer)
        generation.cancel()
        evaluated = generation.conversation.session.nodes_evaluated
        last = generation.run_pass()
        steps += [last] if last is not None else []
        assert generation.finish_reason == "cancelled"
        assert generation.conversation.session.nodes_evaluated == evaluated, "cancelling takes no pass"
        assert generation.totals.steps == passes
        best = theirs(reference("llama"), prompt, settings_of(4, 1.0, "guess"), model.info.eos_ids, max_new_tokens=passes)
        assert generation.answer == best[0][0]
        assert "".join(step.text for step in steps) + generation.flush() == model.decode(generation.answer)
        kept += len(generation.answer) - before
    assert kept, "the beams never differed, so this proves little"
