"""A chat without an engine: the tests play the engine's part."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from specchat.app.chat.dialogue import Dialogue
from specchat.app.chat.entries import Answer
from specchat.app.chat.methods import Method, get_method
from specchat.app.chat.transcript import Transcript
from specchat.app.history.chats import Chats
from specchat.app.history.recorder import Recorder
from specchat.app.history.store import Store
from specchat.backends.info import ModelInfo
from specchat.engine.messages import Command, Event, Finished, Generate, Load, Loaded, PieceTable, Started, StepRecord, Steps
from specchat.engine.options import ModelSelection

from ..cases import FULL
from ..fakes.pilots import idle

INFO = ModelInfo("builtin", "transformers", "cpu", "float32", parameters=6_750_000, context=4096)

TEXTS = {
    "greedy": ("One token per forward pass.", "Always works; the reference for the others."),
    "recompute": ("Plain decoding without a KV cache.", "Never; it shows what the cache saves."),
    "lookup": ("Drafts what followed the last few tokens earlier in the text.", "Wherever the answer repeats the prompt."),
}
"""Summary and advice of each method of the tests."""

METHODS = {name: replace(get_method(name), summary=summary, pays=pays) for name, (summary, pays) in TEXTS.items()}
METHODS["lookup"] = replace(
    METHODS["lookup"],
    paper="Saxena 2023",
    params=({"name": "max_ngram", "default": 3, "doc": "Longest n-gram looked for."},),
)
METHODS["soft"] = Method(
    "soft", "text", "lossy", "Accepts drafts that are nearly as probable as the model's choice.", "For speed alone."
)

TEXT = (
    "Prompt lookup looks for the last few tokens earlier in the text and drafts what followed them there. The model then "
    "checks all drafted tokens in one forward pass.\n\nSo the answer never changes:\n\n    def verify(draft, choice):\n"
    "        return [a for a, b in zip(draft, choice) if a == b]\n"
)


def steps(text: str = TEXT, *, method: str = "lookup", drafts: bool = True, seed: int = 1) -> list[StepRecord]:
    """Cut `text` into steps of one to six tokens (one where `drafts` is False); the same for the same seed."""
    pick = random.Random(seed)
    words = re.findall(r"\s*\S{1,5}|\s+", text)
    drafted = 6 if drafts else 0
    times: dict[str, Any] = {"draft_seconds": 0.0001, "forward_seconds": 0.03, "other_seconds": 0.0009}
    records = []
    while words:
        count = pick.choice((1, 1, 2, 3, 6)) if drafts else 1
        chunk, words = words[:count], words[count:]
        ids = list(range(len(chunk)))
        records.append(StepRecord(method, ids, "".join(chunk), drafted, len(ids) - 1, 1 + drafted, **times))
    return records


VOCABULARY = [
    " the", " lamp", " and", " wrote", " old", " a", " poem", " about", " of", " light", " on", "\n", ".", " Every",
    " evening", " Ana", " climbed", " stairs", " lit", " weather", " into", " book",
]  # fmt: skip
"""Token texts by id, for `trees`."""


def fusion_step(result: tuple[list[int], str, int, int], seconds: tuple[float, float, float], **tree: Any) -> StepRecord:
    """Make a step of `fusion` of its tokens, text, drafted and accepted counts, and draft, forward and other seconds."""
    tokens, text, drafted, accepted = result
    times: dict[str, Any] = dict(zip(("draft_seconds", "forward_seconds", "other_seconds"), seconds, strict=True))
    return StepRecord("fusion", tokens, text, drafted, accepted, 1 + drafted, **times, **tree)


def trees() -> list[StepRecord]:
    """Make four steps: a plain one, a branching tree, a chain that is accepted whole, and a tree that is rejected whole."""
    return [
        fusion_step(([13], " Every", 0, 0), (0.0001, 0.0071, 0.0002), probs=[0.62]),
        fusion_step(
            ([14, 15, 16, 0], " evening Ana climbed the", 7, 3),
            (0.0004, 0.0093, 0.0003),
            tree_tokens=[13, 14, 4, 15, 16, 9, 10, 8],
            tree_parents=[-1, 0, 0, 1, 3, 3, 5, 4],
            path=[0, 1, 3, 4],
            probs=[0.91, 0.03, 0.88, 0.54, 0.21, 0.4, 0.02, 0.97],
            note="From 15 guesses that had been worth it.",
        ),
        fusion_step(
            ([17, 12, 13, 14, 15, 18], " stairs. Every evening Ana lit", 5, 5),
            (0.0002, 0.0085, 0.0003),
            tree_tokens=[0, 17, 12, 13, 14, 15],
            tree_parents=[-1, 0, 1, 2, 3, 4],
            path=[0, 1, 2, 3, 4, 5],
            probs=[0.99, 1.0, 0.45, 0.93, 0.999, 0.31],
        ),
        fusion_step(
            ([0], " the", 3, 0),
            (0.0003, 0.0082, 0.0003),
            tree_tokens=[18, 5, 7, 2],
            tree_parents=[-1, 0, 0, 2],
            path=[0],
            probs=[0.2, 0.004, 0.6, 0.71],
        ),
    ]


@dataclass
class FakeEngine:
    """The client's calls, recorded; `events` is what the next `drain` gives."""

    sent: list[Command] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    ids: int = 0

    def next_id(self) -> int:
        self.ids += 1
        return self.ids

    def send(self, command: Command) -> None:
        self.sent.append(command)

    def load(self, selection: ModelSelection) -> int:
        self.send(Load(self.next_id(), selection))
        return self.ids

    def drain(self) -> list[Event]:
        events, self.events = self.events, []
        return events

    # What a test lets the engine say

    def loaded(self, **unavailable: str) -> None:
        self.events.append(Loaded(1, INFO, unavailable))

    def tell_pieces(self) -> None:
        self.events.append(PieceTable(2, VOCABULARY))

    @property
    def asked(self) -> Generate:
        """The last answer asked for."""
        return next(command for command in reversed(self.sent) if isinstance(command, Generate))

    def begin(self, records: Sequence[StepRecord] = ()) -> int:
        """Start the answer asked for."""
        request = self.asked
        self.events.append(Started(request.id, "main", request.method, "identical", 31, 0))
        if records:
            self.events.append(Steps(request.id, list(records)))
        return request.id

    def finish(self, reason: str = "eos", tail: str = "") -> None:
        self.events.append(Finished(self.asked.id, reason, tail, 0.12, 1.32, plain_seconds=0.028))


@pytest.fixture(autouse=True)
def waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """The pilot waits for what is to be done, however busy the machine is."""
    monkeypatch.setattr("textual.pilot.wait_for_idle", idle)
    monkeypatch.setattr("textual.app.wait_for_idle", idle)
    # What was told stays until a test has looked, however long that takes.
    monkeypatch.setattr("textual.notifications.Notification.time_left", 3600.0)


@pytest.fixture
def snap_compare(snap_compare: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Pictures of what is there, whatever the clock says: nothing pulses or goes away, and each change is drawn at once."""
    monkeypatch.setattr("specchat.app.tui.app.IDLE_SECONDS", 3600)
    monkeypatch.setattr("specchat.app.tui.chat.widgets.FLASH_SECONDS", 3600)
    monkeypatch.setattr("specchat.app.tui.chat.widgets.FIGURES_SECONDS", 0)
    monkeypatch.setattr("specchat.app.tui.race.screen.FIGURES_SECONDS", 0)
    monkeypatch.setattr("specchat.app.tui.chat.side_panel.UPDATE_SECONDS", 0)
    return snap_compare


LOOKS = {"60x20-dark": ("dark", (60, 20)), "120x40-light": ("light", (120, 40))}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Each picture is taken small and dark or large and light, in turn; `make test-all` takes both."""
    if "look" in metafunc.fixturenames:
        chosen = list(LOOKS) if FULL else [list(LOOKS)[len(metafunc.function.__name__) % 2]]
        metafunc.parametrize("look", chosen)


@pytest.fixture
def picture(look: str, snap_compare: Any, make_chat: Callable[..., Any]) -> Callable[..., bool]:
    """Whether the chat looks as in its picture once `before` was done, small and dark, or large and light."""
    theme, size = LOOKS[look]

    def same(before: Callable[..., Any], make: Callable[..., Any] = make_chat, **settings: Any) -> bool:
        return bool(snap_compare(make(theme=theme, **settings), terminal_size=size, run_before=before))

    return same


@pytest.fixture
def empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder to work in."""
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def engine() -> FakeEngine:
    return FakeEngine()


@pytest.fixture
def dialogue(engine: FakeEngine) -> Dialogue:
    """One whose model is loaded."""
    dialogue = Dialogue(engine, ModelSelection("builtin"), METHODS, "lookup")
    engine.loaded()
    dialogue.drain()
    return dialogue


def under_way(dialogue: Dialogue, engine: FakeEngine, records: Sequence[StepRecord] = ()) -> int:
    """An answer that has begun; its id."""
    assert dialogue.submit("Hello")
    id = engine.begin(records)
    dialogue.drain()
    return id


@pytest.fixture
def make_steps() -> Callable[..., list[StepRecord]]:
    return steps


@pytest.fixture(scope="session")
def vocabulary() -> list[str]:
    return VOCABULARY


@pytest.fixture(scope="session")
def tree_steps() -> Callable[[], list[StepRecord]]:
    return trees


@pytest.fixture
def make_chat(engine: FakeEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Makes the app, with no settings but those given and no clipboard tool."""
    monkeypatch.setenv("SPECCHAT_CONFIG", str(tmp_path))
    monkeypatch.setenv("SPECCHAT_EXPORTS", ".")
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("COLORTERM", "truecolor")
    monkeypatch.setattr("specchat.app.tui.actions.copy.clipboard_tool", list)

    def make(**changes: Any) -> Any:
        from textual.pilot import Pilot

        from specchat.app.settings.fields import Settings
        from specchat.app.settings.precedence import with_command_line
        from specchat.app.tui.app import SpecchatApp

        # Half a minute is little for a first frame on a crowded machine; what hangs is found by pytest-timeout.
        monkeypatch.setattr(Pilot._wait_for_screen, "__defaults__", (600.0,))
        notice = changes.pop("notice", None)
        return SpecchatApp(with_command_line(Settings(), changes), engine, notice, METHODS)

    return make


@pytest.fixture
def make_kept(make_chat: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Any]]:
    """Makes the app with a history, in `data`."""
    monkeypatch.setenv("SPECCHAT_DATA", str(tmp_path / "data"))
    recorders: list[Recorder] = []

    def make(**changes: Any) -> Any:
        app = make_chat(**changes)
        app.chat_history.recorder = Recorder()
        recorders.append(app.chat_history.recorder)
        return app

    yield make
    for recorder in recorders:
        recorder.close()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "data" / "history.db"


@pytest.fixture
def recorder(file: Path) -> Iterator[Recorder]:
    recorder = Recorder(file)
    yield recorder
    recorder.close()


def keep(recorder: Recorder, dialogue: Dialogue) -> None:
    """Let the history take in the chat, and wait until it has."""
    recorder.note(dialogue)
    assert recorder.settle()


def facts(transcript: Transcript) -> list[Any]:
    """List everything that a chat consists of."""
    out: list[Any] = [transcript.system]
    for entry in transcript.entries:
        if not isinstance(entry, Answer):
            out.append((type(entry), entry.text, getattr(entry, "severity", None)))
            continue
        figures = entry.figures
        out.append((entry.method, entry.label, entry.reason, entry.methods, entry.runs, list(entry.log)))
        out.append((figures.prompt_tokens, figures.tokens, figures.steps, figures.drafted, figures.accepted))
        out.append([entry.pieces.text(token) for token in entry.log.tokens])
        out.append((figures.prefill_seconds, figures.decode_seconds, entry.totals.runs, list(entry.by_method)))
    return out


@pytest.fixture
def chats(file: Path) -> Iterator[Chats]:
    with Store(file) as store:
        yield Chats(store)


@pytest.fixture
def say(engine: Any, dialogue: Dialogue, make_steps: Callable[..., Any]) -> Callable[..., None]:
    """Asks something, and lets the engine answer with some text."""

    def say(
        prompt: str, text: str | None = None, finish: bool = True, steps: Sequence[StepRecord] | None = None, **more: Any
    ) -> None:
        assert dialogue.submit(prompt)
        records = list(steps or make_steps(*([] if text is None else [text]), **more))
        engine.begin()
        engine.events.append(Steps(engine.asked.id, records))
        if finish:
            engine.finish()
        dialogue.drain()

    return say
