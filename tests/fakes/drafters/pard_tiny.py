"""A tiny PARD model that knows one chat by heart, trained on the spot: as a folder and as a GGUF file."""

from __future__ import annotations

import functools
import json
import shutil
from pathlib import Path
from typing import Any

import torch

from specchat.backends import LoadOptions, Model, load_model
from specchat.backends.loading import builtin_path
from specchat.builtin.recipe import tokenizer as tokens_of
from specchat.builtin.recipe.data import IGNORED
from specchat.builtin.recipe.model import SIZES, build
from specchat.builtin.recipe.train_pard import MASK, PardLoss

from ..models.llama_tiny import FLOAT32, gguf_of, room

POSITIONS = 8
STEPS = 250


@functools.cache
def chat() -> tuple[list[int], list[int]]:
    """Prompt and answer, which ends with an EOS."""
    answer = "A pass over many tokens takes hardly longer than a pass over one of them, so guesses that come true are worth it."
    messages = [{"role": "user", "content": "Why guess?"}, {"role": "assistant", "content": answer}]
    ids, produced = tokens_of.encode_chat(tokens_of.load(builtin_path()), messages)  # type: ignore[arg-type]
    begin = produced.index(True)
    return ids[:begin], ids[begin:]


@functools.cache
def pard_folder() -> Path:
    """The model in transformers' format."""
    prompt, answer = chat()
    tokens = torch.tensor([[*prompt, *answer]])
    labels = tokens.roll(-1, 1)
    labels[:, -1] = labels[:, : len(prompt) - 1] = IGNORED
    model: Any = build(SIZES["tiny"], 0)
    loss = PardLoss(model, POSITIONS, keep=0.95)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    for _ in range(STEPS):
        loss(tokens, labels)[0].backward()
        optimizer.step()
        optimizer.zero_grad()
    folder = room() / "pard"
    shutil.copytree(builtin_path(), folder, ignore=shutil.ignore_patterns("*.safetensors", "config.json", "*.gguf"))
    model.save_pretrained(folder)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"pard_token": MASK}))
    return folder


@functools.cache
def pard_model(runtime: str) -> Model:
    """The loaded model in float32; do not close it."""
    if runtime == "llama.cpp":
        return load_model(str(gguf_of(pard_folder())), FLOAT32)
    return load_model(str(pard_folder()), LoadOptions(device="cpu", dtype="float32"))
