"""Which runtime the built-in model takes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from specchat.backends import LoadOptions, UserError, load_model, loading
from specchat.backends.loading import builtin_path

from ...fakes.models.llama_tiny import gguf_of, needs_llama, tiny_folder

pytestmark = needs_llama


@pytest.fixture(autouse=True)
def shipped(monkeypatch: pytest.MonkeyPatch) -> None:
    """The built-in model as a GGUF file beside the folder, and a stand-in for the other runtime."""
    monkeypatch.setattr(loading, "builtin_gguf", lambda name="builtin": gguf_of(builtin_path(), "Q8_0"))
    monkeypatch.setattr("specchat.backends.hf.model.load_transformers", lambda *args, **options: "transformers")


def backend(spec: str, **options: Any) -> str:
    model: Any = load_model(spec, LoadOptions(**options))
    if isinstance(model, str):
        return model
    found: str = model.info.backend
    model.close()
    return found


@pytest.mark.parametrize("options", [{}, {"device": "cpu"}, {"dtype": "float32"}, {"backend": "transformers"}])
def test_it_runs_on_llama_cpp_only_where_that_is_asked_for(options: dict[str, str]) -> None:
    assert backend("builtin", **options) == "transformers"
    assert backend("builtin", backend="llama.cpp") == "llama.cpp"


def test_without_the_file_it_is_transformers(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(loading, "builtin_gguf", lambda name="builtin": tmp_path / "none.gguf")
    assert backend("builtin") == "transformers"
    with pytest.raises(UserError, match=r"none.gguf is missing.*python -m specchat.builtin.recipe.gguf_export"):
        backend("builtin", backend="llama.cpp")


def test_other_models_come_for_one_runtime() -> None:
    with pytest.raises(UserError, match=r"GGUF files run on llama.cpp only. Leave out --backend"):
        backend(str(gguf_of(tiny_folder())), backend="transformers")
    with pytest.raises(UserError, match=r"does not run on llama.cpp: llama.cpp runs only GGUF files"):
        backend(str(tiny_folder()), backend="llama.cpp")
    with pytest.raises(UserError, match="no backend 'vllm'"):
        backend(str(tiny_folder()), backend="vllm")
