"""Keys that two bindings of one screen want."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from . import keymap as keymap_module
from .keymap import CHAT, CHATS, INPUT, INSPECT, MODELS, RACE, Key, spell

# The chat screen's keys come before those of what has the focus in it.
SCOPES: tuple[tuple[Key, ...], ...] = ((*CHAT, *INPUT), (*CHAT, *INSPECT), RACE, CHATS, MODELS)
"""Bindings that are there at the same time."""


def scopes() -> Iterator[tuple[Key, ...]]:
    """All of them, those of screens that have a table of their own too."""
    yield from SCOPES
    for name in ("SETTINGS", "PRESETS", "TEXT"):
        if table := getattr(keymap_module, name, ()):
            yield table


def keys_of(binding: Key, keymap: Mapping[str, str]) -> list[str]:
    """A binding's keys as they are mapped."""
    return [key.strip() for key in keymap.get(binding.id, binding.keys).split(",") if key.strip()]


def wanted_by(keys: str, binding: str, keymap: Mapping[str, str]) -> list[tuple[Key, str]]:
    """Other bindings that have some keys already, each with the key.

    Args:
        keys: separated by commas.
        binding: id of the one that is to have them.
        keymap: binding id → keys, where not the default.
    """
    asked = {key.strip() for key in keys.split(",")}
    found: dict[str, tuple[Key, str]] = {}
    for scope in scopes():
        if all(key.id != binding for key in scope):
            continue
        for other in scope:
            if other.id != binding and (taken := asked.intersection(keys_of(other, keymap))):
                found[other.id] = (other, sorted(taken)[0])
    return list(found.values())


def conflicts(keymap: Mapping[str, str]) -> list[str]:
    """A sentence for each key that the settings give to a binding while another one has it."""
    out: list[str] = []
    told: set[tuple[str, ...]] = set()
    for id, keys in keymap.items():
        for other, key in wanted_by(keys, id, keymap):
            pair = tuple(sorted((id, other.id)))
            if pair not in told:
                told.add(pair)
                out.append(f"{spell(key)} is the key of both {id} and {other.id}: give one of them another under [keymap].")
    return out
