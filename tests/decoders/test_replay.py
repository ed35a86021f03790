"""Recorded answers, replayed: the counting, and that a drafter cannot see ahead; past answers to draft from: what is
found against looking everywhere, adding, removing, other processes, damaged files."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specchat.backends import Model, Sampling
from specchat.backends.sessions.tree import TreeSession
from specchat.backends.transcripts import scan_transcripts
from specchat.decoders import Context, Drafter, Tree, Verified
from specchat.decoders.methods.fusion import Fusion, FusionParams
from specchat.decoders.methods.lookup import Lookup, LookupParams
from specchat.decoders.methods.plain import Greedy
from specchat.decoders.methods.suffix import Suffix
from specchat.decoders.past.index import SUFFIX, Past
from specchat.decoders.past.segment import DEEPEST, Segment
from specchat.decoders.replay import replay
from specchat.decoders.verifying.passes import Pass

from ..cases import cases
from ..fakes.models.toy import ToyModel

EOS = 2


class Spy(Drafter):
    """Drafts one line, and notes what it is shown."""

    name = "spy"
    summary = pays = ""

    def __init__(self, line: list[int]) -> None:
        super().__init__()
        self.line = line
        self.seen: list[list[int]] = []
        self.rooms: set[int] = set()

    def draft(self, context: Context) -> Tree:
        self.seen.append(list(context.tokens))
        self.rooms.add(context.max_depth)
        assert list(context.session.tokens) == list(context.tokens[:-1])
        return Tree.chain(context.pending, self.line)


def test_the_prefill_is_a_pass_and_eos_is_a_token() -> None:
    totals = replay([5, 6], [7, 8, 9, EOS], Greedy(), eos_ids=(EOS,))
    assert (totals.tokens, totals.steps, totals.tokens_per_step) == (4, 4, 1)
    # After the prefill's 7 one pass takes the three drafted tokens, EOS among them.
    totals = replay([5, 6], [7, 8, 9, EOS], Spy([8, 9, EOS]), eos_ids=(EOS,))
    assert (totals.tokens, totals.steps, totals.accepted) == (4, 2, 3)
    assert totals.runs == [1, 3]


def test_a_drafter_sees_no_more_than_what_is_written() -> None:
    spy = Spy([8])
    replay([5, 6], [7, 8, 9, 8, 4, EOS], spy, eos_ids=(EOS,))
    assert spy.seen == [[5, 6, 7], [5, 6, 7, 8, 9], [5, 6, 7, 8, 9, 8, 4]]
    assert len(spy.rooms) == 1


@pytest.mark.parametrize("response", [[7, 8], [7], []])
def test_an_answer_that_was_cut_off_ends_where_it_ends(response: list[int]) -> None:
    totals = replay([5, 6], response, Spy([8, 8, 8]), eos_ids=(EOS,))
    assert totals.tokens == len(response)


def test_what_follows_eos_is_not_replayed() -> None:
    assert replay([5], [6, EOS, 7, 7], Greedy(), eos_ids=(EOS,)).tokens == 2


def test_off_the_record_the_choices_of_a_forced_model_are_none(builtin_model: Model) -> None:
    """The session of the model is what the drafter sees, and what is committed there is the record."""
    seen: list[Sequence[int]] = []

    class Watching(Spy):
        def learn(self, verified: Verified) -> None:
            seen.append(verified.chosen)

    spy = Watching([8, 70, 71])
    replay([5, 6], [7, 8, 9, 8, 4, EOS], spy, eos_ids=(EOS,), over=builtin_model, forced=True)
    assert spy.seen == [[5, 6, 7], [5, 6, 7, 8, 9], [5, 6, 7, 8, 9, 8, 4]]
    assert [chosen[:2] for chosen in seen] == [[8, 9], [8, 4], [EOS, 256]]
    assert {token for chosen in seen for token in chosen[2:]} == {256}, "the record's own end"


def test_a_pass_that_takes_text_along_is_no_drafting(builtin_model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was accepted with other bits than plain decoding's is evaluated again, by the pass that comes next."""

    class Drafting(Greedy):
        def draft(self, context: Context) -> Tree:
            return Tree.chain(context.pending, [8, 9])

    seconds, along, evaluate = [0.0], set[int](), Pass.evaluate

    def slow(running: Pass) -> Any:
        seconds[0] += 1
        along.add(len(running.lacking))
        return evaluate(running)

    monkeypatch.setattr(Pass, "evaluate", slow)
    monkeypatch.setattr(TreeSession, "exact", lambda session, path: 1)
    for module in ("replay", "verifying.clock"):
        monkeypatch.setattr(f"specchat.decoders.{module}.time", SimpleNamespace(perf_counter=lambda: seconds[0]))
    totals = replay([5, 6], [7, 8, 9, 8, 9, 8, 9, EOS], Drafting(), eos_ids=(EOS,), over=builtin_model, forced=True)
    assert max(along) > 0
    assert totals.draft_seconds == pytest.approx(0, abs=1e-6), "of the clock above, which passes alone move"


CHAT = [{"role": "user", "content": "Hi"}]


def scan(tmp_path: Path, *rows: Any) -> tuple[list[Any], list[str]]:
    file = tmp_path / "r.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return scan_transcripts(file)


def test_ids_and_texts_under_their_other_name(tmp_path: Path) -> None:
    ids = {"token_ids": [7, 8], "prompt_ids": [1, 2, 3]}
    records, problems = scan(
        tmp_path,
        {"messages": CHAT, "text": "Yes", "finish_reason": "eos", **ids},
        {"prompt": "Hi", "text": "Yes", "finish_reason": "length", "token_ids": [7]},
        {"prompt": "Hi", "response": "Yes", "token_ids": ["7", True], "prompt_ids": [-1]},
    )
    assert problems == []
    assert [(record.response_ids, record.prompt_ids, record.ended) for record in records] == [
        ((7, 8), (1, 2, 3), True),
        ((7,), (), False),
        ((), (), True),
    ]


def test_a_record_of_bench_counts_each_prompt_once(tmp_path: Path) -> None:
    row = {"messages": CHAT, "text": "Yes", "item": "1", "method": "plain", "round": 0}
    records, problems = scan(
        tmp_path,
        {"specchat-bench": 1, "key": "k"},
        {"item": "2", "method": "plain", "round": 0, "error": "gone"},
        row,
        {**row, "round": 1},
        {**row, "method": "ngram"},
        {**row, "item": "2"},
    )
    assert (len(records), problems) == (2, [])


ANSWERS = st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=50), min_size=1, max_size=6)


def shared(text: list[int], answer: list[int], at: int) -> int:
    """How many of the text's last tokens stand before a place in an answer."""
    most = min(DEEPEST, at, len(text))
    return next((n for n in range(most) if text[-1 - n] != answer[at - 1 - n]), most)


@cases(150)
@given(ANSWERS, st.lists(st.integers(0, 4), min_size=1, max_size=40), st.integers(1, 5))
def test_the_longest_matches_are_found(answers: list[list[int]], text: list[int], reach: int) -> None:
    past = Past()
    past.add(list(enumerate(answers)))
    found = past.lines(text, 4, reach)
    # Every place in every answer, the longest match first.
    everywhere = sorted((shared(text, a, i) for a in answers for i in range(1, len(a))), reverse=True)
    assert [match for _, match in found] == [match for match in everywhere if match][:4]
    for line, match in found:
        tail = text[-match:]
        assert any(
            a[i : i + match] + a[i + match : i + match + reach] == tail + list(line) for a in answers for i in range(len(a))
        )


@cases(60)
@given(ANSWERS, st.sets(st.integers(0, 5)), st.lists(st.integers(0, 3), min_size=1, max_size=12))
def test_what_is_forgotten_was_never_there(answers: list[list[int]], gone: set[int], text: list[int]) -> None:
    past, other = Past(), Past()
    past.add(list(enumerate(answers)))
    past.forget(gone)
    other.add([(key, answer) for key, answer in enumerate(answers) if key not in gone])
    assert past.keys == other.keys
    assert past.lines(text, 8, 4) == other.lines(text, 8, 4)


def test_answers_are_kept_on_disk_for_this_user_alone(tmp_path: Path) -> None:
    folder = tmp_path / "past"
    past = Past(folder)
    past.add([(1, [5, 6, 7, 8]), (2, [5, 6, 9])])
    past.add([(3, [1] * 50)])
    again = Past(folder)
    assert again.keys == {1, 2, 3}
    assert [list(line) for line, _ in again.lines([4, 5, 6], 4, 8)] == [[9], [7, 8]]
    assert {file.stat().st_mode & 0o777 for file in folder.iterdir()} == {0o600}
    assert again.frequent[0] == (1, 50 / 57)


def test_a_segment_takes_in_those_that_are_not_much_larger(tmp_path: Path) -> None:
    past = Past(tmp_path)
    past.add([(0, range(3000))])
    for key in range(1, 40):
        past.add([(key, range(key, key + 100))])
    assert past.keys == set(range(40))
    assert len(list(tmp_path.iterdir())) <= 2


def test_what_another_process_removes_is_gone_at_the_next_draft(tmp_path: Path) -> None:
    past = Past(tmp_path)
    past.add([(1, [5, 6, 7, 8]), (2, [1, 2, 3])])
    assert past.lines([5, 6], 1, 2)
    script = (
        f"from pathlib import Path; from specchat.decoders.past.index import Past; Past(Path({str(tmp_path)!r})).forget([1])"
    )
    subprocess.run([sys.executable, "-c", script], check=True)
    assert not past.lines([5, 6], 1, 2)
    assert past.keys == {2}
    raw = b"".join(file.read_bytes() for file in tmp_path.iterdir())
    assert bytes([0, 0, 0, 8, 0, 0, 0, 7]) not in raw  # the tokens themselves, in reverse


def test_what_was_removed_during_a_merge_stays_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    past, other = Past(tmp_path), Past(tmp_path)
    past.add([(1, [5, 6, 7]), (2, [1, 2, 3])])
    build = Segment.build

    def slow(answers: object) -> Segment:
        other.forget([1])
        return build(answers)  # type: ignore[arg-type]

    monkeypatch.setattr(Segment, "build", slow)
    past.add([(3, [8, 9])])
    assert past.keys == Past(tmp_path).keys == {2, 3}


@pytest.mark.parametrize("damage", ["cut", "header", "empty", "longer"])
def test_a_damaged_file_is_left_out_and_can_be_added_again(tmp_path: Path, damage: str) -> None:
    past = Past(tmp_path)
    past.add([(1, [5, 6, 7])])
    (file,) = tmp_path.glob(f"*{SUFFIX}")
    whole = file.read_bytes()
    bad = {"cut": whole[:-1], "header": b"{" * 200 + whole[200:], "empty": b"", "longer": whole + b" "}[damage]
    file.write_bytes(bad)
    again = Past(tmp_path)
    assert not again.keys
    assert not list(tmp_path.iterdir())
    again.add([(1, [5, 6, 7])])
    assert [list(line) for line, _ in again.lines([5], 1, 2)] == [[6, 7]]


ANSWER = [*range(40, 80), EOS]


@pytest.fixture
def past() -> Past:
    found = Past()
    found.add([(1, ANSWER)])
    return found


@pytest.mark.parametrize("method", [Lookup, Fusion, Suffix])
def test_an_answer_that_was_given_before_takes_few_passes(method: type[Drafter], past: Past) -> None:
    without = replay([9, 8], ANSWER, method(), eos_ids=(EOS,))
    with_it = replay([9, 8], ANSWER, method(), eos_ids=(EOS,), past=past)
    assert without.tokens == with_it.tokens == len(ANSWER)
    assert without.steps == len(ANSWER)
    assert with_it.steps < len(ANSWER) / 3


@pytest.mark.parametrize("drafter", [Lookup(LookupParams(past=False)), Fusion(FusionParams(past=False))])
def test_it_can_be_turned_off(drafter: Drafter, past: Past) -> None:
    assert replay([9, 8], ANSWER, drafter, eos_ids=(EOS,), past=past).steps == len(ANSWER)


@pytest.mark.parametrize("method", [Lookup, Fusion, Suffix])
@pytest.mark.parametrize("room", [0, 1, 3])
def test_nothing_is_drafted_past_the_end(method: type[Drafter], room: int, past: Past) -> None:
    past.add([(2, [40, 41, EOS, 5, 6])])
    session = ToyModel(1).open_session()
    for tokens in ([1, 40, 41], [70, 71, 72], [77, 78, 79]):
        tree = method().draft(Context(tokens, session, Sampling(), room, frozenset({EOS}), past=past))
        assert max(tree.depths()) <= room
        for node, parent in enumerate(tree.parents):
            assert parent < 0 or tree.tokens[parent] != EOS or parent == 0
            assert tree.tokens[node] >= 0
