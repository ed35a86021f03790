"""An EAGLE-3 head in training: several steps on its own outputs (arXiv 2503.01840, training-time test).

Pair P of a text is token P + 1 with the target's states at P, and predicts token P + 2. At step 0 each pair sees the pairs
before it, as in decoding. At step j it stands for the j-th draft after true pairs up to P: its feature is its output of the
step before, and it sees the true pairs up to P and its earlier steps.

Names of modules are those of the published layout, so that the state dict is what the file holds.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import nn
from transformers import LlamaConfig
from transformers.models.llama.modeling_llama import LlamaMLP, LlamaRMSNorm, LlamaRotaryEmbedding, apply_rotary_pos_emb

from ..data import IGNORED


class Anchors(NamedTuple):
    """The positions of a batch after which the assistant produces a token: where a draft begins."""

    places: torch.Tensor  # [chats, most] int64; rising within a chat, anything where `valid` is False
    valid: torch.Tensor  # [chats, most] bool

    def at(self, step: int) -> torch.Tensor:
        """Mark the anchors with a token to draft at a step, whose answer is long enough [chats, most - step]."""
        last = self.places.shape[1] - step
        return self.valid[:, step:] & (self.places[:, step:] == self.places[:, :last] + step)


def anchors(labels: torch.Tensor) -> Anchors:
    """Find the anchors in labels [chats, length]."""
    produced = labels != IGNORED
    produced[:, 0] = False  # no pair comes before it
    counts = produced.sum(1)
    most = int(counts.max())
    places = produced.to(torch.int8).argsort(dim=1, descending=True, stable=True)[:, :most]
    return Anchors(places.clamp(min=1), torch.arange(most, device=labels.device) < counts[:, None])


def _rows(values: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
    """Gather values [chats, length, width] at places [chats, most]."""
    return values.gather(1, places[..., None].expand(-1, -1, values.shape[-1]))


class Attention(nn.Module):
    """Attention over [embedding, feature], twice the head's width."""

    def __init__(self, config: LlamaConfig) -> None:
        super().__init__()
        heads, keys, width = config.num_attention_heads, config.num_key_value_heads, config.head_dim
        assert keys is not None
        assert width is not None
        self.heads = heads
        self.width = width
        self.q_proj = nn.Linear(2 * config.hidden_size, heads * width, bias=False)
        self.k_proj = nn.Linear(2 * config.hidden_size, keys * width, bias=False)
        self.v_proj = nn.Linear(2 * config.hidden_size, keys * width, bias=False)
        self.o_proj = nn.Linear(heads * width, config.hidden_size, bias=False)

    def _split(self, flat: torch.Tensor) -> torch.Tensor:
        """Reshape [chats, n, heads · width] to [chats, heads, n, width]; heads that share keys and values get copies."""
        split = flat.view(*flat.shape[:2], -1, self.width).transpose(1, 2)
        return split.repeat_interleave(self.heads // split.shape[1], 1)

    def keys_values(self, x: torch.Tensor, turns: tuple[torch.Tensor, torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
        """Compute keys and values [chats, heads, n, width] of pairs [chats, n, 2 · hidden]."""
        keys = self._split(self.k_proj(x))
        return apply_rotary_pos_emb(keys, keys, *turns)[0], self._split(self.v_proj(x))

    def forward(
        self,
        x: torch.Tensor,
        turns: tuple[torch.Tensor, torch.Tensor],
        true: tuple[torch.Tensor, torch.Tensor],
        hidden: torch.Tensor,
        steps: Sequence[tuple[torch.Tensor, torch.Tensor]],
    ) -> torch.Tensor:
        """Mix values.

        Args:
            x: queries' pairs [chats, n, 2 · hidden].
            turns: cosines and sines of the queries' positions [chats, n, width].
            true: keys and values of the true pairs [chats, heads, length, width].
            hidden: True for true pairs that a query does not see [chats, 1, n, length].
            steps: keys and values of a query's own steps, its present one included, each [chats, heads, n, width].
        """
        query = self._split(self.q_proj(x))
        query = apply_rotary_pos_emb(query, query, *turns)[0] * self.width**-0.5
        length = true[0].shape[2]
        scores = (query @ true[0].transpose(2, 3)).masked_fill(hidden, torch.finfo(x.dtype).min)
        weights = torch.cat([scores, *((query * keys).sum(-1, keepdim=True) for keys, _ in steps)], -1).softmax(-1)
        mixed = weights[..., :length] @ true[1]
        for step, (_, values) in enumerate(steps):
            mixed = mixed + weights[..., length + step, None] * values
        out: torch.Tensor = self.o_proj(mixed.transpose(1, 2).flatten(2))
        return out


class Layer(nn.Module):
    """The decoder layer."""

    def __init__(self, config: LlamaConfig) -> None:
        super().__init__()
        self.input_layernorm = LlamaRMSNorm(config.hidden_size, config.rms_norm_eps)
        self.hidden_norm = LlamaRMSNorm(config.hidden_size, config.rms_norm_eps)
        self.self_attn = Attention(config)
        self.post_attention_layernorm = LlamaRMSNorm(config.hidden_size, config.rms_norm_eps)
        self.mlp = LlamaMLP(config)  # type: ignore[no-untyped-call]

    def pairs(self, embedded: torch.Tensor, features: torch.Tensor) -> torch.Tensor:
        """Concatenate embedding and feature, each normed, for attention [chats, n, 2 · hidden]."""
        return torch.cat([self.input_layernorm(embedded), self.hidden_norm(features)], -1)


class EagleHead(nn.Module):
    """The head.

    Args:
        config: of its layer; `vocab_size` is the target's.
        taps: number of the target's layers that it reads.
        draft_ids: the target's ids that it can draft, ascending [draft vocabulary].
        shared: the target's LM head if it drafts with that [vocabulary, hidden]; None for its own.
    """

    draft_ids: torch.Tensor

    def __init__(self, config: LlamaConfig, taps: int, draft_ids: torch.Tensor, shared: torch.Tensor | None = None) -> None:
        super().__init__()
        width = config.hidden_size
        self.config = config
        self.fc = nn.Linear(taps * width, width, bias=False)
        self.midlayer = Layer(config)
        self.norm = LlamaRMSNorm(width, config.rms_norm_eps)
        self.lm_head = nn.Linear(width, len(draft_ids), bias=False) if shared is None else None
        self.register_buffer("draft_ids", draft_ids)
        self._shared = shared
        self._rotary = LlamaRotaryEmbedding(config)
        self.apply(self._start)

    def _start(self, module: nn.Module) -> None:
        if isinstance(module, nn.Linear):
            nn.init.normal_(module.weight, std=self.config.initializer_range)

    def scores(self, features: torch.Tensor) -> torch.Tensor:
        """Compute logits over the draft vocabulary [..., draft vocabulary]."""
        normed = self.norm(features)
        if self._shared is not None:
            return nn.functional.linear(normed, self._shared)
        assert self.lm_head is not None
        out: torch.Tensor = self.lm_head(normed)
        return out

    def forward(
        self, states: torch.Tensor, embedded: torch.Tensor, places: Anchors, steps: int
    ) -> list[tuple[torch.Tensor, torch.Tensor]]:
        """Draft from every anchor, `steps` tokens in a row, each after the text's own tokens.

        Args:
            states: the target's, concatenated over the taps [chats, length, taps · hidden].
            embedded: the tokens [chats, length, hidden].
            places: from `anchors`.
            steps: how many.

        Returns:
            for each step j logits [rows, draft vocabulary] and where they belong [chats, most - j] bool: anchor a's are for
            the token after position `places[:, a] + j`.
        """
        positions = torch.arange(states.shape[1], device=states.device)
        truth = self.fc(states)
        # The last pair has no token; no anchor sees it.
        pairs = self.midlayer.pairs(embedded.roll(-1, 1), truth)
        true = self.midlayer.self_attn.keys_values(pairs, self._rotary(truth, positions[None]))
        first = places.places - 1
        hidden = (positions > first[..., None])[:, None]
        features, x = _rows(truth, first), _rows(pairs, first)
        following = _rows(embedded, places.places)
        own_steps: list[tuple[torch.Tensor, torch.Tensor]] = []
        drafts = []
        for step in range(min(steps, first.shape[1])):
            n = first.shape[1] - step
            turns = self._rotary(truth, first[:, :n] + step)
            if step:
                features = features[:, :n]
                x = self.midlayer.pairs(following[:, step:], features)
                own_steps = [(keys[:, :, :n], values[:, :, :n]) for keys, values in own_steps]
                own_steps.append(self.midlayer.self_attn.keys_values(x, turns))
            features = features + self.midlayer.self_attn(x, turns, true, hidden[:, :, :n], own_steps)
            features = features + self.midlayer.mlp(self.midlayer.post_attention_layernorm(features))
            rows = places.at(step)
            drafts.append((self.scores(features[rows]), rows))
        return drafts


class StepResults(NamedTuple):
    """The results of a batch's steps, as sums."""

    loss: torch.Tensor
    """The mean over the steps, with more weight on the first ones."""
    losses: list[float]
    hits: list[int]
    """Number of drafts that were the target's choice, at each step."""
    rows: list[int]
    chains: int
    """Number of drafts that were right, with all before them right."""
    anchors: int


def divergence(
    scores: torch.Tensor, chances: torch.Tensor, draftable: torch.Tensor, rows: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Sum the cross entropies of logits [n, draft vocabulary], and return the most probable draft of each [n].

    Args:
        scores: the head's.
        chances: the target's distributions at all anchors [anchors, draft vocabulary].
        draftable: True for anchors that count [anchors].
        rows: the anchor of each row of `scores` [n].
    """
    row_losses = (chances[rows] * scores.float().log_softmax(-1)).sum(-1)
    return -(row_losses * draftable[rows]).sum(), scores.argmax(-1)


Comparison = Callable[[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor], tuple[torch.Tensor, torch.Tensor]]


def unrolled_loss(
    head: nn.Module,
    states: torch.Tensor,
    embedded: torch.Tensor,
    logits: torch.Tensor,
    labels: torch.Tensor,
    draft_ids: torch.Tensor,
    steps: int,
    fading: float,
    compare: Comparison = divergence,
) -> StepResults:
    """Compute the cross entropy between the target's distribution and the head's, at each step.

    Args:
        head: an `EagleHead`.
        states: the target's, over the taps [chats, length, taps · hidden].
        embedded: the tokens [chats, length, hidden].
        logits: the target's [chats, length, vocabulary].
        labels: as in a `Batch`.
        draft_ids: as in `EagleHead`.
        steps: how many.
        fading: weight of a step relative to the one before.
        compare: `divergence`, compiled or not.
    """
    places = anchors(labels)
    drafts = head(states, embedded, places, steps)
    anchor_logits = logits[torch.arange(len(labels), device=labels.device)[:, None], places.places][places.valid].float()
    choices = anchor_logits.argmax(-1)
    chances = anchor_logits[:, draft_ids].softmax(-1)
    draftable = torch.isin(choices, draft_ids)  # the head cannot draft the others, and should not learn substitutes
    number = places.valid.flatten().cumsum(0).view_as(places.valid) - 1  # of an anchor among the rows of `said`
    loss = torch.zeros((), device=labels.device)
    losses, hits, counts, chains = [0.0] * steps, [0] * steps, [0] * steps, 0
    unbroken = places.valid
    for step, (scores, rows) in enumerate(drafts):
        anchor_rows = number[:, step:][rows]
        total, best = compare(scores, chances, draftable, anchor_rows)
        if len(anchor_rows):
            loss = loss + fading**step * total / len(anchor_rows)
        right = draft_ids[best] == choices[anchor_rows]
        losses[step], hits[step], counts[step] = total.item(), int(right.sum()), len(anchor_rows)
        grid = torch.zeros_like(rows)
        grid[rows] = right
        unbroken = unbroken[:, : grid.shape[1]] & grid
        chains += int(unbroken.sum())
    weight = sum(fading**step for step in range(len(drafts)))
    return StepResults(loss / weight, losses, hits, counts, chains, int(places.valid.sum()))
