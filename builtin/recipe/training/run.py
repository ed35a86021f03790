"""A training run of any model and loss: steps, learning rate, progress lines and checkpoints."""

import copy
import json
import os
import signal
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeVar

import torch
from torch import nn

from ..data import Batch


@dataclass
class TrainingSettings:
    """The settings of a run, saved in the checkpoint."""

    seed: int = 1
    tokens: float = 16e6
    minutes: float = 0.0
    """Time limit; 0 for none."""
    batch: int = 4096
    rate: float = 2e-3
    matrix_rate: float = 0.02
    warmup: float = 200_000
    decay: float = 0.2
    weight_decay: float = 0.02
    optimizer: str = "adamw"


@dataclass
class Progress:
    """The position of a run."""

    step: int = 0
    tokens: int = 0
    chunk: int = 0
    position: int = 0
    seconds: float = 0.0
    losses: list[float] = field(default_factory=list)


LONGEST_WARMUP = 0.05
"""Largest share of a run for its warm-up."""

LOG_SECONDS = 10.0
"""Longest time between lines of progress, if steps are long."""


def done(progress: Progress, settings: TrainingSettings) -> float:
    """Compute the share of a run that is over, by tokens or by minutes, 0 to 1."""
    of_time = progress.seconds / (60 * settings.minutes) if settings.minutes else 0.0
    of_tokens = progress.tokens / settings.tokens if settings.tokens else 1.0
    return min(1.0, max(of_tokens, of_time))


def rate_factor(progress: Progress, settings: TrainingSettings) -> float:
    """Compute the share of the peak learning rate: linear warm-up, constant, linear decay to 2%."""
    over = done(progress, settings)
    warm = max((progress.tokens + settings.batch) / settings.warmup, over / LONGEST_WARMUP)
    left = (1 - over) / settings.decay if settings.decay else 1.0
    return max(0.02, min(1.0, warm, left))


def pick_device(name: str) -> torch.device:
    """Pick a device by name; `auto` is CUDA if there is any."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    return torch.device(name)


def optimizers(model: nn.Module, settings: TrainingSettings) -> list[torch.optim.Optimizer]:
    """Create AdamW, or Muon for the matrices inside the layers and AdamW for the rest."""
    matrices: list[nn.Parameter] = []
    rest: list[nn.Parameter] = []
    for name, parameter in model.named_parameters():
        inside = parameter.ndim == 2 and "embed" not in name and "lm_head" not in name
        (matrices if inside else rest).append(parameter)
    if settings.optimizer == "muon":
        return [
            torch.optim.Muon(matrices, lr=settings.matrix_rate, weight_decay=settings.weight_decay, momentum=0.95),
            torch.optim.AdamW(rest, lr=settings.rate, betas=(0.9, 0.98), weight_decay=0.0, fused=True),
        ]
    groups = [
        {"params": matrices, "weight_decay": settings.weight_decay},
        {"params": rest, "weight_decay": 0.0},
    ]
    return [torch.optim.AdamW(groups, lr=settings.rate, betas=(0.9, 0.98), fused=True)]


M = TypeVar("M", bound=nn.Module)


def half(model: M) -> M:
    """Make a bfloat16 copy for the passes, while the float32 weights take the steps.

    3 tokens in 10 more per CPU second than autocast, which casts every weight and keeps float32 between the products.
    """
    worker = copy.deepcopy(model)
    # Buffers stay: rounded frequencies would turn position 500 by more than a radian.
    for parameter in worker.parameters():
        parameter.data = parameter.data.to(torch.bfloat16)
    return worker


S = TypeVar("S", bound=TrainingSettings)


class TrainingRun(ABC, Generic[S]):
    """A training run: model, optimizers, position in the data.

    Args:
        settings: of the run.
        work: folder of the checkpoint and the loss curve.
        device: where the model is.
        model: float32 weights, which take the steps.
        worker: the model for the passes: itself, or its `half`.
    """

    def __init__(self, settings: S, work: Path, device: torch.device, model: nn.Module, worker: nn.Module) -> None:
        self.settings = settings
        self.work = work
        self.device = device
        self.progress = Progress()
        self.model = model
        self.worker = worker
        self.optimizers = optimizers(model, settings)
        self.peaks = [[float(group["lr"]) for group in optimizer.param_groups] for optimizer in self.optimizers]

    @abstractmethod
    def batches(self) -> Iterator[Batch]:
        """Yield endless batches from the run's position on."""

    @abstractmethod
    def losses(self, batch: Batch) -> tuple[torch.Tensor, list[float]]:
        """Compute the loss of a batch, and the figures whose mean the log shows, the model's loss first."""

    @abstractmethod
    def figures(self, means: Sequence[float]) -> tuple[dict[str, Any], str]:
        """Format the figures of some steps, as fields of the loss curve and as words of the progress line."""

    @torch.no_grad()
    def refresh(self) -> None:
        """Copy the weights to the worker."""
        if self.worker is not self.model:
            for mine, master in zip(self.worker.parameters(), self.model.parameters(), strict=True):
                mine.copy_(master)

    @property
    def checkpoint(self) -> Path:
        """The file of the run's state."""
        return self.work / "checkpoint.pt"

    def save(self) -> None:
        """Write the checkpoint; a killed run leaves the earlier one whole."""
        part = self.checkpoint.with_suffix(".part")
        torch.save(
            {
                "settings": asdict(self.settings),
                "progress": asdict(self.progress),
                "model": self.model.state_dict(),
                "optimizers": [optimizer.state_dict() for optimizer in self.optimizers],
            },
            part,
        )
        os.replace(part, self.checkpoint)

    def restore(self) -> None:
        """Go on from the checkpoint.

        Raises:
            FileNotFoundError: there is none.
        """
        state = torch.load(self.checkpoint, map_location=self.device, weights_only=True)
        self.progress = Progress(**state["progress"])
        self.model.load_state_dict(state["model"])
        for optimizer, saved in zip(self.optimizers, state["optimizers"], strict=True):
            optimizer.load_state_dict(saved)
        self.refresh()

    def step(self, batch: Batch) -> list[float]:
        """Take one optimizer step.

        Returns:
            the figures of `losses`, before the step.
        """
        start = time.monotonic()
        factor = rate_factor(self.progress, self.settings)
        for optimizer, peaks in zip(self.optimizers, self.peaks, strict=True):
            for group, peak in zip(optimizer.param_groups, peaks, strict=True):
                group["lr"] = peak * factor
        loss, figures = self.losses(batch)
        torch.autograd.backward(loss)
        if self.worker is not self.model:
            for mine, master in zip(self.worker.parameters(), self.model.parameters(), strict=True):
                assert mine.grad is not None
                master.grad = mine.grad.float()
                mine.grad = None
        count, figures = self.share(batch.tokens.numel(), figures)
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        for optimizer in self.optimizers:
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        self.refresh()
        self.progress.step += 1
        self.progress.tokens += count
        self.progress.seconds += time.monotonic() - start
        self.progress.chunk = batch.chunk
        self.progress.position = batch.position
        return figures

    def share(self, count: int, figures: list[float]) -> tuple[int, list[float]]:
        """Combine gradients, tokens and figures of a run's processes; nothing to do for a single one."""
        return count, figures

    @property
    def leads(self) -> bool:
        """Whether this process writes the log and the checkpoints."""
        return True

    def train(self, save_every: float = 120.0, log_every: int = 20) -> list[float]:
        """Train until the settings' number of tokens or minutes.

        Returns:
            the loss of every step taken here.
        """
        self.work.mkdir(parents=True, exist_ok=True)
        self.worker.train()
        progress = self.progress
        source = self.batches()
        losses: list[float] = []
        recent: list[list[float]] = []
        saved = mark = time.monotonic()
        mark_tokens = progress.tokens
        while done(progress, self.settings) < 1:
            recent.append(self.step(next(source)))
            losses.append(recent[-1][0])
            now = time.monotonic()
            if progress.step % log_every == 0 or now - mark > LOG_SECONDS:
                speed = (progress.tokens - mark_tokens) / (now - mark)
                mark, mark_tokens = now, progress.tokens
                self._log(recent, speed)
                recent = []
            if self.leads and time.monotonic() - saved > save_every:
                self.save()
                saved = time.monotonic()
        if self.leads:
            self.save()
        return losses

    def train_until_stopped(self, save_every: float) -> bool:
        """Train; Ctrl-C and `kill` save the checkpoint and end it.

        Returns:
            whether the run is complete.
        """
        # A process started in the background ignores Ctrl-C otherwise; `kill` should save as well.
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.default_int_handler)
        with suppress(KeyboardInterrupt):
            self.train(save_every=save_every)
            return True
        if self.leads:
            self.save()
            print(f"Stopped. Go on with --resume; the checkpoint is {self.checkpoint}.")
        return False

    def _log(self, recent: list[list[float]], speed: float) -> None:
        if not self.leads:
            return
        progress = self.progress
        fields, words = self.figures([sum(column) / len(recent) for column in zip(*recent, strict=True)])
        line = {
            "step": progress.step, "tokens": progress.tokens, **fields,
            "rate": round(rate_factor(progress, self.settings), 4), "chunk": progress.chunk,
            "tokens_per_second": round(speed), "seconds": round(progress.seconds, 1),
        }  # fmt: skip
        with (self.work / "loss.jsonl").open("a") as file:
            file.write(json.dumps(line) + "\n")
        left = max(0.0, self.settings.tokens - progress.tokens) / speed
        if self.settings.minutes:
            left = min(left, max(0.0, 60 * self.settings.minutes - progress.seconds))
        print(
            f"step {progress.step}  {progress.tokens / 1e6:.2f} of {self.settings.tokens / 1e6:.1f} M tokens  "
            f"{words}  {speed:.0f} tokens/s  {left / 60:.0f} min left",
            flush=True,
        )
