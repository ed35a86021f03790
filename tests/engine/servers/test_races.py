"""Servers in races: two of them, a server and a model of this machine, both halves of a pair."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from specchat.app.chat.dialogue import Dialogue
from specchat.app.chat.methods import known_methods
from specchat.app.export.formats import export_race
from specchat.app.export.race import remarks
from specchat.app.race.entry import RaceEntry
from specchat.app.race.kept import entries_of, sentence
from specchat.app.race.replay import Replay
from specchat.app.saved.race_json import pack, read_race, unpack
from specchat.app.theming.themes import load_themes
from specchat.app.tui.race.state import mark_words
from specchat.engine.client import EngineClient

from ...fakes.engine_races import finished, until
from ...fakes.model_servers import Written, llama_server, of_words, serving, tokens_of, vllm
from ...fakes.races import started

PASSES = ("The", " lighthouse stood on", " the northern rock .", " Every", " evening Ana climbed it .")
PLAIN = of_words(*(f" {word}" if i else word for i, word in enumerate("".join(PASSES).split())))
WRITTEN = of_words(*PASSES)
OTHER = of_words("The", " lighthouse stood on", " the southern rock .")


def with_ids(written: Written) -> list[bytes]:
    return vllm(written, ids=tokens_of(written.text))


@contextmanager
def chatting(client: EngineClient, model: str, servers: dict[str, Any]) -> Iterator[Dialogue]:
    load = {"servers": servers}
    made = Dialogue(client, "", known_methods(), "greedy", load=load)
    made.load_model(model)
    until(made, lambda: made.phase == "ready")
    yield made


@pytest.mark.parametrize("streams", [(with_ids, "vLLM"), (llama_server, "llama-server")])
def test_the_halves_of_a_pair_race(client: EngineClient, tmp_path: Path, streams: tuple[Callable[..., Any], str]) -> None:
    stream, engine = streams
    with serving(engine, stream(PLAIN), speculates=False) as plain, serving(engine, stream(WRITTEN)) as other:
        servers = {"pair": {"plain": plain.url, "with": other.url}}
        with chatting(client, "pair", servers) as dialogue:
            names = dialogue.shortlist()
            race = started(dialogue, [RaceEntry(name) for name in names], "Tell me.")
            record = finished(race)
            assert [lane.method for lane in record.lanes] == names
            assert [lane.mark for lane in record.lanes] == ["reference", "identical"]
            assert record.unit == "tokens"
            assert [lane.answer.figures.steps for lane in record.lanes] == [len(PLAIN.lengths), len(WRITTEN.lengths)]
            assert [lane.answer.figures.certainty for lane in record.lanes] == ["exact", "exact"]
            if engine == "llama-server":  # by the server's own clock
                assert record.lanes[1].seconds == pytest.approx(0.0315 + 0.001 * (len(PASSES) - 1) * 1.25 + 0.000001)
            # Kept, exported and played back as any other.
            saved = read_race(export_race(record, tmp_path / "race.json", load_themes()[0]["dark"]))
            assert [lane.answer.text for lane in saved.lanes] == [PLAIN.text, WRITTEN.text]
            assert [lane.answer.figures.certainty for lane in saved.lanes] == ["exact", "exact"]
            _, _, entries = unpack(pack(record, race.messages, [racer.entry for racer in race.racers]))
            assert entries == [RaceEntry(name) for name in names] == entries_of(record)
            assert Replay(race.racers).end > 0
            assert remarks(record)[0].startswith("A server's clock is its own")
            # Another text is found, wherever it is.
            other.stream = stream(OTHER)
            race.start()
            record = finished(race)
            assert record.lanes[1].mark == "lossy"
            # Where ids are told it is the token, else the run.
            assert record.lanes[1].position == (5 if engine == "vLLM" else 4)
            assert mark_words(race, race.racers[1])[1].startswith("differs from token")
            assert names[1] in sentence(record)
            race.close()
