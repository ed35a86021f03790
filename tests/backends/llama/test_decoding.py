"""Whole answers on llama.cpp: llama.cpp's own greedy tokens, and transformers', under every method that promises them."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from specchat.backends import LoadOptions, Model
from specchat.backends.llama.model import load_llama
from specchat.backends.loading import builtin_path
from specchat.decoders import Conversation, Generation, encode_prompt
from specchat.decoders.registry import methods

from ...cases import FULL
from ...fakes.models.llama_tiny import FLOAT32, gguf_of, needs_llama, tiny_folder, tiny_llama
from ...fakes.prompts import mixed_prompts

pytestmark = needs_llama

PROMPTS = mixed_prompts(50 if FULL else 2)
RECOMPUTE_PROMPTS = 6 if FULL else 1
"""Without a KV cache 64 tokens cost 64 passes over everything."""
TOKENS = 128 if FULL else 40
IDENTICAL = [name for name, method in methods().items() if method.label == "identical" and not method.head_kind()]
NEAR_TIE = {"F32": 1e-3, "Q8_0": 0.2}
"""Passes of one and of several tokens round differently (quantized ones multiply activations in 8 bits): two logits as close as
this may change places."""
MOST_FLIPS = 0.01
"""Share of all tokens."""


def model_of(kind: str) -> Model:
    """The built-in model as a GGUF file, without an end token: every answer has all its tokens."""
    options = FLOAT32 if kind == "F32" else LoadOptions(device="cpu", threads=1, exact="off", guard="off")
    model = load_llama(gguf_of(builtin_path(), kind), f"builtin {kind}", options)
    endless = copy(model)
    endless.info = replace(model.info, eos_ids=())
    return endless


class Case:
    """The built-in model of one type, and what llama-cpp-python's own class answers."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.model = model_of(kind)
        self.draft = self.model.truncated(self.model.info.layers // 2)
        self.draft.info = replace(self.draft.info, pard_token=6)  # a reserved token, which it has never seen
        eos = load_eos(kind)
        theirs = their_model(kind)
        self.pairs: list[tuple[list[int], list[int]]] = []
        """Prompts and the wanted answers."""
        for prompt in PROMPTS:
            ids = encode_prompt(self.model, prompt)
            answer: list[int] = []
            for token in theirs.generate(ids, temp=0.0):
                answer.append(token)
                if len(answer) == TOKENS:
                    break
            end = answer.index(eos) if eos in answer else TOKENS
            text = theirs.create_completion(ids, max_tokens=TOKENS, temperature=0)["choices"][0]["text"]
            assert text == self.model.decode(answer[:end])
            self.pairs.append((ids, answer))
        theirs.close()

    def gap(self, text: Sequence[int], tokens: Sequence[int]) -> float:
        """How far the logit of the lowest of these tokens lies below the highest of all after a text."""
        session = self.model.open_session()
        session.prefill(text[:-1])
        scores = session.evaluate(text[-1:], (-1,))
        out = max(scores.gap(0, token) for token in tokens)
        session.close()
        return out

    def flips(self, method: str, prompt: list[int], wanted: list[int]) -> list[float]:
        """Gaps of the logits where this method's tokens differ. After each it goes on from the wanted text."""
        found: list[float] = []
        done = 0
        conversation = Conversation(self.model, draft_model=self.draft)
        while done < len(wanted):
            generation = Generation(conversation, prompt + wanted[:done], method, max_tokens=len(wanted) - done)
            for _ in generation:
                pass
            pairs = zip(generation.answer, wanted[done:], strict=True)
            at = next((i for i, (ours, theirs) in enumerate(pairs) if ours != theirs), None)
            if at is None:
                break
            found.append(self.gap(prompt + wanted[: done + at], (generation.answer[at], wanted[done + at])))
            done += at + 1
        conversation.close()
        return found


def load_eos(kind: str) -> int:
    """The end token."""
    model = load_llama(gguf_of(builtin_path(), kind), "builtin", LoadOptions(device="cpu", threads=1, context=256))
    (eos,) = model.info.eos_ids
    model.close()
    return eos


def their_model(kind: str) -> Any:
    """llama-cpp-python's own class."""
    llama_cpp: Any = importlib.import_module("llama_cpp")
    low: Any = importlib.import_module("llama_cpp.llama_cpp")
    exact: dict[str, Any] = {"type_k": 0, "type_v": 0, "flash_attn": False} if kind == "F32" else {}
    defaults = low.llama_model_default_params

    def without_rearranging() -> Any:
        # As our loader: see the note on AMX there.
        params = defaults()
        params.use_extra_bufts = b"AMX_INT8 = 1" not in low.llama_print_system_info()
        return params

    low.llama_model_default_params = without_rearranging
    try:
        file = str(gguf_of(builtin_path(), kind))
        return llama_cpp.Llama(file, n_ctx=2048, n_threads=1, n_threads_batch=1, verbose=False, **exact)
    finally:
        low.llama_model_default_params = defaults


@pytest.fixture(scope="module", params=["F32", "Q8_0"])
def case(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Case]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPECCHAT_CACHE", str(tmp_path_factory.mktemp("cache")))
        case = Case(request.param)
        yield case
        case.model.close()


@pytest.mark.parametrize("method", IDENTICAL)
def test_the_same_tokens_as_create_completion(case: Case, method: str) -> None:
    if case.kind == "Q8_0" and not FULL and method not in ("greedy", "draft", "tree"):
        pytest.skip("make test-all tries them all on quantized weights")
    flips, tokens = [], 0
    for prompt, answer in case.pairs[: RECOMPUTE_PROMPTS if method == "recompute" else None]:
        flips += case.flips(method, prompt, answer)
        tokens += len(answer)
    print(f"{case.kind} {method}: {len(flips)} of {tokens} tokens flipped, gaps {[round(gap, 5) for gap in sorted(flips)]}")
    assert all(gap < NEAR_TIE[case.kind] for gap in flips)
    assert len(flips) < MOST_FLIPS * tokens


def test_float32_logits_are_transformers() -> None:
    from ...fakes.models.llama_tiny import linear

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
    network.generation_config.eos_token_id = None
    model = load_llama(gguf_of(path), "float32", FLOAT32)
    differences = []
    for text in PROMPTS:
        ids = encode_prompt(model, text)
        with torch.inference_mode():
            output = network.generate(torch.tensor([ids]), do_sample=False, max_new_tokens=TOKENS, pad_token_id=0)
        wanted = output[0, len(ids) :].tolist()
        conversation = Conversation(model)
        generation = Generation(conversation, ids, "greedy", max_tokens=TOKENS)
        generation._eos = frozenset()
        list(generation)
        conversation.close()
        at = next((i for i, (ours, theirs) in enumerate(zip(generation.answer, wanted, strict=True)) if ours != theirs), None)
        if at is not None:
            with torch.inference_mode():
                logits = network(torch.tensor([ids + wanted[:at]])).logits[0, -1]
            differences.append(float(logits[wanted[at]] - logits[generation.answer[at]]))
    print(f"{len(differences)} of {len(PROMPTS)} answers differ, first where the logits are {differences} apart")
    assert all(gap < 1e-3 for gap in differences)
    model.close()
