"""A tiny model whose tokenizer SentencePiece has trained, as a GGUF file."""

from __future__ import annotations

import functools
import io
import shutil
from pathlib import Path
from typing import Any
from unittest.mock import patch

from specchat.backends.loading import builtin_path
from specchat.builtin import gguf_export

from . import llama_tiny

CORPUS = [
    "def add(a, b):\n    return a + b\n",
    "for item in items:\n    print(item)\n",
    "if x else y: a☺b c☺d class Lamp: lit = True",
    "while lit:\n        lamp.burn(1)",
] * 20


@functools.cache
def sentencepiece_gguf() -> Path:
    """The file, written once per process."""
    import sentencepiece

    folder, stream = llama_tiny.room() / "sentencepiece", io.BytesIO()
    shutil.copytree(builtin_path(), folder, ignore=shutil.ignore_patterns("*.safetensors", "config.json", "*.gguf"))
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
        minloglevel=2,
    )
    trained = sentencepiece.SentencePieceProcessor(model_proto=stream.getvalue())
    llama_tiny.save_llama(folder, trained.get_piece_size(), layers=2)

    def write(writer: Any, _folder: Path, config: dict[str, Any]) -> None:
        """The tokenizer as llama.cpp's converter writes it."""
        ids = range(config["vocab_size"])
        kinds = (trained.is_byte, 6), (trained.is_unknown, 2), (trained.is_control, 3)
        writer.add_tokenizer_model("llama")
        writer.add_tokenizer_pre("default")
        writer.add_token_list([trained.id_to_piece(i) for i in ids])
        writer.add_token_scores([trained.get_score(i) for i in ids])
        writer.add_token_types([next((kind for holds, kind in kinds if holds(i)), 1) for i in ids])
        writer.add_bos_token_id(1)
        writer.add_eos_token_id(2)
        writer.add_unk_token_id(0)
        writer.add_add_bos_token(True)

    with patch.object(gguf_export, "add_tokenizer", write):
        return llama_tiny.gguf_of(folder)
