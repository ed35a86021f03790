"""A chat as JSON, which can be opened again. docs/files.md describes the format."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

from ...engine.messages import FIELDS, StepRecord
from ...engine.options import RequestOptions
from ...errors import UserError
from ...option import declared_options
from ..chat.entries import NO_ID, SEVERITIES, Answer, ChatEntry, Figures, Notice, Prompt
from ..chat.pieces import Pieces, SomePieces
from ..chat.runs import SHADES, WRITTEN, Run
from ..chat.transcript import Transcript
from ..text.cells import one_line
from .capture import SavedChat
from .reading import BadFile, Table, read

FORMAT = "specchat chat"
VERSION = 1

_FIGURES = ("prompt_tokens", "reused", "tokens", "steps", "drafted", "accepted", "prefill_seconds", "decode_seconds")
_RARE = ("plain_seconds", "rested", "contended", "certainty", "doubt")
_SECONDS = {"draft_seconds": "draft", "forward_seconds": "forward", "other_seconds": "other"}
"""Fields of a step's seconds → their names in the file."""
_TREE = {"tree_tokens": "tokens", "tree_parents": "parents", "drafters": "drafters", "sources": "sources", "shares": "shares"}
"""Fields of a step's tree → their names in the file's `tree`."""
_HEAD = ("text", "tokens", "method", "spans", "path", "held")
"""Fields with code of their own; `held` is in no file."""
_PLAIN = {name: absent for name, absent in FIELDS.items() if name not in {*_SECONDS, *_TREE, *_HEAD}}
"""The other fields of a step, which the file has under their own names → the value that means absent."""
_LAST = [name for name in _PLAIN if name not in ("drafted", "accepted", "nodes", "carried", "probs", "declined")]
"""Fields of few runs, at their end in the file."""
_LARGEST = 3.4e38
"""Largest value of a 32-bit float, the type of seconds in the log."""


def chat_json(chat: SavedChat) -> Iterator[str]:
    """Yield the file's text, with a line for each entry and each run, for tools that work by lines."""
    head = {
        "format": FORMAT,
        "version": VERSION,
        "specchat": chat.version,
        "saved": chat.saved,
        "model": chat.model,
        "settings": chat.settings,
        "system": chat.transcript.system,
    }
    yield "{" + "".join(f"\n {dump(key)}: {dump(value)}," for key, value in head.items()) + '\n "entries": ['
    for i, entry in enumerate(chat.transcript.entries):
        yield ",\n  " if i else "\n  "
        if isinstance(entry, Answer):
            yield from answer_json(entry, chat.pieces_of(entry), {"kind": "answer"})
        else:
            yield dump(entry_head(entry))
    yield "\n ]\n}\n"


def answer_json(answer: Answer, pieces: Pieces, more: dict[str, Any]) -> Iterator[str]:
    """Yield an answer as an object that begins with the fields `more`; `pieces` are the token texts."""
    yield dump(answer_head(answer, more))[:-1] + ', "runs": ['
    steps = steps_of(answer)
    token_ids: set[int] = set()
    for index in range(steps):
        yield (",\n   " if index else "\n   ") + run_json(answer, index, token_ids)
    yield f'\n  ], "tail": {dump(tail_of(answer, steps))}, "pieces": {dump(pieces_body(token_ids, pieces))}}}'


def entry_head(entry: ChatEntry) -> dict[str, Any]:
    """Return a prompt or a notice as an object, or an answer without its runs, its tail and its token texts."""
    match entry:
        case Prompt(text):
            return {"kind": "prompt", "text": text}
        case Notice(text, severity):
            return {"kind": "notice", "severity": severity, "text": text}
        case Answer():
            return answer_head(entry, {"kind": "answer"})


def answer_head(answer: Answer, more: dict[str, Any]) -> dict[str, Any]:
    head = {**more, "method": answer.method, "label": answer.label, "reason": answer.reason}
    if answer.asked:
        head["asked"] = answer.asked
    if thought := answer.thought:
        head["thought"] = thought  # for other programs: the runs have it too
    return {**head, "figures": figures_body(answer.figures)}


def steps_of(answer: Answer) -> int:
    """Count the runs of an answer that have a step; the rest is its tail."""
    return min(len(answer.log), len(answer.runs))


def tail_of(answer: Answer, steps: int) -> str:
    return "".join(run.text for run in answer.runs[steps:]) + answer.held


def run_json(answer: Answer, index: int, token_ids: set[int]) -> str:
    """Format a run as an object; its tokens are added to `token_ids`."""
    step = answer.log.record(index)
    token_ids.update(step.tokens, step.tree_tokens)
    return dump(run_body(answer.runs[index], step))


def figures_body(figures: Figures) -> dict[str, Any]:
    body = {name: getattr(figures, name) for name in _FIGURES}
    more = {name: value for name in _RARE if (value := getattr(figures, name))}
    return body | more | ({} if figures.valid is None else {"valid": figures.valid})


def pieces_body(tokens: Iterable[int], pieces: Pieces) -> dict[str, str]:
    return {str(token): raw for token in sorted(tokens) if (raw := pieces.raw(token))}


def run_body(run: Run, step: StepRecord) -> dict[str, Any]:
    optional: dict[str, Any] = {"spans": run.spans}
    if step.drafted or step.accepted:
        optional |= {"drafted": step.drafted, "accepted": step.accepted}
    tree = {key: value for name, key in _TREE.items() if (value := _short(getattr(step, name)))}
    optional |= {"carried": step.carried, "tree": tree if step.tree_tokens else {}}
    optional |= {name: _short(getattr(step, name)) for name in ("path", "probs", "declined", *_LAST)}
    return {
        "text": run.text,
        "tokens": step.tokens,
        "method": run.method,
        "shade": run.shade,
        "seconds": run.seconds,
        **{key: _short(getattr(step, name)) for name, key in _SECONDS.items()},
        "nodes": step.nodes,
        **{name: value for name, value in optional.items() if value or name in ("drafted", "accepted")},
    }


def read_chat(path: Path) -> SavedChat:
    """Read a chat, whose answers have their colours, figures and trees.

    Raises:
        UserError: the file cannot be read or is no such chat; names what is wrong.
    """
    return read(path, FORMAT, VERSION, chat_of)


def chat_of(table: Table) -> SavedChat:
    """Read the chat in an object.

    Raises:
        BadFile: something is missing or is not as it must be.
    """
    transcript = Transcript(system=table.optional_text("system"))
    transcript.entries += map(read_entry, table.tables("entries"))
    return SavedChat(
        transcript,
        table.table("model", {}).data,
        table.table("settings", {}).data,
        table.text("saved", ""),
        table.text("specchat", ""),
    )


def read_entry(entry: Table) -> ChatEntry:
    """Read the prompt, notice or answer in an object.

    Raises:
        BadFile: something is missing or is not as it must be.
    """
    match kind := entry.text("kind"):
        case "prompt":
            return Prompt(entry.text("text"))
        case "notice":
            return Notice(entry.text("text"), entry.word("severity", SEVERITIES, "information"))
        case "answer":
            return read_answer(entry)
        case _:
            raise BadFile(f"{entry.place}.kind is {kind!r}, which is none of prompt, answer, notice")


def read_answer(entry: Table) -> Answer:
    """Read the answer in an object.

    Raises:
        BadFile: something is missing or is not as it must be.
    """
    answer = Answer(one_line(entry.text("method")), one_line(entry.text("label")))
    for table in entry.tables("runs"):
        run = answer.add(_step(table))
        run.seconds = table.number("seconds")
        run.shade = table.count("shade", run.shade, WRITTEN, SHADES - 1)
    answer.finish(one_line(entry.optional_text("reason") or "unfinished"), entry.text("tail", ""))
    figures = entry.table("figures")
    for name in _FIGURES:
        setattr(answer.figures, name, figures.number(name) if name.endswith("seconds") else figures.count(name))
    answer.figures.plain_seconds = figures.number("plain_seconds", 0.0)
    for name in ("rested", "contended"):
        setattr(answer.figures, name, figures.data.get(name) is True)
    for name in ("certainty", "doubt"):
        setattr(answer.figures, name, one_line(figures.text(name, "")))
    answer.figures.valid = valid if isinstance(valid := figures.data.get("valid"), bool) else None
    pieces = entry.table("pieces", {})
    if wrong := next((key for key in pieces.data if not (key.isascii() and key.isdigit() and len(key) < 11)), None):
        raise BadFile(f"{pieces.place} has {wrong!r}, which is no token's number")
    answer.pieces = SomePieces({int(key): pieces.text(key) for key in pieces.data})
    answer.asked = _request(entry.data.get("asked"))
    return answer


def _request(value: Any) -> dict[str, Any]:
    """Return an answer's request if it is valid, else an empty one."""
    kinds = {"model": str, "method": str, "settings": dict, "sampling": dict}
    if not isinstance(value, dict) or not all(isinstance(value.get(name), kind) for name, kind in kinds.items()):
        return {}
    try:
        for name, option in declared_options(RequestOptions).items():
            if value.get(name) is not None:
                option.parse(value[name], name)
    except UserError:
        return {}
    return value if isinstance(value.get("template_vars", {}), dict) else {}


def _step(run: Table) -> StepRecord:
    tokens, text = run.counts("tokens", least=NO_ID), run.text("text")
    values: dict[str, Any] = {name: run.number(key) for name, key in _SECONDS.items()}
    values |= {name: run.like(name, absent) for name, absent in _PLAIN.items() if name in run.data}
    if any(isinstance(value, float) and value > _LARGEST for value in values.values()):
        raise BadFile(f"{run.place} took too long to be true")
    path = run.counts("path", [])
    if "tree" in run.data:
        values |= _tree(run.table("tree"))
        parents = values["tree_parents"]
        if any(node >= len(parents) for node in path) or path[:1] not in ([], [0]):
            raise BadFile(f"{run.place}.path leaves the tree")
        if any(parents[node] != before for before, node in pairwise(path)):
            raise BadFile(f"{run.place}.path is no path of the tree")
    if values.get("carried", 0) > len(text):
        raise BadFile(f"{run.place}.carried is more than its text has")
    spans = run.rows("spans", 3)
    if spans and [sum(row[at] for row in spans) for at in (1, 2)] != [len(text), len(tokens)]:
        raise BadFile(f"{run.place}.spans do not add up to its text and tokens")
    return StepRecord(one_line(run.text("method")), tokens, text, path=path, spans=spans, **values)


def _tree(tree: Table) -> dict[str, Any]:
    """Read the fields of a step's tree."""
    tokens, parents = tree.counts("tokens"), tree.counts("parents", least=-1)
    drafters = [one_line(name) for name in tree.texts("drafters", [])]
    sources = tree.counts("sources", [])
    if len(parents) != len(tokens) or parents[:1] != [-1] or any(not 0 <= parents[n] < n for n in range(1, len(parents))):
        raise BadFile(f"{tree.place}.parents do not make a tree of its tokens")
    if len(sources) != (len(tokens) if drafters else 0) or any(source >> len(drafters) for source in sources):
        raise BadFile(f"{tree.place}.sources do not say which drafters guessed its tokens")
    return dict(zip(_TREE, (tokens, parents, drafters, sources, tree.numbers("shares", [])), strict=True))


def _short(value: Any) -> Any:
    """Round 32-bit floats, alone or in a list, to as few digits as restore them."""
    if isinstance(value, list):
        return [*map(_short, value)]
    return float(f"{value:.9g}") if isinstance(value, float) else value


def dump(value: Any) -> str:
    # Other scripts stay readable: only characters outside the file's encoding are escaped, when it is written.
    return json.dumps(value, ensure_ascii=False)
