"""What drafts for the built-in model: its own tokens in few passes, on both runtimes; chains of vLLM and llama-server."""

from __future__ import annotations

import json
import shutil
from collections import Counter, defaultdict
from collections.abc import Sequence
from functools import cache
from itertools import accumulate
from math import inf
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from torch import Tensor

from specchat.backends import LoadOptions, Model, Sampling, load_model
from specchat.backends.base import ROOT
from specchat.backends.heads.base import Head
from specchat.backends.hf.model import TransformersModel
from specchat.backends.loading import builtin_path, find_model
from specchat.backends.scores import TorchScores
from specchat.builtin.recipe.corpus import TASKS
from specchat.builtin.recipe.evaluate import examples
from specchat.builtin.recipe.training.layouts import STANDARD_TAPS, speculators
from specchat.decoders import Conversation, Generation

from ..cases import FULL
from ..fakes.drafters.dflash_files import write_dflash
from ..fakes.drafters.head_files import load_weights, write_medusa
from ..fakes.drafters.heads import load_dflash

Answers = Sequence[tuple[Sequence[int], Sequence[int]]]
"""Prompts, and what follows."""

SCALE = 0.05
"""Scale of random weights, so that a layer adds about as much as it gets."""


def write(kind: str, folder: Path, target: TransformersModel, answers: Answers, positions: int) -> Path:
    """Write a drafter into a folder. Medusa heads and a DFlash drafter have random layers, and LM heads whose rows are means
    of a few of the target's answers: they are right now and then, and the same on every machine.

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


RECORDED = Path(__file__).parent
"""Prompts, answers and what was drafted in each step: of vLLM 0.32.0 (`benchmarks/methods/vllm_heads.py` of commit c4f12999),
and of llama-server of llama-cpp-python 0.3.36 (`tests/backends/servers/test_real_eagle.py` of commit a71d390e)."""

FAMILIES = ("copy", "edit", "extract", "fact", "passage", "story")
EACH = 9 if FULL else 1
TOKENS = 128 if FULL else 64
DEPTH = 4
"""Tokens that a chain drafts."""
CHAIN: dict[str, Any] = {"width": 1, "depth": DEPTH, "nodes": DEPTH + 1, "floor": 0.0, "cascade": False}
WAYS: dict[str, tuple[str, dict[str, Any], float]] = {
    "eagle, a tree": ("eagle", {}, 4.0),
    "eagle, a chain": ("eagle", CHAIN, 2.5),
    "pard, a tree": ("pard", {"floor": 0.0}, 3.0),
    "pard, a chain": ("pard", {"floor": 0.0, "width": 1}, 2.0),
}
"""Method, settings, and the fewest tokens a pass over all families."""

TIE = 0.1
"""Logits so near each other are next to equal: llama.cpp rounds activations to 8 bits."""

RUNTIMES = ["transformers", "llama.cpp"]


@cache
def loaded(runtime: str) -> tuple[Model, Model, Head]:
    """Target, draft model and head on a runtime, in one thread."""
    options = LoadOptions(device="cpu", backend=runtime, threads=1)
    target = load_model("builtin", options)
    return target, load_model("builtin-draft", options), find_model("builtin-eagle", options).beside("builtin-eagle", target)


def parting(ours: list[int], theirs: list[int]) -> int | None:
    """Where two lists differ first, as far as both go."""
    return next((i for i, (one, other) in enumerate(zip(ours, theirs, strict=False)) if one != other), None)


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


CHAINS: dict[str, tuple[str, dict[str, Any]]] = {
    "eagle": ("eagle", CHAIN),
    "speculators": ("eagle", CHAIN),
    "medusa": ("medusa", {name: CHAIN[name] for name in ("width", "nodes", "floor")}),
    "dflash": ("dflash", {name: CHAIN[name] for name in ("width", "nodes", "floor", "depth")}),
}
"""Kind of drafter → our method, and the settings of vLLM's chain."""


def by_place(answer: list[int], drafts: list[list[int]], counts: Counter[int]) -> dict[int, list[int]]:
    """Each draft by the place in the answer where it begins; how much of it was accepted is counted."""
    out: dict[int, list[int]] = {}
    at = 1
    for draft in drafts:
        if at >= len(answer):  # vLLM drafts behind the end as well
            break
        out[at] = list(draft)
        follows = answer[at:-1]  # the last token is never a draft of ours
        pairs = enumerate(zip(draft, follows, strict=False))
        right = next((i for i, (token, wanted) in pairs if token != wanted), min(len(draft), len(follows)))
        counts[right] += 1
        at += right + 1
    return out


@pytest.mark.parametrize("name", CHAINS)
def test_a_chain_is_what_vllm_drafts(name: str, tmp_path: Path) -> None:
    """The same drafts, and as many accepted tokens, step by step."""
    (method, settings), target = CHAINS[name], loaded("transformers")[0]
    assert isinstance(target, TransformersModel)
    file = RECORDED / f"vllm_{'eagle' if name == 'speculators' else name}.jsonl"
    lines = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    folder = str(write(name, tmp_path, target, [(line["prompt"], line["answer"]) for line in lines], DEPTH))
    head = find_model(folder, LoadOptions(device="cpu", backend="transformers", threads=1)).beside(folder, target)
    talk, steps, equal = Conversation(target, head=head), 0, 0
    theirs, ours = Counter[int](), Counter[int]()
    for line in lines if FULL else lines[::4]:
        first, *rest = line["answer"]
        talk.forget()
        talk.session.prefill(line["prompt"])  # whose pass gives the first token
        generation = Generation(talk, [*line["prompt"], first], method, settings=settings, max_tokens=len(rest))
        drafts = [list(step.tree.tokens[1:]) for step in generation]
        assert generation.answer == rest
        their, our = by_place(line["answer"], line["drafts"], theirs), by_place(line["answer"], drafts, ours)
        for at, draft in our.items():  # our last ones are cut to what may still be written
            steps += bool(draft)
            equal += bool(draft) and their.get(at, [])[: len(draft)] == draft
    talk.close()
    assert steps > (250 if FULL else 60)
    assert equal >= 0.999 * steps
    assert theirs == ours
    assert {1, 2, 3} <= ours.keys()


def test_a_chain_is_what_llama_server_drafts(monkeypatch: pytest.MonkeyPatch) -> None:
    """On llama.cpp, with its cache types: the same drafts, and as many tokens of each are accepted. Another processor rounds
    otherwise: where two tokens are next to equal a draft may go on differently, and so may an answer, whose comparison ends."""
    options = LoadOptions(device="cpu", backend="llama.cpp", threads=1, kv_type="f16", flash_attention="on")
    target = load_model("builtin", options)
    talk = Conversation(target, head=find_model("builtin-eagle", options).beside("builtin-eagle", target))
    steps = equal = parted = 0
    guessed: list[dict[int, float]] = []
    guess = TorchScores.candidates

    def noting(self: TorchScores, *args: Any, **options: Any) -> list[list[tuple[int, float]]]:
        guessed.extend(dict(row) for row in self.top(8))
        return guess(self, *args, **options)

    monkeypatch.setattr(TorchScores, "candidates", noting)
    lines = (RECORDED / "llama_server_eagle.jsonl").read_text(encoding="utf-8").splitlines()
    for line in lines if FULL else lines[::3]:
        theirs = json.loads(line)
        first, *rest = theirs["answer"]
        talk.forget()
        talk.session.prefill(theirs["prompt"])
        generation = Generation(talk, [*theirs["prompt"], first], "eagle", settings=CHAIN, max_tokens=len(rest))
        at = 0
        guessed.clear()
        # By the place in the answer: after a draft that differs, passes may begin elsewhere for a while.
        begun = accumulate((each["accepted"] + 1 for each in theirs["passes"]), initial=0)
        passes = dict(zip(begun, theirs["passes"], strict=False))
        for step in generation:
            drafted, tokens = list(step.tree.tokens[1:]), rest[at : at + len(step.tokens)]
            if (other := parting(list(step.tokens), tokens)) is not None:
                session = target.open_session()
                text = [*theirs["prompt"], first, *rest[: at + other]]
                session.prefill(text[:-1])
                assert session.evaluate([text[-1]], [ROOT]).gap(0, tokens[other]) < TIE
                session.close()
                parted += 1
                break
            steps += bool(drafted)  # the last token of an answer has no draft
            if (expected := passes.get(at)) is not None and drafted:
                other = parting(drafted, expected["draft"])
                equal += other is None
                if other is None:
                    assert list(step.tokens) == rest[at : at + expected["accepted"] + 1]
                else:
                    assert max(guessed[other].values()) - guessed[other].get(expected["draft"][other], -inf) < TIE
            at += len(step.tokens)
            guessed.clear()
        else:
            assert generation.answer == rest
    talk.close()
    target.close()
    assert steps > (220 if FULL else 60)
    assert equal >= 0.98 * steps
    assert parted <= 1
