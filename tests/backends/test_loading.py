"""Loading: what a model tells of itself, progress, cancellation; models that read longer texts otherwise."""

from __future__ import annotations

import functools
import random
import shutil
from collections.abc import Sequence
from functools import wraps
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import LlamaForCausalLM

from specchat.backends import Cancelled, LoadOptions, Model, UserError, load_model
from specchat.backends.hf import model as room
from specchat.backends.hf.masks import Reach
from specchat.backends.hf.model import BFLOAT16, load_transformers
from specchat.backends.hf.prove import Proven, unknown_lengths, with_bits
from specchat.backends.info import NOT_NUMBERS
from specchat.decoders import Conversation, Generation
from specchat.decoders.needs import PardModel, TrainedDrafter
from specchat.decoders.registry import methods, unavailable
from specchat.engine.lanes import logit_gap, step_probs
from specchat.engine.messages import MeasureGap, ScoreStep

from ..cases import FULL
from ..fakes.answers import answered
from ..fakes.models import tiny
from ..fakes.models.llama_tiny import gguf_of, needs_llama
from ..fakes.models.llama_tiny import tiny_folder as tiny_of_both
from ..fakes.models.tiny import CONTEXT, VOCAB, generated, network, reference, tiny_folder, tiny_model, write_configured


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return Path(shutil.copytree(tiny_folder("llama"), tmp_path / "model"))


def load(folder: Path, **options: Any) -> Any:
    return load_model(str(folder), LoadOptions(**{"device": "cpu", **options}))


def test_info_tells_the_model() -> None:
    info = tiny_model("llama").info
    assert (info.backend, info.device, info.dtype) == ("transformers", "cpu", "float32")
    assert (info.architecture, info.layers, info.vocabulary, info.context) == ("LlamaForCausalLM", 3, VOCAB, CONTEXT)
    assert info.eos_ids == (1,)
    assert info.has_template
    assert info.parameters == sum(p.numel() for p in reference("llama").parameters())
    assert not info.notes


@pytest.mark.parametrize("runtime", ["transformers", pytest.param("llama.cpp", marks=needs_llama)])
def test_a_model_that_computes_nan_says_so(runtime: str, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(tiny_of_both(), tmp_path / "nan"))
    tensors = load_file(folder / "model.safetensors")
    tensors["model.layers.1.mlp.down_proj.weight"][0, 0] = torch.nan
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    model = load(folder if runtime == "transformers" else gguf_of(folder))
    assert NOT_NUMBERS in model.info.notes
    assert not model.info.capabilities.chain
    model.close()


def test_a_model_whose_masks_are_ignored_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    # As if windows were not what we think they are: every node would see one position more.
    monkeypatch.setattr("specchat.backends.hf.proof.Reach", lambda window, chunk: Reach(window and window + 1, chunk))
    capabilities = load_transformers(tiny_folder("mistral"), "mistral", LoadOptions(device="cpu")).info.capabilities
    assert not capabilities.tree
    assert "Branching drafts would change" in capabilities.reasons["tree"]


@pytest.mark.parametrize("mishap", ["no number", "an error"])
def test_a_proof_that_a_mishap_spoilt_is_tried_once_more(
    mishap: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    original, calls = LlamaForCausalLM.forward, 0

    def forward(self: Any, **options: Any) -> Any:
        nonlocal calls
        calls += 1
        out = original(self, **options)
        if mishap == "no number" and calls == 1:  # the linear paths
            out.logits[:] = float("nan")
        if mishap == "an error" and calls == 2:  # what the layers cache
            raise ImportError("cannot import name 'Half' from partially initialized module")
        return out

    # The lean pass asks for the model's own `forward`, whose parameters count.
    monkeypatch.setattr(LlamaForCausalLM, "forward", wraps(original)(forward))
    capabilities = load_transformers(tiny_folder("llama"), "llama", LoadOptions(device="cpu")).info.capabilities
    assert (capabilities.tree, capabilities.chain, capabilities.layers, capabilities.reasons) == (True, True, True, {})
    assert "neither trees nor chains" in caplog.text
    assert mishap == "no number" or "ImportError: cannot import name 'Half'" in caplog.text


def test_a_load_is_cancelled_at_whatever_pass() -> None:
    sizes: list[int] = []

    def loaded(last: int) -> None:
        sizes.clear()
        load_model(
            str(tiny_folder("llama")),
            LoadOptions(device="cpu"),
            progress=lambda stage, done, total: sizes.append(done) if stage == "check" else None,
            cancelled=lambda: len(sizes) >= last,
        )

    loaded(1000)
    passes = len(sizes) - 1  # the last word comes without a pass
    assert passes > 8
    for last in range(1, passes + 1, 1 if FULL else 4):
        with pytest.raises(Cancelled):
            loaded(last)
        assert len(sizes) == last


@needs_llama
@pytest.mark.parametrize("stage", ["weights", "check"])
def test_loading_on_llama_cpp_can_be_cancelled(stage: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPECCHAT_CACHE", str(tmp_path))  # nothing is proved yet
    stages: list[str] = []
    with pytest.raises(Cancelled):
        load_model(
            str(gguf_of(tiny_of_both())),
            LoadOptions(device="cpu"),
            progress=lambda name, *_: stages.append(name),
            cancelled=lambda: stage in stages,
        )
    assert stages[-1] == stage


def test_dtype_context_and_threads_are_taken(folder: Path) -> None:
    info = load(folder, dtype="bfloat16", context=100, threads=1).info
    assert (info.dtype, info.context, torch.get_num_threads()) == ("bfloat16", 100, 1)


def test_a_context_beyond_the_models_and_a_model_beyond_memory_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UserError, match=f"at most {CONTEXT} tokens"):
        load(tiny_folder("llama"), context=CONTEXT + 1)
    monkeypatch.setattr("specchat.backends.hf.devices.free_memory", lambda device: 1000)
    with pytest.raises(UserError, match=r"needs 0\.0 GB on cpu, but 0\.0 GB are free"):
        load(tiny_folder("llama"))


@pytest.fixture
def halved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A tiny model in bfloat16."""
    from transformers import AutoModelForCausalLM

    whole: Any = AutoModelForCausalLM.from_pretrained(tiny_folder("llama"), dtype=torch.bfloat16)
    whole.save_pretrained(tmp_path)
    for file in tiny_folder("llama").glob("*token*"):
        (tmp_path / file.name).write_bytes(file.read_bytes())
    monkeypatch.setattr(room, "quick_in_bfloat16", lambda: True)
    return tmp_path


def test_a_file_in_bfloat16_runs_in_it_and_says_so(halved: Path) -> None:
    model = load_transformers(halved, "half", LoadOptions(device="cpu"))
    # In float32 only if its bits sent it back.
    assert (BFLOAT16 in model.info.notes) == (model.info.dtype == "bfloat16")
    for dtype in ("float32", "bfloat16"):
        model = load_transformers(halved, "half", LoadOptions(device="cpu", dtype=dtype))
        assert model.info.dtype == dtype
        assert BFLOAT16 not in model.info.notes


def test_without_the_same_bits_it_runs_in_float32(halved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def moved(*args: Any, **named: Any) -> Proven:
        proven = with_bits(*args, **named)
        return proven.changed(exact=False) if proven.runner.dtype == torch.bfloat16 else proven

    monkeypatch.setattr(room, "with_bits", moved)
    assert load_transformers(halved, "half", LoadOptions(device="cpu")).info.dtype == "float32"
    assert load_transformers(halved, "half", LoadOptions(device="cpu", exact="off")).info.dtype == "bfloat16"


LIMIT = 40
"""Tokens of text up to which LongRoPE has its short factors."""
SIZES: dict[str, Any] = {**tiny.SIZES, "num_hidden_layers": 2, "pad_token_id": 1}


def longrope(**more: Any) -> dict[str, Any]:
    factors = {"short_factor": [1.0] * 4, "long_factor": [1.0, 4.0, 7.0, 10.0]}
    return {"rope_type": "longrope", "rope_theta": 1e4, **factors, "original_max_position_embeddings": LIMIT, **more}


NEO = {"vocab_size": VOCAB, "max_position_embeddings": CONTEXT, "hidden_size": 32, "num_layers": 2, "num_heads": 4}
NEO |= {"window_size": 24, "bos_token_id": 0, "eos_token_id": 1}
CONFIGS: dict[str, tuple[str, dict[str, Any]]] = {
    "phi3": (
        "Phi3",
        {**SIZES, "original_max_position_embeddings": LIMIT, "rope_parameters": longrope(partial_rotary_factor=1.0)},
    ),
    "llama": ("Llama", {**SIZES, "rope_parameters": longrope()}),
    "gpt-neo": ("GPTNeo", NEO | {"attention_types": [[["global", "local"], 1]]}),
}


@functools.cache
def folder_of(kind: str, lengths_room: Path) -> Path:
    return write_configured(*CONFIGS[kind], lengths_room / kind)


@pytest.fixture(scope="module")
def lengths_room(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("lengths")


@functools.cache
def loaded(folder: Path) -> Any:
    return load_transformers(folder, folder.name, LoadOptions(device="cpu", dtype="float32"))


def prompt_of(length: int) -> list[int]:
    rng = random.Random(length)
    part = [rng.randrange(4, VOCAB) for _ in range(max(1, length // 3))]
    return [
        token for token, _ in zip(cycle(part), range(length), strict=False)
    ]  # which repeats itself, so that drafts are found


def own(folder: Path, prompt: Sequence[int], count: int) -> list[int]:
    """Generate with transformers, until EOS."""
    return generated(network(folder), prompt, count, eos_token_id=1, pad_token_id=1)


def drafting(model: Model) -> list[str]:
    names = []
    for name, method in methods().items():
        offered = method.label == "identical" and not method.needs(TrainedDrafter, PardModel)
        if offered and not unavailable(method, model.info.capabilities, draft_model=True):
            names.append(name)
    return names


def answers(conversation: Conversation, prompt: Sequence[int], method: str, count: int, **options: Any) -> Generation:
    generation = Generation(conversation, prompt, method, max_tokens=count, **options)
    list(generation)
    return generation


@pytest.mark.parametrize("kind", ["phi3", "llama"])
def test_longrope_reads_a_text_as_the_models_own_generate_does(kind: str, lengths_room: Path) -> None:
    folder = folder_of(kind, lengths_room)
    model = loaded(folder)
    assert model.info.capabilities.tree
    names = drafting(model)
    assert len(names) > 10
    lengths = (5, LIMIT - 8, LIMIT - 1, LIMIT, LIMIT + 1, 3 * LIMIT)
    for length in lengths if FULL else lengths[1:5:2]:
        prompt = prompt_of(length)
        expected = own(folder, prompt, 24)
        for name in names if FULL or (length, kind) == (LIMIT - 8, "phi3") else ("greedy", "lookup", "tree"):
            assert answered(model, prompt, name, draft=model, max_tokens=24)[0].answer == expected, (name, length)


@pytest.mark.parametrize(("kind", "length"), [("phi3", LIMIT - 8), ("llama", LIMIT + 8)])
def test_what_is_asked_about_an_answer_is_read_as_the_answer_was(kind: str, length: int, lengths_room: Path) -> None:
    folder = folder_of(kind, lengths_room)
    model, position = loaded(folder), 16
    conversation = Conversation(model)
    answer = answers(conversation, prompt_of(length), "greedy", 24)
    ids = torch.tensor([prompt_of(length)])
    logits = network(folder).generate(
        ids, attention_mask=torch.ones_like(ids), max_new_tokens=position + 1, do_sample=False, output_logits=True,
        return_dict_in_generate=True,
    )  # fmt: skip
    expected = logits.logits[position][0]
    token = answer.answer[position]
    assert token == expected.argmax()
    gap = logit_gap(MeasureGap(1, "a", position, 9), model, answer).gap
    assert gap == pytest.approx(float(expected[token] - expected[9]), abs=1e-3)
    answers(conversation, prompt_of(3 * LIMIT), "greedy", 1)  # of another length
    request = ScoreStep(1, position, token)
    (probabilities,) = step_probs(request, conversation, (answer.tokens, answer.prompt_tokens))
    assert probabilities == pytest.approx(float(expected.softmax(-1)[token]), abs=1e-3)
    conversation.close()


def test_a_window_under_another_name_is_left_to_the_models_own_masks(lengths_room: Path) -> None:
    folder = folder_of("gpt-neo", lengths_room)
    model = loaded(folder)
    able = model.info.capabilities
    assert unknown_lengths(model.module.config) == {"window_size": 24}
    assert (able.tree, able.chain) == (False, True)
    assert "24 tokens (window_size in its configuration)" in able.reasons["tree"]
    assert able.reasons["tree"] in model.info.notes
    for name in drafting(model) if FULL else ("greedy", "lookup", "draft"):
        generation, _ = answered(model, prompt_of(18), name, draft=model, max_tokens=24)
        assert generation.answer == own(folder, prompt_of(18), 24), name
