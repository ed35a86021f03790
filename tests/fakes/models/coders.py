"""Tiny models whose tokenizers have the tokens for filling in the middle, as each family writes them, for both runtimes."""

from __future__ import annotations

import functools
import io
import json
import shutil
from pathlib import Path
from typing import Any
from unittest.mock import patch

from specchat.backends.loading import builtin_path
from specchat.builtin import gguf_export

from . import llama_tiny

BYTE_LEVEL: dict[str, tuple[str, ...]] = {
    "qwen": ("<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>", "<|fim_pad|>", "<|file_sep|>"),
    "starcoder": ("<fim_prefix>", "<fim_suffix>", "<fim_middle>", "<file_sep>"),
    "santacoder": ("<fim-prefix>", "<fim-suffix>", "<fim-middle>", "<fim-pad>"),
    "deepseek": ("<｜fim▁begin｜>", "<｜fim▁hole｜>", "<｜fim▁end｜>", "<|EOT|>"),
    "seed": ("<[fim-prefix]>", "<[fim-suffix]>", "<[fim-middle]>", "<[end▁of▁sentence]>"),
    "tekken": ("[PREFIX]", "[SUFFIX]", "[MIDDLE]"),
}
"""Family → tokens that its tokenizer has."""

SPECIAL = {"qwen": False}
"""Whether a tokenizer calls them special; Qwen's does not."""

SENTENCEPIECE = {
    "code-llama": ("▁<PRE>", "▁<MID>", "▁<SUF>", "▁<EOT>"),
    "codestral": ("[PREFIX]", "[SUFFIX]", "[MIDDLE]"),
}

CORPUS = [
    "def add(a, b):\n    return a + b\n",
    "for item in items:\n    print(item)\n",
    "if x else y: a☺b c☺d class Lamp: lit = True",
    "while lit:\n        lamp.burn(1)",
] * 20


@functools.cache
def coder(family: str) -> Path:
    """A folder with such a model."""
    folder = llama_tiny.room() / f"coder-{family}"
    if family in SENTENCEPIECE:
        return _sentencepiece(folder, SENTENCEPIECE[family])
    shutil.copytree(builtin_path(), folder, ignore=shutil.ignore_patterns("*.safetensors", "config.json", "*.gguf"))
    file = folder / "tokenizer.json"
    data = json.loads(file.read_text(encoding="utf-8"))
    first = max(data["model"]["vocab"].values()) + 1
    first = max([first, *(token["id"] + 1 for token in data["added_tokens"])])
    names = BYTE_LEVEL[family]
    for i, name in enumerate(names):
        token = {**data["added_tokens"][0], "id": first + i, "content": name, "special": SPECIAL.get(family, True)}
        data["added_tokens"].append(token)
    file.write_text(json.dumps(data), encoding="utf-8")
    llama_tiny.save_llama(folder, first + len(names), layers=2)
    return folder


def _sentencepiece(folder: Path, names: tuple[str, ...]) -> Path:
    """A tokenizer that SentencePiece has trained, in its own format."""
    import sentencepiece

    folder.mkdir()
    stream = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(CORPUS),
        model_writer=stream,
        model_type="bpe",
        vocab_size=400,
        hard_vocab_limit=False,
        byte_fallback=True,
        character_coverage=1.0,
        normalization_rule_name="identity",
        remove_extra_whitespaces=False,
        add_dummy_prefix=True,
        user_defined_symbols=list(names),
        minloglevel=2,
    )
    (folder / "tokenizer.model").write_bytes(stream.getvalue())
    trained = sentencepiece.SentencePieceProcessor(model_proto=stream.getvalue())
    pieces = [trained.id_to_piece(i) for i in range(trained.get_piece_size())]
    vocab = {piece: i for i, piece in enumerate(pieces)}
    _fast(folder, vocab, _merges(trained, vocab), names)
    llama_tiny.save_llama(folder, len(pieces), layers=2)
    return folder


def _merges(trained: Any, vocab: dict[str, int]) -> list[tuple[str, str]]:
    """The merges that make SentencePiece's pieces, best first."""
    found = []
    for piece, i in vocab.items():
        if trained.is_byte(i) or trained.is_control(i) or trained.is_unknown(i):
            continue
        parts = [(piece[:cut], piece[cut:]) for cut in range(1, len(piece))]
        found += [(-trained.get_score(i), vocab[a], vocab[b], a, b) for a, b in parts if a in vocab and b in vocab]
    return [(a, b) for *_, a, b in sorted(found)]


def _fast(folder: Path, vocab: dict[str, int], merges: list[tuple[str, str]], names: tuple[str, ...]) -> None:
    """The same tokenizer in transformers' format."""
    import transformers

    of: Any = transformers.CodeLlamaTokenizer if names[0].startswith("▁") else transformers.LlamaTokenizer
    tokenizer = of(vocab=vocab, merges=merges, additional_special_tokens=list(names), legacy=False, add_bos_token=True)
    tokenizer.save_pretrained(folder)


@functools.cache
def coder_gguf(family: str) -> Path:
    """The same model as a GGUF file."""
    folder = coder(family)
    if family not in SENTENCEPIECE:
        return llama_tiny.gguf_of(folder)
    with patch.object(gguf_export, "add_tokenizer", _write_sentencepiece):
        return llama_tiny.gguf_of(folder)


def _write_sentencepiece(writer: Any, folder: Path, config: dict[str, Any]) -> None:
    """The tokenizer as llama.cpp's converter writes one of SentencePiece's."""
    trained = processor(folder)
    ids = range(config["vocab_size"])
    names = [trained.id_to_piece(i) for i in ids]
    known = {name for family in SENTENCEPIECE.values() for name in family}
    types = [
        6 if trained.is_byte(i) else 2 if trained.is_unknown(i) else 3 if trained.is_control(i) or names[i] in known else 1
        for i in ids
    ]
    writer.add_tokenizer_model("llama")
    writer.add_tokenizer_pre("default")
    writer.add_token_list(names)
    writer.add_token_scores([trained.get_score(i) for i in ids])
    writer.add_token_types(types)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_unk_token_id(0)
    writer.add_add_bos_token(True)


def processor(folder: Path) -> Any:
    """SentencePiece itself."""
    import sentencepiece

    return sentencepiece.SentencePieceProcessor(model_file=str(folder / "tokenizer.model"))
