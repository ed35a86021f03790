"""The command that makes everything anew, and the prompts that nobody expects."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from specchat.backends import Model
from specchat.builtin.recipe import release
from specchat.builtin.recipe.export import WEIGHTS
from specchat.builtin.recipe.generators.draw import Draw
from specchat.builtin.recipe.odd_prompts import KINDS, LONG, prompts


@pytest.fixture
def commands(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[list[str]]:
    """What the release would run, without `python -m specchat.`."""
    ran: list[list[str]] = []

    def run(command: list[str], **_: Any) -> subprocess.CompletedProcess[bytes]:
        assert command[:2] == [sys.executable, "-m"]
        ran.append([command[2].removeprefix("specchat."), *command[3:]])
        return subprocess.CompletedProcess(command, 0, b"{}")

    monkeypatch.setattr(subprocess, "run", run)
    monkeypatch.setattr(release, "WORK", tmp_path / "work")
    monkeypatch.setattr(release, "PROMPTS", tmp_path / "prompts.jsonl")
    return ran


def test_the_target_goes_on_and_what_drafts_for_it_after_it(
    commands: list[list[str]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(sys, "argv", ["release", "--threads", "1"])
    release.main()
    modules = [module for module, *_ in commands]
    assert modules[:5] == [
        "builtin.recipe.train",
        "builtin.recipe.export",
        "builtin.recipe.gguf_export",
        "builtin.recipe.train_pard",
        "builtin.recipe.train_eagle",
    ]
    assert {
        "builtin.recipe.evaluate",
        "builtin.recipe.agreement",
        "builtin.recipe.handwritten",
        "builtin.recipe.odd_prompts",
    } < set(modules[5:])
    target = commands[0]
    assert target[target.index("--start") + 1] == str(WEIGHTS / "target")
    for drafter, folder in zip(commands[3:5], ("draft", "eagle"), strict=True):
        assert drafter[drafter.index("--out") + 1] == str(WEIGHTS / folder)
        assert "--resume" not in drafter
    assert (tmp_path / "prompts.jsonl").read_bytes() == b"{}"


def test_a_stopped_run_goes_on(commands: list[list[str]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    checkpoint = tmp_path / "work" / "target" / "checkpoint.pt"
    checkpoint.parent.mkdir(parents=True)
    checkpoint.touch()
    monkeypatch.setattr(sys, "argv", ["release", "--only", "training"])
    release.main()
    target, *_, head = commands
    assert "--resume" in target
    assert "--start" not in target
    assert "--resume" not in head


def test_odd_prompts_are_of_every_kind_and_the_same_each_time(builtin_model: Model) -> None:
    found = list(prompts(builtin_model, 2 * len(KINDS)))
    assert found == list(prompts(builtin_model, 2 * len(KINDS)))
    assert [kind for kind, _ in found] == 2 * list(KINDS)
    assert all(text for _, text in found)
    long = [len(builtin_model.encode(text)) for kind, text in found if kind == "long"]
    assert all(0.9 * LONG < tokens < 1.1 * LONG for tokens in long)
    assert len({make(Draw(f"odd/{i}")) for i in range(20) for make in KINDS.values()}) > 150
