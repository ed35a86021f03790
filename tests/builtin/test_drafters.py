"""What drafts for the built-in model: its own tokens in few passes, on both runtimes; the chains that vLLM drafts."""

from __future__ import annotations

import json
import random
from collections import defaultdict
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file, save_file

from specchat.backends import LoadOptions, Model, Sampling, load_model
from specchat.backends.heads.base import Head
from specchat.backends.loading import find_model
from specchat.builtin.corpus import TASKS
from specchat.builtin.evaluate import examples
from specchat.decoders import Conversation, Generation

from ..cases import FULL

VLLM = Path(__file__).parent / "vllm_drafts.jsonl"
"""Of vLLM 0.32.0 with the built-in head: prompt, answer, and what it drafted in each step (`benchmarks.methods.vllm_eagle`)."""

FAMILIES = ("copy", "edit", "extract", "fact", "passage", "story")
EACH = 9 if FULL else 2
TOKENS = 128 if FULL else 64
CHAIN: dict[str, Any] = {"width": 1, "depth": 4, "nodes": 5, "floor": 0.0, "cascade": False}
WAYS: dict[str, tuple[str, dict[str, Any], float]] = {
    "eagle, a tree": ("eagle", {}, 4.0),
    "eagle, a chain": ("eagle", CHAIN, 2.5),
    "pard, a tree": ("pard", {"floor": 0.0}, 3.0),
    "pard, a chain": ("pard", {"floor": 0.0, "width": 1}, 2.0),
}
"""Method, settings, and the fewest tokens a pass over all families."""

RUNTIMES = ["transformers", "llama.cpp"]


@cache
def loaded(runtime: str) -> tuple[Model, Model, Head]:
    """Target, draft model and head on a runtime, in one thread."""
    options = LoadOptions(device="cpu", backend=runtime, threads=1)
    target = load_model("builtin", options)
    return target, load_model("builtin-draft", options), find_model("builtin-eagle", options).beside("builtin-eagle", target)


def conversation(runtime: str) -> Conversation:
    target, draft, head = loaded(runtime)
    return Conversation(target, draft_model=draft, head=head)


@cache
def prompts() -> list[list[int]]:
    """Some of each family."""
    target, _, _ = loaded("transformers")
    found: dict[str, list[list[int]]] = defaultdict(list)
    for name, messages in examples(40 * EACH):
        family = TASKS[name].family
        if family in FAMILIES and len(found[family]) < EACH:
            found[family].append(target.encode_chat([{"role": m["role"], "content": m["content"]} for m in messages[:-1]]))
    return [prompt for family in FAMILIES for prompt in found[family]]


@cache
def plain(runtime: str, number: int, sampling: Sampling) -> list[int]:
    """What the target writes by itself."""
    alone = Conversation(loaded(runtime)[0])
    generation = Generation(alone, prompts()[number], sampling=sampling, max_tokens=TOKENS)
    list(generation)
    alone.close()
    return generation.answer


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("runtime", RUNTIMES)
def test_the_targets_own_tokens_in_few_passes(runtime: str, way: str) -> None:
    method, settings, fewest = WAYS[way]
    talk = conversation(runtime)
    tokens = passes = 0
    for number, prompt in enumerate(prompts()):
        generation = Generation(talk, prompt, method, settings=settings, max_tokens=TOKENS)
        list(generation)
        assert generation.answer == plain(runtime, number, Sampling())
        tokens, passes = tokens + generation.totals.tokens, passes + generation.totals.steps
    talk.close()
    assert tokens / passes >= fewest


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_switching_in_the_middle_and_sampling_give_the_same_text(runtime: str) -> None:
    talk, rng = conversation(runtime), random.Random(5)
    for number, prompt in enumerate(prompts()):
        sampling = Sampling(temperature=0.8, seed=number)
        for chosen in (Sampling(), sampling):
            generation = Generation(talk, prompt, "eagle", sampling=chosen, max_tokens=TOKENS)
            for _ in generation:
                if rng.random() < 0.4:
                    method, settings, _ = rng.choice([*WAYS.values(), ("lookup", {}, 0), ("greedy", {}, 0), ("draft", {}, 0)])
                    generation.switch(method, settings)
            assert generation.answer == plain(runtime, number, chosen)
    talk.close()


def as_speculators(folder: Path) -> Path:
    """The head as the library speculators lays it out."""
    shipped = Path(loaded("transformers")[2].info.path)
    config = json.loads((shipped / "config.json").read_text(encoding="utf-8"))
    tensors = load_file(shipped / "model.safetensors")
    save_file({name.replace("midlayer.", "layers.0."): each for name, each in tensors.items()}, folder / "model.safetensors")
    own = {
        "architectures": ["Eagle3Speculator"],
        "speculators_model_type": "eagle3",
        "draft_vocab_size": config.pop("draft_vocab_size"),
        "norm_before_residual": False,
        "eagle_aux_hidden_state_layer_ids": None,
        "transformer_layer_config": config,
    }
    (folder / "config.json").write_text(json.dumps(own), encoding="utf-8")
    return folder


@pytest.mark.parametrize("layout", ["SafeAILab", "speculators"])
def test_a_chain_is_what_vllm_drafts(layout: str, tmp_path: Path) -> None:
    """Of the head in either layout vLLM makes the same drafts."""
    target, _, head = loaded("transformers")
    if layout == "speculators":
        name = str(as_speculators(tmp_path))
        head = find_model(name, LoadOptions(device="cpu", backend="transformers", threads=1)).beside(name, target)
    talk = Conversation(target, head=head)
    steps = equal = 0
    for line in VLLM.read_text(encoding="utf-8").splitlines():
        theirs = json.loads(line)
        first, *rest = theirs["answer"]
        # vLLM takes the first token from the prompt's own pass, and drafts after it.
        generation = Generation(talk, [*theirs["prompt"], first], "eagle", settings=CHAIN, max_tokens=len(rest))
        for step, expected in zip(generation, theirs["drafts"], strict=False):
            drafted = list(step.tree.tokens[1:])  # the last ones are cut to what may still be written
            steps += 1
            equal += expected[: len(drafted)] == drafted
        assert generation.answer == rest
    talk.close()
    assert steps > 300
    assert equal >= 0.999 * steps
