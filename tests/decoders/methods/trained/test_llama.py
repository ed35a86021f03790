"""Trained drafters on llama.cpp: the drafts that torch makes from the same states."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pytest

from specchat.backends import Model
from specchat.backends.heads.base import Head
from specchat.backends.heads.mtp.load import load_mtp
from specchat.decoders import Conversation, Generation
from specchat.decoders.loop import Step
from specchat.engine.drafts import Drafts, refusals
from specchat.engine.messages import Load

from ....cases import FULL
from ....fakes.models.gguf_heads import (
    WIDTH,
    glm_llama,
    llama_target,
    load_head,
    random_gguf_blocks,
    random_gguf_head,
    random_gguf_paths,
    torch_target,
    write_blocks,
    write_eagle,
)
from ....fakes.models.heads import write_medusa
from ....fakes.models.llama_tiny import VOCAB, needs_llama, room
from ....fakes.models.mtp_files import mtp_target
from .test_every_drafter import DEEP

pytestmark = needs_llama

TREE: dict[str, Any] = {**DEEP, "nodes": 16, "depth": 4}
CHAIN: dict[str, Any] = {**TREE, "width": 1}


def prompts(count: int) -> list[list[int]]:
    rng = random.Random(3)
    return [[1, *(rng.randrange(8, VOCAB) for _ in range(12))] for _ in range(count)]


def run(
    model: Model, head: Head | None, prompt: Sequence[int], method: str = "eagle", **options: Any
) -> tuple[list[int], list[Step]]:
    """An answer and its steps."""
    conversation = Conversation(model, head=head, context=256)
    generation = Generation(conversation, prompt, method, **{"max_tokens": 128 if FULL else 40, **options})
    steps = list(generation)
    conversation.close()
    return list(generation.answer), steps


@pytest.mark.parametrize(
    ("method", "settings"),
    [
        ("eagle", TREE),
        ("eagle", CHAIN),
        ("dflash", {"floor": 0}),
        ("dflash", {"width": 1, "floor": 0}),
        ("dspark", {"width": 1, "floor": 0}),
    ],
)
def test_its_drafts_are_those_of_torch(method: str, settings: dict[str, Any]) -> None:
    """Step by step on the same model in float32: the same trees, from the states of either runtime."""
    made = {"eagle": random_gguf_head, "dflash": random_gguf_blocks, "dspark": random_gguf_paths}
    on_llama = made[method]()
    on_torch = load_head(room() / ("random-eagle3" if method == "eagle" else f"random-{method}"))
    method = on_llama.info.kind
    for prompt in prompts(20 if FULL else 3):
        ours, ours_steps = run(llama_target(), on_llama, prompt, method, settings=settings)
        theirs, theirs_steps = run(torch_target(), on_torch, prompt, method, settings=settings)
        assert ours == theirs
        trees = [[(step.tree.tokens, step.tree.parents) for step in steps] for steps in (ours_steps, theirs_steps)]
        assert trees[0] == trees[1]


@pytest.mark.parametrize("settings", [TREE, CHAIN])
def test_an_mtp_layers_drafts_are_torchs(settings: dict[str, Any]) -> None:
    drafts = Drafts(Load(1, "glm"))
    drafts.join(glm_llama())
    assert "mtp" not in refusals(glm_llama(), drafts)
    for prompt in ([0, 2, 70, 71, 72], [0, *range(3, 90, 7)]):
        theirs, torchs = run(mtp_target("glm4-moe"), load_mtp(mtp_target("glm4-moe")), prompt, "mtp", settings=settings)
        ours, steps = run(glm_llama(), drafts.head, prompt, "mtp", settings=settings)
        assert ours == theirs
        assert [step.tree.tokens for step in steps] == [step.tree.tokens for step in torchs]


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
