"""Train a built-in model, in one sitting or several.

    python -m specchat.builtin.train --tokens 16e6
    python -m specchat.builtin.train --tokens 32e6 --resume
    python -m specchat.builtin.train --tokens 8e6 --start builtin/weights/target      # a new run, from weights that are there

The learning rate warms up, stays, and falls over the last fifth (WSD), so that a run may be continued with a larger
`--tokens` at any time. Data depends only on the seed and the position, both of which are in the checkpoint.
"""

import argparse
import copy
import json
import multiprocessing
import os
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import distributed, nn
from transformers import LlamaForCausalLM

from . import tokenizer as tokens_of
from .data import Batch, Curriculum, batches
from .model import EXIT_WEIGHT, SIZES, TrainingLoss, build, inherit

WORK = Path(__file__).parent / "work"


@dataclass
class Settings:
    """What a run is made of; kept in the checkpoint."""

    size: str = "target"
    seed: int = 1
    tokens: float = 16e6
    batch: int = 4096
    rate: float = 2e-3
    matrix_rate: float = 0.02
    warmup: float = 200_000
    decay: float = 0.2
    weight_decay: float = 0.02
    optimizer: str = "adamw"
    ramp: int = 24_000
    longest: int = 1024


@dataclass
class Progress:
    """Where a run stands."""

    step: int = 0
    tokens: int = 0
    chunk: int = 0
    position: int = 0
    seconds: float = 0.0
    losses: list[float] = field(default_factory=list)


def rate_factor(seen: float, settings: Settings) -> float:
    """Share of the peak learning rate after `seen` tokens: linear warm-up, constant, linear decay to 2%."""
    falling = settings.tokens * settings.decay
    left = max(0.0, settings.tokens - seen)
    return max(0.02, min(1.0, (seen + settings.batch) / settings.warmup, left / falling if falling else 1.0))


def pick_device(name: str) -> torch.device:
    """`auto` means CUDA where there is one."""
    return torch.device(("cuda" if torch.cuda.is_available() else "cpu") if name == "auto" else name)


def optimizers(model: nn.Module, settings: Settings) -> list[torch.optim.Optimizer]:
    """AdamW, or Muon on the matrices inside the layers and AdamW on the rest."""
    matrices = [p for name, p in model.named_parameters() if p.ndim == 2 and "embed" not in name]
    rest = [p for name, p in model.named_parameters() if p.ndim != 2 or "embed" in name]
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


class Run:
    """A training run: model, optimizers, position in the data."""

    def __init__(
        self, settings: Settings, work: Path, device: torch.device, rank: int = 0, world: int = 1, start: Path | None = None
    ) -> None:
        self.settings, self.work, self.device, self.rank, self.world = settings, work, device, rank, world
        self.progress = Progress()
        self.tokenizer = self._tokenizer(start)
        self.model = build(SIZES[settings.size], settings.seed, device)
        self.worker = self.model if settings.size == "tiny" else self._half()
        self.loss = TrainingLoss(self.worker, SIZES[settings.size].exits)
        self.optimizers = optimizers(self.model, settings)
        self.peaks = [[float(group["lr"]) for group in optimizer.param_groups] for optimizer in self.optimizers]

    def _tokenizer(self, start: Path | None) -> Any:
        """The run's own; that of the model it starts from; or a new one."""
        folder = self.work.parent / "tokenizer" if self.work.parent.name == "work" else self.work
        if start is not None:
            tokens_of.save(tokens_of.load(start), folder)
        elif not (folder / "tokenizer.json").is_file():
            print("Learning the tokenizer …", flush=True)
            tokens_of.save(tokens_of.train(tokens_of.texts()), folder)
        return tokens_of.load(folder)

    def _half(self) -> LlamaForCausalLM:
        """The bfloat16 copy that does the passes; the float32 weights take the steps.

        3 tokens in 10 more per CPU second than autocast, which casts every weight and keeps float32 between the products.
        """
        worker = copy.deepcopy(self.model)
        nn.Module.to(worker, torch.bfloat16)
        # Rounded frequencies would turn position 500 by more than a radian.
        worker.model.rotary_emb.inv_freq = self.model.model.rotary_emb.inv_freq.clone()
        return worker

    @torch.no_grad()
    def _refresh(self) -> None:
        if self.worker is not self.model:
            for mine, master in zip(self.worker.parameters(), self.model.parameters(), strict=True):
                mine.copy_(master)

    @property
    def checkpoint(self) -> Path:
        """Where the run is kept."""
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
        self._refresh()

    def inherit(self, folder: Path, layers: Sequence[int] | None = None) -> None:
        """Start from layers of the model in a folder (`model.inherit`): its first ones, or these."""
        layers = range(len(self.model.model.layers)) if layers is None else layers
        inherit(self.model, LlamaForCausalLM.from_pretrained(folder, dtype=torch.float32, local_files_only=True), layers)
        self._refresh()

    def step(self, batch: Batch) -> tuple[float, float]:
        """One optimizer step.

        Returns:
            loss of the full model and of the early exit, before the step (means over the processes).
        """
        factor = rate_factor(self.progress.tokens, self.settings)
        for optimizer, peaks in zip(self.optimizers, self.peaks, strict=True):
            for group, peak in zip(optimizer.param_groups, peaks, strict=True):
                group["lr"] = peak * factor
        full, early = self.loss(batch.tokens.to(self.device), batch.labels.to(self.device))
        (full if not self.loss.exits else (full + EXIT_WEIGHT * early) / (1 + EXIT_WEIGHT)).backward()
        if self.worker is not self.model:
            for mine, master in zip(self.worker.parameters(), self.model.parameters(), strict=True):
                assert mine.grad is not None
                master.grad, mine.grad = mine.grad.float(), None
        count, full_loss, early_loss = self._share(batch.tokens.numel(), full.item(), early.item())
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        for optimizer in self.optimizers:
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        self._refresh()
        self.progress.step += 1
        self.progress.tokens += count
        self.progress.chunk, self.progress.position = batch.chunk, batch.position
        return full_loss, early_loss

    def _share(self, count: int, full: float, early: float) -> tuple[int, float, float]:
        """Average gradients and losses over the processes, add up tokens: one message of the model's size."""
        if self.world == 1:
            return count, full, early
        gradients = [p.grad for p in self.model.parameters() if p.grad is not None]
        extra = torch.tensor([count, full, early], dtype=torch.float32, device=self.device)
        flat = torch.cat([gradient.flatten() for gradient in gradients] + [extra])
        distributed.all_reduce(flat)
        start = 0
        for gradient in gradients:
            gradient.copy_(flat[start : start + gradient.numel()].view_as(gradient)).div_(self.world)
            start += gradient.numel()
        count_sum, full_sum, early_sum = flat[start:].tolist()
        return round(count_sum), full_sum / self.world, early_sum / self.world

    def train(self, save_every: float = 120.0, log_every: int = 20) -> list[float]:
        """Train until the settings' number of tokens.

        Returns:
            the loss of every step taken here.
        """
        self.work.mkdir(parents=True, exist_ok=True)
        self.worker.train()
        progress, settings = self.progress, self.settings
        curriculum = Curriculum(ramp=settings.ramp, longest=settings.longest)
        source = batches(
            self.tokenizer, settings.seed, settings.batch, curriculum, progress.chunk, progress.position,
            self.rank, self.world,
        )  # fmt: skip
        losses: list[float] = []
        recent: list[tuple[float, float]] = []
        saved = mark = time.monotonic()
        mark_tokens = progress.tokens
        while progress.tokens < settings.tokens:
            recent.append(self.step(next(source)))
            losses.append(recent[-1][0])
            if progress.step % log_every == 0:
                now = time.monotonic()
                speed = (progress.tokens - mark_tokens) / (now - mark)
                progress.seconds += now - mark
                mark, mark_tokens = now, progress.tokens
                self._log(recent, speed)
                recent = []
            if self.rank == 0 and time.monotonic() - saved > save_every:
                self.save()
                saved = time.monotonic()
        if self.rank == 0:
            self.save()
        return losses

    def _log(self, recent: list[tuple[float, float]], speed: float) -> None:
        if self.rank:
            return
        progress = self.progress
        full, early = (sum(column) / len(recent) for column in zip(*recent, strict=True))
        line = {
            "step": progress.step, "tokens": progress.tokens, "loss": round(full, 4), "early": round(early, 4),
            "rate": round(rate_factor(progress.tokens, self.settings), 4), "chunk": progress.chunk,
            "tokens_per_second": round(speed), "seconds": round(progress.seconds, 1),
        }  # fmt: skip
        with (self.work / "loss.jsonl").open("a") as file:
            file.write(json.dumps(line) + "\n")
        left = max(0.0, self.settings.tokens - progress.tokens) / speed
        print(
            f"step {progress.step}  {progress.tokens / 1e6:.2f} of {self.settings.tokens / 1e6:.1f} M tokens  "
            f"loss {full:.3f}  early exit {early:.3f}  {speed:.0f} tokens/s  {left / 60:.0f} min left",
            flush=True,
        )


def work_on(rank: int, options: dict[str, Any]) -> None:
    """One process of a run; the others, if any, hold the same weights and other batches."""
    if options["threads"]:
        torch.set_num_threads(options["threads"])
    world = options["processes"]
    settings = Settings(**{name: options[name] for name in asdict(Settings()) if name in options})
    work = options["work"] or WORK / settings.size
    if world > 1:
        distributed.init_process_group("gloo", init_method=options["meeting"], rank=rank, world_size=world)
    run = Run(settings, work, pick_device(options["device"]), rank, world, options["start"])
    if options["resume"]:
        run.restore()
    elif options["start"]:
        run.inherit(options["start"], options["layers"])
    # A process started in the background ignores Ctrl-C otherwise; `kill` should save as well.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        run.train(save_every=options["save_every"])
    except KeyboardInterrupt:
        if rank == 0:
            run.save()
            print(f"Stopped. Go on with --resume; the checkpoint is {run.checkpoint}.")


def main() -> None:
    """Train a built-in model; checkpoints and the loss curve go to the work folder."""
    parser = argparse.ArgumentParser(prog="python -m specchat.builtin.train", description=main.__doc__)
    standard = Settings()
    parser.add_argument("--size", choices=list(SIZES), default=standard.size)
    parser.add_argument("--seed", type=int, default=standard.seed, help="of the weights and the corpus")
    parser.add_argument("--tokens", type=float, default=standard.tokens, help="when to stop, padding included")
    parser.add_argument("--batch", type=int, default=standard.batch, help="tokens in a step of one process")
    parser.add_argument("--rate", type=float, default=standard.rate, help="peak learning rate of AdamW")
    parser.add_argument("--matrix-rate", type=float, default=standard.matrix_rate, help="peak learning rate of Muon")
    parser.add_argument("--decay", type=float, default=standard.decay, help="share of the run in which the rate falls")
    parser.add_argument("--optimizer", choices=["adamw", "muon"], default=standard.optimizer)
    parser.add_argument("--ramp", type=int, default=standard.ramp, help="chats until texts reach their full length")
    parser.add_argument("--longest", type=int, default=standard.longest, help="longest chat in tokens")
    parser.add_argument("--resume", action="store_true", help="go on from the checkpoint")
    parser.add_argument("--start", type=Path, default=None, help="folder of a model of the same width to start from")
    parser.add_argument(
        "--layers", type=int, nargs="+", default=None, help="which of its layers, with --start (the first ones)"
    )
    parser.add_argument("--device", default="auto", help="auto, cpu or cuda")
    parser.add_argument("--threads", type=int, default=0, help="CPU threads of a process (0: torch's choice)")
    parser.add_argument(
        "--processes", type=int, default=1,
        help="on a busy CPU several processes of one thread beat one of several, which wait for each other in every layer",
    )  # fmt: skip
    parser.add_argument("--save-every", type=float, default=120.0, help="seconds between checkpoints")
    parser.add_argument("--work", type=Path, default=None, help="folder for checkpoints (default: builtin/work/SIZE)")
    options = vars(parser.parse_args())
    checkpoint = (options["work"] or WORK / options["size"]) / "checkpoint.pt"
    if options["resume"] and not checkpoint.is_file():
        sys.exit(f"There is no checkpoint in {checkpoint.parent}; start without --resume.")
    if options["processes"] == 1:
        work_on(0, options)
        return
    with tempfile.TemporaryDirectory() as folder:
        options["meeting"] = f"file://{folder}/meeting"
        spawned = multiprocessing.get_context("spawn")
        processes = [spawned.Process(target=work_on, args=(rank, options)) for rank in range(options["processes"])]

        def stop(*_: object) -> None:
            # They save, and end; joined below.
            for process in processes:
                process.terminate()

        for process in processes:
            process.start()
        signal.signal(signal.SIGTERM, stop)
        for process in processes:
            process.join()
        sys.exit(max(abs(process.exitcode or 0) for process in processes))


if __name__ == "__main__":
    main()
