"""`sample` is the plain method under the settings in force, and says so where they make it greedy."""

from __future__ import annotations

from specchat.backends import Sampling
from specchat.decoders import Conversation, Generation

from ...fakes.models.tiny import tiny_model


def answer(method: str, sampling: Sampling | None = None) -> tuple[list[int], set[str]]:
    generation = Generation(Conversation(tiny_model("llama")), list(range(20, 30)), method, sampling=sampling, max_tokens=40)
    notes = {step.note for step in generation}
    return generation.answer, notes


def test_with_a_temperature_it_samples_as_every_method_does() -> None:
    sampling = Sampling(temperature=0.9, seed=3)
    tokens, notes = answer("sample", sampling)
    assert tokens == answer("greedy", sampling)[0]
    assert tokens != answer("sample", Sampling(temperature=0.9, seed=4))[0]
    assert notes == {""}


def test_without_one_it_is_greedy_and_says_so() -> None:
    tokens, notes = answer("sample")
    assert tokens == answer("greedy")[0]
    assert notes == {"At temperature 0 this is the same as greedy. Set a temperature above 0 to sample."}


def test_a_switch_changes_no_setting() -> None:
    generation = Generation(Conversation(tiny_model("llama")), list(range(20, 30)), "sample", max_tokens=40)
    before = generation.sampling
    for number, _ in enumerate(generation):
        generation.switch("sample" if number % 2 else "lookup")
    assert generation.sampling == before
    assert generation.answer == answer("greedy")[0]
