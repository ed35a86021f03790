"""A chain of nodes on transformers' own cache: for recurrent models, and for hybrids, whose cache can go back a step."""

from __future__ import annotations

import inspect
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import torch
from torch import Tensor
from transformers.cache_utils import DynamicLayer

from ..sessions.chain import ChainSession, ReturningSession
from ..sessions.states import States
from .early_layers import LayerList
from .runner import Runner
from .session import TransformersSession

Feeding = Literal["several", "single"]
"""How a model takes the tokens that follow others: several in a pass, or one."""


def cache_name(module: Any) -> str:
    """What a model's `forward` calls the cache that it takes; empty if it takes none that we know, as GPT and Reformer."""
    known = inspect.signature(module.forward).parameters
    return next((name for name in ("past_key_values", "cache_params", "state") if name in known), "")


class PlainSession(ChainSession):
    """One conversation on transformers' own cache.

    Args:
        runner: the model.
        context: most tokens.
        feeding: how tokens go in.
    """

    def __init__(self, runner: Runner, context: int, feeding: Feeding) -> None:
        super().__init__(context)
        self._run = runner
        self._feeding = feeding
        self._cache: Any = None
        self.rope = runner.rope.rule if runner.rope is not None else None
        self._cache_name = cache_name(runner.module)

    def _forget(self) -> None:
        super()._forget()
        self._cache = None

    def _read(self, text: list[int], wanted: list[int]) -> Tensor:
        pending = text[len(self._held) :]
        parts = []
        with torch.inference_mode():
            while pending:
                size = 1 if self._feeding == "single" and self._held else len(pending)
                parts.append(self._feed(pending[:size]))
                pending = pending[size:]
            return torch.cat(parts)[[place - len(text) for place in wanted]]

    def _feed(self, tokens: list[int]) -> Tensor:
        """One pass; logits [n, vocab]. The state is lost if it fails."""
        run, name, cache = self._run, self._cache_name, self._cache
        seen = self._held + tokens
        # Where there is no cache yet, the model makes one of the kind that it needs.
        kwargs: dict[str, Any] = {name: cache, "use_cache": True}
        if run.takes_positions:  # some models count from 0 if they are not told
            kwargs["position_ids"] = torch.arange(len(self._held), len(seen), device=run.device)[None]
        if run.rope is not None:
            run.rope.prompt = self._prompt
        try:
            out = run.module(input_ids=torch.tensor([tokens], device=run.device), **kwargs)
        except BaseException:
            self._forget()
            raise
        self._cache = getattr(out, name, None) or cache
        self._held = seen
        return out.logits[0, -len(tokens) :]  # type: ignore[no-any-return]

    def close(self) -> None:
        self.rewind(0)
        self._forget()


@dataclass(frozen=True, slots=True)
class CacheState:
    """What the layers of a cache held."""

    layers: list[dict[str, Any]]

    @property
    def nbytes(self) -> int:
        """The memory that it takes: what full attention has is the cache's own."""
        values = [value for layer in self.layers for value in layer.values()]
        values += [each for value in values if isinstance(value, Mapping) for each in value.values()]
        return sum(value.nbytes for value in values if isinstance(value, Tensor))


class HybridSession(ReturningSession[CacheState], PlainSession):
    """One conversation with a model of linear and full attention. What linear attention overwrites is kept.

    Args:
        runner: the model.
        context: most tokens.
        taps: layers whose hidden states to keep (see `Model.open_session`).
    """

    unrecorded = ""
    """As of `TransformersSession`: nobody asks for its passes to be recorded."""

    def __init__(self, runner: Runner, context: int, taps: Sequence[int] = ()) -> None:
        super().__init__(runner, context, "several")
        self._taps = tuple(taps)
        if taps:
            config: Any = runner.module.config
            width = config.get_text_config(decoder=True).hidden_size
            self._states = States(taps, width, context, runner.dtype, runner.device)

    def _advance(self, text: list[int], wanted: list[int]) -> Tensor:
        if len(self._held) == len(text):
            return torch.empty((0, 0))
        with torch.inference_mode():
            return self._feed(text[len(self._held) :])[[place - len(text) for place in wanted]]

    def _save(self) -> CacheState:
        return CacheState([_kept(layer) for layer in self._cache.layers])

    def _put_back(self, state: CacheState, seen: int) -> None:
        for layer, kept in zip(self._cache.layers, state.layers, strict=True):
            _put_back(layer, kept)

    def _feed(self, tokens: list[int]) -> Tensor:
        start = len(self._held)
        with overheard(self._run.module, self._run.tapped, self._taps) as heard:
            logits = super()._feed(tokens)
        if self._states is not None:
            for tap, rows in heard.items():
                self._states.write(tap, start, rows[0])
        return logits

    def close(self) -> None:
        super().close()
        self._states = None


def session_of(runner: Runner, context: int, taps: Sequence[int] = ()) -> TransformersSession | HybridSession:
    """A session of a model that can verify drafts."""
    return HybridSession(runner, context, taps) if runner.hybrid else TransformersSession(runner, context, taps)


def _kept(layer: Any) -> dict[str, Any]:
    """What a cache layer holds. Full attention only adds to that, so its length will do."""
    if type(layer) is DynamicLayer:
        return {"length": layer.get_seq_length()}
    return {name: _copied(value) if isinstance(value, Mapping) else value for name, value in vars(layer).items()}


def _put_back(layer: Any, state: Mapping[str, Any]) -> None:
    if type(layer) is not DynamicLayer:
        vars(layer).update({name: _copied(value) if isinstance(value, Mapping) else value for name, value in state.items()})
        return
    for name in ("keys", "values"):
        setattr(layer, name, getattr(layer, name)[..., : state["length"], :])


def _copied(states: Mapping[Any, Any]) -> dict[Any, Any]:
    """Layer number → what linear attention overwrites in place."""
    return {number: value.clone() if isinstance(value, Tensor) else value for number, value in states.items()}


@contextmanager
def overheard(module: Any, where: LayerList | None, taps: Collection[int] | None = None) -> Iterator[dict[int, Tensor]]:
    """Tap → the hidden states of a pass that is made meanwhile. torch's own hooks hear them; transformers'
    `output_hidden_states` would leave hooks in the model for ever.

    Args:
        module: the model.
        where: its layers; None hears nothing.
        taps: which are wanted; None for all.
    """
    heard: dict[int, Tensor] = {}
    if where is None or (taps is not None and not taps):
        yield heard
        return
    inner = module
    for name in where.path[:-1]:
        inner = getattr(inner, name)

    def entering(tap: int, _layer: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        heard[tap] = kwargs["hidden_states"] if "hidden_states" in kwargs else args[0]

    def leaving(_module: Any, _args: Any, out: Any) -> None:
        heard[where.count] = out[0]

    hooks = [
        layer.register_forward_pre_hook(partial(entering, tap), with_kwargs=True)
        for tap, layer in enumerate(getattr(inner, where.path[-1]))
        if taps is None or tap in taps
    ]
    if taps is None or where.count in taps:
        hooks.append(inner.register_forward_hook(leaving))
    try:
        yield heard
    finally:
        for hook in hooks:
            hook.remove()
