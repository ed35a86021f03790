"""Tokenizers made on the spot: of bytes, and in the manner of SentencePiece, in transformers' files and in GGUF metadata."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any


def raw(folder: Path) -> Any:
    """Open a tokenizer as transformers does."""
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(folder)


def save_tokenizer(core: Any, folder: Path, template: str, **special: Any) -> Path:
    """Write a folder of a tokenizer with a chat template and special tokens."""
    from transformers import PreTrainedTokenizerFast

    fast: Any = PreTrainedTokenizerFast
    tokenizer = fast(tokenizer_object=core, **special)
    tokenizer.chat_template = template
    tokenizer.save_pretrained(folder)
    return folder


def byte_level(names: Sequence[str], **options: Any) -> Any:
    """Build a tokenizer of bytes without merges: these names, in their order, are its vocabulary."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    core = Tokenizer(models.BPE(vocab={name: i for i, name in enumerate(names)}, merges=[], unk_token=None))
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, **options)
    core.decoder = decoders.ByteLevel()
    return core


def letters() -> list[str]:
    """The characters that stand for bytes."""
    from tokenizers import pre_tokenizers

    return sorted(pre_tokenizers.ByteLevel.alphabet())


def metaspace(folder: Path) -> Path:
    """Write a tokenizer in the manner of SentencePiece: ▁ for spaces, one before a text, bytes as a fall-back, BOS added."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors

    fixed = ["<unk>", "<s>", "</s>", *(f"<0x{i:02X}>" for i in range(256)), "▁", "▁a", "▁hi"]
    scores = {"▁hi": -1.0, "▁a": -1.5}
    vocab = [(piece, scores.get(piece, -3.0)) for piece in (*fixed, *"abcdefghijklmnopqrstuvwxyz<|>/")]
    core = Tokenizer(models.Unigram(vocab, unk_id=0, byte_fallback=True))
    core.pre_tokenizer = pre_tokenizers.Metaspace(replacement="▁", prepend_scheme="first")
    steps = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    core.decoder = decoders.Sequence(steps)
    core.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    template = "<s>{% for m in messages %}[{{ m.role }}]{{ m.content }}</s>{% endfor %}"
    return save_tokenizer(core, folder, template, bos_token="<s>", eos_token="</s>", unk_token="<unk>")


def sentencepiece(
    size: int, words: Sequence[str], tags: Sequence[str] = (), kinds: Sequence[int] = (), ends: Sequence[str] = ("<s>", "</s>")
) -> dict[str, Any]:
    """Describe a vocabulary of SentencePiece's as GGUF metadata: pieces that are `words`, and `tags` of some `kinds` last."""
    pieces = ["<unk>", *ends, *(f"<0x{byte:02X}>" for byte in range(256)), "▁", *map(chr, range(33, 127)), *words]
    pieces += [f"▁{i}" for i in range(size - len(pieces) - len(tags))]
    return {
        "tokenizer.ggml.model": "llama", "tokenizer.ggml.pre": "default", "tokenizer.ggml.merges": None,
        "tokenizer.ggml.tokens": [piece.encode() for piece in (*pieces, *tags)],
        "tokenizer.ggml.scores": [-float(i) for i in range(size)],
        "tokenizer.ggml.token_type": [2, 3, 3, *[6] * 256, *[1] * (len(pieces) - 259), *kinds],
        "tokenizer.ggml.bos_token_id": 1, "tokenizer.ggml.eos_token_id": 2, "tokenizer.ggml.unknown_token_id": 0,
    }  # fmt: skip
