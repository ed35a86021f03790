"""Recorded answers as `run --json` and `bench` write them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from specchat.backends.transcripts import scan_transcripts

CHAT = [{"role": "user", "content": "Hi"}]


def scan(tmp_path: Path, *rows: Any) -> tuple[list[Any], list[str]]:
    file = tmp_path / "r.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return scan_transcripts(file)


def test_ids_and_texts_under_their_other_name(tmp_path: Path) -> None:
    ids = {"token_ids": [7, 8], "prompt_ids": [1, 2, 3]}
    records, problems = scan(
        tmp_path,
        {"messages": CHAT, "text": "Yes", "finish_reason": "eos", **ids},
        {"prompt": "Hi", "text": "Yes", "finish_reason": "length", "token_ids": [7]},
        {"prompt": "Hi", "response": "Yes", "token_ids": ["7", True], "prompt_ids": [-1]},
    )
    assert problems == []
    assert [(record.response_ids, record.prompt_ids, record.ended) for record in records] == [
        ((7, 8), (1, 2, 3), True),
        ((7,), (), False),
        ((), (), True),
    ]


def test_a_record_of_bench_counts_each_prompt_once(tmp_path: Path) -> None:
    row = {"messages": CHAT, "text": "Yes", "item": "1", "method": "plain", "round": 0}
    records, problems = scan(
        tmp_path,
        {"specchat-bench": 1, "key": "k"},
        {"item": "2", "method": "plain", "round": 0, "error": "gone"},
        row,
        {**row, "round": 1},
        {**row, "method": "ngram"},
        {**row, "item": "2"},
    )
    assert (len(records), problems) == (2, [])
