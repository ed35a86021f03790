"""Chat templates, rendered in a process that can be stopped (see `template_process`)."""

from __future__ import annotations

import atexit
import json
import os
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from ..errors import Cancelled, UserError
from .base import Message

MOST_SECONDS = 10.0
"""A template usually takes a millisecond; one that takes longer than this is stopped."""

POLL_SECONDS = 0.05
"""How often to look whether an answer is still wanted."""

MOST_CHARACTERS, MOST_TIMES = 1_000_000, 4
"""A template makes at most so many characters, and so many more for each in the chat: no tokenizer can be stopped either."""


class Template:
    """A model's chat template.

    Args:
        source: Jinja.
        specials: names of special tokens (bos_token …) and their text.
    """

    def __init__(self, source: str, specials: Mapping[str, str | list[str]]) -> None:
        self._source = source
        self._specials = dict(specials)
        _process.start()  # is ready by the time that the weights are

    def render(self, messages: Sequence[Message], cancelled: Callable[[], bool] | None = None) -> str:
        """The text of a chat up to where the next answer starts.

        Args:
            messages: the chat.
            cancelled: polled; answering True ends a template that has not ended by itself.

        Raises:
            UserError: no messages, or the template refuses them, fails or does not end.
            Cancelled: `cancelled` answered True.
        """
        if not messages:
            raise UserError("A chat needs at least one message.")
        chat = [dict(message) for message in messages]
        most = MOST_CHARACTERS + MOST_TIMES * sum(len(text) for message in chat for text in message.values())
        request = {"source": self._source, "specials": self._specials, "messages": chat, "most": most}
        out = _process.ask(request, cancelled)
        if "refused" in out:
            raise UserError(
                f"The model's chat template rejects this conversation ({out['refused']}). Remove the system prompt, or use "
                "plain completion (--raw)."
            )
        if "fails" in out:
            raise UserError(
                f"The model's chat template is broken ({out['fails']}). Use plain completion (--raw) or another model."
            )
        return str(out["text"])


class _Process:
    """The process that renders, started when the first template is there; one for all, and a new one after each that died."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Leave the process to whom it belongs: after a fork, two would mix up its answers."""
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Have it started, without waiting until it is up."""
        with self._lock:
            self._running()

    def stop(self) -> None:
        """End it."""
        with self._lock:
            self._end()

    def ask(self, request: dict[str, Any], cancelled: Callable[[], bool] | None) -> dict[str, Any]:
        """Its answer to a request. Errors as `Template.render`."""
        with self._lock:
            process = self._running()
            answers: queue.SimpleQueue[bytes] = queue.SimpleQueue()
            # A thread, since a pipe can be full as well as empty. It ends with the process.
            threading.Thread(target=_exchange, args=(process, request, answers), daemon=True).start()
            deadline = time.monotonic() + MOST_SECONDS
            while True:
                with suppress(queue.Empty):
                    line = answers.get(timeout=POLL_SECONDS)
                    break
                if cancelled is not None and cancelled():
                    self._end()
                    raise Cancelled
                if time.monotonic() > deadline:
                    self._end()
                    return {"fails": f"it did not finish within {MOST_SECONDS:.0f} seconds"}
            if not line.endswith(b"\n"):
                with suppress(subprocess.TimeoutExpired):
                    process.wait(1)
                code = self._end()
                if code > 0:
                    raise RuntimeError(f"the chat template process ended with exit code {code}")
                return {"fails": f"its process was ended by signal {-code}"}
        out: dict[str, Any] = json.loads(line)
        return out

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is not None and self._process.poll() is not None:
            self._end()
        if self._process is None:
            self._process = subprocess.Popen(
                # -P: never import from the script's folder, where files may have the names of libraries.
                [sys.executable, "-P", str(Path(__file__).with_name("template_process.py"))],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                process_group=0,  # Ctrl-C is not for it
            )
        return self._process

    def _end(self) -> int:
        """Kill the process if it still runs; its exit code."""
        process, self._process = self._process, None
        if process is None:
            return 0
        process.kill()
        code = process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                with suppress(OSError):  # what was not written goes nowhere
                    pipe.close()
        return code


def _exchange(process: subprocess.Popen[bytes], request: dict[str, Any], answers: queue.SimpleQueue[bytes]) -> None:
    """Send a request and wait for the line that answers it; part of one, or nothing, if the process ends."""
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        process.stdin.write(json.dumps(request).encode() + b"\n")
        process.stdin.flush()
        answers.put(process.stdout.readline())
    except (OSError, ValueError):
        answers.put(b"")


_process = _Process()
atexit.register(_process.stop)
os.register_at_fork(after_in_child=_process.forget)
