"""Races of several models on the engine: the built-in one, its draft model, and both runtimes."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from specchat.app.chat.dialogue import Dialogue
from specchat.app.chat.methods import known_methods
from specchat.app.export.formats import export
from specchat.app.export.html import Look
from specchat.app.export.race_html import remarks
from specchat.app.race.entry import RaceEntry
from specchat.app.theming.themes import load_themes
from specchat.app.tui.race.state import mark_words
from specchat.backends.loading import builtin_gguf, builtin_path
from specchat.engine.client import EngineClient
from specchat.engine.options import ModelSelection

from ..fakes.model_servers import Written, llama_server, of_words, serving, tokens_of, vllm
from ..fakes.models.llama_tiny import needs_llama
from ..fakes.races import builtin_chat, finished, started, until

pytestmark = pytest.mark.skipif(not (builtin_path() / "config.json").is_file(), reason="the built-in weights are absent")


@pytest.fixture(scope="module")
def dialogue(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Dialogue]:
    """A chat with the built-in model loaded."""
    with builtin_chat(tmp_path_factory.mktemp("logs")) as made:
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
    assert race.models.info("builtin on llama.cpp").backend == "llama.cpp"
    assert dialogue.info.backend == "transformers"
    assert [lane.mark for lane in record.lanes][1::2] == ["another model"] * 2
    assert record.lanes[2].mark in ("identical", "near tie")
    assert race.model_names == ["builtin · transformers", "builtin · llama.cpp", "builtin · llama.cpp", "target-Q4_0.gguf"]
    assert record.unit == "tokens"
    assert all(race.speedup(racer) > 0 for racer in race.racers)
    race.close()


PASSES = ("The", " lighthouse stood on", " the northern rock .", " Every", " evening Ana climbed it .")
PLAIN = of_words(*(f" {word}" if i else word for i, word in enumerate("".join(PASSES).split())))
WRITTEN = of_words(*PASSES)
OTHER = of_words("The", " lighthouse stood on", " the southern rock .")


def with_ids(written: Written) -> list[bytes]:
    return vllm(written, ids=tokens_of(written.text))


@contextmanager
def chatting(client: EngineClient, model: str) -> Iterator[Dialogue]:
    dialogue = Dialogue(client, ModelSelection(""), known_methods(), "greedy")
    dialogue.load_model(model)
    until(dialogue, lambda: dialogue.phase == "ready")
    yield dialogue


@pytest.mark.parametrize(("engine", "stream"), [("vLLM", with_ids), ("llama-server", llama_server)])
def test_two_servers_race(client: EngineClient, tmp_path: Path, engine: str, stream: Callable[..., Any]) -> None:
    with (
        serving(engine, stream(PLAIN), speculates=False) as plain,
        serving(engine, stream(WRITTEN)) as other,
        chatting(client, plain.url) as dialogue,
    ):
        race = started(dialogue, [RaceEntry("plain"), RaceEntry("greedy", model=other.url)], "Tell me.")
        record = finished(race)
        names = ["plain", "speculation K=10" if engine == "vLLM" else "ngram-simple"]
        assert [lane.method for lane in record.lanes] == names
        assert [lane.mark for lane in record.lanes] == ["reference", "another model"]
        assert record.unit == "characters"
        assert [lane.answer.figures.steps for lane in record.lanes] == [len(PLAIN.lengths), len(WRITTEN.lengths)]
        assert [lane.answer.figures.certainty for lane in record.lanes] == ["exact", "exact"]
        if engine == "llama-server":  # by the server's own clock, without the prompt
            assert record.lanes[1].clock.seconds == pytest.approx(0.001 * (len(PASSES) - 1) * 1.25 + 0.000001)
        # Exported as any other.
        file = json.loads(export(record, tmp_path / "race.json", Look(load_themes()[0]["dark"])).read_text())
        assert ["".join(run["text"] for run in lane["runs"]) for lane in file["lanes"]] == [PLAIN.text, WRITTEN.text]
        assert remarks(record)[1].startswith("A server's clock is its own")
        race.close()


@pytest.mark.parametrize(("engine", "stream", "position"), [("vLLM", with_ids, 5), ("llama-server", llama_server, 4)])
def test_two_answers_of_one_server_are_compared(
    client: EngineClient, engine: str, stream: Callable[..., Any], position: int
) -> None:
    """Tokens are compared where the ids are known, else runs."""
    answers = iter([stream(PLAIN), stream(WRITTEN), stream(WRITTEN), stream(OTHER)])
    with serving(engine, lambda _: next(answers)) as server, chatting(client, server.url) as dialogue:
        race = started(dialogue, [RaceEntry(dialogue.method)] * 2, "Tell me.")
        assert [lane.mark for lane in finished(race).lanes] == ["reference", "identical"]
        race.start()
        record = finished(race)
        parted = next(lane for lane in record.lanes if lane.position is not None)
        assert parted.mark == "lossy"
        assert parted.position == position
        assert mark_words(race, race.racers[1])[1].startswith("differs from token")
        race.close()
