"""Trained drafters that are damaged, unfinished or made for another model: each is one sentence. What all are asked in one way,
such as which tensors are missing, is tried of EAGLE heads."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from specchat.backends import LoadOptions, Model, UserError, load_model
from specchat.backends.files.checkpoint import check_folder
from specchat.backends.heads.eagle_format import EagleFormat
from specchat.backends.heads.folders import read_format
from specchat.backends.heads.mtp.format import mtp_format
from specchat.backends.heads.mtp.load import load_mtp
from specchat.backends.hf.model import load_transformers
from specchat.backends.loading import find_model
from specchat.engine.drafts import Drafters, refusals
from specchat.engine.messages import Load

from ...fakes.drafters.dflash_files import write_dflash
from ...fakes.drafters.head_files import Style, load_weights, write_head, write_medusa
from ...fakes.drafters.heads import LAYERS, load
from ...fakes.drafters.mtp_files import LAYERS as MTP_LAYERS
from ...fakes.drafters.mtp_files import WIDTH, Family, write_mtp
from ...fakes.models.gemma import VOCAB as GEMMA_VOCAB
from ...fakes.models.gemma import WIDTH as GEMMA_WIDTH
from ...fakes.models.gemma import gemma, write_assistant
from ...fakes.models.tiny import VOCAB, tiny_folder
from ...fakes.models.toy import ToyModel

Case = tuple[dict[str, Any], str]
"""Options of its writer, and what is said."""
SLIDING = ["sliding_attention", "full_attention"]
EAGLE: dict[str, Case] = {
    "missing": ({"changes": {"midlayer.mlp.up_proj.weight": None}}, "it lacks layers.0.mlp.up_proj.weight"),
    "shape": ({"changes": {"norm.weight": torch.ones(31)}}, "its weights do not match its config.json"),
    "unknown": ({"changes": {"midlayer.gate.weight": torch.ones(3)}}, "does not know, such as layers.0.gate.weight"),
    "vocabulary": ({"vocab_size": 300}, "a vocabulary of 300 tokens, and target has 256"),
    "width": ({"target_hidden_size": 64}, "hidden states 64 numbers wide, and those of target have 32"),
    "eagle1 width": ({"style": "eagle1", "hidden": 48}, "hidden states 48 numbers wide"),
    "taps": ({"eagle_aux_hidden_state_layer_ids": [1, 2]}, r"reads 3 layers of the target \(fc.weight\), .* names 2"),
    "no such layer": ({"taps": (1, 2, 9)}, "layers that target does not have: it has 6 layers"),
    "nan": ({"changes": {"fc.weight": torch.full((32, 96), torch.nan)}}, r"fc.weight holds numbers that are none \(NaN"),
    "no d2t": ({"drafted": 100, "changes": {"d2t": None}}, "it drafts from 100 tokens"),
    "d2t": ({"drafted": 100, "changes": {"d2t": torch.full((100,), 200)}}, "d2t does not lead to tokens of target"),
    "d2t twice": ({"drafted": 100, "changes": {"d2t": -torch.arange(100)}}, "each once"),
    "quantized": ({"changes": {"fc.weight": torch.ones((32, 96), dtype=torch.int8)}}, "fc.weight in int8"),
    "activation": ({"hidden_act": "magic"}, "activation 'magic'"),
    "heads": ({"num_attention_heads": 0}, "Cannot read .*config.json"),
    "no heads": ({"num_attention_heads": "absent"}, "its weights do not match its config.json"),
    "odd heads": ({"head_dim": 7}, "Cannot read .*config.json"),
    "rope": ({"rope_scaling": {"rope_type": "magic", "factor": 2.0}}, "config.json"),
    "layer list": ({"eagle_aux_hidden_state_layer_ids": "all"}, "does not list the target's layers"),
    "logit_scale": ({"logit_scale": "big"}, "needs a number for logit_scale, not big"),
}
DFLASH: dict[str, Case] = {
    "no fc": ({"changes": {"fc.weight": None}}, "it lacks fc.weight"),
    "vocabulary": ({"vocab_size": 300}, "a vocabulary of 300 tokens, and target has 256"),
    "width": ({"width": 64, "hidden": 64}, "hidden states 64 numbers wide, and those of target have 32"),
    "its own width": ({"hidden": 48}, "does not fit target, or its weights do not match"),
    "taps": ({"inner": {"target_layer_ids": [1, 2, 3]}}, r"reads 2 layers of the target \(fc.weight\), .* names 3"),
    "no such layer": ({"taps": (1, 6)}, "layers that target does not have: it has 6 layers"),
    "layer list": ({"inner": {"target_layer_ids": "all"}}, "does not list the target's layers"),
    "no mask": ({"inner": {"mask_token_id": None}}, "needs mask_token_id, not None"),
    "mask": ({"mask": 999}, "uses the token 999 as its mask, and target has 256 tokens"),
    "block": ({"block": 1}, "needs a block_size of 2 to 256"),
    "layer types": ({"layer_types": ["linear_attention"] * 2}, "needs layer_types, one for each of 2 layers"),
    "window": ({"layer_types": SLIDING}, "needs sliding_window, a whole number"),
    "sinks": ({"inner": {"attention_sink_bias": True}}, "sets attention_sink_bias, which specchat cannot draft with"),
    "rope": ({"inner": {"is_neox_style": False}}, "sets is_neox_style"),
    "scale": ({"inner": {"output_multiplier": "big"}}, "needs a number for output_multiplier, not big"),
}
W1 = "markov_head.markov_w1.weight"
STEPPING: dict[str, tuple[str, dict[str, Any], str]] = {
    "no head": ("", {"markov_rank": 12}, f"it lacks {W1}"),
    "no rank": ("vanilla", {"inner": {"markov_rank": "12"}}, "needs markov_rank, a whole number above 0, not 12"),
    "kind": ("vanilla", {"inner": {"markov_head_type": "lstm"}}, "markov_head_type of vanilla, gated, rnn, not lstm"),
    "vocabulary": ("vanilla", {"vocabulary": 300}, "a vocabulary of 300 tokens, and target has 256"),
    "candidates": ("dflash2", {"inner": {"selector_top_k": 0}}, "needs selector_top_k, a whole number above 0"),
    "a part": ("dflash2", {"layout": "speculators", "drafted": 100}, "drafts a part of the vocabulary, which DFlash 2"),
}
"""DSpark and DFlash 2."""
MEDUSA: dict[str, Case] = {
    "width": ({"changes": {"0.1.weight": torch.ones(VOCAB, 48)}}, "hidden states 48 numbers wide, and those of target have 32"),
    "vocabulary": ({"vocab_size": 300}, "a vocabulary of 300 tokens, and target has 256. It was made for owner/base"),
    "token_map": ({"drafted": 100, "changes": {"token_map": torch.zeros(100).long()}}, "its table token_map does not lead to"),
    "none": ({"heads": 0, "changes": {"x": torch.ones(1)}}, "says that it holds Medusa heads, but has none"),
}
ASSISTANT: dict[str, Case] = {
    "width": ({"backbone_hidden_size": 48}, f"hidden states 48 numbers wide, and those of gemma have {GEMMA_WIDTH}"),
    "vocabulary": ({"text_vocab_size": 300}, "a vocabulary of 300 tokens, and gemma has 2,048"),
    "layers": ({"text_layer_types": ["sliding_attention"]}, "needs layer_types, one for each of 3 layers"),
    "rope": ({"text_rope_parameters": {"full_attention": {"rope_type": "yarn", "rope_theta": 1.0}}}, "sets rope_type yarn"),
    "ordering": ({"ordered": True, "changes": {"masked_embedding.token_ordering": torch.ones(GEMMA_VOCAB)}}, "in float32"),
}
Writer = Callable[..., Path]
WRONG: dict[str, tuple[Writer, dict[str, Any], str]] = {
    **{f"EAGLE, {name}": (write_head, *case) for name, case in EAGLE.items()},
    **{f"DFlash, {name}": (write_dflash, *case) for name, case in DFLASH.items()},
    **{f"path, {name}": (write_dflash, {"paths": paths, **options}, said) for name, (paths, options, said) in STEPPING.items()},
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
    "missing": ({"self_attn.o_proj.weight": None}, r"is missing the tensor self_attn.o_proj.weight"),
    "no norm": ({"shared_head.norm.weight": None}, "is missing the tensor shared_head.norm.weight"),
    "an expert": ({"mlp.experts.2.up_proj.weight": None}, "is missing the tensor mlp.experts.2.up_proj.weight"),
    "shape": ({"eh_proj.weight": torch.ones(WIDTH, WIDTH)}, r"eh_proj.weight has the shape \[32, 32\] instead of \[32, 64\]"),
    "nan": ({"hnorm.weight": torch.full((WIDTH,), torch.nan)}, "is damaged or quantized: hnorm.weight holds no plain numbers"),
    "quantized": ({"eh_proj.weight": torch.ones(WIDTH, 2 * WIDTH, dtype=torch.int8)}, "is damaged or quantized: eh_proj"),
    "unknown": ({"gate.weight": torch.ones(3)}, "has 1 tensor that specchat does not know, such as gate.weight"),
}
FEW = ("missing", "no norm", "shape", "nan")


@pytest.mark.parametrize(
    ("family", "layers", "cases"),
    [("glm4-moe", 1, tuple(MTP)), ("glm4-moe", 2, ("missing", "nan")), ("mimo", 1, FEW), ("qwen3.5", 1, FEW)],
)
def test_a_wrong_mtp_layer_is_refused_and_the_model_still_loads(
    family: Family, layers: int, cases: tuple[str, ...], tmp_path: Path
) -> None:
    for case in cases:
        changes, words = MTP[case]
        folder = write_mtp(tmp_path / case, family, layers=layers, changes=changes)
        model = load_transformers(folder, "model", LoadOptions(device="cpu"))
        with pytest.raises(UserError, match=words) as caught:
            load_mtp(model)
        assert "\n" not in str(caught.value)
        drafts = Drafters(Load(1, str(folder), device="cpu"))
        drafts.join(model)
        assert refusals(model, drafts)["mtp"] == str(caught.value)
        assert drafts.head is None


def test_a_checkpoint_without_one_of_its_layers_is_refused(tmp_path: Path) -> None:
    folder = write_mtp(tmp_path / "model", "mimo", layers=3)
    tensors = load_file(folder / "model.safetensors")
    save_file({name: t for name, t in tensors.items() if ".mtp_layers.1." not in name}, folder / "model.safetensors")
    with pytest.raises(UserError, match="has MTP layers but not number 2 of them"):
        mtp_format(folder, MTP_LAYERS)
    save_file({**tensors, "model.mtp.layers.0.eh_proj.weight": torch.ones(3)}, folder / "model.safetensors")
    with pytest.raises(UserError, match="cannot draft with MiMo-V2's MTP layers yet"):
        mtp_format(folder, MTP_LAYERS)


def test_a_head_is_told_by_its_tensors_and_a_model_is_none(tmp_path: Path) -> None:
    titles: dict[Style, str] = {"eagle1": "EAGLE-1", "eagle3": "EAGLE-3", "speculators": "EAGLE-3", "deepspec": "EAGLE-3"}
    for style, title in titles.items():
        folder = write_head(tmp_path / "a-model-of-no-kind" / style, style, taps=(1, 2, 3) if style == "deepspec" else None)
        found = read_format(folder, check_folder(folder))
        assert found is not None
        assert found.title == title
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
    command = str(caught.value).partition("once: python ")[2]
    subprocess.run(f"{sys.executable} {command}", shell=True, check=True, cwd=tmp_path)
    assert not (tmp_path / "PASTED").exists()
    found = load_weights(folder)
    assert found.keys() == weights.keys()
    assert load(folder).info.title == "EAGLE-3"


def test_a_head_alone_is_no_model(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"is a trained drafter \(EAGLE-3\), not a model of its own"):
        load_model(str(write_head(tmp_path / "head")), LoadOptions(device="cpu"))


def test_a_model_without_states_is_refused(tmp_path: Path) -> None:
    folder = write_head(tmp_path / "head")
    found = read_format(folder, check_folder(folder))
    assert found is not None
    from specchat.backends.heads.load import load_head

    other: Model = ToyModel(3)
    with pytest.raises(UserError, match="toy does not hand out"):
        load_head(found, "head", other)


def test_a_closed_head_opens_no_more(tmp_path: Path) -> None:
    head = load(write_head(tmp_path / "head"))
    head.close()
    with pytest.raises(UserError, match="no longer loaded"):
        head.open(16)


def agreeing(taps: tuple[int, ...]) -> dict[str, torch.Tensor]:
    """The tensors of a head that agrees with the target where its one tap is the last state: its LM head is the target's, its
    layer adds nothing, and its norm changes nothing."""
    zero = torch.zeros
    fc = torch.cat([torch.eye(32) if tap == LAYERS else zero(32, 32) for tap in taps], 1)
    return {
        "fc.weight": fc,
        "midlayer.self_attn.o_proj.weight": zero(32, 32),
        "midlayer.mlp.down_proj.weight": zero(32, 48),
        "norm.weight": torch.ones(32),
    }


def test_layers_counted_otherwise_are_found_by_measuring(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The head predicts the token after the next one, from its own states; here that is asked of the very next one, which only
    the right states tell."""
    import specchat.backends.heads.load as loading

    # Of a text of one token over and over, every next choice is much the same.
    monkeypatch.setattr(loading, "TEXT", "a" * 60)
    by_outputs = write_head(tmp_path / "outputs", taps=(0, 2, LAYERS - 1), own_head=False, changes=agreeing((0, 2, LAYERS)))
    info = load(by_outputs).info
    assert info.taps == (1, 3, LAYERS)
    (note,) = info.notes
    assert "with layers 0, 2, 5 taken for outputs it agrees" in note
    by_inputs = write_head(tmp_path / "inputs", taps=(0, 2, LAYERS), own_head=False, changes=agreeing((0, 2, LAYERS)))
    info = load(by_inputs).info
    assert info.taps == (0, 2, LAYERS)
    assert not info.notes


def test_an_absent_norm_before_residual_is_measured_in_the_speculators_layout(tmp_path: Path) -> None:
    folder = write_head(tmp_path / "head", "speculators")
    config = json.loads((folder / "config.json").read_text())
    del config["norm_before_residual"]
    (folder / "config.json").write_text(json.dumps(config))
    found = read_format(folder, check_folder(folder))
    assert isinstance(found, EagleFormat)
    assert [reading.norm_before_residual for reading in found.readings] == [True, False]
    weights = load_weights(folder)
    save_file(weights, folder / "model.safetensors")
    assert load(folder).info.title == "EAGLE-3"
