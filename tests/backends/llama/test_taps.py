"""Hidden states out of llama.cpp: each row is that of its own token, and transformers' on the same weights."""

from __future__ import annotations

import json
import subprocess
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pytest
import torch

from specchat.backends import ROOT, UserError
from specchat.backends.llama import trial
from specchat.backends.llama.library import version
from specchat.backends.llama.model import load_llama
from specchat.backends.sessions.states import States

from ...cases import FULL
from ...fakes.models.llama_tiny import FLOAT32, gguf_of, needs_llama, reference, tiny_folder
from ...fakes.models.mirror import Mirror, loose
from ...fakes.models.references import hidden, logits_of
from ...zoo import gguf_files as zoo

pytestmark = needs_llama

LAST = (3, 1)
"""With the state after the final norm."""


@pytest.mark.parametrize("taps", [(2, 1, 2), LAST])
def test_outputs_of_layers_are_read_where_llama_cpp_does_not_note_their_inputs(
    taps: tuple[int, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPECCHAT_CACHE", str(tmp_path))
    trials = {"inputs llama": [version(), False], "last llama": [version(), True]}
    (tmp_path / trial.FILE).write_text(json.dumps(trials))
    model = load_llama(gguf_of(tiny_folder()), "tiny", FLOAT32)
    whole = reference()
    for seed in range(3):
        states = partial(hidden, whole, taps=taps)
        mirror = Mirror(model.open_session(256, taps), partial(logits_of, whole), same=loose, states=states)
        mirror.wander(Random(seed), range(8, 208), 8)
    with pytest.raises(UserError, match="does not hand out the hidden states of llama models"):
        model.open_session(64, (0, 1))  # what the first layer gets is no layer's output
    model.close()


TOLD = (
    *("qwen35", "qwen35moe", "qwen3next", "lfm2", "lfm2moe", "nemotron_h", "nemotron_h_moe", "bailingmoe3", "minimax-01"),
    *("llama", "qwen3", "qwen3moe", "gemma4", "gpt-oss", "minimax-m2", "mimo2", "hunyuan_vl"),
)
UNTOLD = (
    *("jamba", "qwen4exp", "kimi-k3", "kimi-linear", "glm5-next", "falcon-h1", "granitehybrid", "mamba2", "plamo2", "qwen2"),
    "deepseek4",
)


WIDE = ("deepseek4", "qwen4exp")
"""Whose last states are wider than llama.cpp takes them for."""

UNNAMED = ("glm5-next", "plamo2")
"""Whose layers' outputs have names of their own."""


@pytest.mark.parametrize("architecture", (*TOLD, *UNTOLD) if FULL else ("lfm2", "jamba"))
def test_which_architectures_hand_out_their_states_is_found_by_trying(
    architecture: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPECCHAT_CACHE", str(tmp_path))
    model = load_llama(zoo.write(architecture, tmp_path / "model.gguf"), architecture, FLOAT32)
    taps, text = (int(architecture in UNTOLD), model.info.layers - 1, model.info.layers), list(range(9, 21))
    if architecture in (*WIDE, *UNNAMED):
        if architecture in UNNAMED:
            model.open_session(64, taps[-1:]).prefill(text)
        for wanted in (taps, taps[-1:]):
            with pytest.raises(UserError, match=f"does not hand out the hidden states of {architecture} models"):
                model.open_session(64, wanted)
    else:
        session, single = model.open_session(64, taps), model.open_session(64, taps)
        session.prefill(text[:4])
        session.evaluate([*text[4:8], 70, 71], range(ROOT, 5))
        session.commit(range(4))
        session.evaluate([*text[8:], 72], range(ROOT, 4))
        session.commit(range(4))
        for token in text:
            single.evaluate([token], (ROOT,))
            single.commit((0,))
        torch.testing.assert_close(session.states(0, 12), single.states(0, 12), atol=2e-3, rtol=1e-3)
    # Kept: nobody tries a second time.
    monkeypatch.setattr(subprocess, "run", None)
    assert trial.works("inputs", architecture, tmp_path) == (architecture in TOLD)
    model.close()


def test_a_trial_that_something_else_ended_is_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPECCHAT_CACHE", str(tmp_path))
    for code, kept in ((-9, False), (1, False), (0, True)):
        monkeypatch.setattr(subprocess, "run", lambda command, code=code, **_: subprocess.CompletedProcess(command, code))
        assert trial.works("mtp", "lfm2", tmp_path) == (code == 0)
        assert (tmp_path / trial.FILE).exists() == kept
    (tmp_path / trial.FILE).write_text("[]")
    assert not trial.failed("mtp", "lfm2")


def test_states_that_are_not_what_they_seem_are_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def crooked(self: Any, tap: int, start: int, rows: torch.Tensor) -> None:
        write(self, tap, start, rows.flip(0))

    write = States.write
    monkeypatch.setattr(States, "write", crooked)
    model = load_llama(gguf_of(tiny_folder()), "tiny", FLOAT32)
    with pytest.raises(UserError, match="were not this model's own"):
        model.open_session(64, (0,))
    assert not model.info.capabilities.states
    assert "were not this model's own" in model.info.capabilities.reasons["states"]
    model.open_session(64).prefill([5, 6, 7])
    model.close()
