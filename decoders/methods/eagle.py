"""EAGLE: a head trained for the target continues the target's own hidden states, and drafts a dynamic tree.

Li et al., "EAGLE: Speculative Sampling Requires Rethinking Feature Uncertainty" (2024), arXiv:2401.15077; "EAGLE-2: Faster
Inference of Language Models with Dynamic Draft Trees" (2024), arXiv:2406.16858; "EAGLE-3: Scaling up Inference Acceleration of
Large Language Models via Training-Time Test" (2025), arXiv:2503.01840. MTP layers are of the same kind: DeepSeek-AI,
"DeepSeek-V3 Technical Report" (2024), arXiv:2412.19437; Gloeckle et al., "Better & Faster Large Language Models via Multi-token
Prediction" (2024), arXiv:2404.19737.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...backends.base import PREFILL_CHUNK, ROOT, Scores
from ...backends.heads.base import Head, PathHead
from ...option import option
from .. import needs
from ..base import Context, Verified
from ..parts.cascade import Copies
from ..parts.drafting import Following, node_budget
from ..parts.elsewhere import llama_server, sglang, speculative
from ..parts.growth import Grower
from ..parts.proposers import Proposer
from ..tree import Tree

if TYPE_CHECKING:
    from ...backends.heads.sessions import HeadSession

CPU_FLOOR, SMALL_FLOOR = 0.1, 0.3
"""Least probabilities of a path on a CPU, where a node also costs a part of a pass of the head; the second one with a small
model, of whose pass that is more. Against 0.1, 96 prompts of six families on the built-in model took 0.93 times as long (one
core, processor time)."""

SMALL = 50_000_000
"""Parameters below which a model is small."""

COPIES = 2.0
"""Least number of right tokens that prompt lookup must expect in order to draft in the head's place."""


@dataclass(frozen=True, slots=True)
class EagleParams:
    nodes: int = option(24, "Most nodes in the tree, including the last token", low=1, high=256, length=True)
    depth: int = option(16, "Most draft tokens on a path", low=1, high=32)
    width: int = option(4, "Successors of each expanded node; 1 for a chain", low=1, high=16)
    grow: int = option(4, "Nodes expanded at each depth", low=1, high=32)
    floor: float = option(-1.0, "Lowest probability of a path; -1 drafts what pays by the cost of passes", low=-1, high=1)
    cascade: bool = option(True, "Prompt lookup drafts in the head's place where the text clearly repeats itself")


class HeadProposer(Proposer):
    """A trained head in a session that follows the target's text and hidden states.

    Node 0, the pending token, is the head's last pair; the others are the head's nodes.
    """

    def __init__(self, head: PathHead, context: int) -> None:
        super().__init__()
        self.session: HeadSession = head.open(context)
        self._text = Following()

    @property
    def branches(self) -> int | None:
        return self.session.branches

    def _open(self, context: Context, line: Sequence[int]) -> Scores | None:
        """Read the text's end with the target's states. The pending token's pair is the last. There is no draft while the
        target lacks some of the text: the pass that reads it chooses the next token."""
        assert not line, "a head does not draft behind a line"
        tokens, session, last = context.tokens, self.session, context.session.length
        if not last == len(tokens) - 1 > 0 or last > session.context:
            return None
        # A pair includes the next token. The last pair is read again for its scores.
        begin = max(0, min(session.length, len(tokens) - 2, self._text.same(tokens) - 1))
        session.rewind(begin)
        session.follow(context.session)
        return session.extend(tokens[begin + 1 :], context.session.states(begin, last))

    def _extend(self, tokens: Sequence[int], parents: Sequence[int]) -> Scores | None:
        session = self.session
        if session.length + self.evaluated - 1 + len(tokens) > session.context or len(tokens) > PREFILL_CHUNK:
            return None
        return session.grow(tokens, [parent - 1 if parent else ROOT for parent in parents])

    def _drop(self, first: int) -> None:
        self.session.drop(first - 1)

    def close(self) -> None:
        self.session.close()


class Eagle(Grower):
    """The most probable tree of an EAGLE head (see `Grower`).

    Example:
        text     The capital of France, and the target's states at these tokens
        guess    is, below it Paris and the, below "Paris" . : each from the output of the one above
        verdict  is Paris . ✓ → It
    """

    name = "eagle"
    group = "trained"
    reads_cache = False  # there is nothing to read before the prompt's own pass, which brings the first token with it
    summary = "A small head trained for this model continues its hidden states and drafts a tree; the model verifies it."
    pays = "Nearly always, if there is a head for your model: it guesses better than other drafters of its size."
    explains = (
        "The head is a single layer that reads the large model's hidden states at the last token. From these it guesses the "
        "next token, then goes on from its own output. Where it is unsure the draft branches, and the most probable branches "
        "stay. After each pass it starts again from the large model's true states."
    )
    paper = "EAGLE-3: Scaling up Inference Acceleration via Training-Time Test, Li 2025, arXiv:2503.01840"
    requires = (needs.TrainedDrafter("eagle"),)
    Params = EagleParams
    params: EagleParams
    _proposers: Mapping[str, HeadProposer]

    @classmethod
    def grid(cls, layers: int) -> Sequence[Mapping[str, str]]:
        chain = {"width": "1", "depth": "4"}
        return [chain, *({"nodes": nodes, "depth": depth} for nodes in ("12", "24", "48") for depth in ("4", "6"))]

    @classmethod
    def elsewhere(cls, params: EagleParams, draft_model: str) -> Mapping[str, str]:
        return {
            "llama-server": llama_server("draft-eagle3", draft_model, params.depth),
            "vLLM": speculative("eagle3", model=draft_model, num_speculative_tokens=params.depth),
            "SGLang": sglang("EAGLE3", draft_model, params.depth, params.width, params.nodes),
        }

    def __init__(self, params: EagleParams | None = None) -> None:
        super().__init__(params)
        self._head: Head | None = None
        self._copies: Copies | None = None
        self._expected: list[int] = []
        """The line that prompt lookup expects in this step."""

    def draft(self, context: Context) -> Tree:
        self._open(context)
        self._expected = []
        if self.params.cascade and self._copies is not None:
            self._copies.follow(context.tokens)
            most = min(node_budget(context, self.params.nodes) - 1, context.max_depth)
            self._expected, chances = self._copies.after((), most, context.eos_ids)
            if sum(chances) >= COPIES:
                self._growths = {}
                self._tree = None
                return Tree.chain(context.pending, self._expected)
        return super().draft(context)

    def learn(self, verified: Verified) -> None:
        super().learn(verified)
        line, path = self._expected, verified.path
        if self._copies is None or not line:
            return
        # Lookup learns from every step, also from the head's.
        follows = [*(verified.tree.tokens[node] for node in path[1:]), verified.chosen[path[-1]]]
        pairs = enumerate(zip(line, follows, strict=False))
        right = next((i for i, (guess, token) in pairs if guess != token), min(len(line), len(follows)))
        self._copies.learn(min(len(line), len(follows)), right)

    def _floor(self, context: Context) -> float:
        model = context.model
        if self.params.floor >= 0 or model is None or not model.info.device.startswith("cpu"):
            return self.sizes.least(context, self.params.floor)
        return max(self.sizes.floor(context), SMALL_FLOOR if model.info.parameters < SMALL else CPU_FLOOR)

    def prepare(self, context: Context) -> None:
        for proposer in self._open(context).values():
            proposer.session.follow(context.session)  # before there is a text, if possible

    def _open(self, context: Context) -> Mapping[str, HeadProposer]:
        head = context.head
        assert isinstance(head, PathHead)
        if head is not self._head:
            self.close()
            self._proposers = {self.name: HeadProposer(head, context.session.context)}
            self._head = head
            self._copies = Copies()
        return self._proposers

    def close(self) -> None:
        super().close()
        self._head = self._copies = None


@dataclass(frozen=True, slots=True)
class MtpParams(EagleParams):
    nodes: int = option(12, "Most nodes in the tree, including the last token", low=1, high=256, length=True)
    depth: int = option(3, "Most draft tokens on a path", low=1, high=32)
    width: int = option(3, "Successors of each expanded node; 1 for a chain", low=1, high=16)
    grow: int = option(3, "Nodes expanded at each depth", low=1, high=32)


class Mtp(Eagle):
    """The most probable tree of the model's own MTP layer, which reads the same pairs as an EAGLE head.

    Example:
        text     The capital of France, and the target's last states
        guess    is, from the layer that predicts one token further
        verdict  is ✓ → Paris
    """

    name = "mtp"
    summary = "A layer in the model's own checkpoint, trained to predict one token more, drafts a tree; the model verifies it."
    pays = "If your model has MTP layers, as DeepSeek-V3, GLM-4.5 and Qwen3.5 do: no other file is needed."
    explains = (
        "Some models are trained to predict not only the next token but the one after it too, with one more layer for that. It "
        "reads the model's last hidden state and the token that was just chosen. Run again on its own output it guesses "
        "further, less and less well. The guesses become a tree, and one pass of the model checks them all."
    )
    paper = "DeepSeek-V3 Technical Report, DeepSeek-AI 2024, arXiv:2412.19437"
    requires = (needs.TrainedDrafter("mtp"),)
    Params = MtpParams

    @classmethod
    def grid(cls, layers: int) -> Sequence[Mapping[str, str]]:
        chains = [{"width": "1", "depth": depth} for depth in ("1", "2", "3")]
        return [*chains, *({"nodes": nodes} for nodes in ("6", "12", "24"))]

    @classmethod
    def elsewhere(cls, params: EagleParams, draft_model: str) -> Mapping[str, str]:
        return {
            "transformers": "model.generate(**inputs, use_mtp=True)",
            "llama-server": f"--spec-type draft-mtp --spec-draft-n-max {params.depth}",
            "vLLM": speculative("mtp", num_speculative_tokens=params.depth),
            "SGLang": sglang("EAGLE", "", params.depth, params.width, params.nodes),
        }
