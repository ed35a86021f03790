"""Requests to one server: bounded in time and size, never redirected. The key appears in no sentence."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
from collections.abc import AsyncIterator
from typing import Any

import httpx2

from ... import __version__
from ...errors import ContextFull, UserError
from .address import Address

CONNECT_SECONDS = 10.0
"""Time limit of opening a connection."""

ASK_SECONDS = 10.0
"""Time limit of a question about the server, from the connection to the last byte."""

MOST_BODY = 128_000_000
"""Bytes of a body that is no stream: a server's metrics, the models of a large provider, the tokens of a long prompt."""

MOST_QUOTED = 300
"""Characters of a server's text within a sentence."""

ERROR_FIELDS = ("error", "message", "detail", "msg")
"""Fields with the text of an error: OpenAI's, then those of Python servers."""

FULL = re.compile(
    r"exceed_context|context_length_exceeded|maximum context length|longer than the model'?s|available context size"
    r"|max_tokens must be at least 1, got (0|-)",
    re.IGNORECASE,
)
"""Wordings of llama-server, vLLM, SGLang, Ollama and OpenAI for a prompt that does not fit."""


class Refused(UserError):
    """The server refuses a request.

    Args:
        sentence: for the user.
        body: of the refusal.
    """

    def __init__(self, sentence: str, body: Any) -> None:
        super().__init__(sentence)
        self.body = body


class Connection:
    """An HTTP client of one server, for one event loop.

    Args:
        address: of the server.

    Raises:
        UserError: the key cannot be read, or the shell's settings of connections cannot be used.
    """

    def __init__(self, address: Address) -> None:
        self.address = address
        self._key = address.read_key()
        headers = {"Accept-Encoding": "identity", "User-Agent": f"specchat/{__version__}"}
        if self._key:
            headers["Authorization"] = f"Bearer {self._key}"
        try:
            self.http = httpx2.AsyncClient(
                headers=headers,
                follow_redirects=False,  # one could lead the key, or the chat, to another server
                trust_env=not address.local,  # this machine has no proxy in front; SSL_CERT_FILE counts everywhere
                # Without encryption there are no certificates to read, for 30 ms.
                verify=httpx2.create_ssl_context() if address.root.startswith("https:") else False,
                # A kept connection may be closed by now, and the request lost: sent again, it could be answered twice.
                limits=httpx2.Limits(max_keepalive_connections=0),
                timeout=httpx2.Timeout(None, connect=CONNECT_SECONDS, pool=CONNECT_SECONDS),
            )
        except (ImportError, ValueError, OSError) as error:  # a proxy's address or a certificate file that is none
            raise UserError(
                f"This shell's connection settings cannot be used ({self.quote(error)}). Check HTTPS_PROXY, ALL_PROXY and "
                "SSL_CERT_FILE."
            ) from None

    async def close(self) -> None:
        """Close every connection."""
        await self.http.aclose()

    def quote(self, text: object) -> str:
        """Return a server's or a library's text as a part of a sentence: one line, bounded, without the key."""
        line = " ".join(str(text).split()) or type(text).__name__
        line = line.replace(self._key, "[key]") if self._key else line
        line = "".join(character if character.isprintable() else "?" for character in line).rstrip(".")
        return line if len(line) <= MOST_QUOTED else f"{line[:MOST_QUOTED]} …"

    async def ask(self, path: str, body: dict[str, Any] | None = None) -> tuple[int, Any]:
        """Return status and body of a GET or (with a body) POST: JSON if it is that, else text; (0, None) if nothing comes in
        time.

        Raises:
            UserError: there is no connection, or the server redirects, hangs up, or does not speak HTTP.
        """
        request = self.http.build_request("POST" if body else "GET", self.address.root + path, json=body)
        try:
            async with asyncio.timeout(ASK_SECONDS), self._response(request) as response:
                return response.status_code, await self.read_body(response)
        except (TimeoutError, httpx2.ReadTimeout):
            return 0, None
        except (httpx2.HTTPError, httpx2.InvalidURL, OSError, UnicodeError) as error:
            raise self.unreachable(error) from None

    async def probe(self, path: str, body: dict[str, Any] | None = None) -> Any:
        """Return the JSON or text at a path that few servers have; None for anything else that a server does there."""
        try:
            status, answer = await self.ask(path, body)
        except UserError:
            return None
        return answer if status == 200 else None

    @contextlib.asynccontextmanager
    async def _response(self, request: httpx2.Request) -> AsyncIterator[httpx2.Response]:
        """Yield the response to a request, with an unread body. Its connection is closed at the end, which stops the server."""
        response = await self.http.send(request, stream=True)
        try:
            if response.is_redirect:
                target = self.quote(response.headers["Location"])
                raise UserError(f"{self.address.host} redirects to {target}, which is not followed. Check the address.")
            yield response
        finally:
            await response.aclose()

    async def read_body(self, response: httpx2.Response) -> Any:
        """Read as much of a body as comes in time, up to MOST_BODY bytes: a failing server may stall or hang up."""
        data = bytearray()
        with contextlib.suppress(TimeoutError, httpx2.HTTPError):
            async with asyncio.timeout(ASK_SECONDS):
                async for chunk in response.aiter_bytes():
                    data += chunk
                    if len(data) > MOST_BODY:
                        break
        text = data.decode("utf-8", "replace")
        try:
            return json.loads(text)
        except ValueError:
            return text

    @contextlib.asynccontextmanager
    async def stream(self, path: str, body: dict[str, Any]) -> AsyncIterator[httpx2.Response]:
        """Yield the response to a POST whose body is a stream.

        Raises:
            UserError: the server refused the request.
            httpx2.HTTPError: the connection failed.
        """
        async with self._response(self.http.build_request("POST", self.address.root + path, json=body)) as response:
            if not response.is_success:
                raise self.refusal(response.status_code, await self.read_body(response))
            yield response

    def unreachable(self, error: BaseException) -> UserError:
        """Make the error for a server that does not answer, or not as a server of models does."""
        host, reason = self.address.host, self.quote(error)
        if isinstance(error, httpx2.RemoteProtocolError | httpx2.DecodingError | httpx2.ReadError | httpx2.WriteError):
            return UserError(f"{host} does not answer as a server of models does ({reason}). Check the address.")
        advice = "Start the server, or check the address and the network."
        if self.address.root.startswith("https:"):
            advice = "Check the address, the network, HTTPS_PROXY, and for a certificate of your own SSL_CERT_FILE."
        return UserError(f"Nothing answers at {host} ({reason}). {advice}")

    def refusal(self, status: int, body: Any) -> UserError:
        """Make the error for a status other than 200, or an error in the stream.

        Args:
            status: of HTTP, or the error's own code.
            body: of the response, or the error.
        """
        host, message = self.address.host, error_text(body)
        cause = f"({status}: {self.quote(message)})" if message else f"({status})"
        if status == 413 or (status not in (401, 403, 429) and is_context_full(body)):
            return ContextFull(f"The chat no longer fits in the context of {host} {cause}. Start a new chat or shorten it.")
        match status:
            case 401 | 403 if not self._key:
                return UserError(
                    f"{host} wants a key ({status}). Put it into an environment variable and name that in the settings: "
                    f'[servers.NAME] with url = "{self.address.root}" and key_env = "VARIABLE".'
                )
            case 401 | 403:
                return UserError(f"{host} does not accept the key in {self.address.key_place} ({status}). Check the key.")
            case 404 | 405:
                return UserError(f"{host} does not have what was asked for {cause}. Check the address and the model's name.")
            case 429 | 503:
                return UserError(f"{host} is not ready {cause}. Send the message again in a while.")
            case _ if status >= 500:
                return Refused(f"{host} failed {cause}. Send the message again; the server's log may say why.", body)
        return Refused(f"{host} refused the request {cause}. Change what it names, or ask another server.", body)


def error_text(body: Any) -> str:
    """Extract the text of an error; of a body that is no JSON its first line."""
    while not isinstance(body, str):
        if isinstance(body, list) and body:
            body = body[0]
        elif isinstance(body, dict):
            body = next((body[name] for name in ERROR_FIELDS if body.get(name)), "")
        else:
            return ""
    return next(iter(body.strip().splitlines()), "")


def is_context_full(body: Any) -> bool:
    """Return whether an error says that the prompt does not fit in the context."""
    return FULL.search(json.dumps(body)) is not None
