"""DFlash: a drafter trained for the target fills in a whole block of tokens in one pass, from the target's hidden states. In
DSpark and DFlash 2, its relatives, guesses also depend on the token before: every branch of a tree has its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from heapq import nlargest
from typing import TYPE_CHECKING

from ...backends.base import Scores
from ...backends.heads.base import BlockHead, BlockSession
from ...errors import shell_line
from ...option import option
from .. import needs
from ..base import Context
from ..parts.drafting import Following
from ..parts.elsewhere import llama_server, speculative
from ..parts.growth import Grower, Growth
from ..parts.position_tree import draft_positions
from ..parts.proposers import Proposer
from ..tree import Tree

if TYPE_CHECKING:
    from ...backends.heads.dflash.paths import PathBlockSession


@dataclass(frozen=True, slots=True)
class DFlashParams:
    nodes: int = option(24, "Most nodes in the tree, including the last token", low=1, high=256, length=True)
    depth: int = option(16, "Most positions of a block that are drafted", low=1, high=64)
    width: int = option(4, "Most tokens considered for a position; 1 drafts a chain", low=1, high=32)
    floor: float = option(-1.0, "Lowest probability of a path; -1 drafts what pays by the cost of passes", low=-1, high=1)

    @property
    def grow(self) -> int:
        """Most nodes of a level that are extended: all that may be in the tree, as one costs next to nothing."""
        return self.nodes


class HeadBlocks(Proposer):
    """A trained drafter of blocks, whose session follows the target's hidden states: node 0 is the pending token, the others
    are positions."""

    def __init__(self, head: BlockHead, session: BlockSession) -> None:
        super().__init__()
        self.head = head
        self.session = session
        self._text = Following()

    def _open(self, context: Context, line: Sequence[int]) -> Scores | None:
        return self.session.guess(context.pending, 1 + len(line)) if self._follow(context) else None

    def _follow(self, context: Context) -> bool:
        """Read the target's states at the tokens before the pending one; return False while the target lacks some of them."""
        tokens, session, last = context.tokens, self.session, context.session.length
        if not last == len(tokens) - 1 > 0 or last > session.context:
            return False
        begin = min(session.length, last, self._text.same(tokens))
        session.rewind(begin)
        if begin < last:
            session.extend(context.session.states(begin, last))
        return True

    def close(self) -> None:
        self.session.close()


class PathBlocks(HeadBlocks):
    """A trained drafter of blocks whose guesses also depend on the token before: its nodes are the tree's."""

    session: PathBlockSession
    positions = 0
    """The most levels of the tree in this round."""

    def _open(self, context: Context, line: Sequence[int]) -> Scores | None:
        assert not line, "a drafter whose guesses depend on the token before does not draft behind a line"
        return self.session.begin(context.pending, self.positions) if self._follow(context) else None

    def _extend(self, tokens: Sequence[int], parents: Sequence[int]) -> Scores | None:
        return self.session.grow(tokens, parents)

    def _drop(self, first: int) -> None:
        self.session.drop(first)


class DFlash(Grower):
    """Each position's likeliest tokens, as a tree of the most probable paths. Where guesses do not depend on the token before,
    any token may follow any token of the position before (see `position_tree.py`); otherwise each branch has its own guesses.

    Example:
        text     The capital of France, then three masks
        guess    is Paris . in place of the masks, all in one pass of the drafter
        verdict  is Paris ✓, . ✗ → ,
    """

    name = "dflash"
    group = "trained"
    reads_cache = True
    summary = "A drafter trained for this model fills in a block of tokens in one pass; the model verifies a tree of them."
    pays = "If there is a DFlash, DFlash 2 or DSpark drafter for your model: a long draft takes a single pass."
    explains = (
        "The drafter fills in a block of mask tokens in one pass, as diffusion models for text do. It reads the large model's "
        "hidden states at each token. The likeliest tokens of each position become a tree, which a pass of the large model "
        "checks. DSpark and DFlash 2 drafters also look at the token before each position, so every branch differs."
    )
    paper = "DFlash: Block Diffusion for Flash Speculative Decoding, Chen 2026, arXiv:2602.06036"
    requires = (needs.TrainedDrafter("dflash"),)
    Params = DFlashParams
    params: DFlashParams
    _proposers: Mapping[str, HeadBlocks]

    @classmethod
    def grid(cls, layers: int) -> Sequence[Mapping[str, str]]:
        return [{"width": "1"}, *({"nodes": nodes} for nodes in ("12", "24", "48"))]

    @classmethod
    def elsewhere(cls, params: DFlashParams, draft_model: str) -> Mapping[str, str]:
        block = f"--speculative-draft-model-path {shell_line(draft_model)} --speculative-num-draft-tokens {params.depth + 1}"
        return {
            "transformers": "model.generate(**inputs, assistant_model=draft, speculation_type='dflash')",
            "llama-server": llama_server("draft-dflash", draft_model, params.depth),
            "vLLM": speculative("dflash", model=draft_model, num_speculative_tokens=params.depth),
            "SGLang": f"--speculative-algorithm DFLASH {block}",
        }

    def prepare(self, context: Context) -> None:
        self._open(context)

    def draft(self, context: Context) -> Tree:
        params, proposer = self.params, self._open(context)[self.name]
        positions = min(params.depth, proposer.head.positions, context.max_depth)
        if isinstance(proposer, PathBlocks):
            proposer.positions = positions
            return super().draft(context)
        # The token at a position is not known yet: the pending token stands in, which penalties count anyway.
        return draft_positions(proposer, context, params, positions, context.pending, self._floor(context))

    def _floor(self, context: Context) -> float:
        return self.sizes.least(context, self.params.floor)

    def _most_levels(self) -> int:
        return min(self.params.depth, self._proposers[self.name].head.positions)

    def _extended(self, growth: Growth, level: Sequence[int], budget: int, floor: float) -> list[int]:
        """Extend the nodes that are among the `budget` best so far: a level costs next to nothing, and below other nodes there
        is none that can be among the best."""
        reached = growth.reached
        least = max(floor, min(nlargest(budget, reached)))
        return [node for i, node in enumerate(level) if reached[node] >= (least if i else floor)]

    def _open(self, context: Context) -> Mapping[str, HeadBlocks]:
        head = context.head
        assert isinstance(head, BlockHead)
        if self.name not in self._proposers or self._proposers[self.name].head is not head:
            self.close()
            session = head.open(context.session.context)
            self._proposers = {self.name: (PathBlocks if session.branching else HeadBlocks)(head, session)}
        return self._proposers
