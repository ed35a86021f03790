"""PARD: several tokens from one pass of the draft model, each what transformers says behind the masks, on both
runtimes; draft models with fewer ids or more. The scores and the session of the draft are private, and read here: a
tree shows the best of them."""

from __future__ import annotations

import functools
import json
import shutil
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
import torch

from specchat.backends import LoadOptions, Model, Sampling, UserError, load_model
from specchat.backends.loading import builtin_path
from specchat.builtin.recipe import gguf_export
from specchat.builtin.recipe.gguf_export import add_tokenizer
from specchat.builtin.recipe.train_pard import MASK
from specchat.decoders import Acceptance, Conversation, Generation, encode_prompt
from specchat.decoders.acceptance import Rule

from ....cases import FULL
from ....fakes.answers import answered, plain
from ....fakes.models.llama_tiny import FLOAT32, VOCAB, gguf_of, needs_llama, room
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


ADDED = ("<|tool|>", "<|result|>")
WORD = " tool-word"
"""An added token that is text."""


@functools.cache
def folder(vocabulary: int) -> Path:
    """A model of which each id means the same in every size; what is added or padding is often chosen."""
    from transformers import LlamaConfig, LlamaForCausalLM

    path = room() / f"ids-{vocabulary}"
    shutil.copytree(builtin_path(), path, ignore=shutil.ignore_patterns("*.safetensors", "config.json", "*.gguf"))
    file = path / "tokenizer.json"
    data = json.loads(file.read_text(encoding="utf-8"))
    like = data["added_tokens"][0]
    for i, name in enumerate((*ADDED, WORD)[: max(0, vocabulary - VOCAB)]):
        data["added_tokens"].append({**like, "id": VOCAB + i, "content": name, "special": name != WORD})
    file.write_text(json.dumps(data), encoding="utf-8")
    torch.manual_seed(0)
    sizes: dict[str, Any] = {"hidden_size": 64, "intermediate_size": 96, "num_attention_heads": 4, "num_key_value_heads": 2}
    sizes |= {"num_hidden_layers": 1, "max_position_embeddings": 512, "bos_token_id": 1, "eos_token_id": 2, "pard_token": 3}
    model: Any = LlamaForCausalLM(LlamaConfig(vocab_size=VOCAB + 64, tie_word_embeddings=False, **sizes))
    with torch.no_grad():
        for weight in model.parameters():
            if weight.ndim > 1:
                weight.normal_(0, 0.3)
        model.lm_head.weight[VOCAB:] *= 2
    model.resize_token_embeddings(vocabulary)
    model.save_pretrained(path)
    return path


@functools.cache
def model_of(runtime: str, vocabulary: int) -> Model:
    if runtime == "llama.cpp":
        return load_model(str(gguf_of(folder(vocabulary))), FLOAT32)
    return load_model(str(folder(vocabulary)), LoadOptions(device="cpu", dtype="float32"))


def ids_of(target: Model) -> list[int]:
    """A prompt with every id that may be lacking elsewhere."""
    text = target.encode("The lamp is lit. The lamp is")
    added = range(VOCAB, target.info.vocabulary)
    return [*text, *added, *text, *added[:1]]


METHODS: dict[str, tuple[str, dict[str, Any]]] = {
    "draft": ("draft", {"schedule": "constant", "tokens": 6}),
    "reencode": ("draft", {"schedule": "constant", "tokens": 6, "reencode": True}),
    "tree": ("tree", {"merge": "draft,lookup"}),
    "pard": ("pard", {"floor": 0}),
}


SIZES = pytest.mark.parametrize("sizes", [(VOCAB + 3, VOCAB), (VOCAB, VOCAB + 64)], ids=["fewer", "more"])
"""The target's ids and the draft model's, which has fewer or more."""


@SIZES
@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("runtime", ["transformers", pytest.param("llama.cpp", marks=needs_llama)])
def test_ids_that_one_side_lacks_are_neither_drafted_nor_read(runtime: str, name: str, sizes: tuple[int, int]) -> None:
    target, draft = (model_of(runtime, size) for size in sizes)
    prompt, (method, settings) = ids_of(target), METHODS[name]
    conversation = Conversation(target, draft_model=draft)
    cases: tuple[tuple[Rule, float], ...] = (("exact", 0.0), ("exact", 0.8), ("rejection", 0.8), ("soft", 0.8))
    for rule, temperature in cases:
        sampling = Sampling(temperature, repetition_penalty=1.1, seed=3)
        options: dict[str, Any] = {"sampling": sampling, "acceptance": Acceptance(rule), "max_tokens": 16}
        generation = Generation(conversation, prompt, method, settings=settings, **options)
        steps = list(generation)
        if rule == "exact":
            assert generation.answer == plain(target, prompt, sampling=sampling, max_tokens=16)
        assert generation.totals.drafted
        if draft.info.vocabulary > target.info.vocabulary and method == "draft" and rule != "soft":
            assert generation.totals.alpha == 1  # of the ids that both have, the two choose the same
        assert max(token for step in steps for token in step.tree.tokens) < target.info.vocabulary
        pending = [prompt[-1], *(step.tokens[-1] for step in steps)]
        for token, step in zip(pending, steps, strict=False):
            assert bool(step.note) == (token >= draft.info.vocabulary)


@needs_llama
def test_a_tokenizer_that_knows_more_than_its_model(tmp_path: Path) -> None:
    """A prompt with such a token was an IndexError of torch's; a GGUF file gave the shapes of a tensor."""
    path = shutil.copytree(folder(VOCAB), tmp_path / "less")
    shutil.copy(folder(VOCAB + 3) / "tokenizer.json", path)
    model = load_model(str(path), LoadOptions(device="cpu", dtype="float32"))
    (note,) = (note for note in model.info.notes if "tokenizer" in note)
    assert f"3 tokens that this model does not have ({', '.join((*ADDED, WORD))})" in note
    text = model.encode("The lamp")
    assert list(Generation(Conversation(model), text, max_tokens=2))
    with pytest.raises(UserError, match=r"has the token 2,049, and .* has only 2,048 tokens"):
        Generation(Conversation(model), [*text, VOCAB + 1])
    model.close()

    def more(writer: Any, folder: Path, config: dict[str, Any]) -> None:
        add_tokenizer(writer, folder, config | {"vocab_size": VOCAB + 3})

    with patch.object(gguf_export, "add_tokenizer", more):
        gguf_export.export(path, tmp_path / "less.gguf", "F32")
    with pytest.raises(UserError, match=r"names 2,051 tokens, and its table of embeddings has another number of rows"):
        load_model(str(tmp_path / "less.gguf"), FLOAT32)
