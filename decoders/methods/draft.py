"""Speculative decoding with a draft model: a small model drafts a chain of K tokens, the target verifies it in one pass.

Leviathan, Kalman and Matias, "Fast Inference from Transformers via Speculative Decoding" (2023), arXiv:2211.17192; Chen et al.,
"Accelerating Large Language Model Decoding with Speculative Sampling" (2023), arXiv:2302.01318. Under the exact rule the draft
shares the target's noise: Daliri et al., "Coupling without Communication and Drafter-Invariant Speculative Decoding" (2024),
arXiv:2408.07978.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from ...option import option
from .. import needs
from ..base import Context, Verified
from ..parts.ahead import Ahead, OwnThread
from ..parts.cascade import SCHEDULES, ChainDrafter, Copies
from ..parts.elsewhere import llama_server, sglang, speculative
from ..parts.proposers import DraftModelProposer, require_same_tokens
from ..tree import Tree


@dataclass(frozen=True, slots=True)
class DraftParams:
    tokens: int = option(4, "constant: draft tokens K", low=0, high=64, length="schedule=constant")
    schedule: str = option("confidence", "Whether K is constant or ends where the draft is unsure", choices=SCHEDULES)
    most: int = option(16, "confidence: largest K", low=1, high=64, length=True)
    threshold: float = option(0.4, "confidence: stop after a token less probable than this", low=0, high=1)
    cascade: bool = option(
        True, "Prompt lookup drafts for the draft model, so that a copied passage takes it one pass, not one per token"
    )
    ahead: bool = option(True, "Draft on while the target verifies, if the draft model has a device or CPU threads of its own")


class Draft(ChainDrafter):
    """A chain of a draft model's own choices, of a length that a schedule decides.

    Example:
        text     The capital of France
        guess    is Paris, which: what the draft model would write
        verdict  is Paris ✓, which ✗ → .
    """

    name = "draft"
    group = "draft model"
    summary = "A small draft model guesses the next tokens; the model verifies them in one pass."
    pays = "On most text, if the draft model is several times faster than the model and often agrees with it."
    explains = (
        "A small model writes a few tokens ahead, one after the other; a passage copied from the text it checks all at once. "
        "The large model then checks all of them in a single pass, keeps them up to the first that it would not have chosen, "
        "and adds its own choice there."
    )
    paper = "Fast Inference from Transformers via Speculative Decoding, Leviathan 2023, arXiv:2211.17192"
    requires = (needs.DraftModel(),)
    Params = DraftParams
    params: DraftParams

    @classmethod
    def grid(cls, layers: int) -> Sequence[Mapping[str, str]]:
        return [{}, *({"schedule": "constant", "tokens": tokens} for tokens in ("2", "4", "8"))]

    @classmethod
    def elsewhere(cls, params: DraftParams, draft_model: str) -> Mapping[str, str]:
        tokens, constant = params.tokens or 4, params.schedule == "constant"
        call = f"num_assistant_tokens={params.most}, assistant_confidence_threshold={params.threshold}"
        llama = llama_server("draft-simple", draft_model, params.most) + f" --spec-draft-p-min {params.threshold:g}"
        if constant:
            call = f"num_assistant_tokens={tokens}, num_assistant_tokens_schedule='constant'"
            llama = llama_server("draft-simple", draft_model, tokens)
        return {
            "transformers": f"model.generate(**inputs, assistant_model=draft, {call})",
            "llama-server": llama,
            "vLLM": speculative("draft_model", model=draft_model, num_speculative_tokens=tokens),
            "SGLang": sglang("STANDALONE", draft_model, tokens),
        }

    def __init__(self, params: DraftParams | None = None) -> None:
        super().__init__(params)
        self._proposer: DraftModelProposer | None = None

    def draft(self, context: Context) -> Tree:
        self.prepare(context)
        proposer = self._proposer
        assert proposer is not None
        length = self._length(context)
        if length < 1:
            proposer.note = ""
            return Tree.root(context.pending)
        if not isinstance(proposer, Ahead):
            return self._chain(proposer, context)
        return proposer.draft(context, partial(self._chain, proposer, context), length + 1 if self.params.ahead else 0)

    def prepare(self, context: Context) -> None:
        """Open the draft model's session, once."""
        model, size = context.draft_models[0], context.session.context
        if self._proposer is not None and self._proposer.model is model:
            return
        self.close()
        require_same_tokens(context.model, model)
        self._proposer = Ahead(model, size) if isinstance(model, OwnThread) else DraftModelProposer(model, size)
        self._copies = Copies(model)

    def learn(self, verified: Verified) -> None:
        proposer = self._proposer
        if isinstance(proposer, Ahead):
            proposer.judge(verified)
        elif proposer is not None:
            proposer.settle([node for node in verified.path if node < proposer.evaluated])

    @property
    def note(self) -> str:
        return self._proposer.note if self._proposer is not None else ""

    def close(self) -> None:
        if self._proposer is not None:
            self._proposer.close()
        self._proposer = None
