"""Text on llama.cpp: ids as its own tokenizer gives them, which for our models are transformers' too. Transformers' tokenizer,
which ids are compared with, is a private field."""

from __future__ import annotations

import ctypes
import importlib
import random
import shutil
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from specchat.backends.chat_template import Template
from specchat.backends.hf.tokenizer import TextCodec
from specchat.backends.llama.context import Runtime, Weights
from specchat.backends.llama.tokenizer import LlamaCodec
from specchat.backends.loading import builtin_path
from specchat.builtin.recipe.tokenizer import load

from ...fakes.models.gguf_changes import changed
from ...fakes.models.llama_tiny import VOCAB, gguf_of, needs_llama, tiny_folder, tiny_llama

pytestmark = needs_llama

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
        match rng.randrange(3):
            case 0:
                yield "".join(rng.choices(PIECES, k=rng.randint(1, 8)))
            case 1:
                yield "".join(chr(rng.choice((rng.randrange(0x250), rng.randrange(0xD800)))) for _ in range(rng.randint(1, 12)))
            case _:
                yield rng.randbytes(rng.randint(1, 12)).decode("utf-8", "replace")


@pytest.fixture(scope="module")
def codec() -> TextCodec:
    return TextCodec(tiny_folder(), VOCAB)


@pytest.fixture(scope="module")
def theirs() -> Any:
    llama_cpp: Any = importlib.import_module("llama_cpp")
    return llama_cpp.Llama(str(gguf_of(tiny_folder())), vocab_only=True, verbose=False)


def test_ids_and_text_are_transformers_and_llama_cpps(codec: TextCodec, theirs: Any) -> None:
    model = tiny_llama()
    # As trained: special tokens that a text spells are split like any other characters.
    plain = load(tiny_folder())
    for text in strings(3000):
        ids = model.encode(text)
        assert ids == plain.encode(text, add_special_tokens=False).ids, repr(text)
        assert ids == theirs.tokenize(text.encode(), add_bos=True, special=False), repr(text)
        assert model.decode(ids) == text == codec.decode(ids)


def test_any_ids_decode_as_in_transformers(codec: TextCodec) -> None:
    model = tiny_llama()
    rng = random.Random(1)
    for _ in range(1000):
        ids = [rng.randrange(VOCAB) for _ in range(rng.randint(0, 8))]
        assert model.decode(ids) == codec.decode(ids), ids
    assert model.pieces() == codec.pieces()
    assert model.decode([-1, VOCAB]) == ""


def test_special_tokens_are_the_files(codec: TextCodec) -> None:
    model = tiny_llama()
    assert model.info.eos_ids == (2,)
    assert model.info.vocabulary == VOCAB
    assert model.decode([1, *model.encode("a"), 2]) == "a"
    assert "\ud83d" not in model.decode(model.encode("lone \ud83d surrogate"))


def test_chats_are_transformers_chats(codec: TextCodec) -> None:
    model = tiny_llama()
    rng = random.Random(2)
    for _ in range(300):
        messages = [
            {"role": role, "content": "".join(rng.choices(PIECES, k=rng.randint(0, 6)))}
            for role in (["system"] * rng.randint(0, 1) + ["user", "assistant"] * rng.randint(0, 2) + ["user"])
        ]
        ids = model.encode_chat(messages)
        assert ids == codec.encode_chat(messages)
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
def test_templates_render_as_in_transformers(source: str, codec: TextCodec) -> None:
    tokenizer: Any = codec._tokenizer
    messages = [{"role": "system", "content": ' Be "brief" <é> '}, {"role": "user", "content": "日本\n&'{{ x }}"}]
    wanted = tokenizer.apply_chat_template(messages, chat_template=source, tokenize=False, add_generation_prompt=True)
    names = {"bos_token": "<|bos|>", "eos_token": "<|end|>", "pad_token": "<|pad|>"}
    assert Template(source, names).render(messages) == wanted


def test_a_template_that_wants_parts_gets_them(tmp_path: Path) -> None:
    """As in models for pictures: what it makes of plain texts has none of them."""
    source = (
        "{{ bos_token }}{% for m in messages %}{{ m.role | capitalize }}{{ ': ' if m.content[0].type == 'text' else ':' }}"
        "{% for line in m.content %}{{ line.text if line.type == 'text' }}{% endfor %}{{ eos_token }}{% endfor %}Assistant:"
    )
    talk = [("system", "Be brief."), ("user", "Hello</s>"), ("assistant", "Hi"), ("user", "Who?")]
    file = changed(gguf_of(tiny_folder()), tmp_path / "model.gguf", {"tokenizer.chat_template": source})
    folder = tmp_path / "folder"
    shutil.copytree(tiny_folder(), folder, ignore=shutil.ignore_patterns("*.safetensors"))
    (folder / "chat_template.jinja").write_text(source)
    ours = TextCodec(folder, VOCAB)
    parts = [{"role": role, "content": [{"type": "text", "text": text}]} for role, text in talk]
    wanted = ours._tokenizer.apply_chat_template(parts, return_dict=False)
    weights = Weights(file, Runtime(), lambda _: True)
    for encode in (ours.encode_chat, LlamaCodec(weights).encode_chat):
        assert encode([{"role": role, "content": text} for role, text in talk]) == wanted
    weights.free()


_PIECES = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), "▁", *map(chr, range(33, 127))]
_PIECES += ["▁h", "▁he", "▁hel", "▁hell", "▁hello", "▁s", "▁so", "so", "hi"]
SENTENCEPIECE: dict[str, Any] = {
    "tokenizer.ggml.model": "llama",
    "tokenizer.ggml.pre": "default",
    "tokenizer.ggml.merges": None,
    "tokenizer.ggml.tokens": [piece.encode() for piece in _PIECES + [f"▁{i}" for i in range(VOCAB - len(_PIECES))]],
    "tokenizer.ggml.scores": [-float(i) for i in range(VOCAB)],
    "tokenizer.ggml.token_type": [2, 3, 3, *[6] * 256, *[1] * (VOCAB - 259)],
    "tokenizer.ggml.bos_token_id": 1,
    "tokenizer.ggml.eos_token_id": 2,
    "tokenizer.ggml.unknown_token_id": 0,
}
"""A vocabulary of SentencePiece's: ▁ for spaces, bytes as a fall-back."""

VOCABULARIES: dict[str, tuple[str, str, dict[str, Any]]] = {
    "BPE": ("<|bos|>", "<|end|>", {}),
    "BPE, BOS by its kind": ("<|bos|>", "<|end|>", {"tokenizer.ggml.pre": "llama-bpe"}),
    "BPE, one token for both": ("<|end|>", "<|end|>", {"tokenizer.ggml.bos_token_id": 2}),
    "SentencePiece": ("<s>", "</s>", SENTENCEPIECE),
    "Unigram": ("<s>", "</s>", SENTENCEPIECE | {"tokenizer.ggml.model": "t5"}),
}
"""Kind of vocabulary → how it writes BOS and EOS, and its file's metadata."""

TURNS = "{% for m in messages %}[{{ m.role }}] {{ m.content }}{{ eos_token }}{% endfor %}"


@pytest.mark.parametrize("kind", VOCABULARIES)
def test_prompts_begin_as_in_llama_cpp(kind: str, tmp_path: Path) -> None:
    """Its server cuts off a BOS that the template wrote, and has its tokenizer add what the file wants. EOS, which it
    may add too, would close a prompt that is to go on."""
    bos, eos, values = VOCABULARIES[kind]
    source = gguf_of(tiny_folder())
    for add_bos, add_eos, start in product((None, True, False), (None, True), ("", "{{ bos_token }}", "{{ bos_token }} ")):
        told = {"tokenizer.ggml.add_bos_token": add_bos, "tokenizer.ggml.add_eos_token": add_eos}
        template = {"tokenizer.chat_template": start + TURNS}
        weights = Weights(changed(source, tmp_path / "model.gguf", told | values | template), Runtime(), lambda _: True)
        codec, lib = LlamaCodec(weights), weights.lib

        def theirs(text: str, parse: bool, weights: Weights = weights, lib: Any = weights.lib) -> list[int]:
            out = (ctypes.c_int32 * 99)()
            ids = list(out[: lib.llama_tokenize(weights.vocab, text.encode(), len(text), out, 99, True, parse)])
            return ids[:-1] if lib.llama_vocab_get_add_eos(weights.vocab) else ids

        text = start.replace("{{ bos_token }}", bos) + f"[user] hello{eos}[assistant] hi{eos}[user] so{eos}"
        if lib.llama_vocab_get_add_bos(weights.vocab):
            text = text.removeprefix(bos)
        chat = [{"role": role, "content": word} for role, word in (("user", "hello"), ("assistant", "hi"), ("user", "so"))]
        assert codec.encode_chat(chat) == theirs(text, True), (told, start)
        assert codec.encode("hello so") == theirs("hello so", False), told
        assert codec.encode("") == theirs("", False), told
        weights.free()
