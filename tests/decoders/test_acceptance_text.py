"""Acceptance rules as text, and the label that a method bears under them."""

from __future__ import annotations

import pytest

from specchat.backends import Sampling, UserError
from specchat.decoders.acceptance import Acceptance
from specchat.decoders.base import label_of
from specchat.decoders.registry import get

HOT = Sampling(temperature=1.0)


@pytest.mark.parametrize(
    "text", ["exact", "rejection", "rejection:token", "soft:0.25", "soft:0", "typical:0.3,0.09", "typical:0.5,0"]
)
def test_a_rule_reads_what_it_writes(text: str) -> None:
    assert str(Acceptance.parse(text)) == text
    assert Acceptance.parse(f" {text.upper()} ") == Acceptance.parse(text)


def test_numbers_may_be_left_out() -> None:
    assert str(Acceptance.parse("soft")) == "soft:0.3"
    assert Acceptance.parse("typical") == Acceptance("typical")


@pytest.mark.parametrize("text", ["", "exactly", "soft:2", "soft:x", "soft:0.1,0.2", "typical:0.3", "typical:2,1", "exact:1"])
def test_anything_else_is_refused_with_what_there_is(text: str) -> None:
    with pytest.raises(UserError, match="exact, rejection, soft:BETA"):
        Acceptance.parse(text)


@pytest.mark.parametrize(
    ("method", "rule", "sampling", "label"),
    [
        ("draft", "exact", HOT, "identical"),
        ("draft", "rejection", HOT, "same distribution"),
        ("draft", "rejection", Sampling(), "identical"),
        ("draft", "soft:0.5", Sampling(), "lossy"),
        ("lookup", "typical", HOT, "lossy"),
        ("greedy", "soft:0.5", HOT, "identical"),
        ("recompute", "rejection", HOT, "identical"),
    ],
)
def test_the_label_says_what_holds(method: str, rule: str, sampling: Sampling, label: str) -> None:
    assert label_of(get(method), Acceptance.parse(rule), sampling) == label


def test_beam_search_keeps_its_own_label() -> None:
    beam = get("beam")
    assert label_of(beam, Acceptance("rejection"), HOT) == beam.label
