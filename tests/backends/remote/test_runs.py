"""Streams of every shape are cut into the runs that the server really made, and no more is claimed than that."""

from __future__ import annotations

import json
from collections.abc import Iterable

from hypothesis import given
from hypothesis import strategies as st

from specchat.backends.remote.chunks import Chunk, parse
from specchat.backends.remote.identify import Served
from specchat.backends.remote.runs import UNTOLD, Certainty, Cutter, Run
from specchat.backends.remote.stream import cutter_for
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


def cut(
    stream: Iterable[bytes], drafts: bool | None = True, engine: str = "vLLM", certainty: Certainty = "exact"
) -> tuple[Cutter, list[Run]]:
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
            cutter = cutter or cutter_for(chunk, Served(engine, "/v1", "m", drafts=drafts), certainty)
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


def test_a_pass_whose_last_token_shows_nothing_is_as_long_as_the_server_counts() -> None:
    first, second = (bytes([byte]) for byte in "é".encode())
    written = Written((Pass((b"The",)), Pass((b" fox", first), 4), Pass((second,)), Pass((b" ran", b" on"), 3)), eos=False)
    cutter, runs = cut(llama_server(written))
    assert (lengths(runs), text(runs), cutter.certainty) == ([1, 2, 1, 2], written.text, "exact")


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
    assert sum(run.accepted for run in runs) == written.accepted


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
    assert cutter.certainty == "unknown"
    assert cutter.doubt


def test_without_its_account_the_passes_of_vllm_are_unknown() -> None:
    stream = vllm(of_words("The", " fox ran away", " ."), told=False)
    cutter, runs = cut(stream)
    assert (cutter.certainty, cutter.untold, cutter.doubt) == ("unknown", True, UNTOLD)
    assert [run.tokens for run in runs] == [[100], [101, 102, 103], [104]]
    assert cut(stream, certainty="unknown")[0].doubt == "", "it is said once"


def test_the_totals_of_vllm_prove_its_chunks_as_well() -> None:
    for merged, certainty in (((), "exact"), ((3,), "unknown")):
        stream = vllm(of_words("The", " fox ran away", " .", " It slept"), merged)
        *most, last, done = stream
        told = json.loads(last.decode().removeprefix("data: "))
        account = told["metrics"]["speculative_decoding"]
        del account["per_step_accepted"], account["per_step_drafted"]
        assert cut([*most, f"data: {json.dumps(told)}\n\n".encode(), done])[0].certainty == certainty


def test_vllm_that_does_not_speculate_gives_a_token_a_pass_however_it_merges_them() -> None:
    cutter, runs = cut(vllm(of_words("The", " fox", " ran", drafted=0), merged=[2], told=False), drafts=False)
    assert (cutter.certainty, lengths(runs), text(runs)) == ("exact", [1, 1, 1], "The fox ran")


def test_sglang_counts_its_passes_and_does_not_show_them() -> None:
    written = of_words("The", " fox ran", " over the hill", " .")
    cutter, runs = cut(sglang(written), engine="SGLang")
    assert (cutter.certainty, text(runs)) == ("unknown", written.text)
    assert (cutter.told.tokens, cutter.told.steps, cutter.told.drafted, cutter.told.accepted) == (7, 4, 40, 20)


def test_counters_that_contradict_each_other_are_not_believed() -> None:
    written = of_words("The", " fox ran over", " the hill")
    stream = [data.replace(b'"draft_n_accepted": 2', b'"draft_n_accepted": 99') for data in llama_server(written)]
    cutter, runs = cut(stream)
    assert (cutter.certainty, cutter.doubt) == ("unknown", "The server's counters contradict each other.")
    assert text(runs) == written.text
    huge = [data.replace(b'"predicted_n": 4', b'"predicted_n": 2000000000') for data in llama_server(written)]
    assert sum(lengths(cut(huge)[1])) < 10_000


@cases(2000)
@given(written=answers(PIECES))
def test_text_alone_is_never_lost(written: Written) -> None:
    if not _shows(written):
        return
    cutter, runs = cut(text_only(written), drafts=None)
    assert cutter.certainty == "unknown"
    assert text(runs) in written.text
