"""Where one server stops in the middle of an answer and another goes on: from the same tokens, and whether that is certain."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ...errors import UserError, counted
from .bodies import ServerRequest, body_of
from .chunks import NO_ID, Chunk
from .connection import Connection, count
from .identify import LLAMA_SERVER, SGLANG, VLLM, Served
from .thoughts import Parts, unmarked

HELD_BACK = 16
"""Tokens, at most, whose text a server keeps until a character or a stop text is complete."""

BY_TEXT = (SGLANG, VLLM)
"""Engines that go on with an assistant's message that is not complete."""

FROM_TEXT = "from the text"


@dataclass(slots=True)
class Trail:
    """What an answer has come to, over all the servers that wrote it, as the next one needs to know it."""

    text: str = ""
    """The answer as shown."""
    thought: str = ""
    """The thought before it."""
    raw: str = ""
    """Both as the servers sent them."""
    parts: Parts = field(default_factory=Parts)
    """What of it is which."""
    tokens: int = 0
    """That were handed out in runs."""
    prompt_tokens: int | None = None
    prompt_ids: tuple[int, ...] = ()
    ids: list[int] | None = field(default_factory=list)
    """Token ids of the answer; None where a server did not send them."""
    pieces: list[tuple[str, int]] | None = field(default_factory=list)
    """Text of llama-server, which sends no ids: the text of each token, or of several that make a character, and how many; None
    where another one wrote a part."""
    owed: int = 0
    """Tokens that were handed out without their text, and come once more."""
    _counted: int = 0

    def begin(self) -> None:
        """Another stream begins, whose counters do."""
        self._counted = 0

    def take(self, chunk: Chunk) -> None:
        """Take in a chunk."""
        said = chunk.thought + chunk.text
        self.raw += said
        self.prompt_ids = self.prompt_ids or chunk.prompt_ids
        timings = chunk.timings
        if timings is not None:
            if said:
                # Before the first token the counts are of what has been read so far.
                self.prompt_tokens = self.prompt_tokens or timings.prompt + timings.cached
                self.ids = None  # what llama-server sends of characters with several tokens is their last one
                if self.pieces is not None:
                    self.pieces.append((said, timings.predicted - self._counted))
                self._counted = timings.predicted
            return
        if said or chunk.ids:
            self.pieces = None
            if chunk.ids is None or NO_ID in chunk.ids:
                self.ids = None
            elif self.ids is not None:
                self.ids += chunk.ids


@dataclass(frozen=True, slots=True)
class Seam:
    """How to go on."""

    request: ServerRequest
    how: str
    """From what, in words: `from the same 34 tokens`."""
    owed: int = 0
    """Tokens that had come without their text: they come once more."""
    doubt: str = ""
    """A sentence, where it is not certain that the servers read the same tokens."""


def can_go_on(engine: str) -> bool:
    """Whether a server of this engine can begin in the middle of an answer."""
    return engine in (LLAMA_SERVER, *BY_TEXT)


async def seam(server: Connection, served: Served, request: ServerRequest, trail: Trail) -> Seam:
    """Where and how a server goes on.

    Args:
        server: which is to go on.
        served: what it is.
        request: what was asked at first.
        trail: what has come of it.

    Raises:
        UserError: it cannot, or it does not answer.
    """
    engine = served.engine
    if not can_go_on(engine):
        raise UserError(f"{engine} cannot go on in the middle of an answer.")
    if not trail.tokens and not trail.text and not trail.thought:
        return Seam(request, "from the prompt")
    found = None
    if trail.ids and trail.prompt_ids and engine in (LLAMA_SERVER, VLLM):
        found = await _by_ids(server, served, request, trail)
    elif engine == LLAMA_SERVER and not trail.thought:  # the marks around a thought have not come as tokens
        found = await _by_pieces(server, served, request, trail)
    if found is None:
        found = Seam(replace(request, said=trail.text, thought=trail.thought), FROM_TEXT, doubt=_unproven(engine))
    if request.max_tokens is not None:
        rest = max(1, request.max_tokens - trail.tokens + found.owed)
        found = replace(found, request=replace(found.request, max_tokens=rest))
    return found


def _unproven(engine: str) -> str:
    return f"{engine} went on from the text of the answer so far: that it read the same tokens cannot be proven."


async def _ask(server: Connection, served: Served, path: str, field: str, body: dict[str, Any]) -> Any:
    """What a server answers about texts and tokens."""
    status, found = await server.post(path, {"model": served.model, **body})
    if status != 200 or not isinstance(found, dict) or field not in found:
        if status in (0, 200):
            raise UserError(f"{server.address.host} does not answer at {path}.")
        raise server.refusal(status, found)
    return found[field]


async def _by_ids(server: Connection, served: Served, request: ServerRequest, trail: Trail) -> Seam:
    """From the ids that the server before has sent. What they say is compared with what it said, marks of a thought aside, by
    which the rest is parted: in mid-answer a server does not."""
    ids, prompt = trail.ids or [], trail.prompt_ids
    field = "prompt" if served.engine == VLLM else "content"

    async def read(tokens: Sequence[int]) -> str:
        return str(await _ask(server, served, "/detokenize", field, {"tokens": list(tokens)}))

    before = await read(prompt[-HELD_BACK:])
    for owed in range(min(HELD_BACK, len(ids))):
        kept = ids[: len(ids) - owed]
        text = whole = await read(kept)
        if text != trail.raw and (found := unmarked(before, text)) is not None:
            text, splitter = found
            trail.parts.go_on(splitter)
        if text == trail.raw:
            trail.ids, trail.owed, trail.raw = kept, owed, whole
            how = f"from the same {counted(len(kept), 'token')}"
            return Seam(replace(request, ids=[*prompt, *kept]), how, owed)
        if not text.startswith(trail.raw):
            break
    host = server.address.host
    doubt = f"{host} went on from the token ids of the answer so far, but reads another text in them."
    return Seam(replace(request, ids=[*prompt, *ids]), "from the token ids", doubt=doubt)


async def _by_pieces(server: Connection, served: Served, request: ServerRequest, trail: Trail) -> Seam:
    """From the tokens that the server makes of prompt and answer, compared with those that were written one by one."""
    prompt, text = request.prompt, trail.text
    if request.messages is not None:
        _, asked = body_of(served, request)
        told: dict[str, Any] = {name: asked[name] for name in ("messages", "chat_template_kwargs") if name in asked}
        prompt = str(await _ask(server, served, "/apply-template", "prompt", told))
    body = {"content": prompt + text, "add_special": True, "parse_special": True, "with_pieces": True}
    rows = await _ask(server, served, "/tokenize", "tokens", body)
    ids = [count(row.get("id")) if isinstance(row, dict) else None for row in rows] if isinstance(rows, list) else []
    if not ids or None in ids:
        raise UserError(f"{server.address.host} does not tell the tokens of a text.")
    written = sum(several for _, several in trail.pieces or ())
    own = [_bytes(row.get("piece")) for row in rows[len(rows) - written :]] if written else []
    same = trail.pieces is not None and trail.prompt_tokens == len(rows) - written and _same(own, trail.pieces)
    trail.owed = max(0, trail.tokens - written) if same else 0
    how = f"from the same {counted(written, 'token')}" if same else FROM_TEXT
    wanted = replace(request, ids=[id for id in ids if id is not None])
    return Seam(wanted, how, trail.owed, "" if same else _unproven(served.engine))


def _bytes(piece: object) -> bytes:
    """A token's text, which is a list of bytes where it is a part of a character."""
    if isinstance(piece, list):
        return bytes(each for each in piece if isinstance(each, int) and 0 <= each < 256)
    return piece.encode("utf-8", "replace") if isinstance(piece, str) else b""


def _same(own: Sequence[bytes], pieces: Sequence[tuple[str, int]]) -> bool:
    """Whether tokens are those that were written, one by one."""
    at = 0
    for text, several in pieces:
        if b"".join(own[at : at + several]) != text.encode("utf-8", "replace"):
            return False
        at += several
    return at == len(own)
