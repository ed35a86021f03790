"""What the user is doing, and the keys that matter for it: the bar, or a frame's edge, shows as many as fit, the help all.
And the bindings of screens, out of the table of keys."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from textual.binding import Binding, BindingType
from textual.dom import DOMNode

from ...settings.keymap import ALL, KeyBinding, shown_keys

KEYS = {key.id: key for key in ALL}
"""Every binding by its id."""


@dataclass(frozen=True, slots=True)
class Hint:
    """Keys that do one thing now."""

    ids: tuple[str, ...]
    """Ids of the bindings: one, or several that belong together, as arrows do."""
    label: str
    """What they do, in a word or two."""
    keys: str = ""
    """The keys as shown, where they are a widget's own and have no ids."""


@dataclass(frozen=True, slots=True)
class KeyContext:
    """What the user is doing, and the keys that matter for it."""

    name: str
    """The context's name, a heading: `An answer is being written`."""
    hints: tuple[Hint, ...]
    """The most useful first."""
    place: DOMNode
    """The node whose actions the keys run."""


def hints(*pairs: tuple[str, str]) -> tuple[Hint, ...]:
    """Hints from pairs of ids, separated by spaces, and what they do now; empty for what they always do."""
    return tuple(Hint(tuple(ids.split()), label or KEYS[ids.split()[0]].short) for ids, label in pairs)


def shown(hint: Hint, keymap: Mapping[str, str]) -> str:
    """The keys of a hint as the bar shows them: `^n`, `1–3`, `←→↑↓`, `^o ↑↓`."""
    if hint.keys:
        return hint.keys
    keys = [shown_keys(id, keymap) for id in hint.ids]
    if len(keys) > 1 and all(key.isdecimal() for key in keys):
        return f"{keys[0]}–{keys[-1]}"
    leader = f"{shown_keys('leader', keymap)} "
    if len(keys) > 1 and all(key.startswith(leader) for key in keys):
        return leader + "".join(key.removeprefix(leader) for key in keys)
    return ("" if all(len(key) == 1 for key in keys) else "/").join(keys)


def bindings_of(keys: Iterable[KeyBinding], after_box: Collection[str] = (), *, priority: bool = True) -> list[BindingType]:
    """Bindings, for a screen (with priority: they come before those of what has the focus) or a widget.

    Args:
        after_box: ids of keys that must not overtake what is typed fast: they go through the box first.
    """
    return [
        Binding(
            key.keys,
            key.action,
            key.what,
            show=False,
            priority=priority and key.id not in after_box,
            id=key.id,
            tooltip=key.what,
        )
        for key in keys
    ]


def pick_bindings(keys: str, first: int, what: str) -> list[BindingType]:
    """Bindings that pick an item of a menu by its own key, the items being numbered from `first`."""
    return [
        Binding(key, f"pick({n})", f"Choose {key}", show=False, id=f"{what}.pick{n}", tooltip=f"Choose item {key}")
        for n, key in enumerate(keys, first)
    ]
