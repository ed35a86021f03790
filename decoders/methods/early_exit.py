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

from ...backends.base import Block
from ...errors import UserError
from ...option import option
from .. import needs
from ..base import Context
from ..parts.cascade import SCHEDULES, ChainDrafter, Copies
from ..parts.proposers import FirstLayers
from ..tree import Tree


@dataclass(frozen=True, slots=True)
class EarlyExitParams:
    layers: int = option(0, "The first N layers draft; 0 is half of them", low=0, high=1024)
    skip: str = option("", "Instead: what to leave out of the draft, such as 3a,4-6,7m (layer 3's attention, 4 to 6, 7's MLP)")
    tokens: int = option(4, "constant: draft tokens K", low=0, high=64, length="schedule=constant")
    schedule: str = option("confidence", "Whether K is constant or ends where the draft is unsure", choices=SCHEDULES)
    most: int = option(32, "confidence: largest K", low=1, high=64, length=True)
    threshold: float = option(0.6, "confidence: stop after a token less probable than this", low=0, high=1)
    cascade: bool = option(
        True, "Prompt lookup drafts for these layers, so that a copied passage takes them one pass, not one per token"
    )


PART = re.compile(r"\s*(\d{1,5})\s*(?:-\s*(\d{1,5})\s*)?([am]?)\s*", re.ASCII | re.IGNORECASE)
"""One entry of `skip`: a layer or a range of layers, whole or one block of each."""


class EarlyExit(ChainDrafter):
    """A chain of the first layers' choices.

    Their keys and values are the target's, so the verifying pass continues from layer N, and no layer runs twice for a token.

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
        "The model drafts for itself: only its first layers run, and their prediction becomes a draft token. Then the "
        "remaining layers check the whole draft in one pass, so no layer runs twice for a token. Single attention and MLP "
        "blocks can be left out of the draft as well."
    )
    paper = "LayerSkip: Enabling Early Exit Inference and Self-Speculative Decoding, Elhoushi 2024, arXiv:2404.16710"
    requires = (needs.EarlyStop(),)
    Params = EarlyExitParams
    params: EarlyExitParams

    @classmethod
    def grid(cls, layers: int) -> Sequence[Mapping[str, str]]:
        """Compare a quarter, half and three quarters of the layers; sets of blocks are searched for."""
        depths = sorted({max(1, min(layers - 1, round(layers * share))) for share in (0.25, 0.5, 0.75)}) if layers > 1 else []
        lengths: Sequence[dict[str, str]] = ({}, {"schedule": "constant", "tokens": "4"})
        return [{"layers": str(depth), **length} for depth in depths for length in lengths]

    @classmethod
    def elsewhere(cls, params: EarlyExitParams, draft_model: str) -> Mapping[str, str]:
        call = f"assistant_early_exit={params.layers or 'N'}, num_assistant_tokens={params.tokens}"
        return {} if params.skip else {"transformers": f"model.generate(**inputs, {call})"}

    def __init__(self, params: EarlyExitParams | None = None) -> None:
        super().__init__(params)
        self._proposer: FirstLayers | None = None

    def prepare(self, context: Context) -> None:
        """Choose the layers that draft."""
        assert context.model is not None
        count, params = context.model.info.layers, self.params
        if params.layers >= count:
            raise UserError(f"early-exit.layers must be below the model's {count} layers, not {params.layers}.")
        layers = parse_skip(params.skip, count) if params.skip else params.layers or max(1, count // 2)
        if self._proposer is None or self._proposer.layers != layers:
            self._proposer = FirstLayers(layers)
            self._copies = Copies(context.model)

    def draft(self, context: Context) -> Tree:
        self.prepare(context)
        assert self._proposer is not None
        return self._chain(self._proposer, context)


@lru_cache(64)
def parse_skip(skip: str, count: int) -> tuple[int | Block, ...]:
    """List what a draft runs of a model of `count` layers without the layers and blocks of a list such as `3a,4-6,7m`.

    Raises:
        UserError: it is no such list, or names nothing or everything.
    """
    left_out: set[tuple[int, str]] = set()
    for part in skip.split(","):
        match = PART.fullmatch(part)
        if match is None:
            raise UserError(
                f"early-exit.skip is a list of layers and blocks such as 3a,4-6,7m (3a is layer 3's attention, 7m layer 7's "
                f"MLP), not {skip!r}."
            )
        first, last = int(match[1]), int(match[2] or match[1])
        if not first <= last < count:
            raise UserError(f"early-exit.skip takes layers from 0 to {count - 1} in ascending order, not {part.strip()!r}.")
        left_out |= {(layer, kind) for layer in range(first, last + 1) for kind in (match[3] or "am").lower()}
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
    """Write the shortest list that leaves out these blocks, each a layer and a (attention) or m (MLP)."""
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
