"""A chat's KV cache and its drafters, kept across answers and method switches; and its prompt as token ids."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..backends.base import Message, Model, Session
from ..backends.heads.base import Head
from ..errors import UserError
from . import registry
from .base import Drafter, parse_params
from .needs import DraftModel, TrainedDrafter

if TYPE_CHECKING:
    from .past.index import Past


class Conversation:
    """One chat on one model: the KV cache, and the drafters with what they have learned. Both are kept across answers and
    method switches."""

    def __init__(
        self,
        model: Model,
        *,
        draft_model: Model | Sequence[Model] | Callable[[], Sequence[Model]] | None = None,
        head: Head | Callable[[], Head | None] | None = None,
        context: int | None = None,
    ) -> None:
        """Open the target's session.

        Args:
            model: the target.
            draft_model: one or several, for the methods that draft with one; or a function that loads them when such a method
                is first chosen.
            head: a trained drafter, for the methods that draft with one; the session then hands out the states that it reads.
                A function is called when such a method is first chosen, and the session is replaced.
            context: the most tokens in the conversation.
        """
        self.model = model
        self._load_drafts = draft_model if callable(draft_model) else None
        loaded = () if draft_model is None or callable(draft_model) else draft_model
        self.draft_models: Sequence[Model] = (loaded,) if isinstance(loaded, Model) else tuple(loaded)
        """The draft models that are loaded."""
        self._offered = head if not isinstance(head, Head) else None
        self.head = head if isinstance(head, Head) else None
        """The trained drafter whose states the session hands out."""
        self.session = self._open(context)
        self._drafters: dict[str, Drafter] = {}
        self.past: Past | None = None

    def _open(self, context: int | None) -> Session:
        if self.head is None:
            return self.model.open_session(context)
        return self.model.open_session(context, self.head.info.taps)

    def drafter(self, name: str, settings: Mapping[str, Any] | None = None) -> Drafter:
        """Return the drafter with this name and these settings, including what it has learned in this conversation.

        Raises:
            UserError: there is no such method or setting, or the model cannot run it.
        """
        method = registry.get(name)
        if method.needs(TrainedDrafter) and self._offered is not None:
            self.head = self._offered()
            self._offered = None
            if self.head is not None:  # only now, as handing out states costs time in every pass
                new = self._open(self.session.context)
                self.forget_drafters()
                self.session.close()
                self.session = new
        if method.needs(DraftModel) and self._load_drafts is not None:
            self.draft_models = tuple(self._load_drafts())
            self._load_drafts = None
        reason = registry.unavailable(
            method,
            self.model.info.capabilities,
            draft_model=bool(self.draft_models) or self._load_drafts is not None,
            pard=any(model.info.pard_token is not None for model in self.draft_models),
            head=self.head.info if self.head is not None else None,
        )
        if reason:
            raise UserError(f"The method {name} is not available here: {reason}")
        params = parse_params(method, dict(settings or {}))
        if name not in self._drafters:
            self._drafters[name] = method(params)
        self._drafters[name].params = params
        return self._drafters[name]

    def forget(self) -> None:
        """Start over with an empty cache and new drafters in the same memory."""
        self.forget_drafters()
        self.session.rewind(0)

    def forget_drafters(self) -> None:
        """Replace the drafters by new ones that have learned nothing yet; the cache stays."""
        for drafter in self._drafters.values():
            drafter.close()
        self._drafters.clear()

    def close(self) -> None:
        """Free the KV cache and the drafters' resources."""
        self.forget_drafters()
        self.session.close()


def encode_prompt(
    model: Model,
    prompt: str | Sequence[Message] | Sequence[int],
    *,
    raw: bool = False,
    variables: Mapping[str, Any] | None = None,
) -> list[int]:
    """Encode a prompt as token ids. Text becomes a chat's first message, unless `raw` is set or the model has no chat template.
    `variables` and errors are those of `Model.encode_chat`."""
    if isinstance(prompt, str):
        if raw or not model.info.has_template:
            return model.encode(prompt)
        return model.encode_chat([{"role": "user", "content": prompt}], variables)
    if prompt and isinstance(prompt[0], int):
        return [token for token in prompt if isinstance(token, int)]
    messages = [message for message in prompt if isinstance(message, Mapping)]
    if model.info.has_template and not raw:
        return model.encode_chat(messages, variables)
    return model.encode(_one_text(messages))


def _one_text(messages: Sequence[Message]) -> str:
    """Join a chat into one text to continue: each message is a paragraph, each answer directly follows its message."""
    text = ""
    for message in messages:
        gap = "\n\n" if text and message["role"] != "assistant" else ""
        text += gap + message["content"]
    return text
