"""What drafts for the built-in model: its own tokens in few passes, on both runtimes; chains of vLLM and llama-server."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from functools import cache
from itertools import accumulate
from math import inf
from pathlib import Path
from typing import Any

import pytest

from specchat.backends import ROOT, LoadOptions, Model, Sampling, load_model
from specchat.backends.heads.base import Head
from specchat.backends.loading import find_model
from specchat.backends.scores import TorchScores
from specchat.builtin.recipe.corpus import TASKS
from specchat.builtin.recipe.evaluate import examples
from specchat.decoders import Conversation, Generation

from ..cases import FULL

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


def test_a_chain_is_what_vllm_drafts() -> None:
    """The same drafts, and as many accepted tokens, step by step."""
    target, _, head = loaded("transformers")
    lines = [json.loads(line) for line in (RECORDED / "vllm_eagle.jsonl").read_text(encoding="utf-8").splitlines()]
    talk, steps, equal = Conversation(target, head=head), 0, 0
    theirs, ours = Counter[int](), Counter[int]()
    for line in lines if FULL else lines[::4]:
        first, *rest = line["answer"]
        talk.forget()
        talk.session.prefill(line["prompt"])  # whose pass gives the first token
        generation = Generation(talk, [*line["prompt"], first], "eagle", settings=CHAIN, max_tokens=len(rest))
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
