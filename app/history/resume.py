"""Continuation of a chat with its own model, method and settings."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ...engine.options import ANSWERING
from ...errors import UserError
from ..chat.about import LOADED_WITH
from ..settings.fields import Settings, checked
from ..settings.precedence import layers_of

if TYPE_CHECKING:
    from .chats import OpenedChat

PLAIN_SETTINGS = ("method", *ANSWERING)
"""Settings of a chat that are not in tables."""


def chat_settings(opened: OpenedChat) -> dict[str, Any]:
    """Return a chat's own settings by dotted keys, without invalid ones."""
    body = opened.settings
    values = {name: body.get(name) for name in PLAIN_SETTINGS}
    for name, table in {**body.get("methods", {}), "sampling": body.get("sampling", {})}.items():
        above = "sampling" if name == "sampling" else f"methods.{name}"
        values |= {f"{above}.{key}": value for key, value in table.items()}
    out = {}
    for key, value in values.items():
        if value is not None:
            with suppress(UserError):  # written by another version of specchat
                out[key] = checked(key, value)
    return out


def chat_model(opened: OpenedChat) -> tuple[str, dict[str, Any]]:
    """Return a chat's model as the user named it (empty if unknown), and its options at the load."""
    options = {name: opened.load[name] for name in LOADED_WITH if name in opened.load}
    if "draft_model" in options:
        options["draft_model"] = tuple(options["draft_model"])
    return opened.model.get("asked", ""), options


def resume_settings(settings: Settings, opened: OpenedChat, options: Collection[str] = ()) -> Settings:
    """Return the settings with which a chat continues.

    Args:
        options: keys of those given on the command line, which override the chat's own.
    """
    layers = layers_of(settings)
    model, load = chat_model(opened)
    if not model or "model" in options:
        model = settings.model
        load = {name: getattr(settings, name) for name in LOADED_WITH}
    overridden = {*options, *(layers.preset if "preset" in options else ())}
    # A system prompt set by hand stays in the settings, for new chats; the opened chat has its own in its transcript.
    system = {key: value for key, value in layers.chat.items() if key == "system"}
    values = system | {key: value for key, value in chat_settings(opened).items() if key not in overridden}
    merged = replace(layers, chat=values, model=model).settings()
    loading = {name: load.get(name, getattr(Settings(), name)) for name in LOADED_WITH if name not in options}
    return replace(merged, model=model, **loading)
