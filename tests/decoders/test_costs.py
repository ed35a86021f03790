"""What steps say of their floating-point operations, on both runtimes: whatever runs counts, in the step in which it ran."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from specchat.backends import LoadOptions, Model, load_model
from specchat.decoders import Generation
from specchat.decoders.loop import Step

from ..fakes.answers import answered
from ..fakes.models.llama_tiny import needs_llama

PROMPT = "Write a short story about a lamp and an old sailor."
TOKENS = 24


@pytest.fixture(scope="module", params=["transformers", pytest.param("llama.cpp", marks=needs_llama)])
def models(request: pytest.FixtureRequest) -> Iterator[tuple[Model, Model]]:
    """The built-in model and its draft model on one runtime."""
    options = LoadOptions(device="cpu", backend=request.param)
    made = load_model("builtin", options), load_model("builtin-draft", options)
    yield made
    for model in made:
        model.close()


def answer(models: tuple[Model, Model], method: str, **settings: Any) -> tuple[Generation, list[Step]]:
    target, draft = models
    return answered(target, PROMPT, method, settings, draft=draft, max_tokens=TOKENS)


def test_plain_decoding_costs_a_pass_of_one_node_a_token(models: tuple[Model, Model]) -> None:
    totals = answer(models, "greedy")[0].totals
    assert totals.draft_flops == 0
    print(f"{totals.flops_per_token / 1e6:.2f} MFLOPs a token")
    # Two per weight outside the table of embeddings (which is the LM head too), and attention over the text.
    matrices = 2 * models[0].info.parameters
    assert matrices < totals.flops_per_token < 1.2 * matrices


def test_drafting_adds_its_own(models: tuple[Model, Model]) -> None:
    plain = answer(models, "greedy")[0].totals.flops_per_token
    shares = {}
    for method in ("lookup", "draft", "tree", "early-exit"):
        totals = answer(models, method, **({"layers": 2} if method == "early-exit" else {}))[0].totals
        shares[method] = totals.draft_flops / totals.flops
        verified = (totals.flops - totals.draft_flops) / totals.counted_steps
        nodes = totals.nodes / totals.steps
        print(f"{method}: {totals.flops_per_token / plain:.2f}× plain's FLOPs, {shares[method]:.0%} of them to draft")
        if method != "early-exit":  # whose layers run once for both
            assert verified / plain == pytest.approx(nodes, rel=0.25)
    assert shares["lookup"] == 0
    assert 0 < shares["draft"] < 0.5
    assert 0 < shares["early-exit"] < 0.6


def test_every_step_says_what_it_computed(models: tuple[Model, Model]) -> None:
    generation, steps = answer(models, "draft", tokens=3, schedule="constant")
    assert all(step.flops > step.draft_flops for step in steps)
    assert sum(step.flops for step in steps[1:] if not step.prefilled) == pytest.approx(generation.totals.flops)
