"""Whatever the fields hold comes out as it went in, and nothing else passes for a message."""

from __future__ import annotations

import json
from dataclasses import asdict, fields
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specchat.engine.failures import failure
from specchat.engine.messages import (
    Failed,
    Finished,
    Generate,
    Load,
    LoadBeside,
    Loaded,
    LoadedBeside,
    StepRecord,
    Steps,
    Switch,
)
from specchat.engine.wire import dump, parse

from ..cases import cases

# All of Unicode, lone surrogates and control characters included.
texts = st.text(st.characters(codec=None, exclude_categories=()), max_size=200)
numbers = st.integers(-(2**63), 2**63)
seconds = st.floats(allow_nan=False)
plain = st.recursive(st.none() | st.booleans() | numbers | seconds | texts, lambda inner: st.lists(inner, max_size=3))
names = st.dictionaries(texts, plain, max_size=4)
KINDS: dict[str, st.SearchStrategy[Any]] = {
    "str": texts,
    "int": numbers,
    "float": seconds,
    "Sequence[int]": st.lists(numbers, max_size=8),
    "Sequence[float]": st.lists(seconds, max_size=8),
    "Sequence[str]": st.lists(texts, max_size=8),
    "Sequence[Sequence[int]]": st.lists(st.lists(numbers, max_size=3), max_size=4),
}
steps = st.builds(StepRecord, **{each.name: KINDS[str(each.type)] for each in fields(StepRecord)})
messages = st.one_of(
    st.builds(Load, id=numbers, model=texts, context=st.none() | numbers),
    st.builds(Generate, id=numbers, prompt=st.none() | texts, settings=names, sampling=names, stop=st.lists(texts)),
    st.builds(Generate, id=numbers, messages=st.lists(st.fixed_dictionaries({"role": texts, "content": texts}), max_size=3)),
    st.builds(Switch, id=numbers, method=texts, settings=names),
    st.builds(LoadBeside, id=numbers, key=texts, model=texts, options=names, lanes=numbers),
    st.builds(LoadedBeside, id=numbers, key=texts, info=names, tokenizer=texts, own=texts),
    st.builds(Loaded, id=numbers, info=names, unavailable=st.dictionaries(texts, texts, max_size=3)),
    st.builds(Steps, id=numbers, steps=st.lists(steps, max_size=4)),
    st.builds(Finished, id=numbers, reason=texts, tail=texts, prefill_seconds=seconds, busy_seconds=seconds),
    st.builds(Failed, id=numbers, cause=texts, sentence=texts, ended=st.booleans(), others=st.lists(numbers, max_size=3)),
)


@cases(500)
@given(messages)
def test_round_trip(message: Any) -> None:
    line = dump(message)
    assert line.count(b"\n") == 1
    assert line.endswith(b"\n")
    assert parse(line) == message


def test_a_huge_text_survives() -> None:
    message = Generate(1, prompt="\x00\ud800🤷🏽‍♀️\u2028\r\n" * 500_000)
    assert parse(dump(message)) == message


def test_unknown_fields_are_ignored() -> None:
    body = {"kind": "Switch", **asdict(Switch(3, "lookup")), "tomorrow": 1}
    assert parse(json.dumps(body).encode()) == Switch(3, "lookup")
    wide = StepRecord("greedy", [1], "a")
    assert parse(dump(Steps(1, [wide])).replace(b"[]]]", b"[],9]]")) == Steps(1, [wide])


@pytest.mark.parametrize(
    "line",
    [
        *(b"", b"\n", b"null", b"[]", b"7", b'"Load"', b"{}", b"{", b"\xff\xfe", b"llama_model_loader: loaded"),
        *(b'{"kind":"Nothing"}', b'{"kind":[]}', b'{"kind":{}}', b'{"kind":"Load"}', b'{"kind":"StepRecord"}'),
        *(b'{"kind":"Steps","id":1,"steps":7}', b'{"kind":"Steps","id":1,"steps":[7]}', b"[" * 100_000),
    ],
    ids=lambda line: repr(line[:40]),
)
def test_anything_else_is_refused(line: bytes) -> None:
    with pytest.raises(ValueError, match="not a message"):
        parse(line)


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        RuntimeError("[enforce fail] DefaultCPUAllocator: not enough memory: you tried"),
        ImportError("libtorch_cpu.so: failed to map segment from shared object"),
        OSError(12, "Cannot allocate memory"),
    ],
)
def test_what_memory_is_lacking_for_is_told_as_memory(error: Exception) -> None:
    told = failure(1, error, "m")
    assert (told.cause, "not enough memory for m" in told.sentence) == ("memory", True)
