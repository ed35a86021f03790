"""Tokens that look like tags: ordinary ones are text on both runtimes, what a template writes stays its own, and a grammar's
text is cut by the same vocabulary. The libraries' own tokenizers, which ids are compared with, are private fields."""

from __future__ import annotations

import ctypes
import json
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

from specchat.backends.codec import Codec
from specchat.backends.grammars.constraint import grammar, regex
from specchat.backends.grammars.matcher import Matcher
from specchat.backends.hf.tokenizer import TextCodec
from specchat.backends.llama.context import Runtime, Weights
from specchat.backends.llama.tokenizer import LlamaCodec

from ..fakes.models.gguf_changes import changed, tokens
from ..fakes.models.llama_tiny import VOCAB, gguf_of, needs_llama, tiny_folder

HTML = ("<table>", "</table>", "<td>", "</td>", "<s>", "</s>", "<b>", "</b>")
"""Ordinary tokens. `</s>` is an end to llama.cpp, whatever its type."""
MARKS = ("<start_of_turn>", "<end_of_turn>")
"""Control tokens."""
THOUGHT = ("<think>", "</think>")
"""Ordinary tokens that the template writes."""
NAMES = (*HTML, *MARKS, *THOUGHT)
FIRST = VOCAB - len(NAMES)
IDS = {name: FIRST + i for i, name in enumerate(NAMES)}
END = 2

TEMPLATE = (
    "{{ bos_token }}{% for m in messages %}<start_of_turn>{{ m.role }}\n"
    "{% if m.role == 'assistant' %}<think></think>{% endif %}{{ m.content }}<end_of_turn>\n{% endfor %}<start_of_turn>model\n"
)
WORDS = ("a", " b", "Hi", "\n", " ", "é", "日本", "<", ">", "</", "table>", "end_of_turn>", "|", "1.5", "x < y > z")

_PIECES = [b"<unk>", b"<bos>", b"<eos>", *(b"<0x%02X>" % byte for byte in range(256)), "▁".encode()]
_PIECES += [bytes([i]) for i in range(33, 127)] + ["▁a".encode(), "▁b".encode(), b"Hi"]


def _pieces() -> dict[str, Any]:
    """A vocabulary in the manner of SentencePiece, as Gemma's: no space put before a text."""
    rest = [f"piece{i}".encode() for i in range(FIRST - len(_PIECES))]
    return {
        "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.pre": "default",
        "tokenizer.ggml.merges": None,
        "tokenizer.ggml.tokens": [*_PIECES, *rest, *(name.encode() for name in NAMES)],
        "tokenizer.ggml.scores": [-float(i) for i in range(VOCAB)],
        "tokenizer.ggml.token_type": _types([2, 3, 3, *[6] * 256, *[1] * (FIRST - 259)]),
        "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.eos_token_id": END,
        "tokenizer.ggml.unknown_token_id": 0,
        "tokenizer.ggml.add_space_prefix": False,
    }


def _letters() -> dict[str, Any]:
    """The built-in model's vocabulary, of bytes, with the tags in place of its last tokens."""
    own = tokens(gguf_of(tiny_folder()))[:FIRST]
    special = [3 if name.startswith(b"<|") else 1 for name in own]
    return {
        "tokenizer.ggml.tokens": [*own, *(name.encode() for name in NAMES)],
        "tokenizer.ggml.token_type": _types(special),
    }


def _types(rest: list[int]) -> list[int]:
    return [*rest, *(3 if name in MARKS else 4 for name in NAMES)]


KINDS = {"pieces": _pieces, "letters": _letters}


def opened(folder: Path, kind: str, template: str = TEMPLATE, **more: Any) -> tuple[LlamaCodec, Weights]:
    """The tokenizer of a GGUF file made for the test."""
    values = KINDS[kind]() | {"tokenizer.chat_template": template} | more
    weights = Weights(changed(gguf_of(tiny_folder()), folder / "model.gguf", values), Runtime(), lambda _: True)
    return LlamaCodec(weights), weights


@pytest.fixture(params=[*KINDS, "transformers"])
def codec(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Codec]:
    """The same tags in three tokenizers: two in GGUF, one of transformers."""
    if request.param == "transformers":
        yield TextCodec(_folder(tmp_path), VOCAB)
        return
    pytest.importorskip("llama_cpp")
    codec, weights = opened(tmp_path, request.param)
    yield codec
    codec.close()
    weights.free()


def _folder(path: Path) -> Path:
    """A tokenizer of bytes with the tags as added tokens."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocab = {
        name: i for i, name in enumerate(["<unk>", "<bos>", "<eos>", *letters, *(f"piece{i}" for i in range(VOCAB))][:FIRST])
    }
    core = Tokenizer(models.BPE(vocab=vocab, merges=[], unk_token=None))
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    core.decoder = decoders.ByteLevel()
    core.add_tokens([AddedToken(name, special=name in MARKS, normalized=False) for name in NAMES])
    fast: Any = PreTrainedTokenizerFast
    tokenizer = fast(tokenizer_object=core, bos_token="<bos>", eos_token="<eos>")
    tokenizer.chat_template = TEMPLATE
    tokenizer.save_pretrained(path)
    codec = TextCodec(path, VOCAB)
    assert {name: codec._names[name] for name in NAMES} == IDS
    return path


def texts(count: int, words: tuple[str, ...] = (*WORDS, *NAMES)) -> Iterator[str]:
    rng = Random(5)
    for _ in range(count):
        yield "".join(rng.choices(words, k=rng.randint(1, 9)))


def test_typed_html_becomes_the_tokens_that_the_model_writes(codec: Codec) -> None:
    for text in texts(400):
        ids = codec.encode(text)
        assert codec.decode(ids) == text
        for name in (*HTML, *THOUGHT):
            assert ids.count(IDS[name]) == text.count(name), (text, name)
        assert not {IDS[name] for name in MARKS} & set(ids)


def test_a_message_cannot_write_what_its_template_writes(codec: Codec) -> None:
    for text in texts(400):
        ids = codec.encode_chat([{"role": "user", "content": text}, {"role": "assistant", "content": "Hi"}])
        assert [i for i in ids if i in {IDS[name] for name in (*MARKS, *THOUGHT)}] == [
            IDS[name]
            for name in ("<start_of_turn>", "<end_of_turn>", "<start_of_turn>", *THOUGHT, "<end_of_turn>", "<start_of_turn>")
        ]
        for name in HTML:
            assert ids.count(IDS[name]) == text.count(name), (text, name)
        assert codec.decode(ids) == f"user\n{text}\nassistant\n<think></think>Hi\nmodel"


def test_a_message_without_marks_is_tokenized_as_by_the_libraries(tmp_path: Path) -> None:
    """Whatever HTML is in it."""
    codec = TextCodec(_folder(tmp_path), VOCAB)
    for text in texts(300, (*WORDS, *HTML)):
        message = [{"role": "user", "content": text}]
        assert codec.encode_chat(message) == codec._tokenizer.apply_chat_template(message, return_dict=False), text


@needs_llama
@pytest.mark.parametrize("kind", KINDS)
def test_a_message_without_marks_is_tokenized_as_by_llama_cpp(kind: str, tmp_path: Path) -> None:
    codec, weights = opened(tmp_path, kind)
    lib = weights.lib

    def theirs(text: str) -> list[int]:
        out, data = (ctypes.c_int32 * 999)(), text.encode()
        return list(out[: lib.llama_tokenize(weights.vocab, data, len(data), out, 999, False, True)])

    bos = codec._name(codec._bos)
    for text in texts(300, (*WORDS, *HTML)):
        wanted = theirs(f"{bos}<start_of_turn>user\n{text}<end_of_turn>\n<start_of_turn>model")
        assert codec.encode_chat([{"role": "user", "content": text}]) == wanted, text
    codec.close()
    weights.free()


@needs_llama
@pytest.mark.parametrize("kind", KINDS)
def test_ends_are_those_that_the_file_names_or_types_as_control(kind: str, tmp_path: Path) -> None:
    strike, turn = IDS["</s>"], IDS["<end_of_turn>"]

    def ends(**more: Any) -> tuple[int, ...]:
        codec, weights = opened(tmp_path, kind, **more)
        weights.free()
        return codec.ends

    assert weights_take(tmp_path, kind, strike), "llama.cpp takes it for an end"
    assert ends() == (END, turn)
    assert ends(template=TEMPLATE + "</s>") == (END, turn, strike)[:1] + tuple(sorted((turn, strike)))
    assert strike in ends(**{"tokenizer.ggml.eot_token_id": strike})
    types = KINDS[kind]()["tokenizer.ggml.token_type"]
    types[strike] = 3
    assert strike in ends(**{"tokenizer.ggml.token_type": types})
    types[strike] = 1
    assert strike not in ends(**{"tokenizer.ggml.token_type": types})


def weights_take(folder: Path, kind: str, token: int) -> bool:
    """Whether llama.cpp ends an answer at a token."""
    _, weights = opened(folder, kind)
    found = bool(weights.lib.llama_vocab_is_eog(weights.vocab, token))
    weights.free()
    return found


def test_what_a_grammar_forces_is_cut_as_text(codec: Codec) -> None:
    codec.ends = codec.ends or (END,)
    tokenizer = codec.grammar_tokenizer()
    protected = {IDS[name] for name in (*MARKS, *THOUGHT)}
    for text in texts(200):
        matcher = Matcher(tokenizer, grammar(f"start: {json.dumps(text)}"))
        ids: list[int] = []
        while new := [token for token in matcher.forced(ids) if token not in matcher.ends]:
            assert matcher.allows([*ids, *new])
            ids += new
        assert codec.decode(ids) == text
        assert not protected & set(ids)
        for name in HTML:
            assert ids.count(IDS[name]) == text.count(name), text


def test_what_may_follow_is_what_the_mask_allows(codec: Codec) -> None:
    """A forced text may be cut in one way only, though the grammar takes its bytes in any."""
    codec.ends = codec.ends or (END,)
    rng = Random(7)
    for asked in (grammar('start: "Hi a b <table>"'), regex("(<td>|Hi|H)[a-z ]{1,3}(</td>| b)"), regex("1.5|1.6")):
        matcher = Matcher(codec.grammar_tokenizer(), asked)
        line: list[int] = []
        while not {*line} & {*matcher.ends}:
            bits = np.unpackbits(matcher.mask(line).view(np.uint8), bitorder="little")[:VOCAB]
            allowed = [*map(int, bits.nonzero()[0])]
            assert [token for token in range(VOCAB) if matcher.may_follow(line, token)] == allowed
            assert [t for t in range(VOCAB) if matcher.allows([*line, t])] == [t for t in allowed if t not in matcher.ends]
            line.append(rng.choice(allowed))


def test_a_tag_may_be_chosen_under_a_grammar(codec: Codec) -> None:
    codec.ends = codec.ends or (END,)
    matcher = Matcher(codec.grammar_tokenizer(), regex("(<table>|<td>)[a-z]+</td>"))
    assert matcher.allows([IDS["<td>"]])
    assert matcher.may_follow([], IDS["<table>"])
    assert not matcher.may_follow([], IDS["<b>"])


@needs_llama
@pytest.mark.parametrize("kind", KINDS)
def test_marks_that_a_file_types_as_text_are_told_of(kind: str, tmp_path: Path) -> None:
    """llama.cpp knows the ends of some families by name, and nothing else."""
    for name, told in (("", ""), ("<start_of_turn>", "types <start_of_turn> as ordinary text")):
        types: Any = KINDS[kind]()["tokenizer.ggml.token_type"]
        if name:
            types[IDS[name]] = 1
        codec, weights = opened(tmp_path, kind, TEMPLATE, **{"tokenizer.ggml.token_type": types})
        assert told in "".join(codec.notes)
        assert bool(told) == bool(codec.notes)
        codec.close()
        weights.free()
