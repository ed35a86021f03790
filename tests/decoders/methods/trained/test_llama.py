"""Trained drafters on llama.cpp: the drafts that torch makes from the same states."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pytest

from specchat.backends import Model
from specchat.backends.heads.base import Head
from specchat.decoders import Conversation, Generation
from specchat.decoders.loop import Step

from ....cases import FULL
from ....fakes.drafters.gguf_heads import WIDTH, llama_target, load_head, torch_target, write_blocks, write_eagle
from ....fakes.drafters.head_files import write_medusa
from ....fakes.models.llama_tiny import VOCAB, needs_llama, room
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
