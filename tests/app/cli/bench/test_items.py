"""Prompts from files of every kind, and what is wrong in them."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet
import pytest

from specchat.app.cli.bench.items import MASKED, MT_BENCH, read_items
from specchat.errors import UserError


def file(folder: Path, text: str, name: str = "p.jsonl") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def test_lines_of_every_kind_become_prompts(tmp_path: Path) -> None:
    chat = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]
    rows = [{"prompt": "one"}, {"turns": ["x", "y"], "category": "math"}, {"messages": chat, "category": "chat"}]
    found = read_items(file(tmp_path, "\n".join(map(json.dumps, rows)) + "\n\n"), None)
    assert [(i.id, i.category, i.turns) for i in found.items[:3]] == [
        ("1", "prompts", ("one",)),
        ("2", "math", ("x",)),
        ("2/2", "math", ("x", "y")),
    ]
    assert found.items[3].messages == ({"role": "user", "content": "a"},)  # an answer at the end is not asked for
    assert found.problems == []


def test_bad_lines_are_named_and_the_rest_goes_on(tmp_path: Path) -> None:
    bad = ['{"category": "math"}', "nonsense", '{"turns": []}', "[1]", '{"messages": [{"role": "user"}]}', '{"prompt": " "}']
    text = "\n".join(['{"prompt": "a"}', *bad])
    found = read_items(file(tmp_path, text), None)
    assert len(found.items) == 1
    assert [f"line {n}" in problem for n, problem in zip(range(2, 8), found.problems, strict=True)] == [True] * 6


def test_a_category_without_prompts_is_said(tmp_path: Path) -> None:
    path = file(tmp_path, '{"prompt": "a", "category": "x"}\n')
    found = read_items(path, None, ("x", "nope"))
    assert len(found.items) == 1
    assert "no category 'nope': choose from x" in found.problems[0]
    with pytest.raises(UserError, match="no category 'nope'"):
        read_items(path, None, ("nope",))


@pytest.mark.parametrize("text", ["", "\n\n", "nonsense {"])
def test_a_file_without_prompts_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(UserError, match=r"p\.jsonl"):
        read_items(file(tmp_path, text), None)


def test_spec_bench_and_speed_bench_are_read_as_they_are_published(tmp_path: Path) -> None:
    names = (*MT_BENCH, "translation", "summarization", "qa", "math_reasoning", "rag")
    rows = [{"question_id": 81 + i, "category": name, "turns": ["a"], "reference": []} for i, name in enumerate(names)]
    found = read_items(file(tmp_path, "\n".join(map(json.dumps, rows))), 2)
    assert [item.category for item in found.items] == ["mt_bench"] * 2 + list(names[8:])

    columns = {
        "question_id": ["a", "b", "c"],
        "category": ["coding", "roleplay", "roleplay"],
        "sub_category": ["python", "", ""],
        "turns": [["x", "y"], ["z"], [MASKED]],
        "multiturn": [True, False, False],
    }
    pyarrow.parquet.write_table(pyarrow.table(columns), tmp_path / "test-00000-of-00001.parquet")
    found = read_items(tmp_path / "test-00000-of-00001.parquet", None)
    assert [(item.category, item.turns) for item in found.items] == [
        ("coding", ("x",)),
        ("coding", ("x", "y")),
        ("roleplay", ("z",)),
    ]
    assert "1 prompt is a placeholder" in found.problems[0]
    with pytest.raises(UserError, match="not a Parquet file"):
        read_items(file(tmp_path, "text", "p.parquet"), None)
