"""The loop's own rules on a recorded transcript; totals over hand-made steps; replays; past answers to draft from."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specchat.app.render.tree_rows import StepTree
from specchat.backends import Model, Sampling, load_model
from specchat.backends.sessions.tree import TreeSession
from specchat.decoders import Context, Conversation, Drafter, Generation, Stops, Tree, Verified, encode_prompt, generate
from specchat.decoders.methods.fusion import Fusion
from specchat.decoders.methods.lookup import Lookup
from specchat.decoders.methods.plain import Greedy
from specchat.decoders.methods.suffix import Suffix
from specchat.decoders.past.index import SUFFIX, Past
from specchat.decoders.past.segment import DEEPEST, Segment
from specchat.decoders.replay import replay
from specchat.decoders.stats import Totals
from specchat.decoders.step import StepRecord
from specchat.decoders.verify import Pass

from ..cases import cases
from ..fakes.models.toy import ToyModel
from ..fakes.records import recorded_model

PROMPT = "Say it again: the cat sat on the mat and the cat sat on the mat."
RESPONSE = "the cat sat on the mat and the cat sat on the mat. Then the dog came."


@pytest.fixture
def model(tmp_path: Path) -> Model:
    return load_model(recorded_model(tmp_path, {PROMPT: RESPONSE}))


def text_of(generation: Generation) -> str:
    return "".join(step.text for step in generation) + generation.flush()


def test_a_stop_string_ends_the_answer_and_is_not_shown(model: Model) -> None:
    generation = generate(model, PROMPT, "lookup", stops=Stops(["mat and"]))
    assert text_of(generation) == "the cat sat on the "
    assert generation.finish_reason == "stop"
    assert model.decode(generation.answer).startswith("the cat sat on the mat")
    assert generation.totals.tokens == len(generation.answer)


@pytest.mark.parametrize("ending", [{"stops": Stops(["cat"])}, {"max_tokens": 5}], ids=["string", "limit"])
@pytest.mark.parametrize("method", ["lookup", "lookahead", "recycle", "beam"])
def test_every_step_counts_what_is_in_the_answer(builtin_model: Model, method: str, ending: dict[str, Any]) -> None:
    """Accepted tokens behind the answer's end were counted: 21 accepted of 15 tokens."""
    text = "Repeat this: the cat sat on the mat, the dog sat on the cat, the cat sat on the mat."
    prompt = encode_prompt(builtin_model, text)
    generation = Generation(Conversation(builtin_model), prompt, method, **ending)
    generation.records_probabilities = True
    steps = list(generation)
    totals = generation.totals
    assert [token for step in steps for token in step.tokens] == generation.answer
    assert totals.tokens == len(generation.answer)
    for step in steps:
        tree, path = step.tree, step.path or (0,)
        led = [tree.tokens[node] for node in path[1:]]
        assert led == list(step.tokens[: len(led)])
        assert len(led) in (len(step.tokens), len(step.tokens) - 1)
        assert step.accepted <= min(len(led), step.drafted)
        assert all(0 <= parent < node for node, parent in enumerate(tree.parents[1:], 1))
        assert [tree.parents[node] for node in path] == [-1, *path[:-1]]
        assert not step.probs or len(step.probs) == len(tree)
        assert not step.tree_tokens or len(StepTree.of(step, 0).path) == len(step.path)
        if len(led) == len(step.tokens) and step.drafted:  # the answer ends here: nothing was refused behind it
            assert path[-1] not in tree.parents
    assert sum(totals.accepted_at) == totals.accepted
    if method != "beam":
        assert totals.accepted <= totals.tokens - totals.steps + 1


def test_a_second_turn_evaluates_only_what_is_new(model: Model) -> None:
    conversation = Conversation(model)
    first = Generation(conversation, encode_prompt(model, PROMPT))
    text = text_of(first)
    before = conversation.session.nodes_evaluated
    turns = [
        {"role": "user", "content": PROMPT},
        {"role": "assistant", "content": text},
        {"role": "user", "content": "Once more, please."},
    ]
    prompt = encode_prompt(model, turns)
    second = Generation(conversation, prompt, max_tokens=1)
    assert second.reused >= len(encode_prompt(model, PROMPT)) - 1
    next(second)
    assert conversation.session.nodes_evaluated - before == len(prompt) - second.reused


@pytest.mark.parametrize("method", ["greedy", "lookahead"])
def test_the_first_pass_takes_the_prompt_along(model: Model, method: str) -> None:
    prompt = encode_prompt(model, PROMPT)
    conversation = Conversation(model)
    generation = Generation(conversation, prompt, method)
    first = generation.advance()
    assert first is not None
    assert first.prefilled == len(prompt) - 1
    assert first.nodes == len(first.tree)
    assert conversation.session.nodes_evaluated == len(prompt) - 1 + first.nodes
    assert conversation.session.length == len(prompt) - 1 + max(1, len(first.path))
    second = generation.advance()
    assert second is not None
    assert second.prefilled == 0
    # Of a prompt that the cache holds already only the last token is evaluated.
    repeated = Generation(conversation, prompt, method).advance()
    assert repeated is not None
    assert repeated.prefilled == 0
    # A method that works in the cache finds the prompt there.
    recompute = generate(model, PROMPT, "recompute")
    assert recompute.advance() is None
    assert recompute.conversation.session.length == recompute.prompt_tokens - 1


@pytest.mark.parametrize("limit", [{"max_tokens": 16}, {"stops": Stops(["sat on"])}], ids=["length", "stop in a draft"])
def test_timed_plain_steps_are_undone(builtin_model: Model, limit: dict[str, Any]) -> None:
    conversation = Conversation(builtin_model)
    generation = Generation(conversation, encode_prompt(builtin_model, PROMPT), "lookup", **limit)
    list(generation)
    before = list(conversation.session.tokens)
    assert ("stops" in limit) == (len(before) > len(generation.tokens)), "the cache holds what the stop cut off"
    assert generation.plain_seconds(5, 9) > 0
    assert list(conversation.session.tokens) == before[: len(generation.tokens)]


def made(tokens: Sequence[int], **values: Any) -> StepRecord:
    """A step of 1.75 s."""
    return StepRecord("any", tokens, **{"draft_seconds": 0.25, "forward_seconds": 1.0, "other_seconds": 0.5, **values})


def totals(*records: StepRecord) -> Totals:
    out = Totals()
    for record in records:
        out.add(record)
    return out


def test_sums_and_ratios() -> None:
    t = Totals()  # divides nothing
    assert t.acceptance_rate == t.tokens_per_step == t.nodes_per_token == t.tokens_per_second == t.alpha == 0
    assert t.speedup(11) == t.what_if(1, 0.5, 0) == 0
    assert t.step_seconds(3, 11) == 11
    t = totals(
        made((1, 2, 3), drafted=4, accepted=2, nodes=5), made((4,), drafted=4, nodes=5), made((5,)),
        made((6, 7, 8), drafted=2, accepted=2, nodes=3),
    )  # fmt: skip
    assert (t.steps, t.tokens, t.drafted, t.accepted, t.nodes, t.runs) == (4, 8, 10, 4, 14, [3, 1, 1, 3])
    assert (t.acceptance_rate, t.tokens_per_step, t.nodes_per_token, t.tokens_per_second) == (0.4, 2, 14 / 8, 8 / 7)
    # Three steps drafted a first token, two of them had it accepted; one of the two drafted a third token, refused.
    assert (t.drafted_at, t.accepted_at) == ([3, 2, 1], [2, 2, 0])
    assert t.position_acceptance == [2 / 3, 1, 0]
    assert t.alpha == 4 / 6
    # A pass that took prompt tokens along says nothing of what a pass costs.
    t = totals(made((1,), forward_seconds=0.01, prefilled=90), made((1,)), made((1,)))
    assert (t.timed, t.timed_tokens, t.timed_seconds, t.forward_seconds) == (2, 2, 3.5, 2.01)


def timed(nodes: int, run: int, draft: float = 0.0) -> StepRecord:
    """A chain of `nodes - 1` draft tokens whose pass costs 10 + 1 per node."""
    counts = {"drafted": nodes - 1, "accepted": run - 1, "nodes": nodes}
    took = {"draft_seconds": draft, "forward_seconds": 10 + nodes, "other_seconds": 0.0}
    return made(range(run), **counts, **took, tree_parents=range(-1, nodes - 1), path=range(run))


def test_a_step_costs_what_a_line_through_the_plain_one_and_the_mean_says() -> None:
    t = totals(timed(1, 1), timed(5, 3, 2.0), timed(9, 2, 4.0), timed(5, 5, 2.0))
    assert (t.depth, t.draft_token_seconds) == (16, 0.5)
    assert [t.step_seconds(nodes, 11) for nodes in (1, 3, 20)] == pytest.approx([11, 13, 30])
    assert t.step_seconds(9, 99) == 99, "no pass takes less for being larger"
    assert totals(timed(1, 1)).step_seconds(9, 11) == 11, "one size tells nothing about others"


def test_speedups_are_measured_and_foreseen_by_the_formula() -> None:
    t = totals(*[timed(5, 4, 2.0) for _ in range(50)], timed(1, 1))
    assert t.speedup(11) == pytest.approx((50 * 4 + 1) * 11 / (50 * 17 + 11))
    t = totals(*[timed(5, 5, 2.0) for _ in range(9)])
    assert t.alpha == 1
    assert t.what_if(4, t.alpha, 11) == pytest.approx(t.speedup(11))
    t = totals(timed(1, 1), timed(5, 3, 2.0))
    assert [t.what_if(0, rate, 11) for rate in (0.0, 1.0)] == pytest.approx([1, 1])
    assert [t.what_if(1, rate, 11) for rate in (0.0, 0.5, 1.0)] == pytest.approx([11 / 12.5, 1.5 * 11 / 12.5, 2 * 11 / 12.5])
    assert t.what_if(4, 1.0, 11) == pytest.approx(5 * 11 / 17)
    best, gain = t.best_length(0.8, 11)
    assert gain == max(t.what_if(length, 0.8, 11) for length in range(1, 33))
    assert gain == t.what_if(best, 0.8, 11) > 1


@pytest.mark.parametrize(("path", "at"), [((0, 2), ([1], [1])), ((0, 1), ([1, 1], [1, 0])), ((0,), ([1], [0]))])
def test_a_position_counts_once_however_many_branches_it_has(path: Sequence[int], at: tuple[list[int], list[int]]) -> None:
    """0 ─ 1 ─ 3 ─ 4, and 0 ─ 2: below node 2 nothing can be refused."""
    more = {"drafted": 4, "accepted": len(path) - 1, "nodes": 5, "tree_parents": [-1, 0, 0, 1, 3], "path": path}
    t = totals(made(range(len(path)), **more))
    assert (t.drafted_at, t.accepted_at) == at


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
    assert replay([5], [6, EOS, 7, 7], Greedy(), eos_ids=(EOS,)).tokens == 2
    for cut_off in ([7, 8], [7], []):
        assert replay([5, 6], cut_off, Spy([8, 8, 8]), eos_ids=(EOS,)).tokens == len(cut_off)


def test_a_drafter_sees_no_more_than_what_is_written() -> None:
    spy = Spy([8])
    replay([5, 6], [7, 8, 9, 8, 4, EOS], spy, eos_ids=(EOS,))
    assert spy.seen == [[5, 6, 7], [5, 6, 7, 8, 9], [5, 6, 7, 8, 9, 8, 4]]
    assert len(spy.rooms) == 1


def test_off_the_record_the_choices_of_a_forced_model_are_none(builtin_model: Model) -> None:
    """The session of the model is what the drafter sees, and what is committed there is the record."""
    choices: list[Sequence[int]] = []

    class Watching(Spy):
        def learn(self, verified: Verified) -> None:
            choices.append(verified.chosen)

    spy = Watching([8, 70, 71])
    replay([5, 6], [7, 8, 9, 8, 4, EOS], spy, eos_ids=(EOS,), over=builtin_model, forced=True)
    assert spy.seen == [[5, 6, 7], [5, 6, 7, 8, 9], [5, 6, 7, 8, 9, 8, 4]]
    assert [chosen[:2] for chosen in choices] == [[8, 9], [8, 4], [EOS, 256]]
    assert {token for chosen in choices for token in chosen[2:]} == {256}, "the record's own end"


def test_a_pass_that_takes_text_along_is_no_drafting(builtin_model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tokens accepted with other bits than plain decoding's are evaluated again, by the next pass."""

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
    for module in ("replay", "verify"):
        monkeypatch.setattr(f"specchat.decoders.{module}.time", SimpleNamespace(perf_counter=lambda: seconds[0]))
    totals = replay([5, 6], [7, 8, 9, 8, 9, 8, 9, EOS], Drafting(), eos_ids=(EOS,), over=builtin_model, forced=True)
    assert max(along) > 0
    assert totals.draft_seconds == pytest.approx(0, abs=1e-6), "of the clock above, which passes alone move"


ANSWERS = st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=50), min_size=1, max_size=6)


def shared(text: list[int], answer: list[int], at: int) -> int:
    """Count the text's last tokens that stand before a place in an answer."""
    most = min(DEEPEST, at, len(text))
    return next((n for n in range(most) if text[-1 - n] != answer[at - 1 - n]), most)


@cases(150)
@given(ANSWERS, st.lists(st.integers(0, 4), min_size=1, max_size=40), st.integers(1, 5))
def test_the_longest_matches_are_found(answers: list[list[int]], text: list[int], reach: int) -> None:
    past = Past()
    past.add(list(enumerate(answers)))
    lines = past.lines(text, 4, reach)
    # Every place in every answer, the longest match first.
    everywhere = sorted((shared(text, a, i) for a in answers for i in range(1, len(a))), reverse=True)
    assert [match for _, match in lines] == [match for match in everywhere if match][:4]
    for line, match in lines:
        tail = text[-match:]
        assert any(
            a[i : i + match] + a[i + match : i + match + reach] == tail + list(line) for a in answers for i in range(len(a))
        )


@cases(60)
@given(ANSWERS, st.sets(st.integers(0, 5)), st.lists(st.integers(0, 3), min_size=1, max_size=12))
def test_what_is_forgotten_was_never_there(answers: list[list[int]], keys: set[int], text: list[int]) -> None:
    past, other = Past(), Past()
    past.add(list(enumerate(answers)))
    past.forget(keys)
    other.add([(key, answer) for key, answer in enumerate(answers) if key not in keys])
    assert past.keys == other.keys
    assert past.lines(text, 8, 4) == other.lines(text, 8, 4)


def test_answers_are_kept_on_disk_for_this_user_alone(tmp_path: Path) -> None:
    folder = tmp_path / "past"
    past = Past(folder)
    past.add([(1, [5, 6, 7, 8]), (2, [5, 6, 9])])
    past.add([(3, [1] * 50)])
    reopened = Past(folder)
    assert reopened.keys == {1, 2, 3}
    assert [list(line) for line, _ in reopened.lines([4, 5, 6], 4, 8)] == [[9], [7, 8]]
    assert {file.stat().st_mode & 0o777 for file in folder.iterdir()} == {0o600}


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
    Past(tmp_path).forget([1])
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


@pytest.mark.parametrize("damage", ["cut", "header"])
def test_a_damaged_file_is_left_out_and_can_be_added_again(tmp_path: Path, damage: str) -> None:
    past = Past(tmp_path)
    past.add([(1, [5, 6, 7])])
    (file,) = tmp_path.glob(f"*{SUFFIX}")
    whole = file.read_bytes()
    file.write_bytes(whole[:-1] if damage == "cut" else b"{" * 200 + whole[200:])
    reopened = Past(tmp_path)
    assert not reopened.keys
    assert not list(tmp_path.iterdir())
    reopened.add([(1, [5, 6, 7])])
    assert [list(line) for line, _ in reopened.lines([5], 1, 2)] == [[6, 7]]


ANSWER = [*range(40, 80), EOS]


@pytest.fixture
def past() -> Past:
    answers = Past()
    answers.add([(1, ANSWER)])
    return answers


@pytest.mark.parametrize("method", [Lookup, Fusion, Suffix])
def test_an_answer_that_was_given_before_takes_few_passes(method: type[Drafter], past: Past) -> None:
    without = replay([9, 8], ANSWER, method(), eos_ids=(EOS,))
    with_it = replay([9, 8], ANSWER, method(), eos_ids=(EOS,), past=past)
    assert without.tokens == with_it.tokens == len(ANSWER)
    assert without.steps == len(ANSWER)
    assert with_it.steps < len(ANSWER) / 3
    off = None if method is Suffix else method(method.Params(past=False))
    assert off is None or replay([9, 8], ANSWER, off, eos_ids=(EOS,), past=past).steps == len(ANSWER), "it can be turned off"


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
