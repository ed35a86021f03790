"""Train the built-in draft model on to a PARD drafter, which predicts several tokens in one pass.

    python -m specchat.builtin.recipe.train_pard --out pard
    python -m specchat.builtin.recipe.train_pard --out pard --tokens 6e6 --resume
    specchat --draft-model pard --method pard

An et al., "PARD: Accelerating LLM Inference with Low-Cost PARallel Draft Model Adaptation" (2025), arXiv:2504.18583: mask
tokens stand for the tokens after a true one, and each of them predicts the token that follows it. All positions of a chat learn
this in one pass, each with its own masks, separated by an attention mask; deeper masks are dropped more often.
"""

import argparse
import importlib.util
import json
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import nn
from transformers import AttentionInterface, LlamaForCausalLM

from .data import IGNORED, Batch
from .export import WEIGHTS, export
from .gguf_export import TYPES
from .gguf_export import export as export_gguf
from .model import TrainingLoss
from .tokenizer import SPECIAL
from .train import WORK, ModelRun, ModelSettings
from .training.run import pick_device

MASK = SPECIAL.index("<|reserved_0|>")
"""The mask token, which is in no text or answer."""


@dataclass
class PardSettings(ModelSettings):
    """The settings of a run, saved in the checkpoint."""

    size: str = "draft"
    seed: int = 3
    tokens: float = 4e6
    batch: int = 2048
    rate: float = 1e-3
    matrix_rate: float = 0.01
    decay: float = 0.5
    optimizer: str = "muon"
    ramp: int = 0
    positions: int = 8
    keep: float = 0.7


class Masked(NamedTuple):
    """A batch with mask tokens behind the chats: rows 0 … length - 1 of a chat are its own tokens."""

    tokens: torch.Tensor  # [chats, rows]
    places: torch.Tensor  # [chats, rows] position in the text
    visible: torch.Tensor  # [chats, rows, rows] whether a row attends to a column
    labels: torch.Tensor  # [chats, rows] the token that should follow, or IGNORED


def masked(tokens: torch.Tensor, labels: torch.Tensor, positions: int, keep: float, generator: torch.Generator) -> Masked:
    """Add the masks.

    A chain of masks hangs behind each token that predicts one of an answer. Mask j (from 1) stands j places after it, sees the
    text up to it and the masks before itself, and is there with probability keep^j, if the one before is.

    Args:
        tokens: [chats, length].
        labels: [chats, length], the token that should follow, or IGNORED.
        positions: K; the longest chain has K - 1 masks.
        keep: share of the masks of one depth that go on to the next.
        generator: of the draws, on the CPU.
    """
    chats, length = tokens.shape
    device = tokens.device
    room = torch.rand((chats, length), generator=generator).log().div(torch.tensor(keep).log()).to(device)  # geometric
    alive = labels != IGNORED
    chain_masks = []
    for far in range(1, positions):
        ahead = labels.new_full((chats, length), IGNORED)
        ahead[:, : length - far] = labels[:, far:]
        alive = alive & (ahead != IGNORED) & (room >= far)
        chain_masks.append(alive)
    chains = torch.stack(chain_masks, -1)  # [chats, length, positions - 1]
    most = int(chains.sum((1, 2)).max())
    # Rows with a mask come first, in order of place and depth; in a chat with fewer, the rest is padding.
    order = chains.flatten(1).int().argsort(dim=1, descending=True, stable=True)[:, :most]
    is_mask = chains.flatten(1).gather(1, order)
    # Padding hangs behind the first token, without a label.
    behind = (order // (positions - 1)).where(is_mask, 0)
    depth = (order % (positions - 1) + 1).where(is_mask, 1)
    places = torch.cat([torch.arange(length, device=device).expand(chats, -1), behind + depth], 1)
    # A text's own token is depth 0 behind itself.
    after = torch.cat([places[:, :length], behind], 1)
    deep = torch.cat([torch.zeros_like(tokens), depth], 1)
    text = (deep == 0)[:, None, :] & (places[:, None, :] <= after[:, :, None])
    chain = (deep > 0)[:, None, :] & (after[:, None, :] == after[:, :, None]) & (deep[:, None, :] <= deep[:, :, None])
    mask_labels = labels.gather(1, behind + depth).where(is_mask, IGNORED)
    return Masked(
        torch.cat([tokens, torch.full_like(depth, MASK)], 1), places, text | chain, torch.cat([labels, mask_labels], 1)
    )


def _masked_attention(
    module: nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    bias: torch.Tensor,
    *_: object,
    scaling: float,
    **__: object,
) -> tuple[torch.Tensor, None]:
    """Attention over [chats, heads, rows, head width] with a bias [chats, 1, rows, rows]: two batched products, which on a CPU
    are quicker than the fused kernel's backward pass (see `model._causal_attention`)."""
    scores = torch.matmul(query, key.transpose(2, 3)).mul(scaling).add(bias)
    return torch.matmul(scores.softmax(-1), value).transpose(1, 2), None


AttentionInterface.register("specchat_pard_training", _masked_attention)


class PardLoss(TrainingLoss):
    """Cross entropy on what the assistant says, predicted by the text's own tokens and by masks alike.

    Args:
        model: the one to train.
        positions, keep: as `masked`.
    """

    def __init__(self, model: LlamaForCausalLM, positions: int, keep: float) -> None:
        super().__init__(model)
        self.positions = positions
        self.keep = keep
        model.set_attn_implementation("specchat_pard_training")

    def forward(self, tokens: torch.Tensor, labels: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Compute the mean losses: of all rows, and of the text's tokens alone."""
        # The same batch has the same masks, so that a resumed run equals an unbroken one.
        generator = torch.Generator().manual_seed(int(tokens.sum()))
        batch = masked(tokens, labels, self.positions, self.keep, generator)
        bias = torch.zeros_like(batch.visible, dtype=self.model.dtype).masked_fill_(~batch.visible, float("-inf"))
        last = self.model.model(
            input_ids=batch.tokens, position_ids=batch.places, attention_mask=bias[:, None], use_cache=False
        ).last_hidden_state
        flat = batch.labels.flatten()
        rows = (flat != IGNORED).nonzero().squeeze(1)
        losses = self._loss(last.flatten(0, 1).index_select(0, rows), self.model.lm_head.weight, flat[rows])
        is_text = rows % batch.labels.shape[1] < tokens.shape[1]
        return losses.mean(), losses[is_text].detach().mean()


class PardRun(ModelRun):
    """A training run of a PARD drafter."""

    settings: PardSettings

    def objective(self) -> PardLoss:
        """See `ModelRun.objective`."""
        return PardLoss(self.worker, self.settings.positions, self.settings.keep)

    def losses(self, batch: Batch) -> tuple[torch.Tensor, list[float]]:
        """Compute the loss of all rows, which is minimized, and that of the text's tokens."""
        loss, text_loss = self.loss(batch.tokens.to(self.device), batch.labels.to(self.device))
        return loss, [loss.item(), text_loss.item()]

    def figures(self, means: Sequence[float]) -> tuple[dict[str, Any], str]:
        """Format the losses of all rows, and of the text's tokens."""
        loss, text_loss = means
        return {"loss": round(loss, 4), "next_token": round(text_loss, 4)}, f"loss {loss:.3f}  next token {text_loss:.3f}"


def write(run: ModelRun, folder: Path, types: list[str]) -> None:
    """Write the drafter as a folder for transformers, and as GGUF files next to it: FOLDER-TYPE.gguf.

    Args:
        run: the one whose checkpoint is written.
        folder: replaced if it is there.
        types: of the GGUF files.
    """
    tokenizer = run.work if (run.work / "tokenizer.json").is_file() else run.work.parent / "tokenizer"
    export(run.checkpoint, tokenizer, folder)
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    part = folder / "config.part"
    part.write_text(json.dumps(config | {"pard_token": MASK}, indent=2) + "\n", encoding="utf-8")
    os.replace(part, folder / "config.json")
    for kind in types:
        export_gguf(folder, folder.with_name(f"{folder.name}-{kind}.gguf"), kind, "specchat PARD drafter")


def main() -> None:
    """Train the built-in draft model on to a PARD drafter, and write it to a folder."""
    parser = argparse.ArgumentParser(prog="python -m specchat.builtin.recipe.train_pard", description=main.__doc__)
    standard = PardSettings()
    parser.add_argument("--out", type=Path, required=True, help="folder for the drafter; GGUF files go beside it")
    parser.add_argument("--start", type=Path, default=WEIGHTS / "draft", help="folder of the model to start from")
    parser.add_argument("--tokens", type=float, default=standard.tokens, help="when to stop; masks do not count")
    parser.add_argument("--batch", type=int, default=standard.batch, help="tokens in a step, masks not counted")
    parser.add_argument("--seed", type=int, default=standard.seed, help="of the corpus")
    parser.add_argument("--rate", type=float, default=standard.rate, help="peak learning rate of AdamW")
    parser.add_argument("--matrix-rate", type=float, default=standard.matrix_rate, help="peak learning rate of Muon")
    parser.add_argument("--positions", type=int, default=standard.positions, help="K, tokens predicted in one pass")
    parser.add_argument("--keep", type=float, default=standard.keep, help="share of masks that the next depth keeps")
    parser.add_argument("--type", choices=TYPES, default=["Q8_0"], nargs="*", help="types of the GGUF files, one file each")
    parser.add_argument("--resume", action="store_true", help="go on from the checkpoint")
    parser.add_argument("--device", default="auto", help="auto, cpu or cuda")
    parser.add_argument("--compile", action="store_true", help="let torch compile the passes, as in `builtin.recipe.train`")
    parser.add_argument("--threads", type=int, default=0, help="CPU threads (0: torch's choice)")
    parser.add_argument("--save-every", type=float, default=120.0, help="seconds between checkpoints")
    parser.add_argument("--work", type=Path, default=WORK / "pard", help="folder for checkpoints (default: recipe/work/pard)")
    options = parser.parse_args()
    if options.type and importlib.util.find_spec("gguf") is None:
        sys.exit(f"The package gguf is missing: {sys.executable} -m pip install gguf, or leave GGUF files out with --type")
    if options.resume and not (options.work / "checkpoint.pt").is_file():
        sys.exit(f"There is no checkpoint in {options.work}; start without --resume.")
    if options.threads:
        torch.set_num_threads(options.threads)
    named = {name: value for name, value in vars(options).items() if hasattr(standard, name)}
    run = PardRun(PardSettings(**named), options.work, pick_device(options.device), start=options.start)
    if options.compile:
        run.loss.compile_passes()
    if options.resume:
        run.restore()
    else:
        run.inherit(options.start)
    if run.train_until_stopped(options.save_every):
        write(run, options.out, options.type)
        print(f"{options.out} is written, after {run.progress.seconds / 60:.0f} minutes of training")


if __name__ == "__main__":
    main()
