"""The method that was tuned for a model, in the settings."""

from __future__ import annotations

from pathlib import Path

import pytest

from specchat.app.settings import Settings, changed, read_settings, save, with_tuned
from specchat.backends.base import UserError


def test_a_tuned_method_is_written_read_and_used_for_its_model_alone(tmp_path: Path) -> None:
    path = tmp_path / "settings.toml"
    path.write_text('method = "ngram" # mine\n')
    save({"tuned.Qwen/Qwen3-0.6B": "lookup:nodes=32:floor=0.1", "tuned.builtin": "greedy"}, path)
    settings = read_settings(path)
    assert settings.tuned == {"Qwen/Qwen3-0.6B": "lookup:nodes=32:floor=0.1", "builtin": "greedy"}
    assert "# mine" in path.read_text()
    mine = with_tuned(changed(settings, {"model": "Qwen/Qwen3-0.6B"}), ())
    assert mine.method == "lookup"
    assert mine.methods["lookup"] == {"nodes": "32", "floor": "0.1"}
    assert with_tuned(changed(settings, {"model": "other"}), ()).method == "ngram"
    # What is given on the command line goes first.
    given = {"model": "Qwen/Qwen3-0.6B", "method": "fusion"}
    assert with_tuned(changed(settings, given), given).method == "fusion"


@pytest.mark.parametrize("value", ["lokup", "lookup:nods=3", "lookup:nodes=x", 3])
def test_what_is_no_method_is_refused(value: object) -> None:
    with pytest.raises(UserError, match=r"tuned\.x"):
        changed(Settings(), {"tuned.x": value})
