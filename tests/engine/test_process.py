"""The engine process and its client: pipes, kills and ends; the client is light, and never in its caller's way."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from itertools import chain
from pathlib import Path

import pytest

from specchat.backends.loading import builtin_path
from specchat.engine import messages
from specchat.engine.client import EngineClient, models_to_load
from specchat.engine.options import ModelSelection
from specchat.engine.wire import dump

from ..fakes.engines import (
    ANSWER,
    LONG,
    SHORT,
    BareEngine,
    alive,
    answer,
    ended,
    failures,
    recorded,
    steps_of,
    text_of,
    until,
    wait_gone,
    wait_until,
)


def test_garbage_is_ignored_and_logged(engine: BareEngine, tmp_path: Path, log: Path) -> None:
    engine.send(b"hello?\n", b"\xff\xfe\n", b"[]\n", b"\n", b'{"kind":[]}\n', b'{"kind":"Cancel"}\n', b"[" * 99_999 + b"\n")
    engine.send(dump(messages.Switched(1, "not", "a command")), messages.Cancel(77), messages.CloseLane("none"))
    engine.send(messages.Load(1, ModelSelection(recorded(tmp_path))), messages.Generate(2, prompt="hello"))
    assert text_of(engine.until(2, messages.Finished), 2) == ANSWER
    assert "hello?" in log.read_text()
    assert "not a command:" in log.read_text()


def test_a_full_disk_under_the_log_costs_no_answer(tmp_path: Path) -> None:
    engine = BareEngine(Path("/dev/full"))
    engine.send(
        b"to be logged\n",
        messages.Load(1, ModelSelection(recorded(tmp_path))),
        b"again\n",
        messages.Generate(2, prompt="hello"),
    )
    assert text_of(engine.until(2, messages.Finished), 2) == ANSWER
    engine.close()


def test_a_wrong_name_costs_nothing(engine: BareEngine, tmp_path: Path) -> None:
    engine.send(
        messages.Load(1, ModelSelection(f"recorded:{tmp_path}/none.jsonl")),
        messages.Load(2, ModelSelection(recorded(tmp_path, more={"hello there": ANSWER}))),
    )
    failed = engine.until(2, messages.Loaded)[-3]
    assert isinstance(failed, messages.Failed)
    assert (failed.id, failed.cause) == (1, "user")
    assert "none.jsonl" in failed.sentence
    # The model that was there before answers on, from its cache.
    engine.send(messages.Generate(3, prompt="hello there"))
    engine.until(3, messages.Finished)
    engine.send(messages.Load(4, ModelSelection(f"recorded:{tmp_path}/none.jsonl")), messages.Generate(5, prompt="hello there"))
    events = engine.until(5, messages.Finished)
    assert not any(isinstance(event, messages.Unloaded) for event in events)
    assert text_of(events, 5) == ANSWER
    assert next(event.reused for event in events if isinstance(event, messages.Started) and event.id == 5) > 0


FOURTH_PASS = """
import os
import time
from pathlib import Path
from types import SimpleNamespace
from specchat.tests.fakes import recorded
from specchat.engine import __main__, server

passes = 0

class Server(server.Server):
    def __init__(self, *pipes):
        super().__init__(*pipes)
        recorded.time = SimpleNamespace(sleep=self.sleep, perf_counter=time.perf_counter)

    def sleep(self, seconds):
        global passes
        passes += 1
        if passes == 4:
            Path(os.environ["SPECCHAT_LOG"] + ".pass").touch()
        while passes == 4 and self._commands.empty():
            time.sleep(0.001)

server.Server = Server
__main__.main()
"""
"""An engine that tells of its fourth pass, which lasts until a command comes in."""


def test_a_cancel_waits_for_the_pass_and_no_longer(log: Path, tmp_path: Path) -> None:
    engine = BareEngine(log, FOURTH_PASS)
    engine.send(messages.Load(1, ModelSelection(recorded(tmp_path, pace=1))), messages.Generate(2, prompt="long"))
    wait_until(Path(f"{log}.pass").exists)
    engine.send(messages.Cancel(2))
    assert len(steps_of(engine.until(2, messages.Finished), 2)) == 4
    engine.close()


def test_quit_and_the_end_of_input_end_the_engine(log: Path, tmp_path: Path) -> None:
    for last in (messages.Quit(), None):
        engine = BareEngine(log)
        engine.send(messages.Load(1, ModelSelection(recorded(tmp_path, pace=600))), messages.Generate(2, prompt="hello"))
        engine.until(2, messages.Started)  # in the middle of a pass of ten minutes now
        if last is None:
            engine.stdin.close()
        else:
            engine.send(last)
        assert engine.process.wait(120) == 0
        engine.close()


@pytest.mark.skipif(sys.platform != "linux", reason="needs prctl")
def test_the_engine_ends_with_its_parent_even_while_a_library_holds_the_gil() -> None:
    child = "import ctypes; from specchat.engine.server import die_with_parent as d; d(); print(1, flush=True); "
    child += "ctypes.PyDLL(None).sleep(600)"
    code = f"""
        import subprocess, sys, time
        child = subprocess.Popen([sys.executable, "-c", {child!r}], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        child.stdout.readline()
        print(child.pid, flush=True)
        time.sleep(600)
    """
    parent = subprocess.Popen([sys.executable, "-c", textwrap.dedent(code)], stdout=subprocess.PIPE)
    assert parent.stdout is not None
    pid = int(parent.stdout.readline())
    parent.kill()
    wait_gone(pid)
    parent.wait(120)
    parent.stdout.close()


def test_a_crash_leaves_its_traceback(tmp_path: Path, log: Path) -> None:
    engine = BareEngine(log, FOURTH_PASS)
    engine.send(messages.Load(1, ModelSelection(recorded(tmp_path, pace=1))), messages.Generate(2, prompt="long"))
    wait_until(Path(f"{log}.pass").exists)
    engine.process.send_signal(signal.SIGSEGV)
    engine.process.wait(120)
    assert "Segmentation fault" in log.read_text()
    assert "recorded.py" in log.read_text()
    engine.close()


HEAVY = ("torch", "transformers", "numpy", "textual", "typer", "rich", "safetensors", "llama_cpp", "huggingface_hub")


@pytest.mark.parametrize("module", ["client", "catalog", "messages"])
def test_importing_it_imports_nothing_heavy(module: str) -> None:
    code = f"import sys, specchat.engine.{module} as m; getattr(m, 'describe', list)(); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {name.partition(".")[0] for name in done.stdout.split()} & set(HEAVY)


def test_load_generate_finish(client: EngineClient, tmp_path: Path) -> None:
    *_, loaded = answer(client, client.load(ModelSelection(recorded(tmp_path))))
    assert isinstance(loaded, messages.Loaded)
    for method in ("greedy", "lookup", "recompute"):
        id = client.generate("hello", method=method)
        events = answer(client, id)
        assert text_of(events, id) == ANSWER
        assert isinstance(events[0], messages.Started)
        assert events[0].method == method
        assert isinstance(events[-1], messages.Finished)
    chat = [{"role": "user", "content": "long"}]
    id = client.generate(messages=chat, max_tokens=5)
    events = answer(client, id)
    assert isinstance(events[-1], messages.Finished)
    assert events[-1].reason == "length"
    assert text_of(events, id) == "alpha 0 beta 1 gamma"
    id, received = client.generate("hello"), list[messages.Event]()
    while not any(isinstance(event, messages.Finished) for event in received):
        event = client.wait(120)
        assert event is not None
        received += [event, *client.drain()]
    assert text_of(received, id) == ANSWER
    assert client.drain() == []
    assert client.wait(0.01) is None


def test_a_kill_costs_one_answer(client: EngineClient, tmp_path: Path) -> None:
    load = client.load(ModelSelection(recorded(tmp_path, pace=0.005)))
    answer(client, load)
    id = client.generate("long")
    received: list[messages.Event] = []
    until(client, received, lambda received: len(steps_of(received, id)) >= 10)
    pid = client.pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    until(client, received, ended(id))
    (failed,) = failures(received)
    assert received[-1] is failed
    assert (failed.id, failed.cause, failed.other_ids) == (id, "died", [])
    assert "signal 9" in failed.sentence
    assert "chat is safe" in failed.sentence
    assert LONG.startswith(text_of(received, id))
    assert client.wait(0.2) is None  # once, and nothing starts by itself

    second = client.generate("short")
    events = answer(client, second)
    assert text_of(events, second) == SHORT
    assert [event.id for event in events if isinstance(event, messages.Loaded)] == [load]
    assert client.pid != pid


def test_a_kill_at_once_is_tried_again_by_the_next_prompt(tmp_path: Path, log: Path) -> None:
    client = EngineClient(log=log)
    client.start()
    ready = client.wait(120)
    assert isinstance(ready, messages.Ready)
    os.kill(ready.pid, signal.SIGSTOP)
    load = client.load(ModelSelection(recorded(tmp_path)))
    time.sleep(0.1)
    os.kill(ready.pid, signal.SIGKILL)
    failed = client.wait(120)
    assert isinstance(failed, messages.Failed)
    assert failed.id == load
    id = client.generate("short")
    assert text_of(answer(client, id), id) == SHORT
    client.close()


def test_what_was_being_loaded_is_named() -> None:
    assert models_to_load(messages.Load(1, ModelSelection("a", draft_model=("b", "c")))) == "a with b with c"
    assert models_to_load(messages.LoadSecondary(1, "key", ModelSelection("a"))) == "a"
    assert not models_to_load(messages.Generate(1))


def test_an_engine_that_cannot_start_is_a_sentence(tmp_path: Path, log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONHOME", str(tmp_path))
    with EngineClient(log=log) as client:
        id = client.load(ModelSelection(recorded(tmp_path)))
        sentences = [failed.sentence for failed in failures(client.stream(id))]
        assert any("could not start" in sentence or "keeps stopping" in sentence for sentence in sentences)
    assert "encodings" in log.read_text()  # what Python said on its standard error
    monkeypatch.delenv("PYTHONHOME")
    monkeypatch.setattr(sys, "executable", str(tmp_path / "no-python"))
    with EngineClient(log=log) as client:
        (failed,) = answer(client, client.load(ModelSelection("builtin")))[-1:]
        assert isinstance(failed, messages.Failed)
        assert "Could not start" in failed.sentence


def test_close_kills_an_engine_that_hangs(tmp_path: Path, log: Path) -> None:
    client = EngineClient(log=log)
    answer(client, client.load(ModelSelection(recorded(tmp_path))))
    pid = client.pid
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)
    client.generate("x" * 1_000_000)  # more than the pipe holds: the writer is stuck in it
    time.sleep(0.1)
    client.close()  # it waits for its end, then kills it
    assert not alive(pid)


def test_an_exit_without_close_leaves_nothing_behind(tmp_path: Path, log: Path) -> None:
    code = "import sys; from specchat.engine.client import *; c = EngineClient(); c.load(ModelSelection(sys.argv[1]));"
    code += "[print(c.pid) for e in c.stream(1) if type(e).__name__ == 'Loaded']"
    done = subprocess.run(
        [sys.executable, "-c", code, recorded(tmp_path)], check=False, capture_output=True, text=True, timeout=120,
        env={**os.environ, "SPECCHAT_LOG": str(log)},
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    wait_gone(int(done.stdout))


def test_the_working_folder_is_not_imported_from(tmp_path: Path, log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("json", "torch", "platformdirs", "specchat"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('imported')")
    monkeypatch.chdir(tmp_path)
    with EngineClient(log=log) as client:
        assert isinstance(answer(client, client.load(ModelSelection(recorded(tmp_path))))[-1], messages.Loaded)


TEXT = "The keeper of the lighthouse wrote every evening how far the waves had come, and nobody read it for forty years."


def remember(client: EngineClient, command: messages.Remember) -> messages.Remembered:
    events: list[messages.Event] = []
    client.send(command)
    until(client, events, lambda events: bool(events) and isinstance(events[-1], messages.Remembered))
    assert isinstance(events[-1], messages.Remembered)
    return events[-1]


def test_what_is_remembered_is_drafted_from_until_it_is_forgotten(tmp_path: Path) -> None:
    folder = str(tmp_path / "past")
    with EngineClient() as client:
        answer(client, client.load(ModelSelection(recorded(tmp_path, more={"tell me": TEXT}))))

        def ask(past: str = folder) -> tuple[str, int]:
            id = client.next_id()
            client.send(messages.Generate(id, prompt="tell me", raw=True, method="lookup", fresh=True, past=past))
            events = answer(client, id)
            return text_of(events, id), len(steps_of(events, id))

        text, plain = ask()
        assert text == TEXT
        assert remember(client, messages.Remember(client.next_id(), folder)).keys == []
        assert remember(client, messages.Remember(client.next_id(), folder, [[7, "Something else."], [8, TEXT]])).keys == [7, 8]
        assert ask("") == (TEXT, plain)  # a chat that is not kept
        text, steps = ask()
        assert text == TEXT
        assert steps < plain / 2
        assert remember(client, messages.Remember(client.next_id(), folder, forget=[8])).keys == [7]
        assert ask() == (TEXT, plain)


needs_builtin = pytest.mark.skipif(not (builtin_path() / "config.json").is_file(), reason="the built-in weights are absent")


@pytest.fixture
def models(tmp_path: Path) -> tuple[str, str]:
    """Names of two models that answer `hello` differently, with different tokens."""
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    return recorded(tmp_path / "one"), recorded(tmp_path / "two", more={"hello": "Something else entirely 🙂 " * 20})


def load(engine: BareEngine, chat_model: str, **guests: str) -> list[messages.Event]:
    """Load the chat's model and secondary ones; return their events."""
    engine.send(messages.Load(1, ModelSelection(chat_model)))
    engine.until(1, messages.Loaded)
    events = []
    for id, (key, model) in enumerate(guests.items(), 2):
        engine.send(messages.LoadSecondary(id, key, ModelSelection(model)))
        events += engine.until(id, messages.LoadedSecondary, messages.Failed)
    return events


def said(engine: BareEngine, id: int, prompt: str = "hello", **more: str) -> str:
    """Let a lane answer, and return its text."""
    engine.send(messages.Generate(id, prompt=prompt, **more))  # type: ignore[arg-type]
    events = engine.until(id, messages.Finished, messages.Failed)
    assert isinstance(events[-1], messages.Finished), events[-1]
    return text_of(events, id)


def test_lanes_of_two_models_answer_each_with_its_own(engine: BareEngine, models: tuple[str, str]) -> None:
    loaded = load(engine, models[0], guest=models[1])[-1]
    assert isinstance(loaded, messages.LoadedSecondary)
    assert (loaded.key, loaded.model.name) == ("guest", models[1])
    assert loaded.unavailable["draft"]
    assert loaded.tokenizer != loaded.primary_tokenizer
    engine.send(messages.Generate(10, lane="race-1", prompt="hello", method="lookup"))
    engine.send(messages.Generate(11, lane="race-2", prompt="hello", method="lookup", model="guest"))
    events: list[messages.Event] = []
    while len([e for e in events if isinstance(e, messages.Finished)]) < 2:
        events.append(next(engine.events()))
    assert text_of(events, 10) == ANSWER
    assert text_of(events, 11).startswith("Something else entirely 🙂 Something")
    engine.send(messages.ReadPieces(12), messages.ReadPieces(13, "guest"), messages.ReadPieces(14, "nobody"))
    tables = [engine.until(id, messages.PieceTable)[-1] for id in (12, 13, 14)]
    assert [len(table.pieces) > 0 for table in tables if isinstance(table, messages.PieceTable)] == [True, True, False]
    assert tables[0].pieces != tables[1].pieces  # type: ignore[attr-defined]


def test_the_chats_cache_survives_a_race(engine: BareEngine, models: tuple[str, str]) -> None:
    load(engine, models[0], guest=models[1])
    chat = [{"role": "user", "content": "hello"}]
    engine.send(messages.Generate(10, messages=chat))
    text = text_of(engine.until(10, messages.Finished), 10)
    engine.send(messages.Generate(11, lane="race-1", messages=chat, model="guest"))
    engine.until(11, messages.Finished)
    engine.send(messages.CloseLane("race-1"), messages.UnloadSecondary())
    chat += [{"role": "assistant", "content": text}, {"role": "user", "content": "short"}]
    engine.send(messages.Generate(12, messages=chat))
    events = engine.until(12, messages.Finished)
    start = next(event for event in events if isinstance(event, messages.Started))
    assert start.reused > 50
    assert not [event for event in events if isinstance(event, messages.Unloaded)]
    engine.send(messages.Generate(13, lane="race-1", messages=chat, model="guest"))
    failed = engine.until(13, messages.Failed)[-1]
    assert isinstance(failed, messages.Failed)
    assert "is not loaded next to" in failed.sentence


def test_freeing_a_model_ends_its_answers_alone(engine: BareEngine, models: tuple[str, str]) -> None:
    # The guest's passes take 10 ms: it is far from its end when it is freed.
    load(engine, models[0], guest=models[1].replace("pace=0.0", "pace=0.01"), other=models[1])
    for id, key in ((10, ""), (11, "guest"), (12, "other")):
        engine.send(messages.Generate(id, lane=f"race-{id}", prompt="long", model=key))
    started = engine.until(12, messages.Started)
    engine.send(messages.UnloadSecondary("guest"))
    reasons: dict[int, str] = {}
    for event in chain(started, engine.events()):
        if isinstance(event, messages.Finished):
            reasons[event.id] = event.reason
        if len(reasons) == 3:
            break
    assert reasons == {10: "eos", 11: "cancelled", 12: "eos"}
    assert said(engine, 20, lane="race-12", model="other")


def test_a_model_that_cannot_be_loaded_leaves_what_is_there(
    engine: BareEngine, models: tuple[str, str], tmp_path: Path
) -> None:
    load(engine, models[0], guest=models[1])
    for id, name in enumerate((str(tmp_path / "none.gguf"), str(tmp_path), "recorded:nowhere.jsonl"), 20):
        engine.send(messages.LoadSecondary(id, f"bad-{id}", ModelSelection(name)))
        failed = engine.until(id, messages.Failed, messages.LoadedSecondary)[-1]
        assert isinstance(failed, messages.Failed)
        assert failed.cause == "user"
        assert "\n" not in failed.sentence
    assert said(engine, 30) == ANSWER
    assert said(engine, 31, lane="race-1", model="guest").startswith("Something")


@needs_builtin
def test_a_killed_engine_loads_the_chats_model_first_and_then_its_guest(log: Path, models: tuple[str, str]) -> None:
    with EngineClient(log=log) as client:
        assert isinstance(list(client.stream(client.load(ModelSelection(models[0]))))[-1], messages.Loaded)
        assert client.pid is not None
        os.kill(client.pid, signal.SIGKILL)
        received: list[messages.Event] = []
        until(client, received, lambda received: any(isinstance(e, messages.Failed) and e.cause == "died" for e in received))
        id = client.next_id()
        client.send(messages.LoadSecondary(id, "guest", ModelSelection(models[1])))
        events = list(client.stream(id))
        assert [type(e) for e in events if isinstance(e, messages.Loaded | messages.LoadedSecondary)] == [
            messages.Loaded,
            messages.LoadedSecondary,
        ]
        answer = client.generate("hello", model="guest", lane="race-1")
        assert text_of(list(client.stream(answer)), answer).startswith("Something")
