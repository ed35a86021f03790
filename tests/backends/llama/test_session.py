"""Sessions and whole answers on llama.cpp: limits and failures, hidden states, recurrent models, llama.cpp's own tokens.
Failures and wrong libraries are patched in."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pytest
import torch

from specchat.backends import ROOT, UserError
from specchat.backends.llama import proof, trial
from specchat.backends.llama.context import Context, Weights
from specchat.backends.llama.library import version
from specchat.backends.llama.model import LlamaModel, load_llama
from specchat.backends.llama.plain import LlamaHybridSession, LlamaPlainSession
from specchat.backends.llama.session import LlamaSession
from specchat.backends.loading import builtin_path
from specchat.backends.sessions import chain
from specchat.decoders import Conversation, Generation, encode_prompt
from specchat.decoders.base import Drafter
from specchat.decoders.registry import methods, unavailable

from ...cases import FULL
from ...fakes.answers import answered, plain
from ...fakes.models.llama_tiny import FLOAT32, gguf_of, needs_llama, reference, tiny_folder
from ...fakes.models.mirror import Mirror, loose
from ...fakes.models.references import hidden, logits_of
from ...fakes.prompts import mixed_prompts
from ...zoo import gguf_files as zoo
from ...zoo.llama_zoo import Plain

pytestmark = needs_llama


def test_what_is_open_when_python_ends_is_left_to_the_process() -> None:
    weights: Any = Weights.__new__(Weights)
    weights.handle, weights.lib = 1, None  # llama.cpp's module is gone
    weights.__del__(lambda: True)
    assert weights.handle == 1
    weights.handle = None


LAST = (3, 1)
"""With the state after the final norm."""


@pytest.mark.parametrize("taps", [(2, 1, 2), LAST])
def test_outputs_of_layers_are_read_where_llama_cpp_does_not_note_their_inputs(
    taps: tuple[int, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPECCHAT_CACHE", str(tmp_path))
    trials = {"inputs llama": [version(), False], "last llama": [version(), True]}
    (tmp_path / trial.FILE).write_text(json.dumps(trials))
    model = load_llama(gguf_of(tiny_folder()), "tiny", FLOAT32)
    whole = reference()
    for seed in range(3):
        states = partial(hidden, whole, taps=taps)
        mirror = Mirror(model.open_session(256, taps), partial(logits_of, whole), same=loose, states=states)
        mirror.wander(Random(seed), range(8, 208), 8)
    with pytest.raises(UserError, match="does not hand out the hidden states of llama models"):
        model.open_session(64, (0, 1))  # what the first layer gets is no layer's output
    model.close()


TOLD = (
    *("qwen35", "qwen35moe", "qwen3next", "lfm2", "lfm2moe", "nemotron_h", "nemotron_h_moe", "bailingmoe3", "minimax-01"),
    *("llama", "qwen3", "qwen3moe", "gemma4", "gpt-oss", "minimax-m2", "mimo2", "hunyuan_vl"),
)
UNTOLD = (
    *("jamba", "qwen4exp", "kimi-k3", "kimi-linear", "glm5-next", "falcon-h1", "granitehybrid", "mamba2", "plamo2", "qwen2"),
    "deepseek4",
)


WIDE = ("deepseek4", "qwen4exp")
"""Whose last states are wider than llama.cpp takes them for."""

UNNAMED = ("glm5-next", "plamo2")
"""Whose layers' outputs have names of their own."""


@pytest.mark.parametrize("architecture", (*TOLD, *UNTOLD) if FULL else ("lfm2", "jamba"))
def test_which_architectures_hand_out_their_states_is_found_by_trying(
    architecture: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPECCHAT_CACHE", str(tmp_path))
    model = load_llama(zoo.write(architecture, tmp_path / "model.gguf"), architecture, FLOAT32)
    taps, text = (int(architecture in UNTOLD), model.info.layers - 1, model.info.layers), list(range(9, 21))
    if architecture in (*WIDE, *UNNAMED):
        if architecture in UNNAMED:
            model.open_session(64, taps[-1:]).prefill(text)
        for wanted in (taps, taps[-1:]):
            with pytest.raises(UserError, match=f"does not hand out the hidden states of {architecture} models"):
                model.open_session(64, wanted)
    else:
        session, single = model.open_session(64, taps), model.open_session(64, taps)
        session.prefill(text[:4])
        session.evaluate([*text[4:8], 70, 71], range(ROOT, 5))
        session.commit(range(4))
        session.evaluate([*text[8:], 72], range(ROOT, 4))
        session.commit(range(4))
        for token in text:
            single.evaluate([token], (ROOT,))
            single.commit((0,))
        torch.testing.assert_close(session.states(0, 12), single.states(0, 12), atol=2e-3, rtol=1e-3)
    # Kept: nobody tries a second time.
    monkeypatch.setattr(subprocess, "run", None)
    assert trial.works("inputs", architecture, tmp_path) == (architecture in TOLD)
    model.close()


def test_a_trial_that_something_else_ended_is_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPECCHAT_CACHE", str(tmp_path))
    for code, kept in ((-9, False), (1, False), (0, True)):
        monkeypatch.setattr(subprocess, "run", lambda command, code=code, **_: subprocess.CompletedProcess(command, code))
        assert trial.works("mtp", "lfm2", tmp_path) == (code == 0)
        assert (tmp_path / trial.FILE).exists() == kept
    (tmp_path / trial.FILE).write_text("[]")
    assert not trial.failed("mtp", "lfm2")


TOKENS = 64 if FULL else 24


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
    assert {able.reasons[name] for name in ("tree", "chain")} == {proof.UNRETURNING}
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


@pytest.mark.parametrize("folder", [tiny_folder, builtin_path])
def test_float32_answers_are_transformers_token_for_token(folder: Any) -> None:
    from transformers import AutoModelForCausalLM

    path: Path = folder()
    network: Any = AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32)
    network.eval()
    network.generation_config.eos_token_id = None
    model, many, texts = load_llama(gguf_of(path), "float32", FLOAT32), 128 if FULL else 40, mixed_prompts(50 if FULL else 2)
    model.info = replace(model.info, eos_ids=())
    differences = []
    for text in texts:
        ids = encode_prompt(model, text)
        with torch.inference_mode():
            output = network.generate(torch.tensor([ids]), do_sample=False, max_new_tokens=many, pad_token_id=0)
        wanted, found = output[0, len(ids) :].tolist(), plain(model, ids, many)
        at = next((i for i, (ours, theirs) in enumerate(zip(found, wanted, strict=True)) if ours != theirs), None)
        if at is not None:
            with torch.inference_mode():
                logits = network(torch.tensor([ids + wanted[:at]])).logits[0, -1]
            differences.append(float(logits[wanted[at]] - logits[found[at]]))
    print(f"{len(differences)} of {len(texts)} answers differ, first where the logits are {differences} apart")
    assert all(gap < 1e-3 for gap in differences)
    model.close()


IDS = [(31 * i + 7) % 2000 + 8 for i in range(40)]


def test_longrope_reads_a_text_alike_in_sessions_of_every_size(tmp_path: Path) -> None:
    # llama.cpp chooses the factors by the size of the context: these texts are short, and yet read with the long ones.
    file = zoo.write("llama-longrope-far", tmp_path / "far.gguf")
    found = {}
    for context in (256, 1024):
        model = load_llama(file, "far", replace(FLOAT32, context=context))
        sizes = [len(IDS), *(size for size in (257, 1024) if size <= context)]
        found[context] = torch.from_numpy(Plain(file, context).logits(IDS))
        for size in sizes:
            session: Any = model.open_session(size)
            assert session.context == size
            session.prefill(IDS[:-1])
            torch.testing.assert_close(session.evaluate(IDS[-1:], (ROOT,)).logits[0], found[context], atol=1e-4, rtol=1e-4)
            session.close()
        model.close()
    assert (found[256] - found[1024]).abs().max() > 1


def test_logits_of_a_token_that_is_decoded_alone(tmp_path: Path) -> None:
    # CogVLM's graph does not pick the rows that are asked for, so a pass of several gives those of its first tokens.
    file = zoo.write("cogvlm", tmp_path / "cogvlm.gguf")
    model = load_llama(file, "cogvlm", FLOAT32)
    model.info = replace(model.info, eos_ids=())
    generation = Generation(Conversation(model), IDS[:14], max_tokens=8)
    assert [token for step in generation for token in step.tokens] == Plain(file, 64).writes(IDS[:14], 8)
    model.close()
