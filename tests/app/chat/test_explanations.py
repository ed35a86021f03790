"""Every method is explained."""

from __future__ import annotations

import re

import pytest

from specchat.app.chat.explanations import EXPLAIN, LABELS
from specchat.decoders.registry import BUILT_IN, methods


def test_every_method_of_ours_and_no_other_is_explained() -> None:
    assert set(EXPLAIN) == set(BUILT_IN)


@pytest.mark.parametrize("name", EXPLAIN)
def test_an_explanation_is_two_to_four_sentences(name: str) -> None:
    text = EXPLAIN[name]
    assert 2 <= len(re.findall(r"[.](?: |$)", text)) <= 4
    assert 100 <= len(text) <= 420
    assert text == " ".join(text.split())
    assert text != methods()[name].summary


def test_every_label_is_explained() -> None:
    assert {method.label for method in methods().values()} <= set(LABELS)
