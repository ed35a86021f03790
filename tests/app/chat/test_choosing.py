"""Which methods are offered, in which order, and what is known of them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from specchat.app.chat.methods import (
    LABELS,
    PROMISING,
    DraftLength,
    draft_length,
    first_method,
    known_methods,
    shortlist,
    why_no_length,
    why_plain,
)
from specchat.backends.info import ModelInfo
from specchat.decoders.registry import methods
from specchat.engine.catalog import get, parse_params

METHODS = known_methods()
NOT_TRAINED = {name: "it needs a trained drafter." for name, method in METHODS.items() if method.group == "trained"}
NO_DRAFT = {"draft": "it needs a draft model.", "tree": "it needs a draft model.", **NOT_TRAINED}

NONE = ModelInfo()


def test_the_short_list() -> None:
    assert shortlist(METHODS, NOT_TRAINED, "builtin") == ["greedy", *PROMISING]
    assert shortlist(METHODS, NO_DRAFT, "Qwen/Qwen3-0.6B") == ["greedy", "lookup", "fusion", "auto"]
    assert "early-exit" in shortlist(METHODS, NO_DRAFT, "facebook/layerskip-llama3.2-1B")
    nothing = [name for name, method in METHODS.items() if method.group != "plain"]
    assert shortlist(METHODS, nothing, "mamba") == ["greedy"]


def test_a_trained_drafter_promises_most_but_on_the_built_in_model() -> None:
    lossy = replace(METHODS["eagle"], name="worse", label="lossy")
    exits = {name for name in PROMISING if name != "early-exit"}
    names = shortlist({**METHODS, "worse": lossy}, (), "big")
    assert names == ["greedy", *NOT_TRAINED, *(name for name in PROMISING if name in exits)]
    names = shortlist({**METHODS, "worse": lossy}, (), "builtin")
    assert names == ["greedy", *PROMISING[:2], *NOT_TRAINED, *PROMISING[2:]]


def test_the_first_method() -> None:
    assert first_method(METHODS, (), "builtin", None, NONE) == "draft"
    assert first_method(METHODS, NO_DRAFT, "builtin", None, NONE) == "lookup"
    assert first_method(METHODS, (), "big.gguf", "small.gguf", NONE) == "draft"
    # A trained drafter is loaded as a draft model is, and then nothing is there for `draft`.
    without = {"draft": "a head is loaded.", "tree": "a head is loaded."}
    assert first_method(METHODS, without, "big", "head", NONE) == next(iter(NOT_TRAINED))
    assert first_method(METHODS, (), "big.gguf", None, NONE) == "lookup"
    assert first_method(METHODS, {*NO_DRAFT, "lookup"}, "builtin", None, NONE) == "greedy"
    dear, cheap = (ModelInfo("m", pass_seconds=((1, 0.1), (8, seconds))) for seconds in (0.4, 0.15))
    assert first_method(METHODS, (), "big.gguf", "small.gguf", dear) == "greedy"
    assert "8 guesses takes as long as 4.4 plain ones" in why_plain(dear)
    assert first_method(METHODS, (), "big.gguf", "small.gguf", cheap) == "draft"
    assert not why_plain(cheap)
    leap = ModelInfo("m", pass_seconds=((1, 20.0), (2, 52.0), (4, 74.0), (8, 76.0), (16, 110.0)))
    assert first_method(METHODS, (), "q8.gguf", None, leap) == "lookup", "two nodes cost a leap, but sixteen pay on a copy"
    assert first_method({"soft": METHODS["lookup"]}, (), "builtin", None, NONE) == "soft"


def test_every_label_is_explained() -> None:
    assert {method.label for method in methods().values()} <= set(LABELS)


DRAFTING = [name for name, method in METHODS.items() if not method.undrafted]


@pytest.mark.parametrize("name", METHODS)
def test_every_method_has_a_length_or_a_reason(name: str) -> None:
    method = METHODS[name]
    marked = [param for param in method.params if param["length"]]
    assert bool(marked) != bool(method.undrafted)
    if not marked:
        assert draft_length(method, {}) is None
        assert why_no_length(method).startswith(f"{name} drafts nothing: ")
    conditions = [param["length"] for param in marked]
    assert conditions[-1:] in ([], [True])
    for condition in conditions[:-1]:
        setting, value = condition.split("=")
        assert value in next(param["choices"] for param in method.params if param["name"] == setting)
    for param in marked:
        assert param["type"] == "int"
        assert param["low"] is not None
        assert param["high"] is not None


@pytest.mark.parametrize("name", DRAFTING)
@pytest.mark.parametrize("direction", [1, -1])
def test_the_keys_reach_the_limits_and_stay_there(name: str, direction: int) -> None:
    method = METHODS[name]
    settings: dict[str, int] = {}
    values: list[int] = []
    for _ in range(40):
        length = draft_length(method, settings)
        assert length is not None
        settings = {length.setting: length.next_size(direction)}
        parse_params(get(name), settings)  # the method takes it
        if settings[length.setting] == length.value:
            break
        values.append(settings[length.setting])
    assert length is not None
    assert values == sorted(values, reverse=direction < 0)
    assert length.value == (length.high if direction > 0 else length.low)


def test_a_schedule_decides_which_setting_counts() -> None:
    draft = METHODS["draft"]
    confident, constant = draft_length(draft, {}), draft_length(draft, {"schedule": "constant"})
    assert confident is not None
    assert constant is not None
    assert (confident.setting, constant.setting) == ("most", "tokens")
    reference = draft_length(METHODS["lookup"], {"variant": "reference", "tokens": 7})
    assert reference == DraftLength("tokens", 7, 1, 256)
