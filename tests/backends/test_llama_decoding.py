"""Whole answers on llama.cpp: llama.cpp's own greedy tokens, and transformers', under every method that promises them."""

from __future__ import annotations

import importlib
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from specchat.backends import LoadOptions, Model
from specchat.backends.llama_model import load_llama
from specchat.backends.loading import builtin_path
from specchat.decoders import Conversation

from .llama_tiny import FLOAT32, gguf_of, needs_llama, tiny_folder, tiny_llama

pytestmark = needs_llama

PROMPTS = (
    "Repeat this text: The cat sat on the mat and looked at the dog, and the dog looked at the cat.",
    "Write a short story about a fox who lives in a forest.",
    "What is the capital of France?",
    "Fix the spelling: I has two appels and three banannas in the kichen.",
    "List the months of the year.",
    "Write this in capital letters: one two three four five six seven eight nine ten",
)
TOKENS = 64
METHODS = ("greedy", "lookup")
CLOSE = 0.05
"""Quantized passes of one and of several tokens round differently: a first difference where the logits are this close is a near
tie."""


def model_of(kind: str) -> Model:
    """The built-in model as a GGUF file."""
    options = FLOAT32 if kind == "F32" else LoadOptions(device="cpu", threads=1)
    return load_llama(gguf_of(builtin_path(), kind), f"builtin {kind}", options)


@pytest.fixture(scope="module", params=["F32", "Q8_0"])
def pair(request: pytest.FixtureRequest) -> Iterator[tuple[Model, Any]]:
    """The built-in model here, and in llama-cpp-python's own class."""
    llama_cpp: Any = importlib.import_module("llama_cpp")
    low: Any = importlib.import_module("llama_cpp.llama_cpp")
    model = model_of(request.param)
    exact: dict[str, Any] = {"type_k": 0, "type_v": 0, "flash_attn": False} if request.param == "F32" else {}
    defaults = low.llama_model_default_params

    def without_rearranging() -> Any:
        # As our loader: see the note on AMX there.
        params = defaults()
        params.use_extra_bufts = b"AMX_INT8 = 1" not in low.llama_print_system_info()
        return params

    low.llama_model_default_params = without_rearranging
    try:
        theirs = llama_cpp.Llama(
            str(gguf_of(builtin_path(), request.param)), n_ctx=2048, n_threads=1, n_threads_batch=1, verbose=False, **exact
        )
    finally:
        low.llama_model_default_params = defaults
    yield model, theirs
    theirs.close()
    model.close()


def first_difference(one: list[int], other: list[int]) -> int | None:
    """Index of the first token that differs."""
    pairs = itertools.zip_longest(one, other)
    return next((i for i, (a, b) in enumerate(pairs) if a != b), None)


def gap(model: Model, prompt: list[int], answer: list[int], token: int) -> float:
    """How far the logit of `token` lies below the highest after prompt and answer."""
    session = model.open_session()
    session.prefill([*prompt, *answer][:-1])
    return session.evaluate([*prompt, *answer][-1:], (-1,)).gap(0, token)


def test_the_same_tokens_as_create_completion(pair: tuple[Model, Any], record_property: Any) -> None:
    model, theirs = pair
    ties = []
    for prompt in PROMPTS:
        ids = model.encode_chat([{"role": "user", "content": prompt}])
        wanted: list[int] = []
        for token in theirs.generate(ids, temp=0.0):
            wanted.append(token)
            if token in model.info.eos_ids or len(wanted) == TOKENS:
                break
        text = theirs.create_completion(ids, max_tokens=TOKENS, temperature=0)["choices"][0]["text"]
        for method in METHODS:
            conversation = Conversation(model)
            generation = conversation.generate(ids, method, max_tokens=TOKENS)
            shown = "".join(step.text for step in generation) + generation.flush()
            at = first_difference(generation.answer, wanted)
            if at is not None:
                distance = max(gap(model, ids, wanted[:at], token) for token in (wanted[at], generation.answer[at]))
                assert distance < CLOSE, (prompt, method, at, distance)
                ties.append((method, prompt, at, distance))
            else:
                assert shown == text
            conversation.close()
    record_property("near ties", ties)
    print(ties)
    # Of 12 answers.
    assert len(ties) <= 2


def test_float32_logits_are_transformers() -> None:
    from .llama_tiny import linear

    model = tiny_llama()
    session: Any = model.open_session()
    ids = [(31 * i + 7) % 2000 + 8 for i in range(300)]
    scores = session.evaluate(ids, range(-1, 299), rows=[0, 1, 17, 150, 299])
    torch.testing.assert_close(scores.logits, linear([ids[: n + 1] for n in scores.nodes]), atol=1e-3, rtol=0)


@pytest.mark.parametrize("folder", [tiny_folder, builtin_path])
def test_float32_answers_are_transformers_token_for_token(folder: Any) -> None:
    from transformers import AutoModelForCausalLM

    path: Path = folder()
    network: Any = AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32)
    network.eval()
    model = tiny_llama() if folder is tiny_folder else model_of("F32")
    for prompt in PROMPTS:
        ids = model.encode_chat([{"role": "user", "content": prompt}])
        with torch.inference_mode():
            output = network.generate(
                torch.tensor([ids]), do_sample=False, max_new_tokens=TOKENS, eos_token_id=2, pad_token_id=0
            )
        wanted = output[0, len(ids) :].tolist()
        for method in METHODS:
            generation = Conversation(model).generate(ids, method, max_tokens=TOKENS)
            list(generation)
            at = first_difference(generation.answer, wanted)
            assert at is None or gap(model, ids, wanted[:at], generation.answer[at]) < 1e-3


def test_a_second_turn_reuses_the_prefix() -> None:
    model = tiny_llama()
    conversation = Conversation(model)
    messages = [{"role": "user", "content": PROMPTS[0]}]
    first = conversation.generate(model.encode_chat(messages), "lookup", max_tokens=20)
    answer = "".join(step.text for step in first) + first.flush()
    messages += [{"role": "assistant", "content": answer}, {"role": "user", "content": PROMPTS[1]}]
    ids = model.encode_chat(messages)
    second = conversation.generate(ids, "lookup", max_tokens=20)
    assert second.reused > len(model.encode_chat(messages[:1])) - 2
    list(second)
    fresh = Conversation(model).generate(ids, "greedy", max_tokens=20)
    list(fresh)
    assert second.answer == fresh.answer


def test_the_built_in_model_on_both_runtimes_takes_the_same_ids() -> None:
    from specchat.backends.tokenizer import TextCodec

    codec = TextCodec(builtin_path(), 2048)
    model = model_of("Q8_0")
    assert model.info.capabilities.tree
    assert model.info.has_template
    assert model.info.context == 2048
    for prompt in PROMPTS:
        messages = [{"role": "user", "content": prompt}]
        assert model.encode_chat(messages) == codec.encode_chat(messages)
        assert model.encode(prompt) == codec.encode(prompt)
