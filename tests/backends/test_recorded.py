"""The recorded transcript as a model: the session contract against a naive model, and what a chat with it answers."""

from __future__ import annotations

import json
import math
import random
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from specchat.backends import ROOT, Sampling, UserError, load_model
from specchat.backends.recorded import CERTAINTY, RecordedModel, RecordedSession, load_recorded
from specchat.backends.transcripts import Transcript, WordTokenizer, encode_transcript, read_transcripts
from specchat.decoders import generate

from ..cases import cases
from ..fakes.models.mirror import Mirror
from ..fakes.records import recorded_model

GREEDY = Sampling()
SMALL = st.lists(st.integers(0, 2), max_size=5)  # few tokens, so that random paths stay on the record


def naive_choice(records: list[tuple[list[int], list[int]]], path: list[int], eos: int) -> int:
    """The documented rule, by comparing whole lists."""
    first: dict[tuple[int, ...], list[int]] = {}
    for start, response in records:
        first.setdefault(tuple(start), response)
    inside: list[int] = []
    before: list[int] = []
    for prompt, response in first.items():
        line = [*prompt, *response]
        if path == (line + [eos] * len(path))[: len(path)]:
            (inside if len(path) >= len(prompt) else before).append((line + [eos] * (len(path) + 1))[len(path)])
    return (inside + before + [eos])[0]


class RecordedMirror(Mirror):
    """A recorded model's session beside it, whose choices follow the documented rule."""

    def __init__(self, records: list[tuple[list[int], list[int]]]) -> None:
        model = RecordedModel(records)
        super().__init__(model.open_session())
        self.records, self.eos = records, model.info.eos_ids[0]

    def evaluate(
        self, ids: list[int], parents: list[int], rows: list[int] | None = None
    ) -> list[tuple[list[int], torch.Tensor]]:
        scores = self.scores(ids, parents, rows)
        assert scores.choose(GREEDY) == [naive_choice(self.records, self.text(node), self.eos) for node in scores.nodes]
        return []

    def check(self) -> None:
        assert list(self.session.tokens) == self.committed
        assert sorted(self.session._nodes) == sorted(self.nodes)


@cases(150)
@given(st.lists(st.tuples(SMALL, SMALL), min_size=1, max_size=4), st.integers(0, 1 << 32))
def test_random_growth_equals_a_naive_model(records: list[tuple[list[int], list[int]]], seed: int) -> None:
    mirror, rng = RecordedMirror(records), random.Random(seed)
    mirror.play(rng, [0, 1, 2] * 70, rng.randint(1, 8), mirror.check)


def decode(session: RecordedSession, prompt: list[int], limit: int = 200) -> list[int]:
    """Plain decoding: one node a step, EOS left out."""
    session.prefill(prompt[:-1])
    out, pending = [], prompt[-1]
    for _ in range(limit):
        scores = session.evaluate([pending], [ROOT])
        session.commit([0])
        pending = scores.choose(GREEDY)[0]
        if pending == session._model.tokenizer.eos_id:
            break
        out.append(pending)
    return out


def test_the_recorded_answer_comes_out_and_ends_in_eos() -> None:
    model = RecordedModel([([5, 6, 7], [8, 9]), ([5, 6], [7, 1])])
    assert decode(model.open_session(), [5, 6, 7]) == [8, 9]
    # [5, 6] has reached the second record's response, and only the first one's prompt.
    assert decode(model.open_session(), [5, 6]) == [7, 8, 9]  # and after the 7 the first one decides


def test_rows_and_probabilities() -> None:
    session = RecordedModel([([1, 2], [3, 4])]).open_session()
    scores = session.evaluate([1, 2, 3, 9], [ROOT, 0, 1, 1], rows=[3, 2])
    assert scores.nodes == (3, 2)
    assert scores.choose(GREEDY) == [256, 4]
    assert session.evaluate([4], [2], rows=()).choose(GREEDY) == []
    (top,) = session.evaluate([3], [1]).top(3)
    assert [token for token, _ in top] == [4, 0, 1]
    assert top[0][1] == pytest.approx(math.log(CERTAINTY))
    scores = session.evaluate([3], [1])
    assert scores.probs(0).sum() == pytest.approx(1, abs=1e-5)
    assert scores.probs(0)[4] == pytest.approx(CERTAINTY)
    assert scores.probs(0, GREEDY)[4] == 1
    assert scores.gap(0, 4) == 0
    assert scores.gap(0, 5) == pytest.approx(float(top[0][1] - top[1][1]))


def test_chat_finds_records_over_turns_and_echoes_what_it_does_not_know() -> None:
    texts = ["Say héllo 👩‍👩‍👧", "Good day to you, héllo 👩‍👩‍👧!"]
    tokenizer = WordTokenizer(texts)
    model = RecordedModel((), tokenizer=tokenizer)
    model.add(*encode_transcript(tokenizer, Transcript(texts[0], texts[1])), text=texts[0])
    chat = [{"role": "user", "content": texts[0]}]
    session = model.open_session()
    first = model.encode_chat(chat)
    assert first == model.encode(texts[0])  # one turn is the record itself
    assert model.decode(decode(session, first)) == texts[1]

    chat += [{"role": "assistant", "content": texts[1]}, {"role": "user", "content": "And who are you?"}]
    second = model.encode_chat(chat)
    shared = session.align(second[:-1])
    assert shared >= len(first) + len(model.encode(texts[1])) - 1  # the second turn reuses the first
    answer = model.decode(decode(session, second[shared:]))
    assert answer == "\n".join(["You said: And who are you?"] * 3)
    with pytest.raises(UserError, match="Write one"):
        model.encode_chat([{"role": "system", "content": "Be kind."}])


@given(st.text())
def test_the_built_in_tokenizer_loses_nothing(text: str) -> None:
    tokenizer = WordTokenizer(["the quick brown fox", "jumps 42 times"])
    clean = text.encode(errors="replace").decode()
    assert tokenizer.decode(tokenizer.encode(text)) == clean
    assert max(tokenizer.encode(text), default=0) < tokenizer.size == len(tokenizer.pieces())
    assert tokenizer.decode([0xE2, tokenizer.eos_id, 0x41]) == "\ufffdA"


def write(path: Path, *rows: object) -> Path:
    path.write_text("\n".join(row if isinstance(row, str) else json.dumps(row) for row in rows), encoding="utf-8")
    return path


def test_a_recorded_thought_is_no_answer(tmp_path: Path) -> None:
    said = {"plain": "What is <think>?</think>", "hello": "<think>\nShe says hello.\n</think>\n\nHello!"}
    model = load_model(recorded_model(tmp_path, said))

    def parts(prompt: str) -> tuple[str, str]:
        said = {0: "", 1: ""}
        for step in generate(model, prompt, method="lookup"):
            text = step.text
            for part, length, _ in step.spans or ([0, len(text), 0],):
                said[part], text = said[part] + text[:length], text[length:]
        return said[1], said[0]

    assert parts("hello") == ("She says hello.", "Hello!")
    assert parts("plain") == ("", "What is <think>?</think>")


def test_load_from_a_file(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", {"prompt": "One two", "response": " three four"}, "", {"prompt": "x", "response": ""})
    model = load_model(f"recorded:{path}?pace=0.001&context=500")
    assert (model.info.backend, model.info.context, model.info.path) == ("recorded", 500, str(path))
    session = model.open_session()
    assert isinstance(session, RecordedSession)
    assert model.decode(decode(session, model.encode("One two"))) == " three four"
    assert session.forward_seconds > 0.002
    assert [r.line for r in read_transcripts(path)] == [1, 3]


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        ((), "contains no records"),
        (('{"prompt": "a"}',), "line 1, needs"),
        (('{"prompt": "a", "response": "b"}', "", "{"), "line 3, is not JSON"),
        (("[]",), "line 1, needs"),
    ],
)
def test_bad_files_are_named_by_line(tmp_path: Path, rows: tuple[str, ...], says: str) -> None:
    with pytest.raises(UserError, match=says):
        load_recorded(write(tmp_path / "a.jsonl", *rows))
