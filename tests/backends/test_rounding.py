"""Passes of many nodes give the bits of passes of one; their seconds by size, on a session and a clock made up."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import replace
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import torch

from specchat.backends import ROOT, Capabilities, LoadOptions, Model, Sampling, UserError, load_model
from specchat.backends.choose import choose, near_ties
from specchat.backends.hf.model import TransformersModel, load_transformers
from specchat.backends.kept import GIVEN, identity
from specchat.backends.loading import builtin_gguf
from specchat.backends.pass_times import BEHIND, TOKENS, Curve, given_curve, kept_curve, pass_seconds
from specchat.backends.pass_times import SIZES as TIMED_SIZES
from specchat.backends.proof_text import proof_text
from specchat.backends.rounding import MOST_COST, SIZES, Rounding, drafting_gain, promise
from specchat.decoders import Conversation, Generation
from specchat.decoders.registry import methods, unavailable

from ..cases import FULL
from ..fakes.answers import answered, plain
from ..fakes.models.tiny import tiny_folder, write_model

TEXT = [(7919 * (i + 1)) % 2047 for i in range(420)]
STEPS = 14

KINDS = ("float32", "bfloat16", "float16", "Q8_0", "Q4_0") if FULL else ("bfloat16", "Q8_0")


def loaded(kind: str, **options: Any) -> Model:
    if kind.startswith("Q"):
        return load_model(str(builtin_gguf().with_name(f"target-{kind}.gguf")), LoadOptions(device="cpu", threads=1, **options))
    return load_model("builtin", LoadOptions(device="cpu", threads=1, backend="transformers", dtype=kind, **options))


@pytest.fixture(scope="module", params=KINDS)
def model(request: pytest.FixtureRequest) -> Iterator[Model]:
    torch.set_num_threads(1)
    whole = loaded(request.param)
    yield whole
    whole.close()


def needs_bits(model: Model) -> None:
    """Skip a test of bits on a CPU whose kernels do not give them, as the proof says there: it checks near ties instead."""
    able = model.info.capabilities
    if model.info.dtype in ("float16", "float32") and (not able.exact or "bits" in able.reasons):
        pytest.skip(f"{model.info.dtype}: on this CPU the size of a pass moves bits, and the proof has found it")
    assert able.exact


def logits(scores: Any) -> list[bytes]:
    """The bits of each row."""
    return [row.float().numpy().tobytes() for row in scores.logits]


@pytest.mark.parametrize("length", [1, 40, 186, 300] if FULL else [40, 186])
def test_bits_do_not_depend_on_the_pass(model: Model, length: int) -> None:
    needs_bits(model)
    steps = TEXT[length : length + STEPS]
    session = model.open_session()
    session.prefill(TEXT[:length])
    alone = []
    for token in steps:
        alone += logits(session.evaluate((token,), (ROOT,)))
        session.commit((0,))
    for size in (2, 5, 14):
        session.rewind(length)
        for start in range(0, STEPS - size + 1, size):
            bits = logits(session.evaluate(steps[start : start + size], range(ROOT, size - 1)))
            assert bits == alone[start : start + size], f"chains of {size}"
            session.commit(range(size))
    # The prompt's end goes through the model together with the draft.
    for before in {min(length, 7), min(length, 150)}:
        session.rewind(0)
        session.prefill(TEXT[: length - before])
        chain = [*TEXT[length - before : length], *steps]
        rows = range(before, before + STEPS)
        assert logits(session.evaluate(chain, range(ROOT, len(chain) - 1), rows)) == alone
    # A tree: the first path has the bits, and what hangs beside it is told.
    session.rewind(0)
    session.prefill(TEXT[:length])
    tokens, parents = [steps[0], steps[1], 5, steps[2], 9, steps[3], 9], [ROOT, 0, 0, 1, 1, 3, 2]
    bits = logits(session.evaluate(tokens, parents))
    assert session.exact((0, 1, 3, 5)) == 4
    assert [bits[i] for i in (0, 1, 3, 5)] == alone[:4]
    assert session.exact((0, 2, 6)) == 1
    session.commit((0, 1, 3, 5))
    assert logits(session.evaluate((steps[4],), (ROOT,))) == alone[4:5]
    session.close()


def test_what_was_committed_crooked_is_evaluated_again(model: Model) -> None:
    needs_bits(model)
    session = model.open_session()
    session.prefill(TEXT[:20])
    session.evaluate([TEXT[20], 5, TEXT[21]], (ROOT, 0, 0))
    session.commit((0, 2))
    assert session.exact_length == 21
    assert session.align([*TEXT[:22], 7]) == 21
    assert session.exact_length is None
    session.close()


ANSWER = 100 if FULL else 40


@cache
def drafting() -> Model:
    return load_model("builtin-draft", LoadOptions(device="cpu", threads=1, backend="transformers"))


@cache
def alone(model: Model, prompt: tuple[int, ...]) -> list[int]:
    return plain(model, prompt, max_tokens=ANSWER)


@pytest.mark.parametrize("method", ["tree", "draft", *(["fusion", "lookup"] if FULL else [])])
def test_no_answer_parts_from_plain_decoding(model: Model, method: str) -> None:
    """This prompt parted in bfloat16 under `draft`, in Q8_0 under `tree`, before passes were padded."""
    for text in ("Tell me a story about a fox and a lamp.", "Copy this: the sea and the sea and the sea. The sea!"):
        prompt = model.encode_chat([{"role": "user", "content": text}])
        generation, _ = answered(model, prompt, method, draft=drafting(), max_tokens=ANSWER)
        assert generation.answer == alone(model, tuple(prompt))
        assert generation.totals.accepted


@pytest.mark.parametrize("kind", ["llama", "gpt2"])
def test_float32_has_bits_too_where_they_are_asked_for(kind: str) -> None:
    """The one's products are packed; the other's passes have at least four nodes, those that stop early as well."""
    torch.set_num_threads(1)
    model = load_model(str(tiny_folder(kind)), LoadOptions(device="cpu", threads=1, exact="on"))
    needs_bits(model)
    assert model.info.capabilities.layers
    text = [token % model.info.vocabulary for token in TEXT]
    session = model.open_session()
    session.prefill(text[:30])
    alone = []
    for token in text[30:36]:
        alone += logits(session.evaluate((token,), (ROOT,)))
        session.commit((0,))
    session.rewind(30)
    assert logits(session.evaluate(text[30:36], range(ROOT, 5))) == alone


@pytest.mark.parametrize("filters", [
    {"temperature": 0.0}, {"temperature": 0.8}, {"min_p": 0.1}, {"min_p": 1.0}, {"top_k": 1}, {"top_k": 3}, {"top_p": 0.7},
    {"top_k": 5, "top_p": 0.8, "min_p": 0.05}, {"temperature": 1e-3, "top_p": 0.9, "min_p": 0.1},
    {"temperature": 0.0, "repetition_penalty": 1.5}, {"top_k": 3, "top_p": 0.9, "repetition_penalty": 0.7},
], ids=str)  # fmt: skip
def test_no_pick_changes_within_the_bound_but_at_a_near_tie(filters: dict[str, Any]) -> None:
    """Every logit at one end of its movement or the other, in all ways; a check is needless only where more counts."""
    sampling = Sampling(**{"temperature": 1.2, **filters}, seed=9)
    rows, bound, many = torch.randn(120, 6, generator=torch.Generator().manual_seed(4)) * 2, 0.2, range(120)
    histories = [[row % 6, 3] for row in many] if sampling.uses_history else None
    picks = choose(rows, sampling, many, histories)
    ties = near_ties(rows, sampling, many, bound, histories)
    ends = torch.tensor(list(product((-0.4999, 0.4999), repeat=6))) * bound
    texts = [history for history in histories for _ in ends] if histories else None
    moved = choose((rows[:, None] + ends).flatten(0, 1), sampling, [row for row in many for _ in ends], texts)
    change = [any(other != pick for other in moved[64 * row : 64 * row + 64]) for row, pick in enumerate(picks)]
    assert not [row for row in many if change[row] and not ties[row]]
    assert all(ties) if sampling.filters else sum(ties) - sum(change) <= (4 if sampling.uses_history else 0)
    assert 3 < sum(change) < 60


def found_rounding(**changes: Any) -> Rounding:
    """A measurement in which no bit moved, but for some changes."""
    same = {"equal": SIZES, "rest": True, "measured": 32, "turned": 0, "side": 0.2}
    return Rounding(**{**same, **changes})


@pytest.mark.parametrize(("changes", "hold", "label", "most"), [
    ({}, True, "identical", None), ({"equal": (2, 3)}, True, "identical", 3), ({"equal": (2, 4, 8)}, True, "identical", 2),
    ({"rest": False}, True, "identical", 8), ({"equal": ()}, True, "identical", 1),
    ({"equal": (2, 3)}, False, "identical but for near ties", None),
    ({"equal": ()}, False, "identical but for near ties", None),
], ids=str)  # fmt: skip
def test_the_promise_follows_from_what_was_measured(changes: dict[str, Any], hold: bool, label: str, most: int | None) -> None:
    able = promise(Capabilities(), found_rounding(**changes), hold=hold)
    assert (able.identical, able.most) == (label, most)
    assert ("bits" in able.reasons) == (most == 1)


def test_passes_that_are_held_to_a_size_pay_what_the_curve_says() -> None:
    flat, steep = ((1, 1.0), (2, 1.1), (16, 1.5)), ((1, 1.0), (2, 3.0), (16, 30.0))
    assert drafting_gain(flat) / drafting_gain(flat, 2) > MOST_COST
    assert drafting_gain(steep) == drafting_gain(steep, 2) == 1


@cache
def q8_0() -> Model:
    return loaded("Q8_0")


ALL = ["lookup", "fusion", "suffix", "recycle", "lookahead", "jacobi", "ngram", "auto"]


@pytest.mark.parametrize("method", ALL if FULL else ALL[:2])
def test_no_pass_is_larger_than_the_sizes_with_equal_bits(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """And every method reads a prompt in the same passes, whatever was read before."""
    model = copy(q8_0())
    model.info = replace(model.info, capabilities=replace(model.info.capabilities, most=2))
    text = "Copy this: the sea and the sea and the sea. The sea! " * 8
    conversation, passes = Conversation(model), list[int]()
    evaluate = type(conversation.session).evaluate

    def counted(session: Any, tokens: Any, *args: Any, **named: Any) -> Any:
        passes.append(len(tokens))
        return evaluate(session, tokens, *args, **named)

    def ask(name: str, message: str) -> tuple[list[int], list[int]]:
        """Tokens of an answer, and passes of more than two nodes."""
        passes.clear()
        generation = Generation(conversation, model.encode_chat([{"role": "user", "content": message}]), name, max_tokens=30)
        return [token for step in generation for token in step.tokens], [size for size in passes if size > 2]

    monkeypatch.setattr(type(conversation.session), "evaluate", counted)
    expected, whole = ask("greedy", text)
    ask("greedy", text[: len(text) // 2] + "What is a KV cache?")
    answer, part = ask(method, text)
    assert answer == expected
    assert part
    assert part == whole[-len(part) :]


COSTS = {1: 1.0, 2: 2.6, 3: 3.2, 4: 3.7, 6: 4.1, 8: 3.8, 12: 5.0, 16: 5.5, 24: 7.0, 32: 9.0}
"""Seconds of passes like those of Q8_0: two nodes cost a leap, eight less than six."""


class Clocked:
    """A session whose passes move the clocks on."""

    context = 4096

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.own = self.wall = 0.0
        self.passes: list[list[int]] = []
        monkeypatch.delenv(GIVEN)  # a curve in place of a measurement
        monkeypatch.setattr("specchat.backends.pass_times.time.thread_time", lambda: self.own)
        monkeypatch.setattr("specchat.backends.pass_times.time.perf_counter", lambda: self.wall)

    def rewind(self, length: int) -> None:
        assert length == 0

    def prefill(self, tokens: Sequence[int]) -> None:
        self.read = list(tokens)

    def evaluate(self, tokens: Sequence[int], parents: Sequence[int]) -> None:
        assert list(parents) == list(range(-1, len(tokens) - 1))
        self.passes.append(list(tokens))
        self.own += 0.001 * COSTS[len(tokens)]
        self.wall += 0.001 * COSTS[len(tokens)]

    def commit(self, path: Sequence[int]) -> None:
        pass


def test_the_curve_keeps_its_leaps_and_dips(monkeypatch: pytest.MonkeyPatch) -> None:
    session: Any = Clocked(monkeypatch)
    text = list(range(1000, 1000 + TOKENS))
    curve = pass_seconds(session, text, lambda: None, cpu=True)
    assert [nodes for nodes, _ in curve] == list(TIMED_SIZES)
    assert {nodes: round(1000 * seconds, 6) for nodes, seconds in curve} == COSTS
    assert session.read == text[:BEHIND]
    assert all(tokens == text[BEHIND : BEHIND + len(tokens)] for tokens in session.passes)


def test_a_curve_is_kept_for_each_file_until_it_is_old(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(GIVEN)
    monkeypatch.setenv("SPECCHAT_CACHE", str(tmp_path / "cache"))
    now = 1_000_000.0
    monkeypatch.setattr("specchat.backends.pass_times.time.time", lambda: now)
    file = tmp_path / "model.gguf"
    file.write_bytes(b"weights")
    curves = iter([((1, 1.0), (2, 2.5)), ((1, 2.0), (2, 2.1)), ((1, 3.0),), ((1, 4.0),)])

    def measured(threads: int = 2) -> tuple[Curve, float]:
        return kept_curve((identity([file]), "1.0", threads), lambda: next(curves))

    first = measured()
    now += 86_400
    assert measured() == first == (((1, 1.0), (2, 2.5)), 1_000_000.0)
    assert measured(threads=1)[0] == ((1, 2.0), (2, 2.1))
    file.write_bytes(b"others!!")
    assert measured()[0] == ((1, 3.0),)
    now += 31 * 86_400
    assert measured() == (((1, 4.0),), now)
    with monkeypatch.context() as patch:
        patch.setenv(GIVEN, "1:1 64:1.001")
        curves = iter([((1, 9.0),)])
        assert measured()[0] == ((1, 9.0),)
    assert measured() == (((1, 4.0),), now), "what was given is not taken for a measurement later"


def test_a_curve_may_be_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(GIVEN)
    assert given_curve() == ()
    monkeypatch.setenv(GIVEN, "8:17.6 1:6.5")
    assert given_curve() == ((1, 0.0065), (8, 0.0176))
    for wrong in ("2:3", "1:x", "1:0", "one"):
        monkeypatch.setenv(GIVEN, wrong)
        with pytest.raises(UserError, match="SPECCHAT_PASSES takes nodes"):
            given_curve()


def test_the_text_is_prose_in_the_models_own_tokens(builtin_model: Model) -> None:
    codec = builtin_model._codec  # type: ignore[attr-defined]
    ids = proof_text(codec, builtin_model.info.vocabulary, 300)
    assert builtin_model.decode(ids).startswith("The harbour town of Ellerby")
    assert proof_text(codec, builtin_model.info.vocabulary, 5000)[:300] == ids
    assert len(proof_text(None, 100, 300)) == 300


WIDE = 2048
"""Inputs of a layer whose products of one row sum otherwise in bfloat16 (oneDNN, AVX-512)."""
PLAIN_STEPS = 12
SOME = ["greedy", "lookup", "recycle", "early-exit"]


def plain_bits(model: TransformersModel) -> list[str]:
    """The logits of a plain answer's passes, as digests."""
    session = model.open_session()
    session.prefill(range(20, 45))
    token, rows = 45, []
    for _ in range(PLAIN_STEPS):
        scores = session.evaluate((token,), (ROOT,), (0,))
        rows.append(hashlib.sha256(scores.logits.float().numpy().tobytes()).hexdigest())  # type: ignore[attr-defined]
        token = scores.choose(Sampling(temperature=0.8, seed=7))[0]
        session.commit((0,))
    return rows


def test_a_plain_answer_has_the_same_bits_whatever_was_answered_before(tmp_path: Path) -> None:
    folder = write_model("gemma3", tmp_path, hidden_size=256, intermediate_size=WIDE)
    model = load_transformers(folder, "wide", LoadOptions(device="cpu", dtype="bfloat16"))
    able = model.info.capabilities
    assert able.exact, "passes of one node have the bits of larger ones"
    assert able.layers, "early ones too"
    usable = (method for method in methods().values() if not unavailable(method, able, draft_model=False, pard=False))
    names = [method.name for method in usable if method.label == "identical"]
    assert {*SOME} <= set(names)
    names = names if FULL else SOME
    fresh, source, conversation = plain_bits(model), random.Random(0), Conversation(model)
    for length, temperature in ((10, 0.8), (70, 0.0)):
        prompt = [source.randrange(4, 40) for _ in range(length)]
        answers = []
        for name in names:
            sampling = Sampling(temperature=temperature, seed=7)
            answer = Generation(conversation, prompt, name, max_tokens=16, sampling=sampling)
            for _ in answer:
                if source.random() < 0.3 and answer.finish_reason is None:
                    answer.switch(source.choice(names))
            answers.append(answer.answer)
        assert all(answer == answers[0] for answer in answers)
    assert plain_bits(model) == fresh
