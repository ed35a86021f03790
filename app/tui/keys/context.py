"""Key contexts, shown by the bar or a frame's edge as far as they fit and by the help in full; bindings of the keys."""

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
    """Keys with one effect in a context."""

    ids: tuple[str, ...]
    """Ids of the bindings: one, or several that belong together, like arrows."""
    label: str
    """Effect in a word or two."""
    keys: str = ""
    """Keys as shown, for those of a widget that have no ids."""


@dataclass(frozen=True, slots=True)
class KeyContext:
    """A task of the user, and the keys that matter for it."""

    name: str
    """Heading: `An answer is being written`."""
    hints: tuple[Hint, ...]
    """Keys, the most useful first."""
    place: DOMNode
    """Node whose actions the keys run."""


def hints(*pairs: tuple[str, str]) -> tuple[Hint, ...]:
    """Make hints of pairs: ids separated by spaces, and a label; an empty one for the binding's."""
    return tuple(Hint(tuple(ids.split()), label or KEYS[ids.split()[0]].short) for ids, label in pairs)


def shown(hint: Hint, keymap: Mapping[str, str]) -> str:
    """Format the keys of a hint for the bar: `^n`, `1–3`, `←→↑↓`, `^o ↑↓`."""
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
    """Make bindings for a screen (with priority, before those of the focused widget) or a widget.

    Args:
        after_box: ids of keys without priority: they must not overtake text typed before them.
    """

    def bind(key: KeyBinding) -> Binding:
        first = priority and key.id not in after_box
        return Binding(key.keys, key.action, key.what, show=False, priority=first, id=key.id, tooltip=key.what)

    return [bind(key) for key in keys]


def pick_bindings(keys: str, first: int, what: str) -> list[BindingType]:
    """Make a binding for each item of a menu, numbered from `first`."""
    return [
        Binding(key, f"pick({n})", f"Choose {key}", show=False, id=f"{what}.pick{n}", tooltip=f"Choose item {key}")
        for n, key in enumerate(keys, first)
    ]
