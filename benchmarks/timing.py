"""Shared measurements: plain steps, ours and those of `generate`, and intervals of ratios."""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from typing import Any

import torch

from specchat.backends import ROOT, Model, Sampling

GREEDY = Sampling()


def ordinary(count: int, start: int = 0) -> list[int]:
    """Make tokens, which repeat after 2,000."""
    return [(97 * i) % 2000 + 8 for i in range(start, start + count)]


def ours(model: Model, prompt: Sequence[int], count: int) -> tuple[list[int], float]:
    """Decode with our loop of one-node steps; return tokens and seconds, without prefill."""
    session = model.open_session()
    session.prefill(prompt[:-1])
    out = [prompt[-1]]
    start = time.perf_counter()
    for _ in range(count):
        scores = session.evaluate(out[-1:], (ROOT,))
        out += scores.choose(GREEDY)
        session.commit((0,))
    return out[1:], time.perf_counter() - start


def theirs(module: Any, prompt: Sequence[int], count: int, **how: Any) -> tuple[list[int], float]:
    """Decode with `generate`, which takes the other arguments; return tokens and seconds after the first token."""
    from transformers.generation.streamers import BaseStreamer

    class TokenTimer(BaseStreamer):
        started = 0.0
        calls = 0

        def put(self, value: Any) -> None:
            # The prompt, then each token.
            self.calls += 1
            if self.calls == 2:
                self.started = time.perf_counter()

        def end(self) -> None:
            pass

    watch: Any = TokenTimer()
    ids = torch.tensor([list(prompt)], device=module.device)
    length = {**how, "max_new_tokens": count + 1, "min_new_tokens": count + 1, "eos_token_id": None, "pad_token_id": 0}
    out = module.generate(ids, attention_mask=torch.ones_like(ids), do_sample=False, streamer=watch, **length)
    return out[0, len(prompt) :].tolist(), time.perf_counter() - watch.started


def interval(values: Sequence[float]) -> str:
    """Format the median and its 95 % interval by order statistics."""
    values = sorted(values)
    n = len(values)
    reach = round(0.98 * n**0.5)
    return f"{statistics.median(values):.2f} ({values[max(0, n // 2 - reach)]:.2f} to {values[min(n - 1, n // 2 + reach)]:.2f})"
