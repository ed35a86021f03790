"""GGUF files on the Hub by their quantization, on a Hub of this machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from specchat.backends import LoadOptions, UserError, load_model
from specchat.backends.files.gguf_hub import locate_gguf

from ...fakes.models.hub_server import COMMIT, Hub
from ...fakes.models.llama_tiny import gguf_of, needs_llama, tiny_folder
from ..files.test_hub import hub as hub

pytestmark = needs_llama


@pytest.fixture
def files(hub: Hub) -> Hub:
    model = gguf_of(tiny_folder(), "Q8_0").read_bytes()
    names = (
        "tiny-Q8_0.gguf",
        "tiny-UD-Q8_0.gguf",
        "mmproj-tiny-Q8_0.gguf",
        "tiny.Q4_K_M.gguf",
        "tiny.Q4_K_S.gguf",
        "tiny-IQ4_K.gguf",
        "BF16/tiny-BF16-00001-of-00002.gguf",
        "BF16/tiny-BF16-00002-of-00002.gguf",
        "README.md",
    )
    hub.repositories["me/tiny"] = {name: model if "Q8_0" in name else name.encode() for name in names}
    hub.info["me/tiny"] = {"siblings": [{"rfilename": name} for name in names]}
    return hub


def fetched(spec: str) -> tuple[str, set[str]]:
    """The file that a name leads to, and all that was fetched for it."""
    file = locate_gguf(f"me/tiny:{spec}", LoadOptions())
    folder = next(parent for parent in file.parents if parent.name == COMMIT)
    return file.relative_to(folder).as_posix(), {f.relative_to(folder).as_posix() for f in folder.rglob("*") if f.is_file()}


def test_one_file_of_that_quantization_is_fetched(files: Hub) -> None:
    assert fetched("Q4_K_M") == ("tiny.Q4_K_M.gguf", {"tiny.Q4_K_M.gguf"})


def test_upper_and_lower_case(files: Hub) -> None:
    assert fetched("q4_k_s")[0] == "tiny.Q4_K_S.gguf"


def test_all_parts(files: Hub) -> None:
    parts = {f"BF16/tiny-BF16-0000{i}-of-00002.gguf" for i in (1, 2)}
    assert fetched("BF16") == ("BF16/tiny-BF16-00001-of-00002.gguf", parts)


def test_the_plain_variant_loads(files: Hub) -> None:
    assert fetched("Q8_0")[0] == "tiny-Q8_0.gguf"
    model = load_model("me/tiny:Q8_0", LoadOptions(device="cpu", threads=1))
    assert model.info.name == "me/tiny:Q8_0"
    assert Path(model.info.path).name == "tiny-Q8_0.gguf"
    model.close()


def test_what_is_not_there(files: Hub) -> None:
    with pytest.raises(UserError) as caught:
        locate_gguf("me/tiny:Q4_K", LoadOptions())
    assert str(caught.value) == "me/tiny has no Q4_K quantization: choose from BF16, IQ4_K, Q4_K_M, Q4_K_S, Q8_0."
