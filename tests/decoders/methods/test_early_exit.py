"""Early exit with single attention and MLP blocks left out: the plain method's tokens, and drafts that are worth something."""

from __future__ import annotations

from contextlib import closing

import pytest

from specchat.backends import LoadOptions, Model, UserError, load_model
from specchat.backends.base import Block
from specchat.decoders.methods.early_exit import parse_skip, skip_text

from ...fakes.answers import answered, plain
from ...fakes.models.llama_tiny import needs_llama
from ...fakes.models.tiny import tiny_model
from ...fakes.prompts import TEXTS

COPY = f"Repeat this text exactly: {TEXTS[0]}"


def test_of_themselves_half_of_the_layers_draft(builtin_model: Model) -> None:
    drafted = {}
    for layers in (0, 4, 7):
        settings = {"layers": layers, "tokens": 3, "schedule": "constant"}
        text = "What is the capital of France?"
        drafted[layers] = answered(builtin_model, text, "early-exit", settings, max_tokens=48)[0].totals.drafted
    assert drafted[0] == drafted[4] != drafted[7]


def test_lists() -> None:
    a2, m2 = Block(2, "attention"), Block(2, "mlp")
    assert parse_skip("2", 4) == parse_skip("2a,2m", 4) == parse_skip(" 2 , 2A ", 4) == (0, 1, 3)
    assert parse_skip("2a", 4) == (0, 1, m2, 3)
    assert parse_skip("2m,0", 4) == (1, a2, 3)
    assert parse_skip("1-2m,3", 4) == (0, Block(1, "attention"), a2)
    assert parse_skip("1 - 3", 4) == (0,)
    for text in ("2", "0-2", "1a,3m", "0a,1-2,3-4m", "2a,3m,4"):
        left_out = {(layer, kind) for layer in range(6) for kind in "am"}
        for part in parse_skip(text, 6):
            left_out -= {(part.layer, part.kind[0])} if isinstance(part, Block) else {(part, "a"), (part, "m")}
        assert skip_text(left_out) == text


@pytest.mark.parametrize("skip", ["", ",", "3,", "a", "3b", "a3", "3-", "-3", "3-4-5", "3 a m", "²", "1" * 5000, "3am", "drei"])
def test_what_is_no_list_is_told_how_to_write_one(skip: str) -> None:
    with pytest.raises(UserError, match=r"^early-exit\.skip is a list of layers and blocks such as 3a,4-6,7m .*\.$"):
        parse_skip(skip, 8)


@pytest.mark.parametrize("skip", ["8", "8a", "3-8", "0-99999", "5-3", "5-3m"])
def test_layers_that_are_not_there_are_named(skip: str) -> None:
    with pytest.raises(UserError, match=rf"^early-exit\.skip takes layers from 0 to 7 in ascending order, not '{skip}'\.$"):
        parse_skip(skip, 8)


def test_something_has_to_be_left() -> None:
    with pytest.raises(UserError, match="leaves nothing to run"):
        parse_skip("0-7a,0-7m", 8)


def test_a_model_whose_blocks_cannot_be_told_apart_says_so_and_goes_on() -> None:
    model = tiny_model("bloom")
    with pytest.raises(UserError, match="whole layers only"):
        answered(model, [5, 6, 7], "early-exit", {"skip": "1a"}, max_tokens=8)
    for skip in ("1", "1-2"):
        assert answered(model, [5, 6, 7], "early-exit", {"skip": skip}, max_tokens=8)[0].answer == plain(model, [5, 6, 7], 8)


@needs_llama
def test_llama_cpp_says_that_it_runs_all_layers() -> None:
    with (
        closing(load_model("builtin", LoadOptions(backend="llama.cpp"))) as model,
        pytest.raises(UserError, match=r"early-exit is not available here: llama\.cpp runs all layers of a model or none"),
    ):
        answered(model, COPY, "early-exit", max_tokens=8)
