"""The architecture: Llama, deep rather than wide, and its training loss."""

from collections.abc import Iterable, Sequence
from functools import partial
from typing import NamedTuple

import torch
from torch import nn
from transformers import AttentionInterface, LlamaConfig, LlamaForCausalLM

from .data import IGNORED
from .tokenizer import BOS, CONTEXT, END, PAD, VOCABULARY

EXIT_WEIGHT = 0.3
"""Weight of the early exits' mean loss relative to the full model's: the first layers learn to predict through the same
norm and head."""


class Size(NamedTuple):
    """The numbers that define a model."""

    layers: int
    width: int
    heads: int
    inner: int
    exits: tuple[int, ...] = ()  # after how many layers the model learns to speak as well


SIZES = {
    "target": Size(layers=8, width=256, heads=4, inner=672, exits=(2, 4)),
    "draft": Size(layers=2, width=256, heads=4, inner=288),  # as wide as the target, whose weights it starts from
    "tiny": Size(layers=2, width=32, heads=2, inner=64, exits=(1,)),  # for tests
}


def config(size: Size) -> LlamaConfig:
    """The transformers configuration."""
    return LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=size.width,
        intermediate_size=size.inner,
        num_hidden_layers=size.layers,
        num_attention_heads=size.heads,
        num_key_value_heads=size.heads,
        max_position_embeddings=CONTEXT,
        tie_word_embeddings=True,
        bos_token_id=BOS,
        eos_token_id=END,
        pad_token_id=PAD,
        # Weights are stored in 16 bits and computed in 32: float16 is slow on most CPUs.
        dtype="float32",
    )


def build(size: Size, seed: int, device: torch.device | None = None) -> LlamaForCausalLM:
    """A model with fresh weights."""
    torch.manual_seed(seed)
    model = LlamaForCausalLM(config(size))
    if device is not None:
        nn.Module.to(model, device)  # in place; the typed `to` of transformers takes no device
    return model


@torch.no_grad()
def inherit(model: LlamaForCausalLM, teacher: LlamaForCausalLM, layers: Sequence[int]) -> None:
    """Start a shallow model from some layers of a deeper one of the same width.

    Training from there is much shorter than from noise: the embedding and the heads that copying needs are in place. Of a
    wider feed-forward network the neurons with the largest weights are kept.

    Args:
        model: changed in place.
        teacher: where the weights come from.
        layers: the teacher's layer for each layer of `model`.
    """
    model.model.embed_tokens.weight.copy_(teacher.model.embed_tokens.weight)
    model.model.norm.weight.copy_(teacher.model.norm.weight)
    for mine, number in zip(model.model.layers, layers, strict=True):
        theirs = teacher.model.layers[number]
        state = theirs.state_dict()
        gate, up, down = (f"mlp.{name}_proj.weight" for name in ("gate", "up", "down"))
        size = state[gate].norm(dim=1) * state[up].norm(dim=1) * state[down].norm(dim=0)
        units = size.topk(model.config.intermediate_size).indices.sort().values
        mine.load_state_dict(state | {gate: state[gate][units], up: state[up][units], down: state[down][:, units]})


def _causal_attention(
    module: nn.Module, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, *_: object, scaling: float, **__: object
) -> tuple[torch.Tensor, None]:
    """Plain causal attention over [chats, heads, length, head width], for training on a CPU.

    Two batched products in bfloat16 take a third of the time of the fused kernel's backward pass at 128 tokens (10 to
    39 ms for 3,072 tokens) and no more than it at 1,000, where a chat is longest.
    """
    chats, heads, length, width = query.shape
    bias = torch.full((length, length), torch.finfo(query.dtype).min, dtype=query.dtype).triu(1)
    flat = (chats * heads, length, width)
    scores = torch.baddbmm(
        bias.expand(chats * heads, length, length),
        query.reshape(flat),
        key.reshape(flat).transpose(1, 2),
        alpha=scaling,
    )
    mixed = torch.bmm(scores.softmax(-1), value.reshape(flat)).view(chats, heads, length, width)
    return mixed.transpose(1, 2), None


AttentionInterface.register("specchat_training", _causal_attention)


class TrainingLoss(nn.Module):
    """Cross entropy on what the assistant says, at the last layer and after the first layers of each early exit.

    Args:
        model: the one to train.
        exits: numbers of layers.
    """

    def __init__(self, model: LlamaForCausalLM, exits: Sequence[int] = ()) -> None:
        super().__init__()
        self.model = model
        self.exits = tuple(exits)
        self._states: dict[int, torch.Tensor] = {}
        self._loss = token_losses
        if next(model.parameters()).device.type == "cpu":
            model.set_attn_implementation("specchat_training")
        for layers in self.exits:
            model.model.layers[layers - 1].register_forward_hook(partial(self._keep, layers))

    def _keep(self, layers: int, module: nn.Module, inputs: object, output: torch.Tensor | tuple[torch.Tensor, ...]) -> None:
        self._states[layers] = output if isinstance(output, torch.Tensor) else output[0]

    def forward(self, tokens: torch.Tensor, labels: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Losses per produced token.

        Args:
            tokens: [chats, length]; padding stands at the end, where a causal mask hides it from every real token.
            labels: [chats, length], the token that should follow, or IGNORED.

        Returns:
            loss of the full model, mean loss of the early exits (of produced tokens; without an exit both the same).
        """
        last = self.model.model(input_ids=tokens, use_cache=False).last_hidden_state
        # The head runs only where there is a label: prompts are most of a copy task.
        rows = (labels != IGNORED).flatten().nonzero().squeeze(1)
        expected = labels.flatten()[rows]

        def spoken(states: torch.Tensor) -> torch.Tensor:
            return states.flatten(0, 1).index_select(0, rows)

        states = [spoken(last), *(self.model.model.norm(spoken(self._states.pop(layers))) for layers in self.exits)]
        losses = self._loss(torch.cat(states), self.model.lm_head.weight, expected.repeat(len(states)))
        full, early = losses[: len(expected)].mean(), losses[len(expected) :]
        return full, early.mean() if self.exits else full.detach()

    def compile_passes(self) -> None:
        """Let torch compile layers and loss: it takes half a minute and a C++ compiler, and brings 1.7 times the tokens a CPU
        second."""
        compile_all(self.model.model.layers)
        self._loss = torch.compile(self._loss, dynamic=True)


def compile_all(modules: Iterable[nn.Module]) -> None:
    """Let torch compile modules, each kind once, for inputs of any length; of layers, only where there is no cache."""
    for module in modules:
        attention = getattr(module, "self_attn", None)
        if attention is not None:
            attention.layer_idx = 0  # the cache's; with different numbers each layer would be compiled by itself
        module.forward = torch.compile(module.forward, dynamic=True)


def token_losses(states: torch.Tensor, head: torch.Tensor, expected: torch.Tensor) -> torch.Tensor:
    """Compute the cross entropy of each row [rows] of states [rows, width] under an LM head [vocabulary, width]."""
    return nn.functional.cross_entropy(nn.functional.linear(states, head).float(), expected, reduction="none")
