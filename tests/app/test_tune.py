"""`specchat tune`: the search on made-up measurements, settings for other engines, and the command itself."""

from __future__ import annotations

import json
import math
import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from specchat.app.bench.items import Item
from specchat.app.equivalents import equivalents
from specchat.app.measuring import Spec, read_spec
from specchat.app.settings import Settings, read_settings
from specchat.app.tune import Search, TuneRequest, candidates, early_exits, grid_passes, in_turn, result_of, rung_sizes
from specchat.decoders.registry import BUILT_IN


def searching(speeds: dict[str, float], prompts: int = 24, noise: float = 0.15, **request: Any) -> Search:
    """A search among candidates whose true speedups are known; an answer has 60 tokens."""
    draw = random.Random(7)

    def measure(item: Item, spec: Spec) -> dict[str, Any]:
        speed = speeds.get(spec.label, 1.0) * draw.lognormvariate(0, noise)
        return {"seconds": 60 / speed, "cpu_seconds": 60 / speed, "count": 60, "steps": math.ceil(60 / speed)}

    items = [Item(str(i), "ab"[i % 2], ("x",)) for i in range(prompts)]
    return Search(TuneRequest(None, Settings(), **request), [read_spec(label) for label in speeds], items, measure)


SPEEDS = {f"lookup:nodes={n}": 1 + 0.05 * n for n in range(1, 21)} | {f"fusion:nodes={n}": 0.7 + 0.03 * n for n in range(1, 11)}


def test_halving_finds_nearly_the_best_in_a_third_of_the_grids_passes() -> None:
    search, grid = searching(SPEEDS), searching(SPEEDS, exhaustive=True)
    found = result_of(search, search.run())
    result_of(grid, grid.run())
    assert SPEEDS[found["spec"]] >= 0.95 * max(SPEEDS.values())
    assert search.passes <= grid.passes / 3
    assert [len(rung["candidates"]) for rung in search.rungs] == [30, 10, 4]
    assert grid_passes(search) == pytest.approx(grid.passes, rel=0.15)


def test_a_pick_holds_what_was_measured_on_every_prompt() -> None:
    search = searching(SPEEDS, noise=0.02)
    found = result_of(search, search.run())
    assert found["prompts"] == 24
    assert found["speedup_low"] <= found["median_speedup"] <= found["speedup_high"]
    assert found["speedup"] == pytest.approx(SPEEDS[found["spec"]], rel=0.05)


def test_where_nothing_helps_plain_decoding_is_the_pick() -> None:
    search = searching({"lookup": 0.8, "fusion": 0.7})
    assert result_of(search, search.run())["spec"] == "greedy"


def test_the_search_ends_when_its_time_is_over() -> None:
    search = searching(SPEEDS, minutes=1)
    clock = iter(range(10_000))
    search.now = lambda: float(next(clock))  # a second for every look at it
    ranked = search.run()
    assert search.out_of_time
    assert len(search.rows) <= 61
    assert len(ranked) == 30


def test_an_answer_that_failed_counts_against_nobody_else() -> None:
    search = searching({"lookup": 2.0, "fusion": 1.5}, noise=0.0)
    inner = search.measure
    search.measure = lambda item, spec: {"error": "no"} if spec.label == "lookup" else inner(item, spec)
    assert result_of(search, search.run())["spec"] == "fusion"


@pytest.mark.parametrize(("prompts", "count", "sizes"), [(24, 30, [3, 8, 24]), (24, 2, [8, 24]), (1, 30, [1]), (9, 1, [9])])
def test_rungs(prompts: int, count: int, sizes: list[int]) -> None:
    assert rung_sizes(prompts, count) == sizes


def test_prompts_take_turns_by_category() -> None:
    items = [Item(str(i), category) for i, category in enumerate("aaabbc")]
    assert "".join(item.category for item in in_turn(items)) == "abcaba"


def test_every_method_that_can_run_is_tried_and_what_was_given_is_left_alone() -> None:
    labels = [spec.label for spec in candidates(TuneRequest(None, Settings()), {"layers": 6}, {"draft": "no", "tree": "no"})]
    names = {label.partition(":")[0] for label in labels}
    assert names == set(BUILT_IN) - {"greedy", "sample", "recompute", "beam", "draft", "tree"}
    request = TuneRequest(None, Settings(), methods="lookup:nodes=5,jacobi")
    assert [spec.label for spec in candidates(request, {}, {})] == ["lookup:nodes=5", "jacobi"]


def test_early_exits_lie_within_the_model() -> None:
    assert early_exits(0) == early_exits(1) == []
    for layers in (2, 6, 32):
        for settings in early_exits(layers):
            assert 0 < int(settings.get("layers", 1)) < layers
            if "skip" in settings:
                numbers = [int(part) for part in settings["skip"].split("-")]
                assert 0 < numbers[0] <= numbers[-1] < layers - 1


def test_settings_for_other_engines() -> None:
    by = {e.engine: e for e in equivalents("lookup", {"variant": "reference", "tokens": "7"})}
    assert by["transformers"].setting == "model.generate(**inputs, prompt_lookup_num_tokens=7, max_matching_ngram_size=3)"
    assert "--spec-ngram-simple-size-n 3 --spec-ngram-simple-size-m 7" in by["llama-server"].setting
    config = json.loads(by["vLLM"].setting.removeprefix("--speculative-config '").removesuffix("'"))
    assert config == {"method": "ngram", "num_speculative_tokens": 7, "prompt_lookup_max": 3, "prompt_lookup_min": 1}
    by = {e.engine: e for e in equivalents("draft", {"schedule": "confidence", "threshold": "0.3"}, "small.gguf")}
    assert "assistant_confidence_threshold=0.3" in by["transformers"].setting
    assert by["llama-server"].setting == "--spec-draft-model small.gguf --spec-draft-n-max 12 --spec-draft-p-min 0.3"
    assert "stays the same" in by["vLLM"].note
    assert "assistant_early_exit=2" in equivalents("early-exit", {"layers": "2"})[0].setting
    assert equivalents("early-exit", {"skip": "2-3"})[0].setting == ""


@pytest.mark.parametrize("name", BUILT_IN)
def test_every_method_has_a_setting_or_a_note_for_every_engine(name: str) -> None:
    found = equivalents(name, {})
    assert [e.engine for e in found] == ["transformers", "llama-server", "vLLM"]
    assert all(e.setting or e.note for e in found)


def test_the_command_saves_its_pick_as_the_models_method(tmp_path: Path) -> None:
    text = "the quick brown fox jumps over the lazy dog near the warm stove in the kitchen of the old house "
    rows = [(f"{i} {text}", text * 2) for i in range(4)]
    answers, prompts = tmp_path / "answers.jsonl", tmp_path / "prompts.jsonl"
    answers.write_text("".join(json.dumps({"prompt": p, "response": r}) + "\n" for p, r in rows))
    prompts.write_text("".join(json.dumps({"prompt": p}) + "\n" for p, _ in rows) + "nonsense\n")
    model = f"recorded:{answers}?pace=0.01"
    command = [sys.executable, "-m", "specchat", "tune", str(prompts), "--model", model, "--methods", "lookup"]
    environment = {**os.environ, "SPECCHAT_CONFIG": str(tmp_path / "settings.toml")}
    done = subprocess.run([*command, "--json"], capture_output=True, text=True, timeout=180, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert "line 5" in done.stderr
    assert report["best"]["method"] == "lookup"
    assert report["best"]["speedup"] > 1.2
    kept = {"method": "lookup", **{f"methods.lookup.{k}": v for k, v in report["best"]["settings"].items()}}
    assert {key: str(value) for key, value in read_settings(tmp_path / "settings.toml").models[model].items()} == kept
    done = subprocess.run(
        [*command, "--no-save", "--minutes", "0.001"], capture_output=True, text=True, timeout=180, env=environment, check=False
    )
    assert "ran out" in done.stdout
    assert "vLLM: " in done.stdout
