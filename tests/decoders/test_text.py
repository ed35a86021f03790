"""Text out of tokens: pieces make up the whole, and each is right when shown; stops; loops end an answer."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from itertools import cycle, islice
from typing import Protocol

import pytest
import regex
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, models

from specchat.backends import UserError
from specchat.decoders import Stops, TextStream
from specchat.decoders.detokenize import RUN, fusing_byte
from specchat.decoders.repeats import LAGS, WORDS, Loop, LoopGuard
from specchat.decoders.text import CLUSTER, LONGEST, MOST_STOPS

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


class SentencePiece:
    """Like Llama 2's: ▁ for spaces and one in front, byte fallback, and a decoder that drops the first space."""

    def __init__(self) -> None:
        vocab = {token: i for i, token in enumerate(["<unk>", "<s>", "</s>", *(f"<0x{b:02X}>" for b in range(256))])}
        merges = []
        for word in ["▁the", "▁Hello", "▁world", "▁▁", "▁▁▁▁", "漢字", "ab", "e\u0301"]:
            for end in range(1, len(word) + 1):
                for token in (word[end - 1], word[:end]):
                    vocab.setdefault(token, len(vocab))
                if end > 1 and (word[: end - 1], word[end - 1]) not in merges:
                    merges.append((word[: end - 1], word[end - 1]))
        self.tokenizer = Tokenizer(models.BPE(vocab, merges, byte_fallback=True, unk_token="<unk>", fuse_unk=True))
        self.tokenizer.add_special_tokens(["<unk>", "<s>", "</s>"])
        steps = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
        self.tokenizer.decoder = decoders.Sequence(steps)
        self.vocab = self.tokenizer.get_vocab_size()

    def encode(self, text: str) -> list[int]:
        return list(self.tokenizer.encode("▁" + text.replace(" ", "▁"), add_special_tokens=False).ids)

    def decode(self, ids: Sequence[int]) -> str:
        return str(self.tokenizer.decode(list(ids), skip_special_tokens=True))

    def byte(self, value: int) -> int:
        return 3 + value


@cache
def sentencepiece() -> SentencePiece:
    return SentencePiece()


CODECS: dict[str, Callable[[], Codec]] = {"sentencepiece": sentencepiece, "any-bytes": AnyBytes}
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
    stream, text = TextStream(codec.decode), ""
    for n, token in enumerate(ids, 1):
        text += stream.push(token)
        assert full.startswith(text + stream.waiting)
        assert stream.waiting == stream.held  # nothing waits for a stop
        assert len(text) in ends
        if not fused:  # nothing is held but an unfinished character and the last cluster
            now = codec.decode(ids[:n])
            assert (text + stream.held).rstrip("\ufffd") == now.rstrip("\ufffd")
            assert len(now) - len(text + stream.held) <= 3
            assert len(stream.held) <= max((len(c) for c in regex.findall(r"\X", now)), default=0)
    assert text + stream.flush() == full
    assert stream.flush() == ""


@codecs
@cases(100)
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
    expected = cut(full, strings)
    stream, written, stopped_at = TextStream(codec.decode, Stops(strings)), "", len(ids)
    for n, token in enumerate(ids):
        piece = stream.push(token)
        assert not (piece and stopped_at < n)
        written += piece
        assert expected.startswith(written + stream.waiting)
        if stream.stopped:
            stopped_at = min(stopped_at, n)
            assert written == expected
    assert written + stream.flush() == expected
    assert stream.stopped == (expected != full)
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


@pytest.mark.parametrize("strings", [[""], ["x" * (LONGEST + 1)], ["x"] * (MOST_STOPS + 1)])
def test_bad_stops_are_refused_with_a_sentence(strings: list[str]) -> None:
    with pytest.raises(UserError, match="Stop strings have"):
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
        text = "".join(map(stream.push, ids))
        assert len(text) >= 990
        assert text + stream.flush() == codec.decode(ids)


def test_a_long_run_of_byte_tokens_is_let_go_before_it_ends() -> None:
    codec = sentencepiece()
    text = "Ж한👨‍👩‍👧‍👦" * 40
    stream = TextStream(codec.decode)
    pieces = [stream.push(codec.byte(b)) for b in text.encode()]
    assert max(map(len, pieces)) < RUN
    assert "".join(pieces) + stream.flush() == text


@pytest.mark.parametrize(("name", "unit"), [
    ("any-bytes", [0xFF]), ("any-bytes", [0xE2, 0x82, 0xAC]), ("sentencepiece", [sentencepiece().byte(0xFF)]),
    ("sentencepiece", [sentencepiece().byte(b) for b in "Ж".encode()]), ("sentencepiece", [1]),
    ("sentencepiece", sentencepiece().encode(" ")[:1]), ("sentencepiece", sentencepiece().encode("the world \n")),
], ids=str)  # fmt: skip
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


SENTENCE = "The little boat went out at dawn and came back with nothing but rain."
PARAGRAPH = (
    "Speculative decoding drafts several tokens cheaply and checks them with one pass of a larger model. The output is the "
    "same as before, but it arrives sooner. That is why people use it on laptops and servers alike.\n\n"
)


def pieces(text: str) -> list[str]:
    """Tokens as tokenizers of today cut them: words with the space before them, digits and signs alone."""
    return regex.findall(r" ?\p{L}+|\p{N}|\s+|.", text)


class Table:
    """A tokenizer that gives each new piece the next id."""

    def __init__(self) -> None:
        self.known: list[str] = []

    def encode(self, text: str) -> list[int]:
        ids = pieces(text)
        self.known += sorted(set(ids) - set(self.known))
        return [self.known.index(piece) for piece in ids]

    def decode(self, ids: Sequence[int]) -> str:
        return "".join(self.known[id] for id in ids)


def first_loop(text: str) -> tuple[int, Loop] | None:
    """After how many tokens the guard fires, and on what."""
    table = Table()
    guard = LoopGuard(table.decode)
    for count, token in enumerate(table.encode(text), 1):
        if (loop := guard.push(token)) is not None:
            return count, loop
    return None


def rows(count: int, seed: int = 3) -> list[tuple[int, float, float]]:
    rng = random.Random(seed)
    return [(i, round(rng.uniform(-90, 90), 4), round(rng.uniform(-180, 180), 4)) for i in range(1, count + 1)]


TEXT = {
    "a text said ten times": 10 * (PARAGRAPH + SENTENCE), "a sentence said ten times": "\n".join(10 * [SENTENCE]),
    "numbers": ", ".join(map(str, range(1, 1500))), "one number on each line": "\n".join(map(str, range(1, 1500))),
    "a numbered list": "\n".join(f"{i}. {word}" for i, word in enumerate(SENTENCE.split() * 3, 1)),
    "multiplication": "\n".join(f"{i} x {k} = {i * k}" for i in range(1, 21) for k in range(1, 21)),
    "a table": "| id | lat | lon |\n|---|---|---|\n" + "\n".join(f"| {i} | {x} | {y} |" for i, x, y in rows(300)),
    "an empty table": "| a | b | c | d |\n|---|---|---|---|\n" + "|   |   |   |   |\n" * 30,
    "JSON": "[" + ",\n ".join(f'{{"id": {i}, "lat": {x}, "lon": {y}}}' for i, x, y in rows(300)) + "]",
    "JSON of placeholders": "[" + ", ".join(f'{{"id": {i}, "name": "User {i}"}}' for i in range(1, 31)) + "]",
    "a matrix of zeros": "[" + ",\n".join(["[" + ", ".join(["0"] * 12) + "]"] * 12) + "]",
    "bytes": " ".join(f"{byte:02x}" for byte in random.Random(4).randbytes(900)),
    "ruled lines": ("-" * 79 + "\n" + SENTENCE + "\n") * 8, "a rectangle": ("#" * 24 + "\n") * 20,
    "a triangle": "\n".join("*" * i for i in range(1, 41)), "a chessboard": (". # . # . # . #\n# . # . # . # .\n") * 8,
    "code": "\n".join(f"    if name == {word!r}:\n        return {i}" for i, word in enumerate(SENTENCE.split() * 4)),
    "99 bottles": "\n".join(f"{i} bottles of beer on the wall, {i} bottles of beer." for i in range(99, 0, -1)),
    "a laugh": "ha" * 150, "a refrain": (SENTENCE + "\nHey, hey, hey, hey!\n" * 4) * 6,
}  # fmt: skip


@pytest.mark.parametrize("text", TEXT.values(), ids=TEXT)
def test_it_leaves_text_alone(text: str) -> None:
    assert first_loop(text) is None


LOOPS = {
    "a word": (" the" * 800, Loop(1, 256)), "three words": (" no and then" * 300, Loop(3, 85)),
    "a sentence": ((SENTENCE + " ") * 60, Loop(15, 17)), "a line": ((SENTENCE + "\n") * 60, Loop(16, 16)),
    "a paragraph": (PARAGRAPH * 40, Loop(43, 12)),
    "a list that counts": ("\n".join(f"{i}. The use of light in the garden." for i in range(1, 400)), Loop(11, 43)),
    "steps": ("\n\n".join(f"Step {i}: Repeat step {i - 1}." for i in range(1, 200)), Loop(10, 48)),
    "a character": ("!" * 1000, Loop(1, 480)), "digits": ("0." + "3" * 1000, Loop(1, 480)),
    "lines with a dot": ("x" + " \n." * 1000, Loop(2, 240)), "an emoji": ("🚀" * 1000, Loop(1, 480)),
}  # fmt: skip


@pytest.mark.parametrize(("text", "loop"), LOOPS.values(), ids=LOOPS)
def test_it_fires_on_loops(text: str, loop: Loop) -> None:
    first = first_loop(PARAGRAPH + text)
    assert first is not None
    assert first[1] == loop
    assert first[0] < 800


def words(count: int) -> list[str]:
    return [f" {chr(97 + i // 26)}{chr(97 + i % 26)}x" for i in range(count)]


def overlap_free() -> Iterator[int]:
    """Thue and Morse's sequence of two signs, in which nothing comes three times in a row."""
    return (index.bit_count() % 2 for index in range(100_000))


@given(st.lists(st.sampled_from(words(40)), min_size=1, max_size=12), st.integers(0, 5000))
@cases(100, 10)
def test_nothing_without_repeats_sets_it_off(unit: list[str], start: int) -> None:
    table = Table()
    parts = (table.encode("".join(unit)), table.encode("".join(unit) + " other"))
    guard = LoopGuard(table.decode)
    assert not any(guard.push(token) for sign in islice(overlap_free(), start, start + 300) for token in parts[sign])


@given(st.integers(0, 2**32))
@cases(300, 6)
def test_it_agrees_with_its_definition(seed: int) -> None:
    """Counted from scratch at each token, over stretches of loops broken here and there."""
    rng = random.Random(seed)
    words_ = words(4)
    ids: list[int] = []
    while len(ids) < 900:
        unit = [rng.randrange(4) for _ in range(rng.choice((1, 2, 3, 7, 20, rng.randint(1, 60))))]
        ids += [*islice(cycle(unit), rng.randrange(400)), rng.randrange(4)]
    guard = LoopGuard(lambda tokens: "".join(words_[token] for token in tokens))
    counts = [0] * (LAGS + 1)
    for at, token in enumerate(ids):
        for lag in range(1, LAGS + 1):
            counts[lag] = counts[lag] + 1 if at >= lag and ids[at - lag] == token else 0
        lags = [lag for lag in range(1, LAGS + 1) if counts[lag] + lag >= max(WORDS[1], WORDS[0] * lag)]
        loop = guard.push(token)
        assert (loop.period if loop else None) == (lags[0] if lags else None)
        if loop:
            return
