"""The built-in models as GGUF files: the same ids for any text, nearly the same choices."""

import importlib.util
from pathlib import Path

import pytest

from specchat.backends import LoadOptions, load_model
from specchat.builtin import path
from specchat.builtin.recipe.agreement import agreement
from specchat.builtin.recipe.evaluate import jobs
from specchat.builtin.recipe.gguf_export import export
from specchat.builtin.recipe.tokenizer import load

from ..cases import FULL

_missing = [name for name in ("llama_cpp", "gguf") if importlib.util.find_spec(name) is None]
pytestmark = pytest.mark.skipif(bool(_missing), reason=f"not installed. Run: {', '.join(_missing)}")
"""SPECCHAT_FULL=1 compares all 10,000 texts."""

EXACT = LoadOptions(device="cpu", dtype="float32", threads=1)


@pytest.fixture(scope="module")
def quantized(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The target in Q8_0, written by the recipe from the weights that ship."""
    file = tmp_path_factory.mktemp("gguf") / "target-Q8_0.gguf"
    export(path(), file, "Q8_0", "specchat target")
    return file


def test_q8_0_chooses_what_float32_chooses() -> None:
    """98% of the tokens of the evaluation's answers (`python -m specchat.builtin.recipe.agreement` takes all of them)."""
    shipped = path().parent / "target-Q8_0.gguf"
    folder = path()
    asked = jobs(load(folder), 500 if FULL else 20)
    same, count = agreement(load_model(str(folder), EXACT), load_model(str(shipped), EXACT), asked)
    assert count > 300
    assert same / count >= 0.98


def test_the_files_that_ship_are_the_recipes(quantized: Path) -> None:
    assert (path().parent / "target-Q8_0.gguf").read_bytes() == quantized.read_bytes()
    assert {file.name for file in path().parent.glob("*.gguf")} == {
        "eagle-Q8_0.gguf",
        *(f"{name}-{kind}.gguf" for name in ("target", "draft") for kind in ("Q8_0", "Q4_0")),
    }


def test_all_of_builtin_is_small() -> None:
    work = path().parent.parent / "work"
    files = [file for file in path().parent.parent.rglob("*") if file.is_file() and work not in file.parents]
    assert sum(file.stat().st_size for file in files) <= 45_000_000
    assert sum(file.stat().st_size for file in path().iterdir()) <= 20_000_000
