"""Which engine a server is, what it serves and whether it speculates: found out by asking, never from its port."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any
from urllib.parse import quote, unquote

from ...errors import UserError, did_you_mean
from .connection import Connection, Unreachable, count

LLAMA_SERVER, VLLM, SGLANG = "llama-server", "vLLM", "SGLang"
TRANSFORMERS, LLAMA_CPP, OLLAMA, LM_STUDIO = "transformers serve", "llama_cpp.server", "Ollama", "LM Studio"
UNKNOWN = "OpenAI-compatible"

PLAIN = "plain"
"""The method of a server that does not speculate."""
SPECULATION = "speculation"
"""The method of one that speculates and does not say how."""
UNTOLD = "server"
"""The method of one that tells nothing."""

_NAME = re.compile(r"[\w.:+-]{1,40}", re.ASCII)
"""Names of engines' methods and versions; anything else that a server sends in their place is not shown."""
_POSITION = re.compile(r'spec_decode_num_accepted_tokens_per_pos_total\{[^}]*position="(\d+)"')


_OTHER_KIND = re.compile(
    r"embed|rerank|moderation|whisper|transcri|\btts\b|speech|dall-e|diffusion|text-to-image|\bimage\b|\bclip\b|bge-|\bgte-"
    r"|\be5-|minilm|colbert|splade|cross-encoder|feature-extraction|sentence-similarity"
)
"""Kinds and names of models that write no text."""
_SIGNS = (
    ("/props", LLAMA_SERVER, "default_generation_settings"),
    ("/api/version", OLLAMA, "version"),
    ("/api/v0/models", LM_STUDIO, "data"),
)
"""Where an engine answers alone, and with what."""


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
    rows = [row for row in rows if _name(row)]
    names = tuple(dict.fromkeys(map(_name, rows)))
    owner = next((_text(row, "owned_by") for row in rows), "")
    engine = {"llamacpp": LLAMA_SERVER, "vllm": VLLM, "sglang": SGLANG}.get(owner) or await _engine(server)
    model = _chosen(server, engine, rows)
    row = next((row for row in rows if _name(row) == model), {})
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
        return _guessed(server), []
    if status in (404, 405) and _rows(other := await server.probe("/models")) is not None:
        api, status, body = "", 200, other
    if status == 200 and (rows := _rows(body)) is not None:
        return api, rows
    # transformers serve has no list where no model was ever downloaded.
    if (named and status != 503) or (status == 500 and await _openapi(server) == TRANSFORMERS):
        return _guessed(server), []
    if status in (0, 200, 404, 405, 501):
        reason = "sends no list of models" if status else "does not answer in time"
        told = f" ({status})" if status > 200 else ""
        raise UserError(
            f"{host} {reason}{told}. Check the address: it should be that of an OpenAI-compatible API. If it is, name the "
            f"model behind it: {server.address.root}#NAME."
        )
    raise server.refusal(status, body)


def _guessed(server: Connection) -> str:
    """Where the API is, where no list tells it: an address that ends in a version of its own is all of it."""
    return "" if re.search(r"/v\d\w*(/openai)?$", server.address.root) else "/v1"


def _rows(body: Any) -> list[Mapping[str, Any]] | None:
    """The rows of a list of models; None if it is none. Some servers list names alone, or have no table around the list."""
    if isinstance(body, dict):
        found = next((body[name] for name in ("data", "models", "result") if name in body), body)
        body = [] if found is None else found  # as Ollama writes an empty list
    if not isinstance(body, list):
        return None
    rows = [{"id": row} if isinstance(row, str) else row for row in body]
    return [row for row in rows if isinstance(row, dict)]


def _name(row: Mapping[str, Any]) -> str:
    return next(filter(None, (_text(row, name) for name in ("id", "name", "model", "model_name"))), "")


def _writes(row: Mapping[str, Any]) -> bool:
    """Whether a model writes text, as far as its row says: many servers list those that embed, rank or speak beside them."""
    able = row.get("capabilities")
    if isinstance(able, dict) and able.get("completion_chat") is False:  # Mistral
        return False
    kind = " ".join(value for name in ("type", "task", "model_type", "kind") if isinstance(value := row.get(name), str))
    return not _OTHER_KIND.search(f"{kind} {_name(row)}".lower())


def _text(table: Mapping[str, Any], name: str) -> str:
    value = table.get(name)
    return value if isinstance(value, str) and value.isprintable() and len(value) <= 300 else ""


def _word(value: object) -> str:
    """A short name, or nothing."""
    return value if isinstance(value, str) and _NAME.fullmatch(value) else ""


def _chosen(server: Connection, engine: str, rows: Sequence[Mapping[str, Any]]) -> str:
    host, wanted, names = server.address.host, server.address.model, [_name(row) for row in rows]
    if not wanted:
        writes = next((_name(row) for row in rows if _writes(row)), "")
        if not writes and (names or engine in (TRANSFORMERS, OLLAMA, LM_STUDIO)):
            lists = "no model that writes text" if names else "no model"
            raise UserError(f"{host} ({engine}) lists {lists}. Name one behind the address: {server.address.root}#NAME.")
        return writes
    if engine == TRANSFORMERS or not names:  # it takes a folder, and lists none
        return wanted
    for row in rows:  # a name's case, Ollama's tag, or what stood for `%20` in the address
        name, others = _name(row), row.get("aliases")
        if wanted == name or (isinstance(others, list) and wanted in others):
            return wanted
        if wanted.lower() in (name.lower(), unquote(name).lower(), name.lower().removesuffix(":latest")):
            return name
    if any("*" in name or wanted.startswith(f"{name}:") for name in names):  # LiteLLM's patterns, OpenRouter's variants
        return wanted
    close = did_you_mean(wanted, names, f"it serves {', '.join(names[:8])}{' and more' if len(names) > 8 else ''}.")
    raise UserError(f"{host} has no model {server.said(wanted)}: {close}")


async def _engine(server: Connection) -> str:
    """The engine of a server whose list of models does not say it."""
    described, *found = await asyncio.gather(_openapi(server), *(server.probe(path) for path, _, _ in _SIGNS))
    signs = zip(found, _SIGNS, strict=True)
    told = (engine for body, (_, engine, has) in signs if isinstance(body, dict) and has in body)
    return described or next(told, UNKNOWN)


async def _openapi(server: Connection) -> str:
    """The engine, by the description that Python servers publish of themselves; empty if that tells none."""
    body = await server.probe("/openapi.json")
    if not isinstance(body, dict):
        return ""
    info, paths = body.get("info"), body.get("paths")
    title = str(info.get("title", "")) if isinstance(info, dict) else ""
    if "llama.cpp Python API" in title:
        return LLAMA_CPP
    return TRANSFORMERS if isinstance(paths, dict) and {"/load_model", "/reset"} <= paths.keys() else ""


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
