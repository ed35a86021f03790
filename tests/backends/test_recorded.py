"""The recorded transcript as a model: the session contract against a naive model, and what a chat with it answers."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specchat.backends import ROOT, Sampling, UserError, load_model
from specchat.backends.recorded import CERTAINTY, RecordedModel, RecordedSession, load_recorded
from specchat.backends.transcripts import Transcript, WordTokenizer, encode_transcript, read_transcripts
from specchat.decoders import generate

from ..cases import cases

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


class NaiveSession:
    """Committed tokens and a dict of nodes; every path is rebuilt from the start."""

    def __init__(self) -> None:
        self.tokens: list[int] = []
        self.nodes: dict[int, tuple[int, int]] = {}
        self.next = 0

    def path(self, node: int) -> list[int]:
        out: list[int] = []
        while node != ROOT:
            out.insert(0, self.nodes[node][0])
            node = self.nodes[node][1]
        return self.tokens + out

    def ancestors(self, node: int) -> list[int]:
        out: list[int] = []
        while node != ROOT:
            out.insert(0, node)
            node = self.nodes[node][1]
        return out

    def commit(self, path: list[int], keep: list[int]) -> None:
        end = path[-1] if path else ROOT
        kept = {}
        for node in keep:
            line = self.ancestors(node)
            below = line[len(path) :]
            if line[: len(path)] == path and below and set(below) <= set(keep):
                kept[node] = (self.nodes[node][0], ROOT if self.nodes[node][1] == end else self.nodes[node][1])
        self.tokens += [self.nodes[node][0] for node in path]
        self.nodes = kept
        if not kept:
            self.next = 0

    def drop(self, gone: list[int]) -> None:
        self.nodes = {n: self.nodes[n] for n in list(self.nodes) if not set(self.ancestors(n)) & set(gone)}
        if gone:
            self.next = max(self.nodes, default=ROOT) + 1

    def rewind(self, length: int) -> None:
        self.tokens, self.nodes, self.next = self.tokens[:length], {}, 0


@cases(150)
@given(st.data())
def test_random_growth_equals_a_naive_model(data: st.DataObject) -> None:
    records = data.draw(st.lists(st.tuples(SMALL, SMALL), min_size=1, max_size=4))
    model = RecordedModel(records)
    eos = model.info.eos_ids[0]
    real, naive = model.open_session(), NaiveSession()
    evaluated = 0
    for _ in range(data.draw(st.integers(1, 8))):
        alive = sorted(naive.nodes)
        match data.draw(st.sampled_from(["grow", "grow", "grow", "commit", "drop", "rewind"])):
            case "grow":
                first = naive.next
                tokens = data.draw(st.lists(st.integers(0, 2), max_size=4))
                parents = []
                for i, token in enumerate(tokens):
                    parents.append(data.draw(st.sampled_from([ROOT, *alive, *range(first, first + i)])))
                    naive.nodes[first + i] = (token, parents[-1])
                naive.next += len(tokens)
                evaluated += len(tokens)
                scores = real.evaluate(tokens, parents)
                new = list(range(first, first + len(tokens)))
                assert list(scores.nodes) == new
                assert list(scores.positions) == [len(naive.path(node)) for node in new]
                assert scores.choose(GREEDY) == [naive_choice(records, naive.path(node), eos) for node in new]
            case "commit":
                node = data.draw(st.sampled_from([ROOT, *alive]))
                keep = data.draw(st.lists(st.sampled_from(alive), unique=True)) if alive else []
                path = naive.ancestors(node)
                naive.commit(path, [n for n in keep if n not in path])
                real.commit(path, keep)
            case "drop":
                gone = data.draw(st.lists(st.sampled_from(alive))) if alive else []
                naive.drop(gone)
                real.drop(gone)
            case "rewind":
                length = data.draw(st.integers(0, len(naive.tokens)))
                naive.rewind(length)
                real.rewind(length)
        assert list(real.tokens) == naive.tokens
        assert real.length == len(naive.tokens)
        assert sorted(real._nodes) == sorted(naive.nodes)
    assert real.nodes_evaluated == evaluated


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
    file = tmp_path / "answers.jsonl"
    rows = [("plain", "What is <think>?</think>"), ("hello", "<think>\nShe says hello.\n</think>\n\nHello!")]
    file.write_text("".join(json.dumps({"prompt": prompt, "response": response}) + "\n" for prompt, response in rows))
    model = load_recorded(file)

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
