"""GGUF files over which llama.cpp would end the process are refused before it sees them."""

from __future__ import annotations

import math
import os
import re
from pathlib import Path
from typing import Any

import pytest

from specchat.backends import UserError
from specchat.backends.files.gguf_file import read_header
from specchat.backends.files.model_card import read_card
from specchat.backends.loading import builtin_gguf

from ...fakes.models.gguf_changes import changed, tokens

TOKENS = tokens(builtin_gguf())

HOSTILE: dict[str, tuple[dict[str, Any], str]] = {
    "alignment of 0": ({"general.alignment": 0}, "an alignment of 0"),
    "alignment of 1": ({"general.alignment": 1}, "misaligned weights, with an alignment of 1"),
    "alignment of 8": ({"general.alignment": 8}, "misaligned weights, with an alignment of 8"),
    "alignment of 2^31": ({"general.alignment": 1 << 31}, "incomplete"),
    "no layers": ({"llama.block_count": 0}, "block_count is 0"),
    "513 layers": ({"llama.block_count": 513}, "block_count is 513"),
    "2^31 layers": ({"llama.block_count": 1 << 31}, "block_count is 2147483648"),
    "layers of text": ({"llama.block_count": "2"}, "block_count is 2"),
    "more layers ahead than there are": ({"llama.nextn_predict_layers": 999}, "nextn_predict_layers is 999"),
    "epsilon of NaN": ({"llama.attention.layer_norm_rms_epsilon": math.nan}, "epsilon is nan"),
    "epsilon below 0": ({"llama.attention.layer_norm_rms_epsilon": -1.0}, "epsilon is -1"),
    "more experts used": ({"llama.expert_count": 4, "llama.expert_used_count": 8}, "expert_used_count is 8"),
    "experts of nobody": ({"llama.expert_used_count": 8}, "expert_used_count is 8"),
    "no experts used": ({"llama.expert_count": 4, "llama.expert_used_count": 0}, "expert_used_count is 0"),
    "too many experts": ({"llama.expert_count": 10**6, "llama.expert_used_count": 1}, "expert_count is 1000000"),
    "groups of no experts": ({"llama.expert_group_count": 2}, "expert_group_count is 2"),
    "groups that do not divide": (
        {"llama.expert_count": 4, "llama.expert_used_count": 1, "llama.expert_group_count": 3},
        "expert_group_count is 3",
    ),
    "a token twice": ({"tokenizer.ggml.tokens": [*TOKENS[:-1], TOKENS[7]]}, "contains a token twice"),
    "a token twice after a nul": ({"tokenizer.ggml.tokens": [*TOKENS[:-2], b"zz\0a", b"zz\0b"]}, "contains a token twice"),
    "unknown scaling": ({"llama.rope.scaling.type": "mine"}, "rope.scaling.type is mine"),
    "a base of NaN": ({"llama.rope.freq_base": math.nan}, "freq_base is nan"),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_what_would_end_the_process_is_a_sentence(case: str, tmp_path: Path) -> None:
    values, said = HOSTILE[case]
    file = changed(builtin_gguf(), tmp_path / "model.gguf", values)
    with pytest.raises(UserError, match=said) as caught:
        read_header(file)
    assert "\n" not in str(caught.value)
    assert str(caught.value).endswith(".")


def test_a_file_that_is_changed_in_nothing_is_good(tmp_path: Path) -> None:
    file = changed(builtin_gguf(), tmp_path / "model.gguf", {"tokenizer.ggml.tokens": TOKENS})
    assert read_header(file).metadata == read_header(builtin_gguf()).metadata
    assert file.read_bytes() == builtin_gguf().read_bytes()


def test_pipes_and_devices_are_sentences(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.gguf")
    (tmp_path / "loop.gguf").symlink_to("loop.gguf")
    (tmp_path / "zero.gguf").symlink_to("/dev/zero")
    for name, said in (("pipe", "not a regular file"), ("loop", "There is no file"), ("zero", "not a regular file")):
        file = tmp_path / f"{name}.gguf"
        with pytest.raises(UserError, match=said):
            read_header(file)
        assert read_card(file).problem


@pytest.mark.parametrize(
    ("data", "begins"),
    [
        (b"", "it is empty"),
        (b"<!DOCTYPE html>", "it starts with <!DO"),
        (b"\xff\xfe\x00b\x00", "it starts with the bytes ff fe 00 62"),
        (b"GG\nF", "it starts with the bytes 47 47 0a 46"),
    ],
)
def test_what_is_no_gguf_file_is_told_in_plain_words(data: bytes, begins: str, tmp_path: Path) -> None:
    (tmp_path / "model.gguf").write_bytes(data)
    with pytest.raises(UserError, match=re.escape(f"model.gguf is not a GGUF file ({begins}). Download it again, or convert")):
        read_header(tmp_path / "model.gguf")
