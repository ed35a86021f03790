"""A switch in mid-answer between two real servers of the built-in model: the text and the number of tokens of one server alone.

Run with `SPECCHAT_SERVERS=1`; `tests/fakes/real_servers.py` says which servers there are.
"""

from __future__ import annotations

import asyncio
import os
from contextlib import ExitStack
from pathlib import Path

import pytest

from specchat.backends.servers.address import find_server
from specchat.backends.servers.bodies import ServerRequest
from specchat.backends.servers.remote import RemoteModel, connect_all
from specchat.backends.servers.stream import Outcome
from specchat.engine.messages import Event, Failed, Steps, Switched
from specchat.engine.servers.writing import Writing

from ...fakes.real_servers import kinds, real_server
from .test_real import PROMPTS, request_for

pytestmark = pytest.mark.skipif(not os.environ.get("SPECCHAT_SERVERS"), reason="SPECCHAT_SERVERS=1 starts real servers")

PAIRS = [
    ("llama-server plain", "llama-server ngram-simple"),
    ("llama-server plain", "llama-server draft-simple"),
    ("vllm plain", "vllm ngram"),
    ("vllm plain", "vllm draft_model"),
]
CUTS = ([10], [3, 20, 40, 41])
"""After how many tokens an answer goes to the other server."""


class Answered:
    """An answer that goes from one server to the other."""

    def __init__(self, remote: RemoteModel, asked: ServerRequest, method: str, cuts: list[int]) -> None:
        self.events: list[Event] = []
        self.text, self.tokens = "", 0
        self._names, self._cuts = list(remote.methods), list(cuts)
        self._writing = Writing(self._take, 1, remote, method, asked)

    def _take(self, event: Event) -> None:
        self.events.append(event)
        if isinstance(event, Steps):
            self.text += "".join(step.text for step in event.steps)
            self.tokens += sum(len(step.tokens) for step in event.steps)
            if self._cuts and self.tokens >= self._cuts[0]:
                del self._cuts[0]
                other = next(name for name in self._names if name != self._writing.method)
                asyncio.get_running_loop().call_soon(self._writing.switch, other)

    async def run(self) -> Answered:
        await self._writing.run()
        return self

    @property
    def outcome(self) -> Outcome:
        return self._writing.outcome

    def count(self, kind: type) -> int:
        return sum(isinstance(event, kind) for event in self.events)


@pytest.mark.parametrize(("plain", "other"), [pair for pair in PAIRS if set(pair) <= {*kinds()}])
def test_the_text_is_that_of_one_server_alone(plain: str, other: str, tmp_path: Path) -> None:
    async def go(first: str, second: str) -> None:
        address = find_server("pair", {"pair": {"plain": f"{first}#builtin", "with": f"{second}#builtin"}})
        assert address is not None
        remote = await connect_all(address)
        answers = switches = 0
        for prompt in PROMPTS:
            for method in remote.methods:
                alone = await Answered(remote, request_for(prompt), method, []).run()
                for cuts in CUTS:
                    both = await Answered(remote, request_for(prompt), method, cuts).run()
                    assert (both.text, both.tokens) == (alone.text, alone.tokens), (prompt, method, cuts)
                    assert not both.outcome.doubt
                    assert not both.count(Failed)
                    answers, switches = answers + 1, switches + both.count(Switched)
        await remote.close()
        print(f"\n{' and '.join(remote.methods)}: {answers} answers, {switches} switches, the text of one server alone")

    with ExitStack() as stack:
        one, two = (stack.enter_context(real_server(kind, tmp_path / str(i))) for i, kind in enumerate((plain, other)))
        asyncio.run(go(one.url, two.url))
