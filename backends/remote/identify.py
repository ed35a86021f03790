"""Facts about a server: its engine, its models and whether it speculates, found by asking it, never from its port."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import NoneType
from typing import Any

from ...errors import UserError, did_you_mean
from .bodies import DIALECTS, LLAMA_SERVER, OLLAMA, PLAIN, SGLANG, SPECULATION, UNKNOWN, VLLM, Served
from .connection import Connection
from .events import count, dig, string, tables

_NAME = re.compile(r"[\w.:+-]{1,40}", re.ASCII)
"""Names of methods and versions; anything else that a server sends in their place is not shown."""
_POSITION = re.compile(r'spec_decode_num_accepted_tokens_per_pos_total\{[^}]*position="(\d+)"')

_OTHER_KIND = re.compile(r"embed|rerank|moderation|whisper|\btts\b|dall-e|bge-|minilm", re.IGNORECASE)
"""Names of models that write no text."""

Row = Mapping[str, Any]
"""A model in a server's list."""


async def identify(server: Connection) -> Served:
    """Ask a server for the facts.

    Raises:
        UserError: it does not answer, wants a key, is loading, or has no such model.
    """
    api, rows = await _list_models(server)
    owner = next((row["owned_by"] for row in rows if string(row.get("owned_by"))), None)
    engine = next((name for name, dialect in DIALECTS.items() if dialect.owner == owner), "") or await _probe_engine(server)
    model = _choose_model(server, engine, rows)
    context = next((count(row.get("max_model_len")) for row in rows if row["id"] == model), None) or 0
    served = Served(engine, api, model, tuple(dict.fromkeys(row["id"] for row in rows)), context=context)
    ask = {LLAMA_SERVER: _ask_llama_server, VLLM: _ask_vllm, SGLANG: _ask_sglang}.get(engine)
    return await ask(server, served) if ask is not None else served


async def _list_models(server: Connection) -> tuple[str, Sequence[Row]]:
    """Return the API's path below the server's root and the models that it lists: none if it lists none and one is named."""
    api, host = "/v1", server.address.host
    status, body = await server.ask("/v1/models")
    if status in (404, 405) and _is_list(other := await server.probe("/models")):
        api, status, body = "", 200, other
    if status == 200 and _is_list(body):
        return api, [row for row in tables(body["data"]) if string(row.get("id")).isprintable() and row.get("id")]
    if server.address.model and status != 503:
        return api, []
    if status in (0, 200, 404, 405, 501):
        reason = f"sends no list of models ({status})" if status else "does not answer in time"
        raise UserError(
            f"{host} {reason}. Check the address: it should be that of an OpenAI-compatible API. If it is, name the model "
            f"behind it: {server.address.root}#NAME."
        )
    raise server.refusal(status, body)


def _is_list(body: Any) -> bool:
    return isinstance(body, dict) and "data" in body and isinstance(body["data"], list | NoneType)  # Ollama: null


def _short_name(value: object) -> str:
    return value if isinstance(value, str) and _NAME.fullmatch(value) else ""


def _choose_model(server: Connection, engine: str, rows: Sequence[Row]) -> str:
    host, model, names = server.address.host, server.address.model, [row["id"] for row in rows]
    if not model:
        first = next((name for name in names if not _OTHER_KIND.search(name)), "")
        if not first and (names or engine == OLLAMA):
            kind = "model that writes text" if names else "model"
            raise UserError(f"{host} ({engine}) lists no {kind}. Name one behind the address: {server.address.root}#NAME.")
        return first
    if not names or model in names or any(model in (row.get("aliases") or ()) for row in rows):
        return model
    if f"{model}:latest" in names:  # Ollama's tag
        return f"{model}:latest"
    close = did_you_mean(model, names, f"it serves {', '.join(names[:8])}{' and more' if len(names) > 8 else ''}.")
    raise UserError(f"{host} has no model {server.quote(model)}: {close}")


async def _probe_engine(server: Connection) -> str:
    """Find the engine of a server whose list of models does not name it."""
    props, version = await asyncio.gather(server.probe("/props"), server.probe("/api/version"))
    if dig(props, "default_generation_settings") is not None:
        return LLAMA_SERVER
    return OLLAMA if dig(version, "version") is not None else UNKNOWN


async def _ask_llama_server(server: Connection, served: Served) -> Served:
    props, slots = await asyncio.gather(server.probe("/props"), server.probe("/slots"))
    context = count(dig(props, "default_generation_settings", "n_ctx")) or 0
    served = replace(served, version=_short_name(dig(props, "build_info")), context=context)
    if not tables(slots):
        return served
    if not any(slot.get("speculative") is True for slot in tables(slots)):
        return replace(served, drafts=False, method=PLAIN)
    method = ""
    if any(slot.get("is_processing") is False for slot in tables(slots)):
        # Only answers name its speculation, so it is asked for the shortest one.
        shortest = {"model": served.model, "prompt": "a", "n_predict": 0, "cache_prompt": False}
        answer = await server.probe("/completion", shortest)
        types = string(dig(answer, "generation_settings", "speculative.types")).split(",")
        method = "+".join(kind for kind in map(_short_name, types) if kind not in ("", "none"))
    return replace(served, drafts=True, method=method or SPECULATION)


async def _ask_vllm(server: Connection, served: Served) -> Served:
    version, metrics = await asyncio.gather(server.probe("/version"), server.probe("/metrics"))
    served = replace(served, version=_short_name(dig(version, "version")))
    if not isinstance(metrics, str) or "vllm:" not in metrics:
        return served
    if "vllm:spec_decode_num_drafts_total" not in metrics:
        return replace(served, drafts=False, method=PLAIN)
    length = max((int(position) + 1 for position in _POSITION.findall(metrics)), default=0)
    return replace(served, drafts=True, method=_with_length(SPECULATION, length))


async def _ask_sglang(server: Connection, served: Served) -> Served:
    info = await server.probe("/server_info")
    if not isinstance(info, dict):
        return served
    kind = _short_name(info.get("speculative_algorithm")).lower()
    method = _with_length(kind, count(info.get("speculative_num_draft_tokens"))) if kind else PLAIN
    return replace(served, version=_short_name(info.get("version")), drafts=bool(kind), method=method)


def _with_length(method: str, length: int | None) -> str:
    """Name a method with its number of draft tokens, if that is known."""
    return f"{method} K={length}" if length else method
