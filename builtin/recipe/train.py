"""Train a built-in model, in one sitting or several.

    python -m specchat.builtin.recipe.train --tokens 16e6
    python -m specchat.builtin.recipe.train --tokens 32e6 --resume
    python -m specchat.builtin.recipe.train --tokens 8e6 --start builtin/weights/target # a new run, from weights that are there

The learning rate warms up, stays, and falls over the last fifth (WSD), so that a run may be continued with a larger
`--tokens` at any time. Data depends only on the seed and the position, both of which are in the checkpoint.
"""

import argparse
import multiprocessing
import signal
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import distributed
from transformers import LlamaForCausalLM

from . import tokenizer as tokens_of
from .data import Batch, Curriculum, batches
from .model import EXIT_WEIGHT, SIZES, TrainingLoss, build, inherit
from .training.run import TrainingRun, TrainingSettings, half, pick_device

WORK = Path(__file__).parent / "work"


@dataclass
class ModelSettings(TrainingSettings):
    """The settings of a run, saved in the checkpoint."""

    size: str = "target"
    ramp: int = 24_000
    longest: int = 1024


class ModelRun(TrainingRun[ModelSettings]):
    """A training run of one process, or of several that share their gradients."""

    model: LlamaForCausalLM
    worker: LlamaForCausalLM

    def __init__(
        self,
        settings: ModelSettings,
        work: Path,
        device: torch.device,
        rank: int = 0,
        world: int = 1,
        start: Path | None = None,
    ) -> None:
        self.rank = rank
        self.world = world
        self.tokenizer = self._tokenizer(work, start)
        model = build(SIZES[settings.size], settings.seed, device)
        super().__init__(settings, work, device, model, model if settings.size == "tiny" else half(model))
        self.loss = self.objective()

    def objective(self) -> TrainingLoss:
        """Make the module that computes the losses of a batch from its tokens and labels."""
        return TrainingLoss(self.worker, SIZES[self.settings.size].exits)

    def _tokenizer(self, work: Path, start: Path | None) -> Any:
        """Load the run's tokenizer: the saved one, that of the model it starts from, or a new one."""
        folder = work.parent / "tokenizer" if work.parent.name == "work" else work
        if start is not None:
            tokens_of.save(tokens_of.load(start), folder)
        elif not (folder / "tokenizer.json").is_file():
            print("Learning the tokenizer …", flush=True)
            tokens_of.save(tokens_of.train(tokens_of.texts()), folder)
        return tokens_of.load(folder)

    def inherit(self, folder: Path, layers: Sequence[int] | None = None) -> None:
        """Start from layers of the model in a folder (`model.inherit`): its first ones, or these."""
        layers = range(len(self.model.model.layers)) if layers is None else layers
        inherit(self.model, LlamaForCausalLM.from_pretrained(folder, dtype=torch.float32, local_files_only=True), layers)
        self.refresh()

    def batches(self) -> Iterator[Batch]:
        """Yield endless batches of the corpus from the run's position on."""
        settings, progress = self.settings, self.progress
        curriculum = Curriculum(ramp=settings.ramp, longest=settings.longest)
        return batches(
            self.tokenizer, settings.seed, settings.batch, curriculum, progress.chunk, progress.position,
            rank=self.rank, world=self.world,
        )  # fmt: skip

    def losses(self, batch: Batch) -> tuple[torch.Tensor, list[float]]:
        """Compute the loss to minimize, and the losses of the full model and of the early exits."""
        full, early = self.loss(batch.tokens.to(self.device), batch.labels.to(self.device))
        loss = (full + EXIT_WEIGHT * early) / (1 + EXIT_WEIGHT) if SIZES[self.settings.size].exits else full
        return loss, [full.item(), early.item()]

    def share(self, count: int, figures: list[float]) -> tuple[int, list[float]]:
        """Average gradients and figures over the processes, add up tokens: one message of the model's size."""
        if self.world == 1:
            return count, figures
        gradients = [p.grad for p in self.model.parameters() if p.grad is not None]
        extra = torch.tensor([count, *figures], dtype=torch.float32, device=self.device)
        flat = torch.cat([gradient.flatten() for gradient in gradients] + [extra])
        distributed.all_reduce(flat)
        start = 0
        for gradient in gradients:
            gradient.copy_(flat[start : start + gradient.numel()].view_as(gradient)).div_(self.world)
            start += gradient.numel()
        count_sum, *sums = flat[start:].tolist()
        return round(count_sum), [figure / self.world for figure in sums]

    @property
    def leads(self) -> bool:
        """Whether this is the first process."""
        return self.rank == 0

    def figures(self, means: Sequence[float]) -> tuple[dict[str, Any], str]:
        """Format the losses of the full model and of the early exits."""
        full, early = means
        return {"loss": round(full, 4), "early": round(early, 4)}, f"loss {full:.3f}  early exit {early:.3f}"


def work_on(rank: int, options: dict[str, Any]) -> None:
    """Run one process of a training; the others have the same weights and other batches."""
    if options["threads"]:
        torch.set_num_threads(options["threads"])
    world = options["processes"]
    settings = ModelSettings(**{name: options[name] for name in asdict(ModelSettings()) if name in options})
    work = options["work"] or WORK / settings.size
    if world > 1:
        distributed.init_process_group("gloo", init_method=options["meeting"], rank=rank, world_size=world)
    run = ModelRun(settings, work, pick_device(options["device"]), rank, world, options["start"])
    if options["compile"]:
        run.loss.compile_passes()
    if options["resume"]:
        run.restore()
    elif options["start"]:
        run.inherit(options["start"], options["layers"])
    run.train_until_stopped(options["save_every"])


def main() -> None:
    """Train a built-in model; checkpoints and the loss curve go to the work folder."""
    parser = argparse.ArgumentParser(prog="python -m specchat.builtin.recipe.train", description=main.__doc__)
    standard = ModelSettings()
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
    parser.add_argument(
        "--compile", action="store_true", help="let torch compile the passes: half a minute first, then 1.7 times as fast"
    )
    parser.add_argument("--threads", type=int, default=0, help="CPU threads of a process (0: torch's choice)")
    parser.add_argument(
        "--processes", type=int, default=1,
        help="on a busy CPU several processes of one thread beat one of several, which wait for each other in every layer",
    )  # fmt: skip
    parser.add_argument("--save-every", type=float, default=120.0, help="seconds between checkpoints")
    parser.add_argument("--work", type=Path, default=None, help="folder for checkpoints (default: builtin/recipe/work/SIZE)")
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
