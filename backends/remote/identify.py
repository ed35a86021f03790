"""Which engine a server is, what it serves and whether it speculates: found out by asking, never from its port."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any
from urllib.parse import quote

from ...errors import UserError, did_you_mean
from .connection import Connection, Unreachable, count
from .dialects import LLAMA_SERVER, OLLAMA, SGLANG, UNKNOWN, VLLM

PLAIN = "plain"
"""The method of a server that does not speculate."""
SPECULATION = "speculation"
"""The method of one that speculates and does not say how."""
UNTOLD = "server"
"""The method of one that tells nothing."""

_NAME = re.compile(r"[\w.:+-]{1,40}", re.ASCII)
"""Names of engines' methods and versions; anything else that a server sends in their place is not shown."""
_POSITION = re.compile(r'spec_decode_num_accepted_tokens_per_pos_total\{[^}]*position="(\d+)"')


_OTHER_KIND = re.compile(r"embed|rerank|moderation|whisper|\btts\b|dall-e|bge-|minilm", re.IGNORECASE)
"""Names of models that write no text."""


@dataclass(frozen=True, slots=True)
class Served:
    """What is known of a server before it is asked for an answer."""

    engine: str
    api: str
    """Where `/chat/completions` is, below the server's root."""
    model: str
    """What requests name; empty where there is no need."""
    models: tuple[str, ...] = ()
    """Everything that it lists."""
    version: str = ""
    context: int = 0
    """Tokens; 0 if it does not say."""
    method: str = UNTOLD
    """What it decodes with, as far as it says."""
    drafts: bool | None = None
    """Whether it speculates; None if it does not say."""


async def identify(server: Connection) -> Served:
    """Ask a server what it is.

    Raises:
        UserError: nobody answers, it wants a key, it is loading, or it has no such model.
    """
    api, rows = await _listed(server)
    rows = [row for row in rows if _text(row, "id")]
    names = tuple(dict.fromkeys(_text(row, "id") for row in rows))
    owner = next((_text(row, "owned_by") for row in rows), "")
    engine = {"llamacpp": LLAMA_SERVER, "vllm": VLLM, "sglang": SGLANG}.get(owner) or await _engine(server)
    model = _chosen(server, engine, rows)
    row = next((row for row in rows if _text(row, "id") == model), {})
    served = Served(engine, api, model, names, context=count(row.get("max_model_len")) or 0)
    match engine:
        case "llama-server":
            return await _llama_server(server, served, row)
        case "vLLM":
            return await _vllm(server, served)
        case "SGLang":
            return await _sglang(server, served)
    return served


async def _listed(server: Connection) -> tuple[str, list[Mapping[str, Any]]]:
    """Where the API is below the server's root, and the models that it lists; none where it lists none and one is named."""
    named, host = server.address.model, server.address.host
    try:
        api, status, body = "/v1", *(await server.get("/v1/models"))
    except Unreachable:
        raise
    except UserError:
        if not named:
            raise
        return "/v1", []
    if status in (404, 405) and _rows(other := await server.probe("/models")) is not None:
        api, status, body = "", 200, other
    if status == 200 and (rows := _rows(body)) is not None:
        return api, rows
    if named and status != 503:
        return "/v1", []
    if status in (0, 200, 404, 405, 501):
        reason = "sends no list of models" if status else "does not answer in time"
        told = f" ({status})" if status > 200 else ""
        raise UserError(
            f"{host} {reason}{told}. Check the address: it should be that of an OpenAI-compatible API. If it is, name the "
            f"model behind it: {server.address.root}#NAME."
        )
    raise server.refusal(status, body)


def _rows(body: Any) -> list[Mapping[str, Any]] | None:
    """The rows of a list of models; None if it is none."""
    if not isinstance(body, dict) or "data" not in body:
        return None
    rows = [] if body["data"] is None else body["data"]  # as Ollama writes an empty list
    return [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else None


def _text(table: Mapping[str, Any], name: str) -> str:
    value = table.get(name)
    return value if isinstance(value, str) and value.isprintable() and len(value) <= 300 else ""


def _word(value: object) -> str:
    """A short name, or nothing."""
    return value if isinstance(value, str) and _NAME.fullmatch(value) else ""


def _chosen(server: Connection, engine: str, rows: Sequence[Mapping[str, Any]]) -> str:
    host, wanted, names = server.address.host, server.address.model, [_text(row, "id") for row in rows]
    if not wanted:
        writes = next((name for name in names if not _OTHER_KIND.search(name)), "")
        if not writes and (names or engine == OLLAMA):
            lists = "no model that writes text" if names else "no model"
            raise UserError(f"{host} ({engine}) lists {lists}. Name one behind the address: {server.address.root}#NAME.")
        return writes
    if not names:
        return wanted
    for row in rows:  # a name's case, or Ollama's tag
        name, others = _text(row, "id"), row.get("aliases")
        if wanted == name or (isinstance(others, list) and wanted in others):
            return wanted
        if wanted.lower() in (name.lower(), name.lower().removesuffix(":latest")):
            return name
    close = did_you_mean(wanted, names, f"it serves {', '.join(names[:8])}{' and more' if len(names) > 8 else ''}.")
    raise UserError(f"{host} has no model {server.said(wanted)}: {close}")


async def _engine(server: Connection) -> str:
    """The engine of a server whose list of models does not say it."""
    props, version = await asyncio.gather(server.probe("/props"), server.probe("/api/version"))
    if isinstance(props, dict) and "default_generation_settings" in props:
        return LLAMA_SERVER
    return OLLAMA if isinstance(version, dict) and "version" in version else UNKNOWN


async def _llama_server(server: Connection, served: Served, row: Mapping[str, Any]) -> Served:
    status = row.get("status")
    which = f"?model={quote(served.model, safe='')}" if isinstance(status, dict) else ""
    props = await server.probe(f"/props{which}")
    props = props if isinstance(props, dict) else {}
    settings = props.get("default_generation_settings")
    context = count(settings.get("n_ctx")) if isinstance(settings, dict) else None
    version = _word(props.get("build_info"))
    if isinstance(status, dict):  # a router tells the command line of each model, loaded or not
        args = args if isinstance(args := status.get("args"), list) else []
        types = next((value for option, value in pairwise(args) if option == "--spec-type"), "")
        method = types_of({"speculative.types": types}) or PLAIN
        return replace(served, version=version, context=context or 0, drafts=method != PLAIN, method=method)
    slots = await server.probe(f"/slots{which}")
    slots = [slot for slot in slots if isinstance(slot, dict)] if isinstance(slots, list) else []
    if not slots:
        return replace(served, version=version, context=context or 0)
    drafts = any(slot.get("speculative") is True for slot in slots)
    kinds = (types_of(slot.get("params")) for slot in slots)
    method = next(filter(None, kinds), "") if drafts else PLAIN
    if not method and any(slot.get("is_processing") is False for slot in slots):
        # It names its speculation in answers alone, so it is asked for the shortest one.
        asked = {"model": served.model, "prompt": "a", "n_predict": 0, "cache_prompt": False}
        answer = await server.probe("/completion", asked)
        method = types_of(answer.get("generation_settings")) if isinstance(answer, dict) else ""
    method = method or SPECULATION
    return replace(served, version=version, context=context or 0, drafts=drafts, method=method)


def types_of(settings: object) -> str:
    """How llama-server speculates, from the settings that it tells of a request; empty where they do not say."""
    told = settings.get("speculative.types") if isinstance(settings, dict) else None
    types = [_word(each) for each in told.split(",")] if isinstance(told, str) else []
    return "+".join(each for each in types if each and each != "none")


async def _vllm(server: Connection, served: Served) -> Served:
    version, metrics = await asyncio.gather(server.probe("/version"), server.probe("/metrics"))
    named = _word(version.get("version")) if isinstance(version, dict) else ""
    if not isinstance(metrics, str):
        return replace(served, version=named)
    if "vllm:spec_decode_num_drafts_total" not in metrics:
        known = "vllm:" in metrics
        return replace(served, version=named, drafts=False if known else None, method=PLAIN if known else UNTOLD)
    length = max((int(position) + 1 for position in _POSITION.findall(metrics)), default=0)
    info = await server.probe("/server_info?config_format=json")  # only where VLLM_SERVER_DEV_MODE is set
    config = info.get("vllm_config") if isinstance(info, dict) else None
    config = config.get("speculative_config") if isinstance(config, dict) else None
    kind = _word(config.get("method")) if isinstance(config, dict) else ""
    method = (kind or SPECULATION) + (f" K={length}" if length else "")
    return replace(served, version=named, drafts=True, method=method)


async def _sglang(server: Connection, served: Served) -> Served:
    info = await server.probe("/server_info") or await server.probe("/get_server_info")
    if not isinstance(info, dict):
        return served
    kind = _word(info.get("speculative_algorithm"))
    length = count(info.get("speculative_num_draft_tokens")) if kind else None
    method = (kind.lower() + (f" K={length}" if length else "")) if kind else PLAIN
    return replace(served, version=_word(info.get("version")), drafts=bool(kind), method=method)
