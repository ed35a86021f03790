"""Files of any size, broken ones among them, record by record."""

from __future__ import annotations

import io
import json
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specchat.app.importing import stream
from specchat.app.importing.stream import records

from ...cases import cases

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=12,
)


def read(data: bytes) -> list[Any]:
    return [record.data if not record.why else record.why for record in records(io.BytesIO(data))]


@cases(120)
@given(st.lists(VALUES, max_size=6), st.integers(1, 40), st.sampled_from([None, 1]), st.booleans())
def test_an_array_gives_its_elements_wherever_the_reads_end(
    items: list[Any], chunk: int, indent: int | None, plain: bool
) -> None:
    before = stream.CHUNK
    stream.CHUNK = chunk
    try:
        assert read(json.dumps(items, indent=indent, ensure_ascii=plain).encode("utf-8", "surrogatepass")) == items
    finally:
        stream.CHUNK = before


@cases(120)
@given(
    st.lists(st.dictionaries(st.text(max_size=4), VALUES, min_size=1, max_size=4), min_size=1, max_size=6),
    st.integers(1, 40),
    st.booleans(),
)
def test_lines_and_values_in_a_row_give_each(items: list[Any], chunk: int, pretty: bool) -> None:
    before = stream.CHUNK
    stream.CHUNK = chunk
    text = "\n".join(json.dumps(item, indent=2 if pretty else None) for item in items)
    try:
        assert read(text.encode()) == items
    finally:
        stream.CHUNK = before


@cases(200)
@given(st.binary(max_size=200) | st.text('[]{}",:\\n a1', max_size=60).map(str.encode), st.integers(1, 20))
def test_any_bytes_are_read_to_their_end(data: bytes, chunk: int) -> None:
    before = stream.CHUNK
    stream.CHUNK = chunk
    try:
        for record in records(io.BytesIO(data)):
            assert record.place
    finally:
        stream.CHUNK = before


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-32"])
def test_files_of_other_encodings_are_read(encoding: str) -> None:
    assert read('[{"a": "ä€😀"}]'.encode(encoding)) == [{"a": "ä€😀"}]


def test_broken_lines_are_named_and_the_rest_goes_on() -> None:
    found = list(
        records(io.BytesIO(b'\n{"a": 1}\n{"a": \n\n{"a": 2}\n' + b"[" * 100_000 + b"\n" + b'{"n": ' + b"9" * 9999 + b"}\n{}"))
    )
    assert [(record.place, record.data) for record in found if not record.why] == [
        ("line 2", {"a": 1}),
        ("line 5", {"a": 2}),
        ("line 8", {}),
    ]
    assert [(record.place, record.why.split(" (")[0]) for record in found if record.why] == [
        ("line 3", "is not JSON"),
        ("line 6", "is nested too deep"),
        ("line 7", "has a number that is too long"),
    ]


def test_a_broken_element_does_not_stop_the_others() -> None:
    assert read(b'[{"a": 1}, {"a": nope}, , {"a": 2}]') == [
        {"a": 1},
        "is not JSON (Expecting value: line 1 column 8 (char 7))",
        {"a": 2},
    ]


def test_a_file_that_breaks_off_gives_what_is_whole() -> None:
    assert read(b'[{"a": 1}, {"a": "half') == [{"a": 1}, "breaks off: the file is not whole"]
    assert read(b'[{"a": 1},') == [{"a": 1}, "is missing: the file is not whole"]


def test_a_record_that_is_too_long_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "MOST_BYTES", 1000)
    monkeypatch.setattr(stream, "CHUNK", 256)
    long = json.dumps({"a": "x" * 5000}).encode()
    for data in (b"[" + long + b', {"b": 1}]', b"{}\n" + long + b'\n{"b": 1}'):
        found = list(records(io.BytesIO(data)))
        assert found[-1].data == {"b": 1}
        assert "longer than" in found[-2].why


def test_memory_holds_a_record_and_not_the_file(tmp_path: Path) -> None:
    path = tmp_path / "big.json"
    record = json.dumps({"messages": [{"role": "user", "content": "lamp " * 2000}] * 5})
    with path.open("w") as file:
        file.write("[" + ",".join([record] * 600) + "]")
    assert path.stat().st_size > 30_000_000
    tracemalloc.start()
    with path.open("rb") as opened:
        count = sum(not found.why for found in records(opened))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert count == 600
    assert peak < 8_000_000
