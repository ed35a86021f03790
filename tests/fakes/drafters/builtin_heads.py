"""What else drafts for the built-in model: its EAGLE head in the other layout, and Medusa heads and a DFlash drafter that are
right now and then.

These have random layers, and LM heads whose rows are means over a few of the target's answers: from a seed and the answers,
every machine makes the same ones.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from torch import Tensor

from specchat.backends.hf.model import TransformersModel
from specchat.backends.loading import builtin_path
from specchat.builtin.recipe.training.layouts import STANDARD_TAPS, speculators

from .dflash_files import write_dflash
from .head_files import load_weights, write_medusa
from .heads import load_dflash

Answers = Sequence[tuple[Sequence[int], Sequence[int]]]
"""Prompts, and what follows."""

SCALE = 0.05
"""Scale of random weights, so that a layer adds about as much as it gets."""


def write(kind: str, folder: Path, target: TransformersModel, answers: Answers, positions: int) -> Path:
    """Write a drafter into a folder.

    Args:
        kind: eagle (the built-in head), speculators (the same in that layout), medusa or dflash.
        folder: to be made, or empty.
        target: the built-in model.
        answers: of the target.
        positions: how many tokens it guesses, where it guesses several at once.
    """
    match kind:
        case "eagle":
            return shutil.copytree(builtin_path("builtin-eagle"), folder, dirs_exist_ok=True)
        case "speculators":
            return _as_speculators(builtin_path("builtin-eagle"), folder)
        case "medusa":
            return _medusa(folder, target, answers, positions)
        case "dflash":
            return _dflash(folder, target, answers, positions)
    raise ValueError(kind)


def _as_speculators(shipped: Path, folder: Path) -> Path:
    """The head as the library speculators lays it out."""
    from transformers import LlamaConfig

    config, own = LlamaConfig.from_pretrained(shipped), json.loads((shipped / "config.json").read_text(encoding="utf-8"))
    taps = own.get("eagle_config", {}).get("eagle_aux_hidden_state_layer_ids")
    verifier = (str(builtin_path()), ["LlamaForCausalLM"])
    told = speculators(config, own["draft_vocab_size"], taps or [0] * STANDARD_TAPS, bool(taps), "float16", verifier)
    tensors = load_weights(shipped)
    folder.mkdir(parents=True, exist_ok=True)
    save_file({name.replace("midlayer.", "layers.0."): each for name, each in tensors.items()}, folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps(told), encoding="utf-8")
    return folder


def _medusa(folder: Path, target: TransformersModel, answers: Answers, heads: int) -> Path:
    """Medusa heads of one block with a bias each, as vLLM names their tensors."""
    width, vocabulary = _width(target), target.info.vocabulary
    sizes: dict[str, Any] = {"named": "new", "heads": heads, "scale": SCALE, "width": width, "vocabulary": vocabulary}
    sizes |= {"architectures": ["MedusaModel"], "vocab_size": vocabulary, "medusa_fc_bias": True}
    weights = load_weights(write_medusa(folder, **sizes), "medusa_lm_head")
    read: list[list[Tensor]] = [[] for _ in range(heads)]
    follow: list[list[int]] = [[] for _ in range(heads)]
    for prompt, answer in answers:
        # Of the state that chose answer[i] the heads guess what comes after it.
        states = _states(target, [*prompt, *answer], (target.info.layers,))[len(prompt) - 1 :]
        for head in range(heads):
            after = answer[1 + head :]
            x, at = states[: len(after)], f"blocks.{head}.layers.0"
            read[head].append(x + F.silu(F.linear(x, weights[f"{at}.weight"], weights[f"{at}.bias"])))
            follow[head] += after
    outputs = (_means(torch.cat(read[head]), follow[head], vocabulary) for head in range(heads))
    return write_medusa(folder, changes={f"lm_heads.{head}.weight": each for head, each in enumerate(outputs)}, **sizes)


def _dflash(folder: Path, target: TransformersModel, answers: Answers, positions: int) -> Path:
    """A DFlash drafter of two layers, as z-lab publishes them, with its own LM head."""
    width, vocabulary = _width(target), target.info.vocabulary
    sizes: dict[str, Any] = {"width": width, "hidden": width, "vocabulary": vocabulary, "block": 1 + positions, "scale": SCALE}
    sizes |= {"heads": 4, "head": 64, "taps": (1, 4, 6), "num_target_layers": target.info.layers}
    sizes |= {"max_position_embeddings": target.info.context}  # behind these vLLM drafts nothing
    # On a CPU vLLM 0.32 norms the text's keys of all layers by the first layer's weights (its rms_norm takes no others).
    norms = {f"layers.{layer}.self_attn.k_norm.weight": torch.linspace(0.8, 1.2, 64) for layer in (0, 1)}
    # An LM head that hands on what it reads.
    head = load_dflash(write_dflash(folder, changes=norms | {"lm_head.weight": torch.eye(vocabulary, width)}, **sizes), target)
    read: list[Tensor] = []
    follow: list[int] = []
    for prompt, answer in answers:
        states = _states(target, [*prompt, *answer], head.info.taps)
        session = head.open(len(states))
        for i in range(len(answer) - 1):
            after = answer[i + 1 : i + 1 + positions]
            session.extend(states[session.length : len(prompt) + i])
            guessed: Any = session.guess(answer[i], positions)
            read.append(guessed.logits[: len(after), :width])
            follow += after
        session.close()
    changes = norms | {"lm_head.weight": _means(torch.cat(read), follow, vocabulary)}
    return write_dflash(folder, changes=changes, **sizes)


def _width(target: TransformersModel) -> int:
    return int(target.module.config.hidden_size)


def _states(target: TransformersModel, tokens: Sequence[int], taps: Sequence[int]) -> Tensor:
    """The target's hidden states at all tokens."""
    session = target.open_session(len(tokens), taps)
    session.prefill(tokens)
    states = session.states(0, len(tokens)).clone()
    session.close()
    return states


def _means(read: Tensor, follow: Sequence[int], vocabulary: int) -> Tensor:
    """An LM head that prefers the token before which most like this was read [vocab, width].

    Args:
        read: what stood before tokens [n, width].
        follow: these tokens.
    """
    out, spread = torch.zeros(vocabulary, read.shape[1]), read.std(0)
    out.index_add_(0, torch.tensor(follow), (read - read.mean(0)) / spread)
    return 4 * F.normalize(out) / spread
