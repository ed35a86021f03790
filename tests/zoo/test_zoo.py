"""Identical methods write the model's own text on every architecture that its library can build."""

from __future__ import annotations

from pathlib import Path

import pytest

from specchat.backends.hf.model import load_transformers
from specchat.backends.hf.proving.prove import CACHELESS, MASKED, MORE_KEPT, NOT_CAUSAL
from specchat.backends.options import LoadOptions
from specchat.tests.cases import FULL
from specchat.tests.zoo.build import Tiny
from specchat.tests.zoo.compare import SWITCHING, WRONG, totals
from specchat.tests.zoo.either import everything, outcomes

FEW = {
    "gemma4_text": [19],
    "bamba": [11],
    "recurrent_gemma": [14, 1],
    "bloom": [14],
    "llama-longrope-far.gguf": [251],
}
"""A sample: one architecture of each kind of attention, cache or position, and the lengths of the prompts to try."""


@pytest.mark.parametrize("name", everything() if FULL else FEW)
def test_writes_what_its_own_library_writes(name: str) -> None:
    few = ("greedy", "draft", "tree", SWITCHING)
    found = outcomes(name) if FULL else outcomes(name, few, FEW[name], seeds=(1,))
    wrong = [str(outcome) for outcome in found if outcome.verdict in WRONG]
    assert not wrong, "\n".join(wrong)
    if not FULL:
        assert any(outcome.verdict == "equal" for outcome in found), totals(found)


@pytest.mark.parametrize(("name", "why"), [("cpmant", NOT_CAUSAL), ("reformer", NOT_CAUSAL), ("xlnet", MASKED)])
def test_what_does_not_write_token_after_token_is_refused(name: str, why: str) -> None:
    (found,) = outcomes(name)
    assert (found.verdict, found.detail) == ("refused", why)


@pytest.mark.parametrize(
    ("name", "note"), [("openai-gpt", CACHELESS), ("deepseek_v32", MORE_KEPT.format("indexer keys"))], ids=("no cache", "more")
)
def test_a_cache_of_another_kind_is_told(name: str, note: str, tmp_path: Path) -> None:
    model = load_transformers(Tiny(name).save(tmp_path), name, LoadOptions(device="cpu", threads=1))
    assert not model.info.capabilities.chain
    assert note in model.info.notes


def test_layers_that_only_images_need_leave_trees_to_the_others() -> None:
    found = outcomes("mllama", ("greedy", "draft", "tree"), [14], seeds=())
    assert {(outcome.method, outcome.verdict) for outcome in found} == {(name, "equal") for name in ("greedy", "draft", "tree")}
