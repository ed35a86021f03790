"""A draft model as vLLM, SGLang and llama-server use it: a chain of its own choices.

As long as a chain is right it is the record, so the choices of the draft model after every token of the record, which one pass
gives, tell how much of any chain is accepted.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from weakref import WeakKeyDictionary

from ...backends.base import PREFILL_CHUNK, ROOT, Model
from ...errors import UserError
from ..base import param
from ..parts.elsewhere import draft_simple, speculative, standalone
from .base import ServerMethod

AMONG = 10
"""llama-server's draft model is as sure of a token as it is among so many best ones."""


@dataclass(slots=True)
class Choices:
    """What a draft model would choose in place of each token of a record."""

    record: list[int]
    right: list[bool]
    """[tokens] whether it is the record's; False for the first."""
    sure: list[float]
    """[tokens] its probability, among the AMONG best."""


_known: WeakKeyDictionary[Model, Choices] = WeakKeyDictionary()
"""Each draft model's choices for the record that it has read last: many settings are tried on one."""


def choices(model: Model, record: Sequence[int]) -> Choices:
    """What a draft model would choose after each token of a record.

    Raises:
        UserError: the record has tokens that it does not know, or does not fit.
    """
    found = _known.get(model)
    if found is not None and found.record == list(record):
        return found
    if max(record) >= model.info.vocabulary:
        raise UserError(
            f"The draft model {model.info.name} does not know every token of the records. Choose one of their family."
        )
    if len(record) > model.info.context:
        raise UserError(f"A record of {len(record):,} tokens does not fit in the context of the draft model.")
    found = Choices(list(record), [False], [0.0])
    session = model.open_session(len(record))
    try:
        for begin in range(0, len(record) - 1, PREFILL_CHUNK):
            tokens = record[begin : min(begin + PREFILL_CHUNK, len(record) - 1)]
            scores = session.evaluate(tokens, range(ROOT, len(tokens) - 1))
            for row, best in enumerate(scores.top(AMONG)):
                token, likely = best[0]
                found.right.append(token == record[begin + row + 1])
                found.sure.append(1 / sum(math.exp(other - likely) for _, other in best))
            session.commit(range(len(tokens)))
    finally:
        session.close()
    _known[model] = found
    return found


class DraftChain(ServerMethod):
    """A chain of a draft model's own choices."""

    needs_draft_model = True
    summary = "A small draft model writes a chain of tokens."

    def read(self, record: Sequence[int], prompt: int, draft: Model | None) -> None:
        if draft is None:
            raise UserError(f"{self.name} drafts with a model. Name it with --draft-model.")
        self._choices = choices(draft, record)

    def chain(self, known: int, most: int, threshold: float = 0.0) -> tuple[int, int]:
        """(tokens drafted, those that are right) of at most so many, each at least so sure. How sure the draft model is after a
        wrong token nobody knows: it is taken to be as sure as after the right one."""
        right, sure = self._choices.right, self._choices.sure
        drafted = next((i for i in range(most) if known + i < len(sure) and sure[known + i] < threshold), most)
        return drafted, next((i for i in range(drafted) if known + i >= len(right) or not right[known + i]), drafted)


@dataclass(frozen=True, slots=True)
class TokensParams:
    """The parameters of vLLM's speculative config."""

    num_speculative_tokens: int = param(4, "Draft tokens", low=1, high=64)


class VllmDraft(DraftChain):
    """vLLM's `draft_model`: as many tokens every time."""

    engine = "vLLM"
    name = "vllm/draft_model"
    Params = TokensParams
    params: TokensParams

    def guess(self, record: Sequence[int], known: int) -> tuple[int, int]:
        return self.chain(known, self.params.num_speculative_tokens)

    def flags(self, draft_model: str) -> str:
        return speculative("draft_model", model=draft_model, num_speculative_tokens=self.params.num_speculative_tokens)

    @classmethod
    def grid(cls) -> Sequence[Mapping[str, str]]:
        return [{"num_speculative_tokens": tokens} for tokens in ("1", "2", "3", "4", "5", "6", "8")]


@dataclass(frozen=True, slots=True)
class StandaloneParams:
    """The parameters of SGLang's flags."""

    num_steps: int = param(4, "Draft tokens", low=1, high=64)


class Standalone(DraftChain):
    """SGLang's `STANDALONE` without branches: as many tokens every time."""

    engine = "SGLang"
    name = "sglang/standalone"
    Params = StandaloneParams
    params: StandaloneParams

    def guess(self, record: Sequence[int], known: int) -> tuple[int, int]:
        return self.chain(known, self.params.num_steps)

    def flags(self, draft_model: str) -> str:
        return standalone(draft_model, self.params.num_steps)

    @classmethod
    def grid(cls) -> Sequence[Mapping[str, str]]:
        return [{"num_steps": tokens} for tokens in ("1", "2", "3", "4", "5", "6", "8")]


@dataclass(frozen=True, slots=True)
class DraftSimpleParams:
    """The parameters of llama-server's flags."""

    n_max: int = param(3, "Most draft tokens", low=1, high=64)
    p_min: float = param(0.0, "Least probability of a draft token: the draft ends before a less probable one", low=0, high=1)
    n_min: int = param(0, "Fewest draft tokens: with fewer, none", low=0, high=64)


class DraftSimple(DraftChain):
    """llama-server's `draft-simple`: a chain that ends before a token that the draft model is not sure of."""

    engine = "llama-server"
    name = "llama-server/draft-simple"
    Params = DraftSimpleParams
    params: DraftSimpleParams

    def guess(self, record: Sequence[int], known: int) -> tuple[int, int]:
        found = self.chain(known, self.params.n_max, self.params.p_min)
        return found if found[0] >= self.params.n_min else (0, 0)

    def flags(self, draft_model: str) -> str:
        return draft_simple(draft_model, self.params.n_max, self.params.p_min, self.params.n_min)

    @classmethod
    def grid(cls) -> Sequence[Mapping[str, str]]:
        return [{"n_max": most, "p_min": sure} for most in ("2", "3", "4", "6", "8") for sure in ("0", "0.5", "0.75")]
