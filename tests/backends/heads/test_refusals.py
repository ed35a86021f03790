"""Trained drafters that are damaged or of another model are one sentence; those in GGUF and Gemma 4's against torch."""

from __future__ import annotations

import importlib
import random
import shutil
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from specchat.backends import ROOT, LoadOptions, UserError, load_model
from specchat.backends.files.checkpoint import check_folder
from specchat.backends.files.gguf_file import read_layout
from specchat.backends.heads.assistant import AssistantSession
from specchat.backends.heads.base import PathHead
from specchat.backends.heads.folders import read_format
from specchat.backends.heads.load import load_head as load_format
from specchat.backends.heads.mtp.format import mtp_format
from specchat.backends.heads.mtp.load import load_mtp
from specchat.backends.hf.model import load_transformers
from specchat.backends.llama.drafters.load import load_gguf_mtp, numbers
from specchat.backends.llama.model import load_llama
from specchat.backends.loading import find_model
from specchat.decoders import Conversation, Generation
from specchat.engine.drafts import Drafters, refusals
from specchat.engine.options import ModelSelection

from ...cases import FULL
from ...fakes.drafters import gguf_heads
from ...fakes.drafters.dflash_files import write_dflash
from ...fakes.drafters.head_files import Style, load_weights, write_head, write_medusa
from ...fakes.drafters.heads import load
from ...fakes.drafters.mtp_files import LAYERS as GLM_LAYERS
from ...fakes.drafters.mtp_files import WIDTH, Family, mtp_folder, published, write_mtp
from ...fakes.models.gemma import VOCAB as GEMMA_VOCAB
from ...fakes.models.gemma import WIDTH as GEMMA_WIDTH
from ...fakes.models.gemma import (
    WINDOW,
    gemma,
    gemma_file,
    gemma_folder,
    gemma_llama,
    load_assistant,
    load_assistant_file,
    random_assistant_file,
    whole_assistants,
    write_assistant,
)
from ...fakes.models.gguf_changes import changed
from ...fakes.models.llama_tiny import FLOAT32, needs_llama, tiny_llama
from ...fakes.models.tiny import VOCAB, tiny_folder
from ...fakes.models.toy import ToyModel
from ...zoo import gguf_files as zoo

Case = tuple[dict[str, Any], str]
"""Options of its writer, and what is said."""
MISFIT, UNREAD = "does not fit target: its weights do not match its config.json", "cannot read the drafter in .*drafter"
EAGLE: dict[str, Case] = {
    "missing": ({"changes": {"midlayer.mlp.up_proj.weight": None}}, rf"{MISFIT} \(it lacks layers.0.mlp.up_proj.weight\)"),
    "shape": ({"changes": {"norm.weight": torch.ones(31)}}, MISFIT),
    "unknown": ({"changes": {"midlayer.gate.weight": torch.ones(3)}}, "does not know layers.0.gate.weight"),
    "vocabulary": ({"vocab_size": 300}, "a vocabulary of 300 tokens, and target has 256"),
    "scaled": ({"vocab_size": "many", "rms_norm_eps": "small"}, MISFIT),
    "width": ({"target_hidden_size": 64}, "hidden states 64 numbers wide, and those of target have 32"),
    "eagle1 width": ({"style": "eagle1", "hidden": 48}, "hidden states 48 numbers wide"),
    "taps": ({"eagle_aux_hidden_state_layer_ids": [1, 2]}, "its fc.weight reads 96 numbers, and 2 layers give 64"),
    "no such layer": ({"taps": (1, 2, 9)}, "layers that target does not have, which has 6"),
    "nan": ({"changes": {"fc.weight": torch.full((32, 96), torch.nan)}}, "fc.weight holds no plain numbers"),
    "no d2t": ({"drafted": 100, "changes": {"d2t": None}}, "it drafts from 100 tokens"),
    "d2t twice": (
        {"drafted": 100, "changes": {"d2t": -torch.arange(100)}},
        "d2t does not lead to the target's tokens, each once",
    ),
    "quantized": ({"changes": {"fc.weight": torch.ones((32, 96), dtype=torch.int8)}}, "fc.weight holds no plain numbers"),
    "rope": ({"rope_scaling": {"rope_type": "magic", "factor": 2.0}}, MISFIT),
    "layer list": ({"eagle_aux_hidden_state_layer_ids": "all"}, UNREAD),
}
DFLASH: dict[str, Case] = {
    "no mask": ({"inner": {"mask_token_id": None}}, UNREAD),
    "block": ({"block": 1}, rf"{UNREAD} \(block_size is 1\)"),
    "layer types": ({"layer_types": ["linear_attention"] * 2}, rf"{UNREAD} \(layer_types is "),
    "window": ({"layer_types": ["sliding_attention", "full_attention"]}, rf"{UNREAD} \(swa_window_size is None"),
}
W1 = "markov_head.markov_w1.weight"
STEPPING: dict[str, tuple[str, dict[str, Any], str]] = {
    "no head": ("", {"markov_rank": 12}, f"it lacks {W1}"),
    "kind": ("vanilla", {"inner": {"markov_head_type": "lstm"}}, "markov_head_type is 'lstm'"),
    "a part": ("dflash2", {"layout": "speculators", "drafted": 100}, "DFlash 2 with a part of the vocabulary"),
}
"""DSpark and DFlash 2."""
MEDUSA: dict[str, Case] = {
    "width": ({"changes": {"0.1.weight": torch.ones(VOCAB, 48)}}, "hidden states 48 numbers wide, and those of target have 32"),
    "vocabulary": ({"vocab_size": 300}, "a vocabulary of 300 tokens, and target has 256. It was made for owner/base"),
    "none": ({"heads": 0, "changes": {"x": torch.ones(1)}}, UNREAD),
}
ASSISTANT: dict[str, Case] = {
    "width": ({"backbone_hidden_size": 48}, f"hidden states 48 numbers wide, and those of gemma have {GEMMA_WIDTH}"),
    "rope": ({"text_rope_parameters": {"full_attention": {"rope_type": "yarn", "rope_theta": 1.0}}}, "rope_type is 'yarn'"),
    "ordering": (
        {"ordered": True, "changes": {"masked_embedding.token_ordering": torch.ones(GEMMA_VOCAB)}},
        "holds no plain numbers",
    ),
}
Writer = Callable[..., Path]
WRONG: dict[str, tuple[Writer, dict[str, Any], str]] = {
    **{f"EAGLE, {name}": (write_head, *case) for name, case in EAGLE.items()},
    **{f"DFlash, {name}": (write_dflash, *case) for name, case in DFLASH.items()},
    **{
        f"path, {name}": (write_dflash, {"paths": paths, **options}, sentence)
        for name, (paths, options, sentence) in STEPPING.items()
    },
    **{f"Medusa, {name}": (write_medusa, *case) for name, case in MEDUSA.items()},
    **{f"assistant, {name}": (write_assistant, *case) for name, case in ASSISTANT.items()},
}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_drafter_is_refused_in_one_sentence(case: str, tmp_path: Path) -> None:
    writer, options, words = WRONG[case]
    folder = writer(tmp_path / "drafter", **options)
    with pytest.raises(UserError, match=words) as caught:
        load(folder, gemma() if writer is write_assistant else None)
    assert "\n" not in str(caught.value)


MTP: dict[str, tuple[dict[str, torch.Tensor | None], str]] = {
    "missing": ({"self_attn.o_proj.weight": None}, "it lacks self_attn.o_proj.weight"),
    "an expert": ({"mlp.experts.2.up_proj.weight": None}, "it lacks mlp.experts.2.up_proj.weight"),
    "shape": ({"eh_proj.weight": torch.ones(WIDTH, WIDTH)}, r"eh_proj.weight has the shape \[32, 32\] instead of \[32, 64\]"),
    "nan": ({"hnorm.weight": torch.full((WIDTH,), torch.nan)}, "hnorm.weight holds no plain numbers"),
    "unknown": ({"gate.weight": torch.ones(3)}, "specchat does not know gate.weight"),
}


@pytest.mark.parametrize(("family", "cases"), [("glm4-moe", tuple(MTP)), ("mimo", ("shape",))])
def test_a_wrong_mtp_layer_is_refused_and_the_model_still_loads(family: Family, cases: tuple[str, ...], tmp_path: Path) -> None:
    whole, model = (
        load_file(mtp_folder(family) / "model.safetensors"),
        load_transformers(mtp_folder(family), "m", LoadOptions()),
    )
    whole = load_file(mtp_folder(family) / "model.safetensors")
    model = load_transformers(mtp_folder(family), "model", LoadOptions(device="cpu"))
    for case in cases:
        changes, words = MTP[case]
        folder = shutil.copytree(mtp_folder(family), tmp_path / case)
        tensors = whole | {published(family, 0, name): tensor for name, tensor in changes.items()}
        save_file({name: t for name, t in tensors.items() if t is not None}, folder / "model.safetensors", {"format": "pt"})
        model.info = replace(model.info, path=str(folder))
        with pytest.raises(UserError, match=words) as caught:
            load_mtp(model)
        assert "\n" not in str(caught.value)
    drafts = Drafters(ModelSelection(str(folder), device="cpu"))
    drafts.join(model)
    assert refusals(model, drafts)["mtp"] == str(caught.value)
    assert drafts.head is None


def test_a_checkpoint_without_its_first_layer_is_refused(tmp_path: Path) -> None:
    folder = write_mtp(tmp_path / "model", "mimo", layers=3)
    tensors = load_file(folder / "model.safetensors")
    save_file({name: t for name, t in tensors.items() if ".mtp_layers.0." not in name}, folder / "model.safetensors")
    with pytest.raises(UserError, match="has MTP layers but not the first of them"):
        mtp_format(folder, GLM_LAYERS)


def test_a_head_is_told_by_its_tensors_and_a_model_is_none(tmp_path: Path) -> None:
    titles: dict[Style, str] = {"eagle1": "EAGLE-1", "eagle3": "EAGLE-3", "speculators": "EAGLE-3", "deepspec": "EAGLE-3"}
    for style, title in titles.items():
        folder = write_head(tmp_path / "a-model-of-no-kind" / style, style, taps=(1, 2, 3) if style == "deepspec" else None)
        layout = read_format(folder, check_folder(folder))
        assert layout is not None
        assert layout.title == title
    # What the configuration alone might tell is not asked.
    two = write_head(tmp_path / "two", "eagle3", taps=(1, 3), architectures=["LlamaForCausalLM"])
    assert load(two).info.title == "EAGLE-3"
    assert read_format(tiny_folder("llama"), check_folder(tiny_folder("llama"))) is None


def test_a_pickle_is_refused_with_a_command_that_converts_it(tmp_path: Path) -> None:
    import subprocess
    import sys

    folder = write_head(tmp_path / "a head's folder")
    weights = load_weights(folder)
    # A command that is told is data of others: it may not run what a name says.
    torch.save(weights, folder / "pytorch_model$(touch PASTED)`touch PASTED`.bin")
    (folder / "model.safetensors").unlink()
    with pytest.raises(UserError, match="only pickled weights") as caught:
        find_model(str(folder))
    command = str(caught.value).partition("once with `python ")[2].removesuffix("`.")
    subprocess.run(f"{sys.executable} {command}", shell=True, check=True, cwd=tmp_path)
    assert not (tmp_path / "PASTED").exists()
    (file,) = folder.glob("*.safetensors")
    assert load_file(file).keys() == weights.keys()
    assert load(folder).info.title == "EAGLE-3"


def test_heads_where_they_have_no_place(tmp_path: Path) -> None:
    folder = write_head(tmp_path / "head")
    with pytest.raises(UserError, match=r"is a trained drafter \(EAGLE-3\), not a model of its own"):
        load_model(str(folder), LoadOptions(device="cpu"))
    eagle = read_format(folder, check_folder(folder))
    assert eagle is not None
    with pytest.raises(UserError, match="toy does not hand out"):
        load_format(eagle, "head", ToyModel(3))
    head = load(folder)
    head.close()
    with pytest.raises(UserError, match="no longer loaded"):
        head.open(16)


class Theirs:
    """transformers' target and assistant, each as it is."""

    def __init__(self, folder: Path) -> None:
        from transformers import AutoModelForCausalLM, Gemma4AssistantForCausalLM

        self.target: Any = AutoModelForCausalLM.from_pretrained(gemma_folder(), dtype=torch.float32)
        with whole_assistants():
            self.assistant: Any = Gemma4AssistantForCausalLM.from_pretrained(folder, dtype=torch.float32)

    def read(self, text: list[int]) -> tuple[Any, Tensor]:
        """Read a text: keys and values, and the states after the last norm, are for the assistant."""
        out = self.target(torch.tensor([text]), output_hidden_states=True, return_shared_kv_states=True)
        return out.shared_kv_states, out.hidden_states[-1][0]

    def step(self, token: int, state: Tensor, shared: Any, position: int) -> tuple[Tensor, Tensor]:
        """Logits and the next state."""
        embedded = self.target.get_input_embeddings()(torch.tensor([[token]]))[0, 0]
        inputs, at = torch.cat((embedded, state))[None, None], torch.tensor([[position]])
        with whole_assistants():
            out = self.assistant(inputs_embeds=inputs, position_ids=at, shared_kv_states=shared)
        return out.logits[0, 0], out.last_hidden_state[0, 0]


@pytest.mark.parametrize("ordered", [False, True])
@torch.no_grad()
def test_what_it_guesses_is_what_transformers_class_guesses(ordered: bool, tmp_path: Path) -> None:
    folder = write_assistant(tmp_path / "assistant", ordered=ordered)
    head, theirs, rng = load_assistant(folder), Theirs(folder), random.Random(4)
    assert (head.info.kind, head.info.title, head.info.taps) == ("eagle", "Gemma 4 assistant", (9,))
    (network,) = head.loaded().args
    text = [rng.randrange(8, GEMMA_VOCAB) for _ in range(31)]
    text_session = gemma().open_session(64, (9,))
    session = AssistantSession(network, 64)
    session.follow(text_session)
    for length in (1, 4, WINDOW, WINDOW + 1, WINDOW + 2, 30):
        text_session.prefill(text[text_session.length : length])
        shared, states = theirs.read(text[:length])
        scores = session.extend(text[session.length + 1 : length + 1], text_session.states(session.length, length))
        expected, after = theirs.step(text[length], states[-1], shared, length)
        reached, nodes = {ROOT: after}, [(7, ROOT), (9, ROOT), (11, 0), (13, 2), (15, 1)]
        scored = scores.logits[0].isfinite()
        assert int(scored.sum()) == (5 * GEMMA_VOCAB // 64 if ordered else GEMMA_VOCAB)
        torch.testing.assert_close(scores.logits[0][scored], expected[scored], rtol=1e-4, atol=1e-4)
        rows = [session.grow(*zip(*nodes[a:b], strict=True)).logits for a, b in ((0, 2), (2, 3), (3, 5))]
        for node, ((token, parent), row) in enumerate(zip(nodes, torch.cat(rows), strict=True)):
            expected, reached[node] = theirs.step(token, reached[parent], shared, length)
            scored = row.isfinite()
            torch.testing.assert_close(row[scored], expected[scored], rtol=1e-4, atol=1e-4)
        session.drop(1)
        first = session.grow([9], [ROOT]).logits[0]
        torch.testing.assert_close(first, rows[0][1])
    text_session.close()


@needs_llama
@pytest.mark.parametrize("kind", ["F16", "Q8_0"])
def test_tables_are_decoded_as_gguf_does(kind: str, tmp_path: Path) -> None:
    quants: Any = importlib.import_module("gguf.quants")
    reader: Any = importlib.import_module("gguf").GGUFReader
    file = gguf_heads.dflash_file(tmp_path / "head", kind, paths="vanilla", rank=32)
    (layout,) = read_layout(file)
    theirs = {tensor.name: quants.dequantize(tensor.data, tensor.tensor_type) for tensor in reader(file).tensors}
    for tensor in layout.tensors:
        if tensor.name.startswith("markov"):
            np.testing.assert_array_equal(numbers(file, tensor).numpy(), theirs[tensor.name])


NAMES = "tokenizer.ggml.tokens"
BAD, TWO = "Cannot load head.gguf: .*invalid data", "a vocabulary of 2 tokens, and heads-target has 2,048"
WRONG_FILES: dict[str, tuple[Callable[[Path], Path], dict[str, tuple[dict[str, Any], dict[str, Any], str]]]] = {
    "eagle3": (
        partial(gguf_heads.eagle_file, drafted=512),
        {
            "width": ({"target_hidden_size": 128}, {}, "hidden states 128 numbers wide, and those of heads-target have 64"),
            "taps": ({"target_layers": [1, 2, 7]}, {}, r"layers that heads-target does not have, which has 6"),
            "two taps": ({"target_layers": [1, 2]}, {}, "heads have one layer and read 3 of the target's"),
            "no taps": ({"target_layers": None}, {}, r"'eagle3.target_layers' is missing"),
            "nan": ({}, {"fc.weight": np.full((64, 192), np.nan, np.float32)}, BAD),
            "vocabulary": ({NAMES: [b"a", b"b"]}, {}, TWO),
        },
    ),
    "dflash": (
        gguf_heads.dflash_file,
        {
            "block": ({"block_size": 1}, {}, "block_size is 1"),
            "no mask": ({"tokenizer.ggml.mask_token_id": None}, {}, "'tokenizer.ggml.mask_token_id' is missing"),
        },
    ),
    "dflash2": (
        partial(gguf_heads.dflash_file, paths="dflash2", candidates=7),
        {"a part": ({}, {"d2t": np.arange(512)}, "DFlash 2 with a part of the vocabulary")},
    ),
}
"""Architecture → how it is written, and what is wrong with it: metadata, tensors, and what is said."""


@needs_llama
@pytest.mark.parametrize(("kind", "case"), [(kind, case) for kind, (_, cases) in WRONG_FILES.items() for case in cases])
def test_a_wrong_file_is_refused_in_one_sentence(kind: str, case: str, tmp_path: Path) -> None:
    make, cases = WRONG_FILES[kind]
    values, tensors, words = cases[case]
    values = {key if key.startswith("tokenizer.") else f"{kind}.{key}": value for key, value in values.items()}
    file = changed(make(tmp_path / "whole"), tmp_path / "head.gguf", values, tensors)
    with pytest.raises(UserError, match=words) as caught:
        gguf_heads.load_head(file)
    assert "\n" not in str(caught.value)


@needs_llama
@pytest.mark.parametrize(("options", "why"), [
    ({"taps": (1, 5)}, "the target's last state"),
    ({"rope_scaling": {"rope_type": "yarn", "factor": 2.0}}, "scaled rotary embeddings"),
])  # fmt: skip
def test_what_llama_cpp_does_not_compute_is_not_written(options: dict[str, Any], why: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=f"llama.cpp has no DFlash drafters with {why}"):
        gguf_heads.dflash_file(tmp_path / "head", **options)
    assert not list(tmp_path.glob("*.gguf"))


@needs_llama
def test_files_without_a_layer_that_can_draft(tmp_path: Path) -> None:
    assert load_gguf_mtp(tiny_llama()) is None
    without = load_llama(gguf_heads.glm_file(mtp_folder("glm4-moe"), tmp_path / "without.gguf", mtp=False), "without", FLOAT32)
    assert load_gguf_mtp(without) is None
    without.open_session(64).prefill([3, 4, 5])
    without.close()
    whole = gguf_heads.glm_file(mtp_folder("glm4-moe"), tmp_path / "whole.gguf")
    alone = changed(whole, tmp_path / "alone.gguf", {}, {"blk.0.attn_norm.weight": None})
    with pytest.raises(UserError, match="contains a model's MTP layer alone"):
        load_llama(alone, "alone", FLOAT32)


DRAFTING = ("glm4moe", "qwen35", "qwen3next", "nemotron_h_moe")
NOT = ("mimo2",)
"""Architectures of which llama.cpp wants tensors that the file does not have."""


@needs_llama
@pytest.mark.parametrize("architecture", (*DRAFTING, *NOT) if FULL else ("qwen3next", "mimo2"))
def test_which_architectures_draft_with_their_own_layer_is_found_by_trying(
    architecture: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPECCHAT_CACHE", str(tmp_path))
    model = load_llama(zoo.write(f"{architecture}-mtp", tmp_path / "model.gguf"), architecture, FLOAT32)
    model.info = replace(model.info, eos_ids=())
    if architecture in NOT:
        with pytest.raises(UserError, match=f"does not draft with the MTP layers of {architecture} models"):
            load_gguf_mtp(model)
        model.open_session(64).prefill([5, 6, 7])
        model.close()
        return
    head = load_gguf_mtp(model)
    assert head is not None
    for number in range(20 if FULL else 1):
        prompt = [(31 * i * (number + 1) + 7) % 2000 + 8 for i in range(5 + number)]
        texts = []
        for method in ("greedy", "mtp", "lookup"):  # the last in a session that hands out states, too
            conversation = Conversation(model, head=head, context=128)
            generation = Generation(conversation, prompt, method, max_tokens=48 if FULL else 12)
            drafted = sum(step.drafted for step in generation)
            assert drafted or method != "mtp"
            texts.append(generation.answer)
            # The states are those of the text, whatever was refused on its way.
            end, layers = conversation.session.length, model.info.layers
            single = model.open_session(128, (layers,))
            for token in conversation.session.tokens:
                single.evaluate([token], (ROOT,))
                single.commit((0,))
            torch.testing.assert_close(conversation.session.states(0, end), single.states(0, end), atol=5e-3, rtol=1e-3)
            single.close()
            conversation.close()
        assert texts[0] == texts[1] == texts[2]
    model.close()


@needs_llama
@pytest.mark.parametrize("ordered", [False, True])
def test_its_scores_are_those_of_torch(ordered: bool, tmp_path: Path) -> None:
    folder = write_assistant(tmp_path / "assistant", ordered=ordered)
    ours, theirs, rng = load_assistant_file(gemma_file(folder, tmp_path / "a.gguf")), load_assistant(folder), random.Random(4)
    assert (ours.info.kind, ours.info.title, ours.info.taps) == ("eagle", "Gemma 4 assistant", (9,))
    (network,) = theirs.loaded().args
    theirs = PathHead(theirs.info, partial(AssistantSession, network))
    network.window = WINDOW - 2  # rows beside its own; llama.cpp's window is two rows shorter than transformers'
    text, ends = [rng.randrange(8, GEMMA_VOCAB) for _ in range(31)], (1, 4, WINDOW - 1, WINDOW, WINDOW + 2, 30)
    both_rows: list[list[torch.Tensor]] = []
    pairs: tuple[tuple[Any, Any], ...] = ((gemma_llama(), ours), (gemma(), theirs))
    for model, head in pairs:
        target, rows = model.open_session(64, (9,)), []
        session: Any = head.open(64)
        session.follow(target)
        for end in ends:
            target.prefill(text[target.length : end])
            rows.append(session.extend(text[session.length + 1 : end + 1], target.states(session.length, end)).logits)
            rows += [session.grow(*nodes).logits for nodes in (([7, 9], [ROOT, ROOT]), ([11, 13, 15], [0, 0, 1]), ([17], [4]))]
        both_rows.append(rows)
    for a, b in zip(*both_rows, strict=True):
        drafted = b.isfinite()
        far = (a - b).where(drafted, 0.0).square().mean(-1).sqrt() / b[drafted].std()
        assert far.max() < 0.02  # the states are apart a little, too: llama.cpp looks GELU up in half precision


@needs_llama
def test_in_the_middle_of_a_text_the_texts_cache_stays_what_it_was() -> None:
    """llama.cpp empties the target's cache when an assistant's context is made."""
    model, head, prompt = gemma_llama(), random_assistant_file(), list(range(30, 55))
    sessions: list[Any] = [model.open_session(128, (9,)) for _ in range(2)]
    session, fresh = sessions
    session.prefill(prompt)
    head.open(128).follow(session)
    fresh.prefill(prompt)
    logits, expected = (one.evaluate([9, 10], [ROOT, 0]).logits.clone() for one in (session, fresh))
    torch.testing.assert_close(logits, expected, atol=1e-4, rtol=1e-4)
    assert list(session.tokens) == prompt


@needs_llama
def test_assistants_and_targets_that_do_not_go_together(tmp_path: Path) -> None:
    folder = write_assistant(tmp_path / "assistant")
    file = gemma_file(folder, tmp_path / "a.gguf")
    with pytest.raises(UserError, match="hidden states 24 numbers wide, and those of heads-target have 64"):
        find_model(str(file)).beside("a", gguf_heads.llama_target())
    with pytest.raises(UserError, match="gives to an assistant in GGUF only"):
        find_model(str(folder)).beside("a", gemma_llama())
    with pytest.raises(UserError, match="which drafts for models on llama"):
        find_model(str(file)).beside("a", gemma())
    file = gguf_heads.eagle_file(tmp_path / "head")
    with pytest.raises(UserError, match=r"trained drafter \(EAGLE-3\) in GGUF, which drafts for models on llama.cpp only"):
        gguf_heads.load_head(file, gguf_heads.torch_target())
    with pytest.raises(UserError, match=r"is a trained drafter \(EAGLE-3\), not a model of its own"):
        load_model(str(file))
    with pytest.raises(UserError, match="layers that tiny does not have"):
        gguf_heads.load_head(file, tiny_llama())
