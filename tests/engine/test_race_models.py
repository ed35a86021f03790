"""Races of several models on the engine: the built-in one, its draft model, and both runtimes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from specchat.app.chat.dialogue import Dialogue
from specchat.app.race.entry import RaceEntry
from specchat.backends.loading import builtin_gguf, builtin_path

from ..fakes.engine_races import finished, opened
from ..fakes.models.llama_tiny import needs_llama
from ..fakes.races import started

pytestmark = pytest.mark.skipif(not (builtin_path() / "config.json").is_file(), reason="the built-in weights are absent")


@pytest.fixture(scope="module")
def dialogue(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Dialogue]:
    """A chat with the built-in model loaded."""
    with opened(tmp_path_factory.mktemp("logs")) as made:
        yield made


@needs_llama
@pytest.mark.skipif(not builtin_gguf().is_file(), reason="the built-in GGUF file is absent")
def test_the_built_in_model_races_against_itself_on_another_runtime(dialogue: Dialogue) -> None:
    quantized = builtin_gguf().with_name("target-Q4_0.gguf")
    entries = [
        RaceEntry("greedy"),
        RaceEntry("greedy", model="builtin", backend="llama.cpp"),
        RaceEntry("lookup", model="builtin", backend="llama.cpp"),
        RaceEntry("greedy", model=str(quantized)),
    ]
    race = started(dialogue, entries, "What is a token tree?")
    record = finished(race)
    assert [racer.error for racer in race.racers] == [""] * 4
    assert race.models.info("builtin on llama.cpp")["backend"] == "llama.cpp"
    assert dialogue.info["backend"] == "transformers"
    assert [lane.mark for lane in record.lanes][1::2] == ["another model"] * 2
    assert record.lanes[2].mark in ("identical", "near tie")
    assert race.model_names == ["builtin · transformers", "builtin · llama.cpp", "builtin · llama.cpp", "target-Q4_0.gguf"]
    assert record.unit == "tokens"
    assert all(race.speedup(racer) > 0 for racer in race.racers)
    race.close()
