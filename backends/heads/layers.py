"""Parts shared by the networks of trained drafters: decoder layers around their tensors, reduced vocabularies, and the error
for too little memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ...errors import UserError
from ..hf.lean.lean import Rotations, norm
from ..proof import out_of_memory
from ..transfer import on_device

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class DrafterParts:
    """The parts of a drafter's network that may come from its target."""

    config: Any
    """The configuration of the drafter's layers, as transformers reads it."""
    embeddings: Tensor
    """The table [vocab, width]."""
    lm_head: Callable[[Tensor], Tensor]
    """LM head of the drafter, or the target's if the drafter has none."""
    ids: Tensor | None
    """The target's id of each drafted token; None if it drafts all."""
    vocabulary: int
    """Size of the target's vocabulary."""

    def rotations(self) -> Rotations:
        """Create the rotary embeddings of the drafter's layers."""
        from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

        return Rotations(LlamaRotaryEmbedding(self.config).to(self.embeddings.device))

    def embedded(self, tokens: Sequence[int]) -> Tensor:
        """Look up the tokens' embeddings [n, width]."""
        return F.embedding(on_device(tokens, self.embeddings.device), self.embeddings)

    def spread(self, logits: Tensor) -> Tensor:
        """Spread logits [n, drafted] over the target's vocabulary [n, vocab]."""
        return scattered(logits, self.ids, self.vocabulary)


class Modules:
    """transformers' modules around a drafter's tensors.

    Args:
        weights: the tensors, on one device and of one type.
        config: its layers' configuration, as transformers reads it.
    """

    def __init__(self, weights: Mapping[str, Tensor], config: Any) -> None:
        self._weights = weights
        self._config = config

    def norm(self, name: str) -> Any:
        """Create the root-mean-square norm with this weight, to call; None if the drafter has no such tensor."""
        return norm(self._norm_module(name))

    def layer(self, at: str, *, norm_first: bool = True) -> Any:
        """Create the decoder layer whose tensors begin with `at`, for `LeanLayer`; without `norm_first` attention reads its
        input as it is."""
        from transformers.activations import ACT2FN

        config = self._config
        attention = SimpleNamespace(
            **{f"{name}_proj": self._linear(f"{at}.self_attn.{name}_proj") for name in "qkvo"},
            **{f"{name}_norm": self._norm_module(f"{at}.self_attn.{name}_norm.weight") for name in "qk"},
            head_dim=config.head_dim,
            scaling=config.head_dim**-0.5,
        )
        mlp = SimpleNamespace(
            **{f"{name}_proj": self._linear(f"{at}.mlp.{name}_proj") for name in ("gate", "up", "down")},
            act_fn=ACT2FN[config.hidden_act],
        )
        return SimpleNamespace(
            self_attn=attention,
            mlp=mlp,
            input_layernorm=self._norm_module(f"{at}.input_layernorm.weight") if norm_first else None,
            post_attention_layernorm=self._norm_module(f"{at}.post_attention_layernorm.weight"),
        )

    def _norm_module(self, name: str) -> Any:
        from transformers.models.llama.modeling_llama import LlamaRMSNorm

        if name not in self._weights:
            return None
        module: Any = LlamaRMSNorm(len(self._weights[name]), self._config.rms_norm_eps)
        module.weight = nn.Parameter(self._weights[name], requires_grad=False)
        return module

    def _linear(self, name: str) -> nn.Linear:
        weight, bias = self._weights[f"{name}.weight"], self._weights.get(f"{name}.bias")
        module = nn.Linear(weight.shape[1], weight.shape[0], bias is not None, device="meta")
        module.weight = nn.Parameter(weight, requires_grad=False)
        if bias is not None:
            module.bias = nn.Parameter(bias, requires_grad=False)
        return module


def scattered(logits: Tensor, ids: Tensor | None, vocabulary: int) -> Tensor:
    """Spread logits over the target's vocabulary; tokens that are not drafted get minus infinity.

    Args:
        logits: [n, drafted].
        ids: the target's id of each [drafted]; None if they are the same.
        vocabulary: size of the target's vocabulary.
    """
    if ids is None:
        return logits
    every = torch.full((len(logits), vocabulary), -torch.inf, dtype=logits.dtype, device=logits.device)
    return every.index_copy_(1, ids, logits)


def read_tensor(file: Path, name: str) -> Tensor:
    """Read a tensor from a safetensors file."""
    from safetensors import safe_open

    with safe_open(str(file), framework="pt", device="cpu") as tensors:
        tensor: Tensor = tensors.get_tensor(name)
        return tensor


def guarded(run: Callable[[], T], device: torch.device) -> T:
    """Run a pass without gradients.

    Raises:
        UserError: there is not enough memory.
    """
    with torch.inference_mode():
        try:
            return run()
        except Exception as error:
            if not out_of_memory(error):
                raise
            raise UserError(
                f"There is not enough memory on {device} for the drafter. Use a smaller context or another method."
            ) from None
