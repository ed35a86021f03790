"""`specchat tune`: the search on made-up measurements, settings for other engines, and the command itself."""

from __future__ import annotations

import json
import math
import os
import random
import subprocess
import sys
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from specchat.app.cli.bench.items import Item
from specchat.app.cli.bench.lab import Spec, read_spec, read_specs
from specchat.app.cli.bench.requests import TuneRequest
from specchat.app.cli.bench.statistics import Pair, interval, ratio, summarise
from specchat.app.cli.bench.tune import SETS, Blocks, BlockSet, TuneSearch, candidates, choose, unclear, with_blocks
from specchat.app.settings.fields import Settings
from specchat.app.settings.precedence import read_settings
from specchat.decoders.methods.early_exit import parse_skip
from specchat.decoders.registry import BUILT_IN, elsewhere

from ....fakes.engines import paced
from ..conftest import Call


def searching(speeds: dict[str, float], prompts: int = 24, noise: float = 0.15, **request: Any) -> TuneSearch:
    """A search among candidates whose true speedups are known; an answer has 60 tokens."""
    draw = random.Random(7)

    def measure(item: Item, spec: Spec) -> Any:
        speed = speeds.get(spec.label, 1.0) * draw.lognormvariate(0, noise)
        return {"seconds": 60 / speed, "cpu_seconds": 60 / speed, "count": 60, "steps": math.ceil(60 / speed)}

    items = [Item(str(i), "ab"[i % 2], ("x",)) for i in range(prompts)]
    return TuneSearch(TuneRequest(settings=Settings(), **request), [read_spec(label) for label in speeds], items, measure)


SPEEDS = {f"lookup:nodes={n}": 1 + 0.05 * n for n in range(1, 21)} | {f"fusion:nodes={n}": 0.7 + 0.03 * n for n in range(1, 11)}


def test_halving_finds_nearly_the_best_in_a_third_of_the_grids_passes() -> None:
    search = searching(SPEEDS)
    pick = choose(search, search.run())
    grid = sum(len(search.items) * 60 / speed for speed in SPEEDS.values())
    assert SPEEDS[pick.spec] >= 0.95 * max(SPEEDS.values())
    assert search.passes <= grid / 3
    assert [len(rung.speedups) for rung in search.rungs] == [30, 10, 4]


def test_only_what_is_clearly_faster_takes_the_place_of_what_there_was() -> None:
    search = searching({"lookup": 1.02, "fusion": 0.7}, noise=0.3)
    pick = choose(search, search.run())
    assert pick.spec == "lookup"
    assert (pick.speedup_low or 0) < 1
    assert pick.speedup == pytest.approx(ratio(search.pairs("lookup", search.items))), "the figure that its interval is of"
    for search.present in ("greedy", "lookup"):
        assert unclear(search, "lookup").startswith("Nothing was clearly faster than plain decoding, so")
    search = searching({"lookup": 2.0, "fusion": 2.0, "suffix": 1.2}, noise=0.1)
    search.run()
    assert not unclear(search, "lookup")
    search.present = "fusion"
    assert unclear(search, "lookup").startswith("Nothing was clearly faster than fusion, so")
    search = searching({"lookup": 0.8, "fusion": 0.7}, noise=0.05)
    pick = choose(search, search.run())
    assert (pick.method, pick.settings, pick.speedup) == ("greedy", {}, 1.0)


def test_the_search_ends_when_its_time_is_over() -> None:
    search = searching(SPEEDS)
    search.seconds = 60
    clock = iter(range(10_000))
    search.now = lambda: float(next(clock))  # a second for every look at it
    ranked = search.run()
    assert search.out_of_time
    assert len(search.rows) <= 61
    assert len(ranked) == 30


def test_every_method_that_can_run_is_tried_and_what_was_given_is_left_alone() -> None:
    without = {"draft", "tree", "eagle", "medusa", "dflash", "mtp", "pard"}
    labels = [spec.label for spec in candidates(TuneRequest(settings=Settings()), 6, dict.fromkeys(without, "no"))]
    names = {label.partition(":")[0] for label in labels}
    assert names == set(BUILT_IN) - {"greedy", "recompute", "beam"} - without
    request = TuneRequest(settings=Settings(), methods="lookup:nodes=5,jacobi")
    assert [spec.label for spec in candidates(request, 0, {})] == ["lookup:nodes=5", "jacobi"]


FOUND = (
    BlockSet(5, 0.94, 0.39, 5, 1.51, skip="1,2m,4-7"),
    BlockSet(8, 0.97, 0.56, 5, 1.38, layers=4),
    BlockSet(14, 0.99, 0.9, 8, 1.1, skip="1-2m"),
    BlockSet(15, 1.0, 0.95, 1, 0.98, skip="1m"),
)


def test_the_best_sets_of_blocks_are_measured_in_the_place_of_guesses() -> None:
    blocks = Blocks(170, 137, 4, FOUND)
    specs = blocks.specs
    assert {spec.settings.get("skip", spec.settings.get("layers")) for spec in specs} == {"1,2m,4-7", "4", "1-2m"}
    assert len(specs) == SETS + 1
    for spec in specs:
        assert parse_skip(spec.settings.get("skip", "7"), 8)
        # What is printed can be typed.
        assert [(parsed.name, parsed.settings) for parsed in read_specs(f"lookup,{spec.label},greedy")] == [
            ("lookup", {}),
            ("early-exit", spec.settings),
            ("greedy", {}),
        ]
    before = candidates(TuneRequest(settings=Settings(), methods="early-exit,early-exit:skip=2a"), 8, {})
    after = with_blocks(before, blocks, 8)
    assert len({spec.label for spec in after}) == len(after)
    assert [spec.label for spec in after] == ["early-exit:skip=2a", *(spec.label for spec in specs)]
    assert with_blocks(before, Blocks(), 8) == before
    # The best number of first layers is always measured.
    deeper = Blocks(sets=[*(replace(FOUND[0], skip=f"{layer}a") for layer in range(7)), FOUND[1]])
    assert [spec.settings.get("layers") for spec in deeper.specs] == [None] * (SETS + 1) + ["4"]


def test_settings_for_other_engines() -> None:
    by = elsewhere("lookup", {"variant": "reference", "tokens": "7"})
    assert by["transformers"][0] == "model.generate(**inputs, prompt_lookup_num_tokens=7, max_matching_ngram_size=3)"
    assert "--spec-ngram-simple-size-n 3 --spec-ngram-simple-size-m 7" in by["llama-server"][0]
    config = json.loads(by["vLLM"][0].removeprefix("--speculative-config '").removesuffix("'"))
    assert config == {"method": "ngram", "num_speculative_tokens": 7, "prompt_lookup_max": 3, "prompt_lookup_min": 1}
    by = elsewhere("draft", {"schedule": "confidence", "threshold": "0.3"}, "small.gguf")
    assert "assistant_confidence_threshold=0.3" in by["transformers"][0]
    drafts = "--spec-type draft-simple --spec-draft-model small.gguf --spec-draft-n-max 16 --spec-draft-p-min 0.3"
    assert by["llama-server"][0] == drafts
    assert "--speculative-num-steps 4 --speculative-eagle-topk 1 --speculative-num-draft-tokens 5" in by["SGLang"][0]
    assert "assistant_early_exit=2" in elsewhere("early-exit", {"layers": "2"})["transformers"][0]
    assert not any(setting for setting, _ in elsewhere("early-exit", {"skip": "3a,4-5,6m"}).values())
    # SGLang's trees take three figures, as its documentation has them.
    figures = "--speculative-num-steps 16 --speculative-eagle-topk 4 --speculative-num-draft-tokens 24"
    assert elsewhere("eagle", {}, "HEAD")["SGLang"][0].endswith(f"EAGLE3 --speculative-draft-model-path HEAD {figures}")


@pytest.mark.parametrize("name", BUILT_IN)
def test_every_method_has_a_setting_or_a_note_for_every_engine(name: str) -> None:
    settings = elsewhere(name, {})
    assert list(settings) == ["transformers", "llama-server", "vLLM", "SGLang"]
    assert all(setting or note for setting, note in settings.values())


def test_the_command_saves_its_pick_as_the_models_method(call: Call, tmp_path: Path) -> None:
    text = "the quick brown fox jumps over the lazy dog near the warm stove in the kitchen of the old house "
    rows = [(f"{i} {text}", text) for i in range(12)]
    answers, prompts = tmp_path / "answers.jsonl", tmp_path / "prompts.jsonl"
    answers.write_text("".join(json.dumps({"prompt": p, "response": r}) + "\n" for p, r in rows))
    prompts.write_text("".join(json.dumps({"prompt": p}) + "\n" for p, _ in rows) + "nonsense\n")
    model = f"recorded:{answers}?pace=0.01"
    command = [sys.executable, "-m", "specchat", "tune", str(prompts), "--model", model, "--methods", "lookup"]
    command += ["--past", str(answers)]
    environment = {**os.environ, **paced(), "SPECCHAT_CONFIG": str(tmp_path / "settings.toml")}
    # Beside plain decoding, which the pick is clearly faster than; not beside the same method with other settings.
    (tmp_path / "settings.toml").write_text('method = "greedy"\n')
    done = subprocess.run([*command, "--json"], capture_output=True, text=True, timeout=180, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert "line 13" in done.stderr
    assert "Methods draft from 12 past answers too" in done.stderr
    assert report["best"]["method"] == "lookup"
    assert report["best"]["speedup_high"] == pytest.approx(report["best"]["speedup_low"])
    assert report["best"]["speedup"] > 3
    assert {"machine", "versions", "command"} <= set(report)
    saved = {"method": "lookup", **{f"methods.lookup.{k}": v for k, v in report["best"]["settings"].items()}}
    assert {key: str(value) for key, value in read_settings(tmp_path / "settings.toml").models[model].items()} == saved
    before = (tmp_path / "settings.toml").read_bytes()
    code, out, err = call("tune", prompts, "--model", model, "--methods", "lookup", "--minutes", "1e-9", "--limit", "1")
    assert code == 2
    assert "Too little was measured to choose a method, so nothing was saved" in err
    assert "×" not in out
    assert (tmp_path / "settings.toml").read_bytes() == before


def row(item: str, method: str, seconds: float, turn: int = 0, **more: Any) -> Any:
    base = {"item": item, "method": method, "round": turn, "category": "c", "count": 10, "digest": "d", "steps": 5}
    base |= {"seconds": seconds, "cpu_seconds": seconds / 2, "accepted": 5, "drafted": 10, "nodes": 15}
    return base | {"draft_seconds": 1.0, "forward_seconds": 2.0, "other_seconds": 1.0} | more


def test_every_figure_is_a_quotient_of_totals() -> None:
    """So the columns agree: a speedup is what the tokens a second divide to, whatever the answers' lengths."""
    rows = [
        row("a", "greedy", 2.0),
        row("a", "fast", 1.0),
        row("b", "greedy", 40.0, count=100),
        row("b", "fast", 39.0, count=100),
    ]
    rows += [row("b", "greedy", 44.0, 1, count=100), row("b", "fast", 10.0, 1, count=100)]
    greedy, fast = summarise(rows, ["greedy", "fast"], "greedy", "wall")
    assert (greedy.tokens_per_second, fast.tokens_per_second) == (210 / 86, 210 / 50)
    assert fast.speedup == pytest.approx(86 / 50)
    assert fast.tokens_per_step == 110 / 10
    assert (fast.speedup_low or 0) < 86 / 50 < (fast.speedup_high or 0)


def test_what_was_not_measured_is_null() -> None:
    nothing = dict.fromkeys(("drafted", "accepted", "nodes", "draft_seconds", "forward_seconds", "other_seconds", "steps"), 0)
    rows = [row("a", "greedy", 2.0), row("a", "fast", 1.0, **nothing)]
    _, fast = summarise(rows, ["greedy", "fast"], "greedy", "wall")
    unknown = (
        "speedup_low speedup_high tokens_per_step own_tokens_per_step acceptance_rate nodes_per_token draft_microseconds "
        "draft_share forward_share"
    )
    assert [name for name, value in asdict(fast).items() if value is None] == unknown.split()


def test_intervals_hold_the_true_ratio_about_as_often_as_they_say() -> None:
    draw = random.Random(1)
    held = 0
    for trial in range(12):
        groups = [[Pair(1, 1.0, 1, 1.5 * draw.lognormvariate(0, 0.2)) for _ in range(2)] for _ in range(8)]
        _, low, high = interval(groups, trial)
        assert low is not None
        assert high is not None
        assert 0 < low <= high
        held += low <= 1.5 <= high
    assert held >= 10


def test_a_line_counts_each_prompt_once_and_every_pair() -> None:
    rows = []
    for item in "abc":
        for turn in range(2):
            rows += [row(item, "greedy", 2.0, turn, steps=10), row(item, "fast", 1.0, turn)]
    rows[-1] = {**rows[-1], "digest": "other"}
    greedy, fast = summarise(rows, ["greedy", "fast"], "greedy", "wall")
    assert (fast.prompts, fast.pairs, fast.tokens, fast.steps) == (3, 6, 30, 15)
    assert (fast.speedup, fast.tokens_per_step, fast.acceptance_rate, fast.nodes_per_token) == (2.0, 2.0, 0.5, 1.5)
    assert (fast.draft_share, fast.forward_share, fast.tokens_per_second) == (0.25, 0.5, 10.0)
    assert fast.identical == 3  # the first round's answers
    assert greedy.speedup == greedy.speedup_low == greedy.speedup_high == 1


def test_an_answer_that_differs_is_not_identical_and_a_failed_one_does_not_count() -> None:
    rows = [row("a", "greedy", 1.0), row("a", "fast", 1.0, digest="e"), row("b", "greedy", 1.0)]
    rows.append({"item": "b", "method": "fast", "round": 0, "category": "c", "error": "it broke"})
    (line,) = summarise(rows, ["fast"], "greedy", "wall")
    assert (line.identical, line.prompts) == (0, 1)
