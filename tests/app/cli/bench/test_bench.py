"""`specchat bench` from the command line, on recorded answers: no weights, the same counts every time."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ....fakes.engines import paced, wait_until
from ....fakes.records import recorded_model
from ..conftest import Call

Run = Callable[..., subprocess.CompletedProcess[str]]

TEXT = "the quick brown fox jumps over the lazy dog and the small cat sleeps near the warm stove in the kitchen "


@pytest.fixture
def world(tmp_path: Path) -> dict[str, Any]:
    """A recorded model, prompts in two categories, and an environment of this test's own."""
    prompts = tmp_path / "prompts.jsonl"
    rows = [(f"{i} {TEXT}", TEXT + (TEXT if i % 2 else f"and {i} more")) for i in range(6)]
    lines = [{"prompt": p, "category": "even" if i % 2 == 0 else "odd"} for i, (p, _) in enumerate(rows)]
    prompts.write_text("".join(json.dumps(line) + "\n" for line in lines))
    environment = {**os.environ, "SPECCHAT_CACHE": str(tmp_path / "cache"), "SPECCHAT_CONFIG": str(tmp_path)}
    return {"model": recorded_model(tmp_path, dict(rows)), "prompts": prompts, "env": environment, "folder": tmp_path}


def command(world: dict[str, Any], *args: object, pace: float = 0.0) -> list[str]:
    model = f"{world['model']}?pace={pace}"
    return [sys.executable, "-m", "specchat", "bench", str(world["prompts"]), "--model", model, *map(str, args)]


def beside(world: dict[str, Any], *args: object, pace: float = 0.0) -> subprocess.Popen[str]:
    """The command in a process of its own."""
    pipe = subprocess.PIPE
    return subprocess.Popen(command(world, *args, pace=pace), stdout=pipe, stderr=pipe, text=True, env=world["env"])


@pytest.fixture
def run(world: dict[str, Any], call: Call) -> Run:
    """Runs the command in this process."""

    def run(*args: object, pace: float = 0.0) -> subprocess.CompletedProcess[str]:
        words = command(world, *args, pace=pace)
        return subprocess.CompletedProcess(words, *call(*words[3:]))

    return run


COUNTS = "method category tokens steps tokens_per_step acceptance_rate nodes_per_token identical prompts".split()


def counts(report: dict[str, Any]) -> list[list[Any]]:
    return [[row[key] for key in COUNTS] for row in report["results"]]


def test_methods_are_compared_in_every_form(world: dict[str, Any]) -> None:
    folder = world["folder"]
    # A pass takes 10 ms, and nothing else any time: speedups follow the number of passes.
    world["env"] |= paced()
    process = beside(
        world, "--methods", "lookup,fusion", "--json", "--markdown", folder / "t.md",
        "--rounds", 2, pace=0.01,
    )  # fmt: skip
    out, err = process.communicate(timeout=180)
    assert process.returncode == 0, err
    report = json.loads(out)
    assert {"model", "backend", "device", "prompts", "results"} <= set(report)
    assert (report["backend"], report["prompts"]) == ("recorded", 6)
    rows = {(row["method"], row["category"]): row for row in report["results"]}
    assert list(rows) == [(m, c) for m in ("greedy", "lookup", "fusion") for c in ("even", "odd", "all")]
    for row in rows.values():
        assert row["identical"] == row["prompts"] == (6 if row["category"] == "all" else 3)
        assert row["pairs"] == 2 * row["prompts"]
        assert row["speedup_low"] <= row["speedup"] <= row["speedup_high"]
    lookup = rows["lookup", "all"]
    assert lookup["tokens_per_step"] > 2
    # Passes over more nodes take longer.
    assert 3 < lookup["speedup"] < lookup["tokens_per_step"]
    assert "| category | method |" in (folder / "t.md").read_text()


def test_a_killed_run_goes_on_to_the_same_counts(world: dict[str, Any], run: Run) -> None:
    args = ("--methods", "lookup,ngram", "--json")
    whole = json.loads(run(*args, "--record", world["folder"] / "whole.jsonl", pace=0.002).stdout)
    record = world["folder"] / "killed.jsonl"
    process = beside(world, *args, "--record", record, pace=0.002)
    wait_until(lambda: record.exists() and record.read_bytes().count(b"\n") >= 5)
    process.kill()
    process.communicate()
    # As if it had been killed in the middle of a line, and halfway at the latest.
    record.write_bytes(b"".join(record.read_bytes().splitlines(keepends=True)[:10])[:-9])
    resumed = run(*args, "--record", record, "--resume", pace=0.002)
    assert resumed.returncode == 0, resumed.stderr
    assert counts(json.loads(resumed.stdout)) == counts(whole)
    assert record.read_bytes().count(b"\n") == 1 + 6 * 3
    # Everything is measured: once more tells the same, seconds and all, without the model's work.
    again = run(*args, "--record", record, "--resume", pace=0.002)
    assert json.loads(again.stdout)["results"] == json.loads(resumed.stdout)["results"]


def test_ctrl_c_shows_what_is_done(world: dict[str, Any]) -> None:
    record = world["folder"] / "r.jsonl"
    world["prompts"].write_text(world["prompts"].read_text() * 30)  # minutes of answers
    process = beside(world, "--methods", "lookup", "--json", "--record", record, pace=0.02)
    wait_until(lambda: record.exists() and record.read_bytes().count(b"\n") >= 4)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 130
    assert 1 <= sum(row["prompts"] for row in json.loads(out)["results"] if row["category"] in ("even", "odd")) < 360
    assert "--resume" in err


def test_what_cannot_run_here_is_left_out_with_the_reason(world: dict[str, Any], run: Run) -> None:
    done = run("--methods", "lookup,early-exit,draft", "--against", "transformers", "--json", "--limit", 1)
    assert done.returncode == 0, done.stderr
    assert {row["method"] for row in json.loads(done.stdout)["results"]} == {"greedy", "lookup"}
    for reason in ("early-exit is left out", "draft is left out", "transformers is left out"):
        assert reason in done.stderr


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["--methods", "lokup"], "did you mean lookup?"),
        (["--methods", "lookup:nods=3"], "did you mean nodes?"),
        (["--against", "vllm"], "--against takes transformers, llama-cpp"),
        (["--clock", "sun"], "--clock takes wall or cpu"),
        (["--rounds", "0"], "--rounds must be at least 1"),
        (["--category", "nope"], "no category 'nope'"),
    ],
)
def test_what_can_be_mended_is_one_sentence(run: Run, args: list[str], says: str) -> None:
    done = run(*args)
    assert done.returncode == 2
    assert says in done.stderr
