"""Every trained drafter on every runtime: the target's own tokens, what is right is believed; PARD; other vocabularies."""

from __future__ import annotations

import functools
import json
import random
import shutil
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch

from specchat.backends import LoadOptions, Model, Sampling, UserError, load_model
from specchat.backends.heads.base import Head
from specchat.backends.heads.mtp.load import load_mtp
from specchat.backends.loading import builtin_path
from specchat.builtin.recipe.train_pard import MASK
from specchat.decoders import Acceptance, Conversation, Generation, Step, encode_prompt
from specchat.decoders.acceptance import Rule
from specchat.engine.drafts import Drafters, open_conversation, refusals
from specchat.engine.options import ModelSelection

from ....cases import FULL
from ....fakes.answers import answered, plain
from ....fakes.drafters import heads
from ....fakes.drafters.gguf_heads import counting
from ....fakes.drafters.heads import cyclic_target, right_head
from ....fakes.drafters.mtp_files import FAMILIES, mtp_folder, mtp_target
from ....fakes.models.llama_tiny import FLOAT32, VOCAB, gguf_of, needs_llama, room
from ....fakes.models.tiny import network
from ...worlds import DEEP, LLAMA, WIDE, WORLDS

TREES = {"eagle": DEEP, "mtp": DEEP, "medusa": WIDE, "dflash": WIDE}
SAMPLED = Sampling(temperature=0.8, seed=11)
MOST = 24 if FULL else 6
"""Tokens of an answer by a drafter that knows nothing."""

GGUF = ("eagle", "assistant", "dflash", "dspark", "dflash2", "mtp")
IN_GGUF = [pytest.param(f"llama.cpp {kind}", marks=needs_llama) for kind in GGUF]
ONE_OF_EACH = ["eagle eagle3", "assistant", "medusa", "dflash", "dflash vanilla", "dflash dflash2", "mtp glm4-moe", *IN_GGUF]


RIGHT: dict[str, Callable[[], Head]] = {
    "eagle": heads.right_head, "medusa": heads.right_medusa, "dflash": heads.right_dflash,
    "dspark": partial(heads.right_paths, False), "dflash2": partial(heads.right_paths, True),
}  # fmt: skip
"""Those that always draft what `cyclic_target` chooses."""


class Pair(NamedTuple):
    """A target and a drafter for it."""

    model: Model
    head: Head

    @property
    def method(self) -> str:
        return self.head.info.kind

    @property
    def tree(self) -> dict[str, Any]:
        return TREES[self.method]

    @property
    def chain(self) -> dict[str, Any]:
        return {**self.tree, "width": 1}

    def talk(self) -> Conversation:
        return Conversation(self.model, head=self.head, context=256)

    def run(self, prompt: Sequence[int], method: str = "", **options: Any) -> tuple[Generation, list[Step]]:
        talk = self.talk()
        generation = Generation(talk, prompt, method or self.method, **{"max_tokens": 32 if FULL else 24, **options})
        steps = list(generation)
        talk.close()
        return generation, steps


def right_mtp(family: str) -> Pair:
    """A model that repeats each token's successor, with MTP layers that know."""
    name, _, layers = family.partition(" ")
    model = mtp_target(name, True, int(layers or 1))
    head = load_mtp(model)
    assert head is not None
    return Pair(model, head)


def pair(name: str) -> Pair:
    """A drafter that knows nothing, beside its target."""
    world = (WORLDS | LLAMA)[name]()
    assert world.head is not None
    return Pair(world.model, world.head)


def prompts(count: int) -> list[list[int]]:
    rng = random.Random(3)
    return [[0, *(rng.randrange(8, 256) for _ in range(12))] for _ in range(count)]


@pytest.mark.parametrize("kind", ONE_OF_EACH)
def test_the_drafts_of_a_conversation_are_those_of_a_fresh_one(kind: str) -> None:
    """Memory comes from true states only, whatever was drafted, accepted and rejected before."""
    both, prompt = pair(kind), prompts(1)[0]
    talk = both.talk()
    list(Generation(talk, prompts(2)[1], both.method, settings=both.chain, max_tokens=MOST))
    generation, done = Generation(talk, prompt, both.method, settings=both.tree, max_tokens=MOST), 0
    for step in generation:
        tokens, fresh = [*prompt, *generation.answer[:done]], both.talk()
        if done:  # before that comes the prompt's own pass
            fresh.session.prefill(tokens[:-1])
            tree = next(Generation(fresh, tokens, both.method, settings=both.tree, max_tokens=MOST - done)).tree
            drafted, expected = (tree_.as_drafted(())[0] for tree_ in (step.tree, tree))  # before it was cut
            assert (drafted.tokens, drafted.parents) == (expected.tokens, expected.parents)
            assert step.drafted or done == MOST - 1
        done += len(step.tokens)
        fresh.close()
    talk.close()


@pytest.mark.parametrize("sampling", [Sampling(), SAMPLED], ids=["greedy", "sampled"])
@pytest.mark.parametrize("kind", [*RIGHT, pytest.param("llama.cpp", marks=needs_llama)])
def test_one_that_is_right_is_accepted_to_the_end_of_its_draft(kind: str, sampling: Sampling) -> None:
    both = Pair(*counting()) if kind == "llama.cpp" else Pair(heads.cyclic_target(), RIGHT[kind]())
    if kind == "llama.cpp" and not sampling.greedy:
        sampling = Sampling(temperature=0.2, seed=3)
    for settings in (both.chain, both.tree):
        generation, steps = both.run([0, 70, 71, 72], settings=settings, sampling=sampling)
        assert generation.answer == list(range(73, 73 + (32 if FULL else 24)))
        assert {len(step.tokens) for step in steps[1:-2]} == {2 if kind == "llama.cpp" else 4}


@pytest.mark.parametrize("family", [*FAMILIES, "glm4-moe 3"] if FULL else ["qwen3.5", "glm4-moe 3"])
def test_an_mtp_layer_that_is_right_is_accepted_to_the_depth_of_its_draft(family: str) -> None:
    both = right_mtp(family)
    for sampling, settings, depth in ((Sampling(), {**both.chain, "depth": 4}, 4), (SAMPLED, both.tree, 3)):
        generation, steps = both.run([0, 2, 70, 71], settings=settings, sampling=sampling)
        assert generation.answer == both.run([0, 2, 70, 71], "greedy", sampling=sampling)[0].answer
        assert {len(step.tokens) for step in steps[1:-2]} == {depth + 1}


@pytest.mark.parametrize("kind", ONE_OF_EACH)
def test_under_rejection_its_distributions_travel_along(kind: str) -> None:
    options: dict[str, Any] = {"sampling": Sampling(temperature=1.0, top_k=4, seed=5), "acceptance": Acceptance("rejection")}
    both = pair(kind)
    _, steps = both.run(prompts(1)[0], settings=both.tree, max_tokens=MOST, **options)
    drawn = [(step, parent, draws) for step in steps for parent, draws in (step.tree.probs or {}).items()]
    assert drawn
    for step, parent, draws in drawn:
        assert abs(float(draws.q.sum()) - 1) < 1e-4
        assert (draws.q > 0).sum() <= 4
        assert all(draws.q[step.tree.tokens[node]] > 0 and step.tree.parents[node] == parent for node in draws.nodes)


LOAD = r"\. Load one with --draft-model"


@pytest.mark.parametrize(
    ("method", "loaded", "words"),
    [
        ("eagle", None, "needs an EAGLE head trained for this model" + LOAD),
        ("medusa", "eagle eagle3", "needs Medusa heads trained for this model" + LOAD),
        ("dflash", None, "needs a DFlash drafter trained for this model" + LOAD),
        ("draft", "eagle eagle3", "needs a draft model" + LOAD),
        ("mtp", "eagle eagle3", "needs an MTP layer in the model's own checkpoint, and no other trained drafter"),
    ],
)
def test_without_a_drafter_of_its_kind_it_says_what_to_load(method: str, loaded: str | None, words: str) -> None:
    with pytest.raises(UserError, match=words):
        Generation(Conversation(heads.target(), head=pair(loaded).head if loaded else None), [1, 2, 3], method)


CHAIN: dict[str, Any] = {"width": 1, "depth": 5, "floor": 0, "cascade": False}


@pytest.mark.parametrize("sampling", [Sampling(), SAMPLED])
def test_prompt_lookup_drafts_in_the_heads_place_where_the_text_repeats_itself(sampling: Sampling) -> None:
    prompt = [0, 2, *range(40, 120), 7, *range(40, 48)]
    answers = []
    for cascade in (True, False):
        settings = {"depth": 2, "cascade": cascade}
        both = Pair(cyclic_target(), right_head())
        generation, steps = both.run(prompt, settings=settings, sampling=sampling, max_tokens=40)
        answers.append(generation.answer)
        assert (max(step.accepted for step in steps) > 2) is cascade
        assert (generation.totals.tokens_per_step > 4) is cascade
    assert answers[0] == answers[1] == list(range(48, 88))


def test_an_offered_head_is_loaded_by_the_method_that_needs_it_in_the_middle_of_an_answer() -> None:
    prompt = [0, 2, 70, 71, 72]
    loads = []

    def load() -> Any:
        loads.append(len(generation.tokens))
        return right_head()

    conversation = Conversation(cyclic_target(), head=load)
    generation = Generation(conversation, prompt, "greedy", max_tokens=40)
    steps = [next(generation) for _ in range(6)]
    assert not loads
    generation.switch("eagle", CHAIN)
    steps += list(generation)
    assert loads == [len(prompt) + 6]
    assert generation.answer == list(range(73, 113))
    assert [len(step.tokens) for step in steps[6:9]] == [1, 6, 6], "the text is read again before the first draft"
    second = Generation(conversation, prompt, "eagle", settings=CHAIN, max_tokens=40)
    assert second.reused == len(prompt) - 1
    assert len(next(second).tokens) == 6
    conversation.close()


def test_a_model_with_one_offers_the_method_by_itself() -> None:
    model = mtp_target("deepseek-v3")
    drafts = Drafters(ModelSelection(str(mtp_folder("deepseek-v3")), device="cpu"))
    drafts.join(model)
    reasons = refusals(model, drafts)
    assert "mtp" not in reasons
    assert reasons["eagle"] == "it needs an EAGLE head trained for this model. Load one with --draft-model."
    assert reasons["draft"] == "it needs a draft model. Load one with --draft-model."
    conversation = open_conversation(model, drafts)
    generation = Generation(conversation, prompts(1)[0], "mtp", max_tokens=8)
    assert any(step.drafted for step in generation)
    conversation.close()
    drafts.close()


POSITIONS = 8
PROMPT = "Write as JSON: name Anna, age 20, city Paris."


@functools.cache
def of_runtime(runtime: str, name: str) -> Model:
    """The built-in model or its draft model, in float32 (do not close it)."""
    if runtime == "llama.cpp":
        return load_model(str(gguf_of(builtin_path(name))), FLOAT32)
    return load_model(name, LoadOptions(device="cpu", dtype="float32", backend="transformers"))


@pytest.fixture(params=["transformers", pytest.param("llama.cpp", marks=needs_llama)])
def models(request: pytest.FixtureRequest) -> tuple[Model, Model]:
    return of_runtime(request.param, "builtin"), of_runtime(request.param, "builtin-draft")


@torch.inference_mode()
def wanted(tokens: list[int], masks: int) -> torch.Tensor:
    """transformers' choice after a text and a number of masks."""
    logits: torch.Tensor = network(builtin_path("builtin-draft"))(torch.tensor([[*tokens, *[MASK] * masks]])).logits[0]
    return logits[-masks - 1 :]


def test_each_position_is_what_transformers_says_behind_the_masks_which_leave_nothing(models: tuple[Model, Model]) -> None:
    target, draft = models
    generation = Generation(Conversation(target, draft_model=draft), encode_prompt(target, PROMPT), "pard", max_tokens=16)
    drafter: Any = generation.drafter
    # The first round takes in the prompt, later ones what was accepted.
    for _ in range(2):
        drafter.draft(generation._context())
        scores, _ = drafter._proposer._scores[0]
        torch.testing.assert_close(scores.logits, wanted(generation.tokens, POSITIONS - 1), atol=1e-3, rtol=1e-3)
        generation.advance()
    assert max(step.accepted for step in generation) > 1
    session = drafter._proposer.session
    held = list(session.tokens)
    assert held == list(generation.tokens)[: len(held)] != []
    torch.testing.assert_close(session.evaluate([70], [-1]).logits, wanted([*held, 70], 0), atol=1e-3, rtol=1e-3)


def test_other_draft_models_are_refused(builtin_model: Model) -> None:
    with pytest.raises(UserError, match=r"needs a PARD draft model.*\.$"):
        answered(builtin_model, PROMPT, "pard", draft=builtin_model)


ADDED = ("<|tool|>", "<|result|>")
WORD = " tool-word"
"""An added token that is text."""


@functools.cache
def folder(vocabulary: int) -> Path:
    """A model of which each id means the same in every size; what is added or padding is often chosen."""
    from transformers import LlamaConfig, LlamaForCausalLM

    path = room() / f"ids-{vocabulary}"
    shutil.copytree(builtin_path(), path, ignore=shutil.ignore_patterns("*.safetensors", "config.json", "*.gguf"))
    file = path / "tokenizer.json"
    data = json.loads(file.read_text(encoding="utf-8"))
    like = data["added_tokens"][0]
    for i, name in enumerate((*ADDED, WORD)[: max(0, vocabulary - VOCAB)]):
        data["added_tokens"].append({**like, "id": VOCAB + i, "content": name, "special": name != WORD})
    file.write_text(json.dumps(data), encoding="utf-8")
    torch.manual_seed(0)
    sizes: dict[str, Any] = {"hidden_size": 64, "intermediate_size": 96, "num_attention_heads": 4, "num_key_value_heads": 2}
    sizes |= {"num_hidden_layers": 1, "max_position_embeddings": 512, "bos_token_id": 1, "eos_token_id": 2, "pard_token": 3}
    model: Any = LlamaForCausalLM(LlamaConfig(vocab_size=VOCAB + 64, tie_word_embeddings=False, **sizes))
    with torch.no_grad():
        for weight in model.parameters():
            if weight.ndim > 1:
                weight.normal_(0, 0.3)
        model.lm_head.weight[VOCAB:] *= 2
    model.resize_token_embeddings(vocabulary)
    model.save_pretrained(path)
    return path


@functools.cache
def model_of(runtime: str, vocabulary: int) -> Model:
    if runtime == "llama.cpp":
        return load_model(str(gguf_of(folder(vocabulary))), FLOAT32)
    return load_model(str(folder(vocabulary)), LoadOptions(device="cpu", dtype="float32"))


def ids_of(target: Model) -> list[int]:
    """A prompt with every id that may be lacking elsewhere."""
    text = target.encode("The lamp is lit. The lamp is")
    added = range(VOCAB, target.info.vocabulary)
    return [*text, *added, *text, *added[:1]]


METHODS: dict[str, tuple[str, dict[str, Any]]] = {
    "draft": ("draft", {"schedule": "constant", "tokens": 6}),
    "tree": ("tree", {}),
    "pard": ("pard", {"floor": 0}),
}


SIZES = pytest.mark.parametrize("sizes", [(VOCAB + 3, VOCAB), (VOCAB, VOCAB + 64)], ids=["fewer", "more"])
"""The target's ids and the draft model's, which has fewer or more."""


@SIZES
@pytest.mark.parametrize("name", METHODS if FULL else ["draft", "pard"])
@pytest.mark.parametrize("runtime", ["transformers", pytest.param("llama.cpp", marks=needs_llama)])
def test_ids_that_one_side_lacks_are_neither_drafted_nor_read(runtime: str, name: str, sizes: tuple[int, int]) -> None:
    target, draft = (model_of(runtime, size) for size in sizes)
    prompt, (method, settings) = ids_of(target), METHODS[name]
    conversation = Conversation(target, draft_model=draft)
    cases: tuple[tuple[Rule, float], ...] = (("exact", 0.0), ("exact", 0.8), ("rejection", 0.8), ("soft", 0.8))
    for rule, temperature in cases:
        sampling = Sampling(temperature, repetition_penalty=1.1, seed=3)
        options: dict[str, Any] = {"sampling": sampling, "acceptance": Acceptance(rule), "max_tokens": 16}
        generation = Generation(conversation, prompt, method, settings=settings, **options)
        steps = list(generation)
        if rule == "exact":
            assert generation.answer == plain(target, prompt, sampling=sampling, max_tokens=16)
        assert generation.totals.drafted
        if draft.info.vocabulary > target.info.vocabulary and method == "draft" and rule != "soft":
            assert generation.totals.alpha == 1  # of the ids that both have, the two choose the same
        assert max(token for step in steps for token in step.tree.tokens) < target.info.vocabulary
        pending = [prompt[-1], *(step.tokens[-1] for step in steps)]
        for token, step in zip(pending, steps, strict=False):
            assert bool(step.note) == (token >= draft.info.vocabulary)


def test_a_tokenizer_that_knows_more_than_its_model(tmp_path: Path) -> None:
    """A prompt with such a token was an IndexError of torch's."""
    path = shutil.copytree(folder(VOCAB), tmp_path / "less")
    shutil.copy(folder(VOCAB + 3) / "tokenizer.json", path)
    model = load_model(str(path), LoadOptions(device="cpu", dtype="float32"))
    with pytest.raises(UserError, match=r"has the token 2,049, and .* has only 2,048 tokens"):
        Generation(Conversation(model), [*model.encode("The lamp"), VOCAB + 1])
    model.close()
