"""Sessions and answers on llama.cpp: limits, failures, hidden states, recurrent models, llama.cpp's own tokens."""

from __future__ import annotations

import importlib
import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from specchat.backends import ROOT, LoadOptions, UserError, load_model
from specchat.backends.files.gguf_file import read_header
from specchat.backends.llama import prove, trial
from specchat.backends.llama.context import LlamaContext, Runtime, Weights
from specchat.backends.llama.model import LlamaModel, load_llama
from specchat.backends.llama.options import FLASH, LEAST_CONTEXT, USUAL_CONTEXT, usual_context
from specchat.backends.llama.prove import ROOM, SEED, SEQUENCES, attention_cost, attention_seconds
from specchat.backends.llama.session import LlamaHybridSession, LlamaPlainSession, LlamaSession
from specchat.backends.loading import builtin_gguf, builtin_path
from specchat.backends.sessions import chain
from specchat.decoders import Conversation, Drafter, Generation, encode_prompt
from specchat.decoders.registry import methods, unavailable
from specchat.plain_file import cache_folder

from ...cases import FULL
from ...fakes.answers import answered, plain
from ...fakes.models.llama_tiny import CONTEXT, FLOAT32, gguf_of, needs_llama, tiny_folder
from ...fakes.prompts import mixed_prompts
from ...zoo import gguf_files as zoo

pytestmark = needs_llama


def test_what_is_open_when_python_ends_is_left_to_the_process() -> None:
    weights: Any = Weights.__new__(Weights)
    weights.handle = 1
    weights.lib = None  # llama.cpp's module is gone
    weights.__del__(lambda: True)
    assert weights.handle == 1
    weights.handle = None


WITH_STATES = (
    "qwen35", "qwen35moe", "qwen3next", "lfm2", "lfm2moe", "nemotron_h", "nemotron_h_moe", "minimax-01", "llama",
    "qwen3", "qwen3moe", "gemma4", "gpt-oss", "minimax-m2", "mimo2", "hunyuan_vl",
)  # fmt: skip
WITHOUT_STATES = (
    "jamba", "kimi-linear", "falcon-h1", "granitehybrid", "mamba2", "plamo2", "qwen2",
    "deepseek4",
)  # fmt: skip


WIDE = ("deepseek4",)
"""Architectures whose last states are wider than llama.cpp takes them for."""

UNNAMED = ("plamo2",)
"""Architectures whose layers' outputs have names of their own."""


@pytest.mark.parametrize("architecture", (*WITH_STATES, *WITHOUT_STATES) if FULL else ("lfm2", "jamba"))
def test_which_architectures_hand_out_their_states_is_found_by_trying(
    architecture: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPECCHAT_CACHE", str(tmp_path))
    model = load_llama(zoo.write(architecture, tmp_path / "model.gguf"), architecture, FLOAT32)
    taps, text = (int(architecture in WITHOUT_STATES), model.info.layers - 1, model.info.layers), list(range(9, 21))
    if architecture in (*WIDE, *UNNAMED):
        if architecture in UNNAMED:
            model.open_session(64, taps[-1:]).prefill(text)
        for layers in (taps, taps[-1:]):
            with pytest.raises(UserError, match=f"does not hand out the hidden states of {architecture} models"):
                model.open_session(64, layers)
    else:
        if architecture in WITHOUT_STATES:  # what the first layer gets is no layer's output
            with pytest.raises(UserError, match=f"does not hand out the hidden states of {architecture} models"):
                model.open_session(64, (0, *taps))
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
    assert trial.trial_succeeds("inputs", architecture, tmp_path) == (architecture in WITH_STATES)
    model.close()


def test_a_trial_that_something_else_ended_is_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPECCHAT_CACHE", str(tmp_path))
    for code, remembered in ((-9, False), (1, False), (0, True)):
        monkeypatch.setattr(subprocess, "run", lambda command, code=code, **_: subprocess.CompletedProcess(command, code))
        assert trial.trial_succeeds("mtp", "lfm2", tmp_path) == (code == 0)
        assert (tmp_path / trial.FILE).exists() == remembered
    (tmp_path / trial.FILE).write_text("[]")
    assert not trial.trial_failed("mtp", "lfm2")


TOKENS = 64 if FULL else 24


def load(architecture: str, folder: Path, **options: Any) -> LlamaModel:
    """A tiny model whose answers end by no EOS."""
    model = load_llama(zoo.write(architecture, folder / "model.gguf"), architecture, replace(FLOAT32, **options))
    model.info = replace(model.info, eos_ids=())
    return model


def answer_ids(conversation: Conversation, prompt: list[int], draft: Drafter | None = None) -> list[int]:
    generation = Generation(conversation, prompt, max_tokens=TOKENS)
    if draft is not None:
        generation.drafter = draft
    list(generation)
    return generation.answer


def pass_sizes(session: Any, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Record the sizes of the session's passes."""
    sizes: list[int] = []
    decode = LlamaContext.decode

    def counting(self: LlamaContext, tokens: Sequence[int], *rest: Any) -> int:
        if self is session._llama_context:
            sizes.append(len(tokens))
        return decode(self, tokens, *rest)

    monkeypatch.setattr(LlamaContext, "decode", counting)
    return sizes


def test_asking_again_reads_nothing_again_and_an_edit_little(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = load("qwen35", tmp_path)
    conversation = Conversation(model, context=256)
    first = list(range(100, 140))
    answer = answer_ids(conversation, first)
    read = pass_sizes(conversation.session, monkeypatch)
    answer_ids(conversation, first)
    assert read[0] == 1, "the question's last token is the first pass"
    second = [*first, *answer, *range(200, 230)]
    del read[:]
    answer_ids(conversation, second)
    assert sum(read[:2]) == 31, "the answer's last token, and the question"
    del read[:]
    answer_ids(conversation, [*second[:-3], 7, 8])
    assert sum(read[:2]) == 30, "the question alone"
    # With little room the first go: an edit then reads from the start.
    monkeypatch.setattr(chain, "KEPT_BYTES", 1)
    answer_ids(conversation, second)
    del read[:]
    answer_ids(conversation, [*first[:-1], 9])
    assert sum(read[:2]) == 40
    model.close()


def test_a_library_that_grants_a_wrong_way_back_is_found_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def forgetful(self: LlamaContext, room: Any, length: int) -> bool:
        return self.remove(0, length, -1) or True  # true, and the state is that of the later token

    monkeypatch.setattr(LlamaContext, "restore", forgetful)
    model = load("mamba2", tmp_path)
    able = model.info.capabilities
    assert (able.tree, able.chain, able.states) == (False, False, False)
    assert {able.reasons[name] for name in ("tree", "chain")} == {prove.NEITHER}
    assert model.info.notes == (prove.NEITHER,)
    assert isinstance(model.open_session(64), LlamaPlainSession)
    drafting = {name for name, method in methods().items() if method.drafts}
    assert {name for name, method in methods().items() if unavailable(method, able)} == drafting
    assert len(answer_ids(Conversation(model, context=128), list(range(9, 30)))) == TOKENS
    model.close()


def test_what_a_hybrid_can_do_it_says(tmp_path: Path) -> None:
    model = load("jamba", tmp_path)
    able = model.info.capabilities
    assert (able.tree, able.chain) == (False, True)
    assert model.info.notes == (prove.CHAINS,)
    session = model.open_session(32)
    assert isinstance(session, LlamaHybridSession)
    assert not isinstance(session, LlamaSession)
    with pytest.raises(Exception, match="branching trees"):
        session.evaluate((5, 6), (ROOT, ROOT))
    session.close()
    prompt = list(range(9, 30)) * 2
    expected = plain(model, prompt, TOKENS, context=128)
    for name in ("lookup", "jacobi", "ngram"):
        assert answered(model, prompt, name, context=128, max_tokens=TOKENS)[0].answer == expected, name
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
        expected, answer = output[0, len(ids) :].tolist(), plain(model, ids, many)
        at = next((i for i, (ours, theirs) in enumerate(zip(answer, expected, strict=True)) if ours != theirs), None)
        if at is not None:
            with torch.inference_mode():
                logits = network(torch.tensor([ids + expected[:at]])).logits[0, -1]
            differences.append(float(logits[expected[at]] - logits[answer[at]]))
    print(f"{len(differences)} of {len(texts)} answers differ, first where the logits are {differences} apart")
    assert all(gap < 1e-3 for gap in differences)
    model.close()


IDS = [(31 * i + 7) % 2000 + 8 for i in range(40)]


def test_longrope_reads_a_text_alike_in_sessions_of_every_size(tmp_path: Path) -> None:
    # llama.cpp chooses the factors by the size of the context: these texts are short, and yet read with the long ones.
    file = zoo.write("llama-longrope-far", tmp_path / "far.gguf")
    logits = {}
    for context in (256, 1024):
        model = load_llama(file, "far", replace(FLOAT32, context=context))
        sizes = [len(IDS), *(size for size in (257, 1024) if size <= context)]
        logits[context] = torch.from_numpy(zoo.Plain(file, context).logits(IDS))
        for size in sizes:
            session: Any = model.open_session(size)
            assert session.context == size
            session.prefill(IDS[:-1])
            torch.testing.assert_close(session.evaluate(IDS[-1:], (ROOT,)).logits[0], logits[context], atol=1e-4, rtol=1e-4)
            session.close()
        model.close()
    assert (logits[256] - logits[1024]).abs().max() > 1


def refusal_of(file: Path) -> str:
    with pytest.raises(UserError) as caught:
        load_model(str(file), FLOAT32)
    sentence = str(caught.value)
    assert "\n" not in sentence
    assert str(file.name) in sentence
    return sentence


@pytest.fixture(scope="module")
def good() -> bytes:
    return gguf_of(tiny_folder()).read_bytes()


def test_files_that_are_cut_missing_or_parts(tmp_path: Path, good: bytes) -> None:
    for share in (0.01, 0.5, 0.999999):
        file = tmp_path / "short.gguf"
        file.write_bytes(good[: int(len(good) * share)])
        assert "incomplete" in refusal_of(file)
    file.write_bytes(b"")
    assert "not a GGUF file" in refusal_of(file)
    for part in (1, 2):
        (tmp_path / f"big-0000{part}-of-00003.gguf").write_bytes(good)
    assert "big-00003-of-00003.gguf next to it" in refusal_of(tmp_path / "big-00001-of-00003.gguf")
    assert "Give the first one" in refusal_of(tmp_path / "big-00002-of-00003.gguf")
    assert "There is no file" in refusal_of(tmp_path / "nothing.gguf")


def write(file: Path, architecture: str, fill: Callable[[Any], None] | None = None, tokenizer: bool = True) -> Path:
    """A GGUF file with hardly anything in it."""
    gguf: Any = importlib.import_module("gguf")
    writer = gguf.GGUFWriter(file, architecture)
    writer.add_context_length(64)
    writer.add_block_count(1)
    if tokenizer:
        writer.add_tokenizer_model("gpt2")
        writer.add_tokenizer_pre("qwen2")
        writer.add_token_list(["a", "b", "c"])
        writer.add_token_types([1, 1, 1])
        writer.add_token_merges(["a b"])
    if fill is not None:
        fill(writer)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return file


def one_tensor(writer: Any) -> None:
    writer.add_tensor("token_embd.weight", np.zeros((3, 32), np.float32))


MADE: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    "vocabulary": ({"architecture": "llama", "fill": None}, ("no language model with weights",)),
    "new": ({"architecture": "brandnew"}, ("architecture 'brandnew'", "pip install llama-cpp-python --upgrade")),
    "half": ({"architecture": "llama"}, ("key not found",)),
    "mmproj": ({"architecture": "clip"}, ("no language model", "mmproj")),
    "bare": ({"architecture": "llama", "tokenizer": False}, ("no language model with weights and tokenizer",)),
}


@pytest.mark.parametrize("name", MADE)
def test_what_is_no_whole_model_is_told_in_our_words(name: str, tmp_path: Path) -> None:
    options, phrases = MADE[name]
    sentence = refusal_of(write(tmp_path / f"{name}.gguf", **{"fill": one_tensor, **options}))
    assert all(words in sentence for words in phrases)
    assert "llama_model_load" not in sentence


def test_runtime_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    from specchat.backends.llama import library as llama_library

    monkeypatch.setitem(sys.modules, "llama_cpp", None)
    monkeypatch.setitem(sys.modules, "llama_cpp.llama_cpp", None)
    monkeypatch.setattr(llama_library, "library", llama_library.library.__wrapped__)
    with pytest.raises(UserError) as caught:
        load_model(str(gguf_of(tiny_folder())))
    assert str(caught.value).endswith(f"{sys.executable} -m pip install llama-cpp-python")


def test_context_too_large_for_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    from types import SimpleNamespace

    file = gguf_of(tiny_folder())
    # Keys and values of 3 layers, 2 heads of 16, float32: 768 bytes a token.
    monkeypatch.setattr("psutil.virtual_memory", lambda: SimpleNamespace(available=300_000))
    sentence = refusal_of(file)
    assert "takes 0.0 GB" in sentence
    assert "--context 256" in sentence
    model = load_model(str(file), LoadOptions(device="cpu", dtype="float32", context=256))
    assert model.open_session().context == 256
    monkeypatch.setattr("psutil.virtual_memory", lambda: SimpleNamespace(available=100_000))
    with pytest.raises(UserError, match="Close other programs"):
        model.open_session()
    model.close()


@pytest.mark.parametrize(("options", "sentence"), [
    (LoadOptions(device="cuda"), "CMAKE_ARGS"), (LoadOptions(device="cpu", gpu_layers=3), "Leave out --gpu-layers or --device"),
    (LoadOptions(dtype="int8"), "no --dtype int8"),
    (LoadOptions(kv_type="q8_0", flash_attention="off"), "needs flash attention"),
    (LoadOptions(context=CONTEXT + 1), "at most 512 tokens"),
])  # fmt: skip
def test_options_that_cannot_be(options: LoadOptions, sentence: str) -> None:
    with pytest.raises(UserError, match=sentence):
        load_model(str(gguf_of(tiny_folder())), options)


OPTIONS = LoadOptions(device="cpu", threads=1)


def test_a_context_that_nobody_asked_for_is_useful_and_fits() -> None:
    header = read_header(builtin_gguf())
    assert usual_context(header, Runtime(), 131_072) == USUAL_CONTEXT
    assert usual_context(header, Runtime(), 1_024) == 1_024
    prefix = header.architecture
    wide = {f"{prefix}.attention.key_length": 1 << 24, f"{prefix}.attention.value_length": 1 << 24}
    assert usual_context(replace(header, metadata={**header.metadata, **wide}), Runtime(), 131_072) == LEAST_CONTEXT


def test_attention_is_timed_behind_copies_of_a_text() -> None:
    """The cells are as many as the longest text has, in every setting, with a window and without."""
    weights = Weights(builtin_gguf(), Runtime(), lambda _: True)
    for runtime in (Runtime(flash_attention=FLASH["on"], type_k=30), Runtime(flash_attention=FLASH["off"])):
        for window in (0, 512):
            run = LlamaContext(weights, runtime, ROOM, SEQUENCES, rows=8)
            seconds = attention_seconds(run, list(range(SEED + 8)), window, lambda: None)
            assert len(seconds) == 4
            assert min(seconds) > 0
    assert attention_cost([2.0, 3.0], [1.0, 3.0]) == 1.5
    assert attention_cost([], [1.0]) == 1.0


def test_a_second_load_reads_what_the_first_one_proved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It makes no pass; another setting, another file, or a damaged record prove again."""
    monkeypatch.setenv("SPECCHAT_CACHE", str(tmp_path / "cache"))
    file = tmp_path / "model.gguf"
    shutil.copy(builtin_gguf(), file)

    def passes(**options: Any) -> int:
        reports: list[int] = []
        model = load_model(
            str(file), replace(OPTIONS, **options), progress=lambda stage, done, _: reports.append(stage == "check")
        )
        model.close()
        return sum(reports)

    first = passes()
    assert first > 20
    assert passes() == 1  # the last one, which says that the check is done
    assert passes(exact="on") > 20
    files = sorted((cache_folder() / "loads").iterdir())
    assert len(files) == 2
    assert {"capabilities", "seconds", "runtime", "measured"} == set(json.loads(files[0].read_text()))
    for record in files:
        record.write_text('{"capabilities": {"tree": 3, "colour": "red"}, "measured": 1e12}')
    assert passes() > 20
    shutil.copy(builtin_gguf(), file)
    assert passes() > 20
