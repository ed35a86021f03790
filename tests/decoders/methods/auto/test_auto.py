"""auto: what it picks when passes, drafts and texts cost and yield what the test says."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from specchat.backends import Model, Sampling
from specchat.backends.heads.base import Head
from specchat.decoders import Conversation, Generation, encode_prompt
from specchat.decoders.acceptance import walk
from specchat.decoders.base import Context, Verified
from specchat.decoders.methods.auto.auto import Auto, AutoParams
from specchat.decoders.methods.auto.experience import Experience, Rival
from specchat.decoders.methods.auto.text_drafters import LONGEST_NAP
from specchat.decoders.parts.learned import Calibration

from ....fakes.models.heads import cyclic_target, random_head, right_head, right_medusa, target
from ....fakes.models.pard_tiny import chat, pard_model
from ....fakes.models.toy import ToyModel, plain
from ....fakes.prompts import TEXTS

TOKENS = 160


def drive(
    auto: Auto,
    model: Model,
    prompt: Sequence[int],
    cost: Callable[[int], float],
    *,
    draft_model: Model | None = None,
    head: Head | None = None,
    draft_cost: float = 0.0,
    tokens: int = TOKENS,
) -> tuple[list[int], Counter[str], list[str]]:
    """Decode with invented seconds: `cost` of a pass over n nodes, `draft_cost` for each token of a model's draft.

    Returns:
        the answer, how many steps each drafter took, and the notes.
    """
    session = model.open_session(taps=head.info.taps if head is not None else ())
    session.prefill(prompt[:-1])
    text = list(prompt)
    taken: Counter[str] = Counter()
    notes: list[str] = []
    while len(text) < len(prompt) + tokens:
        room = len(prompt) + tokens - len(text) - 1
        tree = auto.draft(Context(text, session, Sampling(), room, frozenset(), True, draft_model, model, head=head))
        taken[tree.via] += 1
        if auto.note:
            notes.append(auto.note)
        if tree.alive:
            scores = session.evaluate(tree.tokens[tree.alive :], tree.parents[tree.alive :], range(len(tree)))
        else:
            scores = session.evaluate(tree.tokens, tree.parents)
        chosen = scores.choose(Sampling())
        path = walk(tree, chosen)
        session.commit(path)
        text += [*(tree.tokens[node] for node in path[1:]), chosen[path[-1]]]
        drafted = draft_cost * (len(tree) - 1) if tree.via in ("draft", "pard", "early-exit", "eagle", "medusa") else 0.0
        auto.learn(Verified(tree, chosen, path, scores, drafted, cost(len(tree))))
    auto.close()
    return text[len(prompt) :], taken, notes


@pytest.fixture
def draft_model(draft_model: Model, monkeypatch: pytest.MonkeyPatch) -> Model:
    """An ordinary one, which does not pass for a PARD model."""
    monkeypatch.setattr(draft_model, "info", replace(draft_model.info, pard_token=None))
    return draft_model


@pytest.fixture
def auto(monkeypatch: pytest.MonkeyPatch) -> Auto:
    """One that knows nothing yet, and whose own work takes no time."""
    fresh: dict[int, Experience] = {}
    of = "specchat.decoders.methods.auto.auto.experience"
    monkeypatch.setattr(of, lambda context: fresh.setdefault(id(context.draft_model), Experience()))
    monkeypatch.setattr("specchat.decoders.methods.auto.text_drafters.time.perf_counter", lambda: 0.0)
    return Auto()


def looping() -> ToyModel:
    """A target that soon repeats itself."""
    return ToyModel(1, memory=1, vocabulary=6)


def test_where_nodes_are_free_and_the_text_repeats_it_drafts(auto: Auto) -> None:
    model = looping()
    answer, taken, notes = drive(auto, model, [1, 2, 3], lambda nodes: 1.0)
    assert answer[:TOKENS] == plain(model, [1, 2, 3], len(answer))[:TOKENS]
    assert taken["fusion"] > taken["greedy"]
    assert len(answer) / sum(taken.values()) > 4
    assert any("expected" in note for note in notes)


def test_where_every_node_costs_a_pass_it_decodes_plainly(auto: Auto) -> None:
    model = ToyModel(5, memory=3, vocabulary=60)
    answer, taken, notes = drive(auto, model, [1, 2, 3], float)
    assert answer[:TOKENS] == plain(model, [1, 2, 3], len(answer))[:TOKENS]
    assert taken["greedy"] > 0.9 * sum(taken.values())
    assert "plain decoding: a draft would not pay here" in notes


def test_a_machine_that_is_idle_again_is_noticed(auto: Auto) -> None:
    model = ToyModel(5, memory=3, vocabulary=60)
    drive(auto, model, [1, 2, 3], float)  # every node costs a pass
    _, taken, _ = drive(auto, looping(), [1, 2, 3] * 3, lambda nodes: 1 + 0.02 * nodes, tokens=600)
    assert taken["fusion"] > 10
    assert 600 / sum(taken.values()) > 1.5


def test_a_copy_after_free_text_is_noticed_after_a_nap(auto: Auto) -> None:
    def cost(nodes: int) -> float:
        return 1 + 0.1 * nodes

    _, free, _ = drive(auto, ToyModel(5, memory=3, vocabulary=60), [1, 2, 3], cost)
    assert free["greedy"] > free["fusion"]
    _, copying, _ = drive(auto, looping(), [1, 2, 3] * 3, cost)
    assert copying["greedy"] <= LONGEST_NAP + 2


@pytest.mark.parametrize(("seconds", "low", "high"), [(0.02, 0.6, 1.0), (2.0, 0.0, 0.4)])
def test_a_quick_draft_model_takes_over_and_a_slow_one_does_not(
    auto: Auto, builtin_model: Model, draft_model: Model, seconds: float, low: float, high: float
) -> None:
    prompt = encode_prompt(builtin_model, "Tell me a story about a dog.")
    expected = [token for step in Generation(Conversation(builtin_model), prompt, max_tokens=60) for token in step.tokens]
    answer, taken, notes = drive(
        auto, builtin_model, prompt, lambda nodes: 1 + 0.05 * nodes, draft_model=draft_model, draft_cost=seconds, tokens=400
    )
    assert answer[: len(expected)] == expected[: len(answer)]
    assert any("on trial" in note for note in notes)
    # Each is tried a few times whatever it costs: on a short text these trials alone are a third of the steps.
    # What the text itself tells (it ends in a loop) is no rival's to take.
    share = (taken["draft"] + taken["early-exit"]) / (sum(taken.values()) - taken["fusion"] - taken["lookup"])
    assert low <= share <= high


def test_a_pard_draft_model_drafts_in_one_pass(auto: Auto) -> None:
    model, (prompt, expected) = pard_model("transformers"), chat()
    answer, taken, notes = drive(
        auto, model, prompt, lambda nodes: 1 + 0.02 * nodes, draft_model=model, draft_cost=0.02, tokens=len(expected)
    )
    assert answer[: len(expected)] == expected
    assert taken["pard"] >= 2
    assert "draft" not in taken
    assert any(note.startswith("pard: on trial") for note in notes)


@pytest.mark.parametrize(("method", "head"), [("eagle", right_head), ("medusa", right_medusa)])
def test_a_trained_head_takes_over_where_it_is_right(auto: Auto, method: str, head: Callable[[], Head]) -> None:
    def cost(nodes: int) -> float:
        return 1 + 0.02 * nodes

    answer, taken, notes = drive(auto, cyclic_target(), [0, 2, 20], cost, head=head(), draft_cost=0.02, tokens=200)
    assert answer[:200] == list(range(21, 221))
    assert taken[method] > 0.6 * sum(taken.values())
    assert any(note.startswith(f"{method}: on trial") for note in notes)


def test_a_trained_head_that_is_wrong_leaves_greedys_tokens() -> None:
    prompt = [0, 2, *range(40, 52)]
    expected = [t for s in Generation(Conversation(target()), prompt, max_tokens=80) for t in s.tokens]
    generation = Generation(Conversation(target(), head=random_head()), prompt, "auto", max_tokens=80)
    assert "eagle" in {step.tree.via for step in generation}
    assert generation.answer == expected


def test_of_two_rivals_the_quicker_leads_though_the_other_met_easier_text() -> None:
    known = Experience()
    for nodes in (1, 9):
        known.costs.learn(nodes, 4.0 + 0.1 * nodes)
    for name, each, accepted in (("draft", 0.9, 4), ("early-exit", 2.0, 8)):
        known.rivals[name] = rival = Rival()
        for _ in range(3):
            rival.learn(8, accepted, 8 * each, 4.9, 0, cold=False)
            known.luck.learn(8, accepted)
    # By its own rounds alone the slower one would be ahead: 9 tokens in 20.9 against 5 in 12.1.
    assert known.speed("draft") > known.speed("early-exit") > 0


def test_a_machine_that_recovers_takes_its_rivals_along() -> None:
    """What was measured while everything took twice as long is no reason to give a rival up."""
    known = Experience()
    rival = known.rivals["draft"] = Rival()

    def rounds(count: int, slowness: float) -> None:
        for _ in range(count):
            for nodes in (1, 5):
                known.costs.learn(nodes, slowness * (1.0 + 0.1 * nodes))
            rival.learn(4, 3, slowness * 4 * 0.2, slowness * 1.5, 0, cold=False, unit=known.costs.seconds(1))
            known.luck.learn(4, 3)

    rounds(12, 2.0)
    busy = known.speed("draft")
    for _ in range(20):
        known.costs.learn(1, 1.1)
    assert known.speed("draft") == pytest.approx(2 * busy, rel=0.1)
    rounds(1, 1.0)
    assert known.speed("draft") == pytest.approx(2 * busy, rel=0.1)
    assert not known.loses("draft")


def test_what_reading_takes_is_told_apart_from_what_drafting_takes() -> None:
    rival = Rival()
    rival.learn(10, 10, 10 * 1.0 + 100 * 0.05, 4.0, 100, cold=True)
    assert rival.each == rival.reading == 0.0
    rival.learn(4, 2, 4 * 1.0, 4.0, 1, cold=False)
    assert rival.each == pytest.approx(1.0)
    assert rival.reading == pytest.approx(0.05)


def test_a_round_behind_another_kind_of_step_tells_nothing_about_speed() -> None:
    rival = Rival()
    rival.learn(4, 2, 4 * 3.0, 9.0, 1, cold=True)
    assert rival.each == pytest.approx(3.0), "better than nothing"
    rival.learn(4, 2, 4 * 1.0, 5.0, 1, cold=False)
    assert rival.each == pytest.approx(1.0)
    rival.learn(4, 4, 4 * 3.0, 9.0, 1, cold=True)
    assert rival.each == pytest.approx(1.0)
    assert rival.luck.accepted > 7, "but its tokens count"


def test_a_rival_has_to_beat_what_goes_on_without_it() -> None:
    known = Experience()
    known.costs.learn(1, 1.0)
    assert known.pace == 1.0
    known.own.learn(100, 60.0)
    assert known.pace == pytest.approx(0.6)
    known.own.learn(2000, 3000.0)
    assert known.pace == 1.0, "drafts that lose are not made"


def test_a_rival_that_loses_is_given_up_once_that_is_no_luck() -> None:
    known = Experience()
    known.costs.learn(1, 1.0)
    rival = known.rivals["draft"] = Rival()
    given_up = []
    for _ in range(30):
        known.luck.learn(4, 3)
        rival.learn(4, 3, 4 * 0.8, 1.5, 0, cold=False)  # four tokens in 4.7 seconds
        given_up.append(known.loses("draft"))
    assert not any(given_up[:2])
    assert not given_up[4]
    assert given_up[-1]


def test_trials_that_come_to_nothing_take_little_of_the_time(auto: Auto, builtin_model: Model, draft_model: Model) -> None:
    prompt = encode_prompt(builtin_model, "Tell me a story about a dog.")
    auto.params = AutoParams(nodes=1)
    _, taken, _ = drive(
        auto, builtin_model, prompt, lambda nodes: 1 + 0.5 * nodes, draft_model=draft_model, draft_cost=2.0, tokens=1500
    )
    assert 3 <= taken["draft"] <= 15
    assert taken["early-exit"] <= 15


def test_early_exit_waits_for_the_prompt_to_be_read(auto: Auto, builtin_model: Model) -> None:
    prompt = encode_prompt(builtin_model, "Tell me a story about a dog.")
    drive(auto, builtin_model, prompt, lambda nodes: 1 + 0.05 * nodes, tokens=60)  # it is tried, and known
    session = builtin_model.open_session()
    context = Context(list(prompt), session, Sampling(), 50, frozenset(), True, None, builtin_model)
    assert auto.draft(context).alive == 0
    assert not Auto.reads_cache


def test_what_was_measured_outlives_the_conversation(builtin_model: Model) -> None:
    prompt = encode_prompt(builtin_model, f"Repeat this text exactly: {TEXTS[0]}")
    for _ in range(2):
        conversation = Conversation(builtin_model)
        generation = Generation(conversation, prompt, "auto", max_tokens=40)
        for _ in generation:
            pass
        drafter = generation.drafter
        assert isinstance(drafter, Auto)
        known = drafter._experience
        conversation.close()
    assert known.steps > len(generation.totals.runs)
    assert known.costs.known


def test_auto_gives_greedys_tokens_and_tells_what_it_used(builtin_model: Model, draft_model: Model) -> None:
    for text in (f"Repeat this text exactly: {TEXTS[1]}", "Tell me a story about a cat."):
        prompt = encode_prompt(builtin_model, text)
        expected = [t for s in Generation(Conversation(builtin_model), prompt, max_tokens=60) for t in s.tokens]
        generation = Generation(Conversation(builtin_model, draft_model=draft_model), prompt, "auto", max_tokens=60)
        steps = list(generation)
        assert generation.answer == expected
        assert {step.tree.via for step in steps} <= {"greedy", "fusion", "lookup", "draft", "early-exit"}


def corrected(calibration: Calibration, probability: float) -> float:
    return min(1.0, probability * calibration.factors()[bisect_left(calibration.EDGES, probability)])


def test_calibration_learns_what_probabilities_are_worth() -> None:
    calibration = Calibration()
    for i in range(400):
        calibration.learn([1.0, 0.9, 0.2], {0, 1} if i % 2 else {0})
    assert corrected(calibration, 0.9) == pytest.approx(0.5, abs=0.1)
    assert corrected(calibration, 0.2) < 0.05
    assert corrected(calibration, 0.5) == 0.5, "nothing was seen of this size"
    assert corrected(calibration, 1.0) <= 1


def test_what_is_not_drafted_any_more_is_tried_again() -> None:
    calibration = Calibration()
    for _ in range(300):
        calibration.learn([1.0, 0.1], {0})
    low = calibration.threshold(0.04)
    assert low >= 0.15, "what promised 0.1 was never right"
    for _ in range(1000):
        calibration.learn([1.0], {0})
    assert calibration.threshold(0.04) == pytest.approx(0.04, rel=0.05)
    assert Calibration().threshold(0.3) == pytest.approx(0.3)
    assert Calibration().threshold(1.5) > 1


def test_what_plain_decoding_takes_is_known_from_passes_that_follow_each_other() -> None:
    known = Experience()
    for before, seconds in enumerate([3.0, 2.5, 2.0, 1.5, 1.0, 1.0]):
        known.passed(1, before, seconds)
    assert known.costs.seconds(1) == pytest.approx(1.0)
    for _ in range(40):
        known.passed(8, 5, 4.0)
        for before, seconds in enumerate([2.0, 1.5, 1.0, 1.0, 1.0]):
            known.passed(1, before, seconds)
    assert known.costs.seconds(1) == pytest.approx(1.0, rel=0.03)
    assert known.back(8) == pytest.approx(1.5, rel=0.1)  # one and a half passes are lost after each of eight nodes


@pytest.mark.parametrize(("growing", "dear"), [(0.02, False), (0.5, True)])
def test_prompt_lookup_drafts_where_fusions_trees_take_too_much_of_a_pass(growing: float, dear: bool) -> None:
    known = Experience()
    known.passed(1, 0, 1.0)
    for _ in range(8):
        known.grew(growing)
    assert known.dear is dear


@pytest.mark.parametrize("dear", [False, True])
def test_loops_are_drafted_whichever_of_the_two_drafts(auto: Auto, dear: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    known = Experience(dear=dear)
    monkeypatch.setattr("specchat.decoders.methods.auto.auto.experience", lambda context: known)
    model = looping()
    answer, taken, _ = drive(auto, model, [1, 2, 3], lambda nodes: 1 + 0.01 * nodes)
    assert answer[:TOKENS] == plain(model, [1, 2, 3], len(answer))[:TOKENS]
    assert taken["lookup" if dear else "fusion"] > taken["greedy"]
    assert not taken["fusion" if dear else "lookup"]


@pytest.mark.parametrize("dear", [False, True])
def test_trees_that_were_dear_on_a_busy_machine_are_tried_again(
    auto: Auto, dear: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every node took a pass of its own while somebody had the other cores; now nodes are nearly free."""
    known = Experience(dear=dear)
    for _ in range(60):
        for nodes in (1, 4, 8):
            known.costs.learn(nodes, float(nodes))
    known.settled = True
    monkeypatch.setattr("specchat.decoders.methods.auto.auto.experience", lambda context: known)
    _, taken, _ = drive(auto, looping(), [1, 2, 3], lambda nodes: 1 + 0.02 * (nodes - 1), tokens=1000)
    assert sum(taken.values()) < 500
    assert known.costs.seconds(8) < 2


def test_costs_are_known_from_the_first_settled_pass_on() -> None:
    """Another draft model in the middle of an answer: nothing is known, and many one-node passes have gone before."""
    known = Experience()
    known.passed(1, 17, 1.0)
    assert known.settled
    assert known.costs.seconds(1) == pytest.approx(1.0)


def test_small_trees_behind_bigger_passes_tell_nothing_of_their_size() -> None:
    known = Experience()
    for before in range(8):
        known.passed(1, before, 1.0)
    known.passed(16, 8, 3.0)
    for nodes, before in ((4, 0), (4, 1), (4, 3)):
        known.last = 16
        known.passed(nodes, before, 90.0)
    assert known.costs.seconds(4) < 2
    known.passed(4, 8, 1.5)
    known.passed(4, 0, 1.5)  # among its equals
    assert known.costs.seconds(4) == pytest.approx(1.5, rel=0.2)
