"""Which engine a server is, what it serves and whether it speculates: found out by asking, never from its port."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any
from urllib.parse import quote

from ...errors import UserError, did_you_mean
from .connection import Connection, count

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
    asking: Mapping[str, Any] = field(default_factory=dict)
    """Fields of each request that make the server decode so."""
    siblings: Mapping[str, str] = field(default_factory=dict)
    """Of llama-server as a router: how each of its models decodes that has the same file → the model's name."""

    @property
    def certainty(self) -> str:
        """How well runs will be known, as long as no answer says otherwise."""
        return {LLAMA_SERVER: "exact", VLLM: "reported", SGLANG: "reported"}.get(self.engine, "estimated")


async def identify(server: Connection) -> Served:
    """Ask a server what it is.

    Raises:
        UserError: nobody answers, it wants a key, it is loading, or it has no such model.
    """
    api, status, body = "/v1", *(await server.get("/v1/models"))
    if status in (404, 405) and (other := await server.get("/models"))[0] == 200:
        api, (status, body) = "", other
    rows = _rows(body)
    if status != 200 or rows is None:
        # transformers serve has no list where no model was ever downloaded.
        if status == 500 and await _openapi(server) == TRANSFORMERS:
            rows = []
        elif status in (0, 200):
            reason = "sends no list of models" if status else "does not answer in time"
            raise UserError(
                f"{server.address.host} {reason}. Check the address: it should be that of an OpenAI-compatible API."
            )
        else:
            raise server.refusal(status, body)
    assert rows is not None
    names = tuple(name for row in rows if (name := _text(row, "id")))
    owner = next((_text(row, "owned_by") for row in rows), "")
    engine = {"llamacpp": LLAMA_SERVER, "vllm": VLLM, "sglang": SGLANG}.get(owner) or await _engine(server)
    model = _chosen(server, engine, names)
    row = next((row for row in rows if row.get("id") == model), {})
    served = Served(engine, api, model, names, context=count(row.get("max_model_len")) or 0)
    match engine:
        case "llama-server":
            return await _llama_server(server, replace(served, siblings=_siblings(rows, row)), row)
        case "vLLM":
            return await _vllm(server, served)
        case "SGLang":
            return await _sglang(server, served)
    return served


def _rows(body: Any) -> list[Mapping[str, Any]] | None:
    data = body.get("data") if isinstance(body, dict) else None
    if isinstance(body, dict) and "data" in body and data is None:
        data = []  # as Ollama writes an empty list
    return [row for row in data if isinstance(row, dict)] if isinstance(data, list) else None


def _text(table: Mapping[str, Any], name: str) -> str:
    value = table.get(name)
    return value if isinstance(value, str) and value.isprintable() and len(value) <= 300 else ""


def _word(value: object) -> str:
    """A short name, or nothing."""
    return value if isinstance(value, str) and _NAME.fullmatch(value) else ""


def _chosen(server: Connection, engine: str, names: tuple[str, ...]) -> str:
    """The model to ask for.

    Raises:
        UserError: the server has no such model, or it has to be named.
    """
    host, wanted = server.address.host, server.address.model
    if wanted and engine == TRANSFORMERS:  # it takes a folder, and lists none
        return wanted
    if wanted and names and wanted not in names:
        close = did_you_mean(wanted, names, f"it serves {', '.join(names[:8])}{' and more' if len(names) > 8 else ''}.")
        raise UserError(f"{host} has no model {server.said(wanted)}: {close}")
    if not wanted and not names and engine in (TRANSFORMERS, OLLAMA, LM_STUDIO):
        raise UserError(f"{host} ({engine}) lists no model. Name one behind the address: {server.address.root}#NAME.")
    return wanted or (names[0] if names else "")


async def _engine(server: Connection) -> str:
    """The engine of a server whose list of models does not say it."""
    if found := await _openapi(server):
        return found
    for path, engine, has in (
        ("/props", LLAMA_SERVER, "default_generation_settings"),
        ("/api/version", OLLAMA, "version"),
        ("/api/v0/models", LM_STUDIO, "data"),
    ):
        status, body = await server.get(path)
        if status == 200 and isinstance(body, dict) and has in body:
            return engine
    return UNKNOWN


async def _openapi(server: Connection) -> str:
    """The engine, by the description that Python servers publish of themselves; empty if that tells none."""
    status, body = await server.get("/openapi.json")
    if status != 200 or not isinstance(body, dict):
        return ""
    info, paths = body.get("info"), body.get("paths")
    title = str(info.get("title", "")) if isinstance(info, dict) else ""
    if "llama.cpp Python API" in title:
        return LLAMA_CPP
    return TRANSFORMERS if isinstance(paths, dict) and {"/load_model", "/reset"} <= paths.keys() else ""


async def _llama_server(server: Connection, served: Served, row: Mapping[str, Any]) -> Served:
    router = isinstance(row.get("status"), dict)
    which = f"?model={quote(served.model, safe='')}" if router else ""
    _, props = await server.get(f"/props{which}")
    props = props if isinstance(props, dict) else {}
    settings = props.get("default_generation_settings")
    context = count(settings.get("n_ctx")) if isinstance(settings, dict) else None
    version = _word(props.get("build_info"))
    if router:  # it tells the command line of each model, loaded or not
        method = next((name for name, model in served.siblings.items() if model == served.model), UNTOLD)
        drafts = None if method == UNTOLD else not method.startswith(PLAIN)
        return replace(served, version=version, context=context or 0, drafts=drafts, method=method)
    _, slots = await server.get(f"/slots{which}")
    slots = [slot for slot in slots if isinstance(slot, dict)] if isinstance(slots, list) else []
    if not slots:
        return replace(served, version=version, context=context or 0)
    drafts = any(slot.get("speculative") is True for slot in slots)
    kinds = (types_of(slot.get("params")) for slot in slots)
    method = next(filter(None, kinds), "") if drafts else PLAIN
    if not method and any(slot.get("is_processing") is False for slot in slots):
        # It names its speculation in answers alone, so it is asked for the shortest one.
        asked = {"model": served.model, "prompt": "a", "n_predict": 0, "cache_prompt": False}
        _, answer = await server.post("/completion", asked)
        method = types_of(answer.get("generation_settings")) if isinstance(answer, dict) else ""
    method = method or SPECULATION
    return replace(served, version=version, context=context or 0, drafts=drafts, method=method)


def _siblings(rows: Sequence[Mapping[str, Any]], own: Mapping[str, Any]) -> dict[str, str]:
    """The models of a router that have one's own file, by how they decode."""
    out = dict[str, str]()
    file = _option(own, "--model") or _option(own, "--hf-repo")
    for row in rows:
        name = _text(row, "id")
        if file and name and file in (_option(row, "--model"), _option(row, "--hf-repo")):
            method = types_of({"speculative.types": _option(row, "--spec-type")}) or PLAIN
            out[method if method not in out else f"{method} ({name})"] = name
    return out


def _option(row: Mapping[str, Any], name: str) -> str:
    """An option of the command line that a router tells of a model; empty if it has none."""
    status = row.get("status")
    args = status.get("args") if isinstance(status, dict) else None
    args = [each for each in args if isinstance(each, str)] if isinstance(args, list) else []
    return next((value for option, value in pairwise(args) if option == name), "")


def types_of(settings: object) -> str:
    """How llama-server speculates, from the settings that it tells of a request; empty where they do not say."""
    told = settings.get("speculative.types") if isinstance(settings, dict) else None
    types = [_word(each) for each in told.split(",")] if isinstance(told, str) else []
    return "+".join(each for each in types if each and each != "none")


async def _vllm(server: Connection, served: Served) -> Served:
    _, version = await server.get("/version")
    named = _word(version.get("version")) if isinstance(version, dict) else ""
    _, metrics = await server.get("/metrics")
    if not isinstance(metrics, str):
        return replace(served, version=named)
    if "vllm:spec_decode_num_drafts_total" not in metrics:
        known = "vllm:" in metrics
        return replace(served, version=named, drafts=False if known else None, method=PLAIN if known else UNTOLD)
    length = max((int(position) + 1 for position in _POSITION.findall(metrics)), default=0)
    _, info = await server.get("/server_info?config_format=json")  # only where VLLM_SERVER_DEV_MODE is set
    config = info.get("vllm_config") if isinstance(info, dict) else None
    config = config.get("speculative_config") if isinstance(config, dict) else None
    kind = _word(config.get("method")) if isinstance(config, dict) else ""
    method = (kind or SPECULATION) + (f" K={length}" if length else "")
    return replace(served, version=named, drafts=True, method=method)


async def _sglang(server: Connection, served: Served) -> Served:
    status, info = await server.get("/server_info")
    if status != 200:
        status, info = await server.get("/get_server_info")
    if status != 200 or not isinstance(info, dict):
        return served
    kind = _word(info.get("speculative_algorithm"))
    length = count(info.get("speculative_num_draft_tokens")) if kind else None
    method = (kind.lower() + (f" K={length}" if length else "")) if kind else PLAIN
    return replace(served, version=_word(info.get("version")), drafts=bool(kind), method=method)
