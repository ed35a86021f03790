"""What one is in the midst of, and the keys that matter then: the bar shows as many as fit, the help shows all."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import chain

from textual.dom import DOMNode
from textual.screen import Screen

from ...settings.keymap import ALL, GROUPS, shown_keys

KEYS = {key.id: key for key in ALL}
"""Every binding by its id."""

_PLACES = {key.id: place for place, keys in GROUPS.items() for key in keys}


@dataclass(frozen=True, slots=True)
class Hint:
    """Keys that do one thing now."""

    ids: tuple[str, ...]
    """Of the bindings: one, or several that belong together, as arrows do."""
    label: str
    """What they do, in a word or two."""


@dataclass(frozen=True, slots=True)
class Moment:
    """What one is in the midst of."""

    name: str
    """As a heading: `An answer is being written`."""
    hints: tuple[Hint, ...]
    """The most useful first."""
    place: DOMNode
    """Whose actions the keys run."""


def hints(*pairs: tuple[str, str]) -> tuple[Hint, ...]:
    """Hints from pairs of ids, separated by spaces, and what they do now; empty for what they always do."""
    return tuple(Hint(tuple(ids.split()), label or KEYS[ids.split()[0]].short) for ids, label in pairs)


def moment_of(screen: Screen[object]) -> Moment:
    """What one is in the midst of on a screen; of one that does not say, all of its keys that have a name."""
    own = getattr(screen, "moment", None)
    if own is not None:
        return own  # type: ignore[no-any-return]
    bound = chain.from_iterable(getattr(part, "BINDINGS", ()) for part in type(screen).__mro__)
    ids = [id for id in dict.fromkeys(getattr(binding, "id", None) for binding in bound) if id in KEYS]
    return Moment(_PLACES[ids[0]] if ids else "", tuple(Hint((id,), KEYS[id].short) for id in ids), screen)


def shown(hint: Hint, keymap: Mapping[str, str]) -> str:
    """The keys of a hint as the bar shows them: `^n`, `1–3`, `←→↑↓`, `^o ↑↓`."""
    keys = [shown_keys(id, keymap) for id in hint.ids]
    if len(keys) > 1 and all(key.isdecimal() for key in keys):
        return f"{keys[0]}–{keys[-1]}"
    leader = f"{shown_keys('leader', keymap)} "
    if len(keys) > 1 and all(key.startswith(leader) for key in keys):
        return leader + "".join(key.removeprefix(leader) for key in keys)
    return ("" if all(len(key) == 1 for key in keys) else "/").join(keys)
