"""Bindings of a screen, out of its rows in the table of keys."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from textual.binding import Binding, BindingType

from ..settings.keymap import KeyBinding


def bindings_of(keys: Iterable[KeyBinding], after_box: Collection[str] = ()) -> list[BindingType]:
    """Bindings that come before those of what has the focus.

    Args:
        keys: the screen's.
        after_box: ids of keys that must not overtake what is typed fast: they go through the box first.
    """
    return [
        Binding(key.keys, key.action, key.what, show=False, priority=key.id not in after_box, id=key.id, tooltip=key.what)
        for key in keys
    ]
