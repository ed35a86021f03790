"""The task `answer` on servers: one answer to one prompt, timed, as a method of ours is (`engine/tasks/measuring.py`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...backends.servers.bodies import ServerRequest
from ...backends.servers.chunks import NO_ID
from ...backends.servers.model import ServerModel
from ...backends.servers.runs import Run
from ...backends.servers.stream import Outcome, Taker
from ...errors import UserError
from ..tasks.work import UNTOLD


async def measure_answer(
    model: ServerModel,
    prompt: str | None = None,
    messages: Sequence[Mapping[str, str]] | None = None,
    raw: bool = False,
    max_tokens: int = 256,
) -> dict[str, Any]:
    """Ask a server for a greedy answer, without what it kept of earlier prompts where it can be told so.

    Args:
        model: the server.
        prompt: text, or
        messages: a chat.
        raw: continue the text as it is.
        max_tokens: most tokens of the answer.

    Returns:
        As the task for methods of ours, as far as the server tells: `tokens` only where it sends every id; `nodes` and
        `drafted` 0 where it does not say what it drafted; `steps` 0 where passes are not counted. `count`: tokens; `seconds`:
        its own clock's, else by arrival. Also `certainty` (whether the runs are known), `engine` and what it
        `decodes` with, `finish_reason`, and `prompt_ids` where it sends them.

    Raises:
        UserError: the server refused, failed or fell silent.
    """
    if messages is None and not raw:
        messages = [{"role": "user", "content": prompt or ""}]
    runs, outcome = list[Run](), Outcome()
    asked = ServerRequest(messages, prompt or "", max_tokens=max_tokens, afresh=True)
    taker = Taker(runs.append, lambda *_: None)
    await model.answer(asked, taker, outcome)
    found = [token for run in runs for token in run.tokens]
    number = outcome.tokens if outcome.tokens is not None else len(found)
    if not number:
        raise UserError(f"{model.connection.address.host} answered nothing.")
    passes = [run for run in runs if run.tokens]
    steps = outcome.steps or (len(passes) if outcome.certainty == "exact" else 0)
    drafted, accepted = outcome.drafted, outcome.accepted
    if drafted is None:
        drafted, accepted = 0, 0
    seconds = outcome.prefill_seconds + outcome.decode_seconds
    tokens = found if NO_ID not in found and len(found) == number else []
    return {
        **UNTOLD,
        "tokens": tokens,
        "prompt_ids": list(outcome.prompt_ids),
        "text": taker.raw,
        "count": number,
        "prompt_tokens": outcome.prompt_tokens or 0,
        "seconds": seconds,
        "prefill_seconds": outcome.prefill_seconds,
        "steps": steps,
        "drafted": drafted,
        "accepted": accepted or 0,
        "nodes": steps + drafted if drafted else 0,
        "other_seconds": seconds,
        "certainty": outcome.certainty,
        "engine": model.served.engine,
        "decodes": model.method,
        "finish_reason": outcome.reason,
    }
