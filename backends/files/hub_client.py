"""Requests to a Hub: a cancel ends them at any point, time and size are limited, and no token goes where others read along.

huggingface_hub's own requests wait without limit for headers or a body that drips, follow lists of files without end, unpack
what is compressed whatever comes of it, and send the token to plain-http endpoints. So every request goes through here.
"""

from __future__ import annotations

import contextlib
import ipaddress
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from importlib import import_module
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from ...errors import Cancelled, UserError

POLL_SECONDS = 0.1
"""Between looks whether a request was cancelled while nothing comes."""

LEAST = 1000
"""Bytes that must come within the time limit: a server that drips is as good as one that is silent."""

MOST_ANSWER = 16_000_000
"""Bytes of an answer that is not a file: 50,000 files of a repository with their checksums."""

ANSWER_SECONDS = 60.0
"""For the whole of such an answer."""

MOST_REDIRECTS = 8
"""The Hub needs two: a repository that was renamed, then the place where its large files are."""

Stopped = Callable[[], bool]


class Broken(Exception):
    """A connection that could not be made, was too slow or ended too early; another one may do better. The text says why."""


class Session:
    """Requests of one task, one after the other, over connections of its own.

    Args:
        cancelled: polled while a request waits; what waits then raises `Cancelled`.
    """

    def __init__(self, cancelled: Stopped | None = None) -> None:
        self._cancelled = cancelled
        self._http = http_library()
        self._wires: list[Any] = []
        self._client = self._connected()

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def _connected(self) -> Any:
        try:
            return self._http.Client(follow_redirects=False)
        except (ImportError, ValueError, OSError) as error:  # a proxy's address or a certificate file that is none
            raise UserError(
                f"This shell's connection settings cannot be used ({one_line(error)}). Check HTTPS_PROXY, ALL_PROXY and "
                "SSL_CERT_FILE."
            ) from None

    def stop(self) -> None:
        """Raise `Cancelled` if the task is."""
        if self._cancelled is not None and self._cancelled():
            raise Cancelled

    @contextlib.contextmanager
    def asked(self, url: str, seconds: float, *, method: str = "GET", span: str = "") -> Iterator[Any]:
        """An answer whose body has not been read: `chunks` does.

        Args:
            seconds: until its headers are there, redirects included.
            span: a range of bytes to ask for.

        Raises:
            Broken: no connection, or no headers in time.
            UserError: a web page, or something compressed, came instead.
            Cancelled
        """
        response = self._within(seconds, lambda client: self._follow(client, method, url, seconds, span))
        try:
            _refuse_pages(response)
            yield response
        finally:
            response.close()

    def chunks(self, response: Any, seconds: float) -> Iterator[bytes]:
        """The body of an answer as it comes; ends with `Broken` when fewer than LEAST bytes come in so many seconds."""
        come, done, slow = [0], threading.Event(), threading.Event()

        def watch() -> None:
            mark, since = 0, time.monotonic()
            while not done.wait(POLL_SECONDS):
                if come[0] - mark >= LEAST:
                    mark, since = come[0], time.monotonic()
                if time.monotonic() - since > seconds:
                    slow.set()
                if slow.is_set() or (self._cancelled is not None and self._cancelled()):
                    self._shut()
                    return

        thread = threading.Thread(target=watch, name="hub-watch", daemon=True)
        thread.start()
        try:
            for chunk in response.iter_raw():
                self.stop()
                come[0] += len(chunk)
                yield chunk
        except self._http.TimeoutException:
            slow.set()
        except (self._http.HTTPError, OSError) as error:
            self.stop()
            if not slow.is_set():
                raise Broken(one_line(error)) from None
        finally:
            done.set()
            thread.join()
        self.stop()
        if slow.is_set():
            raise Broken(f"fewer than {LEAST} bytes arrived in {seconds:g} s")

    def body(self, response: Any, seconds: float, most: int = MOST_ANSWER) -> bytes:
        """A whole body.

        Raises:
            Broken: it came too slowly.
            UserError: it is longer than `most`.
            Cancelled
        """
        data, until = bytearray(), time.monotonic() + ANSWER_SECONDS
        for chunk in self.chunks(response, seconds):
            data += chunk
            if len(data) > most:
                raise fault(response, f"more than {most // 1_000_000} MB in place of a short answer")
            if time.monotonic() > until:
                raise Broken(f"the answer was incomplete after {ANSWER_SECONDS:g} s")
        return bytes(data)

    def table(self, url: str, seconds: float) -> tuple[Any, dict[str, Any]]:
        """An answer in JSON, and its table; an empty one where the status is not 200."""
        with self.asked(url, seconds) as response:
            if response.status_code != 200:
                return response, {}
            data = self.body(response, seconds)
        try:
            found = json.loads(data)
        except (ValueError, RecursionError):
            found = None
        if not isinstance(found, dict):
            raise (
                _page(response) if data.lstrip()[:1] == b"<" else fault(response, "something that is not a model description")
            )
        return response, found

    def _follow(self, client: Any, method: str, url: str, seconds: float, span: str) -> Any:
        """In a thread: the answer at the end of the redirects, the bodies of which are not read."""
        from huggingface_hub.utils import build_hf_headers  # type: ignore[attr-defined]

        # What is compressed could be of any size, and a part of it could not be gone on with.
        headers = {**build_hf_headers(token=None if keeps_secrets(url) else False), "Accept-Encoding": "identity"}
        if span:
            headers["Range"] = span
        extensions = {"trace": self._trace}
        request = client.build_request(method, url, headers=headers, timeout=seconds, extensions=extensions)
        passed: list[Any] = []
        while len(passed) <= MOST_REDIRECTS:
            if not keeps_secrets(str(request.url)):  # nor by a redirect
                request.headers.pop("Authorization", None)
            response = client.send(request, stream=True)
            if not response.has_redirect_location:
                response.history = passed
                return response
            # Closed unread: its connection cannot be used again.
            response.close()
            passed.append(response)
            if response.next_request is None:
                raise fault(response, "a redirect that leads nowhere")
            request = response.next_request
        raise fault(response, f"more than {MOST_REDIRECTS} redirects")

    def _trace(self, event: str, info: dict[str, Any]) -> None:
        if event in ("connection.connect_tcp.complete", "connection.start_tls.complete", "proxy.start_tls.complete"):
            self._wires.append(info["return_value"])

    def _within(self, seconds: float, ask: Callable[[Any], Any]) -> Any:
        """What `ask` returns, waited for in this thread: looking up a name or a header that drips knows no limit of its own."""
        self.stop()
        if constants().HF_HUB_OFFLINE:
            raise Broken("HF_HUB_OFFLINE is set")
        future: Future[Any] = Future()
        client, left = self._client, threading.Event()

        def run() -> None:
            try:
                future.set_result(ask(client))
            except BaseException as error:
                future.set_exception(error)
            if left.is_set():
                client.close()

        threading.Thread(target=run, name="hub-request", daemon=True).start()
        until = time.monotonic() + seconds
        try:
            while True:
                with contextlib.suppress(TimeoutError):
                    future.exception(timeout=POLL_SECONDS)
                    break
                self.stop()
                if time.monotonic() > until:
                    raise Broken(f"no answer within {seconds:g} s")
        except BaseException:
            # The thread may notice late, so the client is its own from here on.
            left.set()
            self._shut()
            self._client = self._connected()
            raise
        try:
            return future.result()
        except self._http.TimeoutException:
            raise Broken(f"no answer within {seconds:g} s") from None
        except (self._http.InvalidURL, self._http.UnsupportedProtocol, ValueError) as error:
            raise UserError(
                f"Cannot send a request to {one_line(endpoint())} ({one_line(error)}). Check HF_ENDPOINT, the proxies and "
                "HF_TOKEN."
            ) from None
        except (self._http.HTTPError, OSError) as error:
            self.stop()
            raise Broken(one_line(error)) from None

    def _shut(self) -> None:
        """End what waits for the other side."""
        for wire in self._wires:
            with contextlib.suppress(OSError, AttributeError):
                wire.get_extra_info("socket").shutdown(socket.SHUT_RDWR)
        self._wires.clear()


def http_library() -> Any:
    """httpx, under the name that the installed huggingface_hub depends on."""
    try:
        return import_module("httpx2")
    except ImportError:
        return import_module("httpx")


def constants() -> Any:
    """huggingface_hub's settings. It reads the environment as it is imported, and fails at a variable that it cannot read."""
    try:
        return import_module("huggingface_hub.constants")
    except ValueError as error:
        raise UserError(
            f"huggingface_hub cannot read one of its environment variables ({one_line(error)}). Check those that begin "
            "with HF_."
        ) from None


def endpoint() -> str:
    """Where the Hub is: HF_ENDPOINT, or huggingface.co."""
    return str(constants().ENDPOINT).rstrip("/")


def keeps_secrets(url: str) -> bool:
    """Whether a token may go there: over https, or to this machine without a proxy between."""
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
    except ValueError:
        return False
    try:
        here = host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:  # no address of this machine
        here = False
    return parts.scheme == "https" or (here and ("http" not in getproxies() or bool(proxy_bypass(host))))


def fault(response: Any, what: str) -> UserError:
    """The sentence about a server that does not keep to what a Hub does."""
    return UserError(
        f"{_host(response)} sent {what}, so nothing was downloaded. Check HF_ENDPOINT, or try again later if that is the Hub."
    )


def unreachable(spec: str, reason: object) -> UserError:
    """The sentence about a Hub that does not answer."""
    from ..options import BUILTIN

    return UserError(
        f"{spec} is not in the cache, and the Hub cannot be reached ({one_line(reason)}). Check the connection, or use "
        f"`{BUILTIN}`, which ships with specchat."
    )


def refusal(spec: str, revision: str | None, response: Any, file: str = "") -> UserError:
    """The sentence about a status that is not 200; the Hub's error codes are in a header."""
    from ..options import BUILTIN

    status, code = response.status_code, response.headers.get("X-Error-Code", "")
    if code == "GatedRepo":
        return UserError(
            f"{spec} requires you to accept its licence. Do so on its page on the Hub, then run `hf auth "
            f"login`.{_unsent(response)}"
        )
    if code == "RevisionNotFound":
        return UserError(f"{spec} has no revision {revision!r}. Check the branch, tag or commit.")
    if code == "RepoNotFound" or (status == 404 and not file):
        return UserError(
            f"There is no model {spec} on the Hub, or it is private. Check the name, or run `hf auth login` if it is "
            f"yours.{_unsent(response)}"
        )
    if status in (401, 403):
        return UserError(
            f"The Hub denies access to {spec} ({status}). Run `hf auth login` with an account that may read "
            f"it.{_unsent(response)}"
        )
    if status == 404:
        return UserError(f"The Hub lists a file of {spec} that it does not have (404). Try again later.")
    return UserError(f"The Hub answered {status} for {spec}. Try again later, or use `{BUILTIN}`.")


def _unsent(response: Any) -> str:
    """That a token stayed here, where that may be the reason."""
    from huggingface_hub import get_token

    if keeps_secrets(str(response.request.url)) or not get_token():
        return ""
    return f" Your token was not sent to {_host(response)}, which is not https."


def _refuse_pages(response: Any) -> None:
    """Stop at what no Hub sends: the page of a network that wants a login first, and bytes of a size that nobody knows."""
    if response.status_code in (200, 206):
        if response.headers.get("Content-Type", "").lower().startswith(("text/html", "application/xhtml")):
            raise _page(response)
        if response.headers.get("Content-Encoding", "identity").lower() not in ("", "identity"):
            raise fault(response, "compressed data that was not asked for")
    elif response.status_code == 511:
        raise _page(response)


def _page(response: Any) -> UserError:
    return UserError(
        f"{_host(response)} sent a web page instead of the model. If this network needs a login, log in with a browser; "
        "otherwise check HF_ENDPOINT."
    )


def _host(response: Any) -> str:
    return one_line(response.request.url.netloc.decode("ascii", "replace").rpartition("@")[2])


def one_line(said: object) -> str:
    """What somebody else said, within a sentence."""
    text = " ".join(str(said).split()).rstrip(".")
    if isinstance(said, BaseException):
        text = text or type(said).__name__
    return "".join(each if each.isprintable() else "?" for each in text)[:300]
