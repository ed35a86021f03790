"""Training: the loss falls, a resumed run equals an unbroken one, the export says what the checkpoint says; the loss of PARD
drafters is that of each chain of masks by itself. Sizes of chunks are constants, made small."""

import json
import shutil
from itertools import islice
from pathlib import Path

import pytest
import torch
from transformers import LlamaForCausalLM

from specchat.builtin import path
from specchat.builtin.recipe import data
from specchat.builtin.recipe import tokenizer as tokens_of
from specchat.builtin.recipe.data import IGNORED, Curriculum, batches
from specchat.builtin.recipe.export import export
from specchat.builtin.recipe.model import SIZES, Size, TrainingLoss, build, inherit
from specchat.builtin.recipe.train import Run, Settings
from specchat.builtin.recipe.train_pard import MASK, PardLoss, masked

from ..cases import only_full

WEIGHTS = path()
CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data, "CHUNK", 64)


def _work(folder: Path) -> Path:
    folder.mkdir()
    shutil.copy(WEIGHTS / "tokenizer.json", folder)
    return folder


def _settings(steps: int, optimizer: str = "adamw") -> Settings:
    # A batch always holds 400 … 512 tokens; the schedule depends on `tokens`, so both halves of a run share it.
    return Settings(size="tiny", tokens=steps * 450.0, batch=512, warmup=2000, rate=1e-2, ramp=2000, optimizer=optimizer)


@only_full
@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
def test_the_loss_falls_and_a_resumed_run_equals_an_unbroken_one(tmp_path: Path, optimizer: str) -> None:
    settings = _settings(20, optimizer)
    whole = Run(settings, _work(tmp_path / "whole"), CPU)
    losses = whole.train()
    assert len(losses) >= 18
    assert sum(losses[-3:]) < 0.9 * sum(losses[:3])

    first = Run(settings, _work(tmp_path / "parts"), CPU)
    stream = batches(first.tokenizer, settings.seed, settings.batch, Curriculum(settings.ramp, longest=settings.longest))
    for batch in islice(stream, 9):
        first.step(batch)
    first.save()
    second = Run(settings, tmp_path / "parts", CPU)
    second.restore()
    assert second.train() == pytest.approx(losses[9:], abs=1e-4)


def test_batches_go_on_where_a_checkpoint_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data, "CHUNK", 256)  # more than six batches
    tokenizer = tokens_of.load(WEIGHTS)
    stream = list(islice(batches(tokenizer, 3, 1024, Curriculum()), 12))
    later = list(islice(batches(tokenizer, 3, 1024, Curriculum(), stream[4].chunk, stream[4].position), 7))
    assert all(torch.equal(a.tokens, b.tokens) for a, b in zip(stream[5:], later, strict=True))
    # Two processes share what one would do alone.
    turns = [list(islice(batches(tokenizer, 3, 1024, Curriculum(), rank=rank, world=2), 3)) for rank in (0, 1)]
    for i in range(6):
        assert torch.equal(stream[i].tokens, turns[i % 2][i // 2].tokens)


def test_the_training_attention_is_the_models_own() -> None:
    model = build(SIZES["tiny"], 0)
    tokens = torch.randint(10, tokens_of.VOCABULARY, (3, 33))
    labels = tokens.roll(-1, 1)
    labels[:, -1] = IGNORED
    expected = model(tokens).logits[:, :-1].flatten(0, 1)
    loss, _ = TrainingLoss(model)(tokens, labels)
    assert loss.item() == pytest.approx(torch.nn.functional.cross_entropy(expected, tokens[:, 1:].flatten()).item(), abs=1e-4)


def test_the_loss_of_the_exits_is_that_of_their_layers() -> None:
    model = build(Size(layers=4, width=32, heads=2, inner=64), 0)
    tokens = torch.randint(10, tokens_of.VOCABULARY, (3, 33))
    labels = tokens.roll(-1, 1)
    labels[:, -1] = IGNORED
    full, early = TrainingLoss(model, (1, 2))(tokens, labels)
    states = model(tokens, output_hidden_states=True).hidden_states
    expected = [
        torch.nn.functional.cross_entropy(
            model.lm_head(model.model.norm(states[n]))[:, :-1].flatten(0, 1), tokens[:, 1:].flatten()
        )
        for n in (1, 2)
    ]
    assert early.item() == pytest.approx(torch.stack(expected).mean().item(), abs=1e-4)
    assert full.item() != pytest.approx(early.item(), abs=1e-4)


def test_an_export_loads_and_replaces_the_old_one(tmp_path: Path) -> None:
    run = Run(_settings(1), _work(tmp_path / "work"), CPU)
    run.save()
    folder = tmp_path / "weights" / "tiny"
    for _ in range(2):
        export(run.checkpoint, tmp_path / "work", folder)
    assert [entry.name for entry in folder.parent.iterdir()] == ["tiny"]
    loaded = LlamaForCausalLM.from_pretrained(folder, local_files_only=True)
    assert loaded.dtype == torch.float32
    assert loaded.lm_head.weight is loaded.model.embed_tokens.weight
    close = torch.allclose(loaded.model.norm.weight, run.model.model.norm.weight.detach(), atol=1e-3)
    assert close
    assert json.loads((folder / "generation_config.json").read_text())["eos_token_id"] == [tokens_of.END]


def test_a_shallow_model_starts_from_layers_of_a_deep_one() -> None:
    teacher, shallow = build(SIZES["tiny"], 0), build(Size(layers=1, width=32, heads=2, inner=48), 1)
    with torch.no_grad():
        # Neurons that do nothing are the ones left out.
        teacher.model.layers[0].mlp.down_proj.weight[:, ::4] = 0
    inherit(shallow, teacher, [0])
    tokens = torch.randint(10, tokens_of.VOCABULARY, (2, 20))
    del teacher.model.layers[1]
    assert torch.allclose(shallow(tokens).logits, teacher(tokens, use_cache=False).logits, atol=1e-5)


def test_the_loss_is_that_of_every_chain_of_masks_by_itself() -> None:
    model = build(SIZES["tiny"], 0)
    tokens = torch.randint(10, tokens_of.VOCABULARY, (3, 33), generator=torch.Generator().manual_seed(1))
    labels = tokens.roll(-1, 1)
    labels[:, -1] = labels[:, :5] = labels[1, 12:20] = IGNORED
    mean, own = PardLoss(model, 4, 0.7)(tokens, labels)
    batch = masked(tokens, labels, 4, 0.7, torch.Generator().manual_seed(int(tokens.sum())))
    model.set_attn_implementation("eager")
    losses: list[tuple[int, float]] = []
    for chat, row in (batch.labels != IGNORED).nonzero().tolist():
        # A chain sees the text up to a token, and that many masks.
        seen = batch.visible[chat, row]
        text, masks = int(seen[:33].sum()), int(seen[33:].sum())
        assert batch.places[chat, row] == text - 1 + masks
        assert batch.labels[chat, row] == tokens[chat, text + masks]
        ids = torch.tensor([[*tokens[chat, :text].tolist(), *[MASK] * masks]])
        logits = model(ids).logits[0, -1]
        losses.append((masks, torch.nn.functional.cross_entropy(logits, batch.labels[chat, row]).item()))
    assert {masks for masks, _ in losses} == {0, 1, 2, 3}
    assert mean.item() == pytest.approx(sum(loss for _, loss in losses) / len(losses), abs=1e-4)
    alone = [loss for masks, loss in losses if not masks]
    assert len(alone) == int((labels != IGNORED).sum())
    assert own.item() == pytest.approx(sum(alone) / len(alone), abs=1e-4)
