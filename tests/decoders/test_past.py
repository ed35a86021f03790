"""Past answers: what is found against looking everywhere, adding, removing, other processes, damaged files."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specchat.backends.base import Sampling
from specchat.decoders.base import Context, Drafter
from specchat.decoders.methods.fusion import Fusion, FusionParams
from specchat.decoders.methods.lookup import Lookup, LookupParams
from specchat.decoders.methods.suffix import Suffix
from specchat.decoders.past.index import SUFFIX, Past
from specchat.decoders.past.segment import DEEPEST, Segment
from specchat.decoders.replay import replay

from ..cases import cases
from ..fakes.models.toy import ToyModel

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


EOS = 2
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
