"""Requests to one server: bounded in time and size, never redirected, and no text of the server's is trusted."""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import re
import ssl
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import httpx2

from ... import __version__
from ...errors import ContextFull, UserError, counted
from .address import Address, where
from .encodings import spellings, unpacked
from .refusals import is_full, numbers_of, wait_of, words_of

CONNECT_SECONDS = 10.0
"""Until a connection stands."""

ASK_SECONDS = 10.0
"""For a question about the server itself, from the connection to the last byte."""

MOST_BODY = 128_000_000
"""Bytes of an answer that is no stream: a server's metrics, the models of a large provider, the tokens of a long prompt."""

MOST_SAID = 300
"""Characters of a server's own words within a sentence."""


class Unreachable(UserError):
    """There is no connection to the server."""


class Refused(UserError):
    """The server refuses a request.

    Args:
        sentence: for the user.
        body: what came with it.
    """

    def __init__(self, sentence: str, body: Any) -> None:
        super().__init__(sentence)
        self.body = body


class Connection:
    """A client of one server. Used on one event loop.

    Args:
        address: where it is.

    Raises:
        UserError: the key is not where it should be.
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
                # A redirect could lead the key, or the chat, to somebody else.
                follow_redirects=False,
                trust_env=not address.local,  # no proxy stands before this machine; SSL_CERT_FILE counts everywhere
                # Without encryption there are no certificates to read, for 30 ms.
                verify=httpx2.create_ssl_context() if address.root.startswith("https:") else False,
                # A connection that is used again may have been closed meanwhile, and what was sent into it is lost: it could
                # only be sent once more, and an answer be written twice.
                limits=httpx2.Limits(max_keepalive_connections=0),
                timeout=httpx2.Timeout(None, connect=CONNECT_SECONDS, pool=CONNECT_SECONDS),
            )
        except (ImportError, ValueError, OSError) as error:  # a proxy's address or a certificate file that is none
            raise UserError(
                f"This shell's connection settings cannot be used ({self.said(error)}). Check HTTPS_PROXY, ALL_PROXY and "
                "SSL_CERT_FILE."
            ) from None

    async def close(self) -> None:
        """Close every connection."""
        await self.http.aclose()

    def said(self, what: object) -> str:
        """What somebody else said, as a part of a sentence: one line, bounded, and without the key."""
        text = " ".join(str(what).split())
        if isinstance(what, BaseException):
            text = text or type(what).__name__
        if self._hidden is not None:
            text = self._hidden.sub("[key]", text)
        text = "".join(each if each.isprintable() else "?" for each in text).rstrip(".")
        return text if len(text) <= MOST_SAID else f"{text[:MOST_SAID]} …"

    async def get(self, path: str) -> tuple[int, Any]:
        """Status and body of a GET: JSON where it is that, else text; (0, None) where nothing came in time.

        Raises:
            Unreachable: there is no connection.
            UserError: the server redirects, hangs up, or is none of HTTP.
        """
        return await self._ask(self.http.build_request("GET", self.address.root + path))

    async def post(self, path: str, body: dict[str, Any]) -> tuple[int, Any]:
        """The same of a POST."""
        return await self._ask(self.http.build_request("POST", self.address.root + path, json=body))

    async def probe(self, path: str, body: dict[str, Any] | None = None) -> Any:
        """What is at a path that few servers have: the JSON or text of a GET (or POST), None where there is nothing of use.
        Whatever else a server does there says nothing of it."""
        try:
            status, found = await (self.get(path) if body is None else self.post(path, body))
        except UserError:
            return None
        return found if status == 200 else None

    async def _ask(self, request: httpx2.Request) -> tuple[int, Any]:
        status = 0
        try:
            async with asyncio.timeout(ASK_SECONDS):
                response = await self.http.send(request, stream=True)
                status = response.status_code
                try:
                    self.refuse_redirect(response)
                    return status, _parsed(await self.body(response))
                finally:
                    await response.aclose()
        except (TimeoutError, httpx2.ReadTimeout):
            return 0, None
        except (httpx2.HTTPError, httpx2.InvalidURL, OSError, UnicodeError, ValueError) as error:
            if status and isinstance(error, httpx2.NetworkError):  # a server that fails may hang up before it has said all
                return status, None
            raise self.unreachable(error) from None

    async def body(self, response: httpx2.Response) -> bytes:
        """What comes of a body in time, MOST_BODY bytes at the most."""
        data = bytearray()
        with contextlib.suppress(
            TimeoutError, httpx2.HTTPError
        ):  # a server that fails may stall or hang up in its last sentence
            async with asyncio.timeout(ASK_SECONDS):
                async for chunk in unpacked(response):
                    data += chunk
                    if len(data) > MOST_BODY:
                        break
        return bytes(data[:MOST_BODY])

    @contextlib.asynccontextmanager
    async def stream(self, path: str, body: dict[str, Any]) -> AsyncIterator[httpx2.Response]:
        """The response to a POST whose body is a stream; the connection is closed behind it, which stops the server.

        Raises:
            UserError: the server refused the request.
            httpx2.HTTPError: the connection failed.
        """
        response = await self.http.send(self.http.build_request("POST", self.address.root + path, json=body), stream=True)
        try:
            self.refuse_redirect(response)
            if not response.is_success:
                said = _parsed(await self.body(response))
                raise self.refusal(response.status_code, said, wait_of(response.headers, said))
            yield response
        finally:
            await response.aclose()

    # Sentences

    def refuse_redirect(self, response: httpx2.Response) -> None:
        """Stop at a redirect.

        Raises:
            UserError: it is one.
        """
        if 300 <= response.status_code < 400:
            to = self.said(response.headers.get("Location", "nowhere"))
            unsent = " Your key was not sent there." if self._key else ""
            raise UserError(
                f"{self.address.host} redirects to {to}, which is not followed.{unsent} If you trust that address, use it as "
                "the model."
            )

    def unreachable(self, error: BaseException) -> UserError:
        """Nobody answers, or not as a server does."""
        host = self.address.host
        cause: BaseException | None = error
        while cause is not None and not isinstance(cause, ssl.SSLError):
            cause = cause.__cause__ or cause.__context__
        if re.search(r"wrong.version.number|record.layer.failure|http.request", str(error), re.IGNORECASE):
            plain = self.address.root.replace("https:", "http:", 1)
            return Unreachable(f"{host} speaks http there, not https. Use {plain} if no one else can listen on the way.")
        if cause is not None or "CERTIFICATE" in str(error).upper():
            return Unreachable(
                f"The certificate or encryption of {host} is not right ({self.said(error)}). Check the address; a certificate "
                "of your own is given in SSL_CERT_FILE."
            )
        if isinstance(error, httpx2.ProxyError):
            return Unreachable(f"The proxy does not reach {host} ({self.said(error)}). Check HTTPS_PROXY and NO_PROXY.")
        if isinstance(error, httpx2.RemoteProtocolError | httpx2.DecodingError | httpx2.ReadError | httpx2.WriteError):
            return UserError(
                f"{host} does not answer as a server of models does ({self.said(error)}). Check the address, and whether it "
                "begins with http or https."
            )
        if proxy := self._proxy():
            return Unreachable(
                f"The proxy {proxy} does not answer, and {host} is asked through it ({self.said(error)}). Check HTTPS_PROXY, "
                "HTTP_PROXY, ALL_PROXY and NO_PROXY."
            )
        return Unreachable(
            f"Nothing answers at {host} ({self.said(error)}). Start the server, or check the address and the network."
        )

    def _proxy(self) -> str:
        """Host and port of the proxy before the server; empty without one."""
        url, proxies = urlsplit(self.address.root), getproxies()
        named = proxies.get(url.scheme) or proxies.get("all") or ""
        if self.address.local or not named or proxy_bypass(url.netloc):
            return ""
        return self.said(named.rpartition("@")[2].rpartition("//")[2].rstrip("/"))

    def broken(self, error: BaseException, begun: bool) -> UserError:
        """The connection failed after the request had gone out; `begun` says whether any of the answer had come."""
        if isinstance(error, httpx2.ConnectError | httpx2.ConnectTimeout | httpx2.ProxyError | httpx2.PoolTimeout):
            return self.unreachable(error)
        where = "in the middle of the answer" if begun else "before the answer began"
        kept = "What came is kept; check" if begun else "Check"
        return UserError(
            f"The connection to {self.address.host} broke off {where} ({self.said(error)}). {kept} whether the server still "
            "runs, then send the message again."
        )

    def refusal(self, status: int, body: Any, wait: float = 0.0) -> UserError:
        """What a status that is not 200, or an error in the stream, means.

        Args:
            status: of HTTP, or the error's own code.
            body: what came with it.
            wait: seconds after which it wants to be asked again; 0 if it does not say.
        """
        host, message = self.address.host, words_of(body)
        said = f": {self.said(message)}" if message else ""
        if status == 402:
            return UserError(
                f"{host} has no credit left for this key ({status}{said}). Check the account, or ask another server."
            )
        if status == 413 or (status not in (401, 403, 429) and is_full(body)):
            asked, holds = numbers_of(body)
            sizes = f" ({counted(asked, 'token')} of {holds:,})" if asked and holds else said
            return ContextFull(f"The chat no longer fits in the context of {host}{sizes}. Start a new chat or shorten it.")
        match status:
            case 401 | 403 if not self._key:
                return UserError(
                    f"{host} wants a key ({status}). Put it into an environment variable and name that in the settings: "
                    f'[servers.NAME] with url = "{self.address.root}" and key_env = "VARIABLE".'
                )
            case 401 | 403:
                at = where(self.address.key) if self.address.key else ""
                return UserError(f"{host} does not accept the key in {at} ({status}). Check the key.")
            case 404 | 405 | 410 | 415 | 421 | 426:
                return UserError(
                    f"{host} does not have what was asked for ({status}{said}). Check the address and the model's name."
                )
            case 429:
                when = f"in {math.ceil(wait):,} s" if wait else "in a while"
                return UserError(f"{host} takes no more requests now (429{said}). Send the message again {when}.")
            case 503:
                when = f"Try again in {math.ceil(wait):,} s." if wait else "Wait until its model is loaded, then try again."
                return UserError(f"{host} is not ready (503{said}). {when}")
            case _ if status >= 500 or status in (408, 425, 499):
                sentence = f"{host} failed ({status}{said}). Send the message again; the server's log may say why."
                return Refused(sentence, body)
        sentence = f"{host} refused the request ({status}{said}). Change what it names, or ask another server."
        return Refused(sentence, body)


def count(value: object) -> int | None:
    """A number of things, as a server tells it; None if it is none."""
    whole = isinstance(value, int) and not isinstance(value, bool)
    return value if whole and 0 <= value < 2**31 else None  # type: ignore[operator, return-value]


def number(value: object) -> float | None:
    """A number that is neither negative nor infinite; None if it is none."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        found = float(value)
    except OverflowError:
        return None
    return found if math.isfinite(found) and 0 <= found < 1e15 else None


def _parsed(data: bytes) -> Any:
    text = data.decode("utf-8-sig", "replace")
    try:
        return json.loads(text, parse_int=whole)
    except (ValueError, RecursionError):
        return text


def whole(digits: str) -> int | float:
    """A whole number of JSON, however long: Python refuses to read 5,000 digits."""
    return int(digits) if len(digits) < 400 else float(digits)
