"""Fill-in-the-middle prompts: the ids are those that each format's own documentation gives, on both runtimes."""

from __future__ import annotations

import functools
import importlib.util
import shutil
from pathlib import Path
from typing import Any

import pytest

from specchat.backends import UserError
from specchat.backends.base import Model
from specchat.backends.hf.model import load_transformers
from specchat.backends.infill import Gap
from specchat.backends.llama.model import load_llama
from specchat.backends.options import LoadOptions
from specchat.decoders import Conversation, Generation

from ..fakes.models.coders import BYTE_LEVEL, SENTENCEPIECE, coder, coder_gguf, processor
from ..fakes.models.llama_tiny import FLOAT32, needs_llama, room
from ..fakes.models.tiny import tiny_model

BEFORE, AFTER = "def add(a, b):\n    return ", "\n\nprint(add(1,  2))\n"

DOCUMENTED = {
    # huggingface.co/Qwen/Qwen2.5-Coder-7B, github.com/QwenLM/Qwen2.5-Coder: file-level code completion
    "qwen": "<|fim_prefix|>{before}<|fim_suffix|>{after}<|fim_middle|>",
    # huggingface.co/bigcode/starcoder: fill-in-the-middle
    "starcoder": "<fim_prefix>{before}<fim_suffix>{after}<fim_middle>",
    "santacoder": "<fim-prefix>{before}<fim-suffix>{after}<fim-middle>",
    # github.com/deepseek-ai/DeepSeek-Coder: code insertion
    "deepseek": "<｜fim▁begin｜>{before}<｜fim▁hole｜>{after}<｜fim▁end｜>",
    # huggingface.co/ByteDance-Seed/Seed-Coder-8B-Base
    "seed": "<[fim-suffix]>{after}<[fim-prefix]>{before}<[fim-middle]>",
    # github.com/mistralai/cookbook, concept-deep-dive/tokenization
    "tekken": "[SUFFIX]{after}[PREFIX]{before}",
}

RUNTIMES = ["transformers", pytest.param("llama.cpp", marks=needs_llama)]

needs_sentencepiece = pytest.mark.skipif(
    importlib.util.find_spec("sentencepiece") is None, reason="sentencepiece is not installed"
)


@functools.cache
def model(family: str, runtime: str = "transformers") -> Model:
    if runtime == "transformers":
        return load_transformers(coder(family), family, LoadOptions(device="cpu"))
    return load_llama(coder_gguf(family), family, FLOAT32)


def raw(family: str) -> Any:
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(coder(family))


def written(family: str, before: str, after: str) -> list[int]:
    """What the documentation's recipe gives: the format's text, through the tokenizer."""
    return list(raw(family).encode(DOCUMENTED[family].format(before=before, after=after)))


@pytest.mark.parametrize("runtime", RUNTIMES)
@pytest.mark.parametrize("family", BYTE_LEVEL)
def test_ids_are_those_of_the_documented_text(family: str, runtime: str) -> None:
    found = model(family, runtime)
    assert found.encode_gap(BEFORE, AFTER).ids == written(family, BEFORE, AFTER)
    assert found.encode_gap("", AFTER).ids == written(family, "", AFTER)
    assert found.encode_gap(BEFORE, "").ids == written(family, BEFORE, "")
    ends = found.encode_gap("", "").ends
    # Each name of the list ends the answer, but for one that Mistral's tokenizers have and do not use.
    assert {found.pieces()[i] for i in ends} == set(BYTE_LEVEL[family]) - {"[MIDDLE]"}


def metas(family: str, before: str, after: str) -> list[int]:
    """As Meta's and Mistral's own code has it: the text before the gap gets SentencePiece's space, the one after it does not
    (`encode_infilling` encodes it behind a ☺ and takes that away)."""
    sp = processor(coder(family))
    assert len(sp.encode("☺")) == 2
    bare = sp.encode("☺" + after)[2:]
    if family == "code-llama":  # github.com/meta-llama/codellama, llama/generation.py, infilling_prompt_tokens
        pre, suf, mid = (sp.piece_to_id(f"▁<{name}>") for name in ("PRE", "SUF", "MID"))
        return [sp.bos_id(), pre, *sp.encode(before), suf, *bare, mid]
    # github.com/mistralai/mistral-common, tokens/tokenizers/instruct.py, encode_fim
    return [sp.bos_id(), sp.piece_to_id("[SUFFIX]"), *bare, sp.piece_to_id("[PREFIX]"), *sp.encode(before)]


@needs_sentencepiece
@pytest.mark.parametrize("runtime", RUNTIMES)
@pytest.mark.parametrize("family", SENTENCEPIECE)
def test_ids_of_sentencepiece_are_those_of_the_makers_own_code(family: str, runtime: str) -> None:
    found = model(family, runtime)
    for before, after in [(BEFORE, AFTER), ("while lit", "x"), ("  x", "  return lamp"), ("a\n", " b☺é")]:
        assert found.encode_gap(before, after).ids == metas(family, before, after), (before, after)


@pytest.mark.parametrize("runtime", RUNTIMES)
@pytest.mark.parametrize("family", ["qwen", "starcoder"])
def test_code_that_spells_the_tokens_stays_code(family: str, runtime: str) -> None:
    found = model(family, runtime)
    names = "".join(BYTE_LEVEL[family])
    gap = found.encode_gap(f"a{names}b</s>", f"{names} <|user|>")
    assert [gap.ids.count(mark) for mark in gap.marks if mark is not None] == [1, 1, 1]
    assert not set(gap.before + gap.after) & {*gap.ends, *found.info.eos_ids}
    assert found.decode(gap.before) == f"a{names}b</s>"
    assert found.decode(gap.after) == f"{names} <|user|>"


def test_a_model_without_the_tokens_says_what_would_work() -> None:
    with pytest.raises(UserError, match=r"^llama has no fill-in-the-middle tokens, .* --model Qwen/Qwen2\.5-Coder"):
        tiny_model("llama").encode_gap("a", "b")


@needs_llama
@pytest.mark.parametrize("keys", ["fim_{}_token_id", "{}_token_id"])
def test_a_gguf_file_may_tell_the_tokens_by_their_ids(keys: str, tmp_path: Path) -> None:
    import gguf

    words = ("pre", "suf", "mid") if keys.startswith("fim") else ("prefix", "suffix", "middle")
    file = tmp_path / "told.gguf"
    wanted = dict(zip(words, (300, 301, 302), strict=True))
    source = room() / "tiny-told"
    if not source.exists():
        shutil.copytree(coder("seed"), source)
    from unittest.mock import patch

    from specchat.builtin import gguf_export

    plain = gguf_export.add_tokenizer

    def told(writer: Any, folder: Path, config: dict[str, Any]) -> None:
        plain(writer, folder, config)
        for word, i in wanted.items():
            writer.add_uint32(f"tokenizer.ggml.{keys.format(word)}", i)

    assert gguf is not None
    with patch.object(gguf_export, "add_tokenizer", told):
        gguf_export.export(source, file, "F32")
    found = load_llama(file, "told", FLOAT32)
    gap = found.encode_gap(BEFORE, AFTER)
    assert gap.ids == [*gap.head, 300, *gap.before, 301, *gap.after, 302]
    found.close()


def toy(before: int, after: int) -> Gap:
    return Gap((1,), (7, 8, 9), tuple(range(100, 100 + before)), tuple(range(500, 500 + after)), False, (7, 8, 9))


@pytest.mark.parametrize(
    ("before", "after", "left"),
    [
        (40, 40, (40, 40)),  # fits
        (200, 200, (72, 24)),  # three parts of four for what stands before
        (200, 10, (86, 10)),  # what one does not need goes to the other
        (10, 200, (10, 86)),
        (0, 200, (0, 96)),
    ],
)
def test_a_long_text_keeps_what_is_next_to_the_gap(before: int, after: int, left: tuple[int, int]) -> None:
    gap = toy(before, after).fitted(200, 100)
    assert (len(gap.before), len(gap.after)) == left
    assert gap.before == tuple(range(100, 100 + before))[before - left[0] :]
    assert gap.after == tuple(range(500, 500 + after))[: left[1]]
    assert gap.dropped == (before - left[0], after - left[1])
    assert len(gap.ids) + 100 <= 200
    assert gap.fitted(200, 100).dropped == (0, 0)


def test_an_answer_gets_at_most_half_of_the_context() -> None:
    assert len(toy(500, 500).fitted(100).ids) == 50
    assert len(toy(500, 500).fitted(1000).ids) == 1000 - 256
    assert len(toy(500, 500).fitted(100, 10_000).ids) == 50
    assert toy(5, 5).fitted(2).dropped == (5, 5)


@pytest.mark.parametrize("method", ["greedy", "lookup", "lookahead", "jacobi"])
def test_an_end_of_the_format_ends_the_answer_and_is_not_shown(method: str) -> None:
    found = model("qwen")
    gap = found.encode_gap(BEFORE, AFTER)
    plain = Generation(Conversation(found), gap.ids, max_tokens=12)
    text = "".join(step.text for step in plain) + plain.flush()
    assert plain.finish_reason == "length"
    # Whatever the model writes as its sixth token is taken for an end.
    end = plain.answer[5]
    at = plain.answer.index(end)
    ended = Generation(Conversation(found), gap.ids, method, max_tokens=12, ends=[end])
    shown = "".join(step.text for step in ended) + ended.flush()
    assert (ended.finish_reason, ended.answer) == ("eos", plain.answer[: at + 1])
    assert shown == found.decode(plain.answer[:at])
    assert text.startswith(shown)


@needs_sentencepiece
@pytest.mark.parametrize("runtime", RUNTIMES)
def test_a_space_that_an_answer_begins_with_is_shown(runtime: str) -> None:
    found = model("code-llama", runtime)
    gap = found.encode_gap(BEFORE, AFTER)
    generation = Generation(Conversation(found), gap.ids, max_tokens=8, ends=gap.ends, anchor=gap.anchor)
    text = "".join(step.text for step in generation) + generation.flush()
    answer = [i for i in generation.answer if i not in gap.ends]
    assert processor(coder("code-llama")).id_to_piece(answer[0]).startswith("▁")
    # Meta's decode_infilling keeps that space too; alone, SentencePiece drops it.
    assert text == f" {found.decode(answer)}"
