"""A chain of nodes on transformers' own cache: for recurrent models, and for hybrids, whose cache can go back a step."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor
from transformers.cache_utils import DynamicLayer

from ..sessions.chain import ChainSession, ReturningSession
from ..sessions.states import States
from .runner import Runner
from .session import TransformersSession
from .taps import heard_rows, overheard

Feeding = Literal["several", "single"]
"""Number of tokens that a model with a full cache takes in a pass: several, or one."""


def cache_name(module: Any) -> str:
    """Name of the cache among `forward`'s parameters; empty if there is none that we know, as in GPT and Reformer."""
    parameters = inspect.signature(module.forward).parameters
    return next((name for name in ("past_key_values", "cache_params", "state") if name in parameters), "")


class PlainSession(ChainSession):
    """One conversation on transformers' own cache."""

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

    def _read(self, text: list[int], places: list[int]) -> Tensor:
        pending = text[len(self._held) :]
        parts = []
        with torch.inference_mode():
            while pending:
                size = 1 if self._feeding == "single" and self._held else len(pending)
                parts.append(self._feed(pending[:size]))
                pending = pending[size:]
            return torch.cat(parts)[[place - len(text) for place in places]]

    def _feed(self, tokens: list[int]) -> Tensor:
        """Run one pass and return logits [n, vocab]. The state is lost if it fails."""
        run, name, cache = self._run, self._cache_name, self._cache
        text = self._held + tokens
        # Where there is no cache yet, the model makes one of the kind that it needs.
        kwargs: dict[str, Any] = {name: cache, "use_cache": True}
        if run.takes_positions:  # some models count from 0 if they are not told
            kwargs["position_ids"] = torch.arange(len(self._held), len(text), device=run.device)[None]
        if run.rope is not None:
            run.rope.prompt = self._prompt
        try:
            out = run.module(input_ids=torch.tensor([tokens], device=run.device), **kwargs)
        except BaseException:
            self._forget()
            raise
        self._cache = getattr(out, name, None) or cache
        self._held = text
        return out.logits[0, -len(tokens) :]  # type: ignore[no-any-return]

    def close(self) -> None:
        self.rewind(0)
        self._forget()


@dataclass(frozen=True, slots=True)
class CacheState:
    """Copied contents of a cache's layers."""

    layers: list[dict[str, Any]]

    @property
    def nbytes(self) -> int:
        """Bytes of the copies; full attention's part stays in the cache."""
        values = [value for layer in self.layers for value in layer.values()]
        values += [state for value in values if isinstance(value, Mapping) for state in value.values()]
        return sum(value.nbytes for value in values if isinstance(value, Tensor))


class HybridSession(ReturningSession[CacheState], PlainSession):
    """One conversation with a model of linear and full attention. The states that linear attention overwrites are kept."""

    unrecorded = ""
    """Always empty: its passes are never recorded."""

    def __init__(self, runner: Runner, context: int, taps: Sequence[int] = ()) -> None:
        super().__init__(runner, context, "several")
        self._taps = tuple(taps)
        if taps:
            config: Any = runner.module.config
            width = config.get_text_config(decoder=True).hidden_size
            self._states = States(taps, width, context, runner.dtype, runner.device)

    def _advance(self, text: list[int], places: list[int]) -> Tensor:
        if len(self._held) == len(text):
            return torch.empty((0, 0))
        with torch.inference_mode():
            return self._feed(text[len(self._held) :])[[place - len(text) for place in places]]

    def _save(self) -> CacheState:
        return CacheState([_kept(layer) for layer in self._cache.layers])

    def _put_back(self, state: CacheState, length: int) -> None:
        for layer, saved in zip(self._cache.layers, state.layers, strict=True):
            _put_back(layer, saved)

    def _feed(self, tokens: list[int]) -> Tensor:
        start = len(self._held)
        with overheard(self._run.module, self._run.tapped, self._taps) as heard:
            logits = super()._feed(tokens)
        if self._states is not None:
            for tap, rows in heard_rows(heard, len(tokens)).items():
                self._states.write(tap, start, rows)
        return logits

    def close(self) -> None:
        super().close()
        self._states = None


def open_session(runner: Runner, context: int, taps: Sequence[int] = ()) -> TransformersSession | HybridSession:
    """Open a session of a model that can verify drafts."""
    return HybridSession(runner, context, taps) if runner.hybrid else TransformersSession(runner, context, taps)


def _kept(layer: Any) -> dict[str, Any]:
    """Copy a cache layer's contents. Full attention only appends, so its length is enough."""
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
    """Copy the states by layer number that linear attention overwrites in place."""
    return {number: value.clone() if isinstance(value, Tensor) else value for number, value in states.items()}
