"""Where a server is, and where its key comes from. Neither the key nor httpx is needed here."""

from __future__ import annotations

import ipaddress
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, unquote, urlsplit

from ...errors import UserError
from ...plain_file import user_path

KEY_SOURCES = ("key_env", "key_file")
"""Settings of a server that say where its key is."""

_SCHEMES = ("http://", "https://", "http:/", "https:/")
"""What an address begins with; that with one slash is told to be wrong."""
_BARE = re.compile(
    r"(localhost(:\d+)?|(\d{1,3}\.){3}\d{1,3}(:\d+)?|\[[0-9a-f:]+\](:\d+)?|[a-z0-9-]+(\.[a-z0-9-]+)+:\d+|[a-z0-9-]+:\d{4,5})([/#]|$)",
    re.IGNORECASE,
)
"""An address without its scheme. A host of one word needs a port, as models have tags (`qwen3:4b`)."""
_PASTED = re.compile(
    r"/*(/v1)?(/(chat/)?completions?|/responses|/models|/embeddings|/api/(chat|generate|tags|show))?/*$", re.IGNORECASE
)
"""What documents and other programs write behind a server's address."""

_KEY = re.compile(r"[!-~]+")
"""What a header can carry."""


@dataclass(frozen=True, slots=True)
class Address:
    """A server and what to ask it for. Holds where the key is, never the key."""

    name: str
    """As the user named it."""
    root: str
    """Scheme, host, port and path, without a slash or `/v1` at the end."""
    model: str = ""
    """What it is to serve; empty for its own choice."""
    key: tuple[str, str] | None = None
    """One of KEY_SOURCES, and its value."""

    @property
    def host(self) -> str:
        """Host and port, to be shown."""
        return urlsplit(self.root).netloc

    @property
    def local(self) -> bool:
        """Whether it is this machine, which no proxy stands before."""
        host = urlsplit(self.root).hostname or ""
        try:
            return f".{host}".endswith(".localhost") or (ip := ipaddress.ip_address(host)).is_loopback or ip.is_unspecified
        except ValueError:
            return False

    def read_key(self) -> str:
        """The key; empty for none.

        Raises:
            UserError: it is not where it should be; the sentence never has the key.
        """
        if self.key is None:
            return ""
        source, value = self.key
        key = _READERS[source](value).strip()
        if not _KEY.fullmatch(key):
            raise UserError(
                f"The key for {self.host} ({where(self.key)}) is empty or has characters that no key has. Check it."
            )
        return key


def where(key: tuple[str, str]) -> str:
    """Where a key is, in words."""
    source, value = key
    return {"key_env": f"${value}", "key_file": value}[source]


def is_url(spec: str) -> bool:
    """Whether a model is named by the address of a server, be it without `http://`."""
    return spec.lower().startswith(_SCHEMES) or _BARE.match(spec) is not None


def quoted(model: str) -> str:
    """A model's name as it stands behind `#`: without what ends a word, or means something there."""
    return "".join(quote(each) if each in " %#'\"\\" or not each.isprintable() else each for each in model)


def root_of(url: str) -> tuple[str, str]:
    """A server's address without `/v1` or what else is often pasted with it, and the model behind `#`.

    Raises:
        UserError: it is no such address, or it holds a password.
    """
    url, _, model = url.partition("#")
    if _BARE.match(url):
        url = f"{'https' if url.partition('/')[0].endswith(':443') else 'http'}://{url}"
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        host = port = None
    if not host or not url.lower().startswith(_SCHEMES) or not url.isprintable() or " " in url or "\\" in url:
        raise UserError(f"{url!r:.80} is not a server's address. Write it like http://localhost:8080.")
    if "@" in parts.netloc:
        raise UserError(
            "A server's address must not hold a name or password. Put the key into an environment variable and name that in "
            "the settings: [servers.NAME] with url and key_env."
        )
    if parts.query:
        raise UserError(f"A server's address ends before the question mark: {parts.scheme}://{parts.netloc}{parts.path}.")
    path = _PASTED.sub("", parts.path.rstrip("/"))
    scheme, shown = parts.scheme.lower(), f"[{host}]" if ":" in host else host
    if port and port != {"http": 80, "https": 443}[scheme]:
        shown = f"{shown}:{port}"
    return f"{scheme}://{shown}{path}", _named(model)


def _named(model: str) -> str:
    name = unquote(model).strip()
    if re.search(r"[\x00-\x1f\x7f]", name):
        raise UserError(f"{name!r:.80} is not a model's name. Leave out what cannot be printed.")
    return name


def find_server(spec: str, servers: Mapping[str, Mapping[str, Any]]) -> Address | None:
    """The server that a model's name means: an address, or a name of the settings. None if it means none.

    Args:
        spec: as the user wrote it; `#` and a model may follow either.
        servers: those of the settings: name → url, model, key_env and so on. An address that one of them has gets its key.

    Raises:
        UserError: the address is not one.
    """
    if is_url(spec):
        root, model = root_of(spec)
        for table in servers.values():
            if _root(table) == root:
                return Address(spec, root, model or str(table.get("model", "")), _key(table))
        return Address(spec, root, model)
    name, _, model = spec.partition("#")
    if name not in servers:
        return None
    model = _named(model)
    table = servers[name]
    if not table.get("url"):
        raise UserError(f"[servers.{name}] has no url. Add the server's address, like http://localhost:8080.")
    root, own = root_of(str(table["url"]))
    return Address(spec, root, model or own or str(table.get("model", "")), _key(table))


def _root(table: Mapping[str, Any]) -> str:
    try:
        return root_of(str(table.get("url", "")))[0]
    except UserError:
        return ""


def _key(table: Mapping[str, Any]) -> tuple[str, str] | None:
    return next(((source, str(table[source])) for source in KEY_SOURCES if table.get(source)), None)


def _of_environment(name: str) -> str:
    if name not in os.environ:
        raise UserError(f"The server's key should be in ${name}, which is not set. Set it in your shell.")
    return os.environ[name]


def _of_file(path: str) -> str:
    try:
        return user_path(path).read_text(encoding="utf-8")[:4096]
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise UserError(f"The server's key should be in {path}, which cannot be read ({reason}). Check the file.") from None


_READERS = {"key_env": _of_environment, "key_file": _of_file}
