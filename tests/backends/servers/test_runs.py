"""Streams of every shape are cut into the runs that the server really made, and no more is claimed than that."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Callable, Iterable
from functools import partial
from itertools import accumulate, groupby, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specchat.backends.servers.chunks import Chunk, parse
from specchat.backends.servers.runs import LONGEST_DRAFT, ByArrival, Cutter, Run
from specchat.backends.servers.stream import cutter_for
from specchat.tests.cases import cases
from specchat.tests.fakes.model_servers import Pass, Written, llama_server, of_words, sglang, text_only, vllm

WORDS = st.sampled_from(["The", " fox", " saw", ",", "\n", " nine", ".", "ing"]).map(str.encode)
PIECES = st.sampled_from([b"a", b" b", *(bytes([byte]) for byte in "🦊é".encode())])


@st.composite
def answers(draw: st.DrawFn, words: st.SearchStrategy[bytes] = WORDS) -> Written:
    """An answer of some passes; the first is the prompt's and gives one token."""
    passes = [Pass((draw(words),))]
    for _ in range(draw(st.integers(1, 12))):
        tokens = tuple(draw(st.lists(words, min_size=1, max_size=9)))
        drafted = draw(st.integers(len(tokens) - 1, 10)) if len(tokens) > 1 or draw(st.booleans()) else 0
        passes.append(Pass(tokens, drafted))
    eos = draw(st.booleans())
    if eos:  # llama-server never accepts all that it drafted, and an end token with it
        passes[-1] = Pass(passes[-1].tokens, len(passes[-1].tokens) + 1 if passes[-1].drafted else 0)
    return Written(tuple(passes), eos)


def cut(stream: Iterable[bytes], drafts: bool | None = True, per_chunk: bool = False) -> tuple[Cutter, list[Run]]:
    """What a stream is cut into; each event comes 20 ms after the one before."""
    cutter: Cutter | None = None
    runs: list[Run] = []
    last = Chunk()
    for number, data in enumerate(stream):
        body = data.decode().removeprefix("data: ").strip()
        if body == "[DONE]":
            break
        chunk = parse(json.loads(body))
        if chunk.text or chunk.ids:
            cutter = cutter or cutter_for(chunk, drafts, per_chunk)
            runs += cutter.push(chunk, number * 0.02)
        if chunk.tokens is not None and not chunk.text:
            last = chunk
    assert cutter is not None
    runs += cutter.finish(last)
    return cutter, runs


def lengths(runs: Iterable[Run]) -> list[int]:
    return [len(run.tokens) for run in runs if run.tokens]


def text(runs: Iterable[Run]) -> str:
    return "".join(run.text for run in runs)


@cases(2000)
@given(written=answers())
def test_llama_server_is_cut_exactly(written: Written) -> None:
    cutter, runs = cut(llama_server(written))
    assert cutter.certainty == "exact"
    assert lengths(runs) == written.lengths
    assert text(runs) == written.text
    assert [run.drafted for run in runs][: len(written.passes)] == [one.drafted for one in written.passes]
    assert sum(run.accepted for run in runs) == written.accepted
    assert (cutter.told.tokens, cutter.told.accepted) == (sum(written.lengths), written.accepted)


@cases(2000)
@given(written=answers(PIECES))
def test_llama_server_hides_passes_inside_characters(written: Written) -> None:
    if not _shows(written):
        return
    cutter, runs = cut(llama_server(written))
    assert text(runs) in written.text
    if cutter.certainty == "exact":
        assert lengths(runs) == written.lengths
    else:
        assert cutter.doubt.startswith(("Some tokens came without text", "The server counts"))


def _shows(written: Written) -> bool:
    """Whether any of it is a whole character."""
    return any(b'"content": "' in data for data in llama_server(written))


@cases(2000)
@given(written=answers())
def test_vllm_is_proved_by_its_own_account(written: Written) -> None:
    cutter, runs = cut(vllm(written))
    assert (cutter.certainty, cutter.doubt) == ("exact", "")
    assert lengths(runs) == written.lengths
    assert text(runs) == written.text
    assert cutter.told.drafted == written.drafted


@cases(2000)
@given(written=answers(), data=st.data())
def test_merged_chunks_of_vllm_are_found_out(written: Written, data: st.DataObject) -> None:
    several = [i for i, one in enumerate(written.passes) if i > 1]
    if not several:
        return
    merged = data.draw(st.lists(st.sampled_from(several), min_size=1, unique=True))
    cutter, runs = cut(vllm(written, merged))
    assert text(runs) == written.text
    assert sum(lengths(runs)) == sum(written.lengths)
    # A claim of exactness holds: where nothing was accepted, merged passes are told from drafts by their number alone.
    assert cutter.certainty == "reported"
    assert cutter.doubt


def test_vllm_without_its_account_is_only_reported() -> None:
    cutter, runs = cut(vllm(of_words("The", " fox ran away", " ."), told=False))
    assert (cutter.certainty, lengths(runs)) == ("reported", [1, 3, 1])
    assert [run.tokens for run in runs] == [[100], [101, 102, 103], [104]]


def test_vllm_that_does_not_speculate_gives_a_token_a_pass_however_it_merges_them() -> None:
    cutter, runs = cut(vllm(of_words("The", " fox", " ran", drafted=0), merged=[2], told=False), drafts=False)
    assert (cutter.certainty, lengths(runs), text(runs)) == ("exact", [1, 1, 1], "The fox ran")


def test_sglang_sends_ids_of_completions_however_it_counts_them() -> None:
    for sent in ([[5], [6, 7]], [[5], [5, 6, 7]]):  # what is new, or all so far
        chunks = [Chunk(" x", ids=tuple(ids), tokens=tokens) for ids, tokens in zip(sent, (1, 3), strict=True)]
        cutter = cutter_for(chunks[0], True, True)
        assert [run.tokens for chunk in chunks for run in cutter.push(chunk, 0.0)] == [[5], [6, 7]]
        assert cutter.certainty == "reported"


def test_sglang_is_exact_where_its_passes_are_as_many_as_its_chunks() -> None:
    written = of_words("The", " fox ran", " over the hill", " .")
    cutter, runs = cut(sglang(written), per_chunk=True)
    assert (cutter.certainty, lengths(runs), text(runs)) == ("exact", [1, 2, 3, 1], written.text)
    cutter, runs = cut(sglang(written, lost=3), per_chunk=True)
    assert cutter.certainty == "reported"
    assert cutter.doubt == "The server counts 6 passes with drafts, its stream has 4 chunks."


def test_counters_that_contradict_each_other_are_not_believed() -> None:
    written = of_words("The", " fox ran over", " the hill")
    stream = [data.replace(b'"draft_n_accepted": 2', b'"draft_n_accepted": 99') for data in llama_server(written)]
    cutter, runs = cut(stream)
    assert (cutter.certainty, cutter.doubt) == ("reported", "The server's counters contradict each other.")
    assert text(runs) == written.text
    huge = [data.replace(b'"predicted_n": 4', b'"predicted_n": 2000000000') for data in llama_server(written)]
    assert sum(lengths(cut(huge)[1])) < 10_000


EVENT = 150
"""Bytes of an event."""


def paced(count: int = 200, spread: float = 0.2, stalls: float = 0.0, seed: int = 5) -> list[float]:
    """When a plain server has each token: every 20 ms or so; sometimes the machine stalls."""
    dice, now, out = random.Random(seed), 0.0, []
    for _ in range(count):
        now += max(0.002, dice.gauss(0.02, 0.02 * spread)) + (dice.random() < stalls) * dice.random() * 0.4
        out.append(now)
    return out


def drafted(longest: int, right: float, count: int = 200, often: float = 1.0, seed: int = 5) -> list[float]:
    """When a speculating server's tokens come: a pass takes 32 ms or so, however many it gives."""
    dice, now, out = random.Random(seed), 0.0, list[float]()
    while len(out) < count:
        now += dice.gauss(0.032, 0.003)
        out.append(now)
        guesses = longest if dice.random() < often else 0
        while guesses and dice.random() < right:
            guesses -= 1
            out.append(out[-1] + 4e-5)
    return out[:count]


def held(times: list[float], sends: Callable[[list[float], float], bool]) -> list[float]:
    """When tokens come through something that holds them until it sends all, back to back.

    Args:
        sends: whether it does, by the times of those that it holds and that of the next.
    """
    out, kept = list[float](), list[float]()
    for now, after in zip(times, [*times[1:], times[-1] + 9], strict=True):
        kept.append(now)
        if sends(kept, after):
            out += [now + i * 4e-5 for i in range(len(kept))]
            kept = []
    return out


def clock(seconds: float, times: list[float]) -> list[float]:
    """The same, sent at each tick."""
    ticks = [math.ceil(each / seconds) * seconds for each in times]
    return [tick + 4e-5 * sum(other == tick for other in ticks[:i]) for i, tick in enumerate(ticks)]


def buffered(size: int, kept: list[float], after: float) -> bool:
    """Whether so many bytes are full, or nothing follows."""
    return len(kept) * EVENT >= size or after > kept[-1] + 8


BYTES = {size: partial(buffered, size) for size in (512, 4096, 10**9)}
HELD: dict[str, list[float]] = {
    "nothing holds it": paced(),
    "a fast server": [each / 50 for each in paced()],
    "an uneven one": paced(spread=0.4),
    "one that stalls": paced(stalls=0.05),
    **{f"a buffer of {size} bytes": held(paced(), sends) for size, sends in BYTES.items()},
    **{f"a buffer of {size} bytes, stalls": held(paced(stalls=0.1), sends) for size, sends in BYTES.items()},
    **{f"{count} events at once": held(paced(), partial(buffered, count * EVENT)) for count in (2, 4, 8)},
    **{f"a clock of {each} s": clock(each, paced(spread=0.3)) for each in (0.03, 0.05, 0.1, 0.25, 1.0)},
    **{f"a clock of {each} s, stalls": clock(each, paced(stalls=0.1)) for each in (0.05, 0.1, 0.25)},
    # A reader, or a sender, that is kept from its work for a while: 22 tokens came together on a real server.
    "a pause of the reader": held(paced(), lambda kept, _: not 0.3 < kept[-1] % 2 < 0.74),
    "pauses of the reader": held(paced(), lambda kept, _: not 0.3 < kept[-1] % 0.7 < 0.52),
    "passes that are all as long": [i // 4 * 0.03 + i % 4 * 4e-5 for i in range(200)],
}  # fmt: skip


def arriving(times: Iterable[float], word: str = " x", drafts: bool | None = None) -> tuple[Cutter, list[Run]]:
    """A word at each time."""
    cutter, runs = ByArrival(drafts), list[Run]()
    for now in times:
        runs += cutter.push(Chunk(word), now)
    return cutter, [*runs, *cutter.finish(None)]


@pytest.mark.parametrize("name", HELD)
def test_what_was_held_back_on_its_way_is_no_pass(name: str) -> None:
    cutter, runs = arriving(HELD[name])
    assert (cutter.certainty, set(lengths(runs))) == ("unknown", {1})
    assert text(runs) == " x" * len(HELD[name])


@pytest.mark.parametrize(("longest", "right", "often"), [(4, 0.5, 1), (5, 0.7, 1), (10, 0.8, 1), (10, 0.8, 0.4)])
def test_bursts_that_time_does_not_explain_are_taken_for_passes(longest: int, right: float, often: float) -> None:
    times = drafted(longest, right, often=often)
    cutter, runs = arriving(times)
    assert (cutter.certainty, text(runs)) == ("estimated", " x" * len(times))
    passes = [len(list(own)) for _, own in groupby(accumulate(b - a > 0.001 for a, b in pairwise([times[0] - 1, *times])))]
    assert lengths(runs)[-10:] == passes[-10:]
    # As soon as a proxy holds them back, they are so no more.
    cutter, runs = arriving([*times, *(times[-1] + each for each in HELD["a buffer of 4096 bytes, stalls"] * 3)])
    assert max(lengths(runs)) <= LONGEST_DRAFT


def test_a_chunk_of_several_words_is_a_pass_where_the_server_speculates() -> None:
    for drafts, certainty, expected in ((True, "estimated", [3, 3]), (None, "unknown", [1] * 6), (False, "unknown", [1] * 6)):
        cutter, runs = arriving([0.0, 0.05], " a bit more\n", drafts)
        assert (cutter.certainty, lengths(runs), text(runs)) == (certainty, expected, " a bit more\n" * 2)


@cases(2000)
@given(written=answers(PIECES))
def test_text_alone_is_never_lost(written: Written) -> None:
    if not _shows(written):
        return
    cutter, runs = cut(text_only(written), drafts=None)
    assert cutter.certainty in ("estimated", "unknown")
    assert text(runs) in written.text
