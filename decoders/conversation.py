"""What outlives answers and method switches: one chat's KV cache and the drafters' pools."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ..backends.base import Model
from ..errors import UserError
from . import registry
from .base import Drafter, parse_params


class Conversation:
    """One chat on one model: the KV cache and the drafters' pools, which outlive answers and method switches."""

    def __init__(
        self, model: Model, *, draft_model: Model | Callable[[], Model | None] | None = None, context: int | None = None
    ) -> None:
        """Open the target's session.

        Args:
            model: the target.
            draft_model: for the methods that draft with one; or what loads it when the first of them is chosen.
            context: most tokens of the conversation.
        """
        self.model = model
        self._draft_model = draft_model
        self.session = model.open_session(context)
        self._drafters: dict[str, Drafter] = {}

    @property
    def draft_model(self) -> Model | None:
        """The draft model, if it is loaded."""
        return self._draft_model if isinstance(self._draft_model, Model) else None

    def helper(self, name: str) -> Drafter:
        """The drafter of this name as it is, for methods that build on others; with default settings if it is new."""
        return self._drafters.get(name) or self.drafter(name)

    def drafter(self, name: str, settings: Mapping[str, Any] | None = None) -> Drafter:
        """The drafter of this name, kept from earlier use, with these settings.

        Raises:
            UserError: no such method or setting, or the model cannot run it.
        """
        method = registry.get(name)
        if method.needs_draft_model and self._draft_model is not None and not isinstance(self._draft_model, Model):
            self._draft_model = self._draft_model()
        reason = registry.unavailable(method, self.model.info.capabilities, draft_model=self._draft_model is not None)
        if reason:
            raise UserError(f"Method {name} is not available here: {reason}")
        params = parse_params(method, dict(settings or {}))
        drafter = self._drafters.get(name)
        if drafter is None:
            drafter = self._drafters[name] = method(params)
        elif drafter.params != params:
            drafter.params = params
        return drafter

    def forget(self) -> None:
        """Start afresh: an empty cache and new drafters, in the memory that is there."""
        self.forget_drafters()
        self.session.rewind(0)

    def forget_drafters(self) -> None:
        """New drafters, which have learned nothing yet; the cache stays."""
        for drafter in self._drafters.values():
            drafter.close()
        self._drafters.clear()

    def close(self) -> None:
        """Free the KV cache and what the drafters hold."""
        for drafter in self._drafters.values():
            drafter.close()
        self.session.close()
