"""Races of several models on the engine: the built-in one, its draft model, and both runtimes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from specchat.app.chat.dialogue import Dialogue
from specchat.app.export.formats import export_race
from specchat.app.race.entry import RaceEntry
from specchat.app.saved.race_json import read_race
from specchat.app.theming.themes import load_themes
from specchat.backends.loading import builtin_gguf, builtin_path

from ..fakes.engine_races import FOX, begin, finished, opened
from ..fakes.models.llama_tiny import needs_llama

pytestmark = pytest.mark.skipif(not (builtin_path() / "config.json").is_file(), reason="the built-in weights are absent")


@pytest.fixture(scope="module")
def dialogue(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Dialogue]:
    """A chat with the built-in model loaded."""
    with opened(tmp_path_factory.mktemp("logs")) as made:
        yield made


def test_panes_of_a_draft_model_race_beside_its_target(dialogue: Dialogue, tmp_path: Path) -> None:
    entries = [
        RaceEntry("greedy"),
        RaceEntry("greedy", model="builtin-draft"),
        RaceEntry("lookup", model="builtin-draft"),
        RaceEntry("lookup"),
    ]
    race = begin(dialogue, FOX, entries)
    record = finished(race)
    assert [racer.error for racer in race.racers] == [""] * 4
    assert [lane.mark for lane in record.lanes][:2] == ["reference", "another model"]
    assert {lane.mark for lane in record.lanes[2:]} <= {"identical", "near tie"}
    small, large = race.models.info("builtin-draft"), dialogue.info
    assert small["parameters"] < large["parameters"]
    assert record.unit == "tokens"  # the two have one vocabulary
    # The second lane is the draft model's own text, the fourth the target's.
    tokens = [lane.answer.log.tokens.tolist() for lane in record.lanes]
    assert tokens[1] != tokens[0]
    saved = read_race(export_race(record, tmp_path / "race.json", load_themes()[0]["dark"]))
    assert [lane.answer.log.tokens.tolist() for lane in saved.lanes] == tokens
    assert [lane.name for lane in saved.lanes][1] == "greedy on builtin-draft"
    race.close()
    assert not dialogue.transcript.entries
    assert dialogue.phase == "ready"


@needs_llama
@pytest.mark.skipif(not builtin_gguf().is_file(), reason="the built-in GGUF file is absent")
def test_the_built_in_model_races_against_itself_on_another_runtime(dialogue: Dialogue) -> None:
    quantized = builtin_gguf().with_name("target-Q4_0.gguf")
    race = begin(
        dialogue,
        "What is a token tree?",
        [
            RaceEntry("greedy"),
            RaceEntry("greedy", model="builtin", backend="llama.cpp"),
            RaceEntry("lookup", model="builtin", backend="llama.cpp"),
            RaceEntry("greedy", model=str(quantized)),
        ],
    )
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
