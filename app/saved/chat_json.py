"""A chat to be saved, chats and races as JSON, and chats read back. docs/files.md describes the format."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import MISSING, dataclass, field, fields, replace
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

from ... import plain_file
from ...engine.messages import FIELDS, StepRecord
from ...engine.wire import decode
from ...errors import UserError
from ..chat.about import About, SavableChat, public
from ..chat.entries import SEVERITIES, Answer, ChatEntry, Notice, Prompt
from ..chat.runs import SHADES, WRITTEN, Pieces, Run, SomePieces
from ..chat.transcript import Transcript
from ..race.models import short_name
from ..race.record import RaceRecord
from ..text.cells import one_line

MOST_BYTES = 200_000_000
"""Most bytes of a saved chat: an answer of 100,000 tokens with all its trees has some 100 MB."""

FORMAT = "specchat chat"
VERSION = 1

_SECONDS = {"draft_seconds": "draft", "forward_seconds": "forward", "other_seconds": "other"}
"""Fields of a step's seconds → their names in the file."""
_TREE = {"tree_tokens": "tokens", "tree_parents": "parents", "drafters": "drafters", "sources": "sources", "shares": "shares"}
"""Fields of a step's tree → their names in the file's `tree`."""
_OWN = ("text", "tokens", "method", "spans", "drafted", "accepted", "nodes", "carried", "path", "probs", "declined", "held")
"""Fields with a place of their own in the file; `held` is in no file."""
_LAST = [name for name in FIELDS if name not in {*_SECONDS, *_TREE, *_OWN}]
"""Fields of few runs, at their end in the file."""

Body = Mapping[str, Any]
"""An object in a file."""


DAMAGE = (AttributeError, ArithmeticError, LookupError, TypeError, ValueError)
"""Errors that a value of another type, or a missing one, gives rise to."""


class BadFile(ValueError):
    """An invalid file; says which part of it."""


@dataclass(slots=True)
class SavedChat:
    """A chat with everything that an export contains."""

    transcript: Transcript
    model: Body = field(default_factory=dict)
    """`asked`: the model's name as the user wrote it; the rest is the engine's description."""
    settings: Body = field(default_factory=dict)
    """`method`, `methods` (the settings of each), `sampling`, `accept`, `max_tokens`, `stop`, `stop_loops`, `think`,
    `think_budget`, `template_var`."""
    saved: str = ""
    """Local time of the capture with its offset, ISO 8601."""
    version: str = ""
    """Version of specchat that wrote it."""
    pieces: Pieces = field(default_factory=Pieces)
    """Default token texts for answers without any."""

    @property
    def heading(self) -> Body:
        """The chat's model for a heading, or the names of all models that answered."""
        names = dict.fromkeys(str(model) for answer in self.transcript.answers() if (model := answer.asked.get("model")))
        if all(name == self.model.get("asked") for name in names):
            return self.model
        return {"name": ", ".join(map(short_name, names))}

    @property
    def model_name(self) -> str:
        heading = self.heading
        return str(heading.get("name") or heading.get("asked") or "")

    def model_of(self, answer: Answer) -> str:
        """Return the name of an answer's model; empty if unknown."""
        return short_name(str(answer.asked.get("model", "")))


@dataclass(frozen=True, slots=True)
class SavedFigures:
    """An answer's figures as a file has them; those at their defaults are missing."""

    prompt_tokens: int
    reused: int
    tokens: int
    steps: int
    drafted: int
    accepted: int
    prefill_seconds: float
    decode_seconds: float
    plain_seconds: float = 0.0
    rested: bool = False
    contended: bool = False
    certainty: str = ""
    doubt: str = ""
    valid: bool | None = None


def capture(chat: SavableChat) -> SavedChat:
    """Capture a chat, which may go on while the copy is written."""
    from ... import __version__

    transcript, about = chat.transcript, chat.about()
    entries = [frozen(entry) if isinstance(entry, Answer) else entry for entry in transcript.entries]
    return SavedChat(
        Transcript(entries, transcript.system),
        model_body(about),
        settings_body(about),
        datetime.now().astimezone().isoformat(timespec="seconds"),
        __version__,
        about.pieces,
    )


def model_body(about: About) -> Body:
    return {"asked": about.selection.model, **public(about.info)}


def settings_body(about: About) -> Body:
    return {
        "method": about.method,
        "methods": {name: dict(table) for name, table in about.methods.items()},
        **about.answering(),
        "template_var": list(about.options.template_var),
    }


def frozen(answer: Answer) -> Answer:
    """Copy an answer that is still being written. The copy shares the log, which only grows, and reads
    it as far as its own runs go."""
    if answer.done:
        return answer
    figures = replace(answer.figures, totals=replace(answer.totals))
    return replace(answer, runs=list(answer.runs), figures=figures, by_method=dict(answer.by_method), reason="unfinished")


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
            yield from answer_json(entry, chat.pieces, {"kind": "answer"})
        else:
            yield dump(entry_head(entry))
    yield "\n ]\n}\n"


def frozen_race(record: RaceRecord) -> RaceRecord:
    """Copy a race whose lanes may still write."""
    return replace(record, lanes=[replace(lane, answer=frozen(lane.answer)) for lane in record.lanes])


def race_json(record: RaceRecord) -> Iterator[str]:
    """Yield the file's text, with a line for each lane and each run."""
    head = {
        "format": "specchat race",
        "version": 2 if record.several else 1,
        "specchat": record.version,
        "saved": record.saved,
        "model": record.model,
        "info": record.info,
        "sampling": record.sampling,
        "prompt": record.prompt,
        **({"unit": record.unit} if record.several else {}),
        **({"slowed": True} if record.slowed else {}),
        **({"tied": list(record.tied)} if record.tied else {}),
    }
    yield "{" + "".join(f"\n {dump(key)}: {dump(value)}," for key, value in head.items()) + '\n "lanes": ['
    for i, lane in enumerate(record.lanes):
        more = {
            "lane": lane.method,
            "settings": lane.settings,
            "model": lane.model,
            "mark": lane.mark,
            "position": lane.position,
            "gap": lane.gap,
            **({"info": lane.info} if lane.info else {}),
        }
        yield ",\n  " if i else "\n  "
        yield from answer_json(lane.answer, record.pieces, more)
    yield "\n ]\n}\n"


def answer_json(answer: Answer, pieces: Pieces, more: Body) -> Iterator[str]:
    """Yield an answer as an object that begins with the fields `more`; `pieces` are the token texts of one without any."""
    yield dump(answer_head(answer, more))[:-1] + ', "runs": ['
    steps = steps_of(answer)
    token_ids: set[int] = set()
    for index in range(steps):
        yield (",\n   " if index else "\n   ") + run_json(answer, index, token_ids)
    texts = pieces_body(token_ids, answer.pieces if len(answer.pieces) else pieces)
    yield f'\n  ], "tail": {dump(tail_of(answer, steps))}, "pieces": {dump(texts)}}}'


def entry_head(entry: ChatEntry) -> dict[str, object]:
    """Return a prompt or a notice as an object, or an answer without its runs, its tail and its token texts."""
    match entry:
        case Prompt(text):
            return {"kind": "prompt", "text": text}
        case Notice(text, severity):
            return {"kind": "notice", "severity": severity, "text": text}
        case Answer():
            return answer_head(entry, {"kind": "answer"})


def answer_head(answer: Answer, more: Body) -> dict[str, object]:
    figures = {item.name: getattr(answer.figures, item.name) for item in fields(SavedFigures)}
    absent = {item.name: item.default for item in fields(SavedFigures) if item.default is not MISSING}
    return {
        **more,
        "method": answer.method,
        "label": answer.label,
        "reason": answer.reason,
        **({"asked": answer.asked} if answer.asked else {}),
        **({"thought": thought} if (thought := answer.thought) else {}),  # for other programs: the runs have it too
        "figures": {name: value for name, value in figures.items() if name not in absent or value != absent[name]},
    }


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


def pieces_body(tokens: Iterable[int], pieces: Pieces) -> dict[str, str]:
    return {str(token): raw for token in sorted(tokens) if (raw := pieces.raw(token))}


def run_body(run: Run, step: StepRecord) -> dict[str, object]:
    optional: dict[str, object] = {"spans": run.spans}
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


def _short(value: Any) -> Any:
    """Round 32-bit floats, alone or in a list, to as few digits as restore them."""
    if isinstance(value, list):
        return [*map(_short, value)]
    return float(f"{value:.9g}") if isinstance(value, float) else value


def dump(value: Any) -> str:
    # Other scripts stay readable: only characters outside the file's encoding are escaped, when it is written.
    return json.dumps(value, ensure_ascii=False)


def explain(error: Exception) -> str:
    """Say what is wrong with a file, by the error that it led to."""
    return f"{error} is missing" if isinstance(error, KeyError) else str(error)


def read_chat(path: Path) -> SavedChat:
    """Read a chat.

    Raises:
        UserError: the file cannot be read or is no chat; names what is wrong.
    """
    name = one_line(path.name)
    try:
        body = json.loads(plain_file.as_text(plain_file.read_bytes(path, MOST_BYTES), "strict"))
    except OSError as error:
        raise UserError(f"Cannot read {name}: {one_line(error.strerror or str(error))}. Check the name.") from None
    except (ValueError, RecursionError):
        raise UserError(f"{name} is not JSON. Open a file written by /export json.") from None
    try:
        match body:
            case {"format": "specchat chat", "version": 1}:
                return build_chat(body)
    except DAMAGE as error:
        raise UserError(f"{name} cannot be opened: {one_line(explain(error))}.") from None
    raise UserError(f"{name} is no chat of this version of specchat. Open a file written by /export json.")


def build_chat(body: Body) -> SavedChat:
    """Read the chat in an object, whose answers have their colours, figures and trees.

    Raises:
        BadFile: something is missing or is not as it must be.
    """
    transcript = Transcript([], body["system"])
    for number, entry in enumerate(body["entries"]):
        try:
            transcript.entries.append(read_entry(entry))
        except BadFile as error:
            raise BadFile(f"entries[{number}]: {error}") from None
    return decode(SavedChat, {**body, "version": body["specchat"], "transcript": transcript})


def read_entry(body: Body) -> ChatEntry:
    """Read the prompt, notice or answer in an object.

    Raises:
        BadFile: something is missing or is not as it must be.
    """
    match body:
        case {"kind": "prompt", "text": str(text)}:
            return Prompt(text)
        case {"kind": "notice", "text": str(text), "severity": severity} if severity in SEVERITIES:
            return Notice(text, severity)
        case {"kind": "answer"}:
            return read_answer(body)
    raise BadFile("it is no prompt, answer or notice")


def read_answer(body: Body) -> Answer:
    """Read the answer in an object.

    Raises:
        BadFile: something is missing or is not as it must be.
    """
    try:
        answer = Answer(one_line(body["method"]), one_line(body["label"]))
        for number, run_body in enumerate(body["runs"]):
            try:
                run = answer.add(_read_step(run_body))
                run.seconds = float(run_body["seconds"])
                run.shade = run_body.get("shade", run.shade)
                if run.shade not in range(WRITTEN, SHADES):
                    raise BadFile(f"there is no shade {run.shade}")
            except DAMAGE as error:
                raise BadFile(f"runs[{number}]: {explain(error)}") from None
        answer.finish(one_line(body.get("reason") or "unfinished"), body.get("tail", ""))
        figures = decode(SavedFigures, body["figures"])
        for item in fields(figures):
            setattr(answer.figures, item.name, getattr(figures, item.name))
        answer.pieces = SomePieces({int(token): str(text) for token, text in body.get("pieces", {}).items()})
        match body.get("asked"):
            case {"model": str(), "method": str(), "settings": dict(), "sampling": dict()}:
                answer.asked = body["asked"]
    except DAMAGE as error:
        raise BadFile(explain(error)) from None
    return answer


def _read_step(run: Body) -> StepRecord:
    """Read the step of a run."""
    tree = run.get("tree", {})
    values = {name: run[key] for name, key in _SECONDS.items()}
    values |= {name: tree[key] for name, key in _TREE.items() if key in tree}
    values |= {name: run[name] for name in (*_OWN, *_LAST) if name in run}
    values["drafters"] = [one_line(drafter) for drafter in tree.get("drafters", [])]
    step = decode(StepRecord, {**values, "method": one_line(run["method"]), "note": one_line(run.get("note", ""))})
    parents = step.tree_parents
    path = list(step.path)
    nodes = range(len(parents))
    tree_holds = (
        len(step.tree_tokens) == len(nodes)
        and list(parents[:1]) in ([], [-1])
        and all(0 <= parents[node] < node for node in nodes[1:])
        and len(step.sources) == (len(nodes) if step.drafters else 0)
        and (not nodes or (path[:1] in ([], [0]) and all(node in nodes[1:] for node in path[1:])))
        and (not nodes or all(parents[node] == before for before, node in pairwise(path)))
    )
    sums = [sum(row[at] for row in step.spans) for at in (1, 2)]
    if not tree_holds or step.carried > len(step.text) or (step.spans and sums != [len(step.text), len(step.tokens)]):
        raise BadFile("its tree, path, spans and text do not fit together")
    return step
