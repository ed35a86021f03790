"""Recurrent and hybrid GGUF models draft chains: whatever is refused, edited or asked again, the text is plain decoding's."""

from __future__ import annotations

import multiprocessing
import random
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from specchat.backends.base import ROOT
from specchat.backends.llama import proof
from specchat.backends.llama.context import Context
from specchat.backends.llama.model import LlamaModel, load_llama
from specchat.backends.llama.plain import LlamaHybridSession, LlamaPlainSession
from specchat.backends.llama.session import LlamaSession
from specchat.backends.sessions import chain
from specchat.decoders import Conversation, Generation
from specchat.decoders.base import Context as Step
from specchat.decoders.base import Drafter
from specchat.decoders.registry import methods, unavailable
from specchat.decoders.tree import Tree

from ...cases import FULL
from ...fakes.answers import answered, plain
from ...fakes.models.llama_tiny import FLOAT32, needs_llama
from ...fakes.models.mirror import wander_chain
from ...zoo import gguf_files as zoo
from ...zoo.llama_zoo import Plain

pytestmark = needs_llama

SNAPSHOTS = (
    *("qwen35", "qwen35moe", "qwen4exp", "lfm2", "lfm2moe", "nemotron_h", "nemotron_h_moe", "bailingmoe3", "kimi-k3"),
    *("glm5-next", "deepseek4"),
)
OTHERS = (
    *("qwen3next", "minimax-01", "granitehybrid", "falcon-h1", "plamo2", "jamba", "kimi-linear", "mamba", "mamba2"),
    *("rwkv6", "rwkv7", "arwkv7"),
)
"""Architectures of which llama.cpp keeps no states itself."""
FEW = ("lfm2", "mamba2", "qwen35")
PROMPTS, TOKENS, LENGTHS = (20, 64, range(1, 17)) if FULL else (2, 24, (1, 5, 16))


def load(architecture: str, folder: Path, **options: Any) -> LlamaModel:
    """A tiny model whose answers end by no EOS."""
    model = load_llama(zoo.write(architecture, folder / "model.gguf"), architecture, replace(FLOAT32, **options))
    model.info = replace(model.info, eos_ids=())
    return model


class Foreseen(Drafter):
    """Drafts the true text, wrong in one place that moves from step to step, or in none.

    Args:
        length: of a draft.
        truth: the prompt and its answer.
    """

    name = "foreseen"

    def __init__(self, length: int, truth: Sequence[int]) -> None:
        super().__init__()
        self._length, self._truth, self._turn = length, list(truth), 0

    def draft(self, context: Step) -> Tree:
        at = len(context.tokens)
        draft = self._truth[at : at + min(self._length, context.room)]
        if (wrong := self._turn % (self._length + 1)) < len(draft):
            draft[wrong] = draft[wrong] % 2000 + 9
        self._turn += 1
        return Tree.chain(context.pending, draft)


def written(conversation: Conversation, prompt: list[int], draft: Drafter | None = None) -> list[int]:
    """An answer in a conversation, greedy or with this drafter."""
    generation = Generation(conversation, prompt, max_tokens=TOKENS)
    if draft is not None:
        generation.drafter = draft
    list(generation)
    return generation.answer


def differing(architecture: str, folder: Path) -> list[str]:
    """Which answers, of all prompts and lengths, are not plain decoding's; a conversation for each length goes through new
    prompts; every fifth one is asked again, answered and edited."""
    model, rng = load(architecture, folder), random.Random(7)
    assert model.info.capabilities.chain, model.info.notes
    some = [[rng.randrange(8, 2000) for _ in range(rng.randrange(5, 40))] for _ in range(PROMPTS)]
    truth: dict[tuple[int, ...], list[int]] = {}

    def plain(prompt: list[int]) -> list[int]:
        if tuple(prompt) not in truth:
            conversation = Conversation(model, context=256)
            truth[tuple(prompt)] = written(conversation, prompt)
            conversation.close()
        return truth[tuple(prompt)]

    bad = []
    for length in LENGTHS:
        conversation = Conversation(model, context=256)
        for number, prompt in enumerate(some):
            turn = [*prompt, *plain(prompt), 9, 8]
            edited = [*turn[:-1], 77, 78]
            turns = (("new", prompt), ("again", prompt), ("next", turn), ("edit", edited), ("back", prompt[:-1]))
            for name, asked in turns[: 1 if number % 5 else None]:
                found = written(conversation, asked, Foreseen(length, [*asked, *plain(asked)]))
                if found != plain(asked):
                    bad.append(f"{architecture}, {length} drafts, prompt {number}, {name}")
        conversation.close()
    first = some[0]
    if Plain(folder / "model.gguf", 256).writes(first, 24) != plain(first)[:24]:
        bad.append(f"{architecture}: not what llama.cpp writes one by one")
    model.close()
    return bad


@pytest.mark.parametrize("architecture", (*SNAPSHOTS, *OTHERS) if FULL else FEW)
def test_whatever_is_drafted_the_text_is_plain_decodings(architecture: str, tmp_path: Path) -> None:
    if not FULL:
        assert differing(architecture, tmp_path) == []
        return
    # In a process of its own: what llama.cpp is not meant to be asked ends it.
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        assert pool.submit(differing, architecture, tmp_path).result() == []


def fed(session: Any, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many tokens each pass reads from now on."""
    sizes: list[int] = []
    decode = Context.decode

    def counting(self: Context, tokens: Sequence[int], *rest: Any) -> int:
        if self is session._run:
            sizes.append(len(tokens))
        return decode(self, tokens, *rest)

    monkeypatch.setattr(Context, "decode", counting)
    return sizes


def test_asking_again_reads_nothing_again_and_an_edit_little(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = load("qwen35", tmp_path)
    conversation = Conversation(model, context=256)
    first = list(range(100, 140))
    answer = written(conversation, first)
    read = fed(conversation.session, monkeypatch)
    written(conversation, first)
    assert read[0] == 1, "the question's last token is the first pass"
    second = [*first, *answer, *range(200, 230)]
    del read[:]
    written(conversation, second)
    assert sum(read[:2]) == 31, "the answer's last token, and the question"
    del read[:]
    written(conversation, [*second[:-3], 7, 8])
    assert sum(read[:2]) == 30, "the question alone"
    # With little room the first go: an edit then reads from the start.
    monkeypatch.setattr(chain, "KEPT_BYTES", 1)
    written(conversation, second)
    del read[:]
    written(conversation, [*first[:-1], 9])
    assert sum(read[:2]) == 40
    model.close()


def test_a_library_that_grants_a_wrong_way_back_is_found_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def forgetful(self: Context, room: Any, seen: int) -> bool:
        return self.remove(0, seen, -1) or True  # true, and the state is that of the later token

    monkeypatch.setattr(Context, "restore", forgetful)
    model = load("mamba2", tmp_path)
    able = model.info.capabilities
    assert (able.tree, able.chain, able.states) == (False, False, False)
    assert set(able.reasons.values()) == {proof.UNRETURNING}
    assert model.info.notes == (proof.UNRETURNING,)
    assert isinstance(model.open_session(64), LlamaPlainSession)
    drafting = {name for name, method in methods().items() if method.drafts}
    assert {name for name, method in methods().items() if unavailable(method, able)} == drafting
    assert len(written(Conversation(model, context=128), list(range(9, 30)))) == TOKENS
    model.close()


def test_what_a_hybrid_can_do_it_says(tmp_path: Path) -> None:
    model = load("jamba", tmp_path)
    able = model.info.capabilities
    assert (able.tree, able.chain) == (False, True)
    assert model.info.notes == (proof.RECURRENT,)
    session = model.open_session(32)
    assert isinstance(session, LlamaHybridSession)
    assert not isinstance(session, LlamaSession)
    with pytest.raises(Exception, match="branching trees"):
        session.evaluate((5, 6), (ROOT, ROOT))
    session.close()
    prompt = list(range(9, 30)) * 2
    wanted = plain(model, prompt, TOKENS, context=128)
    for name in ("lookup", "jacobi", "ngram"):
        assert answered(model, prompt, name, context=128, max_tokens=TOKENS)[0].answer == wanted, name
    model.close()


@pytest.mark.parametrize("architecture", FEW)
def test_whatever_is_refused_passes_give_the_texts_own_logits(architecture: str, tmp_path: Path) -> None:
    model, rng = load(architecture, tmp_path), random.Random(5)
    session: Any = model.open_session(256)
    fresh: Any = model.open_session(256)

    def right(text: list[int], count: int, logits: torch.Tensor) -> None:
        fresh.rewind(0)
        wanted = fresh.evaluate(text, range(ROOT, len(text) - 1), range(len(text) - count, len(text))).logits
        torch.testing.assert_close(logits, wanted, atol=1e-3, rtol=1e-3)

    for _ in wander_chain(session, rng, 120 if FULL else 25, lambda: rng.randrange(8, 2000), right):
        pass
    model.close()
