"""A chat as JSON, with everything: it can be opened again. docs/files.md describes the format."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

from ...engine.messages import FIELDS, StepRecord
from ..chat.entries import SEVERITIES, Answer, ChatEntry, Figures, Notice, Prompt
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
NO_ID = -1
"""What stands in place of the id of a token that a server did not send."""
_OWN = {
    *("method", "tokens", "text", "held", "spans", "path", "draft_seconds", "forward_seconds", "other_seconds"),
    *("tree_tokens", "tree_parents", "drafters", "sources", "shares"),
}
"""Fields of a step that have another name or place in the file, or none."""
_SAME = {name: nothing for name, nothing in FIELDS.items() if name not in _OWN}
"""The others, with what they are where the file does not have them."""
_USUAL = {"drafted", "accepted", "nodes", "carried", "probs", "declined"}
_MORE = {name: nothing for name, nothing in _SAME.items() if name not in _USUAL}
"""Those that few runs have."""
_LARGEST = 3.4e38
"""Largest value of a 32-bit float, as the log keeps seconds."""


def chat_json(chat: SavedChat) -> Iterator[str]:
    """The file's text: an entry to a line, a run to a line, so that tools that work by lines can read it too."""
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
            yield from answer_json(entry, chat.texts(entry), {"kind": "answer"})
        else:
            yield dump(entry_head(entry))
    yield "\n ]\n}\n"


def answer_json(answer: Answer, pieces: Pieces, more: dict[str, Any]) -> Iterator[str]:
    """An answer as an object, after some fields of the caller's; `pieces` are the token texts."""
    yield dump(answer_head(answer, more))[:-1] + ', "runs": ['
    steps = steps_of(answer)
    seen: set[int] = set()
    for index in range(steps):
        yield (",\n   " if index else "\n   ") + run_json(answer, index, seen)
    yield f'\n  ], "tail": {dump(tail_of(answer, steps))}, "pieces": {dump(pieces_body(seen, pieces))}}}'


def entry_head(entry: ChatEntry) -> dict[str, Any]:
    """A prompt or a notice as an object; of an answer all but its runs, its tail and its token texts."""
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


def run_json(answer: Answer, index: int, seen: set[int]) -> str:
    """A run as an object; its tokens are added to `seen`."""
    step = answer.log.record(index)
    seen.update(step.tokens, step.tree_tokens)
    return dump(run_body(answer.runs[index], step))


def figures_body(figures: Figures) -> dict[str, Any]:
    body = {name: getattr(figures, name) for name in _FIGURES}
    more = {name: value for name in _RARE if (value := getattr(figures, name))}
    return body | more | ({} if figures.valid is None else {"valid": figures.valid})


def pieces_body(tokens: Iterable[int], pieces: Pieces) -> dict[str, str]:
    return {str(token): raw for token in sorted(tokens) if (raw := pieces.raw(token))}


def run_body(run: Run, step: StepRecord) -> dict[str, Any]:
    body: dict[str, Any] = {
        "text": run.text,
        "tokens": step.tokens,
        "method": run.method,
        "shade": run.shade,
        "seconds": run.seconds,
        "draft": _short(step.draft_seconds),
        "forward": _short(step.forward_seconds),
        "other": _short(step.other_seconds),
        "nodes": step.nodes,
    }
    if run.spans:
        body["spans"] = run.spans
    if step.drafted or step.accepted:
        body["drafted"], body["accepted"] = step.drafted, step.accepted
    if step.carried:
        body["carried"] = step.carried
    if step.tree_tokens:
        body["tree"] = {"tokens": step.tree_tokens, "parents": step.tree_parents}
        if step.drafters:
            body["tree"] |= {"drafters": step.drafters, "sources": step.sources}
        if step.shares:
            body["tree"]["shares"] = [_short(share) for share in step.shares]
    if step.path:
        body["path"] = step.path
    if step.probs:
        body["probs"] = [_short(prob) for prob in step.probs]
    if step.declined:
        body["declined"] = [_short(value) for value in step.declined]
    for name, default in _MORE.items():
        if (value := getattr(step, name)) != default:
            body[name] = _short(value) if isinstance(value, float) else value
    return body


def read_chat(path: Path) -> SavedChat:
    """The chat in a file: its answers show their colours, figures and trees as they did.

    Raises:
        UserError: the file cannot be read or is no such chat; names what is wrong.
    """
    return read(path, FORMAT, VERSION, chat_of)


def chat_of(table: Table) -> SavedChat:
    """The chat in an object.

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
    """The prompt, notice or answer in an object.

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
    """The answer in an object.

    Raises:
        BadFile: something is missing or is not as it must be.
    """
    # Names are shown on one line, beside what is the model's.
    answer = Answer(one_line(entry.text("method")), one_line(entry.text("label")))
    for run in entry.tables("runs"):
        made = answer.add(_step(run))
        made.seconds = run.number("seconds")
        made.shade = run.count("shade", made.shade, WRITTEN, SHADES - 1)
    answer.finish(one_line(entry.optional_text("reason") or "unfinished"), entry.text("tail", ""))
    figures = entry.table("figures")
    for name in _FIGURES:
        setattr(answer.figures, name, figures.number(name) if name.endswith("seconds") else figures.count(name))
    answer.figures.plain_seconds = figures.number("plain_seconds", 0.0)
    answer.figures.rested, answer.figures.contended = (figures.data.get(name) is True for name in ("rested", "contended"))
    answer.figures.certainty = one_line(figures.text("certainty", ""))
    answer.figures.doubt = one_line(figures.text("doubt", ""))
    answer.figures.valid = valid if isinstance(valid := figures.data.get("valid"), bool) else None
    pieces = entry.table("pieces", {})
    known = {}
    for key in pieces.data:
        if not (key.isascii() and key.isdigit() and len(key) < 11):
            raise BadFile(f"{pieces.place} has {key!r}, which is no token's number")
        known[int(key)] = pieces.text(key)
    answer.pieces = SomePieces(known)
    answer.asked = asked_of(entry.data.get("asked"))
    return answer


def asked_of(value: Any) -> dict[str, Any]:
    """What an answer was asked with; nothing where that is not known, or not as it must be."""
    kinds = {"model": str, "method": str, "settings": dict, "sampling": dict, "accept": str, "stop": list}
    if not isinstance(value, dict) or not all(isinstance(value.get(name), kind) for name, kind in kinds.items()):
        return {}
    kept = isinstance(value.get("max_tokens"), int | None) and isinstance(value.get("stop_loops", False), bool)
    more = {"think": str, "think_budget": int | None, "template_vars": dict}
    kept = kept and all(isinstance(value[name], kind) for name, kind in more.items() if name in value)
    return value if kept else {}


def _step(run: Table) -> StepRecord:
    tokens, text = run.counts("tokens", least=NO_ID), run.text("text")
    seconds = [run.number(name) for name in ("draft", "forward", "other")]
    more = {name: _more(run, name, default) for name, default in _SAME.items() if name in run.data}
    if max(*seconds, *(value for value in more.values() if isinstance(value, float))) > _LARGEST:
        raise BadFile(f"{run.place} took too long to be true")
    tree_tokens: list[int] = []
    parents: list[int] = []
    drafters: list[str] = []
    sources: list[int] = []
    shares: list[float] = []
    path = run.counts("path", [])
    if "tree" in run.data:
        tree = run.table("tree")
        drafters = [one_line(name) for name in tree.texts("drafters", [])]
        sources, shares = tree.counts("sources", []), tree.numbers("shares", [])
        tree_tokens, parents = tree.counts("tokens"), tree.counts("parents", least=-1)
        right = len(parents) == len(tree_tokens) and parents[:1] == [-1]
        if not right or not all(0 <= parent < node for node, parent in enumerate(parents[1:], 1)):
            raise BadFile(f"{tree.place}.parents do not make a tree of its tokens")
        if len(sources) != (len(tree_tokens) if drafters else 0) or any(source >> len(drafters) for source in sources):
            raise BadFile(f"{tree.place}.sources do not say which drafters guessed its tokens")
        if any(node >= len(parents) for node in path) or path[:1] not in ([], [0]):
            raise BadFile(f"{run.place}.path leaves the tree")
        if any(parents[node] != before for before, node in pairwise(path)):
            raise BadFile(f"{run.place}.path is no path of the tree")
    if more.get("carried", 0) > len(text):
        raise BadFile(f"{run.place}.carried is more than its text has")
    spans = run.rows("spans", 3)
    if spans and [sum(row[at] for row in spans) for at in (1, 2)] != [len(text), len(tokens)]:
        raise BadFile(f"{run.place}.spans do not add up to its text and tokens")
    return StepRecord(
        one_line(run.text("method")),
        tokens,
        text,
        draft_seconds=seconds[0],
        forward_seconds=seconds[1],
        other_seconds=seconds[2],
        tree_tokens=tree_tokens,
        tree_parents=parents,
        path=path,
        drafters=drafters,
        sources=sources,
        shares=shares,
        spans=spans,
        **more,
    )


def _more(run: Table, name: str, default: Any) -> Any:
    match default:
        case str():
            return one_line(run.text(name))
        case list():
            return run.numbers(name)
        case float():
            return run.number(name)
        case _:
            return run.count(name)


def _short(value: float) -> float:
    """A 32-bit float in as few digits as bring it back."""
    return float(f"{value:.9g}")


def dump(value: Any) -> str:
    # Only what the file's encoding lacks is escaped, when it is written; other scripts stay readable.
    return json.dumps(value, ensure_ascii=False)
