"""Two servers of one model: an answer goes from one to the other, from the tokens so far."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from specchat.engine.client import EngineClient
from specchat.engine.messages import Event, Failed, Finished, Load, Loaded, Started, Steps, Switch, Switched

from ...fakes.engines import wait_until
from ...fakes.model_servers import (
    FakeServer,
    Pass,
    Written,
    llama_server,
    of_words,
    rendered,
    serving,
    sglang,
    text_of,
    text_only,
    tokens_of,
    vllm,
)
from ...fakes.model_servers import (
    event as sse,
)

PASSES = ("The", " lighthouse stood on", " the northern rock .", " Every", " evening Ana climbed it .")
TEXT = "".join(PASSES)
ASKED = [{"role": "user", "content": "hi"}]
PROMPT = tokens_of(rendered(ASKED))
STREAMS: dict[str, Callable[..., list[bytes]]] = {"llama-server": llama_server, "vLLM": vllm, "SGLang": sglang}


def rest(engine: str, said: int) -> list[bytes]:
    """What a server of this engine writes behind so many words of the text."""
    words = tokens_of(TEXT)[said:]
    written = of_words(text_of(words[:1]), *filter(None, [text_of(words[1:3]), text_of(words[3:])]))
    return as_asked(engine, written, len(PROMPT) + said, text_of(words))


def as_asked(engine: str, written: Written, prompt: int, text: str) -> list[bytes]:
    if engine == "vLLM":
        return vllm(written, ids=tokens_of(text), prompt_ids=PROMPT)
    return llama_server(written, prompt=prompt) if engine == "llama-server" else STREAMS[engine](written)


def first(engine: str) -> list[bytes]:
    return as_asked(engine, of_words(*PASSES), len(PROMPT), TEXT)


class Pair:
    """A plain server and one that speculates, and the answers that they are asked for."""

    def __init__(self, client: EngineClient, plain: FakeServer, other: FakeServer) -> None:
        self.client, self.servers = client, (plain, other)
        self.held = threading.Event()
        """Set once an answer that is switched has told of a failure, or has text of the other server's second pass."""
        self.events: list[Event] = []

    def load(self) -> Loaded:
        plain, other = self.servers
        load = Load(self.client.next_id(), "pair", servers={"pair": {"plain": plain.url, "with": "b"}, "b": {"url": other.url}})
        self.client.send(load)
        (found,) = [event for event in self.client.stream(load.id) if isinstance(event, Loaded | Failed)]
        assert isinstance(found, Loaded), found
        return found

    def switched(self, method: str, to: str, parts: int = 5, **options: Any) -> None:
        """An answer that one server begins and, after so many parts of its stream, another is to go on with."""
        id = self.client.generate(messages=ASKED, method=method, **options)
        taken: list[Event] = []
        for event in self.client.stream(id):
            taken.append(event)
            if isinstance(event, Failed) or "rock" in self._text(taken):
                self.held.set()
            if isinstance(event, Steps) and "stood" in self._text(taken) and not self.events:
                self.events = taken
                self.client.send(Switch(id, to))
        self.events = taken

    def _text(self, events: list[Event]) -> str:
        return "".join(step.text for event in events if isinstance(event, Steps) for step in event.steps)

    @property
    def text(self) -> str:
        return self._text(self.events)

    @property
    def methods(self) -> list[str]:
        steps = (step for event in self.events if isinstance(event, Steps) for step in event.steps)
        return list(dict.fromkeys(step.method for step in steps))

    def of(self, kind: type) -> list[Any]:
        return [event for event in self.events if isinstance(event, kind)]

    def asked(self, server: int, path: str) -> list[Any]:
        return [body for asked, _, body in self.servers[server].asked if asked == path]


@contextmanager
def pair(client: EngineClient, one: str, two: str, after: Any = None, **more: Any) -> Iterator[Pair]:
    """The first server stops in the middle until its stream is closed; the other writes the rest."""

    def beginning(body: Any) -> Any:
        if body.get("prompt") or body["messages"][-1]["role"] == "assistant":  # it is to go on itself
            said = len(body["prompt"]) - len(PROMPT) if "prompt" in body else len(tokens_of(body["messages"][-1]["content"]))
            return rest(one, said)
        # After `The lighthouse stood on`.
        return [*first(one)[: 5 if one == "llama-server" else 3], 60.0]

    def going_on(body: Any) -> Any:
        if after is not None:
            return after
        if isinstance(body.get("prompt"), list):
            return rest(two, len(body["prompt"]) - len(PROMPT))
        return rest(two, len(tokens_of(body["messages"][-1]["content"]))) if len(body["messages"]) > 1 else first(two)

    with serving(one, beginning, speculates=False) as plain, serving(two, going_on, **more) as other:
        yield Pair(client, plain, other)


def test_a_pair_is_a_model_with_two_methods(client: EngineClient) -> None:
    with pair(client, "vLLM", "vLLM") as found:
        info = found.load().info
        assert list(info["server"]["methods"]) == ["plain", "speculation K=10"]
        assert info["server"]["method"] == "speculation K=10"
        plain, other = (server.url.removeprefix("http://") for server in found.servers)
        assert info["device"] == f"vLLM at {plain} and {other}"
        assert not info["notes"]
        answers = []
        for method in ("speculation K=10", "lookup"):
            events = list(client.stream(client.generate(messages=ASKED, method=method)))
            started = events[0]
            assert isinstance(started, Started)
            answers.append(started.method)
        assert answers == ["speculation K=10"] * 2
        assert len(found.asked(1, "/v1/chat/completions")) == 2


@pytest.mark.parametrize("engine", ["vLLM", "llama-server"])
def test_the_other_server_goes_on_from_the_same_tokens(client: EngineClient, engine: str) -> None:
    with pair(client, engine, engine) as found:
        _, other = found.load().info["server"]["methods"]
        found.switched("plain", other, max_tokens=40)
        assert found.text == TEXT
        assert found.methods == ["plain", other]
        assert [(event.method, event.doubt) for event in found.of(Switched)] == [(other, "")]
        (end,) = found.of(Finished)
        assert end.reason == "eos"
        assert end.served["seams"] == f"{other} went on from the same 4 tokens."
        assert end.served["tokens"] == len(tokens_of(TEXT))
        assert "doubt" not in end.served
        # Ids of the prompt and of the answer, and the limit without what is there.
        (body,) = found.asked(1, "/v1/completions")
        assert body["prompt"] == PROMPT + tokens_of(TEXT)[:4]
        assert body["max_tokens"] == 36
        wait_until(lambda: not found.servers[0].running)


def test_the_other_server_reads_the_prompt_that_the_first_one_did(client: EngineClient) -> None:
    """With the template's switches, and earlier thoughts in their field."""
    thought = {"role": "assistant", "content": "Hi", "thought": "Hm"}
    with pair(client, "llama-server", "llama-server") as found:
        found.load()
        id = client.generate(messages=[thought, *ASKED], method="plain", think="off")
        for event in client.stream(id):
            if isinstance(event, Steps) and not found.asked(1, "/apply-template"):
                client.send(Switch(id, "ngram-simple"))
        (read,), (first, *_) = found.asked(1, "/apply-template"), found.asked(0, "/v1/chat/completions")
        assert read["messages"] == first["messages"]
        assert read["messages"][0]["reasoning_content"] == "Hm"
        assert read["chat_template_kwargs"] == first["chat_template_kwargs"]
        assert read["chat_template_kwargs"]["enable_thinking"] is False


def test_back_and_forth(client: EngineClient) -> None:
    with pair(client, "llama-server", "llama-server") as found:
        found.load()
        found.switched("plain", "ngram-simple")
        whole = found.events
        # Back before anything of the other has come: the first one goes on.
        found.servers[1].stream = [60.0]
        found.events = []
        id = client.generate(messages=ASKED, method="plain")
        asked = list[str]()
        for event in client.stream(id):
            found.events.append(event)
            if isinstance(event, Steps) and not asked and "stood" in found.text:
                asked.append("ngram-simple")
                client.send(Switch(id, "ngram-simple"))
            if isinstance(event, Switched) and len(asked) < 2:
                asked.append("plain")
                client.send(Switch(id, "plain"))
        assert found.text == TEXT
        assert [event.method for event in found.of(Switched)] == ["ngram-simple", "plain"]
        assert isinstance(whole[-1], Finished)
        assert isinstance(found.events[-1], Finished)


def test_by_text_where_the_tokens_are_not_told(client: EngineClient) -> None:
    with pair(client, "SGLang", "SGLang", routes={}) as found:
        _, other = found.load().info["server"]["methods"]
        found.switched("plain", other)
        assert found.text == TEXT
        (body,) = found.asked(1, "/v1/chat/completions")
        assert body["messages"] == [*ASKED, {"role": "assistant", "content": "The lighthouse stood on"}]
        assert body["continue_final_message"] is True
        (switched,) = found.of(Switched)
        assert switched.doubt.startswith("SGLang went on from the text of the answer so far")
        assert found.of(Finished)[0].served["doubt"] == switched.doubt


def test_where_the_other_server_cannot_the_first_goes_on(client: EngineClient) -> None:
    refused = (404, {"error": {"message": "File Not Found", "code": 404}})
    ways: list[dict[str, Any]] = [
        {"posts": {"/tokenize": lambda body: refused}},
        {"after": (500, {"error": {"message": "no memory"}})},
    ]
    for more in ways:
        with pair(client, "llama-server", "llama-server", **more) as found:
            found.load()
            found.switched("plain", "ngram-simple")
            assert found.text == TEXT
            assert isinstance(found.events[-1], Finished)
            (said,) = (event.sentence for event in found.of(Failed))
            assert said.endswith("plain goes on.")
            wait_until(lambda: not found.servers[0].running)


def test_a_server_that_cannot_begin_in_mid_answer_says_so(client: EngineClient) -> None:
    whole = text_only(of_words(*PASSES))
    with serving("OpenAI-compatible") as plain, serving("OpenAI-compatible", whole) as other:
        found = Pair(client, plain, other)
        plain.stream = [*whole[:4], lambda: found.held.wait(60), *whole[4:]]
        assert list(found.load().info["server"]["methods"]) == ["plain", "speculation"]
        found.switched("plain", "speculation")
        assert found.text == TEXT
        assert [event.sentence for event in found.of(Failed)] == [
            "OpenAI-compatible cannot go on in the middle of an answer. Switch to speculation when this one has ended."
        ]


@pytest.mark.parametrize("said", [1, 3, 8])
def test_vllm_goes_on_in_a_thought_and_the_parts_stay_apart(client: EngineClient, said: int) -> None:
    """Its parser takes marks out of chats alone; from the middle on they come as they are."""
    whole = tokens_of("<think>\nHm, so I say.\n</think>\n\nHi there.")
    end = whole.index(tokens_of("</think>")[0])

    def first(_: Any) -> list[Any]:
        out: list[Any] = vllm(of_words(), prompt_ids=PROMPT)[:1]
        for at, id in enumerate(whole[:said]):
            text = "" if at in (0, end) else text_of([id])
            delta = {"reasoning" if at < end else "content": text} if text else {}
            out.append(sse({"choices": [{"index": 0, "delta": delta, "token_ids": [id]}]}))
        return [*out, 60.0]

    def rest(body: Any) -> list[bytes]:
        ids = whole[len(body["prompt"]) - len(PROMPT) :]
        written = Written(tuple(Pass((text_of([id]).encode(),)) for id in ids), eos=False)
        return vllm(written, ids=ids, prompt_ids=PROMPT)

    with serving("vLLM", first, speculates=False) as plain, serving("vLLM", rest) as other:
        found = Pair(client, plain, other)
        found.load()
        id = client.generate(messages=ASKED, method="plain")
        parts, tokens = ["", ""], 0
        for told in client.stream(id):
            for step in told.steps if isinstance(told, Steps) else ():
                tokens, at = tokens + len(step.tokens), 0
                for part, characters, _ in step.spans:
                    parts[part], at = parts[part] + step.text[at : at + characters], at + characters
                if tokens == said:
                    client.send(Switch(id, "speculation K=10"))
        assert isinstance(told, Finished)
        assert (parts, tokens) == (["Hi there.", "Hm, so I say."], len(whole))
        assert (told.served["seams"], told.served.get("doubt")) == (
            f"speculation K=10 went on from the same {said} token{'s' * (said > 1)}.",
            None,
        )
