"""The task `answer` on servers: one answer to one prompt, timed, as a method of ours is (`engine/tasks/measuring.py`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...backends.servers.bodies import ServerRequest
from ...backends.servers.chunks import NO_ID
from ...backends.servers.connection import count
from ...backends.servers.identify import LLAMA_SERVER
from ...backends.servers.model import ServerModel
from ...backends.servers.runs import Run
from ...backends.servers.stream import Outcome, Taker
from ...backends.thinking.thoughts import PAIRS
from ...errors import UserError
from ..tasks.work import UNTOLD

COUNTED = ("exact", "reported")
"""Runs that are counted as passes; guessed ones are not."""


async def measure_answer(
    model: ServerModel,
    prompt: str | None = None,
    messages: Sequence[Mapping[str, str]] | None = None,
    raw: bool = False,
    max_tokens: int = 256,
    ids: bool = False,
) -> dict[str, Any]:
    """Ask a server for a greedy answer, without what it kept of earlier prompts where it can be told so.

    Args:
        model: the server.
        prompt: text, or
        messages: a chat.
        raw: continue the text as it is.
        max_tokens: most tokens of the answer.
        ids: llama-server, which sends none, is asked for the tokens of prompt and answer.

    Returns:
        As the task for methods of ours, as far as the server tells: `tokens` only where it sends every id; `nodes` and
        `drafted` 0 where it does not say what it drafted; `steps` 0 where passes are not counted. `count`: tokens; `seconds`:
        its own clock's, else by arrival. Also `certainty` (how well the runs are known), `engine` and what it
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
    steps = (outcome.steps or len(passes)) if outcome.certainty in COUNTED else 0
    drafted, accepted = outcome.drafted, outcome.accepted
    if steps and accepted is not None:  # a pass gives one token more than were accepted: so many at least, if some came merged
        steps = max(steps, number - accepted)
    if drafted is None:
        drafted, accepted = 0, 0
    seconds = outcome.prefill_seconds + outcome.decode_seconds
    tokens = found if NO_ID not in found and len(found) == number else []
    prompt_ids, text = list(outcome.prompt_ids), taker.trail.raw
    if ids and not tokens and model.served.engine == LLAMA_SERVER:
        prompt_ids, tokens = await _tokenised(model, messages, prompt or "", text, outcome.reason == "eos")
    return {
        **UNTOLD,
        "tokens": tokens,
        "prompt_ids": prompt_ids,
        "text": text,
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


async def _tokenised(
    model: ServerModel, messages: Sequence[Mapping[str, str]] | None, prompt: str, text: str, ended: bool
) -> tuple[list[int], list[int]]:
    """What llama-server makes of prompt and answer: nearly always the tokens that it read and wrote. Nothing where it does not
    say."""

    async def ask(path: str, field: str, **body: Any) -> Any:
        status, told = await model.connection.post(path, {"model": model.served.model, **body})
        return told.get(field) if status == 200 and isinstance(told, dict) else None

    async def tokens(content: str) -> list[int]:
        told = await ask("/tokenize", "tokens", content=content, add_special=True, parse_special=True)
        return [id for each in told if (id := count(each)) is not None] if isinstance(told, list) else []

    if messages is not None:
        prompt = str(await ask("/apply-template", "prompt", messages=[dict(message) for message in messages]) or "")
    _, props = await model.connection.get("/props")
    end = props.get("eos_token") if isinstance(props, dict) and ended else None
    for opening, _ in PAIRS:  # that the prompt opens a thought with, and the text once more
        if (at := prompt.rfind(opening)) >= 0:
            text = text.removeprefix(prompt[at:])
    before, whole = await tokens(prompt), await tokens(prompt + text + (end if isinstance(end, str) else ""))
    return (before, whole[len(before) :]) if before and whole[: len(before)] == before else ([], [])
