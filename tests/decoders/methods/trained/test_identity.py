"""MTP layers and DFlash drafters that know nothing: the target's own tokens all the same, on both runtimes."""

from __future__ import annotations

import functools
import random
from dataclasses import replace
from typing import Any

import pytest

from specchat.backends import Model, Sampling
from specchat.backends.heads.base import Head
from specchat.backends.heads.mtp.load import load_mtp
from specchat.decoders import Conversation, Generation
from specchat.engine.drafts import Drafts
from specchat.engine.messages import Load

from ....cases import FULL
from ....fakes.models.gguf_heads import glm_llama, llama_target, random_gguf_blocks
from ....fakes.models.heads import random_dflash, target
from ....fakes.models.llama_tiny import needs_llama
from ....fakes.models.mtp_files import FAMILIES, mtp_target

PROMPTS = 50 if FULL else 2
TOKENS = 128 if FULL else 32
TREE: dict[str, dict[str, Any]] = {
    "mtp": {"nodes": 12, "depth": 3, "width": 3, "grow": 2, "floor": 0, "cascade": False},
    "dflash": {"nodes": 16, "width": 3, "floor": 0},
}
PAIRS = [*(f"mtp, {family}" for family in FAMILIES), "dflash"]


@functools.cache
def pair(runtime: str, kind: str) -> tuple[Model, Head]:
    """A target and its drafter, of random weights."""
    if runtime == "llama.cpp":
        if kind == "dflash":
            return llama_target(), random_gguf_blocks()
        drafts = Drafts(Load(1, "glm"))
        drafts.join(glm_llama())
        head: Head | None = drafts.head
        model: Model = glm_llama()
    elif kind == "dflash":
        return target(), random_dflash()
    else:
        torchs = next(mtp_target(family) for family in FAMILIES if kind.endswith(family))
        head, model = load_mtp(torchs), torchs
    assert head is not None
    return model, head


@pytest.mark.parametrize(
    ("runtime", "kind"),
    [
        *(("transformers", kind) for kind in PAIRS),
        *(pytest.param("llama.cpp", kind, marks=needs_llama) for kind in ("mtp, glm4-moe", "dflash")),
    ],
)
def test_chains_trees_and_switching_give_the_targets_own_tokens(runtime: str, kind: str) -> None:
    model, head = pair(runtime, kind)
    method = head.info.kind
    tree = TREE[method]
    chain = {**tree, "width": 1}
    ways = [(method, tree), (method, chain)]
    others: list[tuple[str, dict[str, Any]]] = [*ways, ("greedy", {}), ("lookup", {}), ("recycle", {})]
    rng = random.Random(3)
    alone, talk = Conversation(model, context=256), Conversation(model, head=head, context=256)
    for number in range(PROMPTS):
        prompt = [0, *(rng.randrange(8, 256) for _ in range(12))]
        for sampling in (Sampling(), Sampling(temperature=0.8, seed=number)):
            options: dict[str, Any] = {"sampling": sampling, "max_tokens": TOKENS}
            plain = Generation(alone, prompt, **options)
            list(plain)
            for name, settings in ways:
                generation = Generation(talk, prompt, name, settings=settings, **options)
                steps = list(generation)
                assert generation.answer == plain.answer
                assert all(step.drafted for step in steps[1:-2])
            generation, drafted = Generation(talk, prompt, method, settings=tree, **options), 0
            for step in generation:
                drafted += step.drafted if step.method == method else 0
                if rng.random() < 0.4:
                    generation.switch(*rng.choice(others))
            assert generation.answer == plain.answer
            assert drafted or len(plain.answer) < 4
    alone.close()
    talk.close()


@pytest.mark.parametrize("near_tie", [0.02, 1e9])
def test_near_ties_of_a_model_that_evaluates_chains_alone_are_decided_by_a_pass_of_their_own(
    near_tie: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, head = pair("transformers", "mtp, qwen3.5")
    assert not model.info.capabilities.tree
    rng = random.Random(5)
    alone, talk = Conversation(model, context=256), Conversation(model, head=head, context=256)
    monkeypatch.setattr(
        model, "info", replace(model.info, capabilities=replace(model.info.capabilities, near_tie=near_tie, guard=True))
    )
    accepted = checked = 0
    for seed in range(3):
        prompt = [0, *(rng.randrange(8, 256) for _ in range(12))]
        options: dict[str, Any] = {"sampling": Sampling(temperature=0.8, seed=seed), "max_tokens": 24}
        plain = Generation(alone, prompt, **options)
        list(plain)
        generation = Generation(talk, prompt, "mtp", settings={**TREE["mtp"], "width": 1}, **options)
        steps = list(generation)
        assert generation.answer == plain.answer
        accepted += sum(step.accepted for step in steps)
        checked += generation.totals.checked
    assert checked
    assert accepted or near_tie > 1
    alone.close()
    talk.close()
