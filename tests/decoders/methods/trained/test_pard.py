"""PARD: several tokens from one pass of the draft model, on both runtimes; what it drafts, and what it leaves behind. The
scores and the session of the draft are private, and read here: a tree shows the best of them."""

from __future__ import annotations

import functools
import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from specchat.backends import LoadOptions, Model, UserError, load_model
from specchat.backends.loading import builtin_path
from specchat.builtin.recipe import tokenizer as tokens_of
from specchat.builtin.recipe.data import IGNORED
from specchat.builtin.recipe.model import SIZES, build
from specchat.builtin.recipe.train_pard import MASK, PardLoss
from specchat.decoders import Conversation, Generation
from specchat.decoders.loop import Step

from ....cases import FULL
from ....fakes.models.llama_tiny import FLOAT32, gguf_of, needs_llama, room

POSITIONS = 8
STEPS = 250


@functools.cache
def chat() -> tuple[list[int], list[int]]:
    """Prompt and answer, which ends with an EOS."""
    answer = "A pass over many tokens takes hardly longer than a pass over one of them, so guesses that come true are worth it."
    messages = [{"role": "user", "content": "Why guess?"}, {"role": "assistant", "content": answer}]
    ids, produced = tokens_of.encode_chat(tokens_of.load(builtin_path()), messages)  # type: ignore[arg-type]
    begin = produced.index(True)
    return ids[:begin], ids[begin:]


@functools.cache
def pard_folder() -> Path:
    """The model in transformers' format."""
    prompt, answer = chat()
    tokens = torch.tensor([[*prompt, *answer]])
    labels = tokens.roll(-1, 1)
    labels[:, -1] = labels[:, : len(prompt) - 1] = IGNORED
    model: Any = build(SIZES["tiny"], 0)
    loss = PardLoss(model, POSITIONS, keep=0.95)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    for _ in range(STEPS):
        loss(tokens, labels)[0].backward()
        optimizer.step()
        optimizer.zero_grad()
    folder = room() / "pard"
    shutil.copytree(builtin_path(), folder, ignore=shutil.ignore_patterns("*.safetensors", "config.json", "*.gguf"))
    model.save_pretrained(folder)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"pard_token": MASK}))
    return folder


@functools.cache
def pard_model(runtime: str) -> Model:
    """The loaded model in float32; do not close it."""
    if runtime == "llama.cpp":
        return load_model(str(gguf_of(pard_folder())), FLOAT32)
    return load_model(str(pard_folder()), LoadOptions(device="cpu", dtype="float32"))


RUNTIMES = ["transformers", pytest.param("llama.cpp", marks=needs_llama)]
SETTINGS: list[dict[str, Any]] = [{"width": 1}, {}, {"nodes": 40, "width": 8, "floor": 0.0}]


@pytest.fixture(params=RUNTIMES)
def pard(request: pytest.FixtureRequest) -> Model:
    return pard_model(request.param)


@pytest.fixture(scope="module")
def network() -> Any:
    """The same weights as transformers itself loads them."""
    from transformers import AutoModelForCausalLM

    return AutoModelForCausalLM.from_pretrained(pard_folder(), dtype=torch.float32, attn_implementation="eager")


def run(model: Model, draft: Model | None, method: str, prompt: Sequence[int] | None = None, **options: Any) -> Any:
    """An answer and its steps."""
    conversation = Conversation(model, draft_model=draft, context=options.pop("context", None))
    generation = Generation(conversation, chat()[0] if prompt is None else prompt, method, **{"max_tokens": 64, **options})
    steps: list[Step] = list(generation)
    conversation.close()
    return generation, steps


@pytest.mark.parametrize("settings", SETTINGS, ids=("chain", "tree", "large"))
def test_it_drafts_what_it_knows_and_changes_no_token(pard: Model, settings: dict[str, Any]) -> None:
    generation, steps = run(pard, pard, "pard", settings=settings)
    assert generation.answer == chat()[1]
    assert generation.finish_reason == "eos"
    assert generation.totals.tokens_per_step >= 5
    assert max(max(step.tree.depths()) for step in steps) == POSITIONS
    if settings == {"width": 1}:
        assert all(step.tree.parents == list(range(-1, len(step.tree) - 1)) for step in steps)


def test_each_position_is_what_transformers_says_behind_the_masks(pard: Model, network: Any) -> None:
    prompt, answer = chat()
    text = [*prompt, *answer[:3]]
    generation = Generation(Conversation(pard, draft_model=pard), text, "pard", max_tokens=64)
    drafter: Any = generation.drafter
    # The first round takes in the prompt, later ones what was accepted.
    for _ in range(2):
        drafter.draft(generation._context())
        scores, _ = drafter._proposer._scores[0]
        assert scores.logits.shape[0] == POSITIONS
        masked = torch.tensor([[*generation.tokens, *[MASK] * (POSITIONS - 1)]])
        with torch.inference_mode():
            wanted = network(masked).logits[0, -POSITIONS:]
        torch.testing.assert_close(scores.logits, wanted, atol=1e-3, rtol=1e-3)
        generation.run_pass()


def test_masks_leave_nothing_in_the_cache(pard: Model, network: Any) -> None:
    prompt, _ = chat()
    generation = Generation(Conversation(pard, draft_model=pard), prompt, "pard", settings={"tokens": 4}, max_tokens=12)
    for _ in generation:
        pass
    drafter: Any = generation.drafter
    session = drafter._proposer.session
    held = list(session.tokens)
    assert len(held) > len(prompt) + 4
    assert held == list(generation.tokens)[: len(held)]
    with torch.inference_mode():
        wanted = network(torch.tensor([[*held, 70]])).logits[0, -1]
    torch.testing.assert_close(session.evaluate([70], [-1]).logits[0], wanted, atol=1e-3, rtol=1e-3)


def test_nothing_is_drafted_behind_an_eos(pard: Model) -> None:
    prompt, answer = chat()
    eos = answer[-1]
    _, steps = run(pard, pard, "pard", [*prompt, *answer[:-3]], settings={"nodes": 30, "floor": 0.0})
    trees = [step.tree for step in steps]
    assert any(eos in tree.tokens for tree in trees)
    assert all(parent < 0 or tree.tokens[parent] != eos for tree in trees for parent in tree.parents)


def test_other_draft_models_are_refused(builtin_model: Model) -> None:
    with pytest.raises(UserError, match="needs a PARD draft model") as caught:
        run(builtin_model, builtin_model, "pard")
    assert str(caught.value).endswith(".")
    with pytest.raises(UserError, match="needs a draft model"):
        run(builtin_model, None, "pard")


@needs_llama
def test_a_gguf_file_names_its_mask_token() -> None:
    assert pard_model("llama.cpp").info.pard_token == pard_model("transformers").info.pard_token == MASK
    assert gguf_of(pard_folder()).is_file()


@pytest.mark.parametrize("told", [True, -1, 2048, "6", None, 6.0] if FULL else [True, 2048])
def test_a_mask_token_that_is_none(tmp_path: Path, told: object) -> None:
    folder = tmp_path / "odd"
    shutil.copytree(pard_folder(), folder)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"pard_token": told}))
    model = load_model(str(folder), LoadOptions(device="cpu"))
    assert model.info.pard_token is None
    model.close()
