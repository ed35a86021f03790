"""Which methods are offered, in which order, and what is known of them."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from specchat.app.chat.choosing import FEWEST_TOKENS, PROMISING, Speeds, first_method, shortlist, why_plain
from specchat.app.chat.methods import GROUPS, LABELS, get_method, known_methods
from specchat.decoders.registry import BUILT_IN, methods

METHODS = known_methods()
NOT_TRAINED = {name: "it needs a trained drafter." for name, method in METHODS.items() if method.group == "trained"}
NO_DRAFT = {"draft": "it needs a draft model.", "tree": "it needs a draft model.", **NOT_TRAINED}


def test_every_method_stands_with_its_group() -> None:
    groups = [method.group for method in METHODS.values()]
    assert groups == sorted(groups, key=list(GROUPS).index)
    assert {name for name, method in METHODS.items() if method.group == "plain"} == {"greedy", "recompute", "beam"}
    assert {name for name, method in METHODS.items() if method.group == "draft model"} == {"draft", "tree"}


def test_the_short_list() -> None:
    assert shortlist(METHODS, NOT_TRAINED, "builtin") == ["greedy", *PROMISING]
    assert shortlist(METHODS, NO_DRAFT, "Qwen/Qwen3-0.6B") == ["greedy", "lookup", "fusion", "auto"]
    assert "early-exit" in shortlist(METHODS, NO_DRAFT, "facebook/layerskip-llama3.2-1B")
    nothing = [name for name, method in METHODS.items() if method.group != "plain"]
    assert shortlist(METHODS, nothing, "mamba") == ["greedy"]


@pytest.mark.parametrize("model", ["builtin", "other"])
def test_the_short_list_has_nothing_lossy_slow_or_twice(model: str) -> None:
    names = shortlist(METHODS, (), model)
    assert len(set(names)) == len(names)
    assert all(METHODS[name].label == "identical" for name in names)
    assert not {"recompute", "beam"} & set(names)


def test_a_trained_drafter_promises_most_but_on_the_built_in_model() -> None:
    lossy = replace(METHODS["eagle"], name="worse", label="lossy")
    exits = {name for name in PROMISING if name != "early-exit"}
    names = shortlist({**METHODS, "worse": lossy}, (), "big")
    assert names == ["greedy", *NOT_TRAINED, *(name for name in PROMISING if name in exits)]
    names = shortlist({**METHODS, "worse": lossy}, (), "builtin")
    assert names == ["greedy", *PROMISING[:2], *NOT_TRAINED, *PROMISING[2:]]


def test_the_first_method() -> None:
    assert first_method(METHODS, (), "builtin", None, {}) == "draft"
    assert first_method(METHODS, NO_DRAFT, "builtin", None, {}) == "lookup"
    assert first_method(METHODS, (), "big.gguf", "small.gguf", {}) == "draft"
    # A trained drafter is loaded as a draft model is, and then nothing is there for `draft`.
    without = {"draft": "a head is loaded.", "tree": "a head is loaded."}
    assert first_method(METHODS, without, "big", "head", {}) == next(iter(NOT_TRAINED))
    assert first_method(METHODS, (), "big.gguf", None, {}) == "lookup"
    assert first_method(METHODS, {*NO_DRAFT, "lookup"}, "builtin", None, {}) == "greedy"
    dear, cheap = ({"pass_seconds": [[1, 0.1], [8, seconds]]} for seconds in (0.4, 0.15))
    assert first_method(METHODS, (), "big.gguf", "small.gguf", dear) == "greedy"
    assert "8 guesses takes as long as 4.4 plain ones" in why_plain(dear)
    assert first_method(METHODS, (), "big.gguf", "small.gguf", cheap) == "draft"
    assert not why_plain(cheap)
    leap = {"pass_seconds": [[1, 20.0], [2, 52.0], [4, 74.0], [8, 76.0], [16, 110.0]]}
    assert first_method(METHODS, (), "q8.gguf", None, leap) == "lookup", "two nodes cost a leap, but sixteen pay on a copy"
    assert first_method({"soft": METHODS["lookup"]}, (), "builtin", None, {}) == "soft"


def test_speeds_are_the_last_comparison_on_one_model() -> None:
    speeds = Speeds()
    assert speeds.ratio("one", "draft") is None
    speeds.add("one", "draft", 100, 0.7)
    speeds.add("one", "draft", 100, 2.1)
    speeds.add("one", "draft", FEWEST_TOKENS - 1, 9.0)
    speeds.add("one", "draft", 100, 0.0)  # not known
    assert speeds.ratio("one", "draft") == 2.1
    assert speeds.ratio("two", "draft") is None


# Every method is explained


@pytest.mark.parametrize("name", BUILT_IN)
def test_an_explanation_is_two_to_four_sentences(name: str) -> None:
    text = METHODS[name].explains
    assert 2 <= len(re.findall(r"[.](?: |$)", text)) <= 4
    assert 100 <= len(text) <= 420
    assert text == " ".join(text.split())
    assert [other for other in METHODS if METHODS[other].explains == text] == [name]
    assert text != METHODS[name].summary


def test_of_a_method_that_is_not_here_the_name_is_known() -> None:
    assert get_method("lookup") is METHODS["lookup"]
    assert (get_method("mine").name, get_method("mine").explains) == ("mine", "")


def test_every_label_is_explained() -> None:
    assert {method.label for method in methods().values()} <= set(LABELS)
