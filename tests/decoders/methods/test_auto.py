"""auto: what it picks by what passes and drafts cost; beam search: transformers' sequences and scores, what streams."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import replace
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import pytest
import torch

from specchat.backends import Model, Sampling
from specchat.decoders import Context, Conversation, Generation, Verified, encode_prompt, registry
from specchat.decoders.acceptance import walk
from specchat.decoders.methods.auto import figures
from specchat.decoders.methods.auto.auto import TRIAL, Auto, AutoParams
from specchat.decoders.methods.beam import Beam
from specchat.decoders.needs import DraftModel, TrainedDrafter

from ...cases import FULL
from ...fakes.answers import plain
from ...fakes.models.tiny import VOCAB, reference, tiny_model
from ...fakes.models.toy import ToyModel

TOKENS = 160


def drive(
    auto: Auto,
    model: Model,
    prompt: Sequence[int],
    cost: Callable[[int], float],
    *,
    draft_model: Model | None = None,
    draft_cost: float = 0.0,
    tokens: int = TOKENS,
) -> tuple[list[int], Counter[str], list[str]]:
    """Decode with invented seconds a pass and a draft token; return the answer, the steps of each drafter, and the notes."""
    session = model.open_session()
    session.prefill(prompt[:-1])
    text, models = list(prompt), [draft_model] if draft_model is not None else []
    steps: Counter[str] = Counter()
    notes: list[str] = []
    while len(text) < len(prompt) + tokens:
        room = len(prompt) + tokens - len(text) - 1
        tree = auto.draft(Context(text, session, Sampling(), room, frozenset(), draft_models=models, model=model))
        steps[tree.via] += 1
        if auto.note:
            notes.append(auto.note)
        if tree.pre_evaluated:
            scores = session.evaluate(tree.tokens[tree.pre_evaluated :], tree.parents[tree.pre_evaluated :], range(len(tree)))
        else:
            scores = session.evaluate(tree.tokens, tree.parents)
        chosen = scores.choose(Sampling())
        path = walk(tree, chosen)
        session.commit(path)
        text += [*(tree.tokens[node] for node in path[1:]), chosen[path[-1]]]
        drafted = draft_cost * (len(tree) - 1) if tree.via in ("draft", "tree", "pard", "early-exit") else 0.0
        auto.learn(Verified(tree, chosen, path, scores, drafted, cost(len(tree))))
    auto.close()
    return text[len(prompt) :], steps, notes


@pytest.fixture
def draft_model(draft_model: Model, monkeypatch: pytest.MonkeyPatch) -> Model:
    """An ordinary one, which does not pass for a PARD model."""
    monkeypatch.setattr(draft_model, "info", replace(draft_model.info, pard_token=None))
    return draft_model


@pytest.fixture
def auto(monkeypatch: pytest.MonkeyPatch) -> Auto:
    """One that knows nothing yet, and whose own work takes no time."""
    monkeypatch.setattr(figures, "_loaded", WeakKeyDictionary())
    monkeypatch.setattr("specchat.decoders.methods.auto.auto.time.perf_counter", lambda: 0.0)
    return Auto()


def measured(monkeypatch: pytest.MonkeyPatch, model: Model, cost: Callable[[int], float]) -> None:
    """Give a model the passes that were measured at load."""
    curve = tuple((nodes, cost(nodes)) for nodes in (1, 2, 4, 8, 16, 32))
    monkeypatch.setattr(model, "info", replace(model.info, pass_seconds=curve))


def looping() -> ToyModel:
    """A target that soon repeats itself."""
    return ToyModel(1, memory=1, vocabulary=6)


def test_where_nodes_are_free_and_the_text_repeats_it_drafts(auto: Auto) -> None:
    model = looping()
    answer, steps, notes = drive(auto, model, [1, 2, 3], lambda nodes: 1.0)
    assert answer[:TOKENS] == plain(model, [1, 2, 3], len(answer))[:TOKENS]
    assert steps["fusion"] + steps["lookup"] > steps["greedy"]
    assert len(answer) / sum(steps.values()) > 4
    assert any(note.startswith(("fusion: ", "lookup: ")) for note in notes)


@pytest.mark.parametrize(("slope", "reader", "other"), [(0.0, "fusion", "lookup"), (0.1, "lookup", "fusion")])
def test_what_nodes_cost_decides_which_trees_take_part(
    auto: Auto, builtin_model: Model, draft_model: Model, monkeypatch: Any, slope: float, reader: str, other: str
) -> None:
    def cost(nodes: int) -> float:
        return 1 + slope * (nodes - 1)

    measured(monkeypatch, builtin_model, cost)
    prompt = encode_prompt(builtin_model, "Tell me a story about a dog.")
    every: Counter[str] = Counter()
    for _ in range(2):
        _, steps, _ = drive(auto, builtin_model, prompt, cost, draft_model=draft_model, draft_cost=0.02, tokens=200)
        every += steps
    assert steps[other] == 0
    assert every[reader] > 0 or reader == "lookup", "this text has nothing to copy"
    session = builtin_model.open_session()
    context = Context(prompt, session, Sampling(), 50, frozenset(), draft_models=[draft_model], model=builtin_model)
    assert ("tree" in auto._available(context)) == (slope == 0)


def test_where_every_node_costs_a_pass_it_decodes_plainly(auto: Auto) -> None:
    model = ToyModel(5, memory=3, vocabulary=60)
    answer, steps, notes = drive(auto, model, [1, 2, 3], float)
    assert answer[:TOKENS] == plain(model, [1, 2, 3], len(answer))[:TOKENS]
    assert steps["greedy"] > 0.9 * sum(steps.values())
    assert any(note.startswith("plain decoding: no draft would pay") for note in notes)


@pytest.mark.parametrize(("seconds", "low", "high"), [(0.02, 0.6, 1.0), (2.0, 0.0, 0.4)])
def test_a_quick_draft_model_takes_over_and_a_slow_one_does_not(
    auto: Auto, builtin_model: Model, draft_model: Model, monkeypatch: Any, seconds: float, low: float, high: float
) -> None:
    def cost(nodes: int) -> float:
        return 1 + 0.05 * nodes

    measured(monkeypatch, builtin_model, cost)
    prompt = encode_prompt(builtin_model, "Tell me a story about a dog.")
    expected = plain(builtin_model, prompt, max_tokens=60)
    for _ in range(2):  # the first time each is tried
        answer, steps, _ = drive(auto, builtin_model, prompt, cost, draft_model=draft_model, draft_cost=seconds, tokens=240)
    assert answer[: len(expected)] == expected[: len(answer)]
    # What the text itself tells (it ends in a loop) is no rival's to take.
    models = steps["draft"] + steps["tree"] + steps["early-exit"]
    share = models / (models + steps["greedy"]) if seconds < 1 else models / sum(steps.values())
    assert low <= share <= high
    assert auto._figures.rounds["new"]["draft"].rounds > 1  # this text repeats itself at its end alone


def test_trials_that_come_to_nothing_end(auto: Auto, builtin_model: Model, draft_model: Model) -> None:
    prompt = encode_prompt(builtin_model, "Tell me a story about a dog.")
    auto.params, arms = AutoParams(nodes=1), ("draft", "tree", "early-exit")

    def cost(nodes: int) -> float:
        return 1 + 0.5 * nodes

    _, first, _ = drive(auto, builtin_model, prompt, cost, draft_model=draft_model, draft_cost=2.0, tokens=160)
    assert 0 < max(first[name] for name in arms) <= 2 * TRIAL  # where the text repeats itself, and where it does not
    for _ in range(2):  # not every situation comes at once, and an answer gives half a trial
        _, then, _ = drive(auto, builtin_model, prompt, cost, draft_model=draft_model, draft_cost=2.0, tokens=160)
    assert sum(then[name] for name in arms) < 0.05 * sum(then.values())


def test_figures_are_kept_for_the_next_time_and_a_damaged_file_is_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, model = tmp_path / "auto.json", looping()
    context = Context([1], model.open_session(), Sampling(), 5, frozenset(), model=model)
    monkeypatch.setattr(figures, "file", file)

    def load() -> figures.TargetFigures:
        monkeypatch.setattr(figures, "_loaded", WeakKeyDictionary())
        return figures.load_figures(context)

    for damaged in ("", "[]", '{"KEY": {"methods": {"new": {"draft": "x"}}}}'):
        file.write_text(damaged.replace("KEY", figures._key(context)), "utf-8")
        loaded = load()
        assert not loaded.costs.known
        assert not any(loaded.rounds.values())
    for _ in range(3):
        loaded.costs.learn(1, 1.0)
    loaded.learn("new", "draft", 5, 2.0, 2.0)
    loaded.reading["draft"] = 0.5
    figures.save_figures(context, loaded)
    read = load()
    assert read is not loaded
    assert (read.rounds, read.reading) == (loaded.rounds, loaded.reading)


BEAM_TOKENS = 24


def searched(model: Model, prompt: Sequence[int], settings: dict[str, Any], **options: Any) -> tuple[Generation, Beam]:
    """An answer by beam search, gone through to its end, and the method."""
    conversation = Conversation(model)
    generation = Generation(conversation, prompt, "beam", settings=settings, **options)
    for step in generation:
        assert step.nodes <= settings.get("beams", 4)
        assert conversation.session.length == len(generation.tokens) - 1 or generation.finish_reason is not None
    drafter = conversation.drafter("beam", settings)
    assert isinstance(drafter, Beam)
    return generation, drafter


def theirs(network: Any, prompt: Sequence[int], settings: dict[str, Any], eos: Sequence[int], **options: Any) -> list[Any]:
    """transformers' (tokens, score) of every beam, best first."""
    beams = settings["beams"]
    ids = torch.tensor([list(prompt)])
    out = network.generate(
        ids, attention_mask=torch.ones_like(ids), do_sample=False, num_beams=beams, num_return_sequences=beams,
        length_penalty=settings["length_penalty"], early_stopping=False,
        eos_token_id=list(eos) or None, pad_token_id=VOCAB + 10**6, return_dict_in_generate=True, output_scores=True, **options,
    )  # fmt: skip
    beams_ = []
    for row, score in zip(out.sequences.tolist(), out.sequences_scores.tolist(), strict=True):
        beams_.append(([token for token in row[len(prompt) :] if token != VOCAB + 10**6], score))
    return beams_


def compare(model: Model, network: Any, prompt: Sequence[int], settings: dict[str, Any]) -> list[int]:
    """The answer, after checking all finished texts and their scores; the same where the search stops once it is known."""
    expected = theirs(network, prompt, settings, model.info.eos_ids, max_new_tokens=BEAM_TOKENS)
    sooner, _ = searched(model, prompt, settings, max_tokens=BEAM_TOKENS)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Beam, "_settled", lambda *_: False)
        generation, drafter = searched(model, prompt, settings, max_tokens=BEAM_TOKENS)
    assert sooner.answer == generation.answer == expected[0][0]
    assert sooner.totals.steps <= generation.totals.steps
    assert [tokens for tokens, _ in drafter.hypotheses] == [tokens for tokens, _ in expected]
    for (_, mine), (_, its) in zip(drafter.hypotheses, expected, strict=True):
        # transformers adds up in float32, which shows where a negative penalty makes sums of hundreds.
        assert mine == pytest.approx(its, abs=1e-4, rel=1e-6)
    ended = generation.answer[-1] in model.info.eos_ids
    assert generation.finish_reason == ("eos" if ended else "length")
    return generation.answer


def ending(kind: str) -> Model:
    """A tiny model that ends its answers often: a fifth of its vocabulary are EOS tokens for it."""
    model = copy(tiny_model(kind))
    model.info = replace(model.info, eos_ids=tuple(range(4, VOCAB, 5)))
    return model


def settings_of(beams: int, penalty: float) -> dict[str, Any]:
    return {"beams": beams, "length_penalty": penalty}


@pytest.mark.parametrize(("beams", "penalty"), [(2, 1.0), (3, 0.0), (5, 2.0), (4, -0.7)])
@pytest.mark.parametrize("kind", ["llama", "gpt2", "gemma3", "qwen3-moe", "mistral"] if FULL else ["gemma3"])
def test_sequences_and_scores_are_those_of_transformers(kind: str, beams: int, penalty: float) -> None:
    rng = random.Random(repr((kind, beams, penalty)))
    settings = settings_of(beams, penalty)
    for model in (tiny_model(kind), ending(kind)):  # some prompts reach beyond the window of 32
        compare(model, reference(kind), [rng.randrange(4, VOCAB) for _ in range(rng.randint(1, 50))], settings)


def test_the_shared_beginning_streams_before_the_end() -> None:
    conversation = Conversation(tiny_model("llama"))
    streamed = 0
    for start in range(5):
        generation = Generation(conversation, list(range(20 + start, 30)), "beam", settings={"beams": 2}, max_tokens=60)
        steps = list(generation)
        assert [token for step in steps for token in step.tokens] == generation.answer
        assert len(steps) == 60, "one step a token"
        streamed += sum(len(step.tokens) for step in steps[:-1])
        assert all(step.drafted == step.accepted == 0 for step in steps)
    assert streamed > 60


@pytest.mark.parametrize(("kind", "cancels"), [("gemma2", False), ("llama", False), ("llama", True)])
def test_what_ends_a_search_keeps_its_best_text(kind: str, cancels: bool) -> None:
    """A cancelled answer ends with the best beam so far, and another method goes on from there."""
    rng, left, model = random.Random(5), 0, tiny_model(kind)
    for _ in range(6 if FULL else 3):
        prompt = [rng.randrange(4, VOCAB) for _ in range(10)]
        conversation = Conversation(model)
        generation = Generation(conversation, prompt, "beam", settings={"beams": 4}, max_tokens=50)
        steps = [step for _ in range(rng.randint(2, 20)) if (step := generation.advance()) is not None]
        passes, before = len(steps), len(generation.answer)
        if cancels:
            generation.cancel()
        else:
            generation.switch("lookup")
        evaluated = conversation.session.nodes_evaluated
        last = generation.advance()
        steps += [last] if last is not None else []
        assert (generation.totals.steps, conversation.session.nodes_evaluated) == (passes, evaluated), "this takes no pass"
        # The best beam so far is what transformers finds within as many tokens.
        best = theirs(reference(kind), prompt, settings_of(4, 1.0), model.info.eos_ids, max_new_tokens=passes)[0][0]
        assert generation.answer == best
        left += len(best) - before
        if cancels:
            assert generation.finish_reason == "cancelled"
            assert "".join(step.text for step in steps) + generation.flush() == model.decode(generation.answer)
            continue
        assert list(conversation.session.tokens) == generation.tokens[:-1]
        list(generation)
        assert generation.answer == best + plain(model, prompt + best, 50 - len(best))
    assert left, "the beams never differed, so this proves little"


def test_switching_to_and_fro_never_loses_the_cache() -> None:
    rng = random.Random(2)
    names = [name for name, method in registry.methods().items() if not method.needs(DraftModel, TrainedDrafter)]
    for _ in range(4):
        conversation = Conversation(tiny_model("qwen3"))
        session: Any = conversation.session
        generation = Generation(conversation, [rng.randrange(4, VOCAB) for _ in range(30)], "beam", max_tokens=60)
        for _ in generation:
            if generation.method != "beam":
                assert not session._nodes
            assert list(session.tokens) == generation.tokens[: session.length]
            if rng.random() < 0.4:
                generation.switch(rng.choice([*names, "beam", "beam"]))
        assert len(generation.answer) == 60 or generation.finish_reason == "eos"
