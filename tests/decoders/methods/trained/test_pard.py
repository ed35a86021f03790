"""PARD: several tokens from one pass of the draft model, each what transformers says behind the masks, on both runtimes. The
scores and the session of the draft are private, and read here: a tree shows the best of them."""

from __future__ import annotations

import functools
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

from specchat.backends import LoadOptions, Model, UserError, load_model
from specchat.backends.loading import builtin_path
from specchat.builtin.recipe.train_pard import MASK
from specchat.decoders import Conversation, Generation, encode_prompt

from ....cases import FULL
from ....fakes.answers import answered
from ....fakes.models.llama_tiny import FLOAT32, gguf_of, needs_llama
from ....fakes.models.references import network

POSITIONS = 8
PROMPT = "Write as JSON: name Anna, age 20, city Paris."


@functools.cache
def of_runtime(runtime: str, name: str) -> Model:
    """The built-in model or its draft model, in float32 (do not close it)."""
    if runtime == "llama.cpp":
        return load_model(str(gguf_of(builtin_path(name))), FLOAT32)
    return load_model(name, LoadOptions(device="cpu", dtype="float32", backend="transformers"))


@pytest.fixture(params=["transformers", pytest.param("llama.cpp", marks=needs_llama)])
def models(request: pytest.FixtureRequest) -> tuple[Model, Model]:
    return of_runtime(request.param, "builtin"), of_runtime(request.param, "builtin-draft")


@torch.inference_mode()
def wanted(tokens: list[int], masks: int) -> torch.Tensor:
    """transformers' choice after a text and a number of masks."""
    logits: torch.Tensor = network(builtin_path("builtin-draft"))(torch.tensor([[*tokens, *[MASK] * masks]])).logits[0]
    return logits[-masks - 1 :]


def test_each_position_is_what_transformers_says_behind_the_masks(models: tuple[Model, Model]) -> None:
    target, draft = models
    generation = Generation(Conversation(target, draft_model=draft), encode_prompt(target, PROMPT), "pard", max_tokens=64)
    drafter: Any = generation.drafter
    # The first round takes in the prompt, later ones what was accepted.
    for _ in range(2):
        drafter.draft(generation._context())
        scores, _ = drafter._proposer._scores[0]
        torch.testing.assert_close(scores.logits, wanted(generation.tokens, POSITIONS - 1), atol=1e-3, rtol=1e-3)
        generation.run_pass()


def test_masks_leave_nothing_in_the_cache(models: tuple[Model, Model]) -> None:
    target, draft = models
    prompt = encode_prompt(target, PROMPT)
    generation = Generation(Conversation(target, draft_model=draft), prompt, "pard", settings={"tokens": 4}, max_tokens=12)
    assert max(step.accepted for step in generation) > 1
    drafter: Any = generation.drafter
    session = drafter._proposer.session
    held = list(session.tokens)
    assert len(held) > len(prompt) + 4
    assert held == list(generation.tokens)[: len(held)]
    torch.testing.assert_close(session.evaluate([70], [-1]).logits, wanted([*held, 70], 0), atol=1e-3, rtol=1e-3)


def test_other_draft_models_are_refused(builtin_model: Model) -> None:
    with pytest.raises(UserError, match=r"needs a PARD draft model.*\.$"):
        answered(builtin_model, PROMPT, "pard", draft=builtin_model)
    with pytest.raises(UserError, match="needs a draft model"):
        answered(builtin_model, PROMPT, "pard")


@pytest.mark.parametrize("told", [True, -1, 2048, "6", None, 6.0] if FULL else [True, 2048])
def test_a_mask_token_that_is_none(tmp_path: Path, told: object) -> None:
    folder = shutil.copytree(builtin_path("builtin-draft"), tmp_path / "odd")
    config = json.loads((folder / "config.json").read_text())
    assert config["pard_token"] == MASK
    (folder / "config.json").write_text(json.dumps(config | {"pard_token": told}))
    model = load_model(str(folder), LoadOptions(device="cpu"))
    assert model.info.pard_token is None
    model.close()
