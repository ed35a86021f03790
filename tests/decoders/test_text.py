"""Text out of tokens: whatever the tokenizer and the split, the pieces make up the whole, and each is right when shown.
Patience is a constant, made short."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Protocol

import pytest
import regex
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, models

from specchat.backends.loading import builtin_path
from specchat.decoders.detokenize import RUN, fusing_byte
from specchat.decoders.text import CLUSTER, LONGEST, MOST_STOPS, Stops, TextStream
from specchat.errors import UserError

from ..cases import cases

FRAGMENTS = [
    "👨‍👩‍👧‍👦", "👩🏽‍🚀", "🏳️‍🌈", "👍🏿", "🇫🇷", "🇩🇪🇯🇵", "🇺", "1️⃣", "☺️", "☺︎", "🧑🏻‍❤️‍💋‍🧑🏿", "\u200d", "\ufe0f",
    "é", "e\u0301", "a\u0308\u0323", "\u0301", "한국", "\u1112\u1161\u11ab", "漢字", "𠮷", "क्षि", "ก็", "שָׁ", "\u0600a",
    "\r\n", "\r", "\n", "\n\n", " ", "   ", "\t", "Hello", " world", ".", "\ufffd", "\x00", "\x1b[31m", "[bold]",
    "\x1b]0;x\x07",
]  # fmt: skip
texts = st.lists(st.one_of(st.sampled_from(FRAGMENTS), st.text(max_size=4)), max_size=10).map("".join)


class Codec(Protocol):
    """A tokenizer under test."""

    vocab: int

    def encode(self, text: str) -> list[int]: ...
    def decode(self, ids: Sequence[int]) -> str: ...
    def byte(self, value: int) -> int: ...


class Trained:
    """A tokenizer of the tokenizers library; `bytes` maps each byte to its token."""

    def __init__(self, tokenizer: Tokenizer, byte: Callable[[int], str]) -> None:
        self.tokenizer = tokenizer
        self.vocab = tokenizer.get_vocab_size()
        vocab = tokenizer.get_vocab()
        self._bytes = [vocab[byte(value)] for value in range(256)]

    def encode(self, text: str) -> list[int]:
        return list(self.tokenizer.encode(text, add_special_tokens=False).ids)

    def decode(self, ids: Sequence[int]) -> str:
        return str(self.tokenizer.decode(list(ids), skip_special_tokens=True))

    def byte(self, value: int) -> int:
        return self._bytes[value]


class AnyBytes:
    """Tokens that are any one or two bytes: every split of a text into such pieces can be written down."""

    vocab = 256 + 65536

    def encode(self, text: str) -> list[int]:
        data = text.encode()
        return [256 + int.from_bytes(data[i : i + 2]) if i + 1 < len(data) else data[i] for i in range(0, len(data), 2)]

    def decode(self, ids: Sequence[int]) -> str:
        return b"".join(bytes([i]) if i < 256 else (i - 256).to_bytes(2) for i in ids).decode(errors="replace")

    def byte(self, value: int) -> int:
        return value


def gpt2_byte(value: int) -> str:
    """The character by which byte-level tokenizers write a byte (as in GPT-2's encoder)."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    return chr(value) if value in printable else chr(256 + [b for b in range(256) if b not in printable].index(value))


@cache
def sentencepiece() -> Trained:
    """Like Llama 2's: ▁ for spaces, byte fallback, and a decoder that drops the first space."""
    vocab = {token: i for i, token in enumerate(["<unk>", "<s>", "</s>", *(f"<0x{b:02X}>" for b in range(256))])}
    merges = []
    for word in ["▁the", "▁Hello", "▁world", "▁▁", "▁▁▁▁", "漢字", "ab", "e\u0301"]:
        for end in range(1, len(word) + 1):
            for token in (word[end - 1], word[:end]):
                vocab.setdefault(token, len(vocab))
            if end > 1 and (word[: end - 1], word[end - 1]) not in merges:
                merges.append((word[: end - 1], word[end - 1]))
    tokenizer = Tokenizer(models.BPE(vocab, merges, byte_fallback=True, unk_token="<unk>", fuse_unk=True))
    tokenizer.add_special_tokens(["<unk>", "<s>", "</s>"])
    steps = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    tokenizer.decoder = decoders.Sequence(steps)
    return Spaced(tokenizer, lambda b: f"<0x{b:02X}>")


class Spaced(Trained):
    """Written with ▁ and a space in front, as SentencePiece does."""

    def encode(self, text: str) -> list[int]:
        return super().encode("▁" + text.replace(" ", "▁"))


@cache
def builtin() -> Trained:
    path = builtin_path() / "tokenizer.json"
    if not path.exists():
        pytest.skip("the built-in model's tokenizer is not there")
    return Trained(Tokenizer.from_file(str(path)), gpt2_byte)


CODECS: dict[str, Callable[[], Codec]] = {"builtin": builtin, "sentencepiece": sentencepiece, "any-bytes": AnyBytes}
codecs = pytest.mark.parametrize("name", CODECS)


def boundaries(text: str) -> set[int]:
    """Ends of the grapheme clusters; inside one that is too long to be held, every place."""
    out = {0}
    for cluster in regex.finditer(r"\X", text):
        out |= set(range(cluster.start(), cluster.end() + 1)) if len(cluster[0]) >= CLUSTER else {cluster.end()}
    return out


def check(codec: Codec, ids: Sequence[int], fused: bool) -> None:
    """All that holds for a stream without stops."""
    full = codec.decode(ids)
    ends = boundaries(full)
    stream, shown = TextStream(codec.decode), ""
    for n, token in enumerate(ids, 1):
        shown += stream.push(token)
        assert full.startswith(shown + stream.waiting)
        assert stream.waiting == stream.held  # nothing waits for a stop
        assert len(shown) in ends
        if not fused:  # nothing is held but an unfinished character and the last cluster
            now = codec.decode(ids[:n])
            assert (shown + stream.held).rstrip("\ufffd") == now.rstrip("\ufffd")
            assert len(now) - len(shown + stream.held) <= 3
            assert len(stream.held) <= max((len(c) for c in regex.findall(r"\X", now)), default=0)
    assert shown + stream.flush() == full
    assert stream.flush() == ""


@codecs
@given(data=st.data())
def test_what_goes_on_from_a_text_makes_it_whole(name: str, data: st.DataObject) -> None:
    """Spaces and characters are those of the whole text, wherever it goes on."""
    codec = CODECS[name]()
    text = data.draw(texts)
    ids = codec.encode(text)
    if len(ids) >= RUN:
        return
    whole = codec.decode(ids)
    at = data.draw(st.integers(0, len(ids)))
    before = codec.decode(ids[:at])
    if before.endswith("\ufffd") or not whole.startswith(before):  # within a character
        return
    stream = TextStream(codec.decode, behind=ids[:at][-RUN:])
    assert before + "".join(map(stream.push, ids[at:])) + stream.flush() == whole


@codecs
@given(st.data())
@cases(500)
def test_texts_come_out_whole(name: str, data: st.DataObject) -> None:
    codec = CODECS[name]()
    check(codec, codec.encode(data.draw(texts)), name == "sentencepiece")


@codecs
@given(st.data())
@cases(400)
def test_texts_with_invalid_bytes_come_out_whole(name: str, data: st.DataObject) -> None:
    codec = CODECS[name]()
    ids: list[int] = []
    for part in data.draw(st.lists(st.one_of(texts, st.binary(max_size=4)), max_size=5)):
        ids += codec.encode(part) if isinstance(part, str) else map(codec.byte, part)
    # Below RUN, as a longer run of byte tokens may differ.
    check(codec, ids[: RUN - 1], name == "sentencepiece")


@codecs
@given(st.data())
@cases(250)
def test_random_tokens_come_out_whole(name: str, data: st.DataObject) -> None:
    codec = CODECS[name]()
    check(codec, data.draw(st.lists(st.integers(0, codec.vocab - 1), max_size=RUN - 1)), name == "sentencepiece")


alphabet = ["a", "b", "ab", "ba", "\n", "🇫🇷", "e\u0301", " ", "漢", "\ufffd", "bb\n"]
stop_texts = st.lists(st.sampled_from(alphabet), max_size=25).map("".join)
stop_strings = st.lists(st.sampled_from(alphabet), min_size=1, max_size=4).map("".join)


def cut(text: str, strings: Sequence[str]) -> str:
    """The reference: all the text there is, up to the earliest stop."""
    return text[: min((text.find(s) for s in strings if s in text), default=len(text))]


@codecs
@given(st.data(), stop_texts, st.lists(stop_strings, max_size=3), st.booleans())
@cases(370)
def test_no_stop_is_half_shown(name: str, data: st.DataObject, text: str, strings: list[str], in_bytes: bool) -> None:
    codec = CODECS[name]()
    ids = [codec.byte(b) for b in text.encode()] if in_bytes else codec.encode(text)
    full = codec.decode(ids)
    wanted = cut(full, strings)
    stream, shown, stopped_at = TextStream(codec.decode, Stops(strings)), "", len(ids)
    for n, token in enumerate(ids):
        piece = stream.push(token)
        assert not (piece and stopped_at < n)
        shown += piece
        assert wanted.startswith(shown + stream.waiting)
        if stream.stopped:
            stopped_at = min(stopped_at, n)
            assert shown == wanted
    assert shown + stream.flush() == wanted
    assert stream.stopped == (wanted != full)
    if len(strings) == 1 and name != "sentencepiece" and strings[0] in full and "\ufffd" not in full:
        # Not a token later than needed.
        assert strings[0] in codec.decode(ids[: stopped_at + 1])
        assert strings[0] not in codec.decode(ids[:stopped_at])


def chars(text: str, stops: Stops) -> tuple[list[str], TextStream]:
    """Pieces of a text whose tokens are its characters."""
    stream = TextStream(lambda ids: "".join(map(chr, ids)), stops)
    return [*map(stream.push, map(ord, text)), stream.flush()], stream


def test_what_is_held_and_when_it_is_let_go() -> None:
    pieces, stream = chars("xSTxSTOPyy", Stops(["STOP"]))
    # A character is shown once the next one shows that no combining mark follows; "ST" once it is no stop.
    assert pieces == ["", "x", "", "ST", "x", "", "", "", "", "", ""]
    assert stream.stopped
    pieces, stream = chars("a stop that never comes: ST", Stops(["STOP"]))
    assert pieces[-1] == "ST"
    assert not stream.stopped


@pytest.mark.parametrize(
    ("strings", "sentence"),
    [
        ([""], "empty"),
        (["x" * 100_000], "string has 100,000 characters"),
        (["x"] * (MOST_STOPS + 1), "Remove some"),
    ],
)
def test_bad_stops_are_refused_with_a_sentence(strings: list[str], sentence: str) -> None:
    with pytest.raises(UserError, match=sentence):
        Stops(strings)


def test_endless_combining_marks_are_let_go() -> None:
    text = "a" + "\u0301" * 1000 + "b"
    stream = TextStream(lambda ids: "".join(map(chr, ids)))
    pieces = [stream.push(ord(char)) for char in text]
    assert max(map(len, pieces)) <= CLUSTER
    assert "".join(pieces) + stream.flush() == text


def test_invalid_bytes_are_let_go() -> None:
    for name in ("any-bytes", "sentencepiece"):
        codec = CODECS[name]()
        ids = [codec.byte(0xFF)] * 1000
        stream = TextStream(codec.decode)
        shown = "".join(map(stream.push, ids))
        assert len(shown) >= 990
        assert shown + stream.flush() == codec.decode(ids)


def test_a_long_run_of_byte_tokens_is_let_go_before_it_ends() -> None:
    codec = sentencepiece()
    text = "Ж한👨‍👩‍👧‍👦" * 40
    stream = TextStream(codec.decode)
    pieces = [stream.push(codec.byte(b)) for b in text.encode()]
    assert max(map(len, pieces)) < RUN
    assert "".join(pieces) + stream.flush() == text


@pytest.mark.parametrize(
    ("name", "unit"),
    [
        ("any-bytes", [0x41]),
        ("any-bytes", [0xFF]),
        ("any-bytes", [0xE2, 0x82, 0xAC]),
        ("sentencepiece", [sentencepiece().byte(0xFF)]),
        ("sentencepiece", [sentencepiece().byte(b) for b in "Ж".encode()]),
        ("sentencepiece", sentencepiece().encode(" ")[:1]),
        ("sentencepiece", sentencepiece().encode("the world \n")),
        ("sentencepiece", [1]),
        ("builtin", [0]),
    ],
    ids=str,
)
def test_time_is_linear_in_the_length(name: str, unit: list[int]) -> None:
    """Counted, not timed: ids handed to `decode`, and the characters that are searched for a stop."""
    codec = CODECS[name]()
    work = {}
    for length in (1000, 4000):
        decoded = searched = 0

        def decode(ids: Sequence[int]) -> str:
            nonlocal decoded
            decoded += len(ids)
            return codec.decode(ids)

        stream = TextStream(decode, Stops(["\n\n\n", " END"]))
        for i in range(length):
            stream.push(unit[i % len(unit)])
            searched += len(stream.held)
        stream.flush()
        work[length] = (decoded, searched)
    assert work[4000][0] <= 4.4 * work[1000][0] + 1000
    assert work[4000][0] <= 4000 * 4 * RUN
    assert work[4000][1] <= 4000 * (LONGEST + CLUSTER)


def test_which_decoders_fuse_byte_tokens() -> None:
    assert fusing_byte(sentencepiece().decode) == sentencepiece().byte(0x80)
    assert fusing_byte(AnyBytes().decode) is None
    assert fusing_byte(lambda ids: ["a", "b"][ids[0]]) is None
