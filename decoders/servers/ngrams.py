"""Prompt lookup as vLLM and llama-server do it: which match they take, and when they draft nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ...backends.base import Model
from ..base import param
from ..parts.elsewhere import speculative
from .base import TextMethod

Key = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class VllmNgramParams:
    """The parameters of vLLM's speculative config."""

    num_speculative_tokens: int = param(10, "Most draft tokens", low=1, high=256)
    prompt_lookup_max: int = param(5, "Longest n-gram to look up, in tokens", low=1, high=64)
    prompt_lookup_min: int = param(2, "Shortest n-gram to look up, in tokens", low=1, high=64)


class VllmNgram(TextMethod):
    """vLLM's `ngram`: the longest end of the text that came before, and what followed it where it came first."""

    engine = "vLLM"
    name = "vllm/ngram"
    summary = "Prompt lookup: copies what followed the longest match, where it came first."
    Params = VllmNgramParams
    params: VllmNgramParams

    def read(self, record: Sequence[int], prompt: int, draft: Model | None) -> None:
        self._first: list[dict[Key, int]] = [{} for _ in range(self.params.prompt_lookup_max + 1)]
        """For each length of n-gram, where each one ended first."""
        self._ends = 0
        """N-grams that end before this place are in there."""

    def draft(self, tokens: Sequence[int], known: int) -> Sequence[int]:
        params = self.params
        lengths = range(params.prompt_lookup_min, params.prompt_lookup_max + 1)
        for end in range(self._ends + 1, known):  # not the end of the text itself
            for length in lengths:
                if length <= end:
                    self._first[length].setdefault(tuple(tokens[end - length : end]), end)
        self._ends = max(self._ends, known - 1)
        for length in reversed(lengths):
            found = self._first[length].get(tuple(tokens[known - length : known])) if length < known else None
            if found is not None:
                return tokens[found : min(found + params.num_speculative_tokens, known)]
        return ()

    def flags(self, draft_model: str) -> str:
        return speculative(
            "ngram",
            num_speculative_tokens=self.params.num_speculative_tokens,
            prompt_lookup_max=max(self.params.prompt_lookup_max, self.params.prompt_lookup_min),
            prompt_lookup_min=self.params.prompt_lookup_min,
        )

    @classmethod
    def grid(cls) -> Sequence[Mapping[str, str]]:
        return [
            {"num_speculative_tokens": tokens, "prompt_lookup_max": longest, "prompt_lookup_min": shortest}
            for tokens in ("3", "5", "10", "20")
            for longest, shortest in (("3", "1"), ("3", "2"), ("5", "2"), ("4", "4"))
        ]


@dataclass(frozen=True, slots=True)
class NgramSimpleParams:
    """The parameters of llama-server's flags."""

    size_n: int = param(12, "Length of the n-gram to look up, in tokens", low=1, high=1024)
    size_m: int = param(48, "Most draft tokens", low=1, high=1024)


class NgramSimple(TextMethod):
    """llama-server's `ngram-simple`: what followed the last match of the text's end, if that is not too short."""

    engine = "llama-server"
    name = "llama-server/ngram-simple"
    summary = "Prompt lookup: copies what followed the last match of n tokens."
    Params = NgramSimpleParams
    params: NgramSimpleParams

    def read(self, record: Sequence[int], prompt: int, draft: Model | None) -> None:
        self._last: dict[Key, int] = {}
        """Where each n-gram began last."""
        self._begins = 1
        """N-grams that begin before this place are in there; what begins the text is never found."""

    def draft(self, tokens: Sequence[int], known: int) -> Sequence[int]:
        n, most = self.params.size_n, self.params.size_m
        behind = known - 1  # the text without the pending token
        for begin in range(self._begins, behind - n):  # those that end at least two tokens before the end
            self._last[tuple(tokens[begin : begin + n])] = begin
        self._begins = max(self._begins, behind - n)
        if behind <= n + most + 1:
            return ()
        begin = self._last.get(tuple(tokens[known - n : known]), 0)
        line = tokens[begin + n : min(begin + n + most, behind)]
        return line if begin and len(line) >= n else ()

    def flags(self, draft_model: str) -> str:
        sizes = f"--spec-ngram-simple-size-n {self.params.size_n} --spec-ngram-simple-size-m {self.params.size_m}"
        return f"--spec-type ngram-simple {sizes}"

    @classmethod
    def grid(cls) -> Sequence[Mapping[str, str]]:
        return [{"size_n": n, "size_m": m} for n in ("2", "3", "4", "6", "12") for m in ("4", "8", "16", "48")]


@dataclass(frozen=True, slots=True)
class NgramModParams:
    """The parameters of llama-server's flags."""

    n_match: int = param(24, "Length of the n-gram to look up, in tokens", low=1, high=1024)
    n_min: int = param(48, "Fewest draft tokens: with fewer, none", low=0, high=1024)
    n_max: int = param(64, "Most draft tokens", low=1, high=1024)


LATE = 32
"""Tokens of an answer after which ngram-mod takes in what was written."""

LOW, STREAK = 0.25, 5
"""After how many drafts of which a smaller share was accepted, one after the other, and it forgets everything."""


class NgramMod(TextMethod):
    """llama-server's `ngram-mod`: the token that last followed an n-gram in any request, again and again."""

    engine = "llama-server"
    name = "llama-server/ngram-mod"
    summary = "A pool of n-grams of all requests: copies the token that last followed, again and again."
    Params = NgramModParams
    params: NgramModParams

    def __init__(self, params: NgramModParams | None = None) -> None:
        super().__init__(params)
        self._pool: dict[Key, int] = {}
        self._taken = 0
        """N-grams of this request that begin before this place are in the pool."""
        self._low = 0

    def read(self, record: Sequence[int], prompt: int, draft: Model | None) -> None:
        self._taken = 0
        if prompt >= self.params.n_match:
            self._take(record, prompt)

    def _take(self, tokens: Sequence[int], end: int) -> None:
        """Take in the n-grams whose next token is before `end`."""
        n = self.params.n_match
        for begin in range(self._taken, end - n):
            self._pool[tuple(tokens[begin : begin + n])] = tokens[begin + n]
        self._taken = end - n

    def draft(self, tokens: Sequence[int], known: int) -> Sequence[int]:
        n, least, most = self.params.n_match, self.params.n_min, self.params.n_max
        if known - 1 < n:
            return ()
        if self._taken + LATE < known - 1:
            self._take(tokens, known - 1)
        line = list(tokens[known - n : known])
        while len(line) < n + most and (token := self._pool.get(tuple(line[-n:]))) is not None:
            line.append(token)
        found = line[n:]
        return found if len(found) >= least else ()

    def verified(self, drafted: int, accepted: int) -> None:
        if not drafted:
            return
        self._low = self._low + 1 if accepted / drafted < LOW else 0
        if self._low >= STREAK:
            self._pool.clear()
            self._low = self._taken = 0

    def flags(self, draft_model: str) -> str:
        sizes = f"--spec-ngram-mod-n-match {self.params.n_match} --spec-ngram-mod-n-min {self.params.n_min}"
        return f"--spec-type ngram-mod {sizes} --spec-ngram-mod-n-max {self.params.n_max}"

    @classmethod
    def grid(cls) -> Sequence[Mapping[str, str]]:
        sizes = [{"n_match": n, "n_min": "1", "n_max": most} for n in ("3", "4", "6", "12") for most in ("4", "8", "16")]
        return [*sizes, {"n_match": "24", "n_min": "48", "n_max": "64"}]
