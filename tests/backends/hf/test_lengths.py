"""Models that read a text otherwise from some length on: the tokens of transformers' `generate`, below, at and beyond it."""

from __future__ import annotations

import functools
import random
from collections.abc import Sequence
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest
import torch

from specchat.backends import LoadOptions, Model, load_model
from specchat.backends.hf.model import load_transformers
from specchat.backends.hf.proving.lengths import SHORT, twin_of, unknown_lengths
from specchat.decoders import Conversation, Generation
from specchat.decoders.needs import PardModel
from specchat.decoders.registry import methods, unavailable
from specchat.engine.lanes import logit_gap, step_probs
from specchat.engine.messages import MeasureGap, ScoreStep

from ...cases import FULL
from ...fakes.answers import answered
from ...fakes.models import tiny
from ...fakes.models.references import generated, network
from ...fakes.models.tiny import CONTEXT, VOCAB, write_configured

LIMIT = 40
"""Tokens of text up to which LongRoPE has its short factors."""
SIZES: dict[str, Any] = {**tiny.SIZES, "num_hidden_layers": 2, "pad_token_id": 1}


def longrope(**more: Any) -> dict[str, Any]:
    factors = {"short_factor": [1.0] * 4, "long_factor": [1.0, 4.0, 7.0, 10.0]}
    return {"rope_type": "longrope", "rope_theta": 1e4, **factors, "original_max_position_embeddings": LIMIT, **more}


NEO = {"vocab_size": VOCAB, "max_position_embeddings": CONTEXT, "hidden_size": 32, "num_layers": 2, "num_heads": 4}
NEO |= {"window_size": 24, "bos_token_id": 0, "eos_token_id": 1}
CONFIGS: dict[str, tuple[str, dict[str, Any]]] = {
    "phi3": (
        "Phi3",
        {**SIZES, "original_max_position_embeddings": LIMIT, "rope_parameters": longrope(partial_rotary_factor=1.0)},
    ),
    "phimoe": (
        "Phimoe",
        {
            **SIZES,
            "original_max_position_embeddings": LIMIT,
            "rope_parameters": longrope(short_mscale=1.0, long_mscale=1.2),
            "num_local_experts": 4,
            "num_experts_per_tok": 2,
            "sliding_window": None,
        },
    ),
    "llama": ("Llama", {**SIZES, "rope_parameters": longrope()}),
    "gpt-neo": ("GPTNeo", NEO | {"attention_types": [[["global", "local"], 1]]}),
}


@functools.cache
def folder_of(kind: str, room: Path) -> Path:
    return write_configured(*CONFIGS[kind], room / kind)


@pytest.fixture(scope="module")
def room(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("lengths")


@functools.cache
def loaded(folder: Path) -> Any:
    return load_transformers(folder, folder.name, LoadOptions(device="cpu", dtype="float32"))


def prompt_of(length: int) -> list[int]:
    rng = random.Random(length)
    part = [rng.randrange(4, VOCAB) for _ in range(max(1, length // 3))]
    return [
        token for token, _ in zip(cycle(part), range(length), strict=False)
    ]  # which repeats itself, so that drafts are found


def own(folder: Path, prompt: Sequence[int], count: int) -> list[int]:
    """What transformers' `generate` gives, until EOS."""
    return generated(network(folder), prompt, count, eos_token_id=1, pad_token_id=1)


def drafting(model: Model) -> list[str]:
    """The methods that must give plain decoding's tokens here."""
    found = []
    for name, method in methods().items():
        wanted = method.label == "identical" and not (method.head_kind() or method.needs(PardModel))
        if wanted and not unavailable(method, model.info.capabilities, draft_model=True):
            found.append(name)
    return found


def answers(conversation: Conversation, prompt: Sequence[int], method: str, count: int, **options: Any) -> Generation:
    generation = Generation(conversation, prompt, method, max_tokens=count, **options)
    list(generation)
    return generation


@pytest.mark.parametrize("kind", ["phi3", "phimoe", "llama"])
def test_longrope_reads_a_text_as_the_models_own_generate_does(kind: str, room: Path) -> None:
    folder = folder_of(kind, room)
    model = loaded(folder)
    assert model.info.capabilities.tree
    names = drafting(model)
    assert len(names) > 10
    lengths = (5, LIMIT - 8, LIMIT - 1, LIMIT, LIMIT + 1, 3 * LIMIT)
    for length in lengths if FULL or kind == "phi3" else lengths[1:5:2]:
        prompt = prompt_of(length)
        wanted = own(folder, prompt, 24)
        for name in names if FULL or (length, kind) == (LIMIT - 8, "phi3") else ("greedy", "lookup", "tree"):
            assert answered(model, prompt, name, draft=model, max_tokens=24)[0].answer == wanted, (name, length)


@pytest.mark.parametrize(("kind", "length"), [("phi3", LIMIT - 8), ("llama", LIMIT - 8), ("llama", LIMIT + 8)])
def test_what_is_asked_about_an_answer_is_read_as_the_answer_was(kind: str, length: int, room: Path) -> None:
    folder = folder_of(kind, room)
    model, position = loaded(folder), 16
    conversation = Conversation(model)
    answer = answers(conversation, prompt_of(length), "greedy", 24)
    ids = torch.tensor([prompt_of(length)])
    logits = network(folder).generate(
        ids,
        attention_mask=torch.ones_like(ids),
        max_new_tokens=position + 1,
        do_sample=False,
        output_logits=True,
        return_dict_in_generate=True,
    )
    wanted = logits.logits[position][0]
    token = answer.answer[position]
    assert token == wanted.argmax()
    gap = logit_gap(MeasureGap(1, "a", position, 9), model, answer).gap
    assert gap == pytest.approx(float(wanted[token] - wanted[9]), abs=1e-3)
    answers(conversation, prompt_of(3 * LIMIT), "greedy", 1)  # of another length
    asked = ScoreStep(1, position, token)
    (found,) = step_probs(asked, conversation, (answer.tokens, answer.prompt_tokens))
    assert found == pytest.approx(float(wanted.softmax(-1)[token]), abs=1e-3)
    conversation.close()


def test_a_window_under_another_name_is_found_out(room: Path) -> None:
    folder = folder_of("gpt-neo", room)
    model = loaded(folder)
    able = model.info.capabilities
    assert unknown_lengths(model.module.config) == {"window_size": 24}
    assert twin_of(model.module, {"window_size": 24}).config.window_size == SHORT
    assert (able.tree, able.chain, able.reach) == (False, True, None)
    assert "24 tokens (window_size in its configuration)" in able.reasons["tree"]
    assert able.reasons["tree"] in model.info.notes
    for name in drafting(model):
        found, _ = answered(model, prompt_of(18), name, draft=model, max_tokens=24)
        assert found.answer == own(folder, prompt_of(18), 24), name


@pytest.fixture
def no_twin(monkeypatch: pytest.MonkeyPatch) -> None:
    """No twin can be built, so that lengths need a text that is so long."""

    def unlike(*_: Any) -> Any:
        raise RuntimeError("size mismatch")

    monkeypatch.setattr("specchat.backends.hf.proving.proof.twin_of", unlike)


def load(kind: str, room: Path) -> Any:
    return load_model(str(folder_of(kind, room)), LoadOptions(device="cpu", dtype="float32"))


def test_nothing_is_drafted_beyond_a_length_that_could_not_be_tried(room: Path, no_twin: None) -> None:
    folder = folder_of("gpt-neo", room)
    model = load("gpt-neo", room)
    able = model.info.capabilities
    assert (able.tree, able.chain, able.reach) == (True, True, 24)
    assert any("nothing is drafted beyond" in note for note in model.info.notes)
    conversation = Conversation(model, draft_model=model)
    generation = Generation(conversation, prompt_of(12), "draft", max_tokens=24)
    drafted = {12 + len(generation.answer): step.drafted for step in generation}
    assert generation.answer == own(folder, prompt_of(12), 24)
    assert any(count for count in drafted.values())
    assert not any(count for length, count in drafted.items() if length > 24 + 1)
    conversation.close()
    model.close()
