"""Every method is explained."""

from __future__ import annotations

import re

import pytest

from specchat.app.chat.methods import LABELS, known_methods, method_named
from specchat.decoders.registry import BUILT_IN, methods

METHODS = known_methods()


@pytest.mark.parametrize("name", BUILT_IN)
def test_an_explanation_is_two_to_four_sentences(name: str) -> None:
    text = METHODS[name].explains
    assert 2 <= len(re.findall(r"[.](?: |$)", text)) <= 4
    assert 100 <= len(text) <= 420
    assert text == " ".join(text.split())
    assert [other for other in METHODS if METHODS[other].explains == text] == [name]
    assert text != METHODS[name].summary


def test_of_a_method_that_is_not_here_the_name_is_known() -> None:
    assert method_named("lookup") is METHODS["lookup"]
    assert (method_named("mine").name, method_named("mine").explains) == ("mine", "")


def test_every_label_is_explained() -> None:
    assert {method.label for method in methods().values()} <= set(LABELS)
