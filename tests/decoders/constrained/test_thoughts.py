"""A thought is free, the answer after it is constrained, whatever drafts across the mark between them."""

from __future__ import annotations

from typing import Any

import pytest

from specchat.backends.grammars.constraint import regex
from specchat.decoders.conversation import Conversation, encode_prompt
from specchat.decoders.loop import Generation

from ...cases import FULL
from ...fakes.models.llama_tiny import needs_llama
from ...fakes.models.thinkers import ANSWER, FAMILIES, THOUGHT, thinker

HI = [{"role": "user", "content": "Hi"}]
METHODS = ("greedy", "lookup", "recycle", "jacobi") if FULL else ("lookup",)
MARKED = [name for name in FAMILIES if name != "told"] if FULL else ["opens", "opened"]
"""Families whose marks are tokens: a thought that is opened by spelling its mark out would break the constraint."""


def parts(generation: Generation) -> tuple[str, str]:
    told = ["", ""]
    for step in generation:
        at = 0
        for part, characters, _ in step.spans:
            told[part] += step.text[at : at + characters]
            at += characters
    return told[1], told[0]


@pytest.mark.parametrize("runtime", ["transformers", pytest.param("llama.cpp", marks=needs_llama)])
@pytest.mark.parametrize("name", MARKED)
def test_the_answer_alone_is_constrained(name: str, runtime: str) -> None:
    model = thinker(name, runtime)
    variables: dict[str, Any] = FAMILIES[name].on[1]
    for method in METHODS:
        conversation = Conversation(model)
        for pattern, expected in ((r"Yes, [0-9]+\.", ANSWER), (r"(No|Never), [0-9]{2}!", None)):
            prompt = encode_prompt(model, HI, variables=variables)
            generation = Generation(conversation, prompt, method, max_tokens=60, constraint=regex(pattern))
            thought, answer = parts(generation)
            assert thought == THOUGHT, (method, thought, answer)
            assert generation.valid, (method, pattern, answer, generation.finish_reason)
            assert expected is None or answer == expected
        conversation.close()
