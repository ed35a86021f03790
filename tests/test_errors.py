"""What is said of a name that nobody knows."""

from __future__ import annotations

import pytest

from specchat.errors import did_you_mean

KEYS = ("theme", "max_tokens", "sampling.temperature", "sampling.top_p")


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("themes", "theme"),
        ("temp", "sampling.temperature"),
        ("temperature", "sampling.temperature"),
        ("samplng.top_p", "sampling.top_p"),
        ("sampling.topp", "sampling.top_p"),
        ("sampling.max_tokens", "max_tokens"),
    ],
)
def test_the_nearest_name_is_told(typed: str, meant: str) -> None:
    assert did_you_mean(typed, KEYS) == f"did you mean {meant}?"


@pytest.mark.parametrize("typed", ["temp", "sampling.temp"])
def test_of_several_that_are_begun_the_one_in_its_table_or_the_shortest_is_told(typed: str) -> None:
    assert did_you_mean(typed, ("system", "template_var", *KEYS)) == "did you mean sampling.temperature?"


def test_without_a_near_one_all_are_told_or_what_is_given_for_it() -> None:
    assert did_you_mean("zzz", ("a", "b")) == "choose from a, b."
    assert did_you_mean("zzz", ("a", "b"), "it has a and b.") == "it has a and b."
