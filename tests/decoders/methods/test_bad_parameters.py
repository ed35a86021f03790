"""Odd settings work or are refused with one sentence that says why; plain decoding gives the tokens of transformers' own
`generate`, and on a copy methods that draft take few steps."""

from __future__ import annotations

import random
from copy import copy
from dataclasses import replace
from typing import Any

import pytest

from specchat.backends import Model, Sampling, UserError
from specchat.decoders import Conversation, Drafter, Generation, describe_params, encode_prompt, parse_params
from specchat.decoders.needs import DraftModel, PardModel
from specchat.decoders.parts.schedules import SCHEDULES
from specchat.decoders.registry import methods, unavailable
from specchat.option import Option, declared_options

from ...cases import FULL
from ...fakes.answers import answered, plain
from ...fakes.drafters.heads import tiny_head
from ...fakes.models.llama_tiny import needs_llama, tiny_llama
from ...fakes.models.references import generated
from ...fakes.models.tiny import smaller_model, tiny_model
from ...fakes.prompts import TEXTS, mixed_prompts

TOKENS = 16
PROMPT = [30, 31, 32, 33, 30, 31, 32, 40, 30, 31]
ODD: dict[str, Any] = {
    "int": (-1, 0, 1, 10**30),
    "float": (-1e9, 0.0, 1.0, 1e300),
    "bool": (True, False),
    "str": ("", "?", "0"),
}
"""By type of setting: values tried beside the ends of its range."""


def values_of(param: Option) -> list[Any]:
    """The ends of a setting's range, what lies beyond, and odd values of the right type."""
    ends = [end + step for end in (param.low, param.high) if end is not None for step in (-1, 0, 1)]
    return list(dict.fromkeys([*ends, *ODD[param.type], *param.choices]))


def every_field() -> list[Any]:
    return [
        pytest.param(method, name, id=f"{method.name}-{name}")
        for method in methods().values()
        for name in declared_options(method.Params)
    ]


def is_a_sentence(error: BaseException) -> None:
    text = str(error)
    assert text.endswith("."), text
    assert text[0].isupper() or text.startswith(tuple(methods())), text
    assert "\n" not in text
    assert len(text) > 20


@pytest.mark.parametrize(("method", "name"), every_field())
def test_every_value_within_its_range_is_taken_and_others_are_told_why_not(method: type[Drafter], name: str) -> None:
    param = declared_options(method.Params)[name]
    low, high, choices = param.low, param.high, param.choices
    for value in values_of(param):
        inside = value in choices if choices else low is not None and low <= value <= (value if high is None else high)
        refused: UserError | None = None
        try:
            parse_params(method, {name: value})
        except UserError as error:
            refused = error
        if refused is not None:
            assert not inside
            is_a_sentence(refused)
            assert name in str(refused)


@pytest.mark.parametrize(("method", "name"), every_field())
def test_values_of_another_type_are_refused(method: type[Drafter], name: str) -> None:
    wrong: dict[str, tuple[Any, ...]] = {
        "int": ("many", "", "1.5", 1.5, None, [1], float("nan"), float("inf")),
        "float": ("much", "", None, [1], float("nan"), "nan"),
        "bool": ("perhaps", ""),
        "str": (None, 3, [1]),
    }
    for value in wrong[declared_options(method.Params)[name].type]:
        with pytest.raises(UserError) as caught:
            parse_params(method, {name: value})
        is_a_sentence(caught.value)
        assert name in str(caught.value)


LETTERS = 9
"""Few enough that nearly every token has been followed by every other one: trees have all branches that they may."""


@pytest.mark.parametrize("name", methods())
@pytest.mark.parametrize("runtime", ["transformers", pytest.param("llama.cpp", marks=needs_llama)])
def test_all_settings_at_the_ends_of_their_ranges(runtime: str, name: str) -> None:
    """`recycle nodes=256` asked llama.cpp for 214 leaves. There the model drafts for itself, with all its branches alive."""
    method = methods()[name]
    target, draft = (tiny_llama(),) * 2 if runtime == "llama.cpp" else (tiny_model("llama"), smaller_model("llama"))
    head = tiny_head(kind) if (kind := method.head_kind()) and runtime == "transformers" else None
    if unavailable(method, target.info.capabilities, draft_model=True, pard=True, head=head.info if head else None) or (
        runtime == "llama.cpp" and method.needs(PardModel)
    ):
        pytest.skip("not on this runtime")
    rng = random.Random(1)
    prompt = [10 + rng.randrange(LETTERS) for _ in range(120)]
    described = describe_params(method)
    high, low = (
        {each["name"]: each[end] for each in described if each["type"] in ("int", "float") and each[end] is not None}
        for end in ("high", "low")
    )
    high |= {key: value for key, value in {"layers": 2}.items() if key in high}  # below the model's own
    widest = high | ({"floor": 0} if "floor" in high else {})
    longest = {each["name"]: each["high"] for each in described if each["length"]}
    wanted = answered(target, prompt, max_tokens=8)[0].answer
    conversation = Conversation(target, draft_model=draft, head=head)
    for settings in (low, widest, high, longest):
        generation = Generation(conversation, prompt, name, settings=settings, max_tokens=8)
        assert [token for step in generation for token in step.tokens] == wanted or method.label != "identical", settings
        assert generation.finish_reason in ("length", "eos"), settings
    conversation.close()


SAID: list[tuple[str, dict[str, Any], str]] = [
    ("lookup", {"max_ngram": 1, "min_ngram": 8}, r"min_ngram \(8\) must be at most max_ngram \(1\)"),
    ("early-exit", {"layers": 3}, "below the model's 3 layers"),
    ("early-exit", {"skip": "0,1,2"}, "skip"),
    ("early-exit", {"skip": "7"}, "skip"),
    ("early-exit", {"skip": "two"}, "skip"),
    ("tree", {"expansion": "1,0,2"}, "numbers from 1 to 64"),
    ("tree", {"expansion": "1,x"}, "expansion"),
    ("tree", {"expansion": "4,4,4,4"}, "a tree of 341 nodes. 256 are the most"),
    ("tree", {"merge": "nothing"}, "merge"),
    ("tree", {"merge": "lookup,beam"}, "tree.merge takes"),
]


@pytest.mark.parametrize(("name", "settings", "words"), SAID, ids=[f"{name}-{settings}" for name, settings, _ in SAID])
def test_settings_that_others_trip_over(name: str, settings: dict[str, Any], words: str) -> None:
    with pytest.raises(UserError, match=words) as caught:
        answered(tiny_model("llama"), PROMPT, name, settings, draft=smaller_model("llama"), max_tokens=TOKENS)
    is_a_sentence(caught.value)


@pytest.mark.parametrize("name", [name for name, method in methods().items() if method.needs(DraftModel)])
def test_a_draft_model_with_another_vocabulary_is_explained(name: str, draft_model: Model) -> None:
    conversation = Conversation(tiny_model("llama"), draft_model=draft_model)
    with pytest.raises(UserError, match="tokenizer") as caught:
        list(Generation(conversation, PROMPT, name, max_tokens=TOKENS))
    is_a_sentence(caught.value)


COPIED_TOKENS = 128 if FULL else 40
PROMPTS = 50 if FULL else 2
RECOMPUTE_PROMPTS = PROMPTS if FULL else 1
"""Without a KV cache each token costs a pass over everything."""


@pytest.mark.parametrize("method", ["greedy", "recompute"])
def test_greedy_tokens_are_those_of_transformers_generate(builtin_model: Model, reference_network: Any, method: str) -> None:
    """The same without an end token, so that every answer has all its tokens; what drafts is held to these methods' text."""
    endless, reference_network.generation_config.eos_token_id = copy(builtin_model), None
    endless.info = replace(endless.info, eos_ids=())
    for text in mixed_prompts(RECOMPUTE_PROMPTS if method == "recompute" else PROMPTS):
        prompt = encode_prompt(endless, text)
        found, _ = answered(endless, prompt, method, max_tokens=COPIED_TOKENS)
        assert found.answer == generated(reference_network, prompt, COPIED_TOKENS)


def test_a_switch_changes_tokens_per_step_within_two_steps(builtin_model: Model) -> None:
    prompt = encode_prompt(builtin_model, f"Repeat this text exactly: {TEXTS[1]}")
    wanted = plain(builtin_model, prompt)
    assert builtin_model.decode(wanted) == TEXTS[1]
    generation = Generation(Conversation(builtin_model), prompt, "greedy")
    lengths: list[tuple[str, int]] = []
    for step in generation:
        lengths.append((step.method, len(step.tokens)))
        match len(lengths):
            case 10:
                generation.switch("lookup")
            case 12:
                generation.switch("greedy")
            case 20:
                generation.switch("lookup")
    assert generation.answer == wanted
    assert all(n == 1 for _, n in lengths[:10])
    assert max(n for _, n in lengths[10:12]) > 1, "lookup drafts within two steps"
    assert all(n == 1 for _, n in lengths[12:20]), "greedy at once"
    assert max(n for _, n in lengths[20:22]) > 1


FLOORS: list[tuple[str, dict[str, Any], float]] = [
    ("lookup", {}, 2.0),
    ("lookup", {"variant": "reference"}, 2.0),
    ("ngram", {}, 1.5),
    ("ngram", {"n": 5, "key": 1}, 1.5),
    ("recycle", {}, 1.5),
    ("jacobi", {}, 1.05),
    ("jacobi", {"slide": False}, 1.0),
    ("lookahead", {}, 1.2),
    ("lookahead", {"window": 1, "ngram": 2}, 1.2),
    ("lookahead", {"window": 15, "guesses": 15}, 1.2),
    *(("draft", {"schedule": schedule}, 1.5) for schedule in SCHEDULES),
    ("early-exit", {}, 1.4),
    ("early-exit", {"layers": 4}, 1.4),
    ("early-exit", {"layers": 4, "schedule": "cost"}, 1.4),
    ("early-exit", {"layers": 6, "cascade": False}, 1.4),
    ("tree", {}, 1.5),
    ("tree", {"expansion": "1,1,3,1,1,1,1,1"}, 1.5),
    ("tree", {"merge": "lookup,recycle"}, 1.5),
]
"""The fewest tokens a step on a copy."""
FROM_TEXT = ("lookup", "ngram", "recycle", "jacobi", "lookahead")
COPIES = [f"Repeat this text exactly: {text}" for text in TEXTS]


@pytest.mark.usefixtures("idle")
@pytest.mark.parametrize(("method", "settings", "floor"), FLOORS)
def test_a_copy_takes_few_steps_and_changes_no_token(
    builtin_model: Model, draft_model: Model, method: str, settings: dict[str, Any], floor: float
) -> None:
    for text in COPIES if FULL else COPIES[:1]:
        for sampling in [Sampling()] + [Sampling(temperature=0.8, seed=4)] * (
            FULL or (settings == {} and method not in FROM_TEXT)
        ):
            options: dict[str, Any] = {"sampling": sampling, "max_tokens": COPIED_TOKENS}
            found, _ = answered(builtin_model, text, method, settings, draft=draft_model, **options)
            assert found.answer == plain(builtin_model, text, **options)
            assert found.totals.tokens_per_step >= floor
            assert found.totals.draft_seconds > 0
