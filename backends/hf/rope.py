"""Rotary positions that depend on the length of the text, node by node.

transformers' LongRoPE and dynamic NTK take their frequencies from the highest position in a pass. So a draft that reaches over
the limit would turn all nodes of its pass, and the first chunks of a long prompt would be read as if it were short. Here each
node has the frequencies that it would have in `generate` (see `RopeRule`), whatever else is in its pass.
"""

from __future__ import annotations

import inspect
from bisect import bisect_left
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

import torch
from torch import Tensor
from transformers.cache_utils import DynamicCache

from ..base import RopeRule


class Rope:
    """The rotary modules of a model whose frequencies depend on the length of the text; it takes over their `forward`."""

    def __init__(self, modules: list[Any], rule: RopeRule) -> None:
        self.rule = rule
        self.prompt = 0
        """Tokens of the prompt of the text that the next pass belongs to; set before each pass."""
        for module in modules:
            module.forward = self._by_node(module.forward)

    def _by_node(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def forward(x: Tensor, position_ids: Tensor, *args: Any, **kwargs: Any) -> Any:
            lengths = [[self.rule.length(max(at + 1, self.prompt)) for at in row] for row in position_ids.tolist()]
            whole = None
            for length in sorted({length for row in lengths for length in row}):
                mine = torch.tensor(lengths, device=x.device) == length
                part = read_as(original, length, x, position_ids.where(mine, 0), *args, **kwargs)
                whole = part if whole is None else _both(partial(_where, mine[..., None]), part, whole)
            return whole

        return forward


def read_as(rotary: Callable[..., Any], length: int, x: Tensor, positions: Tensor, *args: Any, **kwargs: Any) -> Any:
    """Call a rotary module for positions [batch, n] of a text of `length` tokens, whichever of them are in the pass."""
    rotary(x, positions.new_zeros((1, 1)), *args, **kwargs)  # dynamic NTK forgets longer texts
    last = positions.new_full((positions.shape[0], 1), length - 1)
    rotations = rotary(x, torch.cat((positions, last), 1), *args, **kwargs)
    return _both(lambda tensor: tensor[:, :-1], rotations)


def _both(change: Callable[..., Tensor], *rotations: Any) -> Any:
    """Apply `change` to cosines and sines, or to complex numbers."""
    return change(*rotations) if isinstance(rotations[0], Tensor) else type(rotations[0])(map(change, *rotations))


def _where(mine: Tensor, part: Tensor, other: Tensor) -> Tensor:
    return torch.where(mine, part, other)


def find_rope(module: Any, context: int) -> Rope | None:
    """Find the rule of a model's rotary positions in texts of up to `context` tokens by calling its modules; None if
    they do not depend on the length."""
    weight = module.get_input_embeddings().weight
    x = torch.zeros((1, 1, 1), dtype=weight.dtype, device=weight.device)
    positions = torch.tensor([[0, 1]], device=weight.device)
    dependent: list[Any] = []
    rules: set[tuple[int, bool]] = set()
    for part in module.modules():
        if "Rotary" not in type(part).__name__ or "position_ids" not in inspect.signature(part.forward).parameters:
            continue
        kinds = part.rope_type if isinstance(getattr(part, "rope_type", None), dict) else (None,)
        for kind in kinds:
            named = {} if kind is None else {"layer_type": kind}

            def at(length: int, rotary: Any = part.forward, named: dict[str, Any] = named) -> Tensor:
                rotations = read_as(rotary, length, x, positions, **named)
                return rotations if isinstance(rotations, Tensor) else torch.stack(tuple(rotations))

            with suppress(TypeError, ValueError, RuntimeError):  # another kind of module; the proof sees to it
                limit = _limit(at, context)
                if limit is not None:
                    rules.add((limit, not torch.equal(at(limit + 1), at(context))))
                    dependent.append(part)
    if not rules:
        return None
    limit, by_length = min(rules)[0], any(by_length for _, by_length in rules)
    return Rope(list(dict.fromkeys(dependent)), RopeRule(limit, by_length, _rereads(module, limit)))


def _limit(at: Callable[[int], Tensor], context: int) -> int | None:
    """Find the longest text whose tokens are read as those of a short one; None if all are."""
    short = at(2)
    if context < 2 or torch.equal(at(context), short):
        return None
    return 1 + bisect_left(range(2, context), True, key=lambda length: not torch.equal(at(length), short))


class _Read(DynamicCache):
    """A cache that claims to hold some tokens."""

    def __init__(self, config: Any, length: int) -> None:
        super().__init__(config=config)  # with layers, as an empty one counts as none
        self._length = length

    def get_seq_length(self, *args: Any, **kwargs: Any) -> int:
        return self._length


def _rereads(module: Any, limit: int) -> bool:
    """Whether transformers' `generate` throws this model's cache away when the text grows past the limit."""
    text = torch.zeros((1, limit + 1), dtype=torch.long)
    options = {"attention_mask": torch.ones_like(text), "use_cache": True, "next_sequence_length": 1}
    try:
        inputs = module.prepare_inputs_for_generation(text, past_key_values=_Read(module.config, limit), **options)
    except (TypeError, ValueError, RuntimeError, AttributeError, LookupError):
        return False
    return inputs.get("past_key_values") is None
