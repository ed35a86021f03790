"""Facts about a server: its engine, its models and whether it speculates, found by asking it, never from its port."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from types import NoneType
from typing import Any
from urllib.parse import quote

from ...errors import UserError, did_you_mean
from .connection import Connection, Unreachable
from .dialects import DIALECTS, LLAMA_SERVER, OLLAMA, UNKNOWN
from .values import count, dig, string, tables

PLAIN = "plain"
"""The method of a server that does not speculate."""
SPECULATION = "speculation"
"""The method of a server that speculates and does not say how."""
UNREPORTED = "server"
"""The method of a server that does not report any."""

_NAME = re.compile(r"[\w.:+-]{1,40}", re.ASCII)
"""Names of methods and versions; anything else that a server sends in their place is not shown."""
_POSITION = re.compile(r'spec_decode_num_accepted_tokens_per_pos_total\{[^}]*position="(\d+)"')

_OTHER_KIND = re.compile(r"embed|rerank|moderation|whisper|\btts\b|dall-e|bge-|minilm", re.IGNORECASE)
"""Names of models that write no text."""

Row = Mapping[str, Any]
"""A model in a server's list."""


@dataclass(frozen=True, slots=True)
class Served:
    """Facts about a server, known before it is asked for an answer."""

    engine: str
    api: str
    """Path below the server's root that has `/chat/completions`."""
    model: str
    """The model that requests name; empty if there is no need."""
    models: tuple[str, ...] = ()
    """All models that it lists."""
    version: str = ""
    context: int = 0
    """Tokens; 0 if it does not say."""
    method: str = UNREPORTED
    """Its way of decoding, as far as it says."""
    drafts: bool | None = None
    """Whether it speculates; None if it does not say."""


async def identify(server: Connection) -> Served:
    """Ask a server for the facts.

    Raises:
        UserError: it does not answer, wants a key, is loading, or has no such model.
    """
    api, rows = await _list_models(server)
    rows = [row for row in rows if _id(row)]
    owner = next((row["owned_by"] for row in rows if string(row.get("owned_by"))), None)
    engine = next((name for name, dialect in DIALECTS.items() if dialect.owner == owner), "") or await _probe_engine(server)
    model = _choose_model(server, engine, rows)
    row = next((row for row in rows if _id(row) == model), {})
    models = tuple(dict.fromkeys(map(_id, rows)))
    served = Served(engine, api, model, models, context=count(row.get("max_model_len")) or 0)
    match engine:
        case "llama-server":
            return await _ask_llama_server(server, served, row)
        case "vLLM":
            return await _ask_vllm(server, served)
        case "SGLang":
            return await _ask_sglang(server, served)
    return served


async def _list_models(server: Connection) -> tuple[str, Sequence[Row]]:
    """Return the API's path below the server's root and the models that it lists: none if it lists none and one is named."""
    model, host = server.address.model, server.address.host
    api = "/v1"
    try:
        status, body = await server.ask("/v1/models")
    except Unreachable:
        raise
    except UserError:
        if not model:
            raise
        return api, []
    if status in (404, 405) and _is_list(other := await server.probe("/models")):
        api, status, body = "", 200, other
    if status == 200 and _is_list(body):
        return api, tables(body["data"])
    if model and status != 503:
        return "/v1", []
    if status in (0, 200, 404, 405, 501):
        reason = "sends no list of models" if status else "does not answer in time"
        number = f" ({status})" if status > 200 else ""
        raise UserError(
            f"{host} {reason}{number}. Check the address: it should be that of an OpenAI-compatible API. If it is, name the "
            f"model behind it: {server.address.root}#NAME."
        )
    raise server.refusal(status, body)


def _is_list(body: Any) -> bool:
    return isinstance(body, dict) and "data" in body and isinstance(body["data"], list | NoneType)  # Ollama: null


def _id(row: Row) -> str:
    """Return a model's name; "" for one that cannot be shown."""
    name = string(row.get("id"))
    return name if name.isprintable() and len(name) <= 300 else ""


def _short_name(value: object) -> str:
    return value if isinstance(value, str) and _NAME.fullmatch(value) else ""


def _choose_model(server: Connection, engine: str, rows: Sequence[Row]) -> str:
    host, model, names = server.address.host, server.address.model, list(map(_id, rows))
    if not model:
        first = next((name for name in names if not _OTHER_KIND.search(name)), "")
        if not first and (names or engine == OLLAMA):
            kind = "model that writes text" if names else "model"
            raise UserError(f"{host} ({engine}) lists no {kind}. Name one behind the address: {server.address.root}#NAME.")
        return first
    if not names:
        return model
    for row in rows:  # a name's case, or Ollama's tag
        name, aliases = _id(row), row.get("aliases")
        if model == name or (isinstance(aliases, list) and model in aliases):
            return model
        if model.lower() in (name.lower(), name.lower().removesuffix(":latest")):
            return name
    close = did_you_mean(model, names, f"it serves {', '.join(names[:8])}{' and more' if len(names) > 8 else ''}.")
    raise UserError(f"{host} has no model {server.quote(model)}: {close}")


async def _probe_engine(server: Connection) -> str:
    """Find the engine of a server whose list of models does not name it."""
    props, version = await asyncio.gather(server.probe("/props"), server.probe("/api/version"))
    if isinstance(props, dict) and "default_generation_settings" in props:
        return LLAMA_SERVER
    return OLLAMA if isinstance(version, dict) and "version" in version else UNKNOWN


async def _ask_llama_server(server: Connection, served: Served, row: Row) -> Served:
    routed = isinstance(row.get("status"), dict)
    query = f"?model={quote(served.model, safe='')}" if routed else ""
    props = await server.probe(f"/props{query}")
    context = count(dig(props, "default_generation_settings", "n_ctx")) or 0
    served = replace(served, version=_short_name(dig(props, "build_info")), context=context)
    if routed:  # a router shows the command line of each model, loaded or not
        arguments = dig(row, "status", "args")
        pairs = pairwise(arguments if isinstance(arguments, list) else ())
        types = next((value for option, value in pairs if option == "--spec-type"), "")
        method = parse_types({"speculative.types": types}) or PLAIN
        return replace(served, drafts=method != PLAIN, method=method)
    slots = tables(await server.probe(f"/slots{query}"))
    if not slots:
        return served
    if not any(slot.get("speculative") is True for slot in slots):
        return replace(served, drafts=False, method=PLAIN)
    method = next(filter(None, (parse_types(slot.get("params")) for slot in slots)), "")
    if not method and any(slot.get("is_processing") is False for slot in slots):
        # Only answers name its speculation, so it is asked for the shortest one.
        shortest = {"model": served.model, "prompt": "a", "n_predict": 0, "cache_prompt": False}
        method = parse_types(dig(await server.probe("/completion", shortest), "generation_settings"))
    return replace(served, drafts=True, method=method or SPECULATION)


def parse_types(settings: object) -> str:
    """Return llama-server's kinds of speculation, from the settings of a request; "" if they do not name any."""
    types = string(dig(settings, "speculative.types")).split(",")
    return "+".join(kind for kind in map(_short_name, types) if kind not in ("", "none"))


async def _ask_vllm(server: Connection, served: Served) -> Served:
    version, metrics = await asyncio.gather(server.probe("/version"), server.probe("/metrics"))
    served = replace(served, version=_short_name(dig(version, "version")))
    if not isinstance(metrics, str) or "vllm:" not in metrics:
        return served
    if "vllm:spec_decode_num_drafts_total" not in metrics:
        return replace(served, drafts=False, method=PLAIN)
    length = max((int(position) + 1 for position in _POSITION.findall(metrics)), default=0)
    info = await server.probe("/server_info?config_format=json")  # only with VLLM_SERVER_DEV_MODE
    kind = _short_name(dig(info, "vllm_config", "speculative_config", "method")) or SPECULATION
    return replace(served, drafts=True, method=_with_length(kind, length))


async def _ask_sglang(server: Connection, served: Served) -> Served:
    info = await server.probe("/server_info") or await server.probe("/get_server_info")
    if not isinstance(info, dict):
        return served
    kind = _short_name(info.get("speculative_algorithm")).lower()
    method = _with_length(kind, count(info.get("speculative_num_draft_tokens"))) if kind else PLAIN
    return replace(served, version=_short_name(info.get("version")), drafts=bool(kind), method=method)


def _with_length(method: str, length: int | None) -> str:
    """Name a method with its number of draft tokens, if that is known."""
    return f"{method} K={length}" if length else method
