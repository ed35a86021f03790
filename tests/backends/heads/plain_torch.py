"""Published drafters in plain torch, a whole text at once: what ours are compared with."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from heapq import heappop, heappush
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from safetensors.torch import load_file
from torch import Tensor

from specchat.backends.files.checkpoint import check_folder, shown

from ...fakes.drafters.dflash_files import GROUP, KERNEL
from ...fakes.drafters.head_files import load_weights
from ...fakes.drafters.heads import LAYERS, states_of, target, target_folder
from ...fakes.drafters.mtp_files import HYBRIDS, Family, _config, mtp_folder, published
from ...fakes.drafters.mtp_files import LAYERS as MTP_LAYERS
from ...fakes.models.tiny import VOCAB, network

EOS = 1
THIRD = (2, LAYERS // 2, LAYERS - 3)
"""The usual taps of EAGLE-3."""


class PlainTorch:
    """A drafter's weights, and what its layers do with them."""

    def __init__(self, weights: Mapping[str, Tensor], epsilon: float, base: float, vocabulary: int) -> None:
        self.w = {name: tensor.float() if tensor.is_floating_point() else tensor for name, tensor in weights.items()}
        self.epsilon = epsilon
        self.base = base
        self.vocabulary = vocabulary

    def norm(self, x: Tensor, name: str) -> Tensor:
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.epsilon) * self.w[f"{name}.weight"]

    def linear(self, x: Tensor, name: str) -> Tensor:
        return F.linear(x, self.w[f"{name}.weight"], self.w.get(f"{name}.bias"))

    def turn(self, x: Tensor, first: int = 0) -> Tensor:
        """Rotary positions from `first` on of x [n, heads, width]."""
        half = x.shape[-1] // 2
        angles = torch.arange(first, first + len(x))[:, None] * self.base ** (-torch.arange(half) / half)
        cos, sin = (torch.cat((f(angles), f(angles)), -1)[:, None] for f in (torch.cos, torch.sin))
        return x * cos + torch.cat((-x[..., half:], x[..., :half]), -1) * sin

    def attend(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
        """Attend from rows [n, heads, width] to the keys that they see [n, keys]; key heads may be fewer."""
        k, v = (t.repeat_interleave(q.shape[1] // t.shape[1], 1) for t in (k, v))
        scores = torch.einsum("ihd,jhd->hij", q, k) / q.shape[-1] ** 0.5
        weights = scores.masked_fill(~mask, -torch.inf).softmax(-1)
        return torch.einsum("hij,jhd->ihd", weights, v).reshape(len(q), -1)

    def mlp(self, x: Tensor, at: str) -> Tensor:
        gate, up = self.linear(x, f"{at}mlp.gate_proj"), self.linear(x, f"{at}mlp.up_proj")
        return self.linear(F.silu(gate) * up, f"{at}mlp.down_proj")

    def widened(self, logits: Tensor) -> Tensor:
        """Logits [..., drafted] over the target's vocabulary."""
        if "d2t" not in self.w:
            return logits
        full = torch.full((*logits.shape[:-1], self.vocabulary), -torch.inf)
        full[..., torch.arange(len(self.w["d2t"])) + self.w["d2t"]] = logits
        return full


class EagleReference(PlainTorch):
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

    def states(self, text: Sequence[int]) -> Tensor:
        return states_of(text, self.taps)

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
        return self.widened(F.linear(out, self.head)), out if self.config.get("norm_output") else x

    def after(self, text: Sequence[int], states: Tensor, path: Sequence[int]) -> Tensor:
        """Logits after a text with these states and a path below it [vocab]."""
        tokens, features = torch.tensor(text[1:]), self.fused(states)
        for token in path:
            _, outputs = self.run(tokens, features)
            tokens, features = torch.cat((tokens, torch.tensor([token]))), torch.cat((features, outputs[-1:]))
        return self.run(tokens, features)[0][-1]


class BlockReference(PlainTorch):
    """The forward pass as the formats describe it, in plain torch, over the whole text and a block at once."""

    def __init__(self, folder: Path) -> None:
        self.config = json.loads((folder / "config.json").read_text())
        named = {"encoder.fc.weight": "fc.weight", "encoder.output_norm_enc.weight": "hidden_norm.weight"}
        self.library = "encoder.fc.weight" in load_weights(folder)
        super().__init__({named.get(name, name): t for name, t in load_weights(folder).items()}, 1e-6, 500.0, VOCAB)
        self.layer = self.config.get("transformer_layer_config", self.config)
        self.given = {**self.config, **self.config.get("dflash_config", {})}
        self.speculators = "speculators_model_type" in self.config
        self.block = self.config["block_size"]
        self.count = self.layer["num_hidden_layers"]
        self.first = int(not (self.given.get("sample_from_anchor") or "markov_rank" in self.config))
        module = network(target_folder())
        self.embeddings = self.w.get("embed_tokens.weight", module.get_input_embeddings().weight)
        self.head = self.w.get("lm_head.weight", module.get_output_embeddings().weight)

    @property
    def taps(self) -> list[int]:
        """Taps, counted as transformers counts hidden states."""
        if self.speculators:
            return self.config["aux_hidden_state_layer_ids"] or [2, LAYERS // 2, LAYERS - 3]
        ids = self.given.get("target_layer_ids")
        if ids is None:
            ids = [LAYERS // 2] if self.count == 1 else [1, LAYERS - 3]
        return [id + 1 for id in ids]

    def states(self, text: Sequence[int]) -> Tensor:
        return states_of(text, self.taps)

    def seen(self, i: int, rows: Tensor, keys: Tensor) -> Tensor:
        """Which keys a position of the block sees."""
        slides = (self.layer.get("layer_types") or ["full_attention"] * self.count)[i] == "sliding_attention"
        causal = slides and not self.library and not self.given.get("sliding_window_non_causal")
        causal = self.given.get("is_causal", self.given.get("causal", causal))
        away = rows[:, None] - keys[None]
        out = torch.ones_like(away, dtype=torch.bool)
        if slides or self.given.get("use_swa"):
            window = self.given.get("swa_window_size") or self.layer["sliding_window"]
            out &= away.abs() < window + self.library
        return out & (away >= 0) if causal else out

    def around(self, i: int, part: str, x: Tensor, run: Callable[[Tensor], Tensor]) -> Tensor:
        """A part of a layer, attention or MLP, on its normed input."""
        return run(x)

    def outputs(self, states: Tensor, token: int) -> Tensor:
        """The states that guess, after the last norm [positions, width]."""
        n = len(states)
        text = self.norm(self.linear(states, "fc"), "hidden_norm")
        block = torch.tensor([token] + [self.given["mask_token_id"]] * (self.block - 1))
        x = F.embedding(block, self.embeddings) * self.given.get("input_embedding_scale", 1.0)
        keys, rows = torch.arange(n + self.block), torch.arange(n, n + self.block)

        def attend(i: int, y: Tensor) -> Tensor:
            at = f"layers.{i}.self_attn."
            q = self.norm(self.linear(y, f"{at}q_proj").view(self.block, -1, 8), f"{at}q_norm")
            both = torch.cat((text, y))
            k = self.norm(self.linear(both, f"{at}k_proj").view(len(both), -1, 8), f"{at}k_norm")
            v = self.linear(both, f"{at}v_proj").view(len(both), -1, 8)
            return self.linear(self.attend(self.turn(q, n), self.turn(k), v, self.seen(i, rows, keys)), f"{at}o_proj")

        for i in range(self.count):
            y = self.norm(x, f"layers.{i}.input_layernorm")
            x = x + self.around(i, "attention", y, partial(attend, i))
            y = self.norm(x, f"layers.{i}.post_attention_layernorm")
            x = x + self.around(i, "mlp", y, partial(self.mlp, at=f"layers.{i}."))
        return self.norm(x, "norm")[self.first :]

    def scores(self, hidden: Tensor) -> Tensor:
        """Compute the LM head's logits of states [positions, drafted]."""
        logits: Tensor = F.linear(hidden, self.head) * self.given.get("output_multiplier", 1.0)
        if cap := self.given.get("final_logit_softcapping"):
            logits = torch.tanh(logits / cap) * cap
        return logits

    def logits(self, states: Tensor, token: int) -> Tensor:
        """Logits of all guesses, over the target's vocabulary [positions, vocab]."""
        return self.widened(self.scores(self.outputs(states, token)))


class PathReference(BlockReference):
    """The same, and what follows a path of drafted tokens."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.second = "candidate_selector.hidden_projection.weight" in self.w
        if not self.second:
            self.first = int(not self.given.get("sample_from_anchor", True))
        elif not self.speculators:
            self.given = {"sliding_window_non_causal": True, **self.given}

    def around(self, i: int, part: str, x: Tensor, run: Any) -> Tensor:
        if not self.second:
            return super().around(i, part, x, run)
        at = f"layers.{i}.{part}_conv"
        kernel = self.linear(x, f"{at}.kernel_projection").view(len(x), 2, KERNEL, -1)
        kernels = self.w[f"{at}.base_kernel"] + kernel.repeat_interleave(GROUP, -1)  # [rows, 2, taps, width]

        def convolve(y: Tensor, which: int) -> Tensor:
            padded = torch.cat((torch.zeros(KERNEL - 1, y.shape[1]), y))
            shifted = [kernels[:, which, j] * padded[KERNEL - 1 - j :][: len(y)] for j in range(KERNEL)]
            return torch.stack(shifted).sum(0)

        return convolve(run(convolve(x, 0)), 1)

    def follows(self, hidden: Tensor, path: Sequence[int]) -> Tensor:
        """Logits [vocab] of what follows a path of tokens, from the states that guess [positions, width]."""
        d, logits = len(path) - 1, self.scores(hidden)[len(path) - 1]
        if self.second:
            at, full = "candidate_selector.", torch.full((VOCAB,), -torch.inf)
            best, ids = logits.topk(self.given["selector_top_k"])
            before, after = (self.w[f"{at}{name}_codebook"] for name in ("predecessor", "successor"))
            full[ids] = best + after[ids] @ (before[path[-1]] * self.linear(hidden[d], f"{at}hidden_projection"))
            return full
        before, after = (self.w[f"markov_head.markov_{name}.weight"] for name in ("w1", "w2"))
        return self.widened(logits + after @ before[path[-1]])

    def after(self, text: Sequence[int], states: Tensor, path: Sequence[int]) -> Tensor:
        """Logits after a text with these states and a path below it [vocab]."""
        return self.follows(self.outputs(states, text[-1]), [text[-1], *path])

    def tree(self, states: Tensor, pending: int, nodes: int, depth: int, width: int) -> set[tuple[int, ...]]:
        """The most probable paths below a token, so many of them, the chain of first guesses among them."""
        hidden = self.outputs(states, pending)
        waiting: list[tuple[float, tuple[int, ...]]] = []

        def open_(path: tuple[int, ...], log: float) -> None:
            if len(path) < min(depth, len(hidden)) and path[-1:] != (EOS,):
                logs, ids = self.follows(hidden, [pending, *path]).log_softmax(-1).topk(width)
                for more, token in zip(logs.tolist(), ids.tolist(), strict=True):
                    if more > -torch.inf:
                        heappush(waiting, (-log - more, (*path, token)))

        first: tuple[int, ...] = ()
        while len(first) < min(depth, len(hidden)) and first[-1:] != (EOS,):
            first = (*first, int(self.follows(hidden, [pending, *first]).argmax()))
        paths = {first[: i + 1] for i in range(len(first))}
        open_((), 0.0)
        while waiting and len(paths) < nodes:
            log, path = heappop(waiting)
            paths.add(path)
            open_(path, -log)
        return paths


class MtpReference:
    """The format's forward pass, with transformers' own layers where they would stand in a deeper model."""

    def __init__(self, family: Family) -> None:
        from transformers import AutoModelForCausalLM

        self.taps = [MTP_LAYERS]
        self.family, folder = family, mtp_folder(family)
        self.w = load_file(folder / "model.safetensors")
        auto: Any = AutoModelForCausalLM
        with shown(folder, check_folder(folder)) as view:
            self.module = auto.from_pretrained(view, dtype=torch.float32).eval()
        self.module.config._name_or_path = str(folder)
        deeper = auto.from_config(_config(family), dtype=torch.float32).eval()
        self.layer = deeper.model.layers[MTP_LAYERS]
        for name, weight in self.layer.named_parameters():
            weight.data = self.tensor(name)
        self.rotary = deeper.model.rotary_emb
        self.epsilon = deeper.config.rms_norm_eps

    def tensor(self, name: str) -> Tensor:
        """A tensor of the MTP layer; experts as transformers stacks them."""
        if name.endswith((".experts.gate_up_proj", ".experts.down_proj")):
            first, _, last = name.rpartition(".")
            parts = ("gate_proj", "up_proj") if last == "gate_up_proj" else ("down_proj",)
            return torch.stack([torch.cat([self.tensor(f"{first}.{e}.{part}.weight") for part in parts]) for e in range(4)])
        return self.w[published(self.family, 0, name)]

    def norm(self, x: Tensor, name: str) -> Tensor:
        weight = self.tensor(f"{name}.weight") + (self.family in HYBRIDS)
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.epsilon) * weight

    @torch.no_grad()
    def states(self, text: Sequence[int]) -> Tensor:
        """The model's, after the final norm [n, width]."""
        last: Tensor = self.module.model(torch.tensor([list(text)])).last_hidden_state[0]
        return last

    def run(self, tokens: list[int], states: Tensor) -> Tensor:
        """Run the layer over pairs; the LM head reads the same states as the next step [n, width]."""
        embedded = self.norm(self.module.get_input_embeddings().weight[tokens], "enorm")
        parts = [embedded, self.norm(states, "hnorm")]
        joined = torch.cat(parts[::-1] if self.family == "mimo" else parts, -1)
        hidden = F.linear(joined, self.tensor("eh_proj.weight"))[None]
        n = len(tokens)
        mask = torch.zeros(n, n).masked_fill(torch.ones(n, n).triu(1).bool(), torch.finfo(torch.float32).min)[None, None]
        around = self.rotary(hidden, position_ids=torch.arange(1, n + 1)[None])
        out = self.layer(hidden, attention_mask=mask, position_embeddings=around)
        return self.norm((out[0] if isinstance(out, tuple) else out)[0], "shared_head.norm")

    def after(self, text: Sequence[int], states: Tensor, path: Sequence[int]) -> Tensor:
        tokens = [*text[1:], *path]
        while len(states) <= len(tokens):
            out = self.run(tokens[: len(states)], states)
            states = torch.cat((states, out[-1:]))
        return self.module.lm_head(out[-1])  # type: ignore[no-any-return]
