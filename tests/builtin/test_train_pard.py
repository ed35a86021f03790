"""Training a PARD drafter: the loss is that of each chain of masks by itself, and what is written drafts."""

import shutil
from pathlib import Path

import pytest
import torch

from specchat.builtin import path
from specchat.builtin.recipe import data
from specchat.builtin.recipe import tokenizer as tokens_of
from specchat.builtin.recipe.data import IGNORED
from specchat.builtin.recipe.export import export
from specchat.builtin.recipe.model import SIZES, build
from specchat.builtin.recipe.train import Run
from specchat.builtin.recipe.train_pard import MASK, PardLoss, PardSettings, masked

WEIGHTS = path()
CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data, "CHUNK", 64)


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny model as the recipe exports one."""
    work, folder = tmp_path_factory.mktemp("start"), tmp_path_factory.mktemp("weights") / "tiny"
    shutil.copy(WEIGHTS / "tokenizer.json", work)
    run = Run(PardSettings(size="tiny"), work, CPU)
    run.save()
    export(run.checkpoint, work, folder)
    return folder


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
