"""How a GGUF file is set up at load: its context, its attention, and what is kept for the next time."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from specchat.backends import LoadOptions, load_model
from specchat.backends.files.gguf_file import read_header
from specchat.backends.llama.attention_cost import SEED, SEQUENCES, SIZE, attention_cost, attention_seconds
from specchat.backends.llama.context import Context, Runtime, Weights
from specchat.backends.llama.options import CACHE_TYPES, FLASH, LEAST_CONTEXT, USUAL_CONTEXT, even_runtime, usual_context
from specchat.backends.loading import builtin_gguf
from specchat.plain_file import cache_folder

OPTIONS = LoadOptions(device="cpu", threads=1)


def test_a_context_that_nobody_asked_for_is_useful_and_fits() -> None:
    header = read_header(builtin_gguf())
    assert usual_context(header, Runtime(), 131_072) == USUAL_CONTEXT
    assert usual_context(header, Runtime(), 1_024) == 1_024
    prefix = header.architecture
    wide = {f"{prefix}.attention.key_length": 1 << 24, f"{prefix}.attention.value_length": 1 << 24}
    assert usual_context(replace(header, metadata={**header.metadata, **wide}), Runtime(), 131_072) == LEAST_CONTEXT


@pytest.mark.parametrize(
    "asked", [{"flash_attention": "off"}, {"kv_type": "q8_0"}, {"dtype": "float32"}, {"dtype": "bfloat16"}], ids=str
)
def test_what_was_asked_for_is_not_changed_for_the_sake_of_bits(asked: dict[str, Any]) -> None:
    assert even_runtime(Runtime(), replace(OPTIONS, **asked)) is None
    found = even_runtime(Runtime(), OPTIONS)
    assert found is not None
    assert (found.flash_attention, found.type_k, found.type_v) == (FLASH["on"], CACHE_TYPES["bf16"], CACHE_TYPES["f16"])


def test_attention_is_timed_behind_copies_of_a_text() -> None:
    """As many cells as the longest text has, in every setting, with a window and without."""
    weights = Weights(builtin_gguf(), Runtime(), lambda _: True)
    for runtime in (Runtime(flash_attention=FLASH["on"], type_k=30), Runtime(flash_attention=FLASH["off"])):
        for window in (0, 512):
            run = Context(weights, runtime, SIZE, SEQUENCES, rows=8)
            taken = attention_seconds(run, list(range(SEED + 8)), window, lambda: None)
            assert len(taken) == 4
            assert min(taken) > 0
    assert attention_cost([2.0, 3.0], [1.0, 3.0]) == 1.5
    assert attention_cost([], [1.0]) == 1.0


def test_a_second_load_reads_what_the_first_one_proved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It makes no pass; another setting, another file, or a damaged record prove again."""
    monkeypatch.setenv("SPECCHAT_CACHE", str(tmp_path / "cache"))
    file = tmp_path / "model.gguf"
    shutil.copy(builtin_gguf(), file)

    def passes(**options: Any) -> int:
        reports: list[int] = []
        model = load_model(
            str(file), replace(OPTIONS, **options), progress=lambda stage, done, _: reports.append(stage == "check")
        )
        model.close()
        return sum(reports)

    first = passes()
    assert first > 20
    assert passes() == 1  # the last one, which says that the check is done
    assert passes(exact="on") > 20
    kept = sorted((cache_folder() / "loads").iterdir())
    assert len(kept) == 2
    assert {"capabilities", "seconds", "runtime", "measured"} == set(json.loads(kept[0].read_text()))
    for record in kept:
        record.write_text('{"capabilities": {"tree": 3, "colour": "red"}, "measured": 1e12}')
    assert passes() > 20
    shutil.copy(builtin_gguf(), file)
    assert passes() > 20
