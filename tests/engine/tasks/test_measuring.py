"""The engine's measurements: an answer's figures, other libraries' methods, replays side by side, block search."""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from specchat.app.cli.bench.items import read_items
from specchat.backends import ROOT, Cancelled, Model, Sampling, load_model
from specchat.backends.base import Block, Layers
from specchat.backends.hf.session import TransformersSession
from specchat.backends.loading import builtin_path
from specchat.decoders.methods.early_exit import parse_skip
from specchat.decoders.stats import Totals
from specchat.engine.client import EngineClient
from specchat.engine.messages import Event, Failed, Worked, Working
from specchat.engine.options import ModelSelection
from specchat.engine.tasks import block_search
from specchat.engine.tasks.block_search import BudgetedSession, BudgetSpent, GreedyText, Scorer, Walk, find_blocks
from specchat.engine.tasks.measuring import measure_answer
from specchat.engine.tasks.replaying import TURN, abreast
from specchat.engine.tasks.work import TaskContext

from ...cases import FULL
from ...fakes.engines import recorded
from ...fakes.models.llama_tiny import gguf_of, needs_llama
from ...fakes.models.tiny import tiny_model

PROMPT = "Repeat this text exactly: The quick brown fox jumps over the lazy dog near the river."


def job(model: Model) -> TaskContext:
    return TaskContext(model, None, lambda _: None, lambda: False)


def events_of(client: EngineClient, task: str, **options: Any) -> list[Event]:
    return list(client.stream(client.work(task, **options)))


LIBRARIES = [
    *(("transformers", kind) for kind in ("greedy", "lookup", "early-exit")),
    *(pytest.param("llama-cpp", kind, marks=needs_llama) for kind in ("greedy", "lookup")),
]


@pytest.mark.parametrize(("library", "kind"), LIBRARIES)
def test_the_libraries_own_methods_give_plain_decodings_tokens(builtin_model: Model, library: str, kind: str) -> None:
    model = builtin_model if library == "transformers" else load_model(str(gguf_of(builtin_path())))
    plain = measure_answer(job(model), "greedy", prompt=PROMPT, max_tokens=40)
    for _ in range(1 + (library == "llama-cpp")):  # the second answer finds the first one's cache
        theirs = measure_answer(job(model), f"{library}/{kind}", prompt=PROMPT, max_tokens=40)
        assert theirs.tokens == plain.tokens
        assert (theirs.steps == plain.steps) == (kind == "greedy")
    if library == "transformers":
        assert theirs.prompt_tokens == plain.prompt_tokens
        assert kind == "greedy" or theirs.accepted == len(plain.tokens) - theirs.steps
        assert kind != "greedy" or theirs.nodes == len(plain.tokens)
    else:
        model.close()


def test_past_answers_out_of_a_file_are_drafted_from_where_that_is_asked(tmp_path: Path) -> None:
    text = "The keeper wrote every evening how far the waves had come, and nobody read it for forty years."
    file = tmp_path / "past.jsonl"
    file.write_text(json.dumps({"prompt": "before", "response": text}) + "\n")
    with EngineClient() as client:
        list(client.stream(client.load(ModelSelection(recorded(tmp_path, more={"tell me": text})))))

        def steps(past: bool, settings: dict[str, Any] | None = None) -> int:
            request = {"method": "lookup", "prompt": "tell me", "raw": True, "past": past, "settings": settings or {}}
            done = events_of(client, "answer", **request)[-1]
            assert isinstance(done, Worked)
            assert done.result["text"] == text
            return int(done.result["steps"])

        plain = steps(True)
        opened = events_of(client, "past", files=[str(file)])[-1]
        assert isinstance(opened, Worked)
        assert opened.result["answers"] == 1
        assert opened.result["tokens"] > plain / 2
        assert steps(True) < plain / 2
        assert steps(False) == steps(True, {"past": False}) == plain
        (tmp_path / "empty.jsonl").write_text("")
        for name, says in (("missing", "There is no file"), ("empty", "contains no records")):
            failed = events_of(client, "past", files=[str(tmp_path / f"{name}.jsonl")])[-1]
            assert isinstance(failed, Failed)
            assert says in failed.sentence


def test_a_task_reports_and_ends_over_the_pipe(client: EngineClient, tmp_path: Path) -> None:
    name = recorded(tmp_path)
    events = events_of(client, "replay", file=name.removeprefix("recorded:").partition("?")[0], methods=[["x", "lookup", {}]])
    rows = [event.data for event in events if isinstance(event, Working)]
    assert [row["method"] for row in rows] == ["x"] * 3
    assert isinstance(events[-1], Worked)
    assert events[-1].result == {"problems": [], "records": 3}


@pytest.mark.parametrize(
    ("task", "options", "cause", "says"),
    [("answer", {"prompt": "x"}, "user", "No model is loaded"), ("answer", {"nonsense": 1}, "bug", "log")],
)
def test_a_task_that_cannot_run_fails_with_a_sentence(
    client: EngineClient, task: str, options: dict[str, Any], cause: str, says: str
) -> None:
    failed = events_of(client, task, **options)[-1]
    assert isinstance(failed, Failed)
    assert failed.cause == cause
    assert says in failed.sentence


def test_a_running_task_ends_soon_after_its_cancel(client: EngineClient, tmp_path: Path) -> None:
    list(client.stream(client.load(ModelSelection(recorded(tmp_path, pace=0.05)))))
    id = client.work("answer", prompt="long", max_tokens=4000)
    client.cancel(id)
    failed = list(client.stream(id))[-1]
    assert isinstance(failed, Failed)
    assert failed.cause == "cancelled"


def fake_replay(name: str, tokens: list[int], order: list[str]) -> Iterator[Totals]:
    """A replay, whose passes give these numbers of tokens."""
    totals = Totals()
    try:
        for count in tokens:
            totals.tokens += count
            order.append(name)
            yield totals
    finally:
        order.append(f"{name} ends")


def test_the_replay_with_the_fewest_tokens_goes_on() -> None:
    order: list[str] = []
    slow, fast = [1, *([TURN // 4] * 8)], [1, TURN, TURN]
    one, other = abreast([fake_replay("slow", slow, order), fake_replay("fast", fast, order)], lambda: None)
    assert one.tokens == other.tokens == 1 + 2 * TURN
    # Turns of both lie among each other: the slow one catches up before the fast one goes on.
    assert order == ["slow", "fast", *["slow"] * 4, "fast", *["slow"] * 4, "fast", "slow ends", "fast ends"]


def test_a_cancelled_replay_ends_them_all() -> None:
    order: list[str] = []

    def stop() -> None:
        if len(order) > 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        abreast([fake_replay("a", [1] * 9, order), fake_replay("b", [1] * 9, order)], stop)
    assert {"a ends", "b ends"} <= set(order)


LAYERS = 8
UNITS = [frozenset({(layer, kind)}) for layer in range(LAYERS) for kind in "am"]


def job_of(model: Model, reports: list[dict[str, Any]] | None = None, after: int = 10**9) -> TaskContext:
    """A job that is cancelled at the check with that number."""
    checks = itertools.count()
    return TaskContext(model, None, (reports if reports is not None else []).append, lambda: next(checks) >= after)


def walking(damage: dict[Any, float], most: int = 10**9) -> tuple[Walk, list[Any]]:
    """A walk where each block that is left out costs its own part of the agreement, and what it looked at."""
    reports: list[Any] = []

    def score(left_out: Any) -> tuple[float, float]:
        if len(reports) >= most:
            raise BudgetSpent
        reports.append(left_out)
        lost = sum(damage[next(iter(unit))] for unit in UNITS if unit <= left_out)
        return max(0.0, 1 - lost), -lost

    return Walk(score), reports


def made_up(seed: int) -> dict[Any, float]:
    rng = random.Random(seed)
    return {next(iter(unit)): rng.random() * 0.2 for unit in UNITS}


@pytest.mark.parametrize("seed", range(4))
def test_the_blocks_that_cost_least_go_first(seed: int) -> None:
    damage = made_up(seed)
    walk, reports = walking(damage)
    walk.go(frozenset(), UNITS)
    order = sorted(damage, key=damage.__getitem__)
    for count, blocks in enumerate(walk.path.values(), 1):
        assert blocks.left_out == frozenset(order[:count])
        assert blocks.agreement == pytest.approx(max(0.0, 1 - sum(damage[block] for block in order[:count])))
    assert len(walk.path) < len(UNITS), "something is left"
    last = list(walk.path.values())[-1]
    assert last.agreement < block_search.LEAST_AGREEMENT or len(walk.path) == len(UNITS) - 1
    # All once, then a few at each step; never the same set twice.
    assert len(reports) == len(set(reports)) <= len(UNITS) + block_search.TRIED_UNITS * len(walk.path)


def test_a_walk_that_runs_out_of_passes_keeps_what_it_has() -> None:
    whole, _ = walking(made_up(2))
    whole.go(frozenset(), UNITS)
    part, reports = walking(made_up(2), most=24)
    with pytest.raises(BudgetSpent):
        part.go(frozenset(), UNITS)
    assert len(reports) == 24
    assert 1 <= len(part.path) < len(whole.path)
    assert list(part.path) == list(whole.path)[: len(part.path)]


@pytest.mark.parametrize("kind", ["llama", "mistral", "gpt2"])
def test_a_score_is_how_often_a_first_draft_token_is_right(kind: str) -> None:
    model = tiny_model(kind)
    rng = random.Random(kind)
    start = [rng.randrange(4, 200) for _ in range(5)]
    texts = []
    for length in (12, 40):
        ids = start + [rng.randrange(4, 200) for _ in range(length)]
        session: Any = model.open_session()
        session.prefill(ids[:-1])
        for _ in range(20):
            ids.append(session.evaluate(ids[-1:], (ROOT,)).choose(Sampling())[0])
            session.commit((0,))
        texts.append(GreedyText(ids, 5 + length))
    scorer = Scorer(BudgetedSession(job_of(model), model.open_session(), 99, float("inf")), texts)
    assert scorer.positions == 40
    for skip in ("1m", "2a", "0a,2", "1-2"):
        run = parse_skip(skip, 3)
        right: list[bool] = []
        for text in texts:
            session = model.open_session()
            session.prefill(text.ids[: text.prompt - 1])
            chain = text.ids[text.prompt - 1 : -1]
            for token, token_ in zip(chain, text.ids[text.prompt :], strict=True):
                right.append(session.evaluate([token], [ROOT], layers=run).choose(Sampling()) == [token_])
                session.drop((0,))
                session.commit(())
                session.evaluate([token], [ROOT], rows=())
                session.commit((0,))
        # Twice: a pass leaves nothing behind.
        assert scorer.score(run)[0] == scorer.score(run)[0] == pytest.approx(sum(right) / len(right))


def prompts(count: int = 4) -> list[dict[str, Any]]:
    items = read_items(None, count, ("copy",)).items
    return [{"messages": list(item.messages) or [{"role": "user", "content": item.turns[0]}]} for item in items]


def test_on_the_built_in_model_it_finds_what_agrees_and_costs_less(
    builtin_model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls, now = 0, 0.0
    evaluate: Any = TransformersSession.evaluate

    def price(layers: Layers | None) -> float:
        """Seconds of a pass: an attention block takes twice as long as an MLP, and half a second goes to neither."""
        run = range(LAYERS if layers is None else layers) if not isinstance(layers, Sequence) else layers
        return 0.5 + sum({"attention": 2, "mlp": 1}[part.kind] if isinstance(part, Block) else 3 for part in run)

    def counting(self: Any, tokens: Any, parents: Any, rows: Any = None, layers: Layers | None = None) -> Any:
        nonlocal calls, now
        calls += bool(len(tokens))
        now += price(layers)
        return evaluate(self, tokens, parents, rows, layers)

    monkeypatch.setattr(TransformersSession, "evaluate", counting)
    monkeypatch.setattr(block_search, "time", SimpleNamespace(monotonic=lambda: now, perf_counter=lambda: now))
    reports: list[dict[str, Any]] = []
    result = find_blocks(job_of(builtin_model, reports), prompts(), most=220, seconds=1e6, answer_tokens=24)
    assert 100 < result.passes <= 220
    # Every pass is counted, a prompt's prefill as the first step of its answer.
    assert calls == result.passes
    assert result.positions > 40
    assert reports[-1]["passes"] <= reports[-1]["most"] == 220
    skipped = result.found
    assert [row.speedup for row in skipped] == sorted((row.speedup for row in skipped), reverse=True)
    depths = {row.layers: row for row in skipped if row.layers is not None}
    assert set(depths) == set(range(1, LAYERS))
    assert any(set("am") & set(row.skip or "") for row in skipped)
    for row in skipped:
        assert 1 <= row.blocks < 2 * LAYERS
        assert 0 <= row.agreement <= 1
        run = parse_skip(row.skip, LAYERS) if row.skip else row.layers
        assert row.cost == pytest.approx(price(run) / price(None))
        assert 1 <= row.tokens <= block_search.LONGEST_DRAFT
        if row.skip is not None:
            assert len(parse_skip(row.skip, LAYERS)) <= LAYERS
    # Leaving out one well chosen block does next to no harm; half of the model's trained exit, much.
    assert max(row.agreement for row in skipped if row.blocks == 2 * LAYERS - 1) > 0.9
    assert min(row.agreement for row in skipped) < 0.7


def test_the_search_is_cancelled_between_passes(builtin_model: Model) -> None:
    for after in (0, 5, 40, 90) if FULL else (0, 40):
        with pytest.raises(Cancelled):
            find_blocks(job_of(builtin_model, after=after), prompts())
