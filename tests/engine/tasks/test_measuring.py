"""The engine's measurements: an answer's figures, other implementations beside ours, replays of one record side by side."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from specchat.backends import Model, load_model
from specchat.backends.loading import builtin_path
from specchat.decoders.stats import Totals
from specchat.engine.client import EngineClient
from specchat.engine.messages import Event, Failed, Worked, Working
from specchat.engine.tasks.measuring import measure_answer
from specchat.engine.tasks.replaying import TURN, abreast
from specchat.engine.tasks.work import TaskContext

from ...fakes.engines import recorded

PROMPT = "Repeat this text exactly: The quick brown fox jumps over the lazy dog near the river."


def job(model: Model) -> TaskContext:
    return TaskContext(model, None, lambda _: None, lambda: False)


def work(client: EngineClient, task: str, **options: Any) -> list[Event]:
    return list(client.stream(client.work(task, **options)))


@pytest.mark.parametrize("kind", ["greedy", "lookup", "early-exit"])
def test_transformers_own_methods_give_plain_decodings_tokens(builtin_model: Model, kind: str) -> None:
    plain = measure_answer(job(builtin_model), "greedy", prompt=PROMPT, max_tokens=40)
    theirs = measure_answer(job(builtin_model), f"transformers/{kind}", prompt=PROMPT, max_tokens=40)
    assert theirs["tokens"] == plain["tokens"]
    assert theirs["prompt_tokens"] == plain["prompt_tokens"]
    if kind == "greedy":
        assert theirs["steps"] == theirs["nodes"] == len(plain["tokens"]) == plain["steps"]
    else:
        assert theirs["steps"] < plain["steps"]
        assert theirs["accepted"] == len(plain["tokens"]) - theirs["steps"]


def test_past_answers_out_of_a_file_are_drafted_from_where_that_is_asked(tmp_path: Path) -> None:
    text = "The keeper wrote every evening how far the waves had come, and nobody read it for forty years."
    file = tmp_path / "past.jsonl"
    file.write_text(json.dumps({"prompt": "before", "response": text}) + "\n")
    with EngineClient() as client:
        list(client.stream(client.load(recorded(tmp_path, more={"tell me": text}))))

        def steps(past: bool, settings: dict[str, Any] | None = None) -> int:
            asked = {"method": "lookup", "prompt": "tell me", "raw": True, "past": past, "settings": settings or {}}
            done = work(client, "answer", **asked)[-1]
            assert isinstance(done, Worked)
            assert done.result["text"] == text
            return int(done.result["steps"])

        plain = steps(True)
        opened = work(client, "past", files=[str(file)])[-1]
        assert isinstance(opened, Worked)
        assert opened.result["answers"] == 1
        assert opened.result["tokens"] > plain / 2
        assert steps(True) < plain / 2
        assert steps(False) == steps(True, {"past": False}) == plain
        (tmp_path / "empty.jsonl").write_text("")
        for name, says in (("missing", "There is no file"), ("empty", "contains no records")):
            failed = work(client, "past", files=[str(tmp_path / f"{name}.jsonl")])[-1]
            assert isinstance(failed, Failed)
            assert says in failed.sentence


@pytest.fixture(scope="module")
def gguf_model(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Model]:
    """The built-in model on llama.cpp."""
    pytest.importorskip("llama_cpp")
    pytest.importorskip("gguf")
    from specchat.builtin.recipe.gguf_export import export

    file = tmp_path_factory.mktemp("gguf") / "builtin.gguf"
    export(builtin_path(), file, "F32")
    model = load_model(str(file))
    yield model
    model.close()


@pytest.mark.parametrize("kind", ["greedy", "lookup"])
def test_llama_cpp_pythons_own_methods_give_plain_decodings_tokens(gguf_model: Model, kind: str) -> None:
    plain = measure_answer(job(gguf_model), "greedy", prompt=PROMPT, max_tokens=40)
    for _ in range(2):  # the second answer finds the first one's cache
        theirs = measure_answer(job(gguf_model), f"llama-cpp/{kind}", prompt=PROMPT, max_tokens=40)
        assert theirs["tokens"] == plain["tokens"]
        assert (theirs["steps"] == plain["steps"]) == (kind == "greedy")


def test_a_task_reports_and_ends_over_the_pipe(client: EngineClient, tmp_path: Path) -> None:
    name = recorded(tmp_path)
    events = work(client, "replay", file=name.removeprefix("recorded:").partition("?")[0], methods=[["x", "lookup", {}]])
    rows = [event.data for event in events if isinstance(event, Working)]
    assert [row["method"] for row in rows] == ["x"] * 3
    assert isinstance(events[-1], Worked)
    assert events[-1].result == {"problems": [], "records": 3}


@pytest.mark.parametrize(
    ("task", "options", "cause", "says"),
    [
        ("answer", {"prompt": "x"}, "user", "No model is loaded"),
        ("answer", {"nonsense": 1}, "bug", "log"),
    ],
)
def test_a_task_that_cannot_run_fails_with_a_sentence(
    client: EngineClient, task: str, options: dict[str, Any], cause: str, says: str
) -> None:
    failed = work(client, task, **options)[-1]
    assert isinstance(failed, Failed)
    assert failed.cause == cause
    assert says in failed.sentence


def test_a_running_task_ends_soon_after_its_cancel(client: EngineClient, tmp_path: Path) -> None:
    list(client.stream(client.load(recorded(tmp_path, pace=0.05))))
    id = client.work("answer", prompt="long", max_tokens=4000)
    client.cancel(id)
    failed = list(client.stream(id))[-1]
    assert isinstance(failed, Failed)
    assert failed.cause == "cancelled"


def run(name: str, tokens: list[int], seen: list[str]) -> Iterator[Totals]:
    """A replay whose passes give so many tokens each."""
    totals = Totals()
    try:
        for count in tokens:
            totals.tokens += count
            seen.append(name)
            yield totals
    finally:
        seen.append(f"{name} ends")


def test_whoever_is_least_far_goes_on() -> None:
    seen: list[str] = []
    slow, fast = [1, *([TURN // 4] * 8)], [1, TURN, TURN]
    one, other = abreast([run("slow", slow, seen), run("fast", fast, seen)], lambda: None)
    assert one.tokens == other.tokens == 1 + 2 * TURN
    # Turns of both lie among each other: the slow one catches up before the fast one goes on.
    assert seen == ["slow", "fast", *["slow"] * 4, "fast", *["slow"] * 4, "fast", "slow ends", "fast ends"]


def test_a_cancelled_replay_ends_them_all() -> None:
    seen: list[str] = []

    def stop() -> None:
        if len(seen) > 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        abreast([run("a", [1] * 9, seen), run("b", [1] * 9, seen)], stop)
    assert {"a ends", "b ends"} <= set(seen)
