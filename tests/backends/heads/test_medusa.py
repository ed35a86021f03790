"""Medusa heads in every published layout against plain torch, and those that are refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from specchat.backends import UserError

from ...fakes.drafters.head_files import WIDTH, load_weights, write_medusa
from ...fakes.drafters.heads import LAYERS, load_medusa
from ...fakes.models.tiny import VOCAB

LAYOUTS: dict[str, dict[str, Any]] = {
    "old": {},
    "prefixed": {"named": "prefixed", "heads": 5, "dtype": torch.bfloat16},
    "new": {"named": "new", "bias": False, "blocks": 2},
    "one LM head for all": {"named": "new", "shared": True, "heads": 4},
    "no blocks": {"blocks": 0},
    "a reduced vocabulary": {"named": "new", "drafted": 100},
    "a reduced vocabulary, the rows of all tokens": {"named": "new", "drafted": 100, "whole": True},
}


@pytest.mark.parametrize("layout", list(LAYOUTS))
def test_guesses_are_those_of_plain_torch(layout: str, tmp_path: Path) -> None:
    options = {"heads": 3, "blocks": 1, **LAYOUTS[layout]}
    folder = write_medusa(tmp_path / "medusa", **options)
    head = load_medusa(folder)
    assert (head.positions, head.info.kind, head.info.title, head.info.taps) == (
        options["heads"],
        "medusa",
        "Medusa",
        (LAYERS,),
    )
    weights = {name.removeprefix("medusa_heads."): t for name, t in load_weights(folder, "medusa_lm_head").items()}
    assert head.info.parameters == sum(t.numel() for name, t in weights.items() if name != "token_map")
    state = torch.randn(1, WIDTH, generator=torch.Generator().manual_seed(1))
    found = head.guess(state, 7, head.positions)
    assert found.positions == tuple(range(7, 7 + head.positions))
    for i in range(head.positions):
        x = state
        for j in range(options["blocks"]):
            at = f"blocks.{i}.layers.{j}" if options.get("named") == "new" else f"{i}.{j}.linear"
            bias = weights.get(f"{at}.bias")
            x = x + F.silu(F.linear(x, weights[f"{at}.weight"].float(), None if bias is None else bias.float()))
        old = f"{i}.{options['blocks']}.weight"
        name = next(name for name in (old, f"lm_heads.{i}.weight", "lm_head.weight") if name in weights)
        logits = F.linear(x, weights[name].float())
        if "token_map" in weights:
            logits = logits[:, weights["token_map"]] if options.get("whole") else logits
            logits = torch.full((1, VOCAB), -torch.inf).index_copy_(1, weights["token_map"], logits)
        torch.testing.assert_close(found.logits[i : i + 1], logits, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(head.guess(state, 7, 1).logits, found.logits[:1])
    head.close()
    with pytest.raises(UserError, match="no longer loaded"):
        head.guess(state, 7, 1)


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "width": ({"changes": {"0.1.weight": torch.ones(VOCAB, 48)}}, "hidden states 48 numbers wide, and those of target have 32"),
    "vocabulary": ({"vocab_size": 300}, "a vocabulary of 300 tokens, and target has 256. It was made for owner/base"),
    "missing": ({"changes": {"1.0.linear.weight": None}}, "missing 1 tensor .* such as 1.0.weight"),
    "no LM head": ({"named": "new", "changes": {"lm_heads.1.weight": None}}, "such as 1.lm_head.weight"),
    "shape": ({"changes": {"2.1.weight": torch.ones(100, 32)}}, r"2.lm_head.weight has the shape \[100, 32\]"),
    "unknown": ({"changes": {"0.norm.weight": torch.ones(32)}}, "does not know, such as 0.norm.weight"),
    "nan": ({"changes": {"0.0.linear.bias": torch.full((32,), torch.nan)}}, "0.0.bias holds numbers that are none"),
    "token_map": ({"drafted": 100, "changes": {"token_map": torch.zeros(100).long()}}, "its table token_map does not lead to"),
    "none": ({"heads": 0, "changes": {"x": torch.ones(1)}}, "says that it holds Medusa heads, but has none"),
}


@pytest.mark.parametrize("case", list(WRONG))
def test_wrong_heads_are_refused_in_one_sentence(case: str, tmp_path: Path) -> None:
    options, words = WRONG[case]
    with pytest.raises(UserError, match=words) as caught:
        load_medusa(write_medusa(tmp_path / "medusa", **options))
    assert "\n" not in str(caught.value)
