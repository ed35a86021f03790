"""Which method runs an action. Each is registered where it stands, by `@runs(ROW)`, so that a row leads to it and back."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import TypeVar

from ...settings.actions import Action

Registered = TypeVar("Registered", bound=Callable[..., object])


def runs(row: Action, *arguments: int) -> Callable[[Registered], Registered]:
    """Register a method as what an action runs; behind a slash command it is called with the command's words. Where the action
    cannot be done the method raises a UserError, and has changed nothing.

    Args:
        row: the action.
        arguments: for the method, where several actions share it.
    """

    def register(method: Registered) -> Registered:
        method.__dict__.setdefault("runs", []).append((row.id, arguments))
        return method

    return register


def methods_of(parts: Iterable[object]) -> dict[str, Callable[..., object]]:
    """What each action runs, by its id."""
    return {
        id: partial(method, part, *arguments)
        for part in parts
        for method in vars(type(part)).values()
        for id, arguments in getattr(method, "runs", ())
    }
