"""The task `replay`: recorded answers, decoded again with a drafter."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...backends.base import Model
from ...backends.loading import builtin_path
from ...backends.options import BUILTIN
from ...backends.transcripts import FileTokenizer, RecordedAnswer, encode_transcript, scan_transcripts
from ...decoders import registry
from ...decoders.base import Drafter, parse_params
from ...decoders.past.index import Past
from ...decoders.replay import replaying, why_not
from ...decoders.stats import Totals
from ...errors import UserError
from .work import TaskContext

ABREAST = 4
"""Most methods that replay a record at once: each has its own KV cache."""

TURN = 32
"""Tokens that a method replays before the next method's turn: a pass right behind another method's is slower."""

FIRST = 1 << 32
"""Key of the first earlier answer, above the numbers of records."""


@dataclass(frozen=True)
class Replayed:
    """The end of a replay."""

    problems: Sequence[str]
    """A sentence for each line that is no record."""
    records: int


def replay_records(
    job: TaskContext,
    file: str,
    methods: Sequence[Sequence[Any]],
    tokenizer: str = "",
    over_model: bool = False,
    forced: bool = False,
    limit: int | None = None,
    past: Sequence[str] = (),
    remember: bool = False,
) -> Replayed:
    """Replay recorded answers with some methods, record by record.

    Args:
        job: its model matters only with `over_model`.
        file: JSONL of recorded answers.
        methods: (label, method, settings) each; with `over_model` put `greedy` first to compare with.
        tokenizer: folder with a tokenizer.json; empty for the model's own, or without one the built-in model's.
        over_model: the loaded model evaluates every pass.
        forced: its choices do not count, only its seconds.
        limit: only the first so many records.
        past: files of earlier answers to draft from.
        remember: later records may draft from each answer too, and drafters keep their knowledge.

    The figures of each method and record are reported on the way: file, line, record, method, prompt, tokens, steps,
    drafted, accepted, draft_seconds, forward_seconds.
    """
    model = job.model if over_model else None
    earlier = Past() if past or remember else None
    drafters = [_drafter(label, name, dict(settings), model, forced, remember) for label, name, settings in methods]
    records, problems = scan_transcripts(Path(file))
    encoder = FileTokenizer(Path(tokenizer) if tokenizer else builtin_path(BUILTIN)) if not model or tokenizer else None
    if earlier is not None:
        earlier.add(earlier_answers(past, encoder, model))
    for number, record in enumerate(records[:limit]):
        prompt, response, eos = _encode(encoder, model, record)
        if problem := _misfit(model, record, prompt, response):
            problems.append(f"{file}, line {record.line}, {problem}")
            continue
        about = {"file": file, "line": record.line, "record": number, "records": len(records[:limit])}
        about |= {"prompt": len(prompt)}
        size = ABREAST if model is not None and len(drafters) <= ABREAST else 1
        for first in range(0, len(drafters), size):
            batch = drafters[first : first + size]
            runs = [
                replaying(prompt, response, drafter(), eos_ids=(eos,), over=model, forced=forced, past=earlier)
                for _, drafter in batch
            ]
            for (label, _), totals in zip(batch, abreast(runs, job.check), strict=True):
                job.report({**about, "method": label, **_counts(totals)})
        if earlier is not None and remember:
            earlier.add([(number, response)])
    return Replayed(problems, len(records[:limit]))


def abreast(runs: Sequence[Iterator[Totals]], check: Callable[[], None]) -> list[Totals]:
    """Run replays of one record in turns, always the one with fewest tokens so far: a machine that gets slower for a while is
    slower for all of them. `check` is called before each pass, and may raise."""
    with ExitStack() as stack:
        for run in runs:
            stack.callback(getattr(run, "close", lambda: None))
        totals = [next(run) for run in runs]
        left = list(range(len(runs)))
        while left:
            least = min(left, key=lambda number: totals[number].tokens)
            end = totals[least].tokens + TURN
            while least in left and totals[least].tokens < end:
                check()
                if next(runs[least], None) is None:
                    left.remove(least)
    return totals


def earlier_answers(files: Sequence[str], encoder: FileTokenizer | None, reader: Model | None) -> list[tuple[int, list[int]]]:
    """Read the answers in some files of records, as for `Past.add`.

    Raises:
        UserError: a file cannot be read, or has none.
    """
    answers = []
    for name in files:
        records, problems = scan_transcripts(Path(name))
        if not records:
            raise UserError(problems[0])
        answers += [_encode(encoder, reader, record)[1] for record in records]
    return list(enumerate(answers, FIRST))


def _misfit(model: Model | None, record: RecordedAnswer, prompt: Sequence[int], response: Sequence[int]) -> str:
    """Say why a model cannot evaluate a record, as the end of a sentence; "" if it can, or without a model."""
    if model is None:
        return ""
    if max([*prompt, *response], default=0) >= model.info.vocabulary:
        return "has tokens that the model does not know. Leave out --tokenizer."
    if len(prompt) + len(response) >= model.info.context:
        return f"does not fit in the model's context of {model.info.context:,} tokens."
    return ""


def _drafter(
    label: str, name: str, settings: dict[str, Any], model: Model | None, forced: bool, remember: bool
) -> tuple[str, Callable[[], Drafter]]:
    """Return a method's label, and a function that gives its drafter for a record: always the same one with `remember`."""
    method = _replayable(name, model is not None, forced)
    params = parse_params(method, settings)
    lasting = method(params) if remember else None
    return label, lambda: lasting or method(params)


def _replayable(name: str, over_model: bool, forced: bool) -> type[Drafter]:
    method = registry.get(name)
    if reason := why_not(method, over_model=over_model, forced=forced):
        raise UserError(f"The method {name} cannot be replayed: it {reason}. Leave it out.")
    return method


def _encode(encoder: FileTokenizer | None, model: Model | None, record: RecordedAnswer) -> tuple[list[int], list[int], int]:
    """Encode prompt and response as token ids; return the EOS token too, which ends the response unless it was cut off."""
    if record.prompt_ids and record.response_ids:  # of any tokenizer
        return list(record.prompt_ids), list(record.response_ids), record.response_ids[-1] if record.ended else -1
    if encoder is not None:
        prompt, response = encode_transcript(encoder, record)
        eos = encoder.eos_id
    else:
        assert model is not None
        eos = model.info.eos_ids[0] if model.info.eos_ids else -1
        if record.messages and model.info.has_template:
            prompt = model.encode_chat(record.messages)
            start = model.encode("")
            response = model.encode(record.response)[len(start) :]
        else:
            prompt, both = model.encode(record.prompt), model.encode(record.prompt + record.response)
            response = both[len(prompt) :] if both[: len(prompt)] == prompt else model.encode(record.response)
    return prompt or [eos], [*response, eos] if record.ended and eos >= 0 else response, eos


def _counts(totals: Totals) -> Mapping[str, Any]:
    """Collect the reported figures of a record's totals."""
    names = ("tokens", "steps", "drafted", "accepted", "draft_seconds", "forward_seconds")
    return {name: getattr(totals, name) for name in names}
