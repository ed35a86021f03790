"""Keys that two bindings of one screen want."""

from __future__ import annotations

from collections.abc import Mapping

from .keymap import CHAT, GROUPS, INPUT, INSPECT, Key, spell

# The chat screen's keys come before those of what has the focus in it.
SCOPES: tuple[tuple[Key, ...], ...] = (
    (*CHAT, *INPUT),
    (*CHAT, *INSPECT),
    *(keys for keys in GROUPS.values() if keys not in (CHAT, INPUT, INSPECT)),
)
"""Bindings that are there at the same time."""


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
    for scope in SCOPES:
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
