"""Draft models whose tokenizer or context differs from the target's."""

from __future__ import annotations

import time
from collections.abc import Sequence
from difflib import SequenceMatcher

from ...backends.base import ROOT, Model
from ...backends.files.vocabulary import difference
from ...errors import UserError
from ..base import Context
from .proposers import shorter


def mismatch(target: Model | None, draft: Model) -> str:
    """Say why a draft model's token ids are not the target's (`difference` of their vocabularies); "" if they are."""
    if target is draft or target is None:
        return ""
    ours, theirs = target.pieces(), draft.pieces()
    i = difference(ours, theirs)
    if i is None:
        return ""
    return f"token {i} is {ours[i]!r} to {target.info.name} and {theirs[i]!r} to {draft.info.name}"


def require_same_tokens(target: Model | None, draft: Model, otherwise: str = "") -> None:
    """Check that a draft model has the target's tokenizer; `otherwise` names an alternative.

    Raises:
        UserError: it has not.
    """
    if reason := mismatch(target, draft):
        raise UserError(
            f"The draft model's tokenizer differs from the target's ({reason}). Choose a draft model of the same family"
            f"{otherwise}."
        )


class Reencoded:
    """A draft model with another tokenizer: the text is encoded again for it, and its guesses are encoded back.

    After the assisted generation across tokenizers of Timor et al., "Accelerating LLM Inference with Lossless Speculative
    Decoding Algorithms for Heterogeneous Vocabularies" (2025), arXiv:2502.05202. Only text crosses, so the guesses count as
    certain (q = 1), and what the two tokenizers cannot agree on is not drafted.
    """

    TAIL = 24
    """Tokens of the text that are encoded again together with the guesses: words merge across their border."""

    def __init__(self, target: Model, draft: Model, context: int) -> None:
        self.target = target
        self.draft = draft
        self.session = draft.open_session(min(context, draft.info.context))
        self.seconds: list[float] = []
        self.note = ""
        """The reason why it drafts nothing, if worth saying."""
        self._names = target.pieces()
        self._ids = {name: i for i, name in enumerate(draft.pieces())}
        self._silent: dict[int, bool] = {}
        self._start = draft.encode("")
        self._target_start = target.encode("")

    def line(self, context: Context, most: int) -> list[int]:
        """Draft up to `most` of the target's tokens."""
        started = time.perf_counter()
        session, draft = self.session, self.draft
        tokens = self._translated(context.tokens)
        full = len(tokens) + most + 1 > session.context
        self.note = shorter(draft, session.context) if full else ""
        if len(tokens) < 2 or full:
            return []
        session.commit(())
        session.align(tokens[:-1])
        session.prefill(tokens[session.length : -1])
        guesses: list[int] = []
        token, parent = tokens[-1], ROOT
        for _ in range(most):
            histories = [[*tokens, *guesses]] if context.sampling.uses_history else None
            token = session.evaluate([token], [parent]).candidates(1, context.sampling, histories)[0][0][0]
            if token in draft.info.eos_ids:
                break
            guesses.append(token)
            parent += 1
        passes = max(1, len(guesses))
        self.seconds = [(time.perf_counter() - started) / passes] * passes
        before, after = draft.decode(tokens[-self.TAIL :]), draft.decode([*tokens[-self.TAIL :], *guesses])
        if not after.startswith(before) or after == before:
            return []
        return self._translated_back(context.tokens, after[len(before) :])[:most]

    def _special(self, token: int) -> bool:
        """Return whether one of the target's tokens is a control token, which has no text."""
        if token not in self._silent:
            self._silent[token] = not self.target.decode([token])
        return self._silent[token]

    def _translated(self, tokens: Sequence[int]) -> list[int]:
        """Translate the text into the draft model's tokens; control tokens that it has by the same name stay, others go."""
        out: list[int] = []
        begin = 0
        for end in range(len(tokens) + 1):
            if end < len(tokens) and not self._special(tokens[end]):
                continue
            if begin < end:
                out += self._encoded(self.draft, self._start, self.target.decode(tokens[begin:end]))
            begin = end + 1
            name = self._names[tokens[end]] if end < len(tokens) and tokens[end] < len(self._names) else ""
            if name in self._ids:
                out.append(self._ids[name])
        start, ids = self._start, self.draft.info.readable
        out = [token for token in out if token < ids]  # a tokenizer may know more tokens than its model
        return out if out[: len(start)] == start else [*start, *out]

    def _encoded(self, model: Model, start: list[int], text: str) -> list[int]:
        ids = model.encode(text)
        return ids[len(start) :] if start and ids[: len(start)] == start else ids

    def _translated_back(self, tokens: Sequence[int], added: str) -> list[int]:
        """Encode added text in the target's tokens; none if its start would change the tokens before it."""
        tail: list[int] = []
        for token in reversed(tokens[-self.TAIL :]):
            if self._special(token):
                break
            tail.insert(0, token)
        encoded = self._encoded(self.target, self._target_start, self.target.decode(tail) + added)
        # The first tokens may be cut words: only the end has to match.
        block = SequenceMatcher(None, tail, encoded, autojunk=False).find_longest_match()
        return encoded[block.b + block.size :] if block.a + block.size == len(tail) else []

    def close(self) -> None:
        """Free the draft model's cache."""
        self.session.close()
