"""Text to ids: what people write never becomes a control token, and harmless text is tokenized as transformers does.
transformers' ids are read in a private field."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from specchat.backends import UserError
from specchat.backends.hf.tokenizer import TextCodec

from ...fakes.models.tiny import VOCAB, tiny_folder, tiny_model, write_tokenizer


def raw(folder: Path) -> Any:
    """The tokenizer as transformers opens it."""
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(folder)


def metaspace(folder: Path) -> Path:
    """A tokenizer in the manner of SentencePiece: ▁ for spaces, one put before a text, bytes as a fall-back, BOS added."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    pieces = [
        "<unk>",
        "<s>",
        "</s>",
        *(f"<0x{i:02X}>" for i in range(256)),
        "▁",
        "▁a",
        "▁hi",
        *"abcdefghijklmnopqrstuvwxyz<|>/",
    ]
    scores = {"▁hi": -1.0, "▁a": -1.5}
    vocab = [(piece, scores.get(piece, -3.0)) for piece in pieces]
    core = Tokenizer(models.Unigram(vocab, unk_id=0, byte_fallback=True))
    core.pre_tokenizer = pre_tokenizers.Metaspace(replacement="▁", prepend_scheme="first")
    core.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    core.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    fast: Any = PreTrainedTokenizerFast
    tokenizer = fast(tokenizer_object=core, bos_token="<s>", eos_token="</s>", unk_token="<unk>")
    tokenizer.chat_template = "<s>{% for m in messages %}[{{ m.role }}]{{ m.content }}</s>{% endfor %}"
    tokenizer.save_pretrained(folder)
    return folder


def test_chat_is_what_transformers_makes_of_it() -> None:
    messages = [
        {"role": "user", "content": " hello "},
        {"role": "assistant", "content": "hi < there |"},
        {"role": "user", "content": "and?"},
    ]
    wanted = raw(tiny_folder("llama")).apply_chat_template(messages, add_generation_prompt=True, return_dict=False)
    assert tiny_model("llama").encode_chat(messages) == wanted


@pytest.mark.parametrize("start", ["", "<s>", "{{ bos_token }} "])
def test_chat_begins_as_in_transformers(start: str, tmp_path: Path) -> None:
    """Its tokenizer adds a BOS to a text, but none to a template's rendering."""
    tokenizer = raw(metaspace(tmp_path))
    tokenizer.chat_template = start + "{% for m in messages %}{{ m.content }}</s>{% endfor %}"
    tokenizer.save_pretrained(tmp_path)
    messages = [{"role": "user", "content": "hi a"}]
    wanted = tokenizer.apply_chat_template(messages, return_dict=False)
    assert wanted.count(1) == bool(start)
    assert TextCodec(tmp_path, 300).encode_chat(messages) == wanted


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
    import json

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
    assert len(tiny_model("llama").pieces()) == VOCAB
    assert "".join(tiny_model("llama").pieces()[i] for i in tiny_model("llama").encode("x y")) == "x y"


def test_no_template_and_refusals_are_sentences(tmp_path: Path) -> None:
    write_tokenizer(tmp_path)
    (tmp_path / "chat_template.jinja").write_text("{{ raise_exception('System role not supported') }}")
    codec = TextCodec(tmp_path, VOCAB)
    with pytest.raises(UserError, match="System role not supported"):
        codec.encode_chat([{"role": "system", "content": "x"}])
    with pytest.raises(UserError, match="at least one"):
        codec.encode_chat([])
    (tmp_path / "chat_template.jinja").unlink()
    codec = TextCodec(tmp_path, VOCAB)
    assert not codec.has_template
    with pytest.raises(UserError, match="--raw"):
        codec.encode_chat([{"role": "user", "content": "x"}])
