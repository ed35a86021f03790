"""Requests to one server: bounded in time and size, never redirected. The key appears in no sentence."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import html
import json
import math
import re
import ssl
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import quote, quote_plus, urlsplit
from urllib.request import getproxies, proxy_bypass

import httpx2

from ... import __version__
from ...errors import ContextFull, UserError, counted
from .address import Address, key_place
from .encodings import unpack
from .refusals import error_text, is_context_full, parse_wait, prompt_sizes
from .values import parse_json

CONNECT_SECONDS = 10.0
"""Time limit of opening a connection."""

ASK_SECONDS = 10.0
"""Time limit of a question about the server, from the connection to the last byte."""

MOST_BODY = 128_000_000
"""Bytes of a body that is no stream: a server's metrics, the models of a large provider, the tokens of a long prompt."""

MOST_QUOTED = 300
"""Characters of a server's text within a sentence."""


class Unreachable(UserError):
    """There is no connection to the server."""


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
        self._hidden = spellings(self._key) if self._key else None
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
        line = " ".join(str(text).split())
        if isinstance(text, BaseException):
            line = line or type(text).__name__
        if self._hidden is not None:
            line = self._hidden.sub("[key]", line)
        line = "".join(character if character.isprintable() else "?" for character in line).rstrip(".")
        return line if len(line) <= MOST_QUOTED else f"{line[:MOST_QUOTED]} …"

    async def ask(self, path: str, body: dict[str, Any] | None = None) -> tuple[int, Any]:
        """Return status and body of a GET or (with a body) POST: JSON if it is that, else text; (0, None) if nothing comes in
        time.

        Raises:
            Unreachable: there is no connection.
            UserError: the server redirects, hangs up, or does not speak HTTP.
        """
        request = self.http.build_request("POST" if body else "GET", self.address.root + path, json=body)
        try:
            async with asyncio.timeout(ASK_SECONDS), self._response(request) as response:
                return response.status_code, await self._body(response)
        except (TimeoutError, httpx2.ReadTimeout):
            return 0, None
        except (httpx2.HTTPError, httpx2.InvalidURL, OSError, UnicodeError, ValueError) as error:
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
            unpack(response)
            if 300 <= response.status_code < 400:
                target = self.quote(response.headers.get("Location", "nowhere"))
                unsent = " Your key was not sent there." if self._key else ""
                raise UserError(
                    f"{self.address.host} redirects to {target}, which is not followed.{unsent} If you trust that address, use "
                    "it as the model."
                )
            yield response
        finally:
            await response.aclose()

    async def _body(self, response: httpx2.Response) -> Any:
        """Read as much of a body as comes in time, up to MOST_BODY bytes: a failing server may stall or hang up."""
        data = bytearray()
        with contextlib.suppress(TimeoutError, httpx2.HTTPError):
            async with asyncio.timeout(ASK_SECONDS):
                async for chunk in response.aiter_bytes():
                    data += chunk
                    if len(data) > MOST_BODY:
                        break
        return parse_json(bytes(data[:MOST_BODY]).decode("utf-8-sig", "replace"))

    @contextlib.asynccontextmanager
    async def stream(self, path: str, body: dict[str, Any]) -> AsyncIterator[httpx2.Response]:
        """Yield the response to a POST whose body is a stream.

        Raises:
            UserError: the server refused the request.
            httpx2.HTTPError: the connection failed.
        """
        async with self._response(self.http.build_request("POST", self.address.root + path, json=body)) as response:
            if not response.is_success:
                answer = await self._body(response)
                raise self.refusal(response.status_code, answer, parse_wait(response.headers, answer))
            yield response

    # Sentences

    def unreachable(self, error: BaseException) -> UserError:
        """Make the error for a server that does not answer, or not as a server of models does."""
        host, reason = self.address.host, self.quote(error)
        cause: BaseException | None = error
        while cause is not None and not isinstance(cause, ssl.SSLError):
            cause = cause.__cause__ or cause.__context__
        if re.search(r"wrong.version.number|record.layer.failure|http.request", str(error), re.IGNORECASE):
            plain = self.address.root.replace("https:", "http:", 1)
            return Unreachable(f"{host} speaks http there, not https. Use {plain} if no one else can listen on the way.")
        if cause is not None or "CERTIFICATE" in str(error).upper():
            return Unreachable(
                f"The certificate or encryption of {host} is not right ({reason}). Check the address; a certificate of your "
                "own is given in SSL_CERT_FILE."
            )
        if isinstance(error, httpx2.ProxyError):
            return Unreachable(f"The proxy does not reach {host} ({reason}). Check HTTPS_PROXY and NO_PROXY.")
        if isinstance(error, httpx2.RemoteProtocolError | httpx2.DecodingError | httpx2.ReadError | httpx2.WriteError):
            return UserError(
                f"{host} does not answer as a server of models does ({reason}). Check the address, and whether it begins with "
                "http or https."
            )
        if proxy := self._proxy():
            return Unreachable(
                f"The proxy {proxy} does not answer, and {host} is asked through it ({reason}). Check HTTPS_PROXY, "
                "HTTP_PROXY, ALL_PROXY and NO_PROXY."
            )
        return Unreachable(f"Nothing answers at {host} ({reason}). Start the server, or check the address and the network.")

    def _proxy(self) -> str:
        """Return host and port of the proxy in front of the server; "" without one."""
        url, proxies = urlsplit(self.address.root), getproxies()
        proxy = proxies.get(url.scheme) or proxies.get("all") or ""
        if self.address.local or not proxy or proxy_bypass(url.netloc):
            return ""
        return self.quote(proxy.rpartition("@")[2].rpartition("//")[2].rstrip("/"))

    def broken(self, error: BaseException, in_answer: bool) -> UserError:
        """Make the error for a connection that failed behind the request; `in_answer`: any of the answer had come."""
        if isinstance(error, httpx2.ConnectError | httpx2.ConnectTimeout | httpx2.ProxyError | httpx2.PoolTimeout):
            return self.unreachable(error)
        place = "in the middle of the answer" if in_answer else "before the answer began"
        check = "What came is kept; check" if in_answer else "Check"
        return UserError(
            f"The connection to {self.address.host} broke off {place} ({self.quote(error)}). {check} whether the server still "
            "runs, then send the message again."
        )

    def refusal(self, status: int, body: Any, wait: float = 0.0) -> UserError:
        """Make the error for a status other than 200, or an error in the stream.

        Args:
            status: of HTTP, or the error's own code.
            body: of the response, or the error.
            wait: seconds that the server asks to wait; 0 if it does not say.
        """
        host, message = self.address.host, error_text(body)
        reason = f": {self.quote(message)}" if message else ""
        if status == 413 or (status not in (401, 402, 403, 429) and is_context_full(body)):
            prompt, context = prompt_sizes(body)
            sizes = f" ({counted(prompt, 'token')} of {context:,})" if prompt and context else reason
            return ContextFull(f"The chat no longer fits in the context of {host}{sizes}. Start a new chat or shorten it.")
        if status in (401, 403) and not self._key:
            return UserError(
                f"{host} wants a key ({status}). Put it into an environment variable and name that in the settings: "
                f'[servers.NAME] with url = "{self.address.root}" and key_env = "VARIABLE".'
            )
        cause = f"({status}{reason})"
        match status:
            case 401 | 403:
                place = key_place(self.address.key) if self.address.key else ""
                return UserError(f"{host} does not accept the key in {place} ({status}). Check the key.")
            case 402:
                return UserError(f"{host} has no credit left for this key {cause}. Check the account, or ask another server.")
            case 404 | 405 | 410 | 415 | 421 | 426:
                return UserError(f"{host} does not have what was asked for {cause}. Check the address and the model's name.")
            case 429:
                when = f"in {math.ceil(wait):,} s" if wait else "in a while"
                return UserError(f"{host} takes no more requests now {cause}. Send the message again {when}.")
            case 503:
                when = f"Try again in {math.ceil(wait):,} s." if wait else "Wait until its model is loaded, then try again."
                return UserError(f"{host} is not ready {cause}. {when}")
            case _ if status >= 500 or status in (408, 425, 499):
                return Refused(f"{host} failed {cause}. Send the message again; the server's log may say why.", body)
        return Refused(f"{host} refused the request {cause}. Change what it names, or ask another server.", body)


def spellings(key: str) -> re.Pattern[str]:
    """Compile a pattern that matches a key as it is, and in the encodings in which an echo may have it."""
    data = key.encode("utf-8", "surrogatepass")
    forms = {key, quote(key, safe=""), quote(key), quote_plus(key), json.dumps(key)[1:-1], html.escape(key), data.hex()}
    for before in range(3):  # base64 depends on the number of bytes before the key, modulo 3
        packed = base64.b64encode(bytes(before) + data).decode().rstrip("=")
        certain = packed[(0, 2, 3)[before] : len(packed) - ((before + len(data)) % 3 > 0)]
        forms |= {certain, certain.replace("+", "-").replace("/", "_")} if len(certain) > 3 else set()
    return re.compile("|".join(map(re.escape, sorted(forms, key=len, reverse=True))), re.IGNORECASE)
