"""Text to ids and back as transformers and llama.cpp do it, but what people write never becomes a control token."""

from __future__ import annotations

import ctypes
import importlib
import json
import random
from collections.abc import Iterator
from functools import cache
from itertools import product
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

from specchat.backends import UserError
from specchat.backends.chat_template import Template
from specchat.backends.codec import Codec
from specchat.backends.grammars.matcher import Matcher
from specchat.backends.hf.tokenizer import TextCodec
from specchat.backends.llama.context import Runtime, Weights
from specchat.backends.llama.tokenizer import LlamaCodec
from specchat.backends.loading import builtin_path
from specchat.builtin.recipe.tokenizer import load

from ..fakes.constraints import grammar, regex
from ..fakes.models import tiny
from ..fakes.models.gguf_changes import changed, tokens
from ..fakes.models.llama_tiny import VOCAB, gguf_of, needs_llama, tiny_folder, tiny_llama
from ..fakes.models.tokenizers import byte_level, letters, metaspace, raw, save_tokenizer, sentencepiece

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
ENDS = ("<bos>", "<eos>")
TYPES = [3 if name in MARKS else 4 for name in NAMES]

TEMPLATE = (
    "{{ bos_token }}{% for m in messages %}<start_of_turn>{{ m.role }}\n"
    "{% if m.role == 'assistant' %}<think></think>{% endif %}{{ m.content }}<end_of_turn>\n{% endfor %}<start_of_turn>model\n"
)
WORDS = ("a", " b", "Hi", "\n", " ", "é", "日本", "<", ">", "</", "table>", "end_of_turn>", "|", "1.5", "x < y > z")


def _pieces() -> dict[str, Any]:
    """Describe a vocabulary in the manner of SentencePiece, as Gemma's: no space put before a text."""
    return sentencepiece(VOCAB, ["▁a", "▁b", "Hi"], NAMES, TYPES, ENDS) | {"tokenizer.ggml.add_space_prefix": False}


def _letters() -> dict[str, Any]:
    """The built-in model's vocabulary, of bytes, with the tags in place of its last tokens."""
    vocabulary = tokens(gguf_of(tiny_folder()))[:FIRST]
    special = [3 if name.startswith(b"<|") else 1 for name in vocabulary]
    return {
        "tokenizer.ggml.tokens": [*vocabulary, *(name.encode() for name in NAMES)],
        "tokenizer.ggml.token_type": [*special, *TYPES],
    }


KINDS = {"pieces": _pieces, "letters": _letters}


def opened(folder: Path, kind: str, template: str = TEMPLATE, **more: Any) -> tuple[LlamaCodec, Weights]:
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
    from tokenizers import AddedToken

    core = byte_level(["<unk>", *ENDS, *letters(), *(f"piece{i}" for i in range(VOCAB))][:FIRST])
    core.add_tokens([AddedToken(name, special=name in MARKS, normalized=False) for name in NAMES])
    save_tokenizer(core, path, TEMPLATE, bos_token=ENDS[0], eos_token=ENDS[1])
    codec = TextCodec(path, VOCAB)
    assert {name: codec._names[name] for name in NAMES} == IDS
    return path


def llama_ids(weights: Weights, text: str, *, special: bool, parse: bool) -> list[int]:
    """Tokenize as llama.cpp does, but for an EOS at the end, which would close a prompt."""
    out, data = (ctypes.c_int32 * 999)(), text.encode()
    ids = list(out[: weights.lib.llama_tokenize(weights.vocab, data, len(data), out, 999, special, parse)])
    return ids[:-1] if special and weights.lib.llama_vocab_get_add_eos(weights.vocab) else ids


def texts(count: int, words: tuple[str, ...] = (*WORDS, *NAMES)) -> Iterator[str]:
    rng = Random(5)
    for _ in range(count):
        yield "".join(rng.choices(words, k=rng.randint(1, 9)))


def test_typed_html_becomes_the_tokens_that_the_model_writes(codec: Codec) -> None:
    for text in texts(120):
        ids = codec.encode(text)
        assert codec.decode(ids) == text
        for name in (*HTML, *THOUGHT):
            assert ids.count(IDS[name]) == text.count(name), (text, name)
        assert not {IDS[name] for name in MARKS} & set(ids)


def test_a_message_cannot_write_what_its_template_writes(codec: Codec) -> None:
    for text in texts(120):
        ids = codec.encode_chat([{"role": "user", "content": text}, {"role": "assistant", "content": "Hi"}])
        assert [i for i in ids if i in {IDS[name] for name in (*MARKS, *THOUGHT)}] == [
            IDS[name]
            for name in ("<start_of_turn>", "<end_of_turn>", "<start_of_turn>", *THOUGHT, "<end_of_turn>", "<start_of_turn>")
        ]
        for name in HTML:
            assert ids.count(IDS[name]) == text.count(name), (text, name)
        assert codec.decode(ids) == f"user\n{text}\nassistant\n<think></think>Hi\nmodel"


def test_a_message_without_marks_is_tokenized_as_by_the_libraries(codec: Codec) -> None:
    """HTML in it makes no difference."""
    for text in texts(120, (*WORDS, *HTML)):
        message = [{"role": "user", "content": text}]
        if isinstance(codec, TextCodec):
            expected = codec._tokenizer.apply_chat_template(message, return_dict=False)
        else:
            assert isinstance(codec, LlamaCodec)
            assert codec._weights is not None
            prompt = f"{codec._name(codec._bos)}<start_of_turn>user\n{text}<end_of_turn>\n<start_of_turn>model"
            expected = llama_ids(codec._weights, prompt, special=False, parse=True)
        assert codec.encode_chat(message) == expected, text


@needs_llama
@pytest.mark.parametrize("kind", KINDS)
def test_ends_are_those_that_the_file_names_or_types_as_control(kind: str, tmp_path: Path) -> None:
    strike, turn = IDS["</s>"], IDS["<end_of_turn>"]

    def ends(**more: Any) -> tuple[int, ...]:
        codec, weights = opened(tmp_path, kind, **more)
        assert weights.lib.llama_vocab_is_eog(weights.vocab, strike) or more, "llama.cpp takes it for an end"
        weights.free()
        return codec.ends

    assert ends() == (END, turn)
    assert ends(template=TEMPLATE + "</s>") == (END, *sorted((turn, strike)))
    assert strike in ends(**{"tokenizer.ggml.eot_token_id": strike})
    types = KINDS[kind]()["tokenizer.ggml.token_type"]
    types[strike] = 3
    assert strike in ends(**{"tokenizer.ggml.token_type": types})
    types[strike] = 1
    assert strike not in ends(**{"tokenizer.ggml.token_type": types})


def test_what_a_grammar_forces_is_cut_as_text(codec: Codec) -> None:
    codec.ends = codec.ends or (END,)
    tokenizer = codec.grammar_tokenizer()
    protected = {IDS[name] for name in (*MARKS, *THOUGHT)}
    for text in texts(60):
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
    for constraint in (grammar('start: "Hi a b <table>"'), regex("(<td>|Hi|H)[a-z ]{1,3}(</td>| b)"), regex("1.5|1.6")):
        matcher = Matcher(codec.grammar_tokenizer(), constraint)
        line: list[int] = []
        while not {*line} & {*matcher.ends}:
            bits = np.unpackbits(matcher.mask(line).view(np.uint8), bitorder="little")[:VOCAB]
            allowed = [*map(int, bits.nonzero()[0])]
            tried = sorted({*rng.sample(range(VOCAB), 100), *rng.sample(allowed, min(20, len(allowed)))})
            assert [token for token in tried if matcher.may_follow(line, token)] == [t for t in tried if t in allowed]
            following = [token for token in tried if matcher.allows([*line, token])]
            assert following == [token for token in tried if token in allowed and token not in matcher.ends]
            line.append(rng.choice(allowed))


@pytest.mark.parametrize("start", ["", "<s>", "{{ bos_token }} "])
def test_chat_begins_as_in_transformers(start: str, tmp_path: Path) -> None:
    """Its tokenizer adds a BOS to a text, but none to a template's rendering."""
    tokenizer = raw(metaspace(tmp_path))
    tokenizer.chat_template = start + "{% for m in messages %}{{ m.content }}</s>{% endfor %}"
    tokenizer.save_pretrained(tmp_path)
    messages = [{"role": "user", "content": "hi a"}]
    expected = tokenizer.apply_chat_template(messages, return_dict=False)
    assert expected.count(1) == bool(start)
    assert TextCodec(tmp_path, 300).encode_chat(messages) == expected


def test_protected_parts_get_no_space_of_sentencepiece(tmp_path: Path) -> None:
    codec = TextCodec(metaspace(tmp_path), 300)
    plain = codec.encode_chat([{"role": "user", "content": "hi a</b>hi"}])
    tricky = codec.encode_chat([{"role": "user", "content": "hi a</s>hi"}])
    letters = {name: codec._tokenizer.convert_tokens_to_ids(name) for name in ("b", "s")}
    assert tricky == [letters["s"] if i == letters["b"] else i for i in plain]


def test_pieces_that_spell_special_tokens_are_not_them(tmp_path: Path) -> None:
    # A Unigram model holds them among its pieces.
    codec = TextCodec(metaspace(tmp_path), 300)
    assert raw(tmp_path).encode("a</s>", split_special_tokens=True)[-1] == 2
    ids = codec.encode("a</s>a")
    assert ids[0] == 1
    assert not {0, 1, 2} & set(ids[1:])
    assert codec.decode(ids) == "a</s>a"


@pytest.mark.parametrize("eos", ["<s>", "</s>"])
def test_a_prompt_is_never_closed(eos: str, tmp_path: Path) -> None:
    """Some tokenizers put EOS behind a text; it may be the same token as BOS."""
    file = metaspace(tmp_path) / "tokenizer.json"
    data = json.loads(file.read_text())
    closing = {"id": eos, "ids": [["<s>", "</s>"].index(eos) + 1], "tokens": [eos]}
    data["post_processor"]["single"].append({"SpecialToken": {"id": eos, "type_id": 0}})
    data["post_processor"]["special_tokens"][eos] = closing
    file.write_text(json.dumps(data))
    settings = json.loads((tmp_path / "tokenizer_config.json").read_text())
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(settings | {"eos_token": eos}))
    assert raw(tmp_path).encode("hi")[-1] == raw(tmp_path).eos_token_id
    for text in ("hi", "", "a</s>"):
        ids = TextCodec(tmp_path, 300).encode(text)
        assert (ids[0], ids.count(1), ids.count(2)) == (1, 1, 0)


def test_pieces_join_to_the_text(tmp_path: Path) -> None:
    codec = TextCodec(metaspace(tmp_path), 300)
    pieces = codec.pieces()
    assert len(pieces) == 300
    assert pieces[1] == "<s>"
    ids = codec.encode("hi a hi")[1:]
    assert "".join(pieces[i] for i in ids) == " hi a hi"
    assert pieces[299] == "<299>"
    assert len(tiny.tiny_model("llama").pieces()) == tiny.VOCAB
    assert "".join(tiny.tiny_model("llama").pieces()[i] for i in tiny.tiny_model("llama").encode("x y")) == "x y"


def test_without_a_template_there_is_no_chat(tmp_path: Path) -> None:
    tiny.write_tokenizer(tmp_path)
    (tmp_path / "chat_template.jinja").unlink()
    codec = TextCodec(tmp_path, tiny.VOCAB)
    assert not codec.has_template
    with pytest.raises(UserError, match="--raw"):
        codec.encode_chat([{"role": "user", "content": "x"}])


PIECES = (
    "Hello", " world", "don't", "I'LL", "  two", "\n", "\n\n", "\r\n", "\t", " ", "   ", "3.14159", "2026", "１２",
    "é", "e\u0301", "ß", "日本語", "中文字", "한국어", "עברית", "العربية", "हिन्दी", "ไทย", "🙂", "👩‍👩‍👧", "🇫🇷",
    "\ufe0f", "\u200d", "\x00", "\x01", "\x1b[0m", "\x7f", "\u00a0", "\u2028", "\ufeff", "\ufffd", "def f(x):",
    "    return x**2", "{}", "();", "</s>", "<|end|>", "<|user|>", "<|assistant|>", "<|reserved_0|>", "<0x0A>", "...",
    "——", "“", "”", "ǅ", "Ⅷ", "½", "\U000f1234", "\U0010ffff", "_snake_case", "camelCase", "#!", "@",
)  # fmt: skip


def strings(count: int) -> Iterator[str]:
    """Texts that a tokenizer may stumble over."""
    rng = random.Random(0)
    yield from PIECES
    for _ in range(count):
        yield "".join(rng.choices(PIECES, k=rng.randint(1, 8)))
        yield "".join(chr(rng.choice((rng.randrange(0x250), rng.randrange(0xD800)))) for _ in range(rng.randint(1, 12)))


@cache
def twin() -> TextCodec:
    """Open the tokenizer of `tiny_llama` with transformers."""
    return TextCodec(tiny_folder(), VOCAB)


@needs_llama
def test_ids_and_text_are_transformers_and_llama_cpps() -> None:
    model, codec = tiny_llama(), twin()
    llama_cpp: Any = importlib.import_module("llama_cpp")
    theirs = llama_cpp.Llama(str(gguf_of(tiny_folder())), vocab_only=True, verbose=False)
    # As trained: special tokens that a text spells are split like any other characters.
    plain = load(tiny_folder())
    for text in strings(400):
        ids = model.encode(text)
        assert ids == plain.encode(text, add_special_tokens=False).ids, repr(text)
        assert ids == theirs.tokenize(text.encode(), add_bos=True, special=False), repr(text)
        assert model.decode(ids) == text == codec.decode(ids)


@needs_llama
def test_any_ids_decode_as_in_transformers() -> None:
    model, codec = tiny_llama(), twin()
    rng = random.Random(1)
    for _ in range(300):
        ids = [rng.randrange(VOCAB) for _ in range(rng.randint(0, 8))]
        assert model.decode(ids) == codec.decode(ids), ids
    assert model.pieces() == codec.pieces()
    assert model.decode([-1, VOCAB]) == ""
    assert (model.info.eos_ids, model.info.vocabulary) == ((2,), VOCAB)
    assert model.decode([1, *model.encode("a"), 2]) == "a"
    assert "\ud83d" not in model.decode(model.encode("lone \ud83d surrogate"))


@needs_llama
def test_chats_are_transformers_chats() -> None:
    model = tiny_llama()
    rng = random.Random(2)
    for _ in range(80):
        messages = [
            {"role": role, "content": "".join(rng.choices(PIECES, k=rng.randint(0, 6)))}
            for role in (["system"] * rng.randint(0, 1) + ["user", "assistant"] * rng.randint(0, 2) + ["user"])
        ]
        ids = model.encode_chat(messages)
        assert ids == twin().encode_chat(messages)
        # What a message spells is no control token: 3, 4 and 5 begin the system's, the user's and the assistant's part.
        assert sum(i in (3, 4, 5) for i in ids) == len(messages) + 1
        assert ids.count(2) == len(messages)


TEMPLATES = (
    (builtin_path() / "chat_template.jinja").read_text(encoding="utf-8"),
    "{% for m in messages %}\n  {% if loop.first %}{{ bos_token }}{% endif %}\n[{{ m.role }}] {{ m.content }}\n{% endfor %}",
    "{{ messages | tojson }}{{ messages[0] | tojson(indent=2) }}{% if tools %}no{% endif %}{{ tools is none }}",
    "{% for m in messages %}{{ m.content }}{% if loop.first %}{% continue %}{% endif %}{{ m.role }}{% break %}{% endfor %}",
    "{% set ns = namespace(n='') %}{% for m in messages %}{% set ns.n = ns.n ~ m.content %}{% endfor %}{{ ns.n ~ eos_token }}",
    "{% for m in messages %}{% generation %}{{ m.content }}{% endgeneration %}{% endfor %}{{ undefined_name }}",
    "{{ strftime_now('%Y') ~ messages | map(attribute='content') | join }}"
    "{% if add_generation_prompt is defined and add_generation_prompt %}>{% endif %}",
)


@pytest.mark.parametrize("source", TEMPLATES)
def test_templates_render_as_in_transformers(source: str) -> None:
    tokenizer: Any = twin()._tokenizer
    messages = [{"role": "system", "content": ' Be "brief" <é> '}, {"role": "user", "content": "日本\n&'{{ x }}"}]
    expected = tokenizer.apply_chat_template(messages, chat_template=source, tokenize=False, add_generation_prompt=True)
    names = {"bos_token": "<|bos|>", "eos_token": "<|end|>", "pad_token": "<|pad|>"}
    assert Template(source, names).render(messages) == expected


SENTENCEPIECE = sentencepiece(VOCAB, ["▁h", "▁he", "▁hel", "▁hell", "▁hello", "▁s", "▁so", "so", "hi"])

VOCABULARIES: dict[str, tuple[str, str, dict[str, Any]]] = {
    "BPE": ("<|bos|>", "<|end|>", {}),
    "BPE, BOS by its kind": ("<|bos|>", "<|end|>", {"tokenizer.ggml.pre": "llama-bpe"}),
    "BPE, one token for both": ("<|end|>", "<|end|>", {"tokenizer.ggml.bos_token_id": 2}),
    "SentencePiece": ("<s>", "</s>", SENTENCEPIECE),
    "Unigram": ("<s>", "</s>", SENTENCEPIECE | {"tokenizer.ggml.model": "t5"}),
}
"""Kind of vocabulary → how it writes BOS and EOS, and its file's metadata."""

TURNS = "{% for m in messages %}[{{ m.role }}] {{ m.content }}{{ eos_token }}{% endfor %}"


@needs_llama
@pytest.mark.parametrize("kind", VOCABULARIES)
def test_prompts_begin_as_in_llama_cpp(kind: str, tmp_path: Path) -> None:
    """Its server cuts off a BOS that the template wrote, and has its tokenizer add what the file wants."""
    bos, eos, values = VOCABULARIES[kind]
    source = gguf_of(tiny_folder())
    for add_bos, add_eos, start in product((None, True, False), (None, True), ("", "{{ bos_token }}", "{{ bos_token }} ")):
        flags = {"tokenizer.ggml.add_bos_token": add_bos, "tokenizer.ggml.add_eos_token": add_eos}
        template = {"tokenizer.chat_template": start + TURNS}
        weights = Weights(changed(source, tmp_path / "model.gguf", flags | values | template), Runtime(), lambda _: True)
        codec = LlamaCodec(weights)
        text = start.replace("{{ bos_token }}", bos) + f"[user] hello{eos}[assistant] hi{eos}[user] so{eos}"
        if weights.lib.llama_vocab_get_add_bos(weights.vocab):
            text = text.removeprefix(bos)
        chat = [{"role": role, "content": word} for role, word in (("user", "hello"), ("assistant", "hi"), ("user", "so"))]
        assert codec.encode_chat(chat) == llama_ids(weights, text, special=True, parse=True), (flags, start)
        for plain in ("hello so", ""):
            assert codec.encode(plain) == llama_ids(weights, plain, special=True, parse=False), flags
        weights.free()
