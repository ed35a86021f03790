"""The task `replay`: recorded answers, decoded again with a drafter."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ...backends.base import Model
from ...backends.loading import builtin_path
from ...backends.options import BUILTIN
from ...backends.transcripts import FileTokenizer, Transcript, encode_transcript, scan_transcripts
from ...decoders import registry
from ...decoders.base import Drafter, parse_params
from ...decoders.past.index import Past
from ...decoders.replay import replay, why_not
from ...decoders.stats import Totals
from ...errors import UserError
from .work import Job

WITHOUT_CHOICES = {"fusion": {"recycle": 0}}
"""Settings that leave out what a record cannot tell."""

FIRST = 1 << 32
"""Number of the first earlier answer; the records have theirs."""


def replay_records(
    job: Job,
    file: str,
    methods: Sequence[Sequence[Any]],
    tokenizer: str = "",
    over_model: bool = False,
    forced: bool = False,
    limit: int | None = None,
    skip: Sequence[int] = (),
    past: Sequence[str] = (),
    remember: bool = False,
) -> dict[str, Any]:
    """Replay the records of one file with some methods, record by record.

    Args:
        job: its model matters only with `over_model`.
        file: JSONL of recorded answers.
        methods: (label, method, settings) each; with `over_model` put `greedy` first to compare with.
        tokenizer: folder with a tokenizer.json; empty for the model's own, or without one the built-in model's.
        over_model: the loaded model evaluates every pass.
        forced: its choices do not count, only its seconds.
        limit: only the first so many records.
        skip: records, by number, that are done already.
        past: files of earlier answers to draft from.
        remember: from each record on, its answer is one to draft from as well, and drafters keep what they have learned.

    Returns:
        `problems`: a sentence for each line that is no record; `records`: how many were read. What each method did with each
        record is reported on the way: file, line, record, method, prompt, tokens, steps, runs, passes ([nodes, count] …),
        drafted, accepted, draft_seconds, forward_seconds, speedup (as recorded, 0 if not).
    """
    model = job.model if over_model else None
    classes = [(label, _replayable(name, over_model, forced), dict(settings)) for label, name, settings in methods]
    records, problems = scan_transcripts(Path(file))
    if not records and not problems:
        problems = [f'{file} contains no records. It needs lines like {{"prompt": "…", "response": "…"}}.']
    encoder = FileTokenizer(Path(tokenizer) if tokenizer else builtin_path(BUILTIN)) if model is None or tokenizer else None
    chosen = records[:limit]
    earlier = Past() if past or remember else None
    if earlier is not None:
        texts = [_encode(encoder, model, record)[1] for name in past for record in scan_transcripts(Path(name))[0]]
        earlier.add(list(enumerate(texts, FIRST)))
    kept: dict[str, Drafter] = {}
    for number, record in enumerate(chosen):
        if number in skip:
            continue
        prompt, response, eos = _encode(encoder, model, record)
        if model is not None and max([*prompt, *response], default=0) >= model.info.vocabulary:
            problems.append(f"{file}, line {record.line}, has tokens that the model does not know. Leave out --tokenizer.")
            continue
        if model is not None and len(prompt) + len(response) >= model.info.context:
            problems.append(
                f"{file}, line {record.line}, does not fit in the model's context of {model.info.context:,} tokens."
            )
            continue
        for label, method, settings in classes:
            job.check()
            without = {} if over_model and not forced else WITHOUT_CHOICES.get(method.name, {})
            params = parse_params(method, {**without, **settings})
            drafter = kept.setdefault(label, method(params)) if remember else method(params)
            totals = replay(prompt, response, drafter, eos_ids=(eos,), over=model, forced=forced, past=earlier)
            job.report(
                {
                    "file": file,
                    "line": record.line,
                    "record": number,
                    "records": len(chosen),
                    "method": label,
                    "prompt": len(prompt),
                    "speedup": record.speedup,
                    **_counts(totals),
                }
            )
        if earlier is not None and remember:
            earlier.add([(number, response)])
    return {"problems": problems, "records": len(chosen)}


def _replayable(name: str, over_model: bool, forced: bool) -> type[Drafter]:
    method = registry.get(name)
    if reason := why_not(method, over_model=over_model, forced=forced):
        raise UserError(f"The method {name} cannot be replayed: it {reason}.")
    return method


def _encode(encoder: FileTokenizer | None, model: Model | None, record: Transcript) -> tuple[list[int], list[int], int]:
    """Token ids of prompt and response, and the EOS token, which ends the response unless it was cut off."""
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
    """What crosses of a record's totals. The first step is the prefill."""
    verified = Counter(drafted + 1 for drafted in totals.drafts[1:])
    return {
        "tokens": totals.tokens,
        "steps": totals.steps,
        "runs": totals.runs,
        "passes": sorted(verified.items()),
        "drafted": totals.drafted,
        "accepted": totals.accepted,
        "draft_seconds": totals.draft_seconds,
        "forward_seconds": totals.forward_seconds,
    }
