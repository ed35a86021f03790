"""Going on with a chat as it was: with its own model, method and settings."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ...engine.options import draft_names
from ...errors import UserError, counted
from ..chat.about import LOADED_WITH
from ..settings.checks import checked
from ..settings.fields import Settings
from ..text.cells import folded, one_line

if TYPE_CHECKING:
    from .chats import ChatRow, Chats, OpenedChat

OWN = ("method", "accept", "max_tokens", "stop", "stop_loops", "think", "think_budget", "template_var")
"""Settings of a chat that are not in tables."""


def own_values(opened: OpenedChat) -> dict[str, Any]:
    """A chat's own settings by dotted keys; those that are not as they must be are left out."""
    body = opened.settings
    values = {name: body.get(name) for name in OWN}
    for name, table in body.get("methods", {}).items():
        values |= {f"methods.{name}.{key}": value for key, value in table.items()}
    values |= {f"sampling.{key}": value for key, value in body.get("sampling", {}).items()}
    out = {}
    for key, value in values.items():
        if value is not None:
            with suppress(UserError):  # of another version
                out[key] = checked(key, value, key)
    return out


def own_model(opened: OpenedChat) -> tuple[str, dict[str, Any]]:
    """The model of a chat as it was named, empty if that is not known; and the options that it was loaded with."""
    options = {name: opened.load[name] for name in LOADED_WITH if name in opened.load}
    if "draft_model" in options:
        options["draft_model"] = tuple(draft_names(options["draft_model"]))
    return opened.model.get("asked", ""), options


def continued(settings: Settings, opened: OpenedChat, given: Mapping[str, Any] | None = None) -> Settings:
    """The settings that a chat goes on with.

    Args:
        given: what the command line asks for, which goes before the chat's own.
    """
    from ..settings.precedence import layers_of

    given = given or {}
    model, options = own_model(opened)
    if not model or "model" in given:
        model, options = settings.model, {name: getattr(settings, name) for name in LOADED_WITH}
    layers = layers_of(settings)
    asked = {**given, **(layers.preset if "preset" in given else {})}
    # A system prompt that was set is for chats to come; this one has its own in its transcript.
    system = {key: value for key, value in layers.chat.items() if key == "system"}
    values = system | {key: value for key, value in own_values(opened).items() if key not in asked}
    found = replace(layers, chat=values, model=model).settings()
    loading = {name: options.get(name, getattr(Settings(), name)) for name in LOADED_WITH if name not in given}
    return replace(found, model=model, **loading)


def welcome(opened: OpenedChat, loading: str) -> str:
    """A sentence on a chat that was opened.

    Args:
        loading: its model, where that is being loaded.
    """
    said = f"Opened {opened.title}." + (f" Loading its model, {one_line(loading)}." if loading else "")
    return said + (f" {damage(opened)}" if opened.damaged else "")


def remarks(opened: OpenedChat, model: str) -> list[str]:
    """What there is to say of a chat that specchat begins with.

    Args:
        model: what is being loaded, as the user named it.
    """
    out = [damage(opened)] if opened.damaged else []
    asked = opened.model.get("asked")
    if asked and asked != model:
        out.append(f"This chat was with {one_line(asked)} and continues with {one_line(model)}. Switch back with /model.")
    return out


def damage(opened: OpenedChat) -> str:
    """A sentence on what is left of a chat whose steps are damaged."""
    some = counted(opened.damaged, "answer")
    return f"The history is damaged. Only the text of {some} in this chat is left, without colours and figures."


def find(text: str | None) -> OpenedChat | str:
    """The chat that the command line asks for, or what the list of chats is to be searched for.

    Args:
        text: a title, a part of one, or a number; empty for the whole list, None for the last chat.

    Raises:
        UserError: there is no such chat, or the history cannot be read.
    """
    from .chats import reading

    with reading() as chats:
        if text is None:
            return chats.open(chats.latest().id)
        if not text.strip():
            chats.latest()  # raises if there is none
            return ""
        if not (some := chats.titled(text)):
            if chats.search(text, 1):
                return text
            raise UserError(f"No chat contains {text!r}. `specchat --resume` lists all chats.")
        return chats.open(some[0].id) if len(some) == 1 else text


def one_chat(chats: Chats, text: str, deleted: bool = False) -> ChatRow:
    """The chat that is meant.

    Raises:
        UserError: there is none, or there are several.
    """
    if text.isascii() and text.isdigit() and len(text) < 16:
        return chats.row(int(text))
    wanted = folded(one_line(text))
    some = [row for row in chats.deleted() if wanted in folded(row.title)] if deleted else chats.titled(text)
    if not some:
        raise UserError(f"No chat is called {one_line(text)!r}. `specchat chats list` shows their numbers and titles.")
    if len(some) > 1:
        numbers = ", ".join(str(row.id) for row in some[:8]) + (", …" if len(some) > 8 else "")
        raise UserError(
            f"{len(some)} chats have {one_line(text)!r} in their title. Give the number of one of them ({numbers})."
        )
    return some[0]
