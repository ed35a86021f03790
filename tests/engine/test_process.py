"""The engine process: what reaches its pipes, what does not, and when it ends."""

from __future__ import annotations

import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from specchat.engine.messages import (
    Cancel,
    CloseLane,
    Failed,
    Finished,
    Generate,
    Load,
    Loaded,
    Quit,
    Started,
    Switched,
    Unloaded,
)
from specchat.engine.wire import dump

from ..fakes.engines import ANSWER, BareEngine, recorded, steps_of, text_of, wait_gone, wait_until


def test_garbage_is_ignored_and_logged(engine: BareEngine, tmp_path: Path, log: Path) -> None:
    engine.send(b"hello?\n", b"\xff\xfe\n", b"[]\n", b"\n", b'{"kind":[]}\n', b'{"kind":"Cancel"}\n', b"[" * 99_999 + b"\n")
    engine.send(dump(Switched(1, "not", "a command")), Cancel(77), CloseLane("none"))
    engine.send(Load(1, recorded(tmp_path)), Generate(2, prompt="hello"))
    assert text_of(engine.until(2, Finished), 2) == ANSWER
    assert "hello?" in log.read_text()
    assert "not a command:" in log.read_text()


def test_a_full_disk_under_the_log_costs_no_answer(tmp_path: Path) -> None:
    engine = BareEngine(Path("/dev/full"))
    engine.send(b"to be logged\n", Load(1, recorded(tmp_path)), b"again\n", Generate(2, prompt="hello"))
    assert text_of(engine.until(2, Finished), 2) == ANSWER
    engine.close()


def test_a_wrong_name_costs_nothing(engine: BareEngine, tmp_path: Path) -> None:
    engine.send(Load(1, f"recorded:{tmp_path}/none.jsonl"), Load(2, recorded(tmp_path, more={"hello there": ANSWER})))
    failed = engine.until(2, Loaded)[-3]
    assert isinstance(failed, Failed)
    assert (failed.id, failed.cause) == (1, "user")
    assert "none.jsonl" in failed.sentence
    # The model that was there before answers on, from its cache.
    engine.send(Generate(3, prompt="hello there"))
    engine.until(3, Finished)
    engine.send(Load(4, f"recorded:{tmp_path}/none.jsonl"), Generate(5, prompt="hello there"))
    events = engine.until(5, Finished)
    assert not any(isinstance(event, Unloaded) for event in events)
    assert text_of(events, 5) == ANSWER
    assert next(event.reused for event in events if isinstance(event, Started) and event.id == 5) > 0


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
    engine.send(Load(1, recorded(tmp_path, pace=1)), Generate(2, prompt="long"))
    wait_until(Path(f"{log}.pass").exists)
    engine.send(Cancel(2))
    assert len(steps_of(engine.until(2, Finished), 2)) == 4
    engine.close()


def test_quit_and_the_end_of_input_end_it(log: Path, tmp_path: Path) -> None:
    for last in (Quit(), None):
        engine = BareEngine(log)
        engine.send(Load(1, recorded(tmp_path, pace=600)), Generate(2, prompt="hello"))
        engine.until(2, Started)  # in the middle of a pass of ten minutes now
        if last is None:
            engine.stdin.close()
        else:
            engine.send(last)
        assert engine.process.wait(120) == 0
        engine.close()


@pytest.mark.skipif(sys.platform != "linux", reason="needs prctl")
def test_it_goes_with_its_parent_even_while_a_library_holds_the_gil() -> None:
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
    engine.send(Load(1, recorded(tmp_path, pace=1)), Generate(2, prompt="long"))
    wait_until(Path(f"{log}.pass").exists)
    engine.process.send_signal(signal.SIGSEGV)
    engine.process.wait(120)
    assert "Segmentation fault" in log.read_text()
    assert "recorded.py" in log.read_text()
    engine.close()
