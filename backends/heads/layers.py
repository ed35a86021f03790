"""What the networks of trained drafters have in common: decoder layers made of their tensors, reduced vocabularies, and a
sentence where the memory does not suffice."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ...errors import UserError
from ..hf.lean.lean import Rotations
from ..hf.runner import out_of_memory
from ..transfer import on_device

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Parts:
    """What a drafter's network has beside its own tensors, most of which it packs and lets go."""

    config: Any
    """Its layers' configuration, as transformers reads it."""
    embeddings: Tensor
    """The table to look tokens up in [vocab, width]."""
    lm_head: Callable[[Tensor], Tensor]
    """LM head of the drafter, or the target's where the drafter has none."""
    ids: Tensor | None
    """The target's id of each token that it drafts; None where it drafts all."""
    vocabulary: int
    """The target's token ids."""

    def rotations(self) -> Rotations:
        """The angles of its layers' positions."""
        from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

        return Rotations(LlamaRotaryEmbedding(self.config).to(self.embeddings.device))

    def embedded(self, tokens: Sequence[int]) -> Tensor:
        """The tokens' embeddings [n, width]."""
        return F.embedding(on_device(tokens, self.embeddings.device), self.embeddings)

    def spread(self, logits: Tensor) -> Tensor:
        """Logits [n, drafted] over the target's vocabulary [n, vocab]."""
        return scattered(logits, self.ids, self.vocabulary)


class Modules:
    """transformers' modules around a drafter's tensors.

    Args:
        weights: the tensors, on one device and of one type.
        config: its layers' configuration, as transformers reads it.
    """

    def __init__(self, weights: Mapping[str, Tensor], config: Any) -> None:
        self._weights, self._config = weights, config

    def norm(self, name: str) -> Any:
        """The root-mean-square norm with this weight; None if the drafter has none."""
        from transformers.models.llama.modeling_llama import LlamaRMSNorm

        if name not in self._weights:
            return None
        module: Any = LlamaRMSNorm(len(self._weights[name]), self._config.rms_norm_eps)
        module.weight = nn.Parameter(self._weights[name], requires_grad=False)
        return module

    def linear(self, name: str) -> nn.Linear:
        """The linear layer of this name."""
        weight, bias = self._weights[f"{name}.weight"], self._weights.get(f"{name}.bias")
        module = nn.Linear(weight.shape[1], weight.shape[0], bias is not None, device="meta")
        module.weight = nn.Parameter(weight, requires_grad=False)
        if bias is not None:
            module.bias = nn.Parameter(bias, requires_grad=False)
        return module

    def layer(self, at: str, *, norm_first: bool = True) -> Any:
        """The decoder layer whose tensors begin with `at`, for `LeanLayer`; without `norm_first` attention reads its input
        as it is."""
        config = self._config
        attention = SimpleNamespace(
            **{f"{name}_proj": self.linear(f"{at}.self_attn.{name}_proj") for name in "qkvo"},
            **{f"{name}_norm": self.norm(f"{at}.self_attn.{name}_norm.weight") for name in "qk"},
            head_dim=config.head_dim,
            scaling=config.head_dim**-0.5,
        )
        mlp = SimpleNamespace(
            **{f"{name}_proj": self.linear(f"{at}.mlp.{name}_proj") for name in ("gate", "up", "down")},
            act_fn=_activation(config),
        )
        return SimpleNamespace(
            self_attn=attention,
            mlp=mlp,
            input_layernorm=self.norm(f"{at}.input_layernorm.weight") if norm_first else None,
            post_attention_layernorm=self.norm(f"{at}.post_attention_layernorm.weight"),
        )


def scattered(logits: Tensor, ids: Tensor | None, vocabulary: int) -> Tensor:
    """Logits over the target's vocabulary: those that are not drafted get none of the probability.

    Args:
        logits: [n, drafted].
        ids: the target's id of each [drafted]; None where they are the same.
        vocabulary: the target's token ids.
    """
    if ids is None:
        return logits
    every = torch.full((len(logits), vocabulary), -torch.inf, dtype=logits.dtype, device=logits.device)
    return every.index_copy_(1, ids, logits)


@contextmanager
def stored(names: Mapping[str, tuple[Path, str]]) -> Iterator[Callable[[str], Tensor]]:
    """What reads a tensor, of those whose files, and names there, are given."""
    from safetensors import safe_open

    with ExitStack() as stack:
        files: dict[Path, Any] = {}

        def read(name: str) -> Tensor:
            file, theirs = names[name]
            if file not in files:
                files[file] = stack.enter_context(safe_open(str(file), framework="pt", device="cpu"))
            tensor: Tensor = files[file].get_tensor(theirs)
            return tensor

        yield read


def guarded(run: Callable[[], T], device: torch.device) -> T:
    """A pass without gradients.

    Raises:
        UserError: the memory does not suffice.
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


def _activation(config: Any) -> Any:
    from transformers.activations import ACT2FN

    try:
        return ACT2FN[config.hidden_act]
    except KeyError:
        raise UserError(
            f"transformers does not know the drafter's activation {config.hidden_act!r}. Correct hidden_act in its config.json."
        ) from None
