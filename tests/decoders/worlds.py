"""Models on both runtimes with what drafts for them, and conversations through all of a model's methods."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from functools import cache, partial
from random import Random
from typing import Any

from specchat.backends import LoadOptions, Model, Sampling, load_model
from specchat.backends.grammars.constraint import Constraint
from specchat.backends.heads.base import Head
from specchat.backends.heads.mtp.load import load_mtp
from specchat.backends.hf.graphs import Rerun
from specchat.backends.hf.model import load_transformers
from specchat.backends.llama.model import load_llama
from specchat.backends.loading import find_model
from specchat.decoders import Conversation, Generation, encode_prompt
from specchat.decoders.parts.ahead import OwnThread
from specchat.decoders.parts.cascade import SCHEDULES
from specchat.decoders.registry import methods, unavailable

from ..cases import FULL
from ..fakes.answers import one_by_one
from ..fakes.constraints import regex
from ..fakes.drafters import gguf_heads, heads
from ..fakes.drafters.mtp_files import FAMILIES, Family, mtp_target
from ..fakes.models import gemma
from ..fakes.models.llama_tiny import FLOAT32, room, tiny_llama
from ..fakes.models.thinkers import thinker
from ..fakes.models.tiny import smaller_model, tiny_folder, tiny_model
from ..fakes.prompts import TEXTS
from ..zoo import gguf_files as zoo
from .constrained.cases import CONSTRAINTS

ARCHITECTURES: tuple[str, ...] = ("gemma2", "lfm2", "mamba2", "qwen35")
if FULL:
    ARCHITECTURES += (
        "qwen3next", "minimax-01", "granitehybrid", "falcon-h1", "plamo2", "jamba", "kimi-linear", "rwkv7", "deepseek4",
    )  # fmt: skip
"""Windows, snapshots of states, and states that are kept here, on llama.cpp."""
LETTERS = {"letters": regex("[a-z]{3} [A-Z]{4,30}[.!]")}


def endless(kind: str, **runner: Any) -> World:
    model: Any = copy(tiny_model(kind))
    model._runner = replace(model._runner, **runner)  # as a GPU would have it, with `graphs`
    if kind == "bloom":  # whose layers can be left out whole only, which an answer that has begun is told
        return World(model, (model,), constraints=LETTERS, without=("early-exit",))
    return World(model, (smaller_model(kind), model), constraints=LETTERS)


def int8() -> World:
    model = load_transformers(tiny_folder("llama"), "llama", LoadOptions(device="cpu", dtype="int8"))
    return World(model, (smaller_model("llama"),))


def built_in(*, ahead: bool = False, eagle: bool = False, **options: Any) -> World:
    """The built-in models; their ids are words."""
    load_options = LoadOptions(device="cpu", threads=1, **options)
    target, draft = load_model("builtin", load_options), load_model("builtin-draft", load_options)
    questions = ("Write as JSON: name Anna, age 20, city Paris.", f"Repeat this text exactly: {TEXTS[0]}")
    prompts = [encode_prompt(target, text) for text in questions]
    constraints = {name: CONSTRAINTS[name] for name in ("flat", "regex")}
    if ahead:
        return World(
            target, (OwnThread(lambda: load_model("builtin-draft", load_options)),), constraints=constraints, prompts=prompts
        )
    if eagle:
        return World(target, head=find_model("builtin-eagle", load_options).beside("builtin-eagle", target), prompts=prompts)
    return World(target, (draft,), constraints=constraints, prompts=prompts)


def drafted(target: Callable[[], Model], head: Callable[[], Head]) -> World:
    return World(target(), head=head())


def mtp(family: Family, layers: int = 1) -> World:
    target = mtp_target(family, layers=layers)
    return World(target, head=load_mtp(target))


def in_zoo(architecture: str) -> World:
    file = room() / f"same-{architecture}.gguf"
    model = load_llama(zoo.write(architecture, file), architecture, FLOAT32)
    return World(model, (model,))


def glm() -> World:
    from specchat.backends.llama.drafters.load import load_gguf_mtp

    return World(gguf_heads.glm_llama(), head=load_gguf_mtp(gguf_heads.glm_llama()))


def thinking(name: str, runtime: str) -> World:
    model = thinker(name, runtime)
    return World(model, begins=encode_prompt(model, "Hi"))


WORLDS: dict[str, Callable[[], World]] = {
    **{kind: partial(endless, kind) for kind in ("llama", "qwen3", "gpt2", "qwen3-moe", "gemma3", "mistral", "bloom")},
    "llama, recorded": partial(endless, "llama", graphs=Rerun),
    "llama, int8": int8,
    "built-in": partial(built_in, backend="transformers"),
    "built-in, drafted ahead": partial(built_in, ahead=True, backend="transformers"),
    "built-in, eagle": partial(built_in, eagle=True, backend="transformers"),
    **{f"eagle {style}": partial(drafted, heads.target, partial(heads.random_head, style)) for style in ("eagle1", "eagle3")},
    "medusa": partial(drafted, heads.target, heads.random_medusa),
    "dflash": partial(drafted, heads.target, heads.random_dflash),
    **{
        f"dflash {paths}": partial(drafted, heads.target, partial(heads.random_paths, paths))
        for paths in ("vanilla", "dflash2")
    },
    "assistant": partial(drafted, gemma.gemma, gemma.random_assistant),
    **{f"mtp {family}": partial(mtp, family) for family in FAMILIES},
    "mtp glm4-moe, 3 layers": partial(mtp, "glm4-moe", 3),
    "opened": partial(thinking, "opened", "transformers"),
}
LLAMA: dict[str, Callable[[], World]] = {
    "llama.cpp": lambda: World(tiny_llama(), (tiny_llama(), gguf_heads.llama_target())),
    "llama.cpp built-in": partial(built_in, backend="llama.cpp"),
    "llama.cpp built-in, drafted ahead": partial(built_in, ahead=True, backend="llama.cpp"),
    "llama.cpp built-in, eagle": partial(built_in, eagle=True, backend="llama.cpp"),
    **{f"llama.cpp {architecture}": partial(in_zoo, architecture) for architecture in ARCHITECTURES},
    "llama.cpp eagle": partial(drafted, gguf_heads.llama_target, gguf_heads.random_gguf_head),
    "llama.cpp dflash": partial(drafted, gguf_heads.llama_target, gguf_heads.random_gguf_blocks),
    "llama.cpp dspark": partial(drafted, gguf_heads.llama_target, partial(gguf_heads.random_gguf_paths, "dspark")),
    "llama.cpp dflash2": partial(drafted, gguf_heads.llama_target, partial(gguf_heads.random_gguf_paths, "dflash2")),
    "llama.cpp mtp": glm,
    "llama.cpp assistant": partial(drafted, gemma.gemma_llama, gemma.random_assistant_file),
    "llama.cpp channels": partial(thinking, "channels", "llama.cpp"),
}


@cache
def world_of(name: str) -> World:
    return (WORLDS | LLAMA)[name]()


ROUNDS, TOKENS = (12, 64) if FULL else (2, 16)
"""Answers that each method begins in a world, and the most tokens of each."""
CONTEXT, MOST = 256, 24
"""Context of a conversation, and the longest new text before a part of it is repeated, in tokens."""
SAMPLINGS = (
    *[Sampling()] * 3, *(Sampling(temperature=0.8, seed=seed) for seed in (4, 7)),
    Sampling(temperature=1.2, top_p=0.9, min_p=0.02, repetition_penalty=1.2, seed=2),
    Sampling(temperature=0.8, top_k=40, seed=3), Sampling(repetition_penalty=1.3), Sampling(temperature=1e6, seed=-5),
    Sampling(temperature=1e-6, repetition_penalty=1e6), Sampling(temperature=1, top_p=1e-9, seed=10**30),
)  # fmt: skip
DEEP: dict[str, Any] = {"nodes": 12, "depth": 3, "width": 3, "grow": 2, "floor": 0, "cascade": False}
WIDE: dict[str, Any] = {"nodes": 16, "width": 3, "floor": 0}
VARIANTS: dict[str, list[dict[str, Any]]] = {
    "lookup": [{"variant": "reference"}, {"nodes": 64}], "ngram": [{"nodes": 64}],
    "recycle": [{"successors": 2, "nodes": 8}], "suffix": [{"tree": True, "factor": 4.0, "floor": 0.0}],
    "jacobi": [{"tokens": 3}], "lookahead": [{"window": 1, "ngram": 2}],
    "draft": [{"schedule": schedule, "tokens": 4} for schedule in SCHEDULES],
    "tree": [{"nodes": 64}],
    "pard": [{"width": 1, "floor": 0}, {"nodes": 40, "width": 8, "floor": 0}],
    "early-exit": [{"layers": 2}, *({"skip": skip, "threshold": 0.05} for skip in ("1a", "0m,2a", "1-2a", "2"))],
    "eagle": [DEEP, {**DEEP, "width": 1}], "mtp": [DEEP, {**DEEP, "width": 1}],
    "medusa": [WIDE, {**WIDE, "width": 1}], "dflash": [WIDE, {**WIDE, "width": 1}],
}  # fmt: skip
"""Settings beside the defaults."""
Way = tuple[str, dict[str, Any]]


@dataclass
class World:
    """A model with what drafts for it."""

    model: Model
    drafts: Sequence[Model] = ()
    head: Head | None = None
    constraints: dict[str, Constraint] = field(default_factory=dict)
    begins: Sequence[int] = ()
    """Tokens that every prompt begins with."""
    without: Sequence[str] = ()
    """Methods to leave out."""
    letters: range = range(8, 208)
    """The ids that its prompts are made of."""
    prompts: Sequence[Sequence[int]] = ()
    """Some to choose from; random ones if there are none."""
    plain: dict[Any, list[int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.ends = self.model.info.eos_ids
        self.model = copy(self.model)

    def ways(self) -> list[tuple[str, list[dict[str, Any]]]]:
        """The methods that give plain decoding's text here, and settings to try each with."""
        pard = any(draft.info.pard_token is not None for draft in self.drafts)
        helpers = {"draft_model": bool(self.drafts), "pard": pard, "head": self.head and self.head.info}
        able = self.model.info.capabilities
        names = [
            (name, [{}, *VARIANTS.get(name, ())])
            for name, method in methods().items()
            if method.label == "identical" and not unavailable(method, able, **helpers)  # type: ignore[arg-type]
            if name not in self.without
        ]
        kinds = {"greedy", "lookup", self.head.info.kind} if self.head is not None else {name for name, _ in names}
        return [(name, settings) for name, settings in names if name in kinds]

    def answer(self, prompt: Sequence[int], sampling: Sampling, constraint: str) -> list[int]:
        key = (*prompt, sampling, constraint)
        if key not in self.plain:
            eos = self.ends if constraint else ()
            self.model.info = replace(self.model.info, eos_ids=eos)
            self.plain[key] = one_by_one(self.model, prompt, sampling, TOKENS, self.constraints.get(constraint))
        return self.plain[key]


class Talk:
    """A conversation that is asked one thing after the other."""

    def __init__(self, world: World, seed: object) -> None:
        self.world = world
        self.rng = Random(repr(seed))
        self.conversation = Conversation(world.model, draft_model=world.drafts or None, head=world.head, context=CONTEXT)
        self.prompt: list[int] = []
        self.text: list[int] = []
        self.accepted = Counter[str]()

    def some(self, most: int) -> list[int]:
        return self.rng.choices(self.world.letters, k=self.rng.randint(1, most))

    def next_prompt(self) -> list[int]:
        """A new text, one that holds what comes next already, the next turn, an earlier place in it, or the same once more."""
        if self.world.prompts and self.rng.random() < 0.7:
            return list(self.rng.choice(self.world.prompts))
        new = [*self.world.begins, *self.some(MOST)]
        new += new[: self.rng.randrange(len(new))]
        match self.rng.randrange(5 if 0 < len(self.text) < CONTEXT - 3 * TOKENS else 2):
            case 1:
                return [*new, *self.world.answer(new, Sampling(), ""), *new][: CONTEXT - 2 * TOKENS]
            case 2:
                return [*self.text, *self.some(4)]
            case 3:
                return [*self.text[: self.rng.randrange(1, len(self.text))], *self.some(4)]
            case 4:
                return self.prompt
        return new

    def ask(self, start: Way, switches: Sequence[Way]) -> None:
        """Ask for an answer that begins in one way, and compare."""
        rng, world, prompt = self.rng, self.world, self.next_prompt()
        sampling, constraint = rng.choice(SAMPLINGS), rng.choice(("", "", *world.constraints))
        whole = world.answer(prompt, sampling, constraint)
        eos = world.ends if constraint else ()
        if not constraint and rng.random() < 0.2:
            eos = (rng.choice(whole),)
        limit = rng.choice((TOKENS, TOKENS, rng.randint(1, TOKENS)))
        expected = whole[: next((i for i, token in enumerate(whole, 1) if token in eos), len(whole))][:limit]
        case = f"{start}, {sampling}, {constraint}, {eos}: {prompt}"
        world.model.info = replace(world.model.info, eos_ids=eos)
        options: dict[str, Any] = {"sampling": sampling, "constraint": world.constraints.get(constraint), "max_tokens": limit}
        generation = Generation(self.conversation, prompt, start[0], settings=start[1], **options)
        ends, switching = rng.randint(1, 60), rng.random() < 0.4
        while generation.finish_reason is None:
            step = generation.advance()
            assert generation.answer == expected[: len(generation.answer)], case
            if step is not None:
                self.accepted[step.method] += step.accepted
                check(step.tree, eos)
            if generation.finish_reason is None and len(generation.answer) >= ends:
                generation.cancel()
            elif generation.finish_reason is None and switching and rng.random() < 0.4:
                generation.switch(*rng.choice(switches))
        if generation.finish_reason != "cancelled":
            assert (generation.answer, generation.finish_reason) == (expected, "eos" if expected[-1] in eos else "length"), case
        assert list(self.conversation.session.tokens) == generation.tokens[: self.conversation.session.length]
        self.prompt = prompt
        self.text = list(generation.tokens)


def check(tree: Any, eos: Sequence[int]) -> None:
    """A draft is a tree without equal siblings, and nothing hangs below an end.

    Lookahead's window is no draft, and may come from an answer with other ends.
    """
    assert all(parent < node for node, parent in enumerate(tree.parents))
    siblings = list(zip(tree.parents, tree.tokens, strict=True))
    assert len(set(siblings)) == len(siblings)
    drafted = [node for node in range(1, len(tree)) if node not in tree.window]
    assert not any(tree.tokens[tree.parents[node]] in eos for node in drafted if tree.parents[node] > 0)
