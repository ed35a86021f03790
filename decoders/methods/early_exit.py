"""Self-speculative decoding: the target's own first layers draft, with its final norm and head; the rest of them verify.

Elhoushi et al., "LayerSkip: Enabling Early Exit Inference and Self-Speculative Decoding" (2024), arXiv:2404.16710; Zhang et
al., "Draft & Verify: Lossless Large Language Model Acceleration via Self-Speculative Decoding" (2023), arXiv:2309.08168, which
leaves out single attention and MLP blocks anywhere.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any
from weakref import WeakKeyDictionary

from ...backends.base import Block, Layers
from ...errors import UserError
from .. import needs
from ..base import Context, Drafter, Elsewhere, Verified, param
from ..parts.cascade import Copies, Worth, grow_chain
from ..parts.elsewhere import COPIED
from ..parts.ppm import ContextModel
from ..parts.proposers import FirstLayers
from ..parts.schedules import SCHEDULES, Schedule
from ..tree import Tree


@dataclass(frozen=True, slots=True)
class EarlyExitParams:
    """Settings of early exit."""

    layers: int = param(0, "The first N layers draft; 0 is half of them", low=0, high=1024)
    skip: str = param("", "Instead: what to leave out of the draft, such as 3a,4-6,7m (layer 3's attention, 4 to 6, 7's MLP)")
    tokens: int = param(
        4, "Draft tokens K (constant), or how many to start with (heuristic)", low=0, high=64, length="schedule=constant"
    )
    schedule: str = param("confidence", "How K changes from pass to pass", choices=SCHEDULES)
    most: int = param(32, "Largest K under the other schedules", low=1, high=64, length=True)
    threshold: float = param(0.6, "confidence: stop after a token less probable than this", low=0, high=1)
    cascade: bool = param(
        True, "Prompt lookup drafts for these layers, so that a copied passage takes them one pass, not one per token"
    )


PART = re.compile(r"\s*(\d{1,5})\s*(?:-\s*(\d{1,5})\s*)?([am]?)\s*", re.ASCII | re.IGNORECASE)
"""One part of the list of what is left out: a layer or a range of layers, whole or one block of each."""

_worth: WeakKeyDictionary[Any, dict[Layers, Worth]] = WeakKeyDictionary()
"""What drafting with each part of a model was worth."""


class EarlyExit(Drafter):
    """A chain of the first layers' choices.

    Their keys and values are the target's, so the verifying pass takes those tokens on from layer N, and no layer runs twice
    for a token.

    Example:
        text     The capital of France
        guess    is Paris now: what the first 4 of 8 layers would write
        verdict  is Paris ✓, now ✗ → . from layers 5 to 8, over all of them at once
    """

    name = "early-exit"
    group = "own layers"
    summary = "Self-speculation: the model's own first layers draft, and the whole model verifies."
    pays = "With models trained for it (LayerSkip, the built-in model). Needs no second model and no second cache."
    explains = (
        "The model drafts for itself: only its first layers run, and what they predict becomes a draft token. Then the "
        "remaining layers check the whole draft in one pass, continuing from what the first layers computed. No second model "
        "is needed, and no layer runs twice for a token. Single attention and MLP blocks can be left out of the draft as "
        "well, wherever the model can do without them."
    )
    paper = "LayerSkip: Enabling Early Exit Inference and Self-Speculative Decoding, Elhoushi 2024, arXiv:2404.16710"
    requires = (needs.EarlyStop(),)
    reads_cache = False
    Params = EarlyExitParams
    params: EarlyExitParams

    @classmethod
    def grid(cls, layers: int) -> Sequence[Mapping[str, str]]:
        """A quarter, half and three quarters of the layers, and all without some in the middle (a guess, where the search for
        blocks finds nothing better)."""
        depths = sorted({max(1, min(layers - 1, round(layers * share))) for share in (0.25, 0.5, 0.75)}) if layers > 1 else []
        lengths: Sequence[dict[str, str]] = ({}, {"schedule": "constant", "tokens": "4"})
        out = [{"layers": str(depth), **length} for depth in depths for length in lengths]
        for share in (0.3, 0.5):
            # The first and the last layers do what no other does: what is left out lies between them.
            count = round(layers * share)
            first = (layers - count) // 2
            if 0 < count < layers - 1 and first > 0:
                out.append({"skip": f"{first}-{first + count - 1}" if count > 1 else f"{first}"})
        return out

    @classmethod
    def elsewhere(cls, params: EarlyExitParams, draft_model: str) -> Elsewhere:
        if params.skip:
            here = "Its early exit drafts with the first N layers; it cannot skip layers in the middle or single blocks."
            none = "It cannot skip layers or blocks of the model; the nearest is a small draft model in a file of its own."
            return {"transformers": ("", here), "llama-server": ("", none), "vLLM": ("", none), "SGLang": ("", none)}
        none = "It has no early exit; the nearest is a draft model of the first layers in a file of its own."
        note = "" if params.layers else "N is half of the layers."
        call = f"assistant_early_exit={params.layers or 'N'}, num_assistant_tokens={params.tokens}"
        return {
            "transformers": (f"model.generate(**inputs, {call})", f"{note} {COPIED}".strip() if params.cascade else note),
            "llama-server": ("", none),
            "vLLM": ("", none),
            "SGLang": ("", none),
        }

    def __init__(self, params: EarlyExitParams | None = None) -> None:
        super().__init__(params)
        self._proposer: FirstLayers | None = None
        self._schedule = Schedule(self.params.schedule)
        self._index = ContextModel()
        self._copies: Copies | None = None

    def prepare(self, context: Context) -> None:
        """Choose the layers that draft."""
        assert context.model is not None
        count, params = context.model.info.layers, self.params
        if params.layers >= count:
            raise UserError(f"early-exit.layers must be below the model's {count} layers, not {params.layers}.")
        layers = what_is_left(params.skip, count) if params.skip else params.layers or max(1, count // 2)
        if self._proposer is None or self._proposer.layers != layers:
            self._proposer = FirstLayers(layers)
            worth = _worth.setdefault(context.model, {}).setdefault(layers, Worth())
            self._copies = Copies(self._index, worth)

    def draft(self, context: Context) -> Tree:
        params = self.params
        if params.schedule != self._schedule.name:
            self._schedule = Schedule(params.schedule)
        self.prepare(context)
        assert self._proposer is not None
        length = min(self._schedule.length(params.tokens, params.most), context.max_depth)
        if length < 1:
            return Tree.root(context.pending)
        enough = params.threshold if params.schedule == "confidence" else 0.0
        return grow_chain(self._proposer, context, length, enough, self._copies if params.cascade else None)

    def learn(self, verified: Verified) -> None:
        if self._proposer is None or not verified.forward_seconds:  # it began with the prompt: how long it took tells nothing
            return
        drafted, accepted = len(verified.tree.as_drafted(())[0]) - 1, len(verified.path) - 1
        seconds = self._proposer.seconds if drafted else []
        self._schedule.learn(drafted, accepted, len(verified.tree), verified.forward_seconds, seconds)


@lru_cache(64)
def what_is_left(skip: str, count: int) -> tuple[int | Block, ...]:
    """What a draft runs of a model of `count` layers without the layers and blocks of a list such as `3a,4-6,7m`.

    Raises:
        UserError: it is no such list, or names nothing or everything.
    """
    left_out: set[tuple[int, str]] = set()
    for part in skip.split(","):
        found = PART.fullmatch(part)
        if found is None:
            raise UserError(
                f"early-exit.skip is a list of layers and blocks such as 3a,4-6,7m (3a is layer 3's attention, 7m layer 7's "
                f"MLP), not {skip!r}."
            )
        first, last = int(found[1]), int(found[2] or found[1])
        if not first <= last < count:
            raise UserError(f"early-exit.skip takes layers from 0 to {count - 1} in ascending order, not {part.strip()!r}.")
        left_out |= {(layer, kind) for layer in range(first, last + 1) for kind in (found[3] or "am").lower()}
    run: list[int | Block] = []
    for layer in range(count):
        match (layer, "a") in left_out, (layer, "m") in left_out:
            case False, False:
                run.append(layer)
            case True, False:
                run.append(Block(layer, "mlp"))
            case False, True:
                run.append(Block(layer, "attention"))
    if not run:
        raise UserError(f"early-exit.skip cannot leave out every layer: {skip!r} leaves nothing to run.")
    return tuple(run)


def skip_text(left_out: Iterable[tuple[int, str]]) -> str:
    """The list that leaves out these blocks, each a layer and a (attention) or m (MLP), as short as it can be."""
    kinds: dict[int, str] = {}
    for layer, kind in sorted(left_out):
        kinds[layer] = kinds.get(layer, "") + kind
    spans: list[tuple[int, int, str]] = []
    for layer, kind in kinds.items():
        first, last, same = spans[-1] if spans else (layer, -2, "")
        if (last + 1, same) == (layer, kind):
            spans[-1] = (first, layer, kind)
        else:
            spans.append((layer, layer, kind))
    return ",".join(
        (f"{first}" if first == last else f"{first}-{last}") + kind.replace("am", "") for first, last, kind in spans
    )
