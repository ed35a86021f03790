"""Addresses of servers, and the places of their keys. This module reads a key only when asked, and imports no httpx."""

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
"""Settings of a server that name the place of its key."""

_SCHEMES = ("http://", "https://")
_BARE = re.compile(
    r"(localhost(:\d+)?|(\d{1,3}\.){3}\d{1,3}(:\d+)?|\[[0-9a-f:]+\](:\d+)?|[a-z0-9-]+(\.[a-z0-9-]+)+:\d+|[a-z0-9-]+:\d{4,5})([/#]|$)",
    re.IGNORECASE,
)
"""An address without its scheme. A host of one word needs a port, as models have tags (`qwen3:4b`)."""
_PASTED = re.compile(r"/*(/v1)?(/(chat/)?completions|/models|/api/(chat|generate|tags))?/*$", re.IGNORECASE)
"""Paths that documents and other programs append to a server's address."""

_KEY = re.compile(r"[!-~]+")
"""A key that fits in a header."""


@dataclass(frozen=True, slots=True)
class Address:
    """A server, the model to ask it for, and the place of its key, never the key."""

    name: str
    """The name that the user gave."""
    root: str
    """Scheme, host, port and path, without a slash or `/v1` at the end."""
    model: str = ""
    """Name of the model; empty for the server's own choice."""
    key: tuple[str, str] | None = None
    """One of KEY_SOURCES, and its value."""

    @property
    def host(self) -> str:
        """Host and port, for sentences."""
        return urlsplit(self.root).netloc

    @property
    def local(self) -> bool:
        """Whether it is this machine, which no proxy is in front of."""
        host = urlsplit(self.root).hostname or ""
        try:
            return host == "localhost" or (ip := ipaddress.ip_address(host)).is_loopback or ip.is_unspecified
        except ValueError:
            return False

    @property
    def key_place(self) -> str:
        """The place of its key, for sentences; "" if the server has none."""
        if self.key is None:
            return ""
        source, value = self.key
        return f"${value}" if source == "key_env" else value

    def read_key(self) -> str:
        """Read the key; "" if the server has none.

        Raises:
            UserError: it is missing or malformed; the sentence never has the key.
        """
        if self.key is None:
            return ""
        source, value = self.key
        try:
            text = os.environ[value] if source == "key_env" else user_path(value).read_text(encoding="utf-8")
        except (KeyError, OSError, ValueError) as error:
            reason = "which is not set" if source == "key_env" else f"which cannot be read ({error})"
            raise UserError(f"The server's key should be in {self.key_place}, {reason}. Check the settings.") from None
        key = text.strip()
        if not _KEY.fullmatch(key):
            raise UserError(
                f"The key for {self.host} in {self.key_place} is empty or has characters that no key has. Check it."
            )
        return key


def is_url(spec: str) -> bool:
    """Return whether a model's name is the address of a server, with or without `http://`."""
    return spec.lower().startswith(_SCHEMES) or _BARE.match(spec) is not None


def quote_model(model: str) -> str:
    """Quote a model's name to stand behind `#` in one word of a shell."""
    return "".join(quote(char) if char in " %#'\"\\" or not char.isprintable() else char for char in model)


def parse_url(url: str) -> tuple[str, str]:
    """Return a server's root, which is its address without `/v1` and other paths that are often pasted with it, and the model
    behind `#`.

    Raises:
        UserError: the text is no address, or holds a password.
    """
    url, _, model = url.partition("#")
    if _BARE.match(url):
        url = f"{'https' if url.partition('/')[0].endswith(':443') else 'http'}://{url}"
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        host = port = None
    if not host or not is_url(url) or parts.query or not url.isprintable() or " " in url:
        raise UserError(f"{url!r:.80} is not a server's address. Write it like http://localhost:8080.")
    if "@" in parts.netloc:
        raise UserError(
            "A server's address must not hold a name or password. Put the key into an environment variable and name that in "
            "the settings: [servers.NAME] with url and key_env."
        )
    scheme = parts.scheme.lower()
    place = f"[{host}]" if ":" in host else host
    if port and port != {"http": 80, "https": 443}[scheme]:
        place = f"{place}:{port}"
    return f"{scheme}://{place}{_PASTED.sub('', parts.path)}", unquote(model).strip()


def find_server(spec: str, servers: Mapping[str, Mapping[str, Any]]) -> Address | None:
    """Find the server that a model's name means: an address, or a name of the settings. None if it means none.

    Args:
        spec: the user's text; `#` and a model may follow either.
        servers: of the settings: name → url, model, key_env and so on. An address that one of them has gets its key.

    Raises:
        UserError: the address is not one.
    """
    if is_url(spec):
        root, model = parse_url(spec)
        # The settings were checked, so that each url there is an address.
        table = next((table for table in servers.values() if table.get("url") and parse_url(table["url"])[0] == root), {})
    else:
        name, _, model = spec.partition("#")
        if name not in servers:
            return None
        table = servers[name]
        if not table.get("url"):
            raise UserError(f"[servers.{name}] has no url. Add the server's address, like http://localhost:8080.")
        root, default = parse_url(table["url"])
        model = unquote(model).strip() or default
    key = next(((source, str(table[source])) for source in KEY_SOURCES if table.get(source)), None)
    return Address(spec, root, model or str(table.get("model", "")), key)
