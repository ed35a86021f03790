"""Gemma 4's assistants: a few layers with queries only, which attend to the target's own keys and values.

A step reads a token's embedding, by the target's table, beside a state of the target's width: first the target's own at the
last verified token, then what the step before gave out. It has no cache, and its nodes see the text, never each other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from ..base import Session
from ..hf.model import TransformersModel
from ..hf.session import TransformersSession
from ..transfer import on_device
from .formats import ORDERING, SLIDING, AssistantFormat
from .sessions import TextOnlySession

Shared = Mapping[str, tuple[Tensor, Tensor]]
"""The target's keys and values of a text for each type of layer [K/V heads, rows, width of a head]."""


class AssistantNetwork:
    """The forward pass over nodes, which do not attend to each other.

    Args:
        format: the assistant's format.
        weights: its tensors, on one device and of one type.
        name: as the user gave it.
        target: the loaded model that it is for.

    Raises:
        UserError: the target does not have the keys and values that it attends to.
    """

    def __init__(self, format: AssistantFormat, weights: Mapping[str, Tensor], name: str, target: TransformersModel) -> None:
        text = target.module.config.get_text_config(decoder=True)
        kinds = list(getattr(text, "layer_types", None) or [])
        kinds = kinds[: len(kinds) - (getattr(text, "num_kv_shared_layers", 0) or 0)]  # those with keys of their own
        if not str(text.model_type).startswith("gemma4") or not set(format.layers) <= set(kinds):
            raise format.misfit(name, target.info.name, "it is an assistant of Gemma 4")
        self.sources = {kind: len(kinds) - 1 - kinds[::-1].index(kind) for kind in dict.fromkeys(format.layers)}
        """The target's layer whose keys and values each type of layer reads."""
        self._format = format
        self._weights = weights
        self._table = target.module.get_input_embeddings().weight.detach()
        self.device = self._table.device
        self.dtype = target.module.dtype
        self.window = format.window
        self._head = weights.get("lm_head.weight", weights["embed_tokens.weight"])

    def __call__(self, tokens: Sequence[int], states: Tensor, shared: Shared, position: int) -> tuple[Tensor, Tensor]:
        """Run one pass; return logits [n, vocab] and next states [n, width of the target].

        Args:
            tokens: the nodes' ids [n].
            states: the state that each node reads [n, width of the target].
            shared: the target's keys and values of the text.
            position: shared by all nodes.
        """
        weights = self._weights
        embedded = F.embedding(on_device(tokens, self.device), self._table) * self._table.shape[1] ** 0.5
        x = F.linear(torch.cat((embedded, states), -1), weights["pre_projection.weight"])
        for i, kind in enumerate(self._format.layers):
            prefix = f"layers.{i}."
            y = self._norm(x, f"{prefix}input_layernorm")
            x = x + self._norm(self._attention(i, kind, y, shared[kind], position), f"{prefix}post_attention_layernorm")
            y = self._norm(x, f"{prefix}pre_feedforward_layernorm")
            gate, up = (F.linear(y, weights[f"{prefix}mlp.{part}_proj.weight"]) for part in ("gate", "up"))
            y = F.linear(F.gelu(gate, approximate="tanh") * up, weights[f"{prefix}mlp.down_proj.weight"])
            x = (x + self._norm(y, f"{prefix}post_feedforward_layernorm")) * weights[f"{prefix}layer_scalar"]
        x = self._norm(x, "norm")
        return self._logits(x), F.linear(x, weights["post_projection.weight"])

    def _norm(self, x: Tensor, name: str) -> Tensor:
        wide = x.float()
        normed = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + self._format.epsilon)
        return (normed * self._weights[f"{name}.weight"].float()).to(x.dtype)

    def _attention(self, i: int, kind: str, y: Tensor, shared: tuple[Tensor, Tensor], position: int) -> Tensor:
        """Compute a layer's attention over its normed input [n, width]. Scores are not scaled."""
        prefix, (keys, values) = f"layers.{i}.self_attn.", shared
        queries = F.linear(y, self._weights[f"{prefix}q_proj.weight"]).view(len(y), -1, keys.shape[-1])
        queries = self._turned(self._norm(queries, f"{prefix}q_norm"), kind, position)
        grouped = queries.view(len(y), len(keys), -1, keys.shape[-1]).transpose(0, 1).flatten(1, 2)  # [K/V heads, n × group, d]
        mixed = torch.softmax((grouped @ keys.transpose(1, 2)).float(), -1).to(values.dtype) @ values
        out = mixed.view(len(keys), len(y), -1, values.shape[-1]).transpose(0, 1).reshape(len(y), -1)
        return F.linear(out, self._weights[f"{prefix}o_proj.weight"])

    def _turned(self, x: Tensor, kind: str, position: int) -> Tensor:
        """Rotate queries [n, heads, width of a head] to their position."""
        angles = position * torch.tensor(self._format.frequencies[kind], device=self.device)
        cos, sin = (torch.cat((half, half)).to(x.dtype) for half in (angles.cos(), angles.sin()))
        first, second = x.chunk(2, -1)
        return x * cos + torch.cat((-second, first), -1) * sin

    def _logits(self, x: Tensor) -> Tensor:
        """Compute the logits: of all tokens, or in a clustered vocabulary of those in the best clusters."""
        if not self._format.clusters:
            return F.linear(x, self._head)
        best = F.linear(x, self._weights["masked_embedding.centroids.weight"]).topk(self._format.best).indices
        tokens = self._weights[ORDERING].view(self._format.clusters, -1)[best].flatten(1)
        out = torch.full((len(x), len(self._head)), -torch.inf, dtype=x.dtype, device=x.device)
        return out.scatter_(1, tokens, torch.einsum("nd,ntd->nt", x, self._head[tokens]))


class AssistantSession(TextOnlySession):
    """An assistant's session, which reads the keys and values of the target's session."""

    def __init__(self, network: AssistantNetwork, context: int) -> None:
        super().__init__(context, network.device)
        self._network = network
        self._target: TransformersSession | None = None

    def follow(self, target: Session) -> None:
        assert isinstance(target, TransformersSession)
        self._target = target

    def _step(self, tokens: Sequence[int], states: Tensor, length: int) -> tuple[Tensor, Tensor]:
        network = self._network
        return network(tokens, states.to(network.device, network.dtype), self._shared(length), length)

    def _shared(self, length: int) -> Shared:
        """Slice the target's keys and values of the text. In transformers a window includes its own row."""
        assert self._target is not None, "follow comes first"
        out = {}
        for kind, layer in self._network.sources.items():
            first = max(0, length - self._network.window - 1) if kind == SLIDING else 0
            keys, values = self._target.keys_values(layer)
            out[kind] = keys[:, first:length], values[:, first:length]
        return out
