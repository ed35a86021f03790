"""`specchat doctor`: complete as data, readable as text, and every problem with a command that mends it."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner

from specchat.app.cli import doctor
from specchat.app.cli.bench.lab import Interrupted, Lab
from specchat.app.cli.main import app
from specchat.app.settings.fields import Settings
from specchat.errors import UserError


@pytest.fixture
def probe(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> SimpleNamespace:
    """What the process that imports torch is made to answer."""
    monkeypatch.setenv("SPECCHAT_CONFIG", str(tmp_path))
    monkeypatch.setattr(doctor, "_builtin", lambda problems: True)
    answer = SimpleNamespace(returncode=0, stderr="", stdout='{"cuda": [], "built_for_cuda": "", "mps": false, "threads": 2}\n')
    device = {"name": "CPU", "description": "A processor", "gpu": False, "free": 1e9, "total": 2e9, "handle": 1}
    build = json.dumps({"backends": ["CPU"], "devices": [device], "library": "/lib"})
    answer.llama = SimpleNamespace(returncode=0, stderr="", stdout=build + "\n")
    monkeypatch.setattr("shutil.which", lambda name: None)
    monkeypatch.setattr("subprocess.run", lambda args, **options: answer.llama if "llama" in args[-1] else answer)
    known = doctor._version
    monkeypatch.setattr(doctor, "_version", lambda name: "0.3.36" if name == "llama-cpp-python" else known(name))
    return answer


def test_a_healthy_machine(probe: SimpleNamespace) -> None:
    report = doctor.examine()
    assert report.problems == []
    text = "\n".join(doctor.page(report))
    assert "Everything is in order." in text
    assert "cpu only" in text
    data = json.loads(json.dumps(asdict(report)))
    assert set(data) == {
        *("versions", "machine", "devices", "llama_cpp", "terminal", "paths", "settings", "builtin_model", "problems"),
    }
    assert data["versions"]["torch"]
    assert data["machine"]["threads"] >= 1


def test_what_is_broken_comes_with_what_mends_it(
    probe: SimpleNamespace, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    probe.returncode, probe.stderr = 1, "Traceback …\nImportError: libcudart.so.13 is missing\n"
    (tmp_path / "settings.toml").write_text("modell = 'x'")
    known = doctor._version
    monkeypatch.setattr(doctor, "_version", lambda name: None if name == "textual" else known(name))
    report = doctor.examine()
    whats = " ".join(problem.what for problem in report.problems)
    assert "libcudart.so.13 is missing" in whats
    assert "did you mean model?" in whats
    assert "The package textual is missing." in whats
    assert all(problem.fix for problem in report.problems)
    assert "-m pip install textual" in "\n".join(doctor.page(report))


def test_a_cpu_build_beside_a_driver_is_a_note(probe: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda name: "/usr/bin/nvidia-smi")
    torch, llama = doctor.examine().problems
    assert (torch.serious, llama.serious) == (False, False)
    assert "torch was built for the CPU only" in torch.what
    assert "llama.cpp was built without CUDA" in llama.what
    assert llama.fix.startswith('CMAKE_ARGS="-DGGML_CUDA=on" ')
    probe.llama.stdout = probe.llama.stdout.replace('["CPU"]', '["CPU", "CUDA"]')
    assert len(doctor.examine().problems) == 1


class FakeLab(Lab):
    """An engine that has loaded a model and answers with what a test sets; an exception is raised."""

    answer: Any

    def __init__(self, notes: Any) -> None:
        super().__init__(notes, SimpleNamespace(start=lambda: None, close=lambda: None))  # type: ignore[arg-type]

    def load(self, settings: Settings, *, quiet: bool = False) -> Any:
        assert settings.draft_model == ()
        names = ("name", "backend", "device", "dtype", "architecture", "parameters", "context")
        values = (settings.model, "transformers", settings.device, "float32", "GPTNeoForCausalLM", 125_000_000, 2048)
        costs = {"pass_seconds": [(1, 0.01), (2, 0.018), (4, 0.025)], "timed": 1.7e9}
        return SimpleNamespace(info={**dict(zip(names, values, strict=True)), **costs, "capabilities": ABLE})

    def work(self, task: str, part: Any = None, **options: Any) -> Any:
        part({"passes": 12})
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


ABLE: dict[str, Any] = {"tree": False, "chain": True, "layers": True, "states": True, "exact": True, "guard": False, "most": 3}
ABLE |= {"reasons": {"tree": "A branching tree did not give this model the same logits as its paths."}}
PROVEN = {"label": "identical", "equal": [2], "measured": 480, "turned": 3, "broken": True}


@pytest.fixture
def lab(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> type[FakeLab]:
    monkeypatch.setenv("SPECCHAT_CONFIG", str(tmp_path))
    (tmp_path / "settings.toml").write_text("draft_model = 'small'")
    FakeLab.answer = PROVEN
    monkeypatch.setattr(doctor, "Lab", FakeLab)
    return FakeLab


def test_a_page_about_a_model(lab: type[FakeLab]) -> None:
    told = CliRunner().invoke(app, ["doctor", "neo", "--device", "cpu"])
    assert (told.exit_code, told.stderr) == (1, "")
    assert "runtime            transformers, cpu, float32" in told.stdout
    assert "token trees        no: A branching tree did not give this model the same logits as its paths." in told.stdout
    assert "label              identical, in chains of at most 3 nodes" in told.stdout
    assert "equal bits         chains of 2 nodes" in told.stdout
    assert "choices turned     3 of 480 tokens" in told.stdout
    assert "cost of a pass     in plain passes: 2 nodes 1.8, 4 nodes 2.5 (measured 2023-11-1" in told.stdout
    assert "Load it with --exact off." in told.stdout
    told = CliRunner().invoke(app, ["doctor", "neo", "--json"])
    assert json.loads(told.stdout)["model"] == "neo"
    assert json.loads(told.stdout)["turned"] == 3


def test_ctrl_c_ends_it_and_what_needs_a_model_says_so(lab: type[FakeLab]) -> None:
    lab.answer = Interrupted()
    told = CliRunner().invoke(app, ["doctor", "neo"])
    assert (told.exit_code, told.stdout) == (130, "")
    assert "Stopped." in told.stderr
    with pytest.raises(UserError, match="--device is for a model"):
        CliRunner().invoke(app, ["doctor", "--device", "cpu"], catch_exceptions=False)
    with pytest.raises(UserError, match="doctor cannot look into a server"):
        CliRunner().invoke(app, ["doctor", "http://localhost:1"], catch_exceptions=False)


def test_the_real_thing() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "specchat", "doctor", "--json"], capture_output=True, text=True, timeout=90, check=False
    )
    data = json.loads(done.stdout)
    assert done.returncode == (1 if any(problem["serious"] for problem in data["problems"]) else 0)
    assert {"cuda", "mps", "threads"} <= set(data["devices"])
    if data["versions"]["llama-cpp-python"]:
        assert "CPU" in data["llama_cpp"]["backends"]
        assert data["llama_cpp"]["devices"][0]["total"] > 0
