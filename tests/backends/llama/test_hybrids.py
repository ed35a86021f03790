"""Recurrent and hybrid GGUF models draft chains: whatever is refused, edited or asked again, the text is plain decoding's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from specchat.backends.base import ROOT
from specchat.backends.llama import proof
from specchat.backends.llama.context import Context
from specchat.backends.llama.model import LlamaModel, load_llama
from specchat.backends.llama.plain import LlamaHybridSession, LlamaPlainSession
from specchat.backends.llama.session import LlamaSession
from specchat.backends.sessions import chain
from specchat.decoders import Conversation, Generation
from specchat.decoders.base import Drafter
from specchat.decoders.registry import methods, unavailable

from ...cases import FULL
from ...fakes.answers import answered, plain
from ...fakes.models.llama_tiny import FLOAT32, needs_llama
from ...zoo import gguf_files as zoo

pytestmark = needs_llama

PROMPTS, TOKENS, LENGTHS = (20, 64, range(1, 17)) if FULL else (2, 24, (1, 5, 16))


def load(architecture: str, folder: Path, **options: Any) -> LlamaModel:
    """A tiny model whose answers end by no EOS."""
    model = load_llama(zoo.write(architecture, folder / "model.gguf"), architecture, replace(FLOAT32, **options))
    model.info = replace(model.info, eos_ids=())
    return model


def written(conversation: Conversation, prompt: list[int], draft: Drafter | None = None) -> list[int]:
    """An answer in a conversation, greedy or with this drafter."""
    generation = Generation(conversation, prompt, max_tokens=TOKENS)
    if draft is not None:
        generation.drafter = draft
    list(generation)
    return generation.answer


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
