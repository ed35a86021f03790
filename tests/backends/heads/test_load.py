"""What a folder is told to be, which drafters are refused and why, and readings that are measured."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from specchat.backends import LoadOptions, Model, UserError, load_model
from specchat.backends.files.checkpoint import check_folder
from specchat.backends.heads.eagle_format import EagleFormat
from specchat.backends.heads.folders import read_format
from specchat.backends.loading import find_model

from ...fakes.drafters.head_files import Style, load_weights, write_head
from ...fakes.drafters.heads import LAYERS, load
from ...fakes.models.tiny import tiny_folder
from ...fakes.models.toy import ToyModel


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
    with pytest.raises(UserError, match="toy does not hand out its hidden states"):
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
