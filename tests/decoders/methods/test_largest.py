"""Every method with its settings at their largest, on both runtimes: none may end an answer with an error."""

from __future__ import annotations

import random

import pytest

from specchat.backends import Model
from specchat.decoders import Conversation, Generation, registry
from specchat.decoders.base import describe_params
from specchat.decoders.needs import Pard
from tests.fakes.models.llama_tiny import needs_llama, tiny_llama
from tests.fakes.models.tiny import smaller_model, tiny_model

METHODS = [
    name for name, method in registry.methods().items() if not method.head_kind() and not method.needs(Pard) and method.compared
]
LETTERS = 9
"""Few enough that nearly every token has been followed by every other one: trees have all branches that they may."""


def models_of(runtime: str) -> tuple[Model, Model]:
    """A target and its draft model, which is itself on llama.cpp: it guesses with all its branches alive."""
    return (tiny_llama(), tiny_llama()) if runtime == "llama.cpp" else (tiny_model("llama"), smaller_model("llama"))


@pytest.mark.parametrize("name", [*METHODS, "beam"])
@pytest.mark.parametrize("runtime", ["transformers", pytest.param("llama.cpp", marks=needs_llama)])
def test_no_setting_is_too_large(runtime: str, name: str) -> None:
    """`recycle nodes=256` asked llama.cpp for 214 leaves."""
    target, draft = models_of(runtime)
    if registry.unavailable(registry.get(name), target.info.capabilities, draft_model=True, pard=False, head=None):
        pytest.skip("not on this runtime")
    rng = random.Random(1)
    prompt = [10 + rng.randrange(LETTERS) for _ in range(120)]
    described = describe_params(registry.get(name))
    high = {each["name"]: each["high"] for each in described if each["type"] in ("int", "float") and each["high"] is not None}
    high |= {key: value for key, value in {"layers": 2, "inner": 1}.items() if key in high}  # below the model's own
    widest = high | ({"floor": 0} if "floor" in high else {})
    longest = {each["name"]: each["high"] for each in described if each["length"]}
    plain = [token for step in Generation(Conversation(target), prompt, max_tokens=8) for token in step.tokens]
    conversation = Conversation(target, draft_model=draft)
    for settings in (widest, high, longest):
        generation = Generation(conversation, prompt, name, settings=settings, max_tokens=8)
        answer = [token for step in generation for token in step.tokens]
        assert generation.finish_reason in ("length", "eos"), settings
        assert answer == plain or name == "beam", settings
    conversation.close()
