"""EAGLE heads in every published layout against plain torch: chains over a text, and trees node by node."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from specchat.backends.base import ROOT
from specchat.backends.heads.base import HeadSession

from ...cases import FULL
from ...fakes.drafters.head_files import load_weights, write_head
from ...fakes.drafters.heads import LAYERS, load_eagle, states_of, target, target_folder
from ...fakes.models.references import network
from .plain_torch import PlainTorch

THIRD = (2, LAYERS // 2, LAYERS - 3)

LAYOUTS: dict[str, dict[str, Any]] = {
    "eagle1": {"style": "eagle1"},
    "eagle1 with a bias and two layers": {"style": "eagle1", "bias": True, "layers": 2},
    "eagle1 with its own embeddings": {"style": "eagle1", "own_embeddings": True, "dtype": torch.bfloat16},
    "eagle3": {"drafted": 100},
    "eagle3 with the target's LM head": {"own_head": False, "dtype": torch.bfloat16},
    "eagle3 with explicit taps": {"taps": (1, 3, 5), "norm_before_fc": True, "norm_output": True, "rope_theta": 500.0},
    "eagle3 of another width": {
        "hidden": 48, "own_embeddings": True, "target_hidden_size": 32, "fc_norm": True, "logit_scale": 0.5, "bias": True
    },
    "eagle3 with two taps": {"taps": (0, LAYERS), "drafted": 64, "norm_before_residual": True},
    "speculators": {"style": "speculators", "drafted": 100},
    "speculators with two layers": {
        "style": "speculators", "layers": 2, "norm_before_residual": False, "norm_before_fc": True, "dtype": torch.float16
    },
    "deepspec": {"style": "deepspec", "taps": (0, 1, 2, 3, 4), "own_embeddings": True},
}  # fmt: skip


class Reference(PlainTorch):
    """The forward pass as the formats describe it, in plain torch, over all pairs of a path at once."""

    def __init__(self, folder: Path) -> None:
        config = json.loads((folder / "config.json").read_text())
        weights = {name.replace("midlayer.", "layers.0."): tensor for name, tensor in load_weights(folder).items()}
        self.layer = config.get("transformer_layer_config", config)
        super().__init__(weights, 1e-5, self.layer.get("rope_theta", 10000.0), target().info.vocabulary)
        self.config = config
        self.third = "norm.weight" in self.w
        module = network(target_folder())
        self.embeddings = self.w.get("embed_tokens.weight", module.get_input_embeddings().weight)
        self.head = self.w.get("lm_head.weight", module.get_output_embeddings().weight)
        self.width = self.layer["hidden_size"] // self.layer["num_attention_heads"]
        ids = (config.get("eagle_config") or config).get("eagle_aux_hidden_state_layer_ids") or list(THIRD)
        if "target_layer_ids" in config:
            ids = [id + 1 for id in config["target_layer_ids"]]
        self.taps = ids if self.third else [LAYERS]

    def attention(self, x: Tensor, at: str) -> Tensor:
        q, k, v = (self.linear(x, f"{at}self_attn.{name}_proj").view(len(x), -1, self.width) for name in "qkv")
        if f"{at}self_attn.q_norm.weight" in self.w:
            q, k = self.norm(q, f"{at}self_attn.q_norm"), self.norm(k, f"{at}self_attn.k_norm")
        causal = torch.ones(len(x), len(x)).tril().bool()
        return self.linear(self.attend(self.turn(q), self.turn(k), v, causal), f"{at}self_attn.o_proj")

    def fused(self, states: Tensor) -> Tensor:
        if not self.third:
            return states
        if self.config.get("norm_before_fc"):
            states = self.norm(states, "input_norm")
        if self.config.get("fc_norm"):
            parts = states.chunk(len(self.taps), -1)
            states = torch.cat([self.norm(part, f"fc_norm.{i}") for i, part in enumerate(parts)], -1)
        return self.linear(states, "fc")

    def run(self, tokens: Tensor, features: Tensor) -> tuple[Tensor, Tensor]:
        """Logits over the target's vocabulary, and what is fed back."""
        e, g = F.embedding(tokens, self.embeddings), features
        if self.third:
            n = self.norm(g, "layers.0.hidden_norm")
            r = n if self.config.get("norm_before_residual") else g
            x = r + self.attention(torch.cat((self.norm(e, "layers.0.input_layernorm"), n), -1), "layers.0.")
        else:
            x = self.linear(torch.cat((e, g), -1), "fc")
            x = x + self.attention(x, "layers.0.")
        x = x + self.mlp(self.norm(x, "layers.0.post_attention_layernorm"), "layers.0.")
        for i in range(1, self.layer["num_hidden_layers"]):
            at = f"layers.{i}."
            x = x + self.attention(self.norm(x, f"{at}input_layernorm"), at)
            x = x + self.mlp(self.norm(x, f"{at}post_attention_layernorm"), at)
        out = self.norm(x, "norm") if self.third else x
        logits = F.linear(out, self.head) * self.config.get("logit_scale", 1.0)
        return self.widened(logits), out if self.config.get("norm_output") else x

    def after(self, text: Sequence[int], states: Tensor, path: Sequence[int]) -> Tensor:
        """Logits after a text with these states and each token of a path below it [1 + path, vocab]."""
        tokens, features, out = torch.tensor(text[1:]), self.fused(states), []
        for token in [*path, None]:
            logits, outputs = self.run(tokens, features)
            out.append(logits[-1])
            if token is not None:
                tokens, features = torch.cat((tokens, torch.tensor([token]))), torch.cat((features, outputs[-1:]))
        return torch.stack(out)


def chain(session: HeadSession, text: Sequence[int], states: Tensor, length: int) -> list[int]:
    """The head's own chain behind a text of which it knows a part."""
    known = session.length
    scores, out = session.extend(text[known + 1 :], states[known:]), list[int]()
    for i in range(length):
        out.append(scores.top(1)[0][0][0])
        if i + 1 < length:
            scores = session.grow(out[-1:], [i - 1 if i else ROOT])
    return out


@pytest.fixture(scope="module", params=list(LAYOUTS))
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_head(tmp_path_factory.mktemp("head"), **LAYOUTS[request.param])


def test_chains_over_a_text_are_those_of_plain_torch(folder: Path) -> None:
    head, plain = load_eagle(folder), Reference(folder)
    assert list(head.info.taps) == list(plain.taps)
    rng = random.Random(4)
    text = [rng.randrange(256) for _ in range(60 if FULL else 30)]
    states = states_of(text[:-1], plain.taps)
    session = head.open(256)
    lengths = [2, 3, 5, 6, 7, 11, *range(12, len(text) + 1, 1 if FULL else 6)]
    for length in lengths:  # pieces of 1, 2, 4 … pairs, each behind the nodes of the chain before
        drafted = chain(session, text[:length], states[: length - 1], 5)
        with torch.no_grad():
            wanted = plain.after(text[:length], states[: length - 1], drafted[:-1]).argmax(-1).tolist()
        assert drafted == wanted
        assert session.length == length - 1


def test_nodes_of_a_tree_equal_their_paths(folder: Path) -> None:
    head, plain = load_eagle(folder), Reference(folder)
    rng = random.Random(7)
    text = [rng.randrange(256) for _ in range(24)]
    states = states_of(text[:-1], plain.taps)
    session = head.open(64)
    session.extend(text[1:10], states[:9])
    session.grow([5, 6], [ROOT, ROOT])  # which leave nothing behind
    session.rewind(7)
    session.extend(text[8:], states[7:])
    paths: list[list[int]] = []
    rows: list[Tensor] = []
    for parents in ([ROOT, ROOT, ROOT], [0, 0, 2], [5, 1, 3, 3], [9]):
        tokens = [rng.randrange(256) for _ in parents]
        scores: Any = session.grow(tokens, parents)
        rows += list(scores.logits)
        for token, parent, position in zip(tokens, parents, scores.positions, strict=True):
            paths.append([*(paths[parent] if parent != ROOT else []), token])
            assert position == len(text) + len(paths[-1])
    with torch.no_grad():
        for row, path in zip(rows, paths, strict=True):
            wanted = plain.after(text, states, path)[-1]
            torch.testing.assert_close(row, wanted, rtol=1e-3, atol=1e-3)


def test_a_long_text_comes_in_by_chunks(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    head = load_eagle(folder)
    text = [3 + i % 200 for i in range(120)]
    states = states_of(text[:-1], head.info.taps)
    whole: Any = head.open(256).extend(text[1:], states)
    monkeypatch.setattr("specchat.backends.heads.slots.PREFILL_CHUNK", 32)
    parts: Any = head.open(256).extend(text[1:], states)
    torch.testing.assert_close(parts.logits, whole.logits, rtol=1e-3, atol=1e-3)
    assert parts.positions == whole.positions == (120,)
