"""What servers draft by themselves, against what they really drafted."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specchat.backends import LoadOptions, Model, load_model
from specchat.decoders import Conversation, Generation
from specchat.decoders.base import parse_params
from specchat.decoders.servers.base import ServerMethod, TextMethod, predict
from specchat.decoders.servers.drafts import VllmDraft
from specchat.decoders.servers.ngrams import (
    LATE,
    STREAK,
    NgramMod,
    NgramModParams,
    NgramSimple,
    NgramSimpleParams,
    VllmNgram,
    VllmNgramParams,
)
from specchat.decoders.servers.table import get_served, served
from specchat.errors import UserError

CASES = [json.loads(line) for line in Path(__file__).with_name("vllm_ngram.jsonl").read_text().splitlines()]
"""(tokens, shortest, longest, most, draft) of vLLM 0.32's own `_find_longest_matched_ngram_and_propose_tokens`."""


def test_vllm_drafts_the_same() -> None:
    for tokens, shortest, longest, most, draft in CASES:
        method = VllmNgram(VllmNgramParams(most, longest, shortest))
        method.read(tokens, 1, None)
        found: Sequence[int] = ()
        for known in range(1, len(tokens) + 1):
            found = method.draft(tokens, known)
        assert list(found) == draft


texts = st.lists(st.integers(0, 4), min_size=2, max_size=80)


@given(texts, st.integers(1, 4), st.integers(1, 8))
def test_ngram_simple_is_what_its_source_says(tokens: list[int], n: int, most: int) -> None:
    """Written down once more, without an index: backwards from the end, never the text's first n-gram."""
    method = NgramSimple(NgramSimpleParams(n, most))
    method.read(tokens, 1, None)
    for known in range(2, len(tokens) + 1):
        history, expected = tokens[: known - 1], list[int]()
        if len(history) > n + most + 1:
            pattern = tokens[known - n : known]
            for begin in range(len(history) - n - 1, 0, -1):
                if history[begin : begin + n] == pattern:
                    line = history[begin + n : begin + n + most]
                    expected = line if len(line) >= n else []
                    break
        assert list(method.draft(tokens, known)) == expected


def test_ngram_mod_keeps_what_other_requests_said_and_forgets_after_bad_drafts() -> None:
    method = NgramMod(NgramModParams(3, 1, 4))
    first = [1, 2, 3, 4, 5, 6, 7]
    method.read(first, len(first), None)
    other = [9, 1, 2, 3, 8]
    method.read(other, 4, None)
    assert list(method.draft(other, 4)) == [4, 5, 6, 7]
    # A short draft counts only from n_min on.
    method.params = NgramModParams(3, 5, 8)
    assert list(method.draft(other, 4)) == []
    method.params = NgramModParams(3, 1, 4)
    for _ in range(STREAK):
        assert list(method.draft(other, 4)) == [4, 5, 6, 7]
        method.verified(4, 0)
    assert list(method.draft(other, 4)) == []


def test_ngram_mod_takes_in_an_answer_after_a_while() -> None:
    method = NgramMod(NgramModParams(3, 1, 4))
    text = [*range(10, 20), *range(100, 100 + LATE - 10), 10, 11, 12, 100, 101, 102]
    method.read(text, 5, None)
    assert list(method.draft(text, 35)) == [13, 14], "the prompt is known"
    assert list(method.draft(text, len(text))) == [103, 104, 105, 106], "and so, by now, is what came after it"


@given(texts, texts, st.sampled_from(sorted(name for name, each in served().items() if issubclass(each, TextMethod))))
def test_no_method_looks_ahead_and_every_token_is_given_once(prompt: list[int], answer: list[int], name: str) -> None:
    method = get_served(name)
    small = {"n_match": "2", "n_min": "1"} if "mod" in name else {"size_n": "2", "size_m": "4"} if "simple" in name else {}

    def made() -> ServerMethod:
        return method(parse_params(method, dict(small)))

    whole = predict(made(), prompt, answer)
    assert (whole.tokens, sum(whole.runs)) == (len(answer), len(answer))
    assert whole.runs[0] == 1
    # Another end does not change what was decoded before it.
    other = predict(made(), prompt, [*answer, 7, 7, 7])
    assert other.runs[: len(whole.runs) - 1] == whole.runs[:-1]


@pytest.fixture(scope="module")
def pair() -> tuple[Model, Model]:
    options = LoadOptions(device="cpu", dtype="float32", backend="transformers", threads=1)
    return load_model("builtin", options), load_model("builtin-draft", options)


def test_a_draft_model_is_predicted_from_one_pass_over_the_record(pair: tuple[Model, Model]) -> None:
    """Against our own draft model, which really drafts token by token."""
    target, draft = pair
    method, steps = VllmDraft(parse_params(VllmDraft, {"num_speculative_tokens": 3})), []
    for question in ("Tell me a short story about a fox.", "Count from one to ten."):
        prompt = target.encode_chat([{"role": "user", "content": question}])
        conversation = Conversation(target, draft_model=draft)
        first = Generation(conversation, prompt, "greedy", max_tokens=1)
        assert next(iter(first)).tokens
        conversation.forget()
        # A server's drafts begin behind the token of the prompt's own pass.
        settings = {"tokens": 3, "schedule": "constant", "cascade": False}
        real = Generation(conversation, [*prompt, *first.answer], "draft", settings=settings, max_tokens=60)
        runs = [len(step.tokens) for step in real]
        predicted = predict(method, prompt, [*first.answer, *real.answer], draft)
        assert predicted.runs == [1, *runs]
        assert predicted.drafted == 3 * (predicted.steps - 1)
        steps.append(predicted.steps)
        conversation.close()
    assert min(steps) > 3


def test_what_a_draft_model_cannot_do_is_said(pair: tuple[Model, Model]) -> None:
    method = VllmDraft()
    with pytest.raises(UserError, match="--draft-model"):
        predict(method, [1], [2])
    with pytest.raises(UserError, match="does not know every token"):
        predict(method, [1], [10**9], pair[1])
    with pytest.raises(UserError, match="does not fit"):
        predict(method, [1], [2] * (pair[1].info.context + 1), pair[1])


@pytest.mark.parametrize("name", served())
def test_every_candidate_has_flags(name: str) -> None:
    method = get_served(name)
    flags = [method(parse_params(method, dict(settings))).flags("small") for settings in method.grid()]
    assert len(set(flags)) == len(flags) > 1
    assert all(method.needs_draft_model == (" small" in flag or '"small"' in flag) for flag in flags)
    assert "--" in method().flags("small")


def test_an_unknown_one_is_named() -> None:
    with pytest.raises(UserError, match="vllm/ngram"):
        get_served("vllm/ngrams")
