"""Trained drafters on llama.cpp: the target's own tokens, and the drafts that torch makes from the same states."""

from __future__ import annotations

import functools
import random
from collections.abc import Sequence
from typing import Any

import pytest

from specchat.backends import Model, Sampling, UserError
from specchat.backends.heads.base import Head
from specchat.backends.heads.mtp.load import load_mtp
from specchat.backends.llama.model import load_llama
from specchat.backends.loading import builtin_gguf
from specchat.decoders import Conversation, Generation
from specchat.decoders.acceptance import Acceptance
from specchat.decoders.loop import Step
from specchat.engine.drafts import Drafts, refusals
from specchat.engine.messages import Load

from ....cases import FULL
from ....fakes.models.gguf_heads import (
    WIDTH,
    counting,
    eagle_file,
    glm_llama,
    llama_target,
    load_head,
    random_gguf_blocks,
    random_gguf_head,
    torch_target,
    write_blocks,
    write_eagle,
)
from ....fakes.models.heads import write_head, write_medusa
from ....fakes.models.llama_tiny import FLOAT32, VOCAB, needs_llama, room
from ....fakes.models.mtp_files import mtp_target

pytestmark = needs_llama

TREE: dict[str, Any] = {"nodes": 16, "depth": 4, "width": 3, "grow": 3, "floor": 0, "cascade": False}
CHAIN: dict[str, Any] = {"width": 1, "depth": 5, "floor": 0, "cascade": False}
SAMPLED = Sampling(temperature=0.8, seed=11)


def prompts(count: int, length: int = 12) -> list[list[int]]:
    rng = random.Random(3)
    return [[1, *(rng.randrange(8, VOCAB) for _ in range(length))] for _ in range(count)]


def run(
    model: Model, head: Head | None, prompt: Sequence[int], method: str = "eagle", **options: Any
) -> tuple[list[int], list[Step]]:
    """An answer and its steps."""
    conversation = Conversation(model, head=head, context=256)
    generation = Generation(conversation, prompt, method, **{"max_tokens": 128 if FULL else 40, **options})
    steps = list(generation)
    conversation.close()
    return list(generation.answer), steps


@functools.cache
def on_llama(method: str) -> Head:
    """A drafter that knows nothing."""
    return random_gguf_head() if method == "eagle" else random_gguf_blocks()


@functools.cache
def on_torch(method: str) -> Head:
    """The same on transformers."""
    on_llama(method)
    return load_head(room() / ("random-eagle3" if method == "eagle" else "random-dflash"))


CASES: list[tuple[str, dict[str, Any]]] = [
    ("eagle", TREE),
    ("eagle", CHAIN),
    ("eagle", {"merge": "lookup,recycle", "nodes": 20}),
    ("dflash", {"floor": 0}),
    ("dflash", {"width": 1, "floor": 0}),
]


@pytest.mark.parametrize("sampling", [Sampling(), SAMPLED, Sampling(temperature=1.2, repetition_penalty=1.2, seed=2)])
@pytest.mark.parametrize(("method", "settings"), CASES)
def test_it_gives_the_targets_own_tokens(method: str, settings: dict[str, Any], sampling: Sampling) -> None:
    for prompt in prompts(50 if FULL else 2):
        plain, _ = run(llama_target(), None, prompt, "greedy", sampling=sampling)
        answer, steps = run(llama_target(), on_llama(method), prompt, method, settings=settings, sampling=sampling)
        assert answer == plain
        assert all(step.drafted for step in steps[1:-2])


@pytest.mark.parametrize(("method", "settings"), [*CASES[:2], *CASES[3:]])
def test_its_drafts_are_those_of_torch(method: str, settings: dict[str, Any]) -> None:
    """Step by step on the same model in float32: the same trees, from the states of either runtime."""
    for prompt in prompts(20 if FULL else 3):
        ours, ours_steps = run(llama_target(), on_llama(method), prompt, method, settings=settings)
        theirs, theirs_steps = run(torch_target(), on_torch(method), prompt, method, settings=settings)
        assert ours == theirs
        trees = [[(step.tree.tokens, step.tree.parents) for step in steps] for steps in (ours_steps, theirs_steps)]
        assert trees[0] == trees[1]


def test_a_reduced_vocabulary_and_other_taps() -> None:
    head = load_head(eagle_file(room() / "reduced", drafted=300, taps=(0, 1, 5), own_embeddings=True, norm_before_fc=True))
    prompt = prompts(1)[0]
    answer, steps = run(llama_target(), head, prompt, settings=TREE)
    assert answer == run(llama_target(), None, prompt, "greedy")[0]
    assert len({token for step in steps for token in step.tree.tokens[1:]}) <= 300


@pytest.mark.parametrize("method", ["eagle", "dflash"])
def test_it_catches_up_after_other_methods_and_in_later_turns(method: str) -> None:
    rng = random.Random(8)
    for sampling in (Sampling(), SAMPLED):
        conversation = Conversation(llama_target(), head=on_llama(method), context=256)
        prompt = prompts(1)[0]
        for _ in range(6 if FULL else 3):
            generation = Generation(conversation, prompt, method, max_tokens=30, sampling=sampling)
            for _ in generation:
                if rng.random() < 0.4:
                    generation.switch(rng.choice((method, "greedy", "lookup", "recycle")))
            plain, _ = run(llama_target(), None, prompt, "greedy", max_tokens=30, sampling=sampling)
            assert list(generation.answer) == plain
            prompt = [*generation.tokens[: rng.randrange(5, len(generation.tokens))], *prompts(1, 4)[0]]
        conversation.close()


@pytest.mark.parametrize("settings", [TREE, CHAIN])
def test_an_mtp_layer_gives_the_targets_own_tokens_and_torchs_drafts(settings: dict[str, Any]) -> None:
    drafts = Drafts(Load(1, "glm"))
    drafts.join(glm_llama())
    assert "mtp" not in refusals(glm_llama(), drafts)
    for prompt in ([0, 2, 70, 71, 72], [0, *range(3, 90, 7)]):
        for sampling in (Sampling(), SAMPLED):
            plain, _ = run(glm_llama(), None, prompt, "greedy", sampling=sampling)
            ours, steps = run(glm_llama(), drafts.head, prompt, "mtp", settings=settings, sampling=sampling)
            assert ours == plain
            assert all(step.drafted for step in steps[1:-2])
        theirs, torchs = run(mtp_target("glm4-moe"), load_mtp(mtp_target("glm4-moe")), prompt, "mtp", settings=settings)
        ours, steps = run(glm_llama(), drafts.head, prompt, "mtp", settings=settings)
        assert ours == theirs
        assert [step.tree.tokens for step in steps] == [step.tree.tokens for step in torchs]


@pytest.mark.parametrize("settings", [TREE, CHAIN])
@pytest.mark.parametrize("sampling", [Sampling(), Sampling(temperature=0.2, seed=3)])
def test_a_head_that_is_right_is_believed(settings: dict[str, Any], sampling: Sampling) -> None:
    model, head = counting()
    answer, steps = run(model, head, [1, 70, 71, 72], settings=settings, sampling=sampling, max_tokens=40)
    assert answer == list(range(73, 113))
    assert {len(step.tokens) for step in steps[1:-1]} == {2}


@pytest.mark.parametrize("kind", ["eagle", "dflash", "right"])
def test_the_drafts_of_a_conversation_are_those_of_a_fresh_one(kind: str) -> None:
    """What the drafter's cache keeps comes from true states only, whatever was drafted, accepted and rejected before."""
    model, head = counting() if kind == "right" else (llama_target(), on_llama(kind))
    method, prompt = head.info.kind, prompts(1)[0]
    settings = TREE if method == "eagle" else {"floor": 0}
    conversation = Conversation(model, head=head, context=256)
    list(Generation(conversation, prompts(2)[1], method, max_tokens=24))
    again = Generation(conversation, prompt, method, settings=settings, max_tokens=24)
    done = 0
    for step in again:
        tokens = [*prompt, *again.answer[:done]]
        fresh = Conversation(model, head=head, context=256)
        fresh.session.prefill(tokens[: -1 if done else 0])  # the first step is the prompt's own pass
        tree = next(Generation(fresh, tokens, method, settings=settings, max_tokens=24 - done)).tree
        assert (tree.tokens, tree.parents) == (step.tree.tokens, step.tree.parents)
        fresh.close()
        done += len(step.tokens)


def test_at_the_end_of_the_context_it_still_gives_the_targets_tokens() -> None:
    broad = {"nodes": 64, "depth": 8, "width": 8, "floor": 0}
    for length in (238, 246, 253):
        prompt = prompts(1, length - 2)[0]
        plain, _ = run(llama_target(), None, prompt, "greedy", max_tokens=None)
        for method, settings in (("eagle", {**broad, "grow": 8}), ("dflash", broad)):
            answer, _ = run(llama_target(), on_llama(method), prompt, method, settings=settings, max_tokens=None)
            assert answer == plain


def test_rejection_draws_from_the_heads_distribution() -> None:
    sampling = Sampling(temperature=1.0, top_k=4, seed=5)
    rule = Acceptance("rejection")
    _, steps = run(llama_target(), on_llama("eagle"), prompts(1)[0], settings=TREE, sampling=sampling, acceptance=rule)
    drawn = [(step, parent, draws) for step in steps for parent, draws in (step.tree.probs or {}).items()]
    assert drawn
    for step, parent, draws in drawn:
        assert (draws.q > 0).sum() == 4
        assert all(draws.q[step.tree.tokens[node]] > 0 and step.tree.parents[node] == parent for node in draws.nodes)


@pytest.mark.parametrize("kind", ["eagle", "dflash", "medusa"])
def test_heads_in_safetensors_draft_for_a_gguf_model_too(kind: str) -> None:
    """torch computes them from the states that llama.cpp hands out: the same trees as on transformers."""
    folder = room() / f"either-{kind}"
    if kind == "medusa":
        write_medusa(folder, width=WIDTH, vocabulary=VOCAB)
    elif kind == "dflash":
        write_blocks(folder, own_embeddings=True)
    else:
        write_eagle(folder, drafted=512)
    settings = TREE if kind == "eagle" else {"floor": 0}
    ours, theirs = (
        run(model, load_head(folder, model), prompts(1)[0], kind, settings=settings)
        for model in (llama_target(), torch_target())
    )
    assert ours[0] == theirs[0] == run(llama_target(), None, prompts(1)[0], "greedy")[0]
    assert [step.tree.tokens for step in ours[1]] == [step.tree.tokens for step in theirs[1]]
    assert sum(step.drafted for step in ours[1]) > 20


def test_what_llama_cpp_does_not_hand_out() -> None:
    with pytest.raises(UserError, match=r"has no LM head of its own, and llama\.cpp does not hand out that of heads-target"):
        load_head(write_eagle(room() / "borrows", own_head=False), llama_target())
    builtin = load_llama(builtin_gguf(), "builtin", FLOAT32)
    assert builtin.tied
    own = write_head(room() / "tied", width=256, vocabulary=VOCAB, own_head=False)
    answer, steps = run(builtin, load_head(own, builtin), prompts(1)[0], settings=TREE)
    assert answer == run(builtin, None, prompts(1)[0], "greedy")[0]
    assert any(step.drafted for step in steps)
    builtin.close()
