"""What transformers itself makes of a text: the truth that sessions are compared with."""

from __future__ import annotations

import functools
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch


@functools.cache
def _room() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="specchat-tiny-")


def room(name: str = "") -> Path:
    """A folder for tiny models that lasts as long as the process."""
    folder = Path(_room().name) / name
    folder.mkdir(exist_ok=True)
    return folder


@functools.cache
def network(folder: Path) -> Any:
    """The weights in a folder as transformers loads them, in float32, with its own attention."""
    from transformers import AutoModelForCausalLM

    auto: Any = AutoModelForCausalLM
    return auto.from_pretrained(folder, dtype=torch.float32).eval()


@torch.inference_mode()
def logits_of(network: Any, ids: Sequence[int]) -> torch.Tensor:
    """Logits [len(ids), vocab] of a fresh plain pass over a text."""
    return network(input_ids=torch.tensor([list(ids)]), use_cache=False).logits[0]  # type: ignore[no-any-return]


@torch.no_grad()
def hidden(network: Any, ids: Sequence[int], taps: Sequence[int]) -> torch.Tensor:
    """The hidden states of a text as transformers counts them [len(ids), taps × width]."""
    found = network(input_ids=torch.tensor([list(ids)]), use_cache=False, output_hidden_states=True).hidden_states
    return torch.cat([found[tap][0] for tap in taps], -1)


def generated(network: Any, prompt: Sequence[int], count: int, **options: Any) -> list[int]:
    """The greedy answer of `generate`, of at most so many tokens."""
    ids = torch.tensor([list(prompt)])
    asked = {"do_sample": False, "max_new_tokens": count, "pad_token_id": 0, **options}
    out = network.generate(ids, attention_mask=torch.ones_like(ids), **asked)
    return out[0, len(prompt) :].tolist()  # type: ignore[no-any-return]
