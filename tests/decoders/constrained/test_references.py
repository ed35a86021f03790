"""The same masks give others' text: transformers' own `generate`, and llama.cpp's grammar sampler."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from llguidance import LLMatcher

from specchat.backends.base import Model
from specchat.backends.grammars.constraint import Constraint, grammar
from specchat.backends.loading import builtin_gguf
from specchat.decoders import Generation, encode_prompt

from ...cases import FULL
from ...fakes.answers import answered
from ...fakes.models.references import generated
from .cases import CONSTRAINTS, prompts

MOST = 80
SHAPES = [*CONSTRAINTS] if FULL else ["flat", "grammar"]


class Masked:
    """A logits processor of transformers: llguidance's mask, its matcher fed with what `generate` has chosen."""

    def __init__(self, model: Model, constraint: Constraint, prompt: int) -> None:
        self._matcher = LLMatcher(model.grammar_tokenizer(), constraint.compiled(), log_level=0)
        self._at = prompt

    def __call__(self, ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        for token in ids[0, self._at :].tolist():
            assert self._matcher.consume_token(token)
        self._at = ids.shape[1]
        bits = np.unpackbits(np.frombuffer(self._matcher.compute_bitmask(), np.uint8), bitorder="little")
        return scores.masked_fill(torch.from_numpy(bits[: scores.shape[1]] == 0), -torch.inf)


def answer(model: Model, text: str, constraint: Constraint, method: str) -> Generation:
    return answered(model, text, method, constraint=constraint, max_tokens=MOST)[0]


@pytest.mark.parametrize("name", SHAPES)
def test_transformers_generate_with_a_logits_processor(builtin_model: Model, reference_network: Any, name: str) -> None:
    for text in prompts(50 if FULL else 2):
        prompt = encode_prompt(builtin_model, text)
        masked = Masked(builtin_model, CONSTRAINTS[name], len(prompt))
        eos = list(builtin_model.info.eos_ids)
        expected = generated(reference_network, prompt, MOST, eos_token_id=eos, logits_processor=[masked])
        for method in ("greedy", "lookup"):
            assert answer(builtin_model, text, CONSTRAINTS[name], method).answer == expected, (text, method)


SENTENCE = 'root ::= [a-zA-Z ]+ "."\n'
"""Leaves a choice everywhere. Where there is none, ours cuts tokens in the usual way, llama.cpp's as the model likes."""


def test_llama_cpps_grammar_sampler_writes_the_same_text() -> None:
    llama_cpp = pytest.importorskip("llama_cpp")
    from specchat.backends import LoadOptions, load_model

    gguf = str(builtin_gguf())
    theirs = llama_cpp.Llama(gguf, n_ctx=512, verbose=False, n_threads=1)
    parsed = llama_cpp.LlamaGrammar.from_string(SENTENCE, verbose=False)
    model = load_model(gguf, LoadOptions(device="cpu", threads=1))
    asked = prompts(50 if FULL else 6)
    parted = 0
    for text in asked:
        prompt = encode_prompt(model, text)
        out = theirs.create_completion(prompt, max_tokens=MOST, temperature=0.0, grammar=parsed, repeat_penalty=1.0)
        said = out["choices"][0]["text"]
        generation = answer(model, text, grammar(SENTENCE), "lookup")
        ours = model.decode(generation.answer)
        if said == ours:
            continue
        parted += 1
        same = next(n for n in range(len(generation.answer)) if not said.startswith(model.decode(generation.answer[: n + 1])))
        theirs.reset()
        theirs.eval([*prompt, *generation.answer[:same]])
        logits = llama_cpp.llama_get_logits_ith(theirs._ctx.ctx, -1)
        rest = said[len(model.decode(generation.answer[:same])) :]
        best = max(logits[token] for token, piece in enumerate(model.pieces()) if piece and rest.startswith(piece))
        assert best - logits[generation.answer[same]] < model.info.capabilities.near_tie, (text, said, ours)
    assert parted <= len(asked) / 4
    model.close()
