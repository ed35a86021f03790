"""GGUF files that are damaged, or something else, are refused before llama.cpp sees them."""

from __future__ import annotations

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
    "alignment of 2^31": ({"general.alignment": 1 << 31}, "incomplete"),
    "a kind of several": ({"general.type": [b"adapter"], "tokenizer.ggml.model": None}, "contains no tokenizer"),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_what_cannot_be_read_is_a_sentence(case: str, tmp_path: Path) -> None:
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
